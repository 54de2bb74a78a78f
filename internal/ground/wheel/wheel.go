// Package wheel is a hierarchical timer wheel: a plain data structure that is
// told the time.
//
// A caller numbers its timers with small dense keys (a connection number, say),
// arms them with [Wheel.Set] and, once per turn of its loop, calls
// [Wheel.Advance] with the time it has just read. [Wheel.Next] says how long the
// loop may sleep.
//
// It reads no clock, starts no goroutine, has no lock and is not for sparse keys:
// memory grows with the largest key.
package wheel

import (
	"math"
	"math/bits"
	"time"

	"tidemark.dev/internal/ground/clock"
)

// How it works. Time is cut into ticks, counted from the start of the wheel. Level
// 0 has one slot for each of the 64 ticks of the window around the current tick;
// each higher level has slots 64 times as wide. A timer lives on the level of the
// highest base-64 digit in which its tick differs from the current tick, in the
// slot named by its own digit there. Hence
//
//   - all timers of a level come before all timers of the next higher level, and
//     slots of a level come in order, so the next event is the first bit of the
//     first non-empty bitmap;
//   - when the current tick enters a slot above level 0, that slot is emptied into
//     lower levels (each timer moves at most once per level), and those were empty;
//   - a slot is filled first by such a move, in list order, then by Set: timers of
//     one tick fire in the order in which they were set.
//
// 11 levels of 6 bits hold every int64 instant, so there is no overflow list and no
// limit on how far away a timer may be. The plain alternatives lost: a heap costs
// log n cache misses per rearm, and a single hashed wheel visits every far timer
// once per revolution.
const (
	digit  = 6
	slots  = 1 << digit
	levels = (63 + digit - 1) / digit

	ready  = levels * slots // list of timers that were overdue when set
	firing = ready + 1      // list being fired: what was ready when Advance began
	lists  = firing + 1

	none = -1 // no node; as list: not armed
)

// node is the timer of one key.
type node struct {
	due        clock.Instant // as asked for
	next, prev int32         // neighbours in the list
	list       int32         // level*slots + slot, or ready, firing, none
}

type list struct{ head, tail int32 }

// Wheel holds at most one timer per key. Make one with [New].
type Wheel struct {
	tick  time.Duration
	start clock.Instant
	now   uint64 // every tick up to and including this one has been fired
	armed int
	nodes []node // by key
	used  [levels]uint64
	lists [lists]list
}

// New returns an empty wheel. A timer fires in whole ticks after start, at or after
// the instant it was set for; tick must be positive.
func New(tick time.Duration, start clock.Instant) *Wheel {
	if tick <= 0 {
		panic("wheel: tick must be positive")
	}
	w := &Wheel{tick: tick, start: start}
	for i := range w.lists {
		w.lists[i] = list{none, none}
	}
	return w
}

// Set arms the timer of key for due, replacing an earlier one. The instant is
// rounded up to a tick. One that has passed fires on the next Advance, ahead of all
// others, in the order of Set.
//
// Owner's goroutine. Allocates only when key is the largest so far. Does not block.
func (w *Wheel) Set(key uint32, due clock.Instant) {
	if int64(key) >= int64(len(w.nodes)) {
		w.grow(key)
	}
	n := &w.nodes[key]
	if n.list != none {
		w.unlink(n)
		w.armed--
	}
	n.due = due
	w.armed++
	if t := w.tickOf(due); t > w.now {
		w.place(key, t)
	} else {
		w.append(ready, key)
	}
}

// Cancel disarms the timer of key; without one it does nothing.
//
// Owner's goroutine. No allocation. Does not block.
func (w *Wheel) Cancel(key uint32) {
	if !w.Armed(key) {
		return
	}
	w.unlink(&w.nodes[key])
	w.nodes[key].list = none
	w.armed--
}

// Armed reports whether key has a timer. It has none while it fires.
func (w *Wheel) Armed(key uint32) bool {
	return int64(key) < int64(len(w.nodes)) && w.nodes[key].list != none
}

// Due returns the instant key was set for.
func (w *Wheel) Due(key uint32) (due clock.Instant, armed bool) {
	if !w.Armed(key) {
		return 0, false
	}
	return w.nodes[key].due, true
}

// Len returns the number of armed timers.
func (w *Wheel) Len() int { return w.armed }

// Advance fires every timer whose tick has come by now, tick by tick, within one
// tick in the order of Set, and never before its due. The timer is disarmed before
// fire is called. fire may set and cancel any key: a timer it sets for a later tick
// that has also come fires in this same call; one it sets for the present tick or
// earlier waits for the next call, so that Advance always ends. fire must not call
// Advance. A now before that of an earlier call fires only what was set overdue.
//
// Owner's goroutine. No allocation. Does not block unless fire does.
func (w *Wheel) Advance(now clock.Instant, fire func(key uint32, due clock.Instant)) {
	target := w.floor(now)
	w.splice()
	w.drain(firing, fire)
	for {
		level, slot, t, ok := w.first()
		if !ok || t > target {
			break
		}
		w.now = t
		at := level*slots + slot
		if level == 0 {
			w.drain(at, fire)
			continue
		}
		for l := &w.lists[at]; l.head != none; {
			key := uint32(l.head)
			n := &w.nodes[key]
			w.unlink(n)
			w.place(key, w.tickOf(n.due))
		}
	}
	w.now = max(w.now, target)
}

