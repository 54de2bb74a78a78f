package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSharesAreTheWhole(t *testing.T) {
	for n, want := range map[int][]int64{1: {1001}, 2: {500, 501}, 3: {333, 334, 334}} {
		if diff := cmp.Diff(want, shares(1001, n)); diff != "" {
			t.Errorf("%d: %s", n, diff)
		}
	}
}

func TestRatios(t *testing.T) {
	all := []work{{Rate: 1}, {Rate: 1.5}, {Rate: 2}, {Rate: 3}, {Rate: 4}}
	if diff := cmp.Diff([]float64{1, 1}, ratios(all)); diff != "" {
		t.Error(diff)
	}
	if got := ratios(all[:2]); got != nil {
		t.Errorf("a create without a dd after it: %v", got)
	}
}
