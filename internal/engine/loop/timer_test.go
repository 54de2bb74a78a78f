//go:build linux

package loop

import (
	"slices"
	"testing"
	"time"

	"tidemark.dev/internal/ground/clock"
)

func TestTimersExpireInOrderAndNeverEarly(t *testing.T) {
	onEach(t, testTimersExpireInOrderAndNeverEarly)
}

func testTimersExpireInOrderAndNeverEarly(t *testing.T, o Options) {
	for _, coarse := range []bool{false, true} {
		s := &script{}
		r := turn(t, made(t, o, s))
		if e, ok := r.l.be.(*epoll); ok {
			e.coarse = coarse
		}
		start := clock.Now()
		due := map[uint32]clock.Instant{}
		for i, ms := range []int{30, 1, 12, 5, 12, 0, 2} {
			due[uint32(i)] = start.Add(time.Duration(ms) * time.Millisecond)
			r.l.SetTimer(uint32(i), start.Add(time.Hour))
			r.l.SetTimer(uint32(i), due[uint32(i)])
		}
		r.l.CancelTimer(3)
		var fired []uint32
		s.expired = func(key uint32, d clock.Instant) {
			if d != due[key] {
				t.Errorf("timer %d due %d, want %d", key, d, due[key])
			}
			if r.l.Now().Before(d) || clock.Now().Before(d) {
				t.Errorf("timer %d is early by %v", key, d.Sub(clock.Now()))
			}
			fired = append(fired, key)
		}
		r.until(func() bool { return len(fired) == 6 })
		if slices.Sort(fired[3:5]); !slices.Equal(fired, []uint32{5, 1, 6, 2, 4, 0}) {
			t.Errorf("order %v", fired)
		}
		if st := r.l.Stats(); st.Timers != 6 || st.Turns > 20 {
			t.Errorf("stats %+v: a waiting loop turns", st)
		}
		if r.l.patience() >= 0 {
			t.Error("a loop without timers does not sleep for ever")
		}
	}
}

func TestTimersMayBeSetAndCancelledInsideExpired(t *testing.T) {
	onEach(t, testTimersMayBeSetAndCancelledInsideExpired)
}

func testTimersMayBeSetAndCancelledInsideExpired(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	var fired []uint32
	var last clock.Instant
	s.expired = func(key uint32, due clock.Instant) {
		fired = append(fired, key)
		switch {
		case key == 1 && len(fired) == 1:
			r.l.CancelTimer(2)                           // due in the same tick
			r.l.SetTimer(1, due.Add(2*time.Millisecond)) // itself again
			r.l.SetTimer(3, due)                         // already due
			last = due.Add(2 * time.Millisecond)
		case key == 1 && due != last:
			t.Errorf("due %d, want %d", due, last)
		}
	}
	now := clock.Now()
	r.l.SetTimer(1, now)
	r.l.SetTimer(2, now)
	if r.l.wheel.Len() != 2 {
		t.Fatal("timers are not armed")
	}
	// Whichever of 1 and 2 is first: only when 1 is does the test cancel 2.
	r.until(func() bool { return slices.Contains(fired, 3) && len(fired) >= 3 })
	if fired[0] == 1 && slices.Contains(fired, 2) {
		t.Errorf("a cancelled timer fired: %v", fired)
	}
}

// TestBacklogBoundsTheDelayInsideTheLoop checks the audit's arithmetic turn by turn.
func TestBacklogBoundsTheDelayInsideTheLoop(t *testing.T) {
	onEach(t, testBacklogBoundsTheDelayInsideTheLoop)
}

func testBacklogBoundsTheDelayInsideTheLoop(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	var backlog time.Duration
	var start clock.Instant
	s.expired = func(uint32, clock.Instant) {}
	s.received = func(ID, []byte, error) { backlog, start = r.l.Backlog(), r.l.TurnStart() }
	// A wait that sleeps: nothing was ready before it returned.
	r.l.SetTimer(1, clock.Now().Add(2*time.Millisecond))
	r.until(func() bool { return r.l.stats.Timers == 1 })
	if d := r.l.Backlog(); d != 0 {
		t.Errorf("backlog %v after a sleep", d)
	}
	// A long turn: what becomes ready while it runs has waited at most since its start.
	var readyAt clock.Instant
	before := clock.Instant(0)
	r.l.Recv(id, 10)
	r.l.Post(func() {
		before = r.l.TurnStart()
		c.Write([]byte("x"))
		readyAt = clock.Now()
		for clock.Now().Sub(readyAt) < 5*time.Millisecond {
		}
	})
	r.once()
	r.once()
	if start.Sub(before) != backlog || backlog < 5*time.Millisecond {
		t.Errorf("backlog %v, the turn before began %v earlier", backlog, start.Sub(before))
	}
	if start.Add(-backlog).After(readyAt) {
		t.Error("the bound says the event was ready later than it was")
	}
	if r.l.Stats().LongestTurn < 5*time.Millisecond {
		t.Errorf("longest turn %v", r.l.Stats().LongestTurn)
	}
}

// TestBacklogReachesBackOverFullBatches: what a full wait left in the kernel is older
// than the turn before.
func TestBacklogReachesBackOverFullBatches(t *testing.T) {
	l := &Loop{}
	first := clock.Now()
	l.begin(true, true) // full, after a sleep
	one := l.start
	l.begin(false, true)  // still full
	l.begin(false, false) // the rest
	if l.Backlog() != l.start.Sub(one) || one.Before(first) {
		t.Errorf("backlog %v, want %v", l.Backlog(), l.start.Sub(one))
	}
	rest := l.start
	l.begin(false, false)
	if l.Backlog() != l.start.Sub(rest) {
		t.Errorf("backlog %v, want the turn before: %v", l.Backlog(), l.start.Sub(rest))
	}
	l.begin(true, false)
	if l.Backlog() != 0 || l.TurnStart() != l.start {
		t.Error("a sleep does not end the backlog")
	}
}
