package workload

import "math/bits"

// alias draws from a fixed distribution in constant time (Walker 1977, built by
// Vose's method 1991). A cell keeps its own number for the lower part of its
// width and lends the rest to another one.
type alias []cell

type cell struct {
	cut   uint32 // below this fraction of 2^32 the cell's own number
	other uint32
}

// newAlias builds the table of weights that are finite, not negative and not all
// zero; they need not sum to 1.
func newAlias(weights []float64) alias {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	n := len(weights)
	t := make(alias, n)
	scaled := make([]float64, n)
	var small, large []int
	for i, w := range weights {
		scaled[i] = w / sum * float64(n)
		if scaled[i] < 1 {
			small = append(small, i)
		} else {
			large = append(large, i)
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		t[s] = cell{cut: uint32(float64(scaled[s] * (1 << 32))), other: uint32(l)}
		if scaled[l] = float64(scaled[l]+scaled[s]) - 1; scaled[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	for _, rest := range [][]int{small, large} { // full cells, but for rounding
		for _, i := range rest {
			t[i] = cell{other: uint32(i)}
		}
	}
	return t
}

// draw maps one random word to a number: the upper half of word x cells chooses
// the cell, the lower half the place in it.
//
// Any goroutine. No allocation. Never blocks.
func (t alias) draw(word uint64) int {
	i, place := bits.Mul64(word, uint64(len(t)))
	c := t[i]
	if uint32(place>>32) < c.cut {
		return int(i)
	}
	return int(c.other)
}
