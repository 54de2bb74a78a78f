package search

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Search is the state machine. Use New. Next and Add belong to one goroutine.
type Search struct {
	opt  Options
	step Step
	flag []string
	end  *Result

	// Evidence of trials by load, and of whole iterations where they failed.
	votes      map[int]*votes
	unmeasured map[int]string // loads the instrument could not measure, and why
	failed     map[int]string // loads at which a proof or fail-proof failed
	trials     int
	budget     int // of trials

	// stride is the distance of the next unbounded step up or down. It starts as the whole load (doubling, halving)
	// and is the width once there has been a bracket.
	stride    int
	bracketed bool
	busy      map[int]float64 // share of processors used by a load that passed

	proofs   []int // conforming counts of the proofs passed at proofLoad
	proofAt  int
	proven   int // best load with all proofs
	spread   int // of the proofs at proven
	retreats int // proofs failed since the last success
	resumes  int
	extended bool // more trials than planned, for want of one that passes
}

// resumeTrials is the least number of trials a resumed search has, however many were used before.
const resumeTrials = 3

type votes struct{ pass, fail int }

// New starts a search.
func New(o Options) *Search {
	s := &Search{opt: o.withDefaults(), votes: map[int]*votes{}, unmeasured: map[int]string{}, failed: map[int]string{}, busy: map[int]float64{}}
	if s.opt.Fixed > 0 {
		s.prove(s.opt.Fixed)
		return s
	}
	s.budget = s.opt.MaxTrials
	s.trial(s.opt.FirstGuess, "first guess")
	return s
}

// Next returns the step to do now. Without an Add in between it returns the same step.
func (s *Search) Next() Step { return s.step }

// Result returns the answer; before the end, what could be said if the search ended here.
func (s *Search) Result() Result {
	if s.end != nil {
		return *s.end
	}
	return Result{Load: s.proven, Answer: Unfinished, Why: "the search has not come to an end", Flags: slices.Clone(s.flag)}
}

// Add reports the outcome of the step Next returned. An outcome for another load is a flag and is ignored, and so is
// one after the end.
func (s *Search) Add(o Outcome) {
	if s.step.Kind == Done {
		return
	}
	if o.Load != s.step.Load {
		s.raise("outcome for %d while %d was asked for", o.Load, s.step.Load)
		return
	}
	if o.Hopeless && o.Verdict == Fail && s.opt.Fixed == 0 {
		s.finish(Result{Answer: Doomed, Why: why("no load can pass", o.Why)})
		return
	}
	switch s.step.Kind {
	case Trial:
		s.tried(o)
	case Proof:
		s.proofDone(o)
	case FailProof:
		s.failProofDone(o)
	}
}

func (s *Search) raise(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	if !slices.Contains(s.flag, text) {
		s.flag = append(s.flag, text)
	}
}

func (s *Search) finish(r Result) {
	r.Flags = slices.Clone(s.flag)
	s.end = &r
	s.step = Step{Kind: Done, Load: r.Load, Why: r.Why}
}

// repeat asks for the same step again if it may still be repeated.
func (s *Search) repeat(most int) bool {
	if s.step.Attempt > most {
		return false
	}
	s.step.Attempt++
	return true
}

// fullyBusy is the share of its processors beyond which nobody answers in time (measured: lateness passes the allowed
// 1 % between 0.80 and 0.92 of a core); roomyBusy one at which they do, three times in a row.
const (
	fullyBusy = 0.9
	roomyBusy = 0.8
)

// width is the distance of loads that count as one, at least 1.
func (s *Search) width(load int) int {
	return max(1, int(math.Ceil(s.opt.Width*float64(load)-1e-9)))
}

// Trials.

func (s *Search) trial(load int, why string) {
	s.step = Step{Kind: Trial, Load: min(max(load, s.opt.Min), s.opt.Max), Attempt: 1, Why: why}
}