// Next returns a lower bound of the next firing and whether any timer is armed. The
// bound is exact within the nearest 64 ticks; beyond, an Advance at the bound brings
// the timer nearer. It costs a step per level, not per timer.
func (w *Wheel) Next() (clock.Instant, bool) {
	if w.lists[ready].head != none || w.lists[firing].head != none {
		return w.instant(w.now), true
	}
	_, _, t, ok := w.first()
	if !ok {
		return 0, false
	}
	return w.instant(t), true
}

// first finds the earliest non-empty slot and the tick at which it begins.
func (w *Wheel) first() (level, slot int, tick uint64, ok bool) {
	for level = range w.used {
		if w.used[level] == 0 {
			continue
		}
		slot = bits.TrailingZeros64(w.used[level])
		shift := uint(level * digit)
		above := w.now >> shift >> digit << digit // two shifts: the sum may exceed 63
		return level, slot, (above | uint64(slot)) << shift, true
	}
	return 0, 0, 0, false
}

// place links key into the slot of tick t, which must not be before w.now.
func (w *Wheel) place(key uint32, t uint64) {
	level := 0
	if x := t ^ w.now; x != 0 {
		level = (bits.Len64(x) - 1) / digit
	}
	slot := int(t>>uint(level*digit)) & (slots - 1)
	w.used[level] |= 1 << uint(slot)
	w.append(level*slots+slot, key)
}

// append links key at the end of list at.
func (w *Wheel) append(at int, key uint32) {
	l, n := &w.lists[at], &w.nodes[key]
	n.list, n.prev, n.next = int32(at), l.tail, none
	if l.tail == none {
		l.head = int32(key)
	} else {
		w.nodes[l.tail].next = int32(key)
	}
	l.tail = int32(key)
}

// unlink takes n out of its list; n.list is the caller's to set.
func (w *Wheel) unlink(n *node) {
	l := &w.lists[n.list]
	if n.prev == none {
		l.head = n.next
	} else {
		w.nodes[n.prev].next = n.next
	}
	if n.next == none {
		l.tail = n.prev
	} else {
		w.nodes[n.next].prev = n.prev
	}
	if l.head == none && n.list < ready {
		w.used[n.list/slots] &^= 1 << uint(n.list%slots)
	}
}

// drain fires list at from its head until it is empty. Nothing can join the list
// meanwhile: a timer set for the present tick is overdue and goes to ready.
func (w *Wheel) drain(at int, fire func(uint32, clock.Instant)) {
	for {
		key := w.lists[at].head
		if key == none {
			return
		}
		n := &w.nodes[key]
		w.unlink(n)
		n.list = none
		w.armed--
		fire(uint32(key), n.due)
	}
}

// splice moves the ready list behind what an earlier Advance left in firing, which
// is nothing unless its fire panicked.
func (w *Wheel) splice() {
	for w.lists[ready].head != none {
		key := uint32(w.lists[ready].head)
		w.unlink(&w.nodes[key])
		w.append(firing, key)
	}
}

// grow makes room for key.
func (w *Wheel) grow(key uint32) {
	if key > math.MaxInt32 {
		panic("wheel: key above 2^31-1")
	}
	old := len(w.nodes)
	w.nodes = append(w.nodes, make([]node, int(key)+1-old)...)
	w.nodes = w.nodes[:cap(w.nodes)]
	for i := old; i < len(w.nodes); i++ {
		w.nodes[i].list = none
	}
}

// since returns the time from start to i, 0 before it. The difference of any two
// instants in order fits a uint64.
func (w *Wheel) since(i clock.Instant) uint64 {
	if i <= w.start {
		return 0
	}
	return uint64(i) - uint64(w.start)
}

// floor returns the last tick that has come by i.
func (w *Wheel) floor(i clock.Instant) uint64 { return w.since(i) / uint64(w.tick) }

// tickOf returns the first tick at or after due.
func (w *Wheel) tickOf(due clock.Instant) uint64 {
	d := w.since(due)
	t := d / uint64(w.tick)
	if t*uint64(w.tick) != d {
		t++
	}
	return t
}

// instant returns the time of tick t, or the last instant there is.
func (w *Wheel) instant(t uint64) clock.Instant {
	hi, lo := bits.Mul64(t, uint64(w.tick))
	if room := uint64(math.MaxInt64) - uint64(w.start); hi != 0 || lo > room {
		return math.MaxInt64
	}
	return clock.Instant(uint64(w.start) + lo)
}
