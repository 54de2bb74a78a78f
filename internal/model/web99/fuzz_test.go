package web99

import (
	"bytes"
	"testing"
)

// FuzzRequest feeds every request-side parser: nothing panics, and what is accepted survives being
// built and read again.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"my_cookie=user_id=10018&last_ad=20", "found_cookie=Ad_id=-1&Ad_weight=0&Expired=1; path=/", "my_cookie=10018",
		"urlroot=/file_set/&dir=00012&class=1&num=3&client=10018\r", "command/Fetch",
		"command/Reset&maxload=500&pttime=1700000000&maxthread=4&exp=1,100&urlroot=/file_set/",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, ok := ParseCookie(b); ok {
			if again, ok := ParseCookie(AppendCookie(nil, c)); !ok || again != c {
				t.Errorf("cookie %v", c)
			}
		}
		if v, ok := ParseFound(b); ok {
			if again, ok := ParseFound(AppendFound(nil, v)); !ok || again != v {
				t.Errorf("found %v", v)
			}
		}
		if u, ok := ParseUserCookie(b); ok {
			if again, ok := ParseUserCookie(AppendUserCookie(nil, u)); !ok || again != u {
				t.Errorf("user %v", u)
			}
		}
		if p, ok := ParsePost(b); ok {
			q, ok := ParsePost(AppendPost(nil, &p))
			if !ok || !bytes.Equal(p.AppendFile(nil), q.AppendFile(nil)) || p.Client != q.Client {
				t.Errorf("post %v %v", p, q)
			}
		}
		if c, r, ok := ParseCommand(b); ok && c == CommandReset {
			if built := AppendReset(nil, &r); len(built) > len(b) {
				t.Errorf("%q became longer: %q", b, built)
			}
		}
	})
}

// FuzzTables: ParseTables does not panic, and accepted files are rebuilt with the same meaning.
func FuzzTables(f *testing.F) {
	f.Add([]byte("    0 10400802\n"), []byte("   54 1F10FFC0    97F61  75  936000000\n"))
	f.Fuzz(func(t *testing.T, users, ads []byte) {
		all := bytes.Repeat(ads, 1+Ads*AdSize/(len(ads)+1))
		if tb, err := ParseTables(users, all); err == nil && (len(tb.Users) == 0 || len(tb.Ads) != Ads) {
			t.Errorf("%d users, %d ads", len(tb.Users), len(tb.Ads))
		}
		if u, ok := ParseUser(users); ok {
			b, ok := AppendUser(nil, u)
			if again, ok2 := ParseUser(b); !ok || !ok2 || again != u {
				t.Errorf("user %v", u)
			}
		}
		if a, ok := ParseAd(ads); ok {
			b, ok := AppendAd(nil, &a)
			if again, ok2 := ParseAd(b); !ok || !ok2 || again != a {
				t.Errorf("ad %v", a)
			}
		}
	})
}

// FuzzPage: the parsers of a page and of a record do not panic and find nothing beyond the input.
func FuzzPage(f *testing.F) {
	f.Add([]byte(goldenHead))
	r := sampleRecord(2)
	record, _ := AppendRecord(nil, &r)
	f.Add(record)
	f.Fuzz(func(t *testing.T, b []byte) {
		var w Wrapper
		n := ParseHead(b, &w)
		if n > len(b) {
			t.Fatalf("offset %d in %d bytes", n, len(b))
		}
		if n > 0 {
			if short := ParseHead(b[:n-1], &w); short != 0 {
				t.Errorf("%d without its last byte gives %d", n, short)
			}
		}
		var r Record
		if ParseRecord(b, &r) {
			again, ok := AppendRecord(nil, &r)
			var r2 Record
			if !ok || !ParseRecord(again, &r2) || r2.Number != r.Number || !bytes.Equal(r2.File, r.File) {
				t.Errorf("record %q", b)
			}
		}
	})
}
