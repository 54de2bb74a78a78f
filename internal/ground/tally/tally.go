// Package tally counts latencies in a histogram of fixed size.
//
// Call [Histogram.Record] with nanoseconds where the measurement happens and
// [Histogram.Merge] where results meet; read it with [Histogram.Quantile]. A value
// outside the range is counted, never dropped and never an error that somebody
// might ignore: see [Histogram.Under] and [Histogram.Over].
//
// It has no lock, no registry of names and no other unit than the nanosecond.
package tally

import (
	"math"
	"math/bits"
)

// The range of a bucketed value, in nanoseconds. Both ends are inside.
const (
	Lowest  = 1_000           // 1 us
	Highest = 100_000_000_000 // 100 s
)

// The layout is that of HdrHistogram with lowest value 1, highest 100 s and 3
// significant digits: exact up to 2,047 ns, then 1,024 buckets for each doubling, so
// that a bucket is less than 0.1 % of its values wide. Buckets of the two can
// therefore be copied one to one.
const (
	half   = 1024
	lowest = Lowest // index of the first bucket kept: indices below 2,048 are the values
	// size is one more than the index of Highest: 26 doublings, then its place in the last.
	size = 26*half + Highest>>26 + 1 - lowest
)

// Histogram is a log-linear histogram of nanoseconds. The zero value is empty and
// ready. It takes about 217 kB: keep one, do not copy it about. One goroutine at a
// time.
type Histogram struct {
	count    int64
	under    int64
	over     int64
	min, max int64 // of all values; meaningless while count is 0
	sumHi    int64 // 128-bit two's complement sum of all values
	sumLo    uint64
	counts   [size]int64
}

// index returns the bucket of v, which must be in range.
func index(v int64) int {
	exp := max(bits.Len64(uint64(v))-11, 0)
	return exp*half + int(v>>uint(exp)) - lowest
}

// bounds returns the lowest and the highest value of bucket i.
func bounds(i int) (low, high int64) {
	i += lowest
	if i < 2*half {
		return int64(i), int64(i)
	}
	exp := uint(i/half - 1)
	low = int64(i%half+half) << exp
	return low, min(low+1<<exp-1, Highest)
}

// Record counts the value v, in nanoseconds.
//
// Owner's goroutine. No allocation. Does not block.
func (h *Histogram) Record(v int64) {
	if h.count == 0 {
		h.min, h.max = v, v
	} else {
		h.min, h.max = min(h.min, v), max(h.max, v)
	}
	h.count++
	var carry uint64
	h.sumLo, carry = bits.Add64(h.sumLo, uint64(v), 0)
	h.sumHi += v>>63 + int64(carry)
	switch {
	case v < Lowest:
		h.under++
	case v > Highest:
		h.over++
	default:
		h.counts[index(v)]++
	}
}

// Merge adds everything o has counted, exactly as if h had recorded it; o is
// unchanged. An h merged with itself is doubled.
func (h *Histogram) Merge(o *Histogram) {
	if o.count == 0 {
		return
	}
	if h.count == 0 {
		h.min, h.max = o.min, o.max
	} else {
		h.min, h.max = min(h.min, o.min), max(h.max, o.max)
	}
	h.count += o.count
	h.under += o.under
	h.over += o.over
	var carry uint64
	h.sumLo, carry = bits.Add64(h.sumLo, o.sumLo, 0)
	h.sumHi += o.sumHi + int64(carry)
	for i, n := range &o.counts {
		h.counts[i] += n
	}
}

// Reset empties h.
func (h *Histogram) Reset() { *h = Histogram{} }

// Count returns the number of values, those out of range included.
func (h *Histogram) Count() int64 { return h.count }

// Under returns how many values were below Lowest, negative ones included.
func (h *Histogram) Under() int64 { return h.under }

// Over returns how many values were above Highest. A result with any is not to be
// trusted in its upper quantiles.
func (h *Histogram) Over() int64 { return h.over }

// Min returns the smallest value, exactly; 0 if there is none.
func (h *Histogram) Min() int64 {
	if h.count == 0 {
		return 0
	}
	return h.min
}

// Max returns the largest value, exactly; 0 if there is none.
func (h *Histogram) Max() int64 {
	if h.count == 0 {
		return 0
	}
	return h.max
}

// Mean returns the mean of all values, from their exact sum; 0 if there is none.
func (h *Histogram) Mean() float64 {
	if h.count == 0 {
		return 0
	}
	return (float64(h.sumHi)*0x1p64 + float64(h.sumLo)) / float64(h.count)
}

// Quantile returns the value at rank ceil(q x Count), counted from the smallest: the
// upper end of its bucket, at most 0.1 % too large and never too small. Values below
// the range are reported as Lowest-1 at the most, values above it as Max. A q of 0 or
// less gives Min, of 1 or more Max; an empty histogram gives 0.
func (h *Histogram) Quantile(q float64) int64 {
	switch {
	case h.count == 0:
		return 0
	case q <= 0:
		return h.min
	case q >= 1:
		return h.max
	case math.IsNaN(q):
		panic("tally: quantile of NaN")
	}
	// A product like 0.07 x 100 must not land above the 7 that was meant.
	x := q * float64(h.count)
	rank := max(int64(math.Ceil(x-x*0x1p-51)), 1)
	seen := h.under
	if rank <= seen {
		return min(Lowest-1, h.max)
	}
	for i, n := range &h.counts {
		if seen += n; rank <= seen {
			_, high := bounds(i)
			return min(high, h.max)
		}
	}
	return h.max
}

// Buckets visits the buckets that counted anything, in ascending order, with the
// lowest and highest value each stands for. Values out of range appear as one bucket
// from Min to Lowest-1 and one from Highest+1 to Max, so the counts add up to Count.
func (h *Histogram) Buckets(visit func(low, high, count int64)) {
	if h.under > 0 {
		visit(h.min, Lowest-1, h.under)
	}
	for i, n := range &h.counts {
		if n > 0 {
			low, high := bounds(i)
			visit(low, high, n)
		}
	}
	if h.over > 0 {
		visit(Highest+1, h.max, h.over)
	}
}
