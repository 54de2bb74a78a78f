//go:build linux

package loop

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAcceptedTellsListenerAndPeer(t *testing.T) { onEach(t, testAcceptedTellsListenerAndPeer) }

func testAcceptedTellsListenerAndPeer(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	type seen struct {
		listener int
		peer     netip.AddrPort
	}
	var got []seen
	s.accepted = func(_ ID, i int, peer netip.AddrPort) { got = append(got, seen{i, peer}) }
	for i, host := range []string{"127.0.0.1", "127.0.0.2", "::1"} {
		index, addr, err := r.l.Listen(netip.AddrPortFrom(netip.MustParseAddr(host), 0), ListenOptions{})
		if err != nil {
			if host == "::1" {
				continue // no IPv6 here
			}
			t.Fatal(err)
		}
		if index != i || addr.Addr().String() != host || addr.Port() == 0 {
			t.Errorf("listener %d at %v", index, addr)
		}
		c := dial(t, addr)
		r.until(func() bool { return len(got) > i })
		if want := (seen{i, c.LocalAddr().(*net.TCPAddr).AddrPort()}); got[i] != want {
			t.Errorf("accepted %v, want %v", got[i], want)
		}
	}
}

func TestListenersOfTwoLoopsShareAPort(t *testing.T) { onEach(t, testListenersOfTwoLoopsShareAPort) }

