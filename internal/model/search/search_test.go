package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// server answers like a target of some capacity whose figures scatter: the chance to pass falls from one to zero
// over a relative width of noise around the capacity; whole iterations scatter less than trials.
type server struct {
	rng      *rand.Rand
	capacity float64
	noise    float64
	blindAt  int // from here on the instrument cannot measure
}

func (s *server) answer(step Step) Outcome {
	noise := s.noise
	if step.Kind != Trial {
		noise /= 3
	}
	o := Outcome{Load: step.Load, Conforming: step.Load}
	switch {
	case s.blindAt > 0 && step.Load >= s.blindAt:
		o.Verdict, o.Why = Invalid, "driver late"
	case float64(step.Load) > s.capacity*(1+noise*s.rng.NormFloat64()):
		o.Verdict, o.Why = Fail, "too few conform"
	default:
		o.Conforming -= int(float64(step.Load) * 0.005 * s.rng.Float64())
	}
	return o
}

// run plays a search to its end and checks every step on the way.
func run(tb interface{ Fatalf(string, ...any) }, opt Options, answer func(Step) Outcome) (Result, int) {
	s := New(opt)
	d := opt.withDefaults()
	most := 2*(d.MaxTrials+d.Resumes*resumeTrials) + 40*(d.Repeats+1)*(d.Proofs+1)*(d.Resumes+1)
	for n := 0; ; n++ {
		step := s.Next()
		if step.Kind == Done {
			return s.Result(), n
		}
		if n > most {
			tb.Fatalf("no end after %d steps, now %+v", n, step)
		}
		if again := s.Next(); again != step {
			tb.Fatalf("next twice: %+v, %+v", step, again)
		}
		if d.Fixed == 0 && (step.Load < d.Min || step.Load > d.Max) {
			tb.Fatalf("step %+v leaves %d..%d", step, d.Min, d.Max)
		}
		if step.Attempt < 1 || step.Attempt > d.Repeats+1 {
			tb.Fatalf("step %+v, %d repeats allowed", step, d.Repeats)
		}
		s.Add(answer(step))
	}
}

// Whatever the verdicts, the search ends, stays within its bounds, and answers from what it saw: a load with all
// proofs, and for an exact answer a whole iteration that failed above it.
func TestAnyVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.IntRange(1, 200).Draw(t, "min")
		opt := Options{
			Min: lo, Max: lo + rapid.IntRange(0, 5000).Draw(t, "span"),
			FirstGuess: rapid.IntRange(-5, 6000).Draw(t, "first"),
			Width:      rapid.SampledFrom([]float64{0, 0.02, 0.05, 0.5}).Draw(t, "width"),
			MaxTrials:  rapid.SampledFrom([]int{0, -1, 3, 6, 12}).Draw(t, "trials"),
			Resumes:    rapid.SampledFrom([]int{0, -1, 1}).Draw(t, "resumes"),
			Repeats:    rapid.SampledFrom([]int{0, -1, 1}).Draw(t, "repeats"),
		}
		bias := rapid.IntRange(0, 3).Draw(t, "bias")
		passed := map[int]int{}
		failed := map[int]bool{}
		r, _ := run(t, opt, func(step Step) Outcome {
			v := Verdict(rapid.IntRange(0, 3).Draw(t, "verdict"))
			if rapid.IntRange(0, 3).Draw(t, "biased") < bias {
				v = Pass
			}
			if step.Kind == Proof && v == Pass {
				passed[step.Load]++
			}
			if step.Kind != Trial && v == Fail {
				failed[step.Load] = true
			}
			return Outcome{Load: step.Load, Verdict: v, Conforming: step.Load - rapid.IntRange(0, 3).Draw(t, "lost")}
		})
		switch r.Answer {
		case Exact, AtLeast, AtLeastDriver:
			if passed[r.Load] < 3 || r.Invalid {
				t.Fatalf("%+v with %d proofs passed", r, passed[r.Load])
			}
		case Doomed:
			if r.Load != 0 {
				t.Fatalf("%+v", r)
			}
		default:
			t.Fatalf("%+v", r)
		}
		if r.Answer == Exact {
			above := false
			for load := range failed {
				above = above || load > r.Load
			}
			if !above {
				t.Fatalf("%+v, whole iterations failed only at %v", r, failed)
			}
		}
		if r.Why == "" {
			t.Fatalf("no reason: %+v", r)
		}
	})
}

