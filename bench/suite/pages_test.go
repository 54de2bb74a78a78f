package suite

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// Every dynamic request is one that a server reads to its end and a page understands.
func TestRequests(t *testing.T) {
	w, err := workload.Preset("web99")
	if err != nil {
		t.Fatal(err)
	}
	op := workload.Op{File: fileset.File{Dir: 7, Class: 2, Num: 3}}
	for _, kind := range Kinds() {
		in := bufio.NewReader(strings.NewReader(request(w, kind, &op, 123)))
		rq, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		body := make([]byte, max(0, rq.ContentLength))
		if n, err := rq.Body.Read(body); n != len(body) {
			t.Errorf("%s: body %q, %v", kind, body[:n], err)
		}
		if in.Buffered() != 0 {
			t.Errorf("%s: %d bytes too many", kind, in.Buffered())
		}
		if kind == "cad" || kind == "post" {
			if c, ok := web99.ParseCookie([]byte(rq.Header.Get("Cookie"))); !ok || c.User != 23+web99.UserOffset || c.LastAd != 123*7%360 {
				t.Errorf("%s: cookie %+v, %v", kind, c, ok)
			}
		}
		switch kind {
		case "get", "cad", "cgi":
			if rq.URL.RawQuery != "/file_set/dir00007/class2_3" {
				t.Errorf("%s: query %q", kind, rq.URL.RawQuery)
			}
		case "post":
			if p, ok := web99.ParsePost(body); !ok || p.Dir != 7 || p.Class != 2 || p.Num != 3 || p.Client != 123 {
				t.Errorf("%s: %+v, %v", kind, p, ok)
			}
		default:
			if c, _, ok := web99.ParseCommand([]byte(rq.URL.RawQuery)); !ok || c == web99.NotCommand {
				t.Errorf("%s: query %q", kind, rq.URL.RawQuery)
			}
		}
	}
}

// Lanes that ask for different things are told apart by that.
func TestLaneNames(t *testing.T) {
	c := Light(64)
	sc := &Scenario{List: Mix, Reference: Lane{Server: "s", Client: c}, Lanes: []Lane{{Server: "s", Client: c, List: "get"}}}
	if a, b := sc.name(sc.Reference), sc.name(sc.Lanes[0]); a != "s: mix" || b != "s: get" {
		t.Errorf("%q, %q", a, b)
	}
}
