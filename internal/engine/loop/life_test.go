//go:build linux

package loop

import (
	"io"
	"net"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/clock"
)

// TestCloseInsideEveryCallback closes, aborts and does both twice where that can hurt.
func TestCloseInsideEveryCallback(t *testing.T) { onEach(t, testCloseInsideEveryCallback) }

func testCloseInsideEveryCallback(t *testing.T, o Options) {
	closers := map[string]func(*Loop, ID){
		"close": (*Loop).Close,
		"abort": (*Loop).Abort,
		"close twice and use": func(l *Loop, id ID) {
			l.Close(id)
			l.Close(id)
			l.Abort(id)
			l.CloseWrite(id)
			l.Recv(id, 10)
			if l.Send(id, []byte("x"), nil, nil) || l.SendFile(id, nil, 0, 0, 1, nil) {
				t.Error("a closed connection sends")
			}
			if l.Fd(id) != -1 || l.LocalPort(id) != 0 {
				t.Error("a closed connection has a socket")
			}
		},
	}
	for how, end := range closers {
		for _, where := range []string{"accepted", "connected", "received", "received end", "sent", "sent error", "expired", "post"} {
			t.Run(how+" in "+where, func(t *testing.T) {
				s := &script{}
				r := turn(t, made(t, o, s))
				ended := false
				at := func(place string, id ID) {
					if ended {
						t.Errorf("%s for %d after its close", place, id)
					} else if place == where {
						ended = true
						end(r.l, id)
					}
				}
				s.connected = func(id ID, err error) {
					r.l.Recv(id, 100)
					at("connected", id)
					r.l.Recv(id, 100)
				}
				s.received = func(id ID, b []byte, err error) {
					if len(b) > 0 {
						at("received", id)
					} else {
						at("received end", id)
					}
					r.l.Recv(id, 100)
				}
				s.sent = func(id ID, err error) {
					if err == nil {
						at("sent", id)
					} else {
						at("sent error", id)
					}
					r.l.CloseWrite(id)
				}
				var id ID
				s.expired = func(uint32, clock.Instant) { at("expired", id) }

				switch where {
				case "accepted":
					addr := listen(t, r.l, ListenOptions{})
					s.accepted = func(id ID, _ int, _ netip.AddrPort) {
						r.l.Recv(id, 100)
						at("accepted", id)
						r.l.Recv(id, 100)
					}
					dial(t, addr).Write([]byte("x"))
				case "connected":
					_, addr := far(t)
					if _, err := r.l.Connect(&ConnectOptions{Remote: addr}); err != nil {
						t.Fatal(err)
					}
				default:
					var c *net.TCPConn
					id, c = r.peer(s, ListenOptions{})
					c.Write([]byte("x"))
					if where != "received" {
						r.input(id)
					}
					if where == "received end" {
						c.CloseWrite()
					}
					if where != "received" && where != "received end" {
						r.l.Send(id, nil, make([]byte, 16<<20), nil)
					}
					if where == "sent" {
						drained := make(chan struct{})
						go func() { io.Copy(io.Discard, c); close(drained) }()
						defer await(t, drained)
					}
					r.l.Recv(id, 100)
					switch where {
					case "sent error":
						c.SetLinger(0)
						c.Close()
					case "expired":
						r.l.SetTimer(7, clock.Now())
					case "post":
						r.l.Post(func() { at("post", id) })
					}
				}
				r.until(func() bool { return ended })
				// Whatever the kernel still has to say about it meets no one.
				for range 5 {
					r.l.Post(func() {})
					r.once()
				}
				if st := r.l.Stats(); st.Open != 0 || len(common(r.l).out.free) != len(common(r.l).out.all) {
					t.Errorf("something is left: %+v", st)
				}
			})
		}
	}
}

// TestStaleEventsReachNobody makes two connections ready in one batch. Whichever is
// told first closes the other and opens connections; the other's event is still to
// come in the same batch.
func TestStaleEventsReachNobody(t *testing.T) { onEach(t, testStaleEventsReachNobody) }

func testStaleEventsReachNobody(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	a, ca := r.peer(s, ListenOptions{})
	b, cb := r.peer(s, ListenOptions{})
	addr := listen(t, r.l, ListenOptions{})
	r.l.Recv(a, 100)
	r.l.Recv(b, 100)
	ca.Write([]byte("x"))
	cb.Write([]byte("x"))
	var told, fresh []ID
	s.received = func(id ID, _ []byte, _ error) {
		told = append(told, id)
		if len(told) > 1 {
			t.Errorf("Received for %v", told)
			return
		}
		other := a + b - id
		r.l.Close(other)
		for range 3 {
			n, err := r.l.Connect(&ConnectOptions{Remote: addr})
			if err != nil {
				t.Fatal(err)
			}
			if n == other {
				t.Errorf("ID %d is used again in the turn of its close", n)
			}
			r.l.Recv(n, 100)
			fresh = append(fresh, n)
		}
	}
	r.once()
	if len(told) != 1 || r.l.Stats().Stale != 1 {
		t.Errorf("told %v, %d stale events", told, r.l.Stats().Stale)
	}
	// From the next turn on the ID is free.
	other := a + b - told[0]
	n, err := r.l.Connect(&ConnectOptions{Remote: addr})
	if err != nil || n != other {
		t.Errorf("next ID %d, %v; want %d back", n, err, other)
	}
}

