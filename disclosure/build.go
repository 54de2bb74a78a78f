package disclosure

import (
	"fmt"
	"math"
	"slices"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// Geometry of the embedded histograms, in nanoseconds: 1 us to 1000 s at three significant digits.
const (
	hdrLowest  = 1_000
	hdrHighest = 1_000_000_000_000
	hdrDigits  = 3
)

// NewLatency builds a distribution from buckets of values in nanoseconds, low <= value <= high; buckets may come in
// any order, and several sources may be yielded one after the other to merge them. beyond counts values no bucket
// could hold; a bucket outside 0 to 1000 s is counted there too.
func NewLatency(kind string, buckets func(yield func(low, high, count int64)), beyond uint64) Latency {
	l := Latency{Kind: kind, Beyond: beyond}
	h := hdr.New(hdrLowest, hdrHighest, hdrDigits)
	lowest, highest := int64(math.MaxInt64), int64(0)
	buckets(func(low, high, count int64) {
		if count <= 0 {
			return
		}
		if h.RecordValues(low+(high-low)/2, count) != nil {
			l.Beyond += uint64(count)
			return
		}
		lowest, highest = min(lowest, low), max(highest, high)
	})
	if l.Count = h.TotalCount(); l.Count == 0 {
		return l
	}
	at := func(percent float64) float64 { return float64(min(h.ValueAtPercentile(percent), highest)) / 1e6 }
	l.Min, l.Max, l.Mean = float64(lowest)/1e6, float64(highest)/1e6, h.Mean()/1e6
	l.P50, l.P75, l.P90, l.P95 = at(50), at(75), at(90), at(95)
	l.P99, l.P999, l.P9999 = at(99), at(99.9), at(99.99)
	if b, err := h.Encode(hdr.V2CompressedEncodingCookieBase); err == nil { // fails for no histogram of this geometry
		l.HDR = string(b)
	}
	return l
}

// Percentiles returns the values (milliseconds) at the percentiles asked for (0 to 100), from the embedded histogram.
func (l *Latency) Percentiles(percents ...float64) ([]float64, error) {
	h, err := hdr.Decode([]byte(l.HDR))
	if err != nil {
		return nil, fmt.Errorf("histogram of %s: %w", l.Kind, err)
	}
	out := make([]float64, len(percents))
	for i, p := range percents {
		out[i] = float64(h.ValueAtPercentile(p)) / 1e6
	}
	return out, nil
}

// NewSpread builds the distribution of slot rates given in bit/s. There are 60 bins: 40 from the floor to the line
// speed and 20 of the same width below, so that the floor is an edge. floor < line, both in bit/s.
func NewSpread(rates []float64, floor, line int64) Spread {
	const above, under = 40, 20
	width := float64(line-floor) / above / 1000
	s := Spread{From: float64(floor)/1000 - under*width, Width: width, Counts: make([]int, above+under)}
	if len(rates) == 0 {
		return s
	}
	sorted := slices.Sorted(slices.Values(rates))
	n := len(sorted)
	at := func(share float64) float64 { return sorted[max(0, int(math.Ceil(share*float64(n)))-1)] / 1000 }
	var sum float64
	for _, r := range sorted {
		sum += r
		bin := under + int(math.Floor((r-float64(floor))*above/float64(line-floor)))
		s.Counts[min(max(bin, 0), len(s.Counts)-1)]++
	}
	s.Min, s.Max, s.Mean = at(0), at(1), sum/float64(n)/1000
	s.P1, s.P5, s.P25, s.P50 = at(0.01), at(0.05), at(0.25), at(0.50)
	s.P75, s.P95, s.P99 = at(0.75), at(0.95), at(0.99)
	return s
}

// NewOverview thins the seconds of one iteration to at most points points, each the mean over a whole number of
// seconds (fewer in the last).
func NewOverview(seconds []Second, requested, points int) *Overview {
	every := max(1, (len(seconds)+points-1)/max(points, 1))
	o := &Overview{Interval: float64(every)}
	for part := range slices.Chunk(seconds, every) {
		var ops, failed uint64
		var bits, late int64
		var open int
		for _, s := range part {
			ops, failed, bits, late, open = ops+s.Ops, failed+s.Failed, bits+s.Bits, late+s.Late, open+s.Open
		}
		n := float64(len(part))
		slots := n * float64(max(requested, 1))
		o.OpsPerSec = append(o.OpsPerSec, round(float64(ops)/n, 1))
		o.FailPerSec = append(o.FailPerSec, round(float64(failed)/n, 3))
		o.KbitPerSlot = append(o.KbitPerSlot, round(float64(bits)/1000/slots, 2))
		o.LatePercent = append(o.LatePercent, round(100*float64(late)/1e9/slots, 4))
		o.Open = append(o.Open, round(float64(open)/n, 1))
	}
	return o
}

// round keeps a few digits: a thinned series is for the eye.
func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}