// The same verdicts give the same steps.
func TestPure(t *testing.T) {
	trace := func() (steps []Step) {
		srv := &server{rng: rand.New(rand.NewPCG(5, 5)), capacity: 777, noise: 0.03}
		run(t, Options{Max: 5000, FirstGuess: 100}, func(s Step) Outcome {
			steps = append(steps, s)
			return srv.answer(s)
		})
		return steps
	}
	if diff := cmp.Diff(trace(), trace()); diff != "" {
		t.Error(diff)
	}
}

// Against a server whose figures scatter, the load found lies within width and scatter of the capacity nearly always.
func TestFindsCapacity(t *testing.T) {
	tests := []struct {
		name         string
		opt          Options
		noise        float64
		below, above float64 // allowed relative distance
		least        int     // per mille that must lie within
		steps        float64 // most steps in the mean
	}{
		{"steady server", Options{Width: 0.02}, 0, 0.02, 0, 1000, 15},
		{"quiet server", Options{Width: 0.02}, 0.005, 0.03, 0.005, 990, 16},
		{"noisy server", Options{Width: 0.02}, 0.03, 0.06, 0.02, 950, 21},
		{"quick on a noisy server", Options{Width: 0.05, MaxTrials: 6}, 0.03, 0.12, 0.02, 900, 13},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(99, 1999))
			const runs = 1000
			within, steps := 0, 0
			answers := map[Answer]int{}
			for range runs {
				capacity := math.Exp(rng.Float64()*5 + 4) // 55 to 8,100
				opt := tt.opt
				opt.Min, opt.Max = 10, 20_000
				opt.FirstGuess = int(capacity * (0.4 + 1.6*rng.Float64()))
				srv := &server{rng: rng, capacity: capacity, noise: tt.noise}
				r, n := run(t, opt, srv.answer)
				steps += n
				answers[r.Answer]++
				off := float64(r.Load)/capacity - 1
				if off >= -tt.below-2/capacity && off <= tt.above {
					within++
				}
			}
			t.Logf("%d of %d within, %.1f steps in the mean, %v", within, runs, float64(steps)/runs, answers)
			if within < tt.least*runs/1000 {
				t.Errorf("%d of %d lie within, want %d per mille", within, runs, tt.least)
			}
			if mean := float64(steps) / runs; mean > tt.steps {
				t.Errorf("%.1f steps in the mean, want at most %.1f", mean, tt.steps)
			}
		})
	}
}

// Where the instrument goes blind below the capacity, the answer is what it could see, and says so.
func TestBlindAboveSomeLoad(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for i := range 200 {
		blind := 100 + rng.IntN(900)
		srv := &server{rng: rng, capacity: 5000, blindAt: blind}
		r, _ := run(t, Options{Max: 20_000, FirstGuess: 50 + rng.IntN(2000)}, srv.answer)
		if r.Answer != AtLeastDriver || r.Load >= blind || float64(r.Load) < 0.96*float64(blind)-1 {
			t.Fatalf("case %d, blind from %d: %+v", i, blind, r)
		}
	}
}

func TestStrayOutcomes(t *testing.T) {
	s := New(Options{Max: 100, FirstGuess: 10})
	s.Add(Outcome{Load: 11, Verdict: Pass})
	if step := s.Next(); step.Load != 10 || step.Kind != Trial {
		t.Errorf("an outcome of another load moved the search to %+v", step)
	}
	if r := s.Result(); r.Answer != Unfinished || len(r.Flags) != 1 {
		t.Errorf("%+v", r)
	}
	s.Add(Outcome{Load: 10, Verdict: Fail, Hopeless: true})
	want := s.Result()
	s.Add(Outcome{Load: 0, Verdict: Pass})
	if diff := cmp.Diff(want, s.Result()); diff != "" || s.Next().Kind != Done {
		t.Error("an outcome after the end changed the answer", diff)
	}
}

func Example() {
	s := New(Options{FirstGuess: 100, Max: 1000, Width: 0.1})
	for s.Next().Kind != Done {
		step := s.Next()
		o := Outcome{Load: step.Load, Conforming: step.Load}
		if step.Load > 160 {
			o.Verdict = Fail
		}
		s.Add(o)
	}
	fmt.Println(s.Result().Answer, s.Result().Load, "-", s.Result().Why)
	// Output: exact 150 - 150 passes all proofs, 165 fails
}
