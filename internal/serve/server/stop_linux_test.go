package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"tidemark.dev/internal/ground/binlog"
	"tidemark.dev/internal/serve/cgi"
	"tidemark.dev/page"
)

// Every byte a client got is in the log, from loops, workers and errors alike.
func TestLogHasEveryByte(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.Loops = []int{-1, -1, -1}
		o.SendfileMin = 10_000
		o.Pages = []Route{{Path: "/p", Page: &script{serve: hello}}, {Path: "/d", Page: &script{serve: hello, detached: true}},
			{Path: "/post", Page: &script{serve: func(rq *page.Request, rs *page.Response) { rs.Write(rq.Body) }}}}
	})
	for _, n := range []int{10, 5000, 200_000} {
		s.write(fmt.Sprintf("f%d", n), pattern(n))
	}
	asks := []string{
		request("GET", "/f10", "Referer: r", "User-Agent: u"), request("GET", "/f5000"), request("GET", "/f200000"),
		request("HEAD", "/f200000"), request("GET", "/none"), request("GET", "/p?x"), request("GET", "/d?x"),
		request("GET", "/f200000", "Range: bytes=5-99999"), request("GET", "/f200000", "Range: bytes=5-9,20-29"),
		request("GET", "/f10", "Range: bytes=1-2,4-5"), request("GET", "/f10", "If-None-Match: *"), request("GET", "/f10", "Range: bytes=99-"),
		request("PUT", "/f10"), request("GET", "/f5000") + request("GET", "/f10") + request("GET", "/p"),
		request("POST", "/post", "Content-Length: 3") + "abc", "bad\r\n\r\n", "GET /f10 HTTP/1.0\r\n\r\n",
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var sum, count int64
	for i := range 24 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range asks {
				w := s.dial()
				text := asks[(i+j)%len(asks)]
				w.send(text)
				w.CloseWrite()
				io.Copy(io.Discard, w.r)
				mu.Lock()
				sum += w.read
				count += int64(max(1, strings.Count(text, "HTTP/1")))
				mu.Unlock()
				w.Close()
			}
		}()
	}
	// Expect: 100-continue belongs to the answer it precedes.
	w := s.dial()
	w.send(request("POST", "/post", "Expect: 100-continue", "Content-Length: 3"))
	w.next("POST")
	w.send("abc")
	w.next("POST")
	wg.Wait()
	sum += w.read
	count++
	s.end()
	var logged, body int64
	var first *binlog.Record
	records := s.records()
	for i := range records {
		r := &records[i]
		logged += r.Bytes
		body += r.BodyBytes
		if r.BodyBytes > r.Bytes || r.Bytes == 0 || r.Duration < 0 || r.Remote.String() != "127.0.0.1" || time.Since(time.Unix(0, r.Time)) > time.Hour {
			t.Errorf("record %+v", r)
		}
		if string(r.Agent) == "u" {
			first = r
		}
	}
	if logged != sum || int64(len(records)) != count {
		t.Errorf("log: %d answers of %d bytes, clients: %d of %d", len(records), logged, count, sum)
	}
	if st := s.Stats(); st.HTTP.Requests != count-24 { // one of the asks is no request
		t.Errorf("%d requests counted, %d answers", st.HTTP.Requests, count)
	}
	if st := s.Stats(); st.HTTP.Bytes != sum || st.HTTP.Responses != count || st.Log.Records != count || st.Log.Lost != 0 {
		t.Errorf("counters %+v", st)
	}
	if first == nil || string(first.Method) != "GET" || string(first.Target) != "/f10" || string(first.Proto) != "HTTP/1.1" ||
		string(first.Host) != "test" || string(first.Referer) != "r" || first.Status != 200 || first.BodyBytes != 10 {
		t.Errorf("record %+v", first)
	}
}