func (s *Search) tried(o Outcome) {
	switch o.Verdict {
	case Pass, Fail:
		s.vote(o.Load, o.Verdict == Pass)
		if o.Verdict == Pass {
			s.busy[o.Load] = o.Busy
		}
	case Invalid:
		if s.repeat(min(s.opt.Repeats, 1)) {
			return
		}
		s.unmeasured[o.Load] = o.Why
		s.raise("trials at %d stay invalid", o.Load)
	case DriverLimit:
		s.unmeasured[o.Load] = o.Why
	}
	s.trials++
	s.seek(o.Why)
}

// vote records a trial, and a flag when a pass stands above a fail.
func (s *Search) vote(load int, pass bool) {
	v := s.votes[load]
	if v == nil {
		v = &votes{}
		s.votes[load] = v
	}
	if pass {
		v.pass++
	} else {
		v.fail++
	}
	for other, w := range s.votes {
		low, high := load, other
		if low > high {
			low, high = high, low
		}
		if other != load && w.pass+w.fail > 0 && s.votes[low].fail > s.votes[low].pass && s.votes[high].pass > s.votes[high].fail {
			s.raise("%d passes although %d fails", high, low)
		}
	}
}

// bracket returns the largest load that passes and the smallest above it that does not (0 for none), and whether the
// latter could not be measured rather than failed.
func (s *Search) bracket() (lo, hi int, unmeasured bool) {
	for load, v := range s.votes {
		if v.pass > v.fail {
			lo = max(lo, load)
		}
	}
	bound := func(load int, blind bool) {
		if load > lo && (hi == 0 || load < hi) {
			hi, unmeasured = load, blind
		}
	}
	for _, load := range slices.Sorted(maps.Keys(s.votes)) {
		if v := s.votes[load]; v.fail > v.pass {
			bound(load, false)
		}
	}
	for load := range s.failed {
		bound(load, false)
	}
	for load := range s.unmeasured {
		bound(load, true)
	}
	return lo, hi, unmeasured
}

// seek chooses the next trial, or goes over to the proofs. lastWhy explains the latest verdict.
func (s *Search) seek(lastWhy string) {
	lo, hi, blind := s.bracket()
	if s.trials >= s.budget {
		if lo == 0 && hi > s.opt.Min && !s.extended { // nothing has passed yet: a few more, further down
			s.extended, s.budget = true, s.budget+resumeTrials
			s.trial(hi-s.down(hi), "go down")
			return
		}
		if lo == 0 {
			s.finish(Result{Answer: Doomed, Invalid: blind, Why: why(fmt.Sprintf("none of %d trials passed, the lowest at %d", s.trials, hi), lastWhy)})
			return
		}
		if hi == 0 || hi-lo > s.width(lo) {
			s.raise("trials were used up before the width was reached")
		}
		s.proveBelow(lo, hi, blind)
		return
	}
	if load := s.tied(); load > 0 {
		s.trial(load, "two of three")
		return
	}
	switch {
	case hi == 0 && lo == s.opt.Max:
		s.prove(lo)
	case hi == 0:
		s.trial(lo+s.up(lo), "go up")
	case lo == 0 && hi == s.opt.Min:
		if v := s.votes[hi]; !blind && v != nil && v.fail < 2 && s.measurable(hi) {
			s.trial(hi, "two of three")
			return
		}
		s.finish(Result{Answer: Doomed, Invalid: blind, Why: why(fmt.Sprintf("no load passes, not even %d", hi), lastWhy)})
	case lo == 0:
		s.trial(hi-s.down(hi), "go down")
	case hi-lo > s.width(lo):
		s.bracketed = true
		s.trial(lo+(hi-lo)/2, fmt.Sprintf("between %d and %d", lo, hi))
	case blind && s.busy[lo] > roomyBusy:
		s.proveBelow(lo, hi, blind)
	case s.votes[lo].pass < 2 && s.measurable(lo):
		s.bracketed = true
		s.trial(lo, "two of three")
	case !blind && s.votes[hi] != nil && s.votes[hi].fail < 2 && s.failed[hi] == "" && s.measurable(hi):
		s.trial(hi, "two of three")
	default:
		s.proveBelow(lo, hi, blind)
	}
}

