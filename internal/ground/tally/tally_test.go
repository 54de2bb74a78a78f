package tally

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// anyValue draws latencies of every magnitude, in and out of range.
var anyValue = rapid.Custom(func(t *rapid.T) int64 {
	v := rapid.Int64().Draw(t, "bits") >> uint(rapid.IntRange(0, 63).Draw(t, "shift"))
	return v
})

// inRange draws values the buckets hold.
var inRange = rapid.OneOf(
	rapid.Int64Range(Lowest, Highest),
	rapid.Int64Range(Lowest, 5000),
	rapid.SampledFrom([]int64{Lowest, 2047, 2048, 4095, 4096, Highest - 1, Highest}),
)

func of(values []int64) *Histogram {
	h := new(Histogram)
	for _, v := range values {
		h.Record(v)
	}
	return h
}

func TestBucketsTileTheRange(t *testing.T) {
	next := int64(Lowest)
	for i := range size {
		low, high := bounds(i)
		if low != next || high < low {
			t.Fatalf("bucket %d is %d to %d, want it to begin at %d", i, low, high, next)
		}
		if index(low) != i || index(high) != i {
			t.Fatalf("bucket %d of %d to %d: index says %d and %d", i, low, high, index(low), index(high))
		}
		if low > 2047 && float64(high-low+1) > float64(low)/1000 {
			t.Fatalf("bucket %d to %d is wider than 0.1 %%", low, high)
		}
		next = high + 1
	}
	if next != Highest+1 {
		t.Fatalf("the last bucket ends at %d", next-1)
	}
}

func TestBucketsAreThoseOfHdrHistogram(t *testing.T) {
	hdr := hdrhistogram.New(1, Highest, 3)
	for i := range size {
		low, high := bounds(i)
		if err := hdr.RecordValue(low); err != nil {
			t.Fatal(err)
		}
		if high != Highest {
			if got := hdr.ValuesAreEquivalent(low, high); !got {
				t.Fatalf("%d and %d are apart there", low, high)
			}
			if hdr.ValuesAreEquivalent(high, high+1) {
				t.Fatalf("%d and %d are together there", high, high+1)
			}
		}
	}
}

func TestQuantileIsTheRankedValueOrAThousandthAbove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(inRange, 1, 200).Draw(t, "values")
		h := of(values)
		slices.Sort(values)
		n := len(values)
		for rank := 1; rank <= n; rank++ {
			// The quotient may be off by a rounding either way; the rank must not.
			got := h.Quantile(float64(rank) / float64(n))
			want := values[rank-1]
			if got < want || float64(got-want) > float64(want)/1000 {
				t.Fatalf("rank %d of %d is %d, want %d", rank, n, got, want)
			}
		}
		if h.Quantile(0) != values[0] || h.Quantile(1) != values[n-1] || h.Quantile(-1) != values[0] || h.Quantile(2) != values[n-1] {
			t.Fatal("the ends are not the extremes")
		}
	})
}

func TestARoundedProductDoesNotMoveTheRank(t *testing.T) {
	h := new(Histogram)
	for i := int64(1); i <= 100; i++ {
		h.Record(i * 10_000_000)
	}
	for rank := int64(1); rank < 100; rank++ { // 0.07 x 100 is 7.000000000000001
		if got := h.Quantile(float64(rank) / 100); got < rank*10_000_000 || got > rank*10_010_000 {
			t.Errorf("Quantile(%d/100) = %d", rank, got)
		}
	}
}

func TestQuantilesRiseAndStayWithinTheExtremes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := of(rapid.SliceOfN(anyValue, 1, 100).Draw(t, "values"))
		last := h.Min()
		for _, q := range []float64{0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1} {
			v := h.Quantile(q)
			if v < last || v > h.Max() {
				t.Fatalf("Quantile(%v) = %d after %d, Max %d", q, v, last, h.Max())
			}
			last = v
		}
	})
}

func TestNothingIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(anyValue).Draw(t, "values")
		h := of(values)
		var under, over, inside int64
		sum := 0.0
		for _, v := range values {
			sum += float64(v)
			switch {
			case v < Lowest:
				under++
			case v > Highest:
				over++
			default:
				inside++
			}
		}
		if h.Count() != int64(len(values)) || h.Under() != under || h.Over() != over {
			t.Fatalf("count %d, under %d, over %d of %d, %d, %d", h.Count(), h.Under(), h.Over(), len(values), under, over)
		}
		var total int64
		last := int64(math.MinInt64)
		h.Buckets(func(low, high, n int64) {
			if low > high || low < last || n <= 0 {
				t.Fatalf("bucket %d to %d with %d after one up to %d", low, high, n, last)
			}
			last = high
			total += n
			got := int64(0)
			for _, v := range values {
				if v >= low && v <= high {
					got++
				}
			}
			if got != n {
				t.Fatalf("bucket %d to %d counts %d, want %d", low, high, n, got)
			}
		})
		if total != h.Count() {
			t.Fatalf("buckets add up to %d of %d", total, h.Count())
		}
		if len(values) == 0 {
			if h.Min() != 0 || h.Max() != 0 || h.Mean() != 0 || h.Quantile(0.5) != 0 {
				t.Fatal("an empty histogram has figures")
			}
			return
		}
		if h.Min() != slices.Min(values) || h.Max() != slices.Max(values) {
			t.Fatalf("extremes %d, %d", h.Min(), h.Max())
		}
		mean := sum / float64(len(values))
		if d := math.Abs(h.Mean() - mean); d > 1e-9*math.Abs(mean)+1e4 {
			t.Fatalf("mean %v, want %v", h.Mean(), mean)
		}
	})
}