func testListenersOfTwoLoopsShareAPort(t *testing.T, o Options) {
	var accepted [2]int
	var loops [2]*turning
	var addr netip.AddrPort
	for i := range loops {
		s := &script{accepted: func(ID, int, netip.AddrPort) { accepted[i]++ }}
		loops[i] = turn(t, made(t, o, s))
		at := loopback
		if i > 0 {
			at = addr
		}
		var err error
		if _, addr, err = loops[i].l.Listen(at, ListenOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const conns = 200
	for range conns {
		dial(t, addr)
	}
	for accepted[0]+accepted[1] < conns {
		for _, r := range loops {
			r.l.Post(func() {}) // do not sleep
			r.once()
		}
	}
	// 200 fair coins all on one side: 2^-199.
	if accepted[0] == 0 || accepted[1] == 0 {
		t.Errorf("accepted %v: the port is not shared", accepted)
	}
}

func TestAcceptingHasItsShareOfATurn(t *testing.T) { onEach(t, testAcceptingHasItsShareOfATurn) }

func testAcceptingHasItsShareOfATurn(t *testing.T, o Options) {
	n := 0
	s := &script{accepted: func(ID, int, netip.AddrPort) { n++ }}
	r := turn(t, made(t, o, s))
	addr := listen(t, r.l, ListenOptions{})
	for range acceptBurst + 10 {
		dial(t, addr)
	}
	r.once()
	if n != acceptBurst {
		t.Errorf("%d accepted in the first turn", n)
	}
	r.once() // without another edge
	if n != acceptBurst+10 {
		t.Errorf("%d accepted after the second turn", n)
	}
}

func TestStopListenAcceptsWhatIsThereAndRefusesTheRest(t *testing.T) {
	onEach(t, testStopListenAcceptsWhatIsThereAndRefusesTheRest)
}

func testStopListenAcceptsWhatIsThereAndRefusesTheRest(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	first, addr, err := r.l.Listen(loopback, ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	other := listen(t, r.l, ListenOptions{})
	n, inside := 0, false
	s.accepted = func(id ID, i int, _ netip.AddrPort) {
		if inside {
			t.Error("Accepted inside StopListen")
		}
		n++
		r.l.Send(id, []byte("served"), nil, nil)
		r.l.Close(id)
		if i == first {
			r.l.StopListen(i) // once more, from inside
		}
	}
	var peers []*net.TCPConn
	for range 2 * acceptBurst {
		peers = append(peers, dial(t, addr))
	}
	inside = true
	r.l.StopListen(first)
	r.l.StopListen(99)
	r.l.StopListen(-1)
	inside = false
	r.once()
	r.again() // a batch sends and closes with the turn
	for _, c := range peers {
		if b, err := io.ReadAll(c); string(b) != "served" || err != nil {
			t.Fatalf("peer reads %q, %v", b, err)
		}
	}
	if c, err := net.Dial("tcp", addr.String()); err == nil {
		c.Close()
		t.Error("a stopped listener accepts")
	}
	n = 0
	dial(t, other)
	r.until(func() bool { return n == 1 })
}

// TestAStoppedListenerStaysQuiet keeps the closed socket in the epoll set by a second
// descriptor, as a child process does between fork and exec.
func TestAStoppedListenerStaysQuiet(t *testing.T) {
	r := turn(t, made(t, Options{}, &script{}))
	i, addr, err := r.l.Listen(loopback, ListenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(r.l.be.(*epoll).listeners[i].fd))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	r.l.StopListen(i)
	r.once()
	dial(t, addr)
	r.once() // returns at once: there is an event
	if d := r.l.patience(); d >= 0 || r.l.Stats().Descriptors != 0 {
		t.Errorf("the loop wakes in %v for a listener it has closed", d)
	}
}

func TestListenOptionsReachTheSockets(t *testing.T) { onEach(t, testListenOptionsReachTheSockets) }

func testListenOptionsReachTheSockets(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, _ := r.peer(s, ListenOptions{Backlog: 5, RcvBuf: 20000, SndBuf: 30000, NoDelay: true})
	for _, c := range []struct{ name, level, opt, want int }{
		{0, unix.SOL_SOCKET, unix.SO_RCVBUF, 40000},
		{1, unix.SOL_SOCKET, unix.SO_SNDBUF, 60000},
		{2, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
	} {
		got, err := unix.GetsockoptInt(r.l.Fd(id), c.level, c.opt)
		if err != nil || got != c.want {
			t.Errorf("option %d is %d, %v; want %d", c.name, got, err, c.want)
		}
	}
	flags, _ := unix.FcntlInt(uintptr(r.l.Fd(id)), unix.F_GETFD, 0)
	status, _ := unix.FcntlInt(uintptr(r.l.Fd(id)), unix.F_GETFL, 0)
	if flags&unix.FD_CLOEXEC == 0 || status&unix.O_NONBLOCK == 0 {
		t.Error("an accepted socket blocks or is inherited")
	}
}

// TestDeferAcceptBringsTheBytesAlong: the first receive needs no event of its own.
func TestDeferAcceptBringsTheBytesAlong(t *testing.T) { onEach(t, testDeferAcceptBringsTheBytesAlong) }

func testDeferAcceptBringsTheBytesAlong(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	addr := listen(t, r.l, ListenOptions{DeferAccept: true})
	var accepted, received uint64
	s.accepted = func(id ID, _ int, _ netip.AddrPort) {
		accepted = r.l.stats.Turns
		r.l.Recv(id, 100)
	}
	s.received = func(_ ID, b []byte, err error) {
		if string(b) != "request" || err != nil {
			t.Errorf("got %q, %v", b, err)
		}
		received = r.l.stats.Turns
	}
	if v, err := unix.GetsockoptInt(int(common(r.l).listeners[0].fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT); v != 1 || err != nil {
		t.Errorf("TCP_DEFER_ACCEPT is %d, %v", v, err)
	}
	dial(t, addr).Write([]byte("request"))
	r.until(func() bool { return received != 0 })
	if d := received - accepted; d > 0 && (d > 1 || isEpoll(r.l)) {
		t.Errorf("accepted in turn %d, received in turn %d", accepted, received)
	}
}

func TestListenRefusesWhatCannotBe(t *testing.T) { onEach(t, testListenRefusesWhatCannotBe) }

func testListenRefusesWhatCannotBe(t *testing.T, o Options) {
	r := turn(t, made(t, o, &script{}))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, addr := range map[string]netip.AddrPort{
		"no address":    {},
		"foreign":       netip.MustParseAddrPort("192.0.2.1:0"),
		"taken":         taken.Addr().(*net.TCPAddr).AddrPort(),
		"unknown scope": netip.MustParseAddrPort("[fe80::1%nosuchinterface]:0"),
	} {
		if _, _, err := r.l.Listen(addr, ListenOptions{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, _, err := r.l.Listen(loopback, ListenOptions{Backlog: -1}); err == nil {
		t.Error("negative backlog: no error")
	}
}

// TestAcceptsOfAnOlderKernel: it refuses the flag of a newer one, and is asked without it.
func TestAcceptsOfAnOlderKernel(t *testing.T) {
	s := &script{}
	l, err := New(Options{Backend: "io_uring", CPU: -1}, s)
	if err != nil {
		t.Skipf("no io_uring: %v", err)
	}
	u := l.be.(*uring)
	u.doors.first = 1 << 15 // no kernel knows it
	r := turn(t, l)
	addr := listen(t, l, ListenOptions{})
	n := 0
	s.accepted = func(ID, int, netip.AddrPort) { n++ }
	for range acceptBurst + 10 {
		dial(t, addr)
	}
	r.until(func() bool { return n == acceptBurst+10 })
	if u.doors.first != 0 || l.Stats().Descriptors != 0 {
		t.Errorf("flag %d, stats %+v", u.doors.first, l.Stats())
	}
}
