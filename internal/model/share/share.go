// Package share splits slots among agents.
package share

// Range is a run of consecutive slot numbers.
type Range struct {
	First int // number of the first one
	Count int // how many
}

// Split divides 0..total-1 among len(weights) agents.
func Split(total int, weights []int) []Range { return make([]Range, len(weights)) }
