package slot

import (
	"container/heap"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"tidemark.dev/internal/drive/slot/origin"
	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// sim is a network and a clock: a carrier whose time moves only from event to event.
type sim struct {
	t       testing.TB
	now     clock.Instant
	start   clock.Instant // of the turn
	behind  time.Duration // how long the event has waited for earlier ones
	lag     func() time.Duration
	w       *worker
	tables  *web99.Tables
	events  simHeap
	seq     int
	timers  map[uint32]int // sequence of the valid timer event
	conns   []*simConn
	free    []loop.ID
	skipped int                          // bytes that were thrown away
	dial    func(c *simConn)             // decides about a connection; nil accepts after 1 ms
	serve   func(c *simConn, req []byte) // answers a request
}

type simEvent struct {
	at  clock.Instant
	seq int
	do  func()
}

type simHeap []simEvent

func (h simHeap) Len() int { return len(h) }
func (h simHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h simHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *simHeap) Push(x any)   { *h = append(*h, x.(simEvent)) }
func (h *simHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

type simConn struct {
	s       *sim
	id      loop.ID
	remote  netip.AddrPort
	local   netip.AddrPort
	in      []byte // arrived, not received
	end     bool   // FIN arrived behind in
	err     error  // error behind in
	armed   int
	skip    bool
	closed  bool
	pending bool // a completion is scheduled
	asked   int  // requests seen
}

func (s *sim) at(t clock.Instant, do func()) int {
	s.seq++
	heap.Push(&s.events, simEvent{t, s.seq, do})
	return s.seq
}

func (s *sim) after(d time.Duration, do func()) { s.at(s.now.Add(d), do) }

// run handles events up to t.
func (s *sim) run(t clock.Instant) {
	for len(s.events) > 0 && s.events[0].at <= t {
		e := heap.Pop(&s.events).(simEvent)
		s.now = max(s.now, e.at)
		s.start, s.behind = s.now, s.now.Sub(e.at)
		if s.lag != nil { // the loop gets to the event late
			s.now = s.now.Add(s.lag())
		}
		e.do()
	}
	s.now = max(s.now, t)
	s.start = s.now
}

func (s *sim) Connect(o *loop.ConnectOptions) (loop.ID, error) {
	c := &simConn{s: s, remote: o.Remote, local: o.Local}
	if n := len(s.free); n > 0 {
		c.id = s.free[n-1]
		s.free = s.free[:n-1]
		s.conns[c.id] = c
	} else {
		c.id = loop.ID(len(s.conns))
		s.conns = append(s.conns, c)
	}
	if s.dial != nil {
		s.dial(c)
	} else {
		c.accept(time.Millisecond, nil)
	}
	return c.id, nil
}

// accept completes the connection after d.
func (c *simConn) accept(d time.Duration, err error) {
	c.s.after(d, func() {
		if !c.closed {
			c.s.w.Connected(c.id, err)
		}
	})
}

func (s *sim) Recv(id loop.ID, max int) { s.receive(id, max, false) }
func (s *sim) Skip(id loop.ID, max int) { s.receive(id, max, true) }

func (s *sim) receive(id loop.ID, max int, skip bool) {
	c := s.conns[id]
	c.skip = skip
	if max < 1 {
		s.t.Errorf("receive of %d bytes", max)
	}
	c.armed = min(max, 64<<10)
	c.wake()
}

// wake schedules the completion of an armed receive.
func (c *simConn) wake() {
	if c.armed == 0 || c.pending || len(c.in) == 0 && !c.end && c.err == nil {
		return
	}
	c.pending = true
	c.s.after(0, func() {
		c.pending = false
		if c.closed || c.armed == 0 {
			return
		}
		n := min(len(c.in), c.armed)
		b := append([]byte(nil), c.in[:n]...)
		c.in = c.in[n:]
		if c.skip {
			for i := range b {
				b[i] = 0xee // nobody may look
			}
			c.s.skipped += n
		}
		c.armed = 0
		var err error
		if n == 0 {
			err = c.err
		}
		c.s.w.Received(c.id, b, err)
		clear(b) // views must not be kept
	})
}

// send makes bytes arrive after d.
func (c *simConn) send(d time.Duration, b []byte) {
	b = append([]byte(nil), b...)
	c.s.after(d, func() { c.in = append(c.in, b...); c.wake() })
}

func (c *simConn) fin(d time.Duration) { c.s.after(d, func() { c.end = true; c.wake() }) }
func (c *simConn) rst(d time.Duration) {
	c.s.after(d, func() { c.in, c.err = nil, syscall.ECONNRESET; c.wake() })
}

func (s *sim) Send(id loop.ID, head, body, tail []byte) bool {
	c := s.conns[id]
	c.asked++
	s.serve(c, append(append(append([]byte(nil), head...), body...), tail...))
	return true
}

func (s *sim) Close(id loop.ID) {
	c := s.conns[id]
	if c.closed {
		s.t.Errorf("connection %d closed twice", id)
	}
	c.closed = true
	s.after(0, func() { s.free = append(s.free, id) })
}

func (s *sim) SetTimer(key uint32, due clock.Instant) {
	tick := clock.Instant(time.Millisecond)
	at := max((due+tick-1)/tick*tick, s.now)
	var seq int
	seq = s.at(at, func() {
		if s.timers[key] == seq {
			delete(s.timers, key)
			s.w.Expired(key, due)
		}
	})
	s.timers[key] = seq
}

func (s *sim) CancelTimer(key uint32)   { delete(s.timers, key) }
func (s *sim) Refresh() clock.Instant   { return s.now }
func (s *sim) TurnStart() clock.Instant { return s.start }
func (s *sim) Backlog() time.Duration   { return s.behind }
func (s *sim) Fd(loop.ID) int           { return -1 }
func (s *sim) Stats() loop.Stats        { return loop.Stats{} }

// law returns the web99 workload, changed.
func law(t testing.TB, change func(*workload.Workload)) *workload.Workload {
	t.Helper()
	w, err := workload.Preset("web99")
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(w)
	}
	return w
}

var simTarget = netip.MustParseAddrPort("127.0.0.1:80")

// simulate makes one worker over a simulated network. serve nil: the right answer after 10 ms.
func simulate(t testing.TB, p Plan, dirs, users int) *sim {
	t.Helper()
	if p.Workload == nil {
		p.Workload = law(t, nil)
	}
	if p.Targets == nil {
		p.Targets = []netip.AddrPort{simTarget}
	}
	p.Wall = func(clock.Instant) int64 { return origin.Now }
	line, err := p.prepare()
	if err != nil {
		t.Fatal(err)
	}
	s := &sim{t: t, now: 1e9, start: 1e9, timers: map[uint32]int{}}
	s.w = newWorker(&p, line, 0, 1)
	s.w.net = s
	s.tables = origin.Tables(users)
	s.w.checker.SetTables(s.tables)
	s.w.sampler = p.Workload.Sampler(dirs, users)
	o := &origin.Origin{Seed: p.FileSeed, Tables: s.tables, Routes: p.Workload.Routes}
	s.serve = func(c *simConn, req []byte) {
		b, last := o.Answer(req)
		c.send(10*time.Millisecond, b)
		if last {
			c.fin(10 * time.Millisecond)
		}
	}
	return s
}

func (s *sim) load(n int) { s.w.setLoad(n, s.w.sampler, 1) }

// window records between two instants from now and returns the window after its end.
func (s *sim) window(from, to time.Duration) *window {
	win := newWindow(s.now.Add(from), s.now.Add(to), s.w.users, 100)
	s.w.setWindow(win)
	s.run(win.end.Add(time.Second))
	if !win.over {
		s.t.Fatal("window is not over")
	}
	return win
}

// small leaves class 0 alone.
func small(w *workload.Workload) {
	for i := range w.Files.Class {
		w.Files.Class[i].Share = 0
	}
	w.Files.Class[0].Share = 1
}
