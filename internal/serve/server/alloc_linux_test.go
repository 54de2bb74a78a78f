package server

import (
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"tidemark.dev/page"
)

// quiet is a page that makes nothing: its bytes are there already.
type quiet struct{ files page.Files }

var quietTail = []byte("</pre>")

func (p *quiet) Open(ctx *page.Context) error { p.files = ctx.Files; return nil }
func (p *quiet) Close() error                 { return nil }
func (p *quiet) Serve(rq *page.Request, rs *page.Response) {
	f, err := p.files.Open(rq.Query)
	if err != nil {
		rs.Status(404)
		return
	}
	rs.Append("<pre>").AppendInt(int64(len(rq.Cookie)))
	rs.Cookie(rq.Cookie)
	rs.SetFile(f)
	rs.Tail(quietTail)
}

// A static answer costs one receive and one send, or a send and a sendfile, and nothing besides.
func TestSystemCallsOfAStaticAnswer(t *testing.T) {
	s := serve(t, func(o *Options) { o.CacheValid = time.Hour; o.DeferAccept = true })
	s.write("small", pattern(30_000))
	s.write("large", pattern(50_000))
	w := s.dial()
	for path, sends := range map[string]uint64{"/small": 1, "/large": 2} {
		ask := func() {
			w.send(request("GET", path))
			if a := w.next("GET"); a.StatusCode != 200 {
				t.Fatal(a.StatusCode)
			}
		}
		ask()
		before := s.Stats().Loops[0]
		const n = 100
		for range n {
			ask()
		}
		after := s.Stats().Loops[0]
		if got := after.Sends - before.Sends; got != n*sends {
			t.Errorf("%s: %d sends for %d answers", path, got, n)
		}
		if got, empty := after.Recvs-before.Recvs, after.RecvEmpty-before.RecvEmpty; got != n || empty != 0 {
			t.Errorf("%s: %d receives, %d in vain", path, got, empty)
		}
	}
}

// The hot paths allocate nothing, measured on a real loop with log: whole files from memory and by
// sendfile, pages with a file in them, revalidation, 304, HEAD, and pipelined requests.
func TestHotPathsDoNotAllocate(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.Pages = []Route{{Path: "/quiet", Page: &quiet{}}}
		o.CacheValid = time.Millisecond // so that revalidation is a part of it
	})
	s.write("small", pattern(5000))
	s.write("large", pattern(60_000))
	date := "If-Modified-Since: " + time.Now().Add(time.Hour).UTC().Format("Mon, 02 Jan 2006 15:04:05") + " GMT"
	for name, text := range map[string]string{
		"memory":   request("GET", "/small", "User-Agent: test", "Referer: /x"),
		"sendfile": request("GET", "/large"),
		"page":     request("GET", "/quiet?/small", "Cookie: x=y"),
		"page, fd": request("GET", "/quiet?/large", "Cookie: x=y"),
		"304":      request("GET", "/small", date),
		"head":     request("HEAD", "/small"),
		"missing":  request("GET", "/none"),
		"pipeline": strings.Repeat(request("GET", "/small", date), 20) + request("GET", "/large"),
		"post":     request("POST", "/quiet", "Content-Length: 5") + "12345",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", s.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			ask := []byte(text)
			buf := make([]byte, 1<<20)
			size := 0
			once := func() {
				if _, err := c.Write(ask); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, buf[:size]); err != nil {
					t.Fatal(err)
				}
			}
			// The length of an answer, from a connection that closes after it.
			w := s.dial()
			w.send(text + request("GET", "/end", "Connection: close"))
			io.Copy(io.Discard, w.r)
			end := s.dial()
			end.send(request("GET", "/end", "Connection: close"))
			io.Copy(io.Discard, end.r)
			size = int(w.read - end.read)
			for range 300 {
				once()
			}
			best := 1e9
			for range 5 { // others in this process allocate now and then
				const n = 500
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				for range n {
					once()
				}
				runtime.ReadMemStats(&after)
				best = min(best, float64(after.Mallocs-before.Mallocs)/n)
			}
			budget := 0.1
			if name == "missing" {
				budget = 8 // the name must be looked up on disk every time
			}
			if best > budget {
				t.Errorf("%.2f allocations for a request", best)
			}
		})
	}
}
