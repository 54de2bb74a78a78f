package slot

import (
	"time"

	"tidemark.dev/internal/drive/slot/exchange"
	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/tally"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/workload"
)

// window is what one worker records between two instants.
//
// The loop learns of an edge when a timer or any other event comes at or after it, never before it; then it first
// settles the edge for every slot, with the edge's own instant, and only then handles the event. So an operation
// is split exactly at the edge, however late the loop is, and times add up to the nanosecond.
type window struct {
	start, end clock.Instant
	open, over bool
	load       int // slots of the load at the start

	records []conform.Record
	cursors []workload.Cursor // at the start, or where a slot was started later
	from    []uint64          // index of that cursor; unseen: none
	upto    []uint64          // index of the slot's cursor at the end
	sampler *workload.Sampler
	planned Counts
	issued  Counts

	kinds  [workload.Kinds]struct{ first, whole tally.Histogram }
	trip   tripwire
	series []Second

	before, sum       sums // the worker's counters at the start; what the window added
	reuse, busy       uint64
	stats             loop.Stats
	worst             time.Duration
	opTime            time.Duration
	straddling, tried int
	done              chan struct{} // closed at the end
}

// newWindow makes room for everything, so that recording allocates nothing.
func newWindow(start, end clock.Instant, users, dirs int) *window {
	seconds := int((end.Sub(start) + time.Second - 1) / time.Second)
	win := &window{
		start: start, end: end,
		records: make([]conform.Record, users), cursors: make([]workload.Cursor, users), from: make([]uint64, users), upto: make([]uint64, users),
		series: make([]Second, seconds), done: make(chan struct{}),
	}
	win.planned.Dir, win.issued.Dir = make([]uint64, dirs), make([]uint64, dirs)
	return win
}

// unseen marks a slot without a cursor in the window.
const unseen = ^uint64(0)

// setWindow makes win the next window. It must lie in the future: operations that ended after its start and before
// this call could no longer be split. It returns how long that future is, not positive for a refusal.
func (w *worker) setWindow(win *window) time.Duration {
	ahead := win.start.Sub(w.tick())
	if old, _ := w.takeWindow(); old != nil && !old.over {
		close(old.done) // who waits for it learns that it is gone
	}
	if ahead > 0 {
		w.win, w.edge = win, win.start
		w.net.SetTimer(keyEdge, win.start)
	}
	return ahead
}

// takeWindow hands over the window and says how many operations of it are still open.
func (w *worker) takeWindow() (win *window, unfinished int) {
	win, w.win, w.edge = w.win, nil, never
	for i := range w.slots[:w.users] {
		s := &w.slots[i]
		s.passed = 0
		if win != nil && s.state >= connecting && s.begun < win.end {
			unfinished++
		}
	}
	return win, unfinished
}

// settle handles the edge that has come.
func (w *worker) settle() {
	win := w.win
	if !win.open {
		w.openWindow(win)
		w.edge = win.end
		w.net.SetTimer(keyEdge, win.end)
		return
	}
	w.closeWindow(win)
	w.edge = never
}

func (w *worker) openWindow(win *window) {
	win.open, win.load, win.sampler = true, w.target, w.sampler
	win.before, win.stats, w.worst = w.sums(), w.net.Stats(), 0
	if w.ports != nil {
		win.reuse, win.busy = w.ports.Reuse, w.ports.Busy
	}
	w.looked = false
	for i := range w.slots[:w.users] {
		s := &w.slots[i]
		win.records[i].Slot = s.number
		win.cursors[i], win.from[i] = s.cursor, unseen
		if s.state >= connecting {
			win.from[i] = s.cursor.Index
			s.base = s.credited(win.start)
			s.late, s.slack = 0, 0
		}
	}
}

func (w *worker) closeWindow(win *window) {
	for i := range w.slots[:w.users] {
		s := &w.slots[i]
		win.upto[i] = s.cursor.Index
		if s.tried && i < win.load {
			win.tried++
		}
		if s.state < connecting {
			continue
		}
		win.straddling++
		s.passed = s.credited(win.end) - s.base
		win.records[i].CreditedBits += s.passed
		w.charge(win, i, s, win.end)
		s.late = 0
	}
	win.open, win.over = false, true
	win.sum = w.sums().minus(win.before)
	win.worst = w.worst
	if w.ports != nil {
		win.reuse, win.busy = w.ports.Reuse-win.reuse, w.ports.Busy-win.busy
	}
	now := w.net.Stats()
	win.stats.Turns, win.stats.Sleeps = now.Turns-win.stats.Turns, now.Sleeps-win.stats.Sleeps
	close(win.done)
}

// charge adds the time of an open operation up to t to the record.
func (w *worker) charge(win *window, i int, s *slot, t clock.Instant) {
	d := t.Sub(max(s.begun, win.start))
	r := &win.records[i]
	r.OpTime += d
	r.Late += s.late
	win.opTime += d
}

// recording returns the open window if the slot is recorded in it.
func (w *worker) recording(s *slot) *window {
	if w.win != nil && w.win.open && s.role == user {
		return w.win
	}
	return nil
}

