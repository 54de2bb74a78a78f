//go:build linux

package loop

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// far is an ordinary listener for connections of a loop.
func far(t testing.TB) (*net.TCPListener, netip.AddrPort) {
	t.Helper()
	ln, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(loopback))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln, ln.Addr().(*net.TCPAddr).AddrPort()
}

// nobody is an address where nothing listens.
func nobody(t testing.TB) netip.AddrPort {
	t.Helper()
	ln, addr := far(t)
	ln.Close()
	return addr
}

// connect opens a connection of the loop and waits for its completion.
func (r *turning) connect(s *script, o *ConnectOptions) (ID, error) {
	r.t.Helper()
	inside, done := true, false
	var result error
	var id ID
	s.connected = func(i ID, err error) {
		if inside || i != id {
			r.t.Errorf("Connected(%d) inside Connect: %v", i, inside)
		}
		result, done = err, true
	}
	id, err := r.l.Connect(o)
	inside = false
	if err != nil {
		return id, err
	}
	r.until(func() bool { return done })
	return id, result
}

func TestConnectAppliesItsOptions(t *testing.T) { onEach(t, testConnectAppliesItsOptions) }

func testConnectAppliesItsOptions(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	ln, addr := far(t)
	id, err := r.connect(s, &ConnectOptions{
		Remote: addr, Local: netip.MustParseAddrPort("127.0.0.77:0"),
		RcvBuf: 16 << 10, MaxSeg: 1460, NoDelay: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer := c.RemoteAddr().(*net.TCPAddr).AddrPort()
	if peer.Addr().String() != "127.0.0.77" || int(peer.Port()) != r.l.LocalPort(id) {
		t.Errorf("peer sees %v, own port %d", peer, r.l.LocalPort(id))
	}
	// TCP_MAXSEG says what is in use, a little below what was announced.
	for _, o := range []struct{ level, opt, low, high int }{
		{unix.SOL_SOCKET, unix.SO_RCVBUF, 32 << 10, 32 << 10},
		{unix.IPPROTO_TCP, unix.TCP_MAXSEG, 1400, 1460},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1, 1},
	} {
		if v, err := unix.GetsockoptInt(r.l.Fd(id), o.level, o.opt); v < o.low || v > o.high || err != nil {
			t.Errorf("option %d/%d is %d, %v", o.level, o.opt, v, err)
		}
	}
	// The far side learned the segment size in the handshake, so it was set before.
	raw, _ := c.SyscallConn()
	raw.Control(func(fd uintptr) {
		if v, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG); v > 1460 || err != nil {
			t.Errorf("the peer's segments have %d bytes, %v", v, err)
		}
	})
	r.l.Send(id, []byte("hello"), nil, nil)
	r.again() // a batch sends with the turn
	b := make([]byte, 10)
	if n, err := c.Read(b); string(b[:n]) != "hello" || err != nil {
		t.Errorf("peer reads %q, %v", b[:n], err)
	}
}

// TestLazyAck counts the segments sent when a connection stands: the handshake's last one is held back for 40 ms, which
// a busy machine may let pass, so that not every connection shows it.
func TestLazyAck(t *testing.T) { onEach(t, testLazyAck) }

func testLazyAck(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	_, addr := far(t)
	sent := func(lazy bool) uint32 {
		id, err := r.connect(s, &ConnectOptions{Remote: addr, LazyAck: lazy})
		if err != nil {
			t.Fatal(err)
		}
		defer r.l.Close(id)
		info, err := unix.GetsockoptTCPInfo(r.l.Fd(id), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Fatal(err)
		}
		return info.Segs_out
	}
	if n := sent(false); n != 2 {
		t.Errorf("%d segments for an ordinary connection, want SYN and ACK", n)
	}
	for range 50 {
		if sent(true) == 1 {
			return
		}
	}
	t.Error("the acknowledgement is never held back")
}

func TestConnectFromAGivenPort(t *testing.T) { onEach(t, testConnectFromAGivenPort) }

func testConnectFromAGivenPort(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	_, addr := far(t)
	free := nobody(t)
	id, err := r.connect(s, &ConnectOptions{Remote: addr, Local: free})
	if err != nil {
		t.Fatal(err)
	}
	if p := r.l.LocalPort(id); p != int(free.Port()) {
		t.Errorf("port %d, want %d", p, free.Port())
	}
	if _, err := r.connect(s, &ConnectOptions{Remote: addr, Local: free}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the port twice: %v", err)
	}
}

func TestConnectRefusedIsACompletion(t *testing.T) { onEach(t, testConnectRefusedIsACompletion) }

func testConnectRefusedIsACompletion(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, err := r.connect(s, &ConnectOptions{Remote: nobody(t)})
	if err != syscall.ECONNREFUSED {
		t.Errorf("error %v, want ECONNREFUSED", err)
	}
	if r.l.Fd(id) < 0 {
		t.Error("the ID is gone before Close")
	}
	r.l.Close(id)
	if st := r.l.Stats(); st.Connects != 1 || st.ConnectErrors != 1 || st.Open != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestConnectReportsWhatItCannotBegin(t *testing.T) {
	onEach(t, testConnectReportsWhatItCannotBegin)
}

func testConnectReportsWhatItCannotBegin(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	_, addr := far(t)
	for name, o := range map[string]*ConnectOptions{
		"no remote":      {},
		"mixed families": {Remote: addr, Local: netip.MustParseAddrPort("[::1]:0")},
		"foreign source": {Remote: addr, Local: netip.MustParseAddrPort("192.0.2.1:0")},
		"segment size":   {Remote: addr, MaxSeg: 1},
	} {
		before := descriptors(t)
		if _, err := r.l.Connect(o); err == nil {
			t.Errorf("%s: no error", name)
		}
		if n := descriptors(t); n != before {
			t.Errorf("%s: %d descriptors, %d before", name, n, before)
		}
	}
}

// TestARatedReaderHoldsTheSenderBack is the driver's use: a small receive buffer, and
// no byte is taken from the kernel that was not asked for.
func TestARatedReaderHoldsTheSenderBack(t *testing.T) { onEach(t, testARatedReaderHoldsTheSenderBack) }

func testARatedReaderHoldsTheSenderBack(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	ln, addr := far(t)
	id, err := r.connect(s, &ConnectOptions{Remote: addr, RcvBuf: 16 << 10, MaxSeg: 1460})
	if err != nil {
		t.Fatal(err)
	}
	c, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	c.SetWriteBuffer(16 << 10)
	want := noise(2<<20, 3)
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(want)
		c.Close()
		wrote <- err
	}()
	var got bytes.Buffer
	ended := false
	s.received = func(_ ID, b []byte, err error) {
		if len(b) > 11680 || err != nil {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		got.Write(b)
		ended = len(b) == 0
	}
	for !ended {
		if got.Len() < 1<<20 {
			select {
			case <-wrote:
				t.Fatalf("all was written after %d bytes had been read", got.Len())
			default:
			}
		}
		before := got.Len()
		r.l.Recv(id, 11680)
		r.until(func() bool { return ended || got.Len() > before })
	}
	if err := await(t, wrote); err != nil {
		t.Error(err)
	}
	same(t, got.Bytes(), want)
}