// An answer that the client cuts short is in the log with about what the client got.
func TestLogOfAbortedAnswers(t *testing.T) {
	s := serve(t, func(o *Options) { o.SendBuffer = 64 << 10 })
	const size = 20 << 20
	s.write("big", pattern(size))
	w := s.dial()
	w.SetReadBuffer(64 << 10)
	w.send(request("GET", "/big?first", "User-Agent: cutter"))
	if _, err := io.CopyN(io.Discard, w.r, 1<<20); err != nil {
		t.Fatal(err)
	}
	w.SetLinger(0)
	w.Close()
	await(t, "the end of the answer", func() bool { return s.Stats().HTTP.Aborted > 0 })
	s.end()
	r := s.records()
	if len(r) != 1 {
		t.Fatalf("%d records", len(r))
	}
	if r[0].Bytes < w.read || r[0].Bytes > w.read+1<<20 || string(r[0].Target) != "/big?first" || string(r[0].Agent) != "cutter" ||
		r[0].BodyBytes >= r[0].Bytes || s.Stats().HTTP.Bytes != r[0].Bytes {
		t.Errorf("the client read %d bytes, the log says %+v", w.read, r[0])
	}
}

func TestGracefulStop(t *testing.T) {
	begun, release := make(chan bool), make(chan bool)
	slow := &script{detached: true, serve: func(rq *page.Request, rs *page.Response) {
		begun <- true
		<-release
		rs.Append("done")
	}}
	s := serve(t, func(o *Options) {
		o.Loops = []int{-1, -1}
		o.SendBuffer = 64 << 10
		o.Pages = []Route{{Path: "/slow", Page: slow}}
	})
	s.write("f", "file")
	s.write("big", pattern(8<<20))
	idle := s.dial()
	idle.send(request("GET", "/f"))
	idle.next("GET")
	fresh := s.dial()
	half := s.dial()
	half.send("GET /f HTTP/1.1\r\n")
	big := s.dial()
	big.SetReadBuffer(64 << 10)
	big.send(request("GET", "/big"))
	rs, err := http.ReadResponse(big.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	working := s.dial()
	working.send(request("GET", "/slow") + request("GET", "/f"))
	<-begun

	s.stop()
	idle.closed()
	fresh.closed()
	if c, err := net.DialTimeout("tcp", s.addr, patience); err == nil {
		// The queue may take it for a moment, but nobody answers.
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, request("GET", "/f"))
		if n, _ := io.Copy(io.Discard, c); n > 0 {
			t.Error("a new connection was served")
		}
		c.Close()
	}
	half.send("Host: a\r\n\r\n")
	if a := half.next("GET"); a.body != "file" || !a.Close {
		t.Errorf("begun before the stop: %d, close %v", a.StatusCode, a.Close)
	}
	half.closed()
	if b, err := io.ReadAll(rs.Body); err != nil || string(b) != pattern(8<<20) {
		t.Errorf("open answer: %d bytes, %v", len(b), err)
	}
	big.Close()
	release <- true
	if a := working.next("GET"); a.body != "done" || !a.Close {
		t.Errorf("page: %q, close %v", a.body, a.Close)
	}
	working.closed()
	s.end()
	if !slow.closed {
		t.Error("the page was not closed")
	}
}

// A request that crosses the stop on an idle connection is still answered, or, if it comes very late, its
// connection ends without a reset, which tells the client that it may ask again.
func TestRequestCrossingTheStop(t *testing.T) {
	s := serve(t, nil)
	s.write("f", "file")
	w := s.dial()
	w.send(request("GET", "/f"))
	w.next("GET")
	s.stop()
	w.send(request("GET", "/f"))
	if a, err := w.try("GET"); err == io.ErrUnexpectedEOF && w.r.Buffered() == 0 {
		return
	} else if err != nil || a.body != "file" {
		t.Errorf("%v", err)
	}
	w.closed()
}

func TestStopDeadlineCutsWhatIsLeft(t *testing.T) {
	s := serve(t, func(o *Options) { o.ShutdownTimeout = 50 * time.Millisecond; o.SendBuffer = 64 << 10 })
	s.write("big", pattern(8<<20))
	w := s.dial()
	w.send(request("GET", "/big"))
	if _, err := w.r.Peek(1); err != nil {
		t.Fatal(err)
	}
	s.end()
	if r := s.records(); len(r) != 1 || r[0].Bytes >= 8<<20 {
		t.Errorf("%d records", len(r))
	}
}