// proveBelow goes over to the proofs at lo, or lower where hi is a load that the instrument could not measure: one that
// it could measure once, just below, would cost many repetitions, and there the answer is a lower bound anyway. It
// ends the search if as much has been proved already.
func (s *Search) proveBelow(lo, hi int, blind bool) {
	load := lo
	if busy := s.busy[lo]; blind && busy > roomyBusy {
		load = max(int(float64(lo)*roomyBusy/busy), s.opt.Min)
	}
	if blind && load <= s.proven {
		s.blind(hi, s.unmeasured[hi])
		return
	}
	s.prove(load)
}

func (s *Search) measurable(load int) bool {
	_, no := s.unmeasured[load]
	return !no
}

// tied returns a load whose trials contradict each other and are even.
func (s *Search) tied() int {
	for _, load := range slices.Sorted(maps.Keys(s.votes)) {
		if v := s.votes[load]; v.pass == v.fail && s.measurable(load) {
			return load
		}
	}
	return 0
}

// up and down return the next stride: the load itself at first, a growing width after a bracket broke.
func (s *Search) up(lo int) int {
	if s.bracketed {
		s.stride = max(2*s.stride, s.width(lo))
		return s.stride
	}
	if busy := s.busy[lo]; busy > 0 {
		return min(max(int(float64(lo)*(fullyBusy/busy-1)), s.width(lo)), lo)
	}
	return lo
}

func (s *Search) down(hi int) int {
	if !s.bracketed {
		return max(1, hi-hi/2)
	}
	s.stride = max(2*s.stride, s.width(hi))
	return s.stride
}

// Proofs.

func (s *Search) prove(load int) {
	s.proofAt, s.proofs = load, nil
	s.stride = 0
	s.nextProof()
}

func (s *Search) nextProof() {
	s.step = Step{Kind: Proof, Load: s.proofAt, Attempt: 1, Why: fmt.Sprintf("proof %d of %d", len(s.proofs)+1, s.opt.Proofs)}
}

func (s *Search) proofDone(o Outcome) {
	switch {
	case o.Verdict == Invalid:
		if !s.repeat(s.opt.Repeats) {
			s.finish(Result{Answer: Doomed, Load: 0, Invalid: true,
				Why: why(fmt.Sprintf("at %d a proof was invalid, %d of %d attempts", o.Load, s.step.Attempt, s.step.Attempt), o.Why)})
		}
		return
	case s.opt.Fixed > 0 && o.Verdict == DriverLimit:
		s.finish(Result{Answer: Doomed, Invalid: true, Why: why(fmt.Sprintf("the driver cannot make %d", o.Load), o.Why)})
		return
	case s.opt.Fixed > 0: // every row of the table is wanted, passing or not
	case o.Verdict == DriverLimit:
		s.unmeasured[o.Load] = o.Why
		s.retreat(o)
		return
	case o.Verdict == Fail:
		s.failed[o.Load] = or(o.Why, "failed")
		s.retreat(o)
		return
	}
	if s.proofs = append(s.proofs, o.Conforming); len(s.proofs) < s.opt.Proofs {
		s.nextProof()
		return
	}
	if s.opt.Fixed > 0 {
		s.finish(Result{Load: s.opt.Fixed, Answer: Fixed, Why: "the load was given"})
		return
	}
	s.proven, s.retreats = s.proofAt, 0
	s.spread = slices.Max(s.proofs) - slices.Min(s.proofs)
	s.challenge()
}

// retreat goes down from a load that did not hold for a whole iteration: by the width at first, then by twice as much
// each time.
func (s *Search) retreat(o Outcome) {
	for load, v := range s.votes {
		if load >= o.Load && v.pass > 0 {
			delete(s.votes, load)
		}
	}
	stride := s.width(o.Load) << min(s.retreats, 30)
	s.retreats++
	load := max(o.Load-stride, s.opt.Min)
	switch {
	case s.proven > 0 && load <= s.proven && s.failedAbove():
		s.raise("the boundary is noisy: above %d loads both passed and failed", s.proven)
		s.settle(fmt.Sprintf("%d passes all proofs, %d does not", s.proven, o.Load))
	case s.proven > 0 && load <= s.proven:
		s.blind(o.Load, o.Why)
	case o.Load <= s.opt.Min:
		s.finish(Result{Answer: Doomed, Invalid: o.Verdict == DriverLimit,
			Why: why(fmt.Sprintf("no load passes, not even %d", o.Load), o.Why)})
	default:
		s.prove(load)
	}
}

