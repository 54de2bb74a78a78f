package slot

import (
	"errors"
	"net/netip"
	"syscall"

	"tidemark.dev/internal/drive/slot/exchange"
	"tidemark.dev/internal/drive/slot/source"
	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/model/pace"
	"tidemark.dev/internal/model/workload"
)

// The state machine of a slot:
//
//	next ─► begin ─┬─► (ending) ─► dial ─► connecting ─► ask ─► receiving ─► crediting ─► finish ─► next
//	               └─► ask on the open connection
//	any open state ─► fail ─► recovering ─► next
//
// next parks the slot instead when the load is paused or has shrunk. Whatever ends an operation calls next at once,
// with the same instant: no time lies between operations.

// portTries bounds how many busy ports one connect skips.
const portTries = 64

// start puts a slot into the middle of an operation, as an endless run would have left it.
func (w *worker) start(i uint32, s *slot, now clock.Instant) {
	if s.state == gone {
		s.deadline = never
	}
	w.running++
	w.restarted(i, s)
	s.share = w.sampler.First(&s.cursor, &s.op)
	w.started(i, s)
	w.begin(i, s, now)
}

// next begins the next operation, or parks or retires the slot.
func (w *worker) next(i uint32, s *slot, now clock.Instant) {
	s.share = 0
	switch {
	case s.role != user:
		if !w.taskDraw(s, now) {
			w.retire(s, now)
			w.taskLeft()
			return
		}
	case int(i) >= w.target:
		w.running--
		w.above--
		w.retire(s, now)
		w.check()
		return
	case w.paused:
		w.running--
		w.park(i, s, now)
		w.check()
		return
	default:
		w.sampler.Next(&s.cursor, &s.op)
	}
	w.begin(i, s, now)
}

// begin opens the drawn operation.
func (w *worker) begin(i uint32, s *slot, now clock.Instant) {
	s.begun, s.line, s.first = now, 0, 0
	s.late, s.slack = 0, 0
	s.wire, s.free, s.base, s.passed, s.metered = 0, 0, 0, 0, false
	s.reply.Begin(w.samples(s))
	w.issue(i, s)
	switch {
	case !s.linked:
		w.dial(i, s, now)
	case s.eof:
		w.drop(s, now)
		w.dial(i, s, now)
	case s.ends:
		s.state, s.asked = ending, now
		w.listen(s, now, 1)
		w.arm(i, s, now.Add(finWait))
	default:
		w.ask(i, s, now)
	}
}

// samples decides whether the body is compared byte for byte: a fixed function of seed, slot and operation.
func (w *worker) samples(s *slot) bool {
	every := w.plan.VerifyEvery
	if s.role == fetcher || every == 1 {
		return true
	}
	if every < 1 {
		return false
	}
	x := w.plan.Seed ^ uint64(s.number)<<32 ^ s.op.Index
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9 // splitmix64's finish
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return (x^x>>31)%uint64(every) == 0
}

// remote returns the target address of a slot.
func (w *worker) remote(s *slot) netip.AddrPort {
	return w.plan.Targets[int(s.number)%len(w.plan.Targets)]
}

// dial begins a connection.
func (w *worker) dial(i uint32, s *slot, now clock.Instant) {
	s.state, s.asked, s.tried = connecting, now, true
	s.eof, s.ends, s.armed, s.served = false, false, false, 0
	w.connect.Remote = w.remote(s)
	for try := 1; ; try++ {
		if w.ports != nil {
			r, found := w.ports.Take(now)
			if !found {
				w.fail(i, s, now, exchange.Ports, "every local port is in use")
				return
			}
			s.from = r
			w.connect.Local = w.ports.Address(r)
		}
		id, err := w.net.Connect(&w.connect)
		if err == nil {
			s.conn, s.linked = id, true
			for int(id) >= len(w.owner) {
				w.owner = append(w.owner, 0)
			}
			w.owner[id] = i
			w.arm(i, s, now.Add(w.timeout))
			return
		}
		if w.ports != nil {
			if errors.Is(err, syscall.EADDRINUSE) && try < portTries {
				w.ports.Foreign(s.from)
				continue
			}
			w.ports.Give(s.from, now)
		}
		w.fail(i, s, now, classOf(err), err.Error())
		s.from = source.Pair{}
		return
	}
}

