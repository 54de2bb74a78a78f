package slot

import (
	"fmt"
	"slices"
	"time"

	"tidemark.dev/internal/drive/slot/exchange"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/ground/tally"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/pace"
	"tidemark.dev/internal/model/workload"
)

// task is work for unpaced connections besides the load: one worker's part of a Warm or a Burst.
type task struct {
	role role
	live int // connections still at it

	// Warm: file numbers file, file+step, ... below files, passes times.
	file, step, files int64
	passes            int

	// Burst
	sampler *workload.Sampler
	static  bool
	end     clock.Instant

	ops, failed, connects uint64
	bits                  int64
	first, whole          tally.Histogram
	trip                  tripwire
	done                  chan struct{} // closed when live reaches 0
}

// giveUp is how many failures end a warm-up early.
const giveUp = 64

// beginTask starts conns connections for t.
func (w *worker) beginTask(t *task, conns int) {
	now := w.tick()
	w.task = t
	t.live = conns
	if conns == 0 {
		w.task = nil
		close(t.done)
		return
	}
	for len(w.slots) < w.users+conns {
		n := len(w.slots) - w.users
		w.slots = append(w.slots, slot{number: taskNumber + uint32(n*w.loops+w.index)})
	}
	if t.role == burster {
		w.net.SetTimer(keyTask, t.end.Add(burstGrace))
	}
	for i := w.users; i < w.users+conns; i++ {
		s := &w.slots[i]
		s.role, s.deadline = t.role, never
		s.bucket = pace.Pacer{Mode: pace.None}.Bucket()
		s.cursor.Seed, s.cursor.Slot = ^w.plan.Seed, s.number
		w.next(uint32(i), s, now)
	}
}

// taskNumber is where the numbers of task connections begin, above those of all slots.
const taskNumber = 1 << 30

// taskDraw draws the next operation of a task; false when there is none left.
func (w *worker) taskDraw(s *slot, now clock.Instant) bool {
	t := w.task
	if t.role == burster {
		if now >= t.end {
			return false
		}
		t.sampler.Next(&s.cursor, &s.op)
		if t.static {
			s.op.Kind = workload.Static
		}
		return true
	}
	if t.file >= t.files {
		t.file %= t.step
		t.passes--
	}
	if t.passes <= 0 || t.file >= t.files || t.failed >= giveUp {
		return false
	}
	s.op = workload.Op{Kind: workload.Static, File: fileset.FileAt(t.file)}
	t.file += t.step
	return true
}

// taskLeft counts a connection that has nothing left to do.
func (w *worker) taskLeft() {
	t := w.task
	if t.live--; t.live == 0 {
		w.task = nil
		w.net.CancelTimer(keyTask)
		w.publish()
		close(t.done)
	}
}

// burstGrace is how long operations open at the end of a burst, no longer counted, may take to end by themselves.
const burstGrace = 2 * time.Second

// taskOver cuts off what is still open, so that nothing runs on unseen.
func (w *worker) taskOver(now clock.Instant) {
	for i := w.users; i < len(w.slots) && w.task != nil; i++ {
		if s := &w.slots[i]; s.state != gone {
			w.retire(s, now)
			w.taskLeft()
		}
	}
}

// cancelTask ends any task.
func (w *worker) cancelTask() { w.taskOver(w.tick()) }

// taskRecord records a successful operation of a task.
func (w *worker) taskRecord(s *slot, first, whole time.Duration, now clock.Instant) {
	t := w.task
	if t.role == burster && now >= t.end {
		return
	}
	t.ops++
	t.bits += s.bits()
	t.first.Record(int64(first))
	t.whole.Record(int64(whole))
}

func (w *worker) taskFail(s *slot, f exchange.Class, detail string) {
	w.task.failed++
	w.trip(&w.task.trip, s, f, detail)
}

// Failures are failed requests by class: what the error of a warm-up wraps.
type Failures map[string]conform.ErrorCount

func (f Failures) Error() string {
	var all uint64
	var example string
	for class, e := range f {
		all += e.Count
		example = max(example, class+": "+e.Example)
	}
	return fmt.Sprintf("%d requests failed, such as %s", all, example)
}

// err returns the error a warm-up ends with, if it failed.
func (t *tripwire) err(what string) error {
	f := slices.IndexFunc(t.count[:], func(n uint64) bool { return n > 0 })
	switch {
	case f < 0:
		return nil
	case exchange.Class(f).Ours():
		return fault.New(fault.Driver, "%s: %w", what, Failures(t.errors()))
	}
	return fault.New(exchange.Class(f).Origin(), "%s: %w", what, Failures(t.errors()))
}