func TestMeanIsExactWhereAnInt64SumWouldOverflow(t *testing.T) {
	var h Histogram
	for range 5 {
		h.Record(math.MaxInt64)
	}
	if got := h.Mean(); got != math.MaxInt64 {
		t.Errorf("mean %v", got)
	}
	for range 10 {
		h.Record(math.MinInt64)
	}
	if got, want := h.Mean(), (5*float64(math.MaxInt64)+10*float64(math.MinInt64))/15; got != want {
		t.Errorf("mean %v, want %v", got, want)
	}
}

func TestMergeEqualsTheHistogramOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOf(anyValue), 1, 5).Draw(t, "parts")
		var merged Histogram
		var all []int64
		for _, p := range parts {
			merged.Merge(of(p))
			all = append(all, p...)
		}
		if merged != *of(all) {
			t.Fatal("differs from recording all in one")
		}
		merged.Merge(&merged)
		if merged != *of(append(all, all...)) {
			t.Fatal("merging with itself is not doubling")
		}
		merged.Reset()
		if merged != (Histogram{}) {
			t.Fatal("Reset left something")
		}
	})
}

func TestEncodingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := of(rapid.SliceOf(rapid.OneOf(anyValue, inRange)).Draw(t, "values"))
		b, err := h.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		got := of([]int64{1, 2, 3, 5000}) // must be replaced
		if err := got.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		if *got != *h {
			t.Fatal("came back different")
		}
	})
}

func TestEncodingIsCompact(t *testing.T) {
	h := new(Histogram)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		h.Record(int64(2e6 * (1 + rng.ExpFloat64())))
	}
	b, _ := h.MarshalBinary()
	if len(b) > 20_000 {
		t.Errorf("a million latencies take %d bytes", len(b))
	}
}

func TestDecodingRefuses(t *testing.T) {
	b := func(b ...byte) []byte { return b }
	for _, tt := range []struct {
		name string
		in   []byte
		want string
	}{
		{"nothing", nil, "histogram: empty encoding"},
		{"a later version", b(2), "histogram: version 2, this program reads 1"},
		{"a cut", b(1, 0, 0), "histogram: byte 3: cut short"},
		{"a cut in the buckets", b(1, 0, 0, 2, 1), "histogram: byte 5: cut short"},
		{"a tail", b(1, 0, 0, 0, 9), "histogram: byte 4: bytes after the end"},
		{"a long form", b(1, 0x80, 0, 0, 0), "histogram: byte 1: number not in its shortest form"},
		{"a number too large", b(1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 127, 0, 0), "histogram: byte 1: number above 64 bits"},
		{"more buckets than there are", b(1, 0, 0, 255, 255, 3), "histogram: byte 6: too many buckets"},
		{"a bucket above the range", b(1, 0, 0, 1, 255, 255, 3, 1), "histogram: byte 8: bucket above the range"},
		{"an empty bucket", b(1, 0, 0, 1, 0, 0), "histogram: byte 6: empty bucket"},
		{"a count that overflows", b(1, 255, 255, 255, 255, 255, 255, 255, 255, 127, 1, 0), "histogram: byte 11: count overflows"},
		{"a minimum outside its bucket", b(1, 0, 0, 1, 0, 1, 2, 2, 0, 1), "histogram: byte 10: extremes contradict the buckets"},
		{"a sum below the minimum", b(1, 1, 0, 0, 4, 4, 0, 1), "histogram: byte 8: sum contradicts the extremes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := of([]int64{5000})
			err := h.UnmarshalBinary(tt.in)
			if err == nil {
				t.Fatal("accepted")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Error(diff)
			}
			if *h != (Histogram{}) {
				t.Error("something is left of the old or the bad histogram")
			}
		})
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, values := range [][]int64{nil, {1}, {5000, 5000, 1e9}, {-1, 0, Highest, Highest + 1, math.MaxInt64, math.MinInt64}} {
		b, _ := of(values).MarshalBinary()
		f.Add(b)
	}
	h := new(Histogram)
	f.Fuzz(func(t *testing.T, in []byte) {
		if h.UnmarshalBinary(in) != nil {
			return
		}
		out, _ := h.MarshalBinary()
		if string(out) != string(in) {
			t.Errorf("accepted %x, which is written %x", in, out)
		}
		if v := h.Quantile(0.5); v < h.Min() || v > h.Max() {
			t.Errorf("median %d outside %d to %d", v, h.Min(), h.Max())
		}
		low, high := float64(h.Min()), float64(h.Max())
		slack := 1 + 1e-12*max(-low, high) // of the conversions
		if m := h.Mean(); m < low-slack || m > high+slack {
			t.Errorf("mean %v outside %d to %d", m, h.Min(), h.Max())
		}
	})
}

func TestRecordDoesNotAllocate(t *testing.T) {
	h := new(Histogram)
	v := int64(1)
	if n := testing.AllocsPerRun(1000, func() { h.Record(v); v += v/7 + 1 }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestQuantileOfNaNIsAMistake(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("accepted")
		}
	}()
	of([]int64{5000}).Quantile(math.NaN())
}

func BenchmarkRecord(b *testing.B) {
	h := new(Histogram)
	v := int64(Lowest)
	for b.Loop() {
		h.Record(v)
		v = (v*7 + 12345) & (1<<33 - 1)
	}
}

func BenchmarkMerge(b *testing.B) {
	h, o := new(Histogram), of([]int64{5000, 1e6, 1e9})
	for b.Loop() {
		h.Merge(o)
	}
}
