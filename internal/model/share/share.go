// Package share deals slots out to agents.
//
// [Deal] gives each agent a [Share] in proportion to its weight: which slot numbers are
// its own, whatever the load. Every agent can compute it alone: it depends on nothing
// but its arguments.
//
// It does not choose weights and knows no agents, only their number.
package share

import "fmt"

// Share is the slots of one agent: of every Period consecutive numbers, those at
// Positions (ascending, from 0). The zero value is the share of everything.
type Share struct {
	Positions []int `json:"positions,omitempty"`
	Period    int   `json:"period,omitempty"`
}

// Number is the slot number of the agent's slot i, from 0.
func (s Share) Number(i int) int {
	if s.Period == 0 {
		return i
	}
	return i/len(s.Positions)*s.Period + s.Positions[i%len(s.Positions)]
}

// Count is how many of the slots 0..total-1 are the agent's.
func (s Share) Count(total int) int {
	if s.Period == 0 {
		return total
	}
	n := total / s.Period * len(s.Positions)
	for _, p := range s.Positions {
		if p < total%s.Period {
			n++
		}
	}
	return n
}

// Deal deals the slots out, one share per weight. All weights zero means all equal. A
// negative weight, or weights whose sum exceeds an int32, are a caller's mistake and
// panic.
//
// Three things hold for every total: the shares have every slot below it exactly once,
// each count is the agent's quota w x total / sum rounded up or down, and raising total
// by one gives that one slot to one agent, so that no agent ever loses slots when load
// is added.
func Deal(weights []int) []Share {
	w, sum := reduce(weights)
	if len(w) == 0 {
		return nil
	}
	shares := make([]Share, len(w))
	had := make([]int, len(w))
	for given := 1; given <= sum; given++ {
		i := next(w, had, sum, given)
		had[i]++
		shares[i].Positions = append(shares[i].Positions, given-1)
	}
	for i := range shares {
		if shares[i].Period = sum; len(shares[i].Positions) == 0 {
			shares[i].Positions = []int{} // weight 0: nothing
		}
	}
	return shares
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