// Connected completes a dial. Loop goroutine. No allocation.
func (w *worker) Connected(id loop.ID, err error) {
	now := w.tick()
	i := w.owner[id]
	s := &w.slots[i]
	if err != nil {
		w.fail(i, s, now, classOf(err), err.Error())
		return
	}
	w.lag(i, s, now, w.ready(now, s.asked))
	w.open++
	w.sum.connects++
	w.noteConnect(i, s, now)
	w.ask(i, s, now)
}

// ask sends the request.
func (w *worker) ask(i uint32, s *slot, now clock.Instant) {
	s.state, s.asked = receiving, now
	s.bucket.Start(now)
	w.request = w.checker.AppendRequest(w.request[:0], &s.op, int32(s.number))
	if s.op.Kind == workload.Post && s.role == user {
		s.post = w.posts.add(s)
	}
	w.net.Send(s.conn, w.request, nil, nil)
	w.more(i, s, now)
}

// Sent completes a send that did not finish at once. Loop goroutine. No allocation.
func (w *worker) Sent(id loop.ID, err error) {
	if err == nil {
		return
	}
	now := w.tick()
	i := w.owner[id]
	s := &w.slots[i]
	if s.state == parked {
		w.drop(s, now)
		return
	}
	w.fail(i, s, now, classOf(err), err.Error())
}

// listen arms a receive, so that input or FIN is noticed.
func (w *worker) listen(s *slot, now clock.Instant, most int) {
	if !s.armed && !s.eof {
		s.armed = true
		w.net.Recv(s.conn, most)
	}
}

// more arms the next receive of a response, now or when the line allows it.
func (w *worker) more(i uint32, s *slot, now clock.Instant) {
	allowed := s.bucket.Take(now)
	switch {
	case w.hurried(s):
		allowed = pace.Unlimited
	case s.share > 0 && s.line == 0:
		if s.reply.Begun() { // the part of a stationary start that is read unpaced
			allowed = max(allowed, int(s.free-s.reply.Counted())+int(s.bucket.Pacer.Quantum))
		}
	default:
		// Reading a segment before the bucket is full keeps what a late timer would spill.
		want := max(1, int(s.bucket.Pacer.Quantum)-w.segment)
		if r := &s.reply; r.Length >= 0 {
			want = int(min(int64(want), max(1, r.Length-r.Body)))
		}
		if allowed < want {
			s.metered = true
			w.arm(i, s, s.bucket.Due(now, want))
			return
		}
	}
	if !s.armed {
		s.asked = now
	}
	s.armed = true
	if w.checker.Skips(&s.reply, &s.op, allowed) {
		w.net.Skip(s.conn, allowed)
	} else {
		w.net.Recv(s.conn, allowed) // moves the limit of one that is armed already
	}
	w.arm(i, s, now.Add(w.timeout))
}

// Received completes a receive. Loop goroutine. No allocation. b is not kept.
func (w *worker) Received(id loop.ID, b []byte, err error) {
	now := w.tick()
	i := w.owner[id]
	s := &w.slots[i]
	s.armed = false
	switch s.state {
	case receiving:
		switch {
		case err != nil:
			w.fail(i, s, now, classOf(err), err.Error())
		case len(b) == 0:
			w.hungUp(i, s, now)
		default:
			w.take(i, s, b, now)
		}
	case crediting, ending:
		if len(b) > 0 {
			w.count(i, s, len(b))
			w.fail(i, s, now, exchange.Length, "bytes after the end of the response")
			return
		}
		s.eof = true
		if s.state == ending {
			w.lag(i, s, now, w.ready(now, s.asked))
		}
		w.drop(s, now) // at once: our FIN then carries the acknowledgement of theirs
		if s.state == ending {
			w.dial(i, s, now)
		}
	default: // parked: the target ends an idle connection, as it may
		w.drop(s, now)
	}
}

// count adds wire bytes.
func (w *worker) count(i uint32, s *slot, n int) {
	s.wire += int64(n)
	w.sum.wire += int64(n)
	if win := w.recording(s); win != nil {
		win.records[i].WireBytes += int64(n)
	}
}