// TestEventsOfAnEarlierOwnerAreStale keeps a closed socket in the epoll set by a second
// descriptor, as a child process does between fork and exec.
func TestEventsOfAnEarlierOwnerAreStale(t *testing.T) {
	s := &script{}
	r := turn(t, made(t, Options{}, s))
	id, c := r.peer(s, ListenOptions{})
	copied, err := unix.Dup(r.l.Fd(id))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	r.l.Close(id)
	r.l.Post(func() {})
	r.once()
	again, _ := r.peer(s, ListenOptions{})
	if again != id {
		t.Fatalf("ID %d, want %d used again: the test shows nothing", again, id)
	}
	before := r.l.Stats()
	c.Write([]byte("for the earlier owner"))
	r.once()
	if st := r.l.Stats(); st.Stale != before.Stale+1 || r.l.table.lookup(id).flags&readable != 0 {
		t.Errorf("%d stale events, flags %#x", st.Stale, r.l.table.lookup(id).flags)
	}
}

func TestRefsOutliveTheirIDs(t *testing.T) { onEach(t, testRefsOutliveTheirIDs) }

func testRefsOutliveTheirIDs(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, _ := r.peer(s, ListenOptions{})
	first := r.l.Ref(id)
	if !r.l.Alive(first) {
		t.Error("an open connection is not alive")
	}
	var ran []string
	r.l.PostTo(first, func() { ran = append(ran, "open") })
	r.once()
	r.l.PostTo(first, func() { ran = append(ran, "closed") })
	r.l.Close(id)
	if r.l.Alive(first) || r.l.Alive(r.l.Ref(id)) {
		t.Error("a closed connection is alive")
	}
	r.once()
	again, _ := r.peer(s, ListenOptions{})
	if again != id {
		t.Fatalf("ID %d, want %d used again: the test shows nothing", again, id)
	}
	r.l.PostTo(first, func() { ran = append(ran, "reused") })
	r.l.PostTo(r.l.Ref(id), func() { ran = append(ran, "new") })
	r.once()
	if len(ran) != 2 || ran[0] != "open" || ran[1] != "new" {
		t.Errorf("ran %v", ran)
	}
	if r.l.Alive(Ref{ID: 1 << 30}) || r.l.Fd(1<<30) != -1 {
		t.Error("a connection that never was is alive")
	}
}

func TestMaxConnsStopsAcceptingUntilThereIsRoom(t *testing.T) {
	onEach(t, testMaxConnsStopsAcceptingUntilThereIsRoom)
}

func testMaxConnsStopsAcceptingUntilThereIsRoom(t *testing.T, o Options) {
	const limit = 3
	o.MaxConns = limit
	s := &script{}
	r := turn(t, made(t, o, s))
	addr := listen(t, r.l, ListenOptions{})
	var ids []ID
	s.accepted = func(id ID, _ int, _ netip.AddrPort) {
		if id >= limit {
			t.Errorf("ID %d reaches MaxConns", id)
		}
		ids = append(ids, id)
	}
	for range 2 * limit {
		dial(t, addr)
	}
	r.until(func() bool { return r.l.Stats().Full > 0 })
	if len(ids) != limit {
		t.Fatalf("%d accepted", len(ids))
	}
	if _, err := r.l.Connect(&ConnectOptions{Remote: addr}); err != ErrFull {
		t.Errorf("Connect at the bound: %v", err)
	}
	if d := r.l.patience(); d == 0 {
		t.Error("a full loop does not sleep")
	}
	for n := limit; n < 2*limit; n++ {
		r.l.Close(ids[n-limit])
		if _, err := r.l.Connect(&ConnectOptions{Remote: addr}); err != ErrFull {
			t.Errorf("Connect in the turn of the close: %v", err)
		}
		r.again() // an ID is free at the end of a turn, and the test is outside of one
		r.until(func() bool { return len(ids) > n })
	}
}

// TestOwnConnectionsTakeTheRoomOfAListener: who arrives meanwhile is served when there is room again.
func TestOwnConnectionsTakeTheRoomOfAListener(t *testing.T) {
	onEach(t, testOwnConnectionsTakeTheRoomOfAListener)
}

