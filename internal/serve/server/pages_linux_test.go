package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"tidemark.dev/internal/serve/cgi"
	"tidemark.dev/page"
)

func hello(rq *page.Request, rs *page.Response) {
	rs.Append("hello ")
	rs.Write(rq.Query)
}

// reader is a page that answers with the file its query names, between a head and a tail.
type reader struct{ files page.Files }

func (p *reader) Open(ctx *page.Context) error { p.files = ctx.Files; return nil }
func (p *reader) Close() error                 { return nil }
func (p *reader) Serve(rq *page.Request, rs *page.Response) {
	f, err := p.files.Open(rq.Query)
	if err != nil {
		rs.Status(404)
		return
	}
	if len(rq.Cookie) > 0 {
		rs.Append("<head>")
		rs.Tail([]byte("<tail>"))
	}
	rs.SetFile(f)
}

func TestPageSeesTheRequest(t *testing.T) {
	for _, detached := range []bool{false, true} {
		var seen string
		p := &script{detached: detached, serve: func(rq *page.Request, rs *page.Response) {
			if rq.Local.Addr().String() != "127.0.0.1" || rq.Local.Port() == 0 || rq.Remote.String() != "127.0.0.1" || rq.RemotePort == 0 {
				seen = fmt.Sprint(rq.Local, rq.Remote, rq.RemotePort)
			}
			fmt.Fprintf(rs, "%s|%s|%s|%s|%s|%s|%s|%s|%s|%s", rq.Method, rq.Path, rq.Script, rq.Query, rq.Proto, rq.Host,
				rq.Cookie, rq.ContentType, rq.Field("x-more"), rq.Body)
		}}
		s := serve(t, func(o *Options) {
			o.Pages = []Route{{Path: "/exact", Page: p}, {Path: "/tree/", Page: p}, {Path: "/tree/deeper/", Page: p}}
		})
		w := s.dial()
		for text, want := range map[string]string{
			request("GET", "/exact?a=b", "Cookie: c=1; d", "X-More:  y z "):                              "GET|/exact|/exact|a=b|HTTP/1.1|test|c=1; d||y z|",
			request("GET", "/ex%61ct"):                                                                   "GET|/exact|/exact||HTTP/1.1|test||||",
			request("GET", "/x/..//exact?%41"):                                                           "GET|/exact|/exact|%41|HTTP/1.1|test||||",
			request("GET", "/tree/"):                                                                     "GET|/tree/|/tree||HTTP/1.1|test||||",
			request("GET", "/tree/a%20b?"):                                                               "GET|/tree/a b|/tree||HTTP/1.1|test||||",
			request("GET", "/tree/deeper/x"):                                                             "GET|/tree/deeper/x|/tree/deeper||HTTP/1.1|test||||",
			request("POST", "/exact", "Content-Length: 5", "Content-Type: t/x") + "12345":                "POST|/exact|/exact||HTTP/1.1|test||t/x||12345",
			request("POST", "/exact", "Transfer-Encoding: chunked") + "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n": "POST|/exact|/exact||HTTP/1.1|test||||abcde",
			request("PATCH", "/exact", "Content-Length: 0"):                                              "PATCH|/exact|/exact||HTTP/1.1|test||||",
			request("BREW", "/exact"):                                                                    "BREW|/exact|/exact||HTTP/1.1|test||||",
			"GET /exact HTTP/1.0\r\nConnection: keep-alive\r\n\r\n":                                      "GET|/exact|/exact||HTTP/1.0|||||",
		} {
			w.send(text)
			method, _, _ := strings.Cut(text, " ")
			if a := w.next(method); a.body != want || a.StatusCode != 200 {
				t.Errorf("%q: %d %q, want %q", text, a.StatusCode, a.body, want)
			}
		}
		if seen != "" {
			t.Errorf("addresses: %s", seen)
		}
		for _, path := range []string{"/exact/", "/exac", "/tree", "/treex/"} {
			if a := s.get(path); a.StatusCode != 404 {
				t.Errorf("%s: %d", path, a.StatusCode)
			}
		}
		s.end()
		if p.opened == nil || !p.closed {
			t.Error("not opened and closed")
		}
	}
}

