package slot

import (
	"bytes"
	"math"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"testing"
	"tidemark.dev/internal/drive/slot/exchange"
	"tidemark.dev/internal/drive/slot/origin"
	"time"
	"unsafe"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/workload"
)

// TestSessionsEndAsTheyMust watches connections from the server's side: none carries a request after its last one,
// and the target's FIN comes first.
func TestSessionsEndAsTheyMust(t *testing.T) {
	s := simulate(t, Plan{Count: 20, Seed: 2}, 30, 100)
	serve := s.serve
	last := map[*simConn]bool{}
	s.serve = func(c *simConn, req []byte) {
		if last[c] {
			t.Fatal("a request after the last of a session")
		}
		if c.closed {
			t.Fatal("a request on a closed connection")
		}
		last[c] = contains(req, "Connection: close\r\n")
		if contains(req, " HTTP/1.0\r\n") && !last[c] && !contains(req, "Connection: keep-alive\r\n") {
			t.Fatalf("HTTP/1.0 session that forgets to stay: %q", req)
		}
		serve(c, req)
	}
	s.load(20)
	waiting := 0
	for range 100 { // a connection that the target has ended is closed at once, not at the end of the line time
		s.run(s.now.Add(20 * time.Millisecond))
		for i := range s.w.slots {
			sl := &s.w.slots[i]
			if sl.linked && sl.eof {
				t.Fatalf("slot %d in state %d holds a connection that is over", i, sl.state)
			}
			if !sl.linked && sl.state == crediting {
				waiting++
			}
		}
	}
	if waiting == 0 {
		t.Error("no slot was seen waiting out its line without a connection")
	}
	win := s.window(2*time.Second, 40*time.Second)
	perConnection := float64(win.sum.ops) / float64(win.sum.connects)
	if want := s.w.plan.Workload.RequestsPerConnection(); math.Abs(perConnection-want) > 0.25*want {
		t.Errorf("%.2f requests per connection, the law has %.2f", perConnection, want)
	}
	if win.sum.finMissing+win.sum.hangups+win.sum.stale+win.sum.failed > 0 {
		t.Errorf("a right server gave %+v", win.sum)
	}
}

func contains(b []byte, s string) bool { return bytes.Contains(b, []byte(s)) }

