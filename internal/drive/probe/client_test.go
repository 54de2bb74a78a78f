package probe

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// Whoever speaks first is told what was wrong with that, whichever comes first: its words or our request.
func TestTargetThatSpeaksFirst(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_10.0\r\n")
			_ = c.Close()
		}
	}()
	addr := l.Addr().(*net.TCPAddr).AddrPort()
	p := New(addr, addr.String(), workload.Routes{}, time.Minute)
	for range 50 {
		_, err := p.once(t.Context(), p.most, http.MethodGet, "/", "", nil)
		// A reset may overtake the words.
		if err == nil || !strings.Contains(err.Error(), `malformed HTTP response "SSH-2.0`) && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "broken pipe") {
			t.Fatal(err)
		}
	}
}

// A target that accepts and is gone does not leave a reader behind.
func TestConnectionClosedUnasked(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	c := &countedConn{Conn: a, n: new(atomic.Int64), asked: make(chan struct{})}
	ended := make(chan error)
	go func() { _, err := c.Read(make([]byte, 1)); ended <- err }()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("read from a closed connection")
	}
}

// An answer without an end is given up, and asked for once.
func TestEndlessAnswer(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	addr := s.Listener.Addr().(*net.TCPAddr).AddrPort()
	p := New(addr, addr.String(), workload.Routes{}, time.Minute)
	p.most = 1000
	if _, err := p.do(t.Context(), http.MethodGet, "/", "", nil); !errors.Is(err, errTooLong) || !strings.Contains(err.Error(), "1000 bytes") {
		t.Error(err)
	}
	s.Close() // waits for the handler
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
}

// A post log may be longer than other answers by twice the records of the POSTs sent.
func TestLongPostLog(t *testing.T) {
	var size int
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b := web99.AppendHead(nil, &web99.Wrapper{})
		b = append(b, make([]byte, size)...)
		_, _ = w.Write(append(b, web99.Tail()...))
	}))
	defer s.Close()
	addr := s.Listener.Addr().(*net.TCPAddr).AddrPort()
	p := New(addr, addr.String(), workload.Routes{Command: "/command"}, time.Minute)
	const posts = 100
	p.most = 2000
	for _, size = range []int{0, 1000, 2000 + posts*web99.RecordSize} {
		if b, err := p.Fetch(t.Context(), posts); err != nil || len(b) != size {
			t.Errorf("%d bytes: got %d, %v", size, len(b), err)
		}
	}
	size = 2000 + 2*posts*web99.RecordSize
	if _, err := p.Fetch(t.Context(), posts); !errors.Is(err, errTooLong) {
		t.Errorf("%d bytes: %v", size, err)
	}
}