// take consumes response bytes.
func (w *worker) take(i uint32, s *slot, b []byte, now clock.Instant) {
	if s.wire == 0 {
		s.first = now
		w.lag(i, s, now, w.ready(now, s.asked))
	} else {
		s.slack += w.delay(now, w.ready(now, s.asked))
	}
	w.count(i, s, len(b))
	s.bucket.Spend(now, len(b))
	r := &s.reply
	before := r.Counted()
	bad := w.checker.Take(r, &s.op, b, now)
	w.received(8*(r.Counted()-before), now)
	if bad.Class != exchange.None {
		w.fail(i, s, now, bad.Class, bad.Text)
		return
	}
	s.ends = r.Ends
	if s.line == 0 && (s.share == 0 || r.Begun()) {
		if s.share > 0 && s.free == 0 {
			s.free = int64(s.share * float64(r.Expected(&s.op)))
		}
		if r.Counted() >= s.free {
			s.line = now
			if s.share > 0 {
				s.bucket.Start(now)
			}
		}
	}
	if r.Complete {
		w.completed(i, s, now)
		return
	}
	w.more(i, s, now)
}

// hungUp handles FIN during a response.
func (w *worker) hungUp(i uint32, s *slot, now clock.Instant) {
	s.eof = true
	switch {
	case s.reply.ToEOF:
		w.completed(i, s, now)
	case s.wire == 0 && s.served > 0:
		w.fail(i, s, now, exchange.Closed, "connection reused and closed by the target without an answer")
	default:
		w.fail(i, s, now, exchange.Closed, "closed before the response was complete")
	}
}

// completed checks the whole response and waits out its line time.
func (w *worker) completed(i uint32, s *slot, now clock.Instant) {
	if bad := w.checker.End(&s.reply, &s.op); bad.Class != exchange.None {
		w.fail(i, s, now, bad.Class, bad.Text)
		return
	}
	if s.line == 0 {
		s.line = now
	}
	if s.post != nil {
		s.post.State = Acknowledged
	}
	end := s.bucket.Pacer.EndOf(s.line, s.bits())
	s.state = crediting
	if end > now && !w.hurried(s) {
		w.listen(s, now, int(max(1, s.bucket.Pacer.Quantum)))
		w.arm(i, s, end)
		return
	}
	w.lag(i, s, now, max(0, min(now.Sub(end), s.slack)))
	w.finish(i, s, now)
}

// finish ends a successful operation.
func (w *worker) finish(i uint32, s *slot, now clock.Instant) {
	w.succeed(i, s, now)
	s.post = nil
	s.served++
	w.next(i, s, now)
}

// fail ends the useful part of an operation that went wrong: its credit is lost, the connection is given up, and
// the back-off that follows still belongs to it.
func (w *worker) fail(i uint32, s *slot, now clock.Instant, f exchange.Class, detail string) {
	if s.served > 0 && s.wire == 0 && s.state == receiving && (f == exchange.Reset || f == exchange.Closed) {
		w.sum.stale++
	}
	w.failed(i, s, f, detail, now)
	s.post = nil
	w.drop(s, now)
	s.state = recovering
	if w.hurried(s) {
		w.spend(i, s, now)
		w.next(i, s, now)
		return
	}
	w.arm(i, s, now.Add(w.backoff))
}

// drop closes the slot's connection, if there is one.
func (w *worker) drop(s *slot, now clock.Instant) {
	if !s.linked {
		return
	}
	if s.state != connecting {
		w.open--
	}
	if s.eof && !s.ends && s.state != receiving {
		w.sum.hangups++
	}
	w.net.Close(s.conn)
	if w.ports != nil {
		w.ports.Give(s.from, now)
	}
	w.checker.Drop(&s.reply)
	s.linked, s.armed, s.eof, s.ends, s.served, s.from = false, false, false, false, 0, source.Pair{}
}

// park keeps the slot and its connection for Resume.
func (w *worker) park(i uint32, s *slot, now clock.Instant) {
	s.state = parked
	s.deadline = never
	switch {
	case !s.linked:
	case s.eof:
		w.drop(s, now)
	default:
		w.listen(s, now, 1)
		if s.ends {
			w.arm(i, s, now.Add(finWait))
		}
	}
}

// retire takes the slot out of the load.
func (w *worker) retire(s *slot, now clock.Instant) {
	w.drop(s, now)
	s.state, s.deadline = gone, never
}
