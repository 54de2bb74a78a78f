// Package clock is monotonic time as a number.
//
// An [Instant] is a count of nanoseconds on the monotonic clock of the host.
// Call [Now] to read it; pass a [Clock] where a test must own the time, and a
// [Manual] in that test. Everything that measures uses instants; calendar time
// appears only where people read it, through [Wall].
//
// It does not sleep, tick or format.
package clock

import (
	"sync/atomic"
	"time"
)

// Instant is a point in time: nanoseconds of CLOCK_MONOTONIC on Linux, where all
// processes of one host (and one time namespace) share the base to within a
// microsecond. Elsewhere the base is an estimate that only one process may rely on.
type Instant int64

// Add returns i + d.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Before reports whether i is earlier than j.
func (i Instant) Before(j Instant) bool { return i < j }

// After reports whether i is later than j.
func (i Instant) After(j Instant) bool { return i > j }

// origin ties the runtime's monotonic reading to the host's clock. It is measured
// once, when the process starts, and never changes.
//
// The detour exists because time.Since reads the clock through the vdso (about
// 30 ns) while clock_gettime through x/sys is a system call (about 200 ns).
var origin = measure()

type anchor struct {
	at   time.Time // with a monotonic reading
	host Instant   // the host's clock at that moment
}

// measure reads both clocks and keeps the tightest of several brackets.
func measure() anchor {
	best := anchor{}
	width := time.Duration(1<<63 - 1)
	for range 16 {
		before := time.Now()
		host := hostNow()
		w := time.Since(before)
		if w < width {
			width = w
			best = anchor{at: before, host: host.Add(-w / 2)}
		}
	}
	return best
}

// Now reads the monotonic clock. Any goroutine. No allocation. Does not block.
func Now() Instant { return origin.host + Instant(time.Since(origin.at)) }

// Wall returns the calendar time of i by the host's present setting, without a
// monotonic reading. It moves when the host's calendar clock is set.
func Wall(i Instant) time.Time {
	return time.Now().Round(0).Add(i.Sub(Now()))
}

// Of returns the instant of t by the host's present setting: the inverse of Wall,
// exact when t carries a monotonic reading of this process.
func Of(t time.Time) Instant {
	now := time.Now()
	return origin.host + Instant(now.Sub(origin.at)+t.Sub(now))
}

// Clock tells the time.
type Clock interface{ Now() Instant }

// Real is the host's clock.
type Real struct{}

// Now reads the monotonic clock.
func (Real) Now() Instant { return Now() }

// Manual is a clock that moves only when told. The zero value stands at 0.
// Any goroutine may use it.
type Manual struct{ now atomic.Int64 }

// Now returns the time it was last moved to.
func (m *Manual) Now() Instant { return Instant(m.now.Load()) }

// Advance moves the clock by d and returns the new time. A negative d panics:
// monotonic time has no way back.
func (m *Manual) Advance(d time.Duration) Instant {
	if d < 0 {
		panic("clock: advance by a negative duration")
	}
	return Instant(m.now.Add(int64(d)))
}

// Set moves the clock forward to i; an earlier i panics.
func (m *Manual) Set(i Instant) {
	if old := m.now.Swap(int64(i)); Instant(old) > i {
		panic("clock: set to an earlier instant")
	}
}