func TestPageAnswers(t *testing.T) {
	big := pattern(300_000)
	for _, detached := range []bool{false, true} {
		p := &script{detached: detached, serve: func(rq *page.Request, rs *page.Response) {
			switch string(rq.Query) {
			case "empty":
			case "created":
				rs.Status(201)
				rs.Type("")
				rs.Cookie([]byte("a=b"))
				rs.Field("X-Y", "z")
			case "none":
				rs.Status(204)
				rs.Append("not sent")
			case "same":
				rs.Status(304)
				rs.Append("not sent")
			case "odd":
				rs.Status(99)
			case "big":
				rs.Append(big)
			case "bigtail":
				rs.Append("head").Tail([]byte(big))
			case "panic":
				rs.Append("half an answer")
				panic("page")
			}
		}}
		s := serve(t, func(o *Options) { o.Pages = []Route{{Path: "/p", Page: p}} })
		w := s.dial()
		for _, c := range []struct {
			query  string
			status int
			body   string
		}{
			{"empty", 200, ""}, {"created", 201, ""}, {"none", 204, ""}, {"same", 304, ""}, {"odd", 500, "500 Internal Server Error\n"},
			{"big", 200, big}, {"panic", 500, "500 Internal Server Error\n"}, {"bigtail", 200, "head" + big}, {"empty", 200, ""},
		} {
			w.send(request("GET", "/p?"+c.query))
			a := w.next("GET")
			if a.StatusCode != c.status || a.body != c.body {
				t.Errorf("%s: %d with %d bytes, want %d with %d", c.query, a.StatusCode, len(a.body), c.status, len(c.body))
			}
			if c.query == "created" && (a.Header.Get("X-Y") != "z" || a.Header.Get("Set-Cookie") != "a=b" || a.Header.Get("Content-Type") != "") {
				t.Errorf("fields: %v", a.Header)
			}
		}
		s.end()
		if n := s.Stats().HTTP.Panics; n != 1 {
			t.Errorf("%d panics counted", n)
		}
	}
}

// A page's file comes from memory or by sendfile, with head and tail around it, and slow readers get it
// whole too.
func TestPageFiles(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.Pages = []Route{{Path: "/r", Page: &reader{}}}
		o.CacheFileMax, o.SendfileMin, o.SendBuffer = 20_000, 10_000, 128<<10
	})
	w := s.dial()
	w.SetReadBuffer(128 << 10)
	for _, size := range []int{0, 1, 9_999, 10_000, 20_000, 20_001, 5 << 20} {
		name := fmt.Sprintf("/f%d", size)
		s.write(name, pattern(size))
		for range 2 {
			w.send(request("GET", "/r?"+name))
			if a := w.next("GET"); a.body != pattern(size) {
				t.Errorf("%s: %d bytes", name, len(a.body))
			}
			w.send(request("GET", "/r?"+name, "Cookie: x"))
			if a := w.next("GET"); a.body != "<head>"+pattern(size)+"<tail>" {
				t.Errorf("%s between head and tail: %d bytes", name, len(a.body))
			}
		}
	}
	w.send(request("GET", "/r?/none"))
	if a := w.next("GET"); a.StatusCode != 404 {
		t.Errorf("%d", a.StatusCode)
	}
	s.end()
	if s.Stats().Cache.Opened != 0 && s.Stats().Loops[0].PartialSends == 0 {
		t.Errorf("%+v", s.Stats())
	}
}

