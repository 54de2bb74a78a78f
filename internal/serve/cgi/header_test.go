package cgi

import (
	"fmt"
	"strings"
	"testing"

	"tidemark.dev/page"
)

func TestParseHeader(t *testing.T) {
	for in, want := range map[string]string{
		"Content-Type: text/plain\n\nbody":                                    `0 "text/plain" "" -1 []`,
		"content-type:text/plain \r\n\r\nbody":                                `0 "text/plain" "" -1 []`,
		"Status: 404 Not Found\nX-One: a\nX-Two:  b c \n\n":                   `404 "" "" -1 [{X-One a} {X-Two b c}]`,
		"Status: 404\n\n":                                                     `404 "" "" -1 []`,
		"Location: http://x/\nContent-Length: 4\n\nbody":                      `0 "" "http://x/" 4 []`,
		"Content-Type: t\nConnection: close\nDate: x\nServer: y\nTE: z\n\n":   `0 "t" "" -1 []`,
		"Set-Cookie: a=b\nSet-Cookie: c=d\nContent-Type: t\nX-Empty:\n\nmore": `0 "t" "" -1 [{Set-Cookie a=b} {Set-Cookie c=d} {X-Empty }]`,
	} {
		var h header
		n, err := parseHeader([]byte(in), &h)
		got := fmt.Sprintf("%d %q %q %d %v", h.status, h.ctype, h.location, h.length, h.others)
		end := strings.Index(strings.ReplaceAll(in, "\r\n", ".\n"), "\n\n")
		if err != nil || got != want || end >= 0 && n != end+2 {
			t.Errorf("%q: %d %s %v, want %s", in, n, got, err, want)
		}
		for cut := range n {
			if m, err := parseHeader([]byte(in[:cut]), &h); m != 0 || err != nil {
				t.Errorf("%q: %d, %v", in[:cut], m, err)
			}
		}
	}
}

func TestParseHeaderRefuses(t *testing.T) {
	for _, in := range []string{
		"\n", "X-One: a\n\n", "Content-Length: 0\n\n", "<html>\n\n", "Content-Type text\n\n", ": x\n\n", "Content-Type : t\n\n",
		"Content-Type: t\n folded\n\n", "Content-Type: t\nContent-Type: u\n\n", "Status: 200\nstatus: 200\n\n", "Status: 099\n\n",
		"Status: 100\n\n", "Status: 600\n\n", "Status: 20\n\n", "Status: 2000\n\n", "Status: +20\n\n", "Status: 200OK\n\n", "Status:\n\n",
		"Content-Type: a\x00b\n\n", "Content-Type: a\rb\n\n", "Content-Type:\n\n", "Location: \n\n", "Content-Length: -1\n\n",
		"Content-Length: 1\nContent-Length: 1\n\n", "Content-Type: t\nBad\x80: x\n\n", strings.Repeat("X: y\n", 200), "X: " + strings.Repeat("y", maxHeader),
		"HTTP/1.1 200 OK\nContent-Type: t\n\n",
	} {
		var h header
		if n, err := parseHeader([]byte(in), &h); err == nil {
			t.Errorf("%.80q: %d %+v", in, n, h)
		}
	}
}

func TestApply(t *testing.T) {
	for in, want := range map[string]string{
		"Location: /x\n\n":                       "302  Location: /x\r\n",
		"Location: /x\nStatus: 301\nA: b\n\n":    "301  Location: /x\r\nA: b\r\n",
		"Content-Type: text/css\n\n":             "200 text/css ",
		"Content-Type: a\nStatus: 503 Sorry\n\n": "503 a ",
	} {
		var h header
		var rs page.Response
		if _, err := parseHeader([]byte(in), &h); err != nil {
			t.Fatal(err)
		}
		h.apply(&rs)
		v := rs.View()
		if got := fmt.Sprintf("%d %s %s", v.Status, v.Type, v.Fields); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte("Status: 404 Not Found\r\nContent-Type: text/plain\r\nX-One: a\r\nContent-Length: 4\r\n\r\nbody"), 9)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		var h, again header
		n, err := parseHeader(b, &h)
		if n < 0 || n > len(b) || n > maxHeader || err != nil && n != 0 {
			t.Fatalf("%d of %d, %v", n, len(b), err)
		}
		if n == 0 {
			return
		}
		if m, err := parseHeader(b[:n], &again); m != n || err != nil || fmt.Sprint(h) != fmt.Sprint(again) {
			t.Errorf("the same header without a body: %d, %v", m, err)
		}
		if cut = int(uint(cut) % uint(n)); cut < n {
			if m, err := parseHeader(b[:cut], &again); m != 0 || err != nil {
				t.Errorf("%d of %d bytes: %d, %v", cut, n, m, err)
			}
		}
		var rs page.Response
		h.apply(&rs)
		v := rs.View()
		if lines := strings.Count(string(v.Fields), "\n"); lines > len(h.others)+1 || v.Status < 200 || v.Status > 599 {
			t.Errorf("%d %q", v.Status, v.Fields)
		}
	})
}
