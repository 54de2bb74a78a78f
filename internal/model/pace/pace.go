// Package pace decides how fast a slot may read and how much of what it read
// counts: the emulated line.
//
// Give every slot a [Bucket] from [Pacer.Bucket] to know how many bytes it may
// read now, and ask [Pacer.EndOf] when the op ends.
//
// It reads no clock and sets no timer: callers pass the instant and arm their
// own timers with what [Bucket.Due] returns.
package pace

import (
	"math"
	"math/bits"
	"time"

	"tidemark.dev/internal/ground/clock"
)

// Unlimited is what Take allows when nothing limits the read.
const Unlimited = math.MaxInt32

// Mode says how the line speed is imposed.
type Mode uint8

const (
	// Rated reads at no more than the line speed, so that back-pressure
	// reaches the server, and ends an op when all its bits are credited.
	Rated Mode = iota
	// Deferred reads at once and waits out the line time.
	Deferred
	// None reads at once and ends the op with its last byte: raw throughput.
	None
)

// String returns the word of the workload form.
func (m Mode) String() string {
	switch m {
	case Rated:
		return "rated"
	case Deferred:
		return "deferred"
	case None:
		return "none"
	}
	return "unknown"
}

// ParseMode is the inverse of [Mode.String].
func ParseMode(s string) (Mode, bool) {
	for m := Rated; m <= None; m++ {
		if s == m.String() {
			return m, true
		}
	}
	return Rated, false
}

// Pacer is a line: a plain value, shared by all slots of a workload.
type Pacer struct {
	Rate    int64 // bits per second, at least 1 unless Mode is None
	Quantum int32 // bytes that may be read at once, at least 1 when Mode is Rated
	Mode    Mode
}

// Bucket returns a full bucket of this line.
func (p Pacer) Bucket() Bucket { return Bucket{Pacer: p} }

// Credited returns how many of the received bits count when the line clock has
// run for since: never more than the line could have carried. Mode None
// credits everything.
func (p Pacer) Credited(received int64, since time.Duration) int64 {
	if p.Mode == None {
		return received
	}
	return Credited(received, p.Rate, since)
}

// EndOf returns the earliest instant at which all bits of an op are credited,
// its first response byte having come at first: the op ends then or with its
// last byte, whichever is later. It never lies before first, and at it
// Credited returns exactly bits.
//
// Any goroutine. No allocation. Never blocks.
func (p Pacer) EndOf(first clock.Instant, bits int64) clock.Instant {
	if p.Mode == None || bits <= 0 {
		return first
	}
	return later(first, mulDivUp(bits, 1e9, p.Rate))
}

// Credited returns min(received, rate x since) in bits, rounded down; rate in
// bits per second. A negative since credits nothing.
//
// Any goroutine. No allocation. Never blocks.
func Credited(received, rate int64, since time.Duration) int64 {
	if since <= 0 || received <= 0 {
		return 0
	}
	return min(received, mulDiv(rate, int64(since), 1e9))
}

// Bucket is the token bucket of one slot: it holds at most one quantum, fills
// at the line speed, is full at the start of an op and carries nothing over
// from one op to the next.
//
// It stores one instant only, the one at which it would be full again (the
// generic cell rate algorithm), so refilling needs no work and no rounding
// accumulates in the reader's favour: between any two instants t apart a slot
// that obeys Take reads at most rate x t / 8 + Quantum bytes.
//
// Instants must not be negative. The zero instant of full is "long ago": a
// bucket that was never started is full.
type Bucket struct {
	Pacer Pacer
	full  clock.Instant
}

// Start fills the bucket: an op begins.
func (b *Bucket) Start(now clock.Instant) { b.full = now }

// Take returns how many bytes may be read at now, at most a quantum; it spends
// nothing, because a receive may bring less. Modes other than Rated allow
// Unlimited.
//
// Loop goroutine. No allocation. Never blocks.
func (b *Bucket) Take(now clock.Instant) int {
	if b.Pacer.Mode != Rated {
		return Unlimited
	}
	lack := int64(b.full) - int64(now)
	if lack <= 0 {
		return int(b.Pacer.Quantum)
	}
	return int(max(0, int64(b.Pacer.Quantum)-mulDivUp(lack, b.Pacer.Rate, 8e9)))
}

// Spend takes out n bytes that were read at now. Reading more than Take
// allowed is no error: the debt delays the next read of this op.
//
// Loop goroutine. No allocation. Never blocks.
func (b *Bucket) Spend(now clock.Instant, n int) {
	if b.Pacer.Mode != Rated || n <= 0 {
		return
	}
	b.full = later(max(b.full, now), mulDivUp(int64(n), 8e9, b.Pacer.Rate))
}

// Due returns the earliest instant, not before now, at which Take allows want
// bytes (want is cut to a quantum): when to look again.
//
// Loop goroutine. No allocation. Never blocks.
func (b *Bucket) Due(now clock.Instant, want int) clock.Instant {
	if b.Pacer.Mode != Rated || want <= 0 {
		return now
	}
	spare := int64(b.Pacer.Quantum) - int64(min(want, int(b.Pacer.Quantum)))
	return max(now, b.full.Add(-time.Duration(mulDiv(spare, 8e9, b.Pacer.Rate))))
}

// later returns i + ns, saturated; ns is not negative.
func later(i clock.Instant, ns int64) clock.Instant {
	if int64(i) > math.MaxInt64-ns {
		return math.MaxInt64
	}
	return i + clock.Instant(ns)
}

// mulDiv returns floor(a*b/c) for a, b >= 0 and c > 0, saturated.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}

// mulDivUp returns ceil(a*b/c) for a, b >= 0 and c > 0, saturated.
func mulDivUp(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return math.MaxInt64
	}
	q, r := bits.Div64(hi, lo, uint64(c))
	if r != 0 {
		q++
	}
	return int64(min(q, math.MaxInt64))
}