// While a page is at work off the loop, the loop serves others, and the connection's next requests wait
// their turn.
func TestDetachedPageKeepsOrder(t *testing.T) {
	begun, release := make(chan bool), make(chan bool)
	slow := &script{detached: true, serve: func(rq *page.Request, rs *page.Response) {
		begun <- true
		<-release
		rs.Append("slow ")
		rs.Write(rq.Query)
	}}
	s := serve(t, func(o *Options) {
		o.Pages = []Route{{Path: "/slow", Page: slow}, {Path: "/fast", Page: &script{serve: hello}}}
	})
	s.write("f", "file")
	w := s.dial()
	w.send(request("GET", "/f") + request("GET", "/slow?1") + request("GET", "/fast?2") + request("GET", "/slow?3") + request("GET", "/f"))
	if a := w.next("GET"); a.body != "file" { // must not wait for what follows
		t.Errorf("%q", a.body)
	}
	<-begun
	if a := s.get("/fast?other"); a.body != "hello other" {
		t.Errorf("%q", a.body)
	}
	gone := s.dial() // leaves while its page is at work
	gone.send(request("GET", "/slow?gone"))
	<-begun
	gone.SetLinger(0)
	gone.Close()
	release <- true
	release <- true
	if a := w.next("GET"); a.body != "slow 1" {
		t.Errorf("%q", a.body)
	}
	if a := w.next("GET"); a.body != "hello 2" {
		t.Errorf("%q", a.body)
	}
	<-begun
	release <- true
	if a := w.next("GET"); a.body != "slow 3" {
		t.Errorf("%q", a.body)
	}
	if a := w.next("GET"); a.body != "file" {
		t.Errorf("%q", a.body)
	}
}

func TestCGI(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "p.sh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf 'Content-Type: text/x\\r\\n\\r\\n%s %s %s ' $PPID \"$REQUEST_METHOD\" \"$QUERY_STRING\"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, spawner := range [][]string{nil, {os.Args[0], "spawner"}} {
		s := serve(t, func(o *Options) {
			o.Pages = []Route{{Path: "/cgi/", CGI: &cgi.Options{Program: program}}, {Path: "/other", CGI: &cgi.Options{Program: program}}}
			o.Spawner = cgi.SpawnerOptions{Command: spawner, Stderr: os.Stderr, Lost: func(err error) { t.Error(err) }}
		})
		w := s.dial()
		parents := map[int]bool{}
		for _, path := range []string{"/cgi/x", "/other", "/cgi/x"} {
			w.send(request("POST", path+"?q", "Content-Length: 4") + "body")
			a := w.next("POST")
			parent, rest, _ := strings.Cut(a.body, " ")
			if a.StatusCode != 200 || rest != "POST q body" || a.Header.Get("Content-Type") != "text/x" {
				t.Errorf("%d %q %v", a.StatusCode, a.body, a.Header)
			}
			pid, _ := strconv.Atoi(parent)
			parents[pid] = true
		}
		if len(parents) != 1 || parents[os.Getpid()] != (spawner == nil) {
			t.Errorf("with the spawner %v programs are children of %v", spawner, parents)
		}
		s.end()
		for pid := range parents {
			if spawner != nil && syscall.Kill(pid, 0) == nil {
				t.Errorf("the spawner, process %d, outlives the server", pid)
			}
		}
	}
}

// A server without CGI needs no spawner, and one that does not get one goes on without.
func TestServersWithoutSpawner(t *testing.T) {
	lost := 0
	set := func(o *Options) {
		o.Spawner = cgi.SpawnerOptions{Command: []string{"/none/there"}, Lost: func(error) { lost++ }}
	}
	serve(t, set).end()
	if lost != 0 {
		t.Error("a spawner was started for nothing")
	}
	s := serve(t, func(o *Options) {
		set(o)
		o.Pages = []Route{{Path: "/cgi", CGI: &cgi.Options{Program: "/bin/echo", Args: []string{"Status: 201\n"}}}}
	})
	if a := s.get("/cgi"); a.StatusCode != 201 {
		t.Errorf("%d %q", a.StatusCode, a.body)
	}
	s.end()
	if lost != 1 {
		t.Errorf("told %d times", lost)
	}
}

func TestRoutesAreChecked(t *testing.T) {
	p := &script{serve: hello}
	for _, routes := range [][]Route{
		{{Path: "noslash", Page: p}}, {{Path: "/a/../b", Page: p}}, {{Path: "/a"}}, {{Path: "/a", Page: p}, {Path: "/a", Page: p}},
		{{Path: "/a", Page: p, CGI: &cgi.Options{Program: "/bin/true"}}}, {{Path: "/a", CGI: &cgi.Options{Program: "relative"}}},
	} {
		o := Default()
		o.Listen = append(o.Listen, localhost)
		o.Pages = routes
		if s, err := New(o); err == nil {
			t.Errorf("accepted %+v", routes)
			_ = s
		}
	}
}
