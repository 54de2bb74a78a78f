package web99

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseCookie(t *testing.T) {
	for in, want := range map[string]Cookie{
		"my_cookie=user_id=10018&last_ad=20":              {10018, 20},
		"a=b; my_cookie=user_id=10000&last_ad=0 ; c=d":    {10000, 0},
		"my_cookie=user_id=2147483647&last_ad=359":        {1<<31 - 1, 359},
		"my_cookie=user_id=00010018&last_ad=007;":         {10018, 7},
		"my_cookiex=1; my_cookie=user_id=10001&last_ad=1": {10001, 1},
	} {
		if got, ok := ParseCookie([]byte(in)); !ok || got != want {
			t.Errorf("%q: %v, %v", in, got, ok)
		}
	}
	for _, in := range []string{
		"", "my_cookie=", "my_cookie=user_id=10018", "my_cookie=user_id=&last_ad=2", "my_cookie=user_id=1&last_ad=",
		"my_cookie=user_id=-1&last_ad=2", "my_cookie=user_id=1&last_ad=-1", "my_cookie=user_id=2147483648&last_ad=1",
		"my_cookie=user_id=1&last_ad=2&x=3", "my_cookie=user_id=1 &last_ad=2", "My_cookie=user_id=1&last_ad=2",
	} {
		if got, ok := ParseCookie([]byte(in)); ok {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func TestCookiesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Cookie{rapid.Int32Min(0).Draw(t, "user"), rapid.Int32Min(0).Draw(t, "last")}
		if got, ok := ParseCookie(AppendCookie(nil, c)); !ok || got != c {
			t.Fatalf("%v -> %v, %v", c, got, ok)
		}
		f := Found{rapid.Int32Range(-1, 359).Draw(t, "ad"), rapid.Int32Range(0, 75).Draw(t, "weight"), rapid.Bool().Draw(t, "expired")}
		if got, ok := ParseFound(append(AppendFound(nil, f), "; Path=/"...)); !ok || got != f {
			t.Fatalf("%v -> %v, %v", f, got, ok)
		}
		if got, ok := ParseUserCookie(AppendUserCookie(nil, c.User)); !ok || got != c.User {
			t.Fatalf("%v -> %v, %v", c.User, got, ok)
		}
	})
}

func TestParseFoundRefuses(t *testing.T) {
	if got := string(AppendFound(nil, NoAd())); got != "found_cookie=Ad_id=-1&Ad_weight=0&Expired=1" {
		t.Errorf("error cookie: %s", got)
	}
	for _, in := range []string{"", "found_cookie=Ad_id=1&Ad_weight=2&Expired=2", "found_cookie=Ad_id=-2&Ad_weight=2&Expired=1",
		"found_cookie=Ad_id=1&Ad_weight=2&Expired=", "found_cookie=Ad_id=1&Expired=1", "x; found_cookie=Ad_id=1&Ad_weight=2&Expired=1"} {
		if got, ok := ParseFound([]byte(in)); ok {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func TestParsePost(t *testing.T) {
	want := Post{[]byte("/file_set/"), 12, 1, 3, 10018}
	for _, in := range []string{
		"urlroot=/file_set/&dir=00012&class=1&num=3&client=10018",
		"urlroot=/file_set/&dir=00012&class=1&num=3&client=10018\r",
		"urlroot=/file_set/&dir=00012&class=1&num=3&client=10018\r\n",
		"client=10018&num=3&class=1&dir=12&urlroot=/file_set/",
	} {
		got, ok := ParsePost([]byte(in))
		if !ok || cmp.Diff(got, want) != "" {
			t.Errorf("%q: %v, %v", in, got, ok)
		}
		if file := string(got.AppendFile(nil)); file != "/file_set/dir00012/class1_3" {
			t.Errorf("%q: file %s", in, file)
		}
	}
	good := "urlroot=/file_set/&dir=00012&class=1&num=3&client=10018"
	for _, r := range []string{"urlroot=file_set/", "urlroot=/file_set", "urlroot=", "urlroot=/a b/", "urlroot=/a/\r\n/",
		"dir=100000", "dir=-1", "dir=", "class=4", "class=", "class=11", "num=9", "client=", "client=x", "client=2147483648", "more=1", "class"} {
		name, _, _ := strings.Cut(r, "=")
		fields := strings.Split(good, "&")
		for i, f := range fields {
			if strings.HasPrefix(f, name+"=") {
				fields[i] = r
			}
		}
		in := strings.Join(fields, "&")
		if name == "more" || in == good {
			in += "&" + r
		}
		if got, ok := ParsePost([]byte(in)); ok {
			t.Errorf("%q: %v", in, got)
		}
	}
	for _, in := range []string{"", "\r", "&", good + "&", "&" + good, good + "&dir=00012", good[:len(good)-13], good + "\r\r", good + "\n\r"} {
		if got, ok := ParsePost([]byte(in)); ok {
			t.Errorf("%q: %v", in, got)
		}
	}
}

func TestPostRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Post{
			[]byte(rapid.StringMatching(`/([a-z_]{1,9}/)*`).Draw(t, "root")), rapid.Int32Range(0, 99999).Draw(t, "dir"),
			rapid.Uint8Range(0, 3).Draw(t, "class"), rapid.Uint8Range(0, 8).Draw(t, "num"), rapid.Int32Min(0).Draw(t, "client"),
		}
		if got, ok := ParsePost(AppendPost(nil, &p)); !ok || cmp.Diff(got, p) != "" {
			t.Fatalf("%v -> %v, %v", p, got, ok)
		}
	})
}

func TestParseCommand(t *testing.T) {
	r := Reset{MaxLoad: 500, PointTime: 1700000000, MaxThread: 4, ExpA: 1, ExpB: 100, URLRoot: []byte("/file_set/")}
	query := string(AppendReset(nil, &r))
	if want := "command/Reset&maxload=500&pttime=1700000000&maxthread=4&exp=1,100&urlroot=/file_set/"; query != want {
		t.Fatalf("built %q", query)
	}
	if c, got, ok := ParseCommand([]byte(query)); c != CommandReset || !ok || cmp.Diff(got, r) != "" {
		t.Errorf("%v %v %v", c, got, ok)
	}
	if c, _, ok := ParseCommand(AppendFetch(nil)); c != CommandFetch || !ok {
		t.Errorf("Fetch: %v %v", c, ok)
	}
	for _, in := range []string{"", "/file_set/dir00000/class0_0", "Command/Reset", "command"} {
		if c, _, ok := ParseCommand([]byte(in)); c != NotCommand || !ok {
			t.Errorf("%q: %v %v", in, c, ok)
		}
	}
	for _, in := range []string{
		"command/", "command/fetch", "command/Fetch&", "command/Reset", query[:len(query)-20], query + "&x=1", query + " ",
		strings.Replace(query, "exp=1,100", "exp=1", 1), strings.Replace(query, "500", "-1", 1), strings.Replace(query, "=4", "=", 1),
		"command/Reset&pttime=1&maxload=5&maxthread=4&exp=1,100&urlroot=/",
	} {
		if c, got, ok := ParseCommand([]byte(in)); ok {
			t.Errorf("%q: %v %v", in, c, got)
		}
	}
}