func testOwnConnectionsTakeTheRoomOfAListener(t *testing.T, o Options) {
	o.MaxConns = 3
	s := &script{}
	r := turn(t, made(t, o, s))
	addr := listen(t, r.l, ListenOptions{})
	r.again() // accepts are open
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var own, came []ID
	s.accepted = func(id ID, _ int, _ netip.AddrPort) {
		came = append(came, id)
		r.l.Send(id, []byte("served"), nil, nil)
	}
	for range o.MaxConns {
		id, err := r.l.Connect(&ConnectOptions{Remote: other.Addr().(*net.TCPAddr).AddrPort()})
		if err != nil {
			t.Fatal(err)
		}
		own = append(own, id)
	}
	peers := []*net.TCPConn{dial(t, addr), dial(t, addr)}
	r.until(func() bool { return r.l.Stats().Full > 0 })
	if len(came) != 0 {
		t.Fatal("accepted beyond MaxConns")
	}
	if d := r.l.patience(); d == 0 {
		t.Error("a full loop does not sleep")
	}
	for i, c := range peers {
		r.l.Close(own[i])
		r.again() // see above
		r.until(func() bool { return len(came) > i })
		r.l.CloseWrite(came[i])
		r.again()
		if b, err := io.ReadAll(c); string(b) != "served" || err != nil {
			t.Errorf("peer %d reads %q, %v", i, b, err)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

func TestRunLeavesNoDescriptorBehind(t *testing.T) { onEach(t, testRunLeavesNoDescriptorBehind) }

func testRunLeavesNoDescriptorBehind(t *testing.T, o Options) {
	before := descriptors(t)
	s := &script{}
	l := made(t, o, s)
	addr := listen(t, l, ListenOptions{})
	listen(t, l, ListenOptions{})
	done := make(chan error, 1)
	go func() { done <- l.Run() }()
	accepted := make(chan ID, 1)
	on(t, l, func() {
		s.accepted = func(id ID, _ int, _ netip.AddrPort) { accepted <- id }
		if _, err := l.Connect(&ConnectOptions{Remote: addr}); err != nil {
			t.Error(err)
		}
	})
	await(t, accepted)
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	await(t, accepted)
	l.Stop()
	l.Stop()
	if err := await(t, done); err != nil {
		t.Error(err)
	}
	if l.Post(func() { t.Error("ran") }) || l.PostTo(Ref{}, func() { t.Error("ran") }) {
		t.Error("a stopped loop takes posts")
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("the peer of a stopped loop: %v", err)
	}
	c.Close()
	if err := l.Run(); err == nil {
		t.Error("Run twice")
	}
	if n := descriptors(t); n > before+1 {
		// One more: the runtime may have opened its own epoll set meanwhile.
		t.Errorf("%d descriptors, %d before", n, before)
	}
	if s := l.Stats(); s.Open != 0 || s.Closes != 3 {
		t.Errorf("stats %+v", s)
	}
}

// TestDescriptorsOfThoseWhoArrivedLate: connections that the kernel has accepted and nobody was told of.
func TestDescriptorsOfThoseWhoArrivedLate(t *testing.T) {
	onEach(t, testDescriptorsOfThoseWhoArrivedLate)
}

func testDescriptorsOfThoseWhoArrivedLate(t *testing.T, o Options) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, stop := range []bool{false, true} {
		before := descriptors(t)
		o.MaxConns = 2
		s := &script{accepted: func(ID, int, netip.AddrPort) { t.Error("accepted beyond MaxConns") }}
		l := made(t, o, s)
		index, addr, err := l.Listen(loopback, ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- l.Run() }()
		full := make(chan bool, 1)
		on(t, l, func() {
			for range o.MaxConns {
				if _, err := l.Connect(&ConnectOptions{Remote: other.Addr().(*net.TCPAddr).AddrPort()}); err != nil {
					t.Error(err)
				}
			}
		})
		peers := []net.Conn{dial(t, addr), dial(t, addr)}
		for is := false; !is; is = <-full {
			on(t, l, func() { full <- l.Stats().Full > 0 })
		}
		if stop {
			on(t, l, func() { l.StopListen(index) })
		}
		l.Stop()
		if err := await(t, done); err != nil {
			t.Error(err)
		}
		for _, c := range peers {
			c.Close()
		}
		if n := descriptors(t); n > before+1 { // one more: see above
			t.Errorf("stopped %v: %d descriptors, %d before", stop, n, before)
		}
	}
}

func TestNewRefusesBadOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"backend":      {Backend: "kqueue", CPU: -1},
		"CPU":          {CPU: -2},
		"CPU too big":  {CPU: 1 << 20},
		"absent CPU":   {CPU: 1023},
		"connections":  {MaxConns: -1, CPU: -1},
		"small buffer": {RecvBuffer: 1, CPU: -1},
		"big buffer":   {RecvBuffer: 1 << 30, CPU: -1},
	} {
		if l, err := New(o, &script{}); err == nil {
			t.Errorf("%s: no error", name)
			l.Stop()
			l.Run()
		}
	}
	if _, err := New(Options{CPU: -1}, nil); err == nil {
		t.Error("no handler: no error")
	}
}
