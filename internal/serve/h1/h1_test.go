package h1

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/page"
)

type named struct{ page.Page }

// The carrier itself is tested over real connections in package server.

func TestRoutes(t *testing.T) {
	pages := map[string]page.Page{}
	var routes []Route
	for _, path := range []string{"/a", "/a/", "/a/b/", "/a/b/c", "/", "/x/"} {
		pages[path] = &named{}
		routes = append(routes, Route{path, pages[path]})
	}
	s, err := NewSite(Config{Routes: routes})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/a": "/a", "/a/": "/a/", "/a/x": "/a/", "/a/b": "/a/", "/a/b/": "/a/b/", "/a/b/c": "/a/b/c", "/a/b/c/d": "/a/b/",
		"/": "/", "/b": "/", "/x": "/", "/x/y": "/x/",
	} {
		if r := s.find([]byte(path)); r == nil || r.path != want {
			t.Errorf("%s: %+v, want %s", path, r, want)
		}
	}
	s, _ = NewSite(Config{Routes: routes[:1]})
	if r := s.find([]byte("/a/")); r != nil {
		t.Errorf("an exact route took %s", "/a/")
	}
}

func TestFieldLines(t *testing.T) {
	for head, want := range map[string]string{
		"GET / HTTP/1.0\r\n\r\n":                        "",
		"GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n":     "Host: a\r\nB: c\r\n",
		"\r\nGET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n": "Host: a\r\nB: c\r\n",
	} {
		if got := string(fieldLines([]byte(head))); got != want {
			t.Errorf("%q: %q", head, got)
		}
	}
}

// What is escaped in a location means the same path again, and holds nothing that ends a header line or
// turns the location into another host.
func FuzzEscaped(f *testing.F) {
	for _, s := range []string{"/", "/a b", "/ä", "/%", "/a?b#c", "/\x7f\"<>", "/;=@:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		clean, ok := httpwire.CleanPath(nil, []byte(s))
		if !ok {
			return
		}
		got := appendEscaped(nil, clean)
		if strings.ContainsAny(string(got), " \r\n\"<>?#\\") || strings.HasPrefix(string(got), "//") {
			t.Errorf("%q became %q", clean, got)
		}
		if again, ok := httpwire.CleanPath(nil, got); !ok || string(again) != string(clean) {
			t.Errorf("%q became %q, which means %q", clean, got, again)
		}
	})
}

func TestWorkers(t *testing.T) {
	const most, pieces = 4, 3000
	w := NewWorkers(most)
	var now, peak, done atomic.Int64
	var all sync.WaitGroup
	all.Add(pieces)
	gate := make(chan bool)
	for i := range pieces {
		w.submit(func() {
			defer all.Done()
			if n := now.Add(1); n > peak.Load() {
				peak.Store(n)
			}
			if i < most {
				<-gate // as many at once as there may be, or this never ends
			}
			now.Add(-1)
			done.Add(1)
		})
	}
	for range most {
		gate <- true
	}
	all.Wait()
	if p := peak.Load(); p > most {
		t.Errorf("%d at once", p)
	}
	w.submit(func() { done.Add(1) })
	<-w.Close()
	if n := done.Load(); n != pieces+1 {
		t.Errorf("%d pieces done", n)
	}
}
