//go:build linux

package loop

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
	"unsafe"
)

// pingpong is a handler for both ends of n connections on one loop: the connecting
// ends send a request whenever the answer to the last one is complete.
type pingpong struct {
	script
	l          *Loop
	request    []byte
	head, body []byte
	mine       []bool // by ID: a connecting end
	left       []int  // by ID: bytes of the answer still to come
	exchanges  int
	timers     bool
}

func newPingpong(t testing.TB, o Options, conns, body int, timers bool) *pingpong {
	p := &pingpong{
		request: make([]byte, 120), head: make([]byte, 230), body: make([]byte, body), timers: timers,
		mine: make([]bool, 2*conns), left: make([]int, 2*conns),
	}
	o.MaxConns = 2 * conns
	p.l = made(t, o, p)
	addr := listen(t, p.l, ListenOptions{NoDelay: true})
	ready := 0
	p.accepted = func(id ID, _ int, _ netip.AddrPort) {
		p.l.Recv(id, 64<<10)
		ready++
	}
	p.connected = func(id ID, err error) {
		if err != nil {
			t.Fatal(err)
		}
		p.mine[id] = true
		p.l.Recv(id, 64<<10)
		ready++
	}
	p.received = p.exchange
	r := turn(t, p.l)
	for range conns {
		if _, err := p.l.Connect(&ConnectOptions{Remote: addr, NoDelay: true}); err != nil {
			t.Fatal(err)
		}
	}
	r.until(func() bool { return ready == 2*conns })
	for id, mine := range p.mine {
		if mine {
			p.ask(ID(id))
		}
	}
	return p
}

func (p *pingpong) ask(id ID) {
	p.left[id] = len(p.head) + len(p.body)
	p.l.Send(id, p.request, nil, nil)
}

func (p *pingpong) exchange(id ID, b []byte, err error) {
	if err != nil || len(b) == 0 {
		panic("ping-pong: the connection ended")
	}
	if !p.mine[id] {
		p.l.Send(id, p.head, p.body, nil)
	} else if p.left[id] -= len(b); p.left[id] == 0 {
		p.exchanges++
		p.ask(id)
	}
	if p.timers {
		p.l.SetTimer(uint32(id), p.l.Now().Add(time.Second))
	}
	p.l.Recv(id, 64<<10)
}

func TestATurnDoesNotAllocate(t *testing.T) { onEach(t, testATurnDoesNotAllocate) }

func testATurnDoesNotAllocate(t *testing.T, o Options) {
	p := newPingpong(t, o, 20, 1000, true)
	run := func() {
		for range 20 {
			if _, err := p.l.turn(); err != nil {
				t.Fatal(err)
			}
		}
	}
	run() // lists and wheel grow
	before := p.exchanges
	if n := testing.AllocsPerRun(50, run); n != 0 {
		t.Errorf("%v allocations in 20 turns", n)
	}
	if p.exchanges == before {
		t.Fatal("nothing was exchanged: the test shows nothing")
	}
}

// TestUnfinishedSendsDoNotAllocate sends more than the kernel takes, from memory and
// from a file, to the other end on the same loop.
func TestUnfinishedSendsDoNotAllocate(t *testing.T) { onEach(t, testUnfinishedSendsDoNotAllocate) }

func testUnfinishedSendsDoNotAllocate(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	body := make([]byte, 4<<20)
	f := file(t, body)
	fd := int(f.Fd())
	addr := listen(t, r.l, ListenOptions{SndBuf: 256 << 10, NoDelay: true})
	var from ID
	ready, partial, got := 0, 0, 0
	s.accepted = func(id ID, _ int, _ netip.AddrPort) { from = id; ready++ }
	s.connected = func(id ID, err error) { ready++; r.l.Recv(id, 1<<20) }
	s.received = func(id ID, b []byte, err error) { got += len(b); r.l.Recv(id, 1<<20) }
	s.sent = func(ID, error) { partial++ }
	if _, err := r.l.Connect(&ConnectOptions{Remote: addr}); err != nil {
		t.Fatal(err)
	}
	r.until(func() bool { return ready == 2 })
	head := make([]byte, 300)
	run := func() {
		for k := range 2 {
			got = 0
			partial = 0
			var done bool
			if k == 0 {
				done = r.l.Send(from, head, body, head)
			} else {
				done = r.l.SendFile(from, head, fd, 0, int64(len(body)), head)
			}
			if done {
				t.Fatal("the kernel took megabytes into a small buffer")
			}
			for got < len(body)+600 || partial == 0 {
				if _, err := r.l.turn(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if n := testing.AllocsPerRun(5, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestConnectionsDoNotAllocate opens and closes connections on a loop that has had as
// many before.
func TestConnectionsDoNotAllocate(t *testing.T) { onEach(t, testConnectionsDoNotAllocate) }

func testConnectionsDoNotAllocate(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	to := &ConnectOptions{Remote: listen(t, r.l, ListenOptions{})}
	closed := 0
	s.accepted = func(id ID, _ int, _ netip.AddrPort) { r.l.Recv(id, 100) }
	s.connected = func(id ID, err error) {
		r.l.Abort(id) // no TIME_WAIT, please
		closed++
	}
	s.received = func(id ID, b []byte, err error) {
		r.l.Close(id)
		closed++
	}
	run := func() {
		closed = 0
		for range 10 {
			if _, err := r.l.Connect(to); err != nil {
				t.Fatal(err)
			}
		}
		for closed < 20 {
			if _, err := r.l.turn(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := testing.AllocsPerRun(20, run); n != 0 {
		t.Errorf("%v allocations for 10 connections", n)
	}
}

func TestAConnectionIsSmall(t *testing.T) {
	// The budget; what a partial send needs comes on top while it lasts.
	if n := unsafe.Sizeof(conn{}); n > 128 {
		t.Errorf("%d bytes", n)
	}
}

// BenchmarkExchange is a request of 120 bytes and an answer of 230 bytes of head and a
// body, both ends on one loop: the figure is the cost of two sends, two receives and
// the loop's part for both sides, in ns per exchange.
func BenchmarkExchange(b *testing.B) {
	for _, v := range variants() {
		for _, body := range []int{0, 15 << 10} {
			for _, conns := range []int{1, 64, 1000} {
				b.Run(fmt.Sprintf("%s/body=%d/conns=%d", v.name, body, conns), func(b *testing.B) {
					if why := refusal(b); why != "" && v.o.Backend == "io_uring" {
						b.Skip(why)
					}
					p := newPingpong(b, v.o, conns, body, true)
					b.ReportAllocs()
					b.ResetTimer()
					for end := p.exchanges + b.N; p.exchanges < end; {
						if _, err := p.l.turn(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkTurn is a turn in which nothing happens and the loop may not sleep.
func BenchmarkTurn(b *testing.B) {
	l := made(b, Options{}, &script{})
	turn(b, l)
	e := common(l)
	b.ReportAllocs()
	for b.Loop() {
		e.leaving = true // keeps the loop awake without work
		if _, err := l.turn(); err != nil {
			b.Fatal(err)
		}
	}
}
