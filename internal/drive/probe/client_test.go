package probe

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
		_, err := p.once(t.Context(), http.MethodGet, "/", "", nil)
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
