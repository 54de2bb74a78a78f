package web99

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAdRecordLooksLikeTheKnownSample(t *testing.T) {
	ad := Ad{ID: 54, Demographics: 0x1F10FFC0, Weights: 0x97F61, MinMatch: 75, Expiry: 936000000}
	got, ok := AppendAd(nil, &ad)
	want := "   54 1F10FFC0    97F61  75  936000000\n"
	if !ok || string(got) != want || len(got) != AdSize {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	if sum := ad.Match(0xFFFFFFFF); sum != 9+7+15+6+1 {
		t.Errorf("all weights sum to %d, want 38", sum)
	}
}

func TestUserRecord(t *testing.T) {
	got, ok := AppendUser(nil, User{7, 0x1040_0802})
	if want := "    7 10400802\n"; !ok || string(got) != want || len(got) != UserSize {
		t.Fatalf("got %q, want %q", got, want)
	}
}

func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := User{rapid.Int32Range(0, 99999).Draw(t, "index"), rapid.Uint32().Draw(t, "word")}
		b, ok := AppendUser(nil, u)
		if back, ok2 := ParseUser(b); !ok || !ok2 || back != u {
			t.Fatalf("%v -> %q -> %v", u, b, back)
		}
		a := Ad{
			rapid.Int32Range(0, 99999).Draw(t, "id"), rapid.Uint32().Draw(t, "demographics"), rapid.Uint32().Draw(t, "weights"),
			rapid.Int32Range(0, 999).Draw(t, "match"), rapid.Int64Range(0, 9_999_999_999).Draw(t, "expiry"),
		}
		b, ok = AppendAd(nil, &a)
		if back, ok2 := ParseAd(b); !ok || !ok2 || back != a {
			t.Fatalf("%v -> %q -> %v", a, b, back)
		}
	})
}

func TestRecordsRefuseWhatDoesNotFit(t *testing.T) {
	before := []byte("kept")
	for _, u := range []User{{-1, 0}, {100000, 0}} {
		if b, ok := AppendUser(before, u); ok || string(b) != "kept" {
			t.Errorf("user %v: %q, %v", u, b, ok)
		}
	}
	for _, a := range []Ad{{ID: -1}, {ID: 100000}, {MinMatch: 1000}, {MinMatch: -1}, {Expiry: 10_000_000_000}, {Expiry: -1}} {
		if b, ok := AppendAd(before, &a); ok || string(b) != "kept" {
			t.Errorf("ad %v: %q, %v", a, b, ok)
		}
	}
	for _, s := range []string{"", "    7 10400802", "    7 10400802x", "   +7 10400802\n", "    7x10400802\n", "    7        G\n", "7     10400802\n", "      10400802\n"} {
		if u, ok := ParseUser([]byte(s)); ok {
			t.Errorf("ParseUser(%q) = %v", s, u)
		}
	}
}

func tables(t testing.TB, users []uint32, ads []Ad) (ub, ab []byte) {
	for i, w := range users {
		ub, _ = AppendUser(ub, User{int32(i), w})
	}
	for i := range ads {
		var ok bool
		if ab, ok = AppendAd(ab, &ads[i]); !ok {
			t.Fatalf("ad %v does not fit", ads[i])
		}
	}
	return ub, ab
}

