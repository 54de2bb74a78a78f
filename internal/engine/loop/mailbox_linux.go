package loop

import (
	"runtime"
	"sync/atomic"
)

// mailbox carries functions from any goroutine to the loop, first in first out for
// each sender, and wakes the loop when it sleeps.
//
// It is a stack of letters that senders push onto and the loop takes whole, once a
// turn. Taking a lock instead would park the loop's goroutine when a sender is
// preempted inside, and parking a locked goroutine costs two thread switches.
//
// Invariants: a sealed top (stop letter or the sealed mark) is never replaced by a
// sender, so post returns true exactly for the functions that take will hand out.
// Only a sender that turned asleep from true to false writes to the eventfd, and the
// loop does not close it before those writers have left (close waits for visitors).
type mailbox struct {
	top      atomic.Pointer[letter]
	asleep   atomic.Bool  // the loop is, or is about to be, in a blocking wait
	visitors atomic.Int32 // senders between their push and the end of their wake-up
	bell     int          // eventfd
}

type letter struct {
	next *letter
	f    func()
	ref  Ref  // the connection f is about, when bound
	to   bool // ref is set
	stop bool // nothing may be pushed on top
}

// sealed is the top of a mailbox that has handed out its last letter.
var sealed = &letter{stop: true}

// push adds n unless the mailbox is sealed. Any goroutine. Does not block.
func (m *mailbox) push(n *letter) bool {
	for {
		top := m.top.Load()
		if top != nil && top.stop {
			return false
		}
		n.next = top
		if m.top.CompareAndSwap(top, n) {
			break
		}
	}
	m.visitors.Add(1)
	if m.asleep.Load() && m.asleep.CompareAndSwap(true, false) {
		wake(m.bell)
	}
	m.visitors.Add(-1)
	return true
}

// empty reports whether take would find nothing. Loop goroutine.
func (m *mailbox) empty() bool {
	top := m.top.Load()
	return top == nil || top == sealed
}

// take empties the mailbox: letters oldest first, and whether it is sealed now.
// Loop goroutine. No allocation. Does not block.
func (m *mailbox) take() (first *letter, last bool) {
	top := m.top.Load()
	for {
		if top == nil || top == sealed {
			return nil, top == sealed
		}
		var rest *letter
		if top.stop {
			rest = sealed
		}
		if m.top.CompareAndSwap(top, rest) {
			last = top.stop
			break
		}
		top = m.top.Load()
	}
	for top != nil {
		next := top.next
		top.next = first
		first, top = top, next
	}
	return first, last
}

// close waits until no sender can ring the bell any more. The mailbox must be sealed
// and the loop awake for good.
func (m *mailbox) close() {
	m.asleep.Store(false)
	for m.visitors.Load() != 0 {
		runtime.Gosched()
	}
}
