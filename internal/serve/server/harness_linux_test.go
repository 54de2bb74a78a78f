package server

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidemark.dev/internal/engine/ring"
	"tidemark.dev/internal/ground/binlog"
	"tidemark.dev/internal/serve/cgi"
	"tidemark.dev/page"
)

// TestMain turns the test binary into a spawner when asked to.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "spawner" {
		if err := cgi.Spawn(os.NewFile(3, "server")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(everyBackend{m})
}

// everyBackend runs the tests once for each backend of the loops.
type everyBackend struct{ m *testing.M }

// backend is that of the loops of this pass.
var backend = "epoll"

func (e everyBackend) Run() (code int) {
	code = e.m.Run()
	r, err := ring.New(ring.Options{Entries: 8, Buffers: 16, BufferSize: 1 << 10})
	if err != nil {
		fmt.Println("not tested on io_uring:", err)
		return code
	}
	r.Close()
	backend = "io_uring"
	fmt.Println("and once more on io_uring")
	return max(code, e.m.Run())
}

var localhost = netip.MustParseAddrPort("127.0.0.1:0")

// patience is how long a test waits for what must come; it is never waited for in full.
const patience = 20 * time.Second

// site is a running server under test.
type site struct {
	*Server
	t    testing.TB
	root string
	addr string
	log  string
	stop context.CancelFunc
	done chan error
}

// serve starts a server over a new directory, with a log, and ends it with the test.
func serve(t testing.TB, set func(o *Options)) *site {
	t.Helper()
	s := &site{t: t, root: t.TempDir(), log: filepath.Join(t.TempDir(), "access.tml"), done: make(chan error, 1)}
	o := Default()
	o.Root, o.AccessLog = s.root, s.log
	o.Listen = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	o.Loops = []int{-1}
	o.CacheValid = -1
	o.ShutdownTimeout = patience
	o.DeferAccept = false
	o.Backend = backend
	if set != nil {
		set(&o)
	}
	var err error
	if s.Server, err = New(o); err != nil {
		t.Fatal(err)
	}
	s.addr = s.Addrs()[0].String()
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	go func() { s.done <- s.Run(ctx) }()
	t.Cleanup(func() { s.end() })
	return s
}

// end stops the server and waits.
func (s *site) end() {
	s.t.Helper()
	s.stop()
	if s.done == nil {
		return
	}
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Errorf("Run: %v", err)
		}
	case <-time.After(2 * patience):
		s.t.Fatal("the server does not end")
	}
	s.done = nil
	if n := s.Stats().HTTP.Open; n != 0 {
		s.t.Errorf("%d connections open after the end", n)
	}
}

func (s *site) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// records reads the access log; the server has ended.
func (s *site) records() (all []binlog.Record) {
	s.t.Helper()
	f, err := os.Open(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	r := binlog.NewReader(f)
	for {
		var rec binlog.Record
		switch err := r.Next(&rec); {
		case err == io.EOF:
			if loss := r.Loss(); loss != (binlog.Loss{}) {
				s.t.Errorf("log: %+v", loss)
			}
			return all
		case err != nil:
			s.t.Fatal(err)
		}
		for _, v := range []*[]byte{&rec.Method, &rec.Target, &rec.Proto, &rec.Host, &rec.Referer, &rec.Agent} {
			*v = bytes.Clone(*v)
		}
		all = append(all, rec)
	}
}

// wire is a raw connection that counts what it reads.
type wire struct {
	*net.TCPConn
	t    testing.TB
	r    *bufio.Reader
	read int64
}

func (s *site) dial() *wire {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	w := &wire{TCPConn: c.(*net.TCPConn), t: s.t}
	w.r = bufio.NewReaderSize(counter{w}, 64<<10)
	w.SetDeadline(time.Now().Add(patience))
	s.t.Cleanup(func() { w.Close() })
	return w
}

type counter struct{ w *wire }

func (c counter) Read(b []byte) (int, error) {
	n, err := c.w.TCPConn.Read(b)
	c.w.read += int64(n)
	return n, err
}

func (w *wire) send(text string) {
	w.t.Helper()
	w.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(w.TCPConn, text); err != nil {
		w.t.Fatalf("send: %v", err)
	}
}

// answer is a response with its body.
type answer struct {
	*http.Response
	body string
}

// next reads one answer to a request with that method.
func (w *wire) next(method string) answer {
	w.t.Helper()
	a, err := w.try(method)
	if err != nil {
		w.t.Fatalf("answer to %s: %v", method, err)
	}
	return a
}

func (w *wire) try(method string) (answer, error) {
	w.SetDeadline(time.Now().Add(patience))
	rs, err := http.ReadResponse(w.r, &http.Request{Method: method})
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(rs.Body)
	return answer{rs, string(body)}, err
}

// closed checks that the server closes the connection, in an orderly way, with nothing more to say.
func (w *wire) closed() {
	w.t.Helper()
	rest, err := io.ReadAll(w.r)
	if err != nil || len(rest) > 0 {
		w.t.Fatalf("wanted the end of the connection, got %q, %v", rest, err)
	}
}

// get asks for a path on a connection of its own.
func (s *site) get(path string, fields ...string) answer {
	s.t.Helper()
	w := s.dial()
	defer w.Close()
	w.send(request("GET", path, append(fields, "Connection: close")...))
	a := w.next("GET")
	w.closed()
	return a
}

func request(method, path string, fields ...string) string {
	text := method + " " + path + " HTTP/1.1\r\nHost: test\r\n"
	for _, f := range fields {
		text += f + "\r\n"
	}
	return text + "\r\n"
}

// pattern is content in which every place looks different.
func pattern(n int) string {
	b := make([]byte, 0, n+9)
	for len(b) < n {
		line := [9]byte{8: '\n'}
		for i, k := 7, len(b); i >= 0; i, k = i-1, k/10 {
			line[i] = byte('0' + k%10)
		}
		b = append(b, line[:]...)
	}
	return string(b[:n])
}

// await polls until it is so.
func await(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waiting in vain: %s", what)
		}
	}
}

// script is a page made of functions.
type script struct {
	serve    func(rq *page.Request, rs *page.Response)
	detached bool
	opened   *page.Context
	closed   bool
}

func (p *script) Open(ctx *page.Context) error { p.opened = ctx; return nil }
func (p *script) Close() error                 { p.closed = true; return nil }
func (p *script) Detached(*page.Request) bool  { return p.detached }
func (p *script) Serve(rq *page.Request, rs *page.Response) {
	p.serve(rq, rs)
}
