package conform

import "math"

// minExpected is the classic bound below which a cell is pooled (Cochran 1954).
const minExpected = 5

// ChiSquare tests observed counts against shares, which need not sum to one: Pearson's statistic, its degrees of
// freedom, and the probability p of a statistic at least as large if the law holds. Cells expecting fewer than five
// are pooled. Fewer than two cells, or nothing observed, cannot contradict anything: p is 1.
func ChiSquare(observed []uint64, shares []float64) (statistic float64, freedom int, p float64) {
	var total, sum float64
	for i, n := range observed {
		total += float64(n)
		sum += shares[i]
	}
	if total == 0 || sum <= 0 {
		return 0, 0, 1
	}
	type cell struct{ seen, expected float64 }
	var cells []cell
	var pool cell
	for i, n := range observed {
		e := total * shares[i] / sum
		if e == 0 && n > 0 {
			return math.Inf(1), max(len(observed)-1, 1), 0 // the law rules this cell out
		}
		if e < minExpected {
			if pool.seen, pool.expected = pool.seen+float64(n), pool.expected+e; pool.expected < minExpected {
				continue
			}
			cells, pool = append(cells, pool), cell{}
			continue
		}
		cells = append(cells, cell{float64(n), e})
	}
	if len(cells) < 2 {
		return 0, 0, 1
	}
	// What is left of the pool would be a cell too small; the last one takes it.
	last := &cells[len(cells)-1]
	last.seen, last.expected = last.seen+pool.seen, last.expected+pool.expected
	for _, c := range cells {
		statistic += (c.seen - c.expected) * (c.seen - c.expected) / c.expected
	}
	freedom = len(cells) - 1
	return statistic, freedom, upperGamma(float64(freedom)/2, statistic/2)
}

// upperGamma is the regularised upper incomplete gamma function Q(a, x): by its series below a+1, by Lentz's
// continued fraction above. Good to about 1e-12 relative over the range used here.
func upperGamma(a, x float64) float64 {
	if x <= 0 {
		return 1
	}
	lg, _ := math.Lgamma(a)
	front := math.Exp(a*math.Log(x) - x - lg)
	const tiny, eps, most = 1e-300, 1e-15, 100_000
	if x < a+1 {
		term := 1 / a
		sum := term
		for n := 1; n < most && term > sum*eps; n++ {
			term *= x / (a + float64(n))
			sum += term
		}
		return max(0, 1-sum*front)
	}
	b := x + 1 - a
	c := 1 / tiny
	d := 1 / b
	h := d
	for n := 1; n < most; n++ {
		an := -float64(n) * (float64(n) - a)
		b += 2
		if d = an*d + b; math.Abs(d) < tiny {
			d = tiny
		}
		if c = b + an/c; math.Abs(c) < tiny {
			c = tiny
		}
		d = 1 / d
		h *= d * c
		if math.Abs(d*c-1) < eps {
			break
		}
	}
	return front * h
}
