// Package tally counts latencies.
package tally

// Histogram is a log-linear histogram of nanoseconds.
type Histogram struct{}

// Record adds one value.
func (h *Histogram) Record(v int64) {}

// Merge adds all of o.
func (h *Histogram) Merge(o *Histogram) {}

// Reset empties the histogram.
func (h *Histogram) Reset() {}

// Count returns the number of recorded values, those out of range included.
func (h *Histogram) Count() int64 { return 0 }

// Under returns how many values were below the range.
func (h *Histogram) Under() int64 { return 0 }

// Over returns how many values were above the range.
func (h *Histogram) Over() int64 { return 0 }

// Mean returns the exact mean.
func (h *Histogram) Mean() float64 { return 0 }

// Min returns the smallest value.
func (h *Histogram) Min() int64 { return 0 }

// Max returns the largest value.
func (h *Histogram) Max() int64 { return 0 }

// Quantile returns the value at q.
func (h *Histogram) Quantile(q float64) int64 { return 0 }

// Buckets visits the non-empty buckets.
func (h *Histogram) Buckets(visit func(low, high, count int64)) {}

// MarshalBinary encodes the histogram.
func (h *Histogram) MarshalBinary() ([]byte, error) { return nil, nil }

// UnmarshalBinary decodes the histogram.
func (h *Histogram) UnmarshalBinary(b []byte) error { return nil }
