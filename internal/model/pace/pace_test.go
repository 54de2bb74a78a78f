package pace

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidemark.dev/internal/ground/clock"
)

const quantum = 8 * 1460

var web99 = Pacer{Rate: 400_000, Quantum: quantum}

const ms = clock.Instant(time.Millisecond)

func TestCredited(t *testing.T) {
	for _, v := range []struct {
		received, rate int64
		since          time.Duration
		want           int64
	}{
		{0, 400_000, time.Second, 0},
		{1_000_000, 400_000, time.Second, 400_000},
		{100_000, 400_000, time.Second, 100_000},
		{100_000, 400_000, 250 * time.Millisecond, 100_000},
		{100_001, 400_000, 250 * time.Millisecond, 100_000},
		{8, 400_000, 19_999, 7},
		{8, 400_000, 20_000, 8},
		{100, 400_000, 0, 0},
		{100, 400_000, -time.Second, 0},
		{-5, 400_000, time.Second, 0},
		{math.MaxInt64, 1e12, 1200 * time.Second, 1.2e15},
	} {
		if got := Credited(v.received, v.rate, v.since); got != v.want {
			t.Errorf("%+v: credited %d", v, got)
		}
	}
}

func TestEndOf(t *testing.T) {
	const mean = 14727 * 8 // bits of the mean file
	for _, v := range []struct {
		p    Pacer
		bits int64
		want time.Duration
	}{
		{web99, 0, 0},
		{web99, 400_000, time.Second},
		{web99, 1, 2500},
		{web99, mean, 294_540 * time.Microsecond},
		{Pacer{Rate: 3}, 1, 333_333_334},
		{Pacer{Rate: 400_000, Mode: Deferred}, mean, 294_540 * time.Microsecond},
		{Pacer{Rate: 400_000, Mode: None}, mean, 0},
		{Pacer{Mode: None}, mean, 0},
	} {
		if got := v.p.EndOf(7, v.bits).Sub(7); got != v.want {
			t.Errorf("%+v, %d bits: %v, want %v", v.p, v.bits, got, v.want)
		}
	}
	if got := (Pacer{Rate: 1}).EndOf(1<<62, math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("the far future wrapped round to %d", got)
	}
}

// At EndOf everything is credited, one nanosecond earlier it is not, and credit
// never falls.
func TestEndOfIsWhenCredited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pacer{Rate: rapid.Int64Range(1, 1e11).Draw(t, "rate"), Quantum: 1, Mode: Mode(rapid.IntRange(0, 1).Draw(t, "mode"))}
		bits := rapid.Int64Range(1, 1e9).Draw(t, "bits")
		end := p.EndOf(0, bits)
		if got := p.Credited(bits, end.Sub(0)); got != bits {
			t.Fatalf("at the end %d of %d bits are credited", got, bits)
		}
		if got := p.Credited(bits, end.Sub(1)); got >= bits {
			t.Fatalf("all credited before the end")
		}
		a := rapid.Int64Range(0, int64(end)).Draw(t, "a")
		b := rapid.Int64Range(a, int64(end)).Draw(t, "b")
		if p.Credited(bits, time.Duration(a)) > p.Credited(bits, time.Duration(b)) {
			t.Fatalf("credit fell")
		}
	})
}

func TestBucket(t *testing.T) {
	b := web99.Bucket()
	check := func(at clock.Instant, want int) {
		t.Helper()
		if got := b.Take(at); got != want {
			t.Errorf("at %v: %d bytes, want %d", at.Sub(0), got, want)
		}
	}
	check(0, quantum) // never started: full
	b.Start(100 * ms)
	check(100*ms, quantum)
	check(900*ms, quantum) // waiting for the first byte saves nothing up
	b.Spend(900*ms, quantum)
	check(900*ms, 0)
	check(900*ms+19_999, 0) // one byte takes 20 us
	check(900*ms+20_000, 1)
	check(910*ms, 500)
	if due := b.Due(910*ms, 1460); due != 900*ms+1460*20_000 {
		t.Errorf("a segment is due at %v", due.Sub(0))
	}
	if due := b.Due(910*ms, 1<<30); due != 900*ms+quantum*20_000 {
		t.Errorf("more than a quantum is due at %v", due.Sub(0))
	}
	if due := b.Due(950*ms, 100); due != 950*ms {
		t.Errorf("what is there is due at %v", due.Sub(0))
	}
	b.Spend(910*ms, 1000) // a debt of 500
	check(910*ms, 0)
	check(920*ms, 0)
	check(920*ms+20_000, 1)
	b.Start(920 * ms) // nothing carries over, debts included
	check(920*ms, quantum)

	for _, m := range []Mode{Deferred, None} {
		b := Pacer{Rate: 400_000, Quantum: quantum, Mode: m}.Bucket()
		b.Start(0)
		b.Spend(0, 1<<20)
		if b.Take(0) != Unlimited || b.Due(5, 1<<20) != 5 {
			t.Errorf("mode %v limits reading", m)
		}
	}
}

