package conform

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// law draws response sizes of the web99 mix: class shares 35/50/14/1, files by the Zipf order 4 3 5 2 6 1 7 8 0,
// about 240 bytes of header and, for three in ten, a page of about 200 bytes around the file.
type law struct {
	rng  *rand.Rand
	file [9]float64 // cumulative share by rank
}

func newLaw(seed uint64) *law {
	l := &law{rng: rand.New(rand.NewPCG(seed, 1))}
	var h, sum float64
	for k := 1; k <= 9; k++ {
		h += 1 / float64(k)
	}
	for k := range l.file {
		sum += 1 / float64(k+1) / h
		l.file[k] = sum
	}
	return l
}

const (
	lawHeader, lawPage, lawPages = 240, 200, 0.3
	// lawBits is the mean: 14,727 bytes of file (facts of the file set), header and page.
	lawBits = 8 * (14_727 + lawHeader + lawPages*lawPage)
)

func (l *law) bits() float64 {
	order := [9]int{4, 3, 5, 2, 6, 1, 7, 8, 0}
	u, class := l.rng.Float64(), 0
	for _, c := range [3]float64{0.35, 0.85, 0.99} {
		if u >= c {
			class++
		}
	}
	u = l.rng.Float64()
	rank := 0
	for rank < 8 && u >= l.file[rank] {
		rank++
	}
	size := float64(int(102.4 * math.Pow10(class) * float64(order[rank]+1)))
	size += lawHeader
	if l.rng.Float64() < lawPages {
		size += lawPage
	}
	return 8 * size
}

// simulate lets slots work at exact line speed with an exponential overhead per operation, for a window cut out of a
// longer time, and returns the records a perfect driver would make of it.
func simulate(seed uint64, slots int, window time.Duration, overheadMS float64) *Iteration {
	const line = 400_000.0
	l := newLaw(seed)
	it := sound(slots, window)
	w := window.Seconds()
	for i := range it.Records {
		r := &it.Records[i]
		r.Ops, r.Begun, r.CreditedBits = 0, 0, 0
		var credited, response, first float64
		t := -60 * (1 + l.rng.Float64()) // long before the window
		for t < w {
			bits, wait := l.bits(), l.rng.ExpFloat64()*overheadMS/1000
			from, end := t+wait, t+wait+bits/line
			if t >= 0 {
				r.Begun++
			}
			if end >= 0 && end < w {
				r.Ops++
				response += end - t
				first += wait
			}
			credited += line * max(0, min(end, w)-max(from, 0))
			t = end
		}
		r.CreditedBits = int64(credited)
		r.Response = time.Duration(response * 1e9)
		r.FirstByte = time.Duration(first * 1e9)
	}
	return it
}

// The published single-processor result shows 329.7 kbit/s per connection with 99.4 to 99.7 % conforming. Sizes of
// the law with an exponential overhead of 64 ms over 1200 s give the same pair; that the two agree says that
// credited bits over the window, held against 320 kbit/s, is the definition behind the pages.
func TestSimulationMatchesPublishedPage(t *testing.T) {
	rule := DefaultRule()
	rule.MeanBits = lawBits
	j := Judge(rule, simulate(99, 1445, 1200*time.Second, 64))
	t.Logf("%.2f kbit/s, %.2f %% conforming, %.1f ms, %.3f ops/s per slot", j.KbitPerSlot, j.Percent, j.ResponseMS, j.OpsPerSlot)
	if !j.Valid || !j.Raw {
		t.Fatalf("valid %v, raw %v: %v", j.Valid, j.Raw, j.Reasons)
	}
	if math.Abs(j.KbitPerSlot-329.7) > 0.5 {
		t.Errorf("%.2f kbit/s, want 329.7 within 0.5", j.KbitPerSlot)
	}
	if math.Abs(j.Percent-99.4) > 0.5 {
		t.Errorf("%.2f %% conforming, want 99.4 within 0.5", j.Percent)
	}
	if math.Abs(j.OpsPerSlot-2.77) > 0.04 {
		t.Errorf("%.3f ops/s per slot, want 2.77 within 0.04", j.OpsPerSlot)
	}
	if math.Abs(j.ResponseMS-362) > 5 {
		t.Errorf("%.1f ms, want 362 within 5", j.ResponseMS)
	}
}

// Over short windows the heavy tail of sizes makes the raw rate scatter far more than the size-adjusted one, which
// is why verdicts use the latter there. Both have the same centre.
func TestAdjustedRateScattersLess(t *testing.T) {
	rule := DefaultRule()
	rule.MeanBits = lawBits
	for _, window := range []time.Duration{5 * time.Second, 8 * time.Second, 60 * time.Second} {
		j := Judge(rule, simulate(7, 2000, window, 20))
		raw, adjusted := deviation(j.RawRates), deviation(j.AdjustedRates)
		t.Logf("%v: raw %.1f ± %.1f kbit/s, adjusted %.1f ± %.1f, %.1f %% conform", window,
			mean(j.RawRates)/1000, raw/1000, mean(j.AdjustedRates)/1000, adjusted/1000, j.Percent)
		if j.Raw {
			t.Errorf("%v: judged by the raw rate", window)
		}
		if adjusted > 0.75*raw {
			t.Errorf("%v: adjusted rate deviates by %.0f bit/s, raw by %.0f", window, adjusted, raw)
		}
		want := lawBits / (lawBits/400_000 + 0.020)
		if math.Abs(mean(j.AdjustedRates)/want-1) > 0.01 {
			t.Errorf("%v: adjusted rate is %.0f in the mean, want %.0f", window, mean(j.AdjustedRates), want)
		}
	}
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func deviation(x []float64) float64 {
	m, sum := mean(x), 0.0
	for _, v := range x {
		sum += (v - m) * (v - m)
	}
	return math.Sqrt(sum / float64(len(x)))
}
