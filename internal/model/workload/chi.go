package workload

import "math"

// poolBelow is the expected count below which a cell joins the pool. Cochran's 5
// serves tests at the 5 % level; ours look at p near 1e-6, and that far out
// counts of 5 are too skewed to follow the distribution.
const poolBelow = 10

// ChiSquare tests counts against the shares they were drawn with: Pearson's
// statistic and the probability of one at least as large under the law. Cells
// that expect fewer than 10 are pooled, and a pool below 10 joins the smallest
// of the others. An observation in a cell of share 0 makes p 0. Shares need not
// sum to 1. When fewer than two cells remain there is nothing to test and p is 1.
// The slices must be of one length.
func ChiSquare(observed []uint64, expected []float64) (stat, p float64) {
	if len(observed) != len(expected) {
		panic("workload: chi-square of slices of different length")
	}
	n, sum := 0.0, 0.0
	for i, o := range observed {
		n += float64(o)
		sum += expected[i]
		if expected[i] <= 0 && o > 0 {
			return math.Inf(1), 0
		}
	}
	if n == 0 {
		return 0, 1
	}
	cells, least := 0, -1
	var pool, poolWant float64
	want := func(i int) float64 { return n * expected[i] / sum }
	for i, o := range observed {
		switch w := want(i); {
		case w < poolBelow:
			pool += float64(o)
			poolWant += w
		case least < 0 || w < want(least):
			least = i
		}
	}
	add := func(got, want float64) {
		stat += (got - want) * (got - want) / want
		cells++
	}
	for i, o := range observed {
		w := want(i)
		switch {
		case w < poolBelow:
		case i == least && poolWant < poolBelow:
			add(float64(o)+pool, w+poolWant)
		default:
			add(float64(o), w)
		}
	}
	if poolWant >= poolBelow {
		add(pool, poolWant)
	}
	if cells < 2 {
		return 0, 1
	}
	return stat, gammaQ(float64(cells-1)/2, stat/2)
}

// gammaQ returns the upper regularised incomplete gamma function Q(a, x) for
// a > 0, x >= 0: by the series of P below the bend at a + 1, by Legendre's
// continued fraction (modified Lentz) above it. The relative error stays below
// 1e-8 for a up to 1e6.
func gammaQ(a, x float64) float64 {
	switch {
	case math.IsNaN(x) || math.IsNaN(a) || a <= 0 || x < 0:
		return math.NaN()
	case x == 0:
		return 1
	case math.IsInf(x, 1):
		return 0
	}
	lg, _ := math.Lgamma(a)
	front := math.Exp(a*math.Log(x) - x - lg)
	const enough, steps = 1e-15, 100_000 // the bend needs about 10 x sqrt(a)
	if x < a+1 {
		term := 1 / a
		sum := term
		for n := 1.0; n < steps && term > sum*enough; n++ {
			term *= x / (a + n)
			sum += term
		}
		return max(0, 1-front*sum)
	}
	const tiny = 1e-300
	b := x + 1 - a
	c := 1 / tiny
	d := 1 / b
	h := d
	for n := 1.0; n < steps; n++ {
		k := -n * (n - a)
		b += 2
		if d = k*d + b; math.Abs(d) < tiny {
			d = tiny
		}
		if c = b + k/c; math.Abs(c) < tiny {
			c = tiny
		}
		d = 1 / d
		h *= d * c
		if math.Abs(d*c-1) < enough {
			break
		}
	}
	return front * h
}
