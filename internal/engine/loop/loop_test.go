//go:build linux

package loop

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidemark.dev/internal/ground/clock"
)

// patience is how long a test waits for something that must come.
const patience = 20 * time.Second

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

func TestMain(m *testing.M) {
	if child() {
		return
	}
	goleak.VerifyTestMain(m)
}

// script is a handler made of functions; a nil one ignores the completion.
type script struct {
	accepted  func(id ID, listener int, peer netip.AddrPort)
	connected func(id ID, err error)
	received  func(id ID, b []byte, err error)
	sent      func(id ID, err error)
	expired   func(key uint32, due clock.Instant)
}

func (s *script) Accepted(id ID, listener int, peer netip.AddrPort) {
	if s.accepted != nil {
		s.accepted(id, listener, peer)
	}
}

func (s *script) Connected(id ID, err error) {
	if s.connected != nil {
		s.connected(id, err)
	}
}

func (s *script) Received(id ID, b []byte, err error) {
	if s.received != nil {
		s.received(id, b, err)
	}
}

func (s *script) Sent(id ID, err error) {
	if s.sent != nil {
		s.sent(id, err)
	}
}

func (s *script) Expired(key uint32, due clock.Instant) {
	if s.expired != nil {
		s.expired(key, due)
	}
}

// made is a loop that start will run.
func made(t testing.TB, o Options, h Handler) *Loop {
	t.Helper()
	o.CPU = -1
	l, err := New(o, h)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start runs l until the test ends.
func start(t testing.TB, l *Loop) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- l.Run() }()
	t.Cleanup(func() {
		l.Stop()
		if err := await(t, done); err != nil {
			t.Error(err)
		}
	})
}

// listen opens a listener on a loopback port of the kernel's choice.
func listen(t testing.TB, l *Loop, o ListenOptions) netip.AddrPort {
	t.Helper()
	_, addr, err := l.Listen(loopback, o)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// await receives from c or fails the test.
func await[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// on runs f on the loop goroutine and waits for it.
func on(t testing.TB, l *Loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	if !l.Post(func() { f(); close(done) }) {
		t.Fatal("the loop has stopped")
	}
	await(t, done)
}

// turning lets a test turn the loop itself, on its own goroutine: what happens in
// which turn is then exact.
type turning struct {
	t    testing.TB
	l    *Loop
	late bool
}

func turn(t testing.TB, l *Loop) *turning {
	r := &turning{t: t, l: l}
	runtime.LockOSThread() // a ring belongs to a thread
	watch := time.AfterFunc(patience, func() { l.Post(func() { r.late = true }) })
	t.Cleanup(func() {
		watch.Stop()
		l.Stop()
		if err := l.Run(); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
	return r
}

// once turns the loop once; it sleeps when nothing is ready.
func (r *turning) once() {
	r.t.Helper()
	if _, err := r.l.turn(); err != nil {
		r.t.Fatal(err)
	}
	if r.late {
		r.t.Fatal("what the test waits for has not come")
	}
}

// until turns the loop until done says so.
func (r *turning) until(done func() bool) {
	r.t.Helper()
	for !done() {
		r.once()
	}
}

// dial connects to addr as an ordinary client.
func dial(t testing.TB, addr netip.AddrPort) *net.TCPConn {
	t.Helper()
	c, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// peer accepts one connection on a loop the test turns and returns both ends.
func (r *turning) peer(s *script, o ListenOptions) (ID, *net.TCPConn) {
	r.t.Helper()
	id, got := ID(0), false
	before := s.accepted
	s.accepted = func(i ID, _ int, _ netip.AddrPort) { id, got = i, true }
	c := dial(r.t, listen(r.t, r.l, o))
	r.until(func() bool { return got })
	s.accepted = before
	return id, c
}

// noise is n bytes that look the same at no two places.
func noise(n int, seed uint64) []byte {
	rng := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	b := make([]byte, n)
	rng.Read(b)
	return b
}

// same fails the test where got differs from want.
func same(t testing.TB, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("%d bytes, want %d; they differ from byte %d on", len(got), len(want), i)
}