// Under load from several clients, a stop loses no request: each is answered, or its connection ends
// without a byte of an answer.
func TestStopUnderLoad(t *testing.T) {
	s := serve(t, func(o *Options) { o.Loops = []int{-1, -1} })
	s.write("f", pattern(3000))
	var wg sync.WaitGroup
	warm := make(chan bool, 64)
	for range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; ; i++ {
				c, err := net.Dial("tcp", s.addr)
				if err != nil {
					return // refused: the listeners are gone
				}
				w := &wire{TCPConn: c.(*net.TCPConn), t: t}
				w.r = bufio.NewReader(counter{w})
				w.SetDeadline(time.Now().Add(patience))
				for j := 0; ; j++ {
					if _, err := io.WriteString(c, request("GET", "/f")); err != nil {
						break
					}
					before := w.read
					a, err := w.try("GET")
					if err != nil {
						if w.read != before {
							t.Errorf("half an answer: %v after %d bytes", err, w.read-before)
						}
						break
					}
					if a.body != pattern(3000) {
						t.Error("wrong bytes")
					}
					if i == 0 && j == 20 {
						warm <- true
					}
					if a.Close {
						break
					}
				}
				c.Close()
			}
		}()
	}
	for range 16 {
		<-warm
	}
	s.stop()
	wg.Wait()
}

type failing struct{ script }

func (*failing) Open(*page.Context) error { return errors.New("will not") }

func TestOptionsAreChecked(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for name, set := range map[string]func(o *Options){
		"no address":   func(o *Options) { o.Listen = nil },
		"zero address": func(o *Options) { o.Listen = make([]netip.AddrPort, 1) },
		"nothing":      func(o *Options) { o.Root = "" },
		"no root":      func(o *Options) { o.Root += "/none" },
		"negative":     func(o *Options) { o.BodyMax = -1 },
		"log":          func(o *Options) { o.AccessLog = o.Root + "/none/log" },
		"backend":      func(o *Options) { o.Backend = "kqueue" },
		"processor":    func(o *Options) { o.Loops = []int{100000} },
		"index":        func(o *Options) { o.Index = []string{"a/b"} },
		"software":     func(o *Options) { o.Software = "a\r\nX: y" },
		"failing page": func(o *Options) { o.Pages = []Route{{Path: "/p", Page: &failing{}}} },
		"address used": func(o *Options) { o.Listen[0] = netip.MustParseAddrPort(busy.Addr().String()) },
		"address used, with a spawner": func(o *Options) { // which must not stay
			o.Listen[0] = netip.MustParseAddrPort(busy.Addr().String())
			o.Pages = []Route{{Path: "/p", CGI: &cgi.Options{Program: "/bin/true"}}}
			o.Spawner.Command = []string{os.Args[0], "spawner"}
		},
	} {
		o := Default()
		o.Root = t.TempDir()
		o.Listen = append(o.Listen, localhost)
		set(&o)
		if s, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
			discard(s)
		}
	}
}

// discard releases a server that was never run.
func discard(s *Server) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Run(ctx)
}

func TestServerThatIsNotWanted(t *testing.T) {
	p := &script{serve: hello}
	o := Default()
	o.Root = t.TempDir()
	o.Listen = append(o.Listen, localhost, netip.MustParseAddrPort("[::1]:0"))
	o.Loops = []int{-1, -1}
	o.Pages = []Route{{Path: "/p", Page: p}, {Path: "/q", Page: p}}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if a := s.Addrs(); len(a) != 2 || a[0].Port() == 0 || a[1].Port() == 0 {
		t.Errorf("addresses %v", a)
	}
	s.Stats()
	discard(s)
	if !p.closed {
		t.Error("page left open")
	}
}