// A slot that obeys Take never reads more than L x t / 8 + one quantum in any
// window, however the bytes and its turns fall.
func TestNeverFaster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pacer{
			Rate:    rapid.Int64Range(1000, 1e9).Draw(t, "rate"),
			Quantum: rapid.Int32Range(1, 1<<20).Draw(t, "quantum"),
		}
		b := p.Bucket()
		now := clock.Instant(rapid.Int64Range(0, 1e15).Draw(t, "start"))
		b.Start(now)
		type read struct {
			at clock.Instant
			n  int
		}
		var reads []read
		for range rapid.IntRange(1, 60).Draw(t, "turns") {
			now += clock.Instant(rapid.Int64Range(0, 1e8).Draw(t, "pause"))
			allowed := b.Take(now)
			if allowed < 0 || allowed > int(p.Quantum) {
				t.Fatalf("allowed %d of %d", allowed, p.Quantum)
			}
			n := rapid.IntRange(0, allowed).Draw(t, "n")
			b.Spend(now, n)
			reads = append(reads, read{now, n})
		}
		for i := range reads {
			sum := 0
			for _, r := range reads[i:] {
				sum += r.n
				most := float64(p.Rate)*r.at.Sub(reads[i].at).Seconds()/8 + float64(p.Quantum)
				if float64(sum) > most*(1+1e-12)+1e-6 {
					t.Fatalf("%d bytes in %v, at most %.1f", sum, r.at.Sub(reads[i].at), most)
				}
			}
		}
	})
}

// Due is exactly the first instant at which Take allows that much, and Take
// only grows while nothing is spent.
func TestDueIsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pacer{
			Rate:    rapid.Int64Range(1, 1e10).Draw(t, "rate"),
			Quantum: rapid.Int32Range(1, 1<<20).Draw(t, "quantum"),
		}
		b := p.Bucket()
		b.Start(0)
		b.Spend(0, rapid.IntRange(0, 2*int(p.Quantum)).Draw(t, "spent"))
		want := rapid.IntRange(1, int(p.Quantum)).Draw(t, "want")
		due := b.Due(0, want)
		if got := b.Take(due); got < want {
			t.Fatalf("at due %d of %d", got, want)
		}
		if due > 0 && b.Take(due-1) >= want {
			t.Fatalf("due is late")
		}
		a := clock.Instant(rapid.Int64Range(0, int64(due)).Draw(t, "a"))
		if b.Take(a) > b.Take(a+1) {
			t.Fatalf("Take fell")
		}
	})
}

// With a server that is always ahead, n bytes are read after
// max(0, n - quantum) x 8 / L, to the nanosecond, and the op ends after n x 8 / L.
func TestReadTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 3_000_000).Draw(t, "n")
		b := web99.Bucket()
		start := clock.Instant(rapid.Int64Range(0, 1e12).Draw(t, "start"))
		now := start
		b.Start(now)
		for left := n; ; {
			k := min(left, int64(b.Take(now)))
			b.Spend(now, int(k))
			if left -= k; left == 0 {
				break
			}
			now = b.Due(now, int(left)) // a quantum or the rest
		}
		want := time.Duration(max(0, n-quantum)) * 20 * time.Microsecond
		if got := now.Sub(start); got != want {
			t.Fatalf("%d bytes took %v, want %v", n, got, want)
		}
		if end := web99.EndOf(start, 8*n); end.Sub(start) != time.Duration(n)*20*time.Microsecond || end < now {
			t.Fatalf("%d bytes end at %v", n, end.Sub(start))
		}
	})
}

// Rounding never adds up in the reader's favour, nor (beyond a nanosecond a
// read) against it.
func TestLongRun(t *testing.T) {
	p := Pacer{Rate: 333_333, Quantum: 1000}
	b := p.Bucket()
	b.Start(0)
	now, total := clock.Instant(0), int64(0)
	const reads = 100_000
	for range reads {
		now = b.Due(now, 7)
		b.Spend(now, 7)
		total += 7
	}
	exact := (total - 1000) * 8e9 / p.Rate
	if d := int64(now) - exact; d < 0 || d > reads {
		t.Errorf("%d bytes are %d ns off after %v", total, d, now.Sub(0))
	}
}

func TestMode(t *testing.T) {
	for m := Rated; m <= None; m++ {
		if got, ok := ParseMode(m.String()); !ok || got != m {
			t.Errorf("%v parsed as %v, %v", m, got, ok)
		}
	}
	if _, ok := ParseMode("Rated"); ok {
		t.Error("modes are lower case")
	}
	if Mode(9).String() != "unknown" {
		t.Error("unknown mode has a name")
	}
}

func TestNoAllocation(t *testing.T) {
	b := web99.Bucket()
	if n := testing.AllocsPerRun(100, func() {
		b.Start(5)
		b.Spend(6, b.Take(6))
		_ = web99.EndOf(b.Due(6, 1), Credited(5, 6, 7))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkTurn(b *testing.B) {
	k := web99.Bucket()
	now := clock.Instant(0)
	for b.Loop() {
		n := k.Take(now)
		k.Spend(now, n)
		now = k.Due(now, quantum)
	}
}
