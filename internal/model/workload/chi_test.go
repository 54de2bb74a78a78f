package workload

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Known values: quantiles of chi-square tables, closed forms and asymptotics.
func TestGammaQ(t *testing.T) {
	for _, v := range []struct{ a, x, want, slack float64 }{
		{0.5, 3.841458820694124 / 2, 0.05, 1e-12}, // df 1
		{0.5, 6.634896601021213 / 2, 0.01, 1e-12},
		{1, 5.991464547107979 / 2, 0.05, 1e-12},
		{2.5, 11.070497693516351 / 2, 0.05, 1e-12},
		{5, 18.307038053275146 / 2, 0.05, 1e-12},
		{50, 124.34211340400407 / 2, 0.05, 1e-12}, // df 100
		{50, 149.44925277903895 / 2, 0.001, 1e-12},
		{1, 20, math.Exp(-20), 1e-12}, // Q(1, x) = exp(-x)
		{1, 0.001, math.Exp(-0.001), 1e-12},
		{0.5, 12.5, math.Erfc(math.Sqrt(12.5)), 1e-12}, // Q(1/2, x) = erfc(sqrt x)
		{0.5, 0.01, math.Erfc(0.1), 1e-12},
		{3, 0, 1, 0},
		{3, math.Inf(1), 0, 0},
	} {
		if got := gammaQ(v.a, v.x); math.Abs(got-v.want) > v.slack*v.want {
			t.Errorf("Q(%v, %v) = %v, want %v", v.a, v.x, got, v.want)
		}
	}
	// Q(n, x) = exp(-x) x sum of x^k/k! below n, for whole n.
	for _, n := range []int{1, 2, 7, 30, 200} {
		for _, f := range []float64{0.3, 0.9, 1, 1.1, 2} {
			x := f * float64(n)
			sum := 0.0
			for k := range n {
				lg, _ := math.Lgamma(float64(k + 1))
				sum += math.Exp(float64(k)*math.Log(x) - x - lg)
			}
			if got := gammaQ(float64(n), x); math.Abs(got-sum) > 1e-11 {
				t.Errorf("Q(%d, %v) = %v, want %v", n, x, got, sum)
			}
		}
	}
	// Large a: Wilson and Hilferty's normal approximation, good to 1e-4 here.
	for _, a := range []float64{1e3, 1e4, 1e6} {
		for _, sigma := range []float64{-3, 0, 2, 4} {
			x := a + sigma*math.Sqrt(a)
			z := (math.Cbrt(x/a) - (1 - 1/(9*a))) * math.Sqrt(9*a)
			if got, want := gammaQ(a, x), math.Erfc(z/math.Sqrt2)/2; math.Abs(got-want) > 1e-4 {
				t.Errorf("Q(%v, %v) = %v, want %v", a, x, got, want)
			}
		}
	}
	if !math.IsNaN(gammaQ(-1, 1)) || !math.IsNaN(gammaQ(1, -1)) || !math.IsNaN(gammaQ(math.NaN(), 1)) {
		t.Error("out of domain: not a NaN")
	}
}

// Q falls in x and grows in a; the two methods meet at the bend.
func TestGammaQMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Float64Range(0.5, 5000).Draw(t, "a")
		x := a * rapid.Float64Range(0.5, 2).Draw(t, "x")
		q := gammaQ(a, x)
		if q < 0 || q > 1+1e-12 {
			t.Fatalf("Q(%v, %v) = %v", a, x, q)
		}
		if gammaQ(a, x*1.01) > q+1e-12 || gammaQ(a*1.01, x) < q-1e-12 {
			t.Fatalf("Q(%v, %v) is not monotone", a, x)
		}
		below, above := gammaQ(a, (a+1)*(1-1e-9)), gammaQ(a, (a+1)*(1+1e-9))
		if math.Abs(below-above) > 1e-6 {
			t.Fatalf("Q jumps at the bend of %v: %v, %v", a, below, above)
		}
	})
}

func TestChiSquare(t *testing.T) {
	for _, v := range []struct {
		name     string
		observed []uint64
		expected []float64
		stat, p  float64
	}{
		{"fair die of a text book", []uint64{5, 8, 9, 8, 10, 20}, []float64{1, 1, 1, 1, 1, 1}, 13.4, 0.019905220334774},
		{"perfect", []uint64{70, 30}, []float64{0.7, 0.3}, 0, 1},
		{"nothing", []uint64{0, 0}, []float64{0.5, 0.5}, 0, 1},
		{"one cell", []uint64{9}, []float64{1}, 0, 1},
		{"impossible", []uint64{9, 1}, []float64{1, 0}, math.Inf(1), 0},
		{"empty cell of share 0", []uint64{70, 0, 30}, []float64{0.7, 0, 0.3}, 0, 1},
		{"pool of two", []uint64{188, 7, 5}, []float64{0.94, 0.03, 0.03}, 0, 1},
		{"small pool joins", []uint64{150, 49, 1}, []float64{0.75, 0.245, 0.005}, 0, 1},
		{"all pooled", []uint64{3, 1}, []float64{0.5, 0.5}, 0, 1},
	} {
		stat, p := ChiSquare(v.observed, v.expected)
		if stat != v.stat && math.Abs(stat-v.stat) > 1e-9 || math.Abs(p-v.p) > 1e-9 {
			t.Errorf("%s: %v, p %v; want %v, p %v", v.name, stat, p, v.stat, v.p)
		}
	}
	// A rare kind in a short window must not condemn the mix: 1.5 expected, 9 seen.
	if _, p := ChiSquare([]uint64{991, 9}, []float64{0.9985, 0.0015}); p < 1e-6 {
		t.Errorf("one rare cell: p %v", p)
	}
}

// Under the law p is uniform: over many samples a tenth lies below 0.1.
func TestChiSquareUniform(t *testing.T) {
	shares := []float64{0.35, 0.5, 0.14, 0.01}
	table := newAlias(shares)
	const samples, draws = 4000, 4000
	below := 0
	state := uint64(42)
	for range samples {
		counts := make([]uint64, len(shares))
		for range draws {
			state += golden
			counts[table.draw(mix(state))]++
		}
		if _, p := ChiSquare(counts, shares); p < 0.1 {
			below++
		}
	}
	if below < samples/10-100 || below > samples/10+100 { // 5 sigma = 95
		t.Errorf("%d of %d samples lie below p = 0.1", below, samples)
	}
}
