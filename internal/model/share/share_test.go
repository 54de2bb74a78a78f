package share

import (
	"testing"

	"pgregory.net/rapid"
)

func weights(t *rapid.T) []int {
	return rapid.SliceOfN(rapid.IntRange(0, 12), 1, 6).Draw(t, "weights")
}

// fair is the weights Deal uses: all zero means all one.
func fair(w []int) (out []int, sum int) {
	for _, n := range w {
		sum += n
	}
	if sum > 0 {
		return w, sum
	}
	for range w {
		out = append(out, 1)
	}
	return out, len(w)
}

func TestEverySlotHasOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shares, total := Deal(weights(t)), rapid.IntRange(0, 300).Draw(t, "total")
		owners := make([]int, total)
		for _, s := range shares {
			for i := range s.Count(total) {
				n := s.Number(i)
				if n < 0 || n >= total {
					t.Fatalf("slot %d of a load of %d", n, total)
				}
				if i > 0 && n <= s.Number(i-1) {
					t.Fatalf("slot %d follows %d", n, s.Number(i-1))
				}
				owners[n]++
			}
		}
		for n, k := range owners {
			if k != 1 {
				t.Fatalf("slot %d has %d owners", n, k)
			}
		}
	})
}

func TestCountsAreQuotasRounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := weights(t)
		shares, total := Deal(w), rapid.IntRange(0, 5000).Draw(t, "total")
		w, sum := fair(w)
		for i, s := range shares {
			if n := s.Count(total); n < w[i]*total/sum || n > (w[i]*total+sum-1)/sum {
				t.Fatalf("agent %d of weights %v has %d of %d", i, w, n, total)
			}
		}
	})
}

func TestNobodyLosesWhenLoadIsAdded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, s := range Deal(weights(t)) {
			for total := range 200 {
				if rise := s.Count(total+1) - s.Count(total); rise != 0 && rise != 1 {
					t.Fatalf("from %d to %d slots a count rises by %d", total, total+1, rise)
				}
			}
		}
	})
}

func TestTheZeroShareIsEverything(t *testing.T) {
	var s Share
	if s.Count(17) != 17 || s.Number(16) != 16 {
		t.Errorf("count %d, last %d", s.Count(17), s.Number(16))
	}
	if len(Deal(nil)) != 0 {
		t.Error("nobody has a share")
	}
}

func TestWeightsOutOfRangePanic(t *testing.T) {
	for _, w := range [][]int{{-1}, {1 << 31}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("weights %v were accepted", w)
				}
			}()
			Deal(w)
		}()
	}
}
