// Package share splits slots among agents.
//
// [Split] gives each agent a run of slot numbers in proportion to its weight. Every
// agent can compute it alone: it depends on nothing but its arguments.
//
// It does not choose weights and knows no agents, only their number.
package share

import "fmt"

// Range is a run of consecutive slot numbers.
type Range struct {
	First int // number of the first one
	Count int // how many; may be 0
}

// End returns the number after the last one.
func (r Range) End() int { return r.First + r.Count }

// Split divides the slots 0..total-1 into one Range per weight, in order and without
// a gap. All weights zero means all equal. A negative total or weight, or weights
// whose sum exceeds an int32, are a caller's mistake and panic; no weights give no
// ranges, so total must then be 0.
//
// Two things hold for every total, and no rounding of the exact quotas w x total / sum
// gives both: each count is its quota rounded up or down, and raising total by one
// raises exactly one count by one, so that no agent ever loses slots when load is added.
// It costs at most sum/gcd steps per agent, whatever the total.
func Split(total int, weights []int) []Range {
	if total < 0 {
		panic(fmt.Sprintf("share: total %d is negative", total))
	}
	w, sum := reduce(weights)
	if len(w) == 0 {
		if total > 0 {
			panic("share: slots but nobody to take them")
		}
		return nil
	}
	// The sequence of gifts repeats after sum of them, each agent having had exactly
	// its weight. Deal the rest one by one.
	rounds, rest := total/sum, total%sum
	had := make([]int, len(w))
	for given := 1; given <= rest; given++ {
		had[next(w, had, sum, given)]++
	}
	ranges := make([]Range, len(w))
	first := 0
	for i := range ranges {
		ranges[i] = Range{first, rounds*w[i] + had[i]}
		first += ranges[i].Count
	}
	return ranges
}

// next returns who gets the slot that makes given of them. This is earliest deadline
// first on one processor with unit jobs: an agent's job number k is released once its
// quota exceeds k and is due when the quota reaches k+1. The load is exactly one, so
// every deadline is met (Baruah and others 1996, proportionate progress), which keeps
// each count within one of its quota at every moment. Ties go to the earlier agent.
func next(w, had []int, sum, given int) int {
	best, due := -1, 0
	for i := range w {
		if w[i] == 0 || had[i]*sum >= w[i]*given {
			continue // one more would exceed the quota rounded up
		}
		if d := ((had[i]+1)*sum + w[i] - 1) / w[i]; best < 0 || d < due {
			best, due = i, d
		}
	}
	return best
}

// reduce checks the weights and divides them by their greatest common divisor.
func reduce(weights []int) (w []int, sum int) {
	divisor := 0
	for i, n := range weights {
		if n < 0 {
			panic(fmt.Sprintf("share: weight %d of agent %d is negative", n, i))
		}
		if sum += n; sum > 1<<31-1 || sum < 0 {
			panic("share: the weights exceed 2^31-1")
		}
		for a := n; a != 0; {
			divisor, a = a, divisor%a
		}
	}
	w = make([]int, len(weights))
	for i, n := range weights {
		if divisor == 0 {
			w[i] = 1
			continue
		}
		w[i] = n / divisor
	}
	if divisor == 0 {
		return w, len(w)
	}
	return w, sum / divisor
}
