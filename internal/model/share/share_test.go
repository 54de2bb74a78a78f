package share

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func counts(total int, weights []int) []int {
	var n []int
	for _, r := range Split(total, weights) {
		n = append(n, r.Count)
	}
	return n
}

func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		name    string
		total   int
		weights []int
		want    []Range
	}{
		{"one agent", 7, []int{5}, []Range{{0, 7}}},
		{"equal", 6, []int{1, 1, 1}, []Range{{0, 2}, {2, 2}, {4, 2}}},
		{"equal with a rest", 8, []int{2, 2, 2}, []Range{{0, 3}, {3, 3}, {6, 2}}},
		{"no weights set", 4, []int{0, 0}, []Range{{0, 2}, {2, 2}}},
		{"a zero among others", 4, []int{0, 1, 0}, []Range{{0, 0}, {0, 4}, {4, 0}}},
		{"in proportion", 100, []int{1, 3}, []Range{{0, 25}, {25, 75}}},
		{"fewer slots than agents", 2, []int{1, 1, 1}, []Range{{0, 1}, {1, 1}, {2, 0}}},
		{"nothing to split", 0, []int{1, 2}, []Range{{0, 0}, {0, 0}}},
		{"nobody and nothing", 0, nil, nil},
		{"large total", 1_000_000_007, []int{1, 1}, []Range{{0, 500_000_004}, {500_000_004, 500_000_003}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Split(tt.total, tt.weights)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

var someWeights = rapid.Custom(func(t *rapid.T) []int {
	w := rapid.SliceOfN(rapid.IntRange(0, 40), 1, 8).Draw(t, "weights")
	scale := rapid.IntRange(1, 1000).Draw(t, "scale")
	for i := range w {
		w[i] *= scale
	}
	return w
})

func TestPartsTileTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := someWeights.Draw(t, "w")
		total := rapid.IntRange(0, 100000).Draw(t, "total")
		next := 0
		for _, r := range Split(total, weights) {
			if r.First != next || r.Count < 0 {
				t.Fatalf("%+v where %d is due", r, next)
			}
			next = r.End()
		}
		if next != total {
			t.Fatalf("ends at %d of %d", next, total)
		}
	})
}

func TestEachCountIsItsQuotaRoundedAndNeverShrinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := someWeights.Draw(t, "w")
		quota := slices.Clone(weights)
		sum := 0
		for _, w := range quota {
			sum += w
		}
		if sum == 0 {
			for i := range quota {
				quota[i] = 1
			}
			sum = len(quota)
		}
		start := rapid.IntRange(0, 3000).Draw(t, "start")
		before := counts(start, weights)
		for total := start + 1; total <= start+150; total++ {
			now := counts(total, weights)
			grown := 0
			for i, n := range now {
				if low, high := quota[i]*total/sum, (quota[i]*total+sum-1)/sum; n < low || n > high {
					t.Fatalf("%d slots by %v: agent %d gets %d, quota %d to %d", total, weights, i, n, low, high)
				}
				switch n - before[i] {
				case 0:
				case 1:
					grown++
				default:
					t.Fatalf("from %d to %d slots by %v agent %d goes from %d to %d", total-1, total, weights, i, before[i], n)
				}
			}
			if grown != 1 {
				t.Fatalf("one slot more by %v, %d agents got one", weights, grown)
			}
			before = now
		}
	})
}

func TestOnlyTheProportionsMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 5).Draw(t, "w")
		total := rapid.IntRange(0, 500).Draw(t, "total")
		by := rapid.IntRange(1, 1_000_000).Draw(t, "by")
		scaled := slices.Clone(weights)
		for i := range scaled {
			scaled[i] *= by
		}
		if diff := cmp.Diff(Split(total, weights), Split(total, scaled)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestMistakesPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"negative total":  func() { Split(-1, []int{1}) },
		"negative weight": func() { Split(1, []int{2, -1}) },
		"huge weights":    func() { Split(1, []int{1 << 30, 1 << 30}) },
		"nobody":          func() { Split(1, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			f()
		})
	}
}

func BenchmarkSplitUneven(b *testing.B) {
	weights := []int{997, 1009, 1013, 1019, 1021, 1031, 1033, 1039}
	for b.Loop() {
		Split(7000, weights)
	}
}