// TestTargetClosesConnections sorts the ways in which a target may end a connection.
func TestTargetClosesConnections(t *testing.T) {
	keep := func(w *workload.Workload) { w.Sessions.KeepaliveShare = 1 }
	for _, c := range []struct {
		name  string
		serve func(o *origin.Origin, c *simConn, req []byte)
		check func(t *testing.T, d sums, win *window)
	}{
		{"never after a last request", func(o *origin.Origin, c *simConn, req []byte) {
			b, _ := o.Answer(req)
			c.send(0, b)
		}, func(t *testing.T, d sums, win *window) {
			if d.finMissing == 0 || d.failed > 0 || d.hangups > 0 {
				t.Errorf("%+v", d)
			}
		}},
		{"at once, told so", func(o *origin.Origin, c *simConn, req []byte) {
			o.Change = func(a *origin.Answer, q *origin.Asked) { a.Last = true }
			b, _ := o.Answer(req)
			c.send(0, b)
			c.fin(0)
		}, func(t *testing.T, d sums, win *window) {
			if d.finMissing > 0 || d.failed > 0 || d.hangups > 0 || d.connects < d.ops {
				t.Errorf("%+v", d)
			}
		}},
		{"while the line time runs, untold", func(o *origin.Origin, c *simConn, req []byte) {
			b, _ := o.Answer(req)
			c.send(0, b)
			c.fin(0)
		}, func(t *testing.T, d sums, win *window) {
			if d.hangups == 0 || d.failed > 0 || d.stale > 0 {
				t.Errorf("%+v", d)
			}
		}},
		{"with a reset while the line time runs", func(o *origin.Origin, c *simConn, req []byte) {
			b, _ := o.Answer(req)
			c.send(0, b)
			c.s.after(time.Microsecond, func() { c.err = syscall.ECONNRESET; c.wake() })
		}, func(t *testing.T, d sums, win *window) {
			if d.hangups == 0 || d.failed > 0 {
				t.Errorf("%+v", d)
			}
		}},
		{"instead of answering a second request", func(o *origin.Origin, c *simConn, req []byte) {
			if c.asked > 1 {
				c.fin(0)
				return
			}
			b, last := o.Answer(req)
			c.send(0, b)
			if last {
				c.fin(0)
			}
		}, func(t *testing.T, d sums, win *window) {
			if d.stale == 0 || d.stale != d.failed || win.trip.count[exchange.Closed] != d.failed || d.hangups > 0 {
				t.Errorf("%+v %v", d, win.trip.errors())
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := simulate(t, Plan{Count: 10, Workload: law(t, keep)}, 30, 100)
			o := &origin.Origin{Tables: s.tables, Routes: s.w.plan.Workload.Routes}
			s.serve = func(conn *simConn, req []byte) { c.serve(o, conn, req) }
			s.load(10)
			win := s.window(time.Second, 20*time.Second)
			c.check(t, win.sum, win)
			if win.opTime != 10*19*time.Second {
				t.Errorf("operations took %v", win.opTime)
			}
		})
	}
}

// TestDrain pauses in the middle of everything: all operations end soon, their rest unpaced, connections stay, and
// the slots go on where they are told to.
func TestDrain(t *testing.T) {
	s := simulate(t, Plan{Count: 200, RampPerSecond: 1000, VerifyEvery: -1}, 30, 100)
	s.load(200)
	s.run(s.now.Add(5 * time.Second))
	if s.w.running != 200 || s.w.reached.Load() != 1 {
		t.Fatalf("%d slots run", s.w.running)
	}
	idle := make(chan struct{})
	s.w.idleWait = append(s.w.idleWait, idle)
	before := s.w.sum
	s.w.pause()
	s.run(s.now.Add(1100 * time.Millisecond))
	select {
	case <-idle:
	default:
		t.Fatalf("%d slots still run", s.w.running)
	}
	if d := s.w.sum.minus(before); d.failed > 0 || d.ops == 0 || d.ops > 200 {
		t.Errorf("%+v during the drain", d)
	}
	if s.skipped == 0 {
		t.Error("bodies that are not verified were copied")
	}
	if s.w.open < 60 {
		t.Errorf("%d connections kept of 200 slots", s.w.open)
	}
	open, kept := s.w.open, map[loop.ID]bool{}
	for i := range s.w.slots {
		if sl := &s.w.slots[i]; sl.linked {
			kept[sl.conn] = true
		}
	}
	s.run(s.now.Add(time.Minute))
	if s.w.open != open {
		t.Errorf("%d connections after a minute of silence, %d before", s.w.open, open)
	}
	// The target ends some of them; nothing is wrong with that.
	ended := 0
	for id := range kept {
		if ended++; ended > 20 {
			break
		}
		s.conns[id].fin(0)
	}
	s.run(s.now.Add(time.Second))
	if s.w.open != open-20 || s.w.sum.failed > 0 {
		t.Errorf("%d connections, %d failures after 20 ends", s.w.open, s.w.sum.failed)
	}
	s.w.resume(2)
	s.run(s.now.Add(2 * time.Second))
	if s.w.running != 200 || s.w.reached.Load() != 2 || s.w.sum.failed > 0 {
		t.Errorf("%d slots run again, %d failures", s.w.running, s.w.sum.failed)
	}
	// Shrink and grow.
	s.w.setLoad(50, s.w.sampler, 3)
	s.run(s.now.Add(30 * time.Second))
	if s.w.running != 50 || s.w.above != 0 || s.w.reached.Load() != 3 {
		t.Errorf("%d run, %d above, reached %d", s.w.running, s.w.above, s.w.reached.Load())
	}
	s.w.setLoad(120, s.w.sampler, 4)
	s.run(s.now.Add(time.Second))
	if s.w.running != 120 || s.w.reached.Load() != 4 || s.w.sum.failed > 0 {
		t.Errorf("%d run, reached %d", s.w.running, s.w.reached.Load())
	}
}

// TestRampKeepsItsRate counts new slots, and finds those back sooner that a pause has stopped, also where the load is
// asked for once more.
func TestRampKeepsItsRate(t *testing.T) {
	s := simulate(t, Plan{Count: 400, RampPerSecond: 250, Workload: law(t, small)}, 30, 100)
	begun := s.now
	s.load(400)
	for s.w.running < 400 {
		s.run(s.now.Add(100 * time.Millisecond))
		if limit := int(s.now.Sub(begun).Seconds()*250) + 1; s.w.running > limit || s.w.running < limit*9/10 {
			t.Fatalf("%d slots after %v", s.w.running, s.now.Sub(begun))
		}
	}
	s.w.pause()
	s.run(s.now.Add(5 * time.Second))
	s.w.resume(2)
	s.w.setLoad(400, s.w.sampler, 3)
	s.run(s.now.Add(250 * time.Millisecond))
	if half := s.w.running; half < 150 || half > 250 {
		t.Errorf("%d of 400 slots are back after a quarter of a second, want about half", half)
	}
	s.run(s.now.Add(300 * time.Millisecond))
	if s.w.running != 400 {
		t.Errorf("%d of 400 slots are back after half a second", s.w.running)
	}
	// Some are new: only they take their time.
	s.w.setLoad(200, s.w.sampler, 4)
	s.run(s.now.Add(5 * time.Second))
	s.w.pause()
	s.run(s.now.Add(5 * time.Second))
	s.w.setLoad(300, s.w.sampler, 5)
	s.w.resume(5)
	s.run(s.now.Add(450 * time.Millisecond))
	if n := s.w.running; n < 200 || n > 250 {
		t.Errorf("%d of 200 old and 100 new slots run after 0.45 s", n)
	}
	s.run(s.now.Add(500 * time.Millisecond))
	if s.w.running != 300 {
		t.Errorf("%d of 300 slots run", s.w.running)
	}
}

// TestPopulationIsStationary compares the credited rate right after the start with the one a minute later: without
// length-biased first operations the early one is far too high in short files.
func TestPopulationIsStationary(t *testing.T) {
	const slots = 250
	s := simulate(t, Plan{Count: slots, RampPerSecond: 1_000_000, Seed: 11, Pacing: Deferred, VerifyEvery: -1}, 30, 100)
	s.load(slots)
	early := s.window(2*time.Second, 6*time.Second)
	s.run(s.now.Add(15 * time.Second))
	late := s.window(time.Millisecond, 6*time.Second)
	rate := func(win *window) (ops, bits float64) {
		for i := range win.records {
			ops += float64(win.records[i].Begun)
			bits += float64(win.records[i].CreditedBits)
		}
		return ops / slots / win.end.Sub(win.start).Seconds(), bits / slots / win.end.Sub(win.start).Seconds()
	}
	o1, b1 := rate(early)
	o2, b2 := rate(late)
	if math.Abs(o1/o2-1) > 0.08 || math.Abs(b1/b2-1) > 0.04 {
		t.Errorf("%.3f ops/s and %.0f bit/s after 2 s, %.3f and %.0f after a minute", o1, b1, o2, b2)
	}
	if o2 < 2.5 || o2 > 3.4 {
		t.Errorf("%.3f operations/s per slot; the law gives about 3 with 10 to 12 ms of overhead", o2)
	}
}

// TestPacedReception checks every receive against the line: never more than the line carried plus one quantum, and a
// response ends exactly when all of it is credited.
func TestPacedReception(t *testing.T) {
	file := fileset.File{Dir: 1, Class: 3, Num: 2} // 307,200 bytes: 6.1 s
	s := simulate(t, Plan{Count: 1, FileSeed: 4}, 30, 100)
	r := rand.New(rand.NewPCG(1, 1))
	s.lag = func() time.Duration { return time.Duration(r.IntN(3000)) * time.Microsecond }
	o := &origin.Origin{Seed: 4}
	var size int
	s.serve = func(c *simConn, req []byte) { b, _ := o.Answer(req); size = len(b); c.send(0, b) }
	s.w.target, s.w.running, s.w.above = 0, 1, 1
	sl := &s.w.slots[0]
	sl.op = workload.Op{File: file}
	s.w.begin(0, sl, s.now)
	var read int64
	reads := 0
	for len(s.events) > 0 && sl.state != gone {
		s.run(s.events[0].at)
		if sl.wire == read || sl.state == gone {
			continue
		}
		read = sl.wire
		reads++
		since := s.now.Sub(sl.first)
		if limit := int64(50_000*since.Seconds()) + 23_360; read > limit {
			t.Fatalf("%d bytes read %v after the first, the line allows %d", read, since, limit)
		}
		if sl.state == receiving && sl.credited(s.now) > 400_000*int64(since)/1e9 {
			t.Fatalf("%d bits credited after %v", sl.credited(s.now), since)
		}
	}
	took, line := sl.deadlineOf(s), time.Duration(float64(8*size)/400_000*1e9)
	if took < line || took > line+5*time.Millisecond {
		t.Errorf("%d bytes took %v from the first byte, the line takes %v", size, took, line)
	}
	if reads < size/23_360 || reads > size/19_000 {
		t.Errorf("%d reads of %d bytes", reads, size)
	}
	if late := s.w.sum.late; late <= 0 || late > 15*time.Millisecond {
		t.Errorf("%v late", late)
	}
}

// deadlineOf returns how long the slot's last operation took from its first byte.
func (sl *slot) deadlineOf(s *sim) time.Duration { return s.now.Sub(sl.first) }

// TestFailedOperationLosesItsCredit cuts an operation off after the window that already counted it.
func TestFailedOperationLosesItsCredit(t *testing.T) {
	file := fileset.File{Dir: 1, Class: 3, Num: 8}
	s := simulate(t, Plan{Count: 1, FileSeed: 4}, 30, 100)
	o := &origin.Origin{Seed: 4}
	s.serve = func(c *simConn, req []byte) {
		b, _ := o.Answer(req)
		c.send(0, b[:min(len(b), 500_000)])
		c.rst(20 * time.Second)
	}
	s.w.target, s.w.running = 1, 1
	sl := &s.w.slots[0]
	sl.op = workload.Op{File: file}
	s.w.begin(0, sl, s.now)
	win := newWindow(s.now.Add(2*time.Second), s.now.Add(4*time.Second), 1, 30)
	s.w.setWindow(win)
	s.run(s.now.Add(5 * time.Second))
	if got := win.records[0].CreditedBits; got != 800_000 {
		t.Fatalf("%d bits credited in the window, the line carries 800000", got)
	}
	s.run(s.now.Add(20 * time.Second))
	want := conform.Record{OpTime: 2 * time.Second, WireBytes: win.records[0].WireBytes, Late: win.records[0].Late}
	if got := win.records[0]; got != want || s.w.sum.failed == 0 {
		t.Errorf("after the failure: %+v, want %+v", got, want)
	}
}

// nothing is a carrier for calling a worker directly: it does nothing and allocates nothing.
type nothing struct {
	now  clock.Instant
	next loop.ID
}

func (n *nothing) Connect(*loop.ConnectOptions) (loop.ID, error) { return n.next, nil }
func (n *nothing) Recv(loop.ID, int)                             {}
func (n *nothing) Skip(loop.ID, int)                             {}
func (n *nothing) Send(loop.ID, []byte, []byte, []byte) bool     { return true }
func (n *nothing) Close(loop.ID)                                 {}
func (n *nothing) SetTimer(uint32, clock.Instant)                {}
func (n *nothing) CancelTimer(uint32)                            {}
func (n *nothing) Refresh() clock.Instant                        { return n.now }
func (n *nothing) TurnStart() clock.Instant                      { return n.now }
func (n *nothing) Backlog() time.Duration                        { return 0 }
func (n *nothing) Fd(loop.ID) int                                { return -1 }
func (n *nothing) Stats() loop.Stats                             { return loop.Stats{} }

// TestNothingIsAllocated runs operations of every kind through the machine: connect, request, several paced reads,
// full verification, recording, close.
func TestNothingIsAllocated(t *testing.T) {
	var ops []workload.Op
	for k := range workload.Kind(workload.Kinds) {
		for class := range uint8(fileset.Classes) {
			ops = append(ops, workload.Op{Kind: k, User: 3, LastAd: 7, Last: true, File: fileset.File{Dir: 12, Class: class, Num: 1}})
		}
	}
	for _, op := range ops {
		sim := simulate(t, Plan{Count: 1, VerifyEvery: 1, FileSeed: 4, Sources: []netip.Addr{netip.MustParseAddr("127.0.0.2")}}, 30, 100)
		w, net := sim.w, &nothing{now: 1e9}
		w.net = net
		o := &origin.Origin{Seed: 4, Tables: sim.tables, Routes: w.plan.Workload.Routes}
		s := &w.slots[0]
		w.target, w.running = 1, 1
		s.op = op
		w.begin(0, s, net.now)
		w.Connected(s.conn, nil)
		response, _ := o.Answer(append([]byte(nil), w.request...))
		w.posts.add(s) // the first block
		win := newWindow(net.now.Add(1), net.now.Add(1e6*time.Second), 1, 30)
		w.setWindow(win)
		run := func() {
			for rest := response; len(rest) > 0; {
				if s.metered {
					net.now = s.deadline
					w.Expired(controls, s.deadline)
				}
				n := min(len(rest), s.bucket.Take(net.now), 8000)
				net.now += 1000
				w.Received(s.conn, rest[:n], nil)
				rest = rest[n:]
			}
			if s.state != crediting {
				t.Fatalf("state %d after the response: %v", s.state, w.trips.errors())
			}
			w.Received(s.conn, nil, nil) // FIN
			net.now = s.deadline
			w.Expired(controls, s.deadline)
			s.op = op // instead of the one drawn
			if s.state != connecting {
				t.Fatalf("state %d after the operation", s.state)
			}
			net.now += 1000
			w.Connected(s.conn, nil)
		}
		run()
		ops := w.sum.ops
		if n := testing.AllocsPerRun(20, run); n != 0 {
			t.Errorf("%v of %v: %v allocations an operation", op.Kind, op.File, n)
		}
		if w.sum.ops != ops+21 || w.sum.failed > 0 || win.records[0].Ops < 20 || w.checker.Checked.Bodies != w.sum.ops {
			t.Errorf("%v: %+v", op.Kind, w.sum)
		}
	}
}

// TestSlotIsSmall bounds the memory of a slot: itself, its record and its place in a window.
func TestSlotIsSmall(t *testing.T) {
	n := unsafe.Sizeof(slot{}) + unsafe.Sizeof(conform.Record{}) + unsafe.Sizeof(workload.Cursor{}) + 2*8 + 4
	if n > 768 {
		t.Errorf("%d bytes per slot", n)
	}
	t.Logf("%d bytes per slot, the state machine %d", n, unsafe.Sizeof(slot{}))
}

// TestSlotsAboveTheLoadLeaveAtOnce lowers the load while a slot reads a file that would take six seconds at line speed.
func TestSlotsAboveTheLoadLeaveAtOnce(t *testing.T) {
	file := fileset.File{Dir: 1, Class: 3, Num: 2} // 307,200 bytes
	s := simulate(t, Plan{Count: 1, FileSeed: 4}, 30, 100)
	o := &origin.Origin{Seed: 4}
	s.serve = func(c *simConn, req []byte) { b, _ := o.Answer(req); c.send(0, b) }
	s.w.target, s.w.running = 1, 1
	sl := &s.w.slots[0]
	sl.op = workload.Op{File: file}
	s.w.begin(0, sl, s.now)
	for sl.wire < 50_000 { // about a second: the line carries 50,000 bytes/s
		s.run(s.events[0].at)
	}
	left := s.now
	s.w.setLoad(0, s.w.sampler, 1)
	for sl.state != gone && len(s.events) > 0 {
		s.run(s.events[0].at)
	}
	if sl.state != gone || s.w.running != 0 || s.w.above != 0 {
		t.Fatalf("state %v, %d running, %d above", sl.state, s.w.running, s.w.above)
	}
	if took := s.now.Sub(left); took > 100*time.Millisecond {
		t.Errorf("the slot left after %v: the rest of its response was paced", took)
	}
	if s.w.sum.failed != 0 {
		t.Errorf("%d operations failed", s.w.sum.failed)
	}
}
