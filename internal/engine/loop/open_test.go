//go:build linux

package loop

import (
	"io"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// The tests of this file are about operations that are open, in a queue or in the
// kernel, when the handler changes its mind.

func TestALimitMayMoveBeforeInputComes(t *testing.T) { onEach(t, testALimitMayMoveBeforeInputComes) }

func testALimitMayMoveBeforeInputComes(t *testing.T, o Options) {
	for _, c := range []struct {
		handed  bool // the first limit has reached the kernel
		first   int
		second  int
		atLeast int
	}{{false, 100, 3, 3}, {true, 100, 3, 3}, {false, 3, 100, 100}, {true, 3, 100, 3}} {
		s := &script{}
		r := turn(t, made(t, o, s))
		id, peer := r.peer(s, ListenOptions{})
		var got []byte
		s.received = func(_ ID, b []byte, err error) {
			if len(b) > c.second || len(got) == 0 && len(b) < c.atLeast || err != nil {
				t.Errorf("%+v: %d bytes, %v", c, len(b), err)
			}
			// Back-pressure: what has not been asked for is still the kernel's.
			if left, err := unix.IoctlGetInt(r.l.Fd(id), unix.TIOCINQ); len(got) == 0 && (left < 200-c.second || err != nil) {
				t.Errorf("%+v: the kernel holds %d bytes, %v", c, left, err)
			}
			got = append(got, b...)
			r.l.Recv(id, c.second)
		}
		r.l.Recv(id, c.first)
		if c.handed {
			r.again()
		}
		r.l.Recv(id, c.second)
		want := noise(200, 5)
		peer.Write(want)
		r.until(func() bool { return len(got) == len(want) })
		same(t, got, want)
	}
}

// TestALimitMayBeLoweredWhenTheKernelHasFilledIt has input for two connections come in by
// one wait; whichever is told first lowers the limit of the other.
func TestALimitMayBeLoweredWhenTheKernelHasFilledIt(t *testing.T) {
	onEach(t, testALimitMayBeLoweredWhenTheKernelHasFilledIt)
}

func testALimitMayBeLoweredWhenTheKernelHasFilledIt(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	a, ca := r.peer(s, ListenOptions{})
	b, cb := r.peer(s, ListenOptions{})
	want := noise(5000, 6)
	for _, c := range []io.Writer{ca, cb} {
		c.Write(want)
	}
	first, told := ID(0), false
	var got []byte
	ended := false
	s.received = func(id ID, p []byte, err error) {
		switch {
		case err != nil:
			t.Error(err)
		case !told:
			first, told = id, true
			r.l.Recv(a+b-id, 7)
			return
		case id == first || len(p) > 7:
			t.Errorf("%d bytes for %d", len(p), id)
		case len(p) == 0:
			ended = true
		default:
			got = append(got, p...)
			r.l.Recv(id, 7)
		}
	}
	r.input(a)
	r.input(b)
	r.l.Recv(a, 10000)
	r.l.Recv(b, 10000)
	r.until(func() bool { return told && len(got) > 100 })
	ca.Close()
	cb.Close()
	r.until(func() bool { return ended })
	same(t, got, want)
	if u, ok := r.l.be.(*uring); ok && (len(u.kept.all) != 1 || len(u.kept.free) != 1) {
		t.Errorf("%d stashes, %d free: the test shows nothing, or they leak", len(u.kept.all), len(u.kept.free))
	}
}

// TestCloseHandsOverWhatIsAboutToLeave: the kernel takes what it can and the memory is
// free at once.
func TestCloseHandsOverWhatIsAboutToLeave(t *testing.T) {
	onEach(t, testCloseHandsOverWhatIsAboutToLeave)
}

func testCloseHandsOverWhatIsAboutToLeave(t *testing.T, o Options) {
	s := &script{sent: func(ID, error) { t.Error("Sent after Close") }}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	r.l.Recv(id, 100)
	body := noise(20000, 7)
	want := append([]byte("head"), body...)
	r.l.Send(id, []byte("head"), body, nil)
	r.l.Close(id)
	clear(body)
	r.again()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Error(err)
	}
	same(t, got, want)
}