func TestParseTables(t *testing.T) {
	ads := make([]Ad, Ads+1)
	for i := range ads {
		ads[i] = Ad{ID: int32(i), Expiry: 1}
	}
	ub, ab := tables(t, []uint32{5, 6, 7}, ads)
	got, err := ParseTables(ub, ab)
	if err != nil || len(got.Users) != 3 || got.Users[2] != 7 || len(got.Ads) != Ads || got.Ads[359].ID != 359 {
		t.Fatalf("%v, %v", got, err)
	}
	swapped := append(append(append([]byte(nil), ub[15:30]...), ub[:15]...), ub[30:]...)
	for _, c := range []struct {
		name, users, ads, want string
	}{
		{"none", "", string(ab), "no users"},
		{"torn", string(ub[:20]), string(ab), "whole records"},
		{"torn ads", string(ub), string(ab[:len(ab)-1]), "whole records"},
		{"few ads", string(ub), string(ab[:39*359]), "359 ads, need 360"},
		{"order", string(swapped), string(ab), "record 0 is not that of user 0"},
		{"ad order", string(ub), string(ab[39:]), "record 0 is not that of ad 0"},
		{"too many", strings.Repeat("x", 15*(MaxUsers+1)), string(ab), "at most 100000"},
	} {
		if _, err := ParseTables([]byte(c.users), []byte(c.ads)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// naiveSelect follows the description step by step, with lists instead of arithmetic.
func naiveSelect(t *Tables, user, last int, now int64) (id, weight int, expired bool) {
	if user < 0 || user >= len(t.Users) || last < 0 || last > 359 {
		return -1, 0, true
	}
	groups := []struct{ mask, shift uint32 }{{0x30000000, 16}, {0x0F000000, 12}, {0x00F00000, 8}, {0x000FFC00, 4}, {0x000003FF, 0}}
	var circle []int
	for i := last + 1; i < 360; i++ {
		circle = append(circle, i)
	}
	for i := 0; i < last; i++ {
		circle = append(circle, i)
	}
	id = last
	for _, i := range circle {
		sum := uint32(0)
		for _, g := range groups {
			if t.Users[user]&t.Ads[i].Demographics&g.mask > 0 {
				sum += (t.Ads[i].Weights >> g.shift) % 16
			}
		}
		weight = int(sum)
		if weight >= int(t.Ads[i].MinMatch) {
			id = i
			break
		}
	}
	if now <= t.Ads[id].Expiry {
		return id, weight, false
	}
	return id, weight, true
}

func TestSelectAgreesWithTheNaiveModel(t *testing.T) {
	var byLast, kept int
	rapid.Check(t, func(t *rapid.T) {
		floor := rapid.SampledFrom([]int32{0, 1, 20, 60, 70, 76}).Draw(t, "floor")
		ads := make([]Ad, Ads)
		for i := range ads {
			ads[i] = Ad{ID: int32(i), Expiry: 100}
		}
		for range rapid.IntRange(0, 40).Draw(t, "special") {
			i := rapid.IntRange(0, 359).Draw(t, "at")
			ads[i].Demographics = rapid.Uint32().Draw(t, "demographics")
			ads[i].Weights = rapid.Uint32().Draw(t, "weights")
			ads[i].Expiry = rapid.Int64Range(90, 110).Draw(t, "expiry")
		}
		for i := range ads {
			ads[i].MinMatch = floor
		}
		tb := &Tables{Users: []uint32{rapid.Uint32().Draw(t, "user"), 0}, Ads: ads}
		user := rapid.Int32Range(-1, 2).Draw(t, "index")
		last := rapid.OneOf(rapid.SampledFrom([]int32{-1, 0, 1, 358, 359, 360}), rapid.Int32Range(0, 359)).Draw(t, "last")
		now := rapid.Int64Range(90, 110).Draw(t, "now")
		got := tb.Select(user, last, now)
		id, weight, expired := naiveSelect(tb, int(user), int(last), now)
		if got != (Found{int32(id), int32(weight), expired}) {
			t.Fatalf("Select(%d, %d, %d) = %+v, naive: %d %d %v", user, last, now, got, id, weight, expired)
		}
		if got.Ad >= 0 && got.Ad == last {
			byLast++
		} else {
			kept++
		}
	})
	if byLast == 0 || kept == 0 {
		t.Errorf("only one kind of outcome was drawn: %d without a match, %d with", byLast, kept)
	}
}

func TestSelectOddities(t *testing.T) {
	ads := make([]Ad, Ads)
	for i := range ads {
		ads[i] = Ad{ID: int32(i), Demographics: 0x3, Weights: uint32(i % 10), MinMatch: 50, Expiry: 1000}
	}
	ads[0].Expiry = 5
	tb := &Tables{Users: []uint32{1}, Ads: ads}
	for _, c := range []struct {
		name string
		last int32
		now  int64
		want Found
	}{
		{"nothing matches: last ad, weight of the ad before it", 14, 1, Found{14, 3, false}},
		{"from ad 0 the circle stops at the wrap", 0, 1, Found{0, 9, false}},
		{"from ad 1 the one before is ad 0", 1, 1, Found{1, 0, false}},
		{"from the last ad", 359, 1, Found{359, 8, false}},
		{"not yet expired at its expiry", 0, 5, Found{0, 9, false}},
		{"expired a second later", 0, 6, Found{0, 9, true}},
		{"not an ad", 360, 1, Found{-1, 0, true}},
	} {
		if got := tb.Select(0, c.last, c.now); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	if got := tb.Select(1, 0, 1); got != NoAd() {
		t.Errorf("unknown user: %+v", got)
	}
}

func TestAdFile(t *testing.T) {
	for id, want := range map[int32]string{0: "dir00000/class0_0", 8: "dir00000/class0_8", 9: "dir00000/class1_0", 54: "dir00001/class2_0", 359: "dir00009/class3_8"} {
		if got := string(AppendAdFile(nil, id)); got != want || len(got) != TagName {
			t.Errorf("ad %d: %s, want %s", id, got, want)
		}
	}
}

func TestTagOffsets(t *testing.T) {
	if Tag[TagOffset:TagOffset+TagName] != "dirNNNNN/classX_Y" || len(Tag) != 62 {
		t.Fatalf("%q of %d bytes", Tag[TagOffset:TagOffset+TagName], len(Tag))
	}
}

func TestRewrite(t *testing.T) {
	src := "a" + Tag + "\n" + Tag + Tag[:61] + "x" + Tag[1:] + "tail"
	name := []byte("dir00001/class2_0")
	filled := strings.Replace(Tag, "dirNNNNN/classX_Y", string(name), 1)
	want := "kept" + strings.ReplaceAll(src, Tag, filled)
	got := Rewrite([]byte("kept"), []byte(src), name)
	if string(got) != want {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
	if again := Rewrite(nil, got, name); !bytes.Equal(again, got) {
		t.Errorf("a second rewrite changed something")
	}
}

func TestClassOf(t *testing.T) {
	for path, want := range map[string]int{
		"/file_set/dir00000/class0_0": 0, "/class3_8": 3, "class1_1": -1, "/class4_0": -1, "/class1_9": -1, "/class1-1": -1,
		"/classx_1": -1, "/class1_1/": -1, "": -1, "/class10_1": -1,
	} {
		got, ok := ClassOf([]byte(path))
		if ok != (want >= 0) || ok && int(got) != want {
			t.Errorf("%q: %d, %v", path, got, ok)
		}
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	ads := make([]Ad, Ads)
	for i := range ads {
		ads[i] = Ad{ID: int32(i), MinMatch: 99}
	}
	tb := &Tables{Users: []uint32{1}, Ads: ads}
	src := []byte(strings.Repeat(strings.Repeat("x", 63)+"\n", 100) + Tag)
	dst := make([]byte, 0, 2*len(src))
	head := AppendHead(nil, &Wrapper{Software: []byte("S"), Remote: []byte("::1"), Script: []byte("/s"), Query: []byte("/a&b")})
	query, cookie := []byte("/a&b"), []byte("x=y; my_cookie=user_id=10018&last_ad=7")
	found := []byte("found_cookie=Ad_id=7&Ad_weight=38&Expired=0; path=/")
	body := []byte("urlroot=/file_set/&dir=00012&class=1&num=3&client=10018\r")
	record, _ := AppendRecord(nil, &Record{File: []byte("/f")})
	name := AppendAdFile(nil, 54)
	var w Wrapper
	var r Record
	bad := 0
	if n := testing.AllocsPerRun(100, func() {
		tb.Select(0, 5, 1)
		dst = Rewrite(dst[:0], src, name)
		_, ok1 := ParseCookie(cookie)
		_, ok2 := ParseFound(found)
		_, ok3 := ParsePost(body)
		if ParseHead(head, &w) != len(head) || !Holds(w.Query, query) || !ok1 || !ok2 || !ok3 || !ParseRecord(record, &r) {
			bad++
		}
		dst, _ = AppendRecord(dst[:0], &r)
		dst = AppendHead(dst[:0], &w)
		_, _, ok1 = ParseCommand(query)
	}); n != 0 || bad != 0 {
		t.Errorf("%v allocations, %d wrong answers", n, bad)
	}
}

func BenchmarkRewrite(b *testing.B) {
	line := strings.Repeat("x", 63) + "\n"
	src := []byte(strings.Repeat(strings.Repeat(line, 60)+"x"+Tag+"\n", 9))
	name := AppendAdFile(nil, 54)
	dst := make([]byte, 0, len(src))
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		dst = Rewrite(dst[:0], src, name)
	}
}

func BenchmarkSelectFullCircle(b *testing.B) {
	ads := make([]Ad, Ads)
	for i := range ads {
		ads[i] = Ad{ID: int32(i), MinMatch: 99, Demographics: 0xFFFFFFFF, Weights: 0x11111}
	}
	tb := &Tables{Users: []uint32{0xFFFFFFFF}, Ads: ads}
	for b.Loop() {
		tb.Select(0, 5, 1)
	}
}