// second returns the second of the series that now lies in.
func (win *window) second(now clock.Instant) *Second {
	return &win.series[int(now.Sub(win.start)/time.Second)]
}

// issue counts a begun operation.
func (w *worker) issue(i uint32, s *slot) {
	if win := w.recording(s); win != nil {
		win.records[i].Begun++
		if !s.op.Start {
			win.issued.add(&s.op)
		}
	}
}

func (c *Counts) add(op *workload.Op) {
	c.Kind[op.Kind]++
	c.File[int(op.File.Class)*9+int(op.File.Num)]++
	if int(op.File.Dir) < len(c.Dir) {
		c.Dir[op.File.Dir]++
	}
}

// restarted recounts the plan of a slot up to here, because it is about to be started again; started notes where its
// new sequence begins.
func (w *worker) restarted(i uint32, s *slot) {
	if win := w.recording(s); win != nil {
		win.upto[i] = s.cursor.Index
		win.recount(int(i))
	}
}

func (w *worker) started(i uint32, s *slot) {
	if win := w.recording(s); win != nil {
		win.cursors[i], win.from[i] = s.cursor, s.cursor.Index
	}
}

// recount draws the operations of slot i again, from its cursor alone, and counts them as planned.
func (win *window) recount(i int) {
	if win.from[i] == unseen {
		return
	}
	c := win.cursors[i]
	var op workload.Op
	for range win.upto[i] - win.from[i] {
		win.sampler.Next(&c, &op)
		win.planned.add(&op)
	}
	win.from[i] = unseen
}

// noteConnect counts an opened connection and looks up its congestion control once a window.
func (w *worker) noteConnect(i uint32, s *slot, now clock.Instant) {
	if win := w.recording(s); win != nil {
		win.records[i].Connects++
		win.second(now).Connects++
	}
	if w.task != nil && s.role != user {
		w.task.connects++
	}
	if !w.looked {
		w.looked = true
		if name := congestion(w.net.Fd(s.conn)); name != "" && (len(w.algos) == 0 || w.algos[len(w.algos)-1] != name) {
			w.algos = append(w.algos, name)
		}
	}
}

// received counts response bits as they come.
func (w *worker) received(bits int64, now clock.Instant) {
	w.sum.bits += bits
	if w.win != nil && w.win.open {
		w.win.second(now).Bits += bits
	}
}

// succeed records the end of a successful operation.
func (w *worker) succeed(i uint32, s *slot, now clock.Instant) {
	w.sum.ops++
	w.sum.late += s.late
	first, whole := s.first.Sub(s.begun), now.Sub(s.begun)
	if s.free > 0 && s.bucket.Pacer.Rate > 0 { // as if it had been paced from its beginning
		whole += time.Duration(8 * s.free * int64(time.Second) / s.bucket.Pacer.Rate)
	}
	if s.role != user {
		w.taskRecord(s, first, whole, now)
		return
	}
	win := w.recording(s)
	if win == nil {
		return
	}
	r := &win.records[i]
	r.Ops++
	r.CreditedBits += s.credited(now) - s.base
	r.FirstByte += first
	r.Response += whole
	w.charge(win, int(i), s, now)
	k := &win.kinds[s.op.Kind]
	k.first.Record(int64(first))
	k.whole.Record(int64(whole))
	sec := win.second(now)
	sec.Ops++
	sec.Late += s.late
	sec.Open = uint32(w.open)
}

// failed records a failure; the operation's time is recorded by spend when its back-off ends.
func (w *worker) failed(i uint32, s *slot, f exchange.Class, detail string, now clock.Instant) {
	w.sum.failed++
	w.trip(&w.trips, s, f, detail)
	if s.role != user {
		w.taskFail(s, f, detail)
		return
	}
	if s.passed != 0 && w.win != nil && w.win.over { // credited in a window that has ended: taken back
		w.win.records[i].CreditedBits -= s.passed
		s.passed = 0
	}
	win := w.recording(s)
	if win == nil {
		return
	}
	r := &win.records[i]
	r.Failed++
	if f == exchange.Reset || f == exchange.Closed || f == exchange.Network {
		r.Resets++
	}
	w.trip(&win.trip, s, f, detail)
	sec := win.second(now)
	sec.Failed++
	sec.Open = uint32(w.open)
}

// spend records the time of a failed operation when it is over.
func (w *worker) spend(i uint32, s *slot, now clock.Instant) {
	w.sum.late += s.late
	if win := w.recording(s); win != nil {
		w.charge(win, int(i), s, now)
		win.second(now).Late += s.late
	}
}

// sums returns the counters, those of the checker included.
func (w *worker) sums() sums {
	s := w.sum
	s.checked = w.checker.Checked
	return s
}

func (a sums) minus(b sums) sums {
	return sums{
		ops: a.ops - b.ops, failed: a.failed - b.failed, connects: a.connects - b.connects,
		bits: a.bits - b.bits, wire: a.wire - b.wire, late: a.late - b.late,
		finMissing: a.finMissing - b.finMissing, hangups: a.hangups - b.hangups, stale: a.stale - b.stale,
		checked: a.checked.Minus(b.checked),
	}
}