// TestAnOpenReceiveMeetsNoStranger closes a connection in the turn that armed it, with
// another in the backlog, which is likely to get its descriptor in the same turn and must
// get its own bytes.
func TestAnOpenReceiveMeetsNoStranger(t *testing.T) { onEach(t, testAnOpenReceiveMeetsNoStranger) }

func testAnOpenReceiveMeetsNoStranger(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	addr := listen(t, r.l, ListenOptions{})
	var ids []ID
	got := ""
	s.accepted = func(id ID, _ int, _ netip.AddrPort) {
		ids = append(ids, id)
		r.l.Recv(id, 100)
	}
	s.received = func(id ID, b []byte, err error) {
		if err != nil {
			t.Errorf("Received(%d, %q, %v)", id, b, err)
		}
		if id == ids[0] {
			r.l.Recv(id, 100)
			r.l.Close(id)
			return
		}
		got += string(b)
	}
	c := dial(t, addr)
	r.until(func() bool { return len(ids) == 1 })
	r.again()
	c.Write([]byte("x"))
	dial(t, addr).Write([]byte("mine"))
	r.until(func() bool { return got != "" })
	if got != "mine" {
		t.Errorf("got %q", got)
	}
}

// TestTheEndOfAnOpenReceiveMeetsNoStranger gives an ID to another connection while the
// completion of its last owner's receive is on the way, in the same batch.
func TestTheEndOfAnOpenReceiveMeetsNoStranger(t *testing.T) {
	onEach(t, testTheEndOfAnOpenReceiveMeetsNoStranger)
}

func testTheEndOfAnOpenReceiveMeetsNoStranger(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	ln, addr := far(t)
	a, ca := r.peer(s, ListenOptions{})
	b, _ := r.peer(s, ListenOptions{})
	r.l.Recv(a, 100)
	r.l.Recv(b, 100)
	r.again() // both are open
	r.l.Post(func() { r.l.Close(b) })
	r.once()
	var got string
	s.received = func(id ID, p []byte, err error) {
		if err != nil {
			t.Errorf("Received(%d, %q, %v)", id, p, err)
		}
		if id == a {
			if n, err := r.l.Connect(&ConnectOptions{Remote: addr}); n != b || err != nil {
				t.Errorf("ID %d, %v; want %d used again", n, err, b)
			}
			r.l.Recv(b, 100)
			return
		}
		got += string(p)
	}
	ca.Write([]byte("x")) // before the end of b, which the next wait asks for
	r.until(func() bool { return r.l.Stats().Connects == 1 })
	if st := r.l.Stats(); !isEpoll(r.l) && st.Stale != 1 {
		t.Errorf("%d completions for nobody", st.Stale)
	}
	c, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.Write([]byte("mine"))
	r.until(func() bool { return got != "" })
	if got != "mine" {
		t.Errorf("got %q", got)
	}
}

// TestManyOperationsBeforeTheFirstTurn asks for more than a queue holds.
func TestManyOperationsBeforeTheFirstTurn(t *testing.T) {
	onEach(t, testManyOperationsBeforeTheFirstTurn)
}

func testManyOperationsBeforeTheFirstTurn(t *testing.T, o Options) {
	const conns = ringEntries + 200
	s := &script{}
	r := turn(t, made(t, o, s))
	addr := listen(t, r.l, ListenOptions{})
	connected := 0
	s.connected = func(id ID, err error) {
		if err != nil {
			t.Error(err)
		}
		connected++
		r.l.Abort(id)
	}
	for range conns {
		if _, err := r.l.Connect(&ConnectOptions{Remote: addr}); err != nil {
			t.Fatal(err)
		}
	}
	r.until(func() bool { return connected == conns })
}