// challenge asks for the iteration above the proven load that must fail.
func (s *Search) challenge() {
	load := min(s.proven+max(s.width(s.proven), 2*s.spread), s.opt.Max)
	for at := range s.failed {
		if at > s.proven && at <= load {
			s.settle(fmt.Sprintf("%d passes all proofs, a whole iteration at %d failed", s.proven, at))
			return
		}
	}
	if s.proven >= s.opt.Max {
		answer, text := AtLeast, "it is the largest load allowed"
		if s.opt.MaxIsDriver {
			answer, text = AtLeastDriver, "it is the largest load the driver can make"
		}
		s.finish(Result{Load: s.proven, Answer: answer, Why: fmt.Sprintf("%d passes all proofs; %s", s.proven, text)})
		return
	}
	if at, text := s.blindAbove(); at > 0 && (at <= load || s.resumes >= s.opt.Resumes && !s.failing(at)) {
		s.blind(at, text)
		return
	}
	s.step = Step{Kind: FailProof, Load: load, Attempt: 1, Why: "must fail"}
}

// blindAbove returns the smallest load above the proven one that could not be measured.
func (s *Search) blindAbove() (at int, text string) {
	for _, load := range slices.Sorted(maps.Keys(s.unmeasured)) {
		if load > s.proven {
			return load, s.unmeasured[load]
		}
	}
	return 0, ""
}

// failing reports whether trials or whole iterations failed between the proven load and another.
func (s *Search) failing(below int) bool {
	for load := range s.failed {
		if load > s.proven && load < below {
			return true
		}
	}
	for load, v := range s.votes {
		if load > s.proven && load < below && v.fail > 0 {
			return true
		}
	}
	return false
}

// failedAbove reports whether a whole iteration above the proven load failed.
func (s *Search) failedAbove() bool {
	for load := range s.failed {
		if load > s.proven {
			return true
		}
	}
	return false
}

// blind ends the search at the proven load because the load above it could not be measured.
func (s *Search) blind(load int, text string) {
	s.finish(Result{Load: s.proven, Answer: AtLeastDriver,
		Why: why(fmt.Sprintf("%d passes all proofs; %d could not be measured", s.proven, load), text)})
}

func (s *Search) settle(text string) {
	s.finish(Result{Load: s.proven, Answer: Exact, Why: text})
}

func (s *Search) failProofDone(o Outcome) {
	switch o.Verdict {
	case Fail:
		s.failed[o.Load] = or(o.Why, "failed")
		s.settle(fmt.Sprintf("%d passes all proofs, %d fails", s.proven, o.Load))
	case Invalid, DriverLimit:
		if o.Verdict == Invalid && s.repeat(s.opt.Repeats) {
			return
		}
		s.blind(o.Load, o.Why)
	case Pass:
		s.resume(o)
	}
}

// resume goes on from a load that should have failed and passed.
func (s *Search) resume(o Outcome) {
	s.resumes++
	if s.resumes > s.opt.Resumes {
		s.finish(Result{Load: s.proven, Answer: AtLeast,
			Why: fmt.Sprintf("%d passes all proofs, and %d above it passed too", s.proven, o.Load)})
		return
	}
	for _, load := range slices.Sorted(maps.Keys(s.votes)) {
		if v := s.votes[load]; load <= o.Load && v.fail > v.pass {
			if load == o.Load {
				s.raise("%d passes although trials at it fail", load)
			} else {
				s.raise("%d passes although %d fails", o.Load, load)
			}
			delete(s.votes, load)
		}
	}
	s.votes[o.Load] = &votes{pass: 2} // a whole iteration outweighs two trials
	s.stride = (o.Load - s.proven) / 2
	s.budget = max(s.budget, s.trials+resumeTrials)
	s.seek("")
}

func why(text, more string) string {
	if more == "" {
		return text
	}
	return text + ": " + more
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
