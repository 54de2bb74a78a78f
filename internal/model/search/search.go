// Package search finds the largest load a target carries: history of verdicts in, next load out.
//
// Call New, then Next and Add in turn until Next answers Done; Result is the answer. The machine is pure: it
// takes no time, keeps no clock and draws no random number, so the same verdicts always give the same steps.
//
// It runs nothing, judges nothing and knows no reason why an outcome was what it was.
//
// # The way
//
// Short trials close in on the load: double from the first guess until one fails (or halve until one passes; less than
// double where the processors were so busy that it cannot pass), bisect
// to a relative width, then ask again at both edges of the bracket until two of three trials agree. At the load found
// all proofs must pass; a proof that fails sends the search down by a growing step. Then one iteration above must
// fail; if it passes, the search goes on from there, a limited number of times.
//
// What the instrument cannot measure counts neither as pass nor as fail: a trial that stays invalid, or a driver that
// cannot make the load, bounds the search from above, and the answer then is "at least".
package search

// Kind says what a step is for.
type Kind uint8

const (
	// Trial is a short iteration that helps to find the load.
	Trial Kind = iota
	// Proof is one of the iterations the score is taken from.
	Proof
	// FailProof is an iteration above the found load that must not pass.
	FailProof
	// Done ends the search.
	Done
)

func (k Kind) String() string { return [...]string{"trial", "proof", "fail-proof", "done"}[k&3] }

// Step is the next thing to do.
type Step struct {
	Kind Kind
	Load int
	// Attempt is 1, or more for the repetition of an invalid step.
	Attempt int
	// Why says in a few words what the step is for.
	Why string
}

// Verdict is what came of a step.
type Verdict uint8

const (
	// Pass: valid, and the target held the load.
	Pass Verdict = iota
	// Fail: valid, and it did not.
	Fail
	// Invalid: the instrument was not able to measure.
	Invalid
	// DriverLimit: the driver cannot make this load (out of ports, descriptors, processor).
	DriverLimit
)

func (v Verdict) String() string { return [...]string{"pass", "fail", "invalid", "driver limit"}[v&3] }

// Outcome reports a step done.
type Outcome struct {
	Load    int
	Verdict Verdict
	// Conforming is the number of conforming slots; the spread of the proofs is taken from it.
	Conforming int
	// Busy is the share of their processors that the target or the drivers used, whichever is larger; 0 if unknown.
	// A trial that passed then tells how far up the next may be.
	Busy float64
	// Why explains a verdict that is not Pass; the machine only repeats it.
	Why string
	// Hopeless says that no other load can pass either (the target answers wrongly): the search ends here.
	Hopeless bool
}

// Options of a search. The zero value of a field means its default.
type Options struct {
	// Fixed makes no search: Proofs iterations at this load, and no fail-proof.
	Fixed int
	// FirstGuess is the load tried first, brought into Min..Max. Default Min.
	FirstGuess int
	// Min is the smallest load worth reporting (default 1), Max the largest that may be asked for (default and least
	// Min; what files or drivers were prepared for).
	Min, Max int
	// MaxIsDriver says that Max is the drivers' limit and not the user's.
	MaxIsDriver bool
	// Width is the relative width at which bisection stops. Default 0.02.
	Width float64
	// MaxTrials bounds trials, repeated ones not counted (default 40). Proofs is the number of proof iterations
	// (default 3). Resumes is how often a passing fail-proof sends the search upward again (default 2). Repeats is how
	// often an invalid proof or fail-proof is repeated (default 2); an invalid trial is repeated at most once.
	// Negative means none.
	MaxTrials, Proofs, Resumes, Repeats int
}

func (o Options) withDefaults() Options {
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
		*v = max(*v, 0)
	}
	set(&o.MaxTrials, 40)
	set(&o.Proofs, 3)
	set(&o.Resumes, 2)
	set(&o.Repeats, 2)
	o.MaxTrials, o.Proofs = max(o.MaxTrials, 1), max(o.Proofs, 1)
	o.Min = max(o.Min, 1)
	o.Max = max(o.Max, o.Min)
	o.FirstGuess = min(max(o.FirstGuess, o.Min), o.Max)
	if o.Width <= 0 {
		o.Width = 0.02
	}
	return o
}

// Answer says what kind of answer the search gave.
type Answer uint8

const (
	// Exact: the load passes all proofs and an iteration above it fails.
	Exact Answer = iota
	// AtLeast: the load passes all proofs, and no load above it was shown to fail.
	AtLeast
	// AtLeastDriver: as AtLeast, because the driver can make or measure no more.
	AtLeastDriver
	// Doomed: no load passes, or none could be measured; Why says which.
	Doomed
	// Fixed: the load was given, not sought.
	Fixed
	// Unfinished: the search has not come to an end.
	Unfinished
)

func (a Answer) String() string {
	return [...]string{"exact", "at least", "at least (driver)", "doomed", "fixed", "unfinished", "", ""}[a&7]
}

// Result is the answer.
type Result struct {
	// Load is the load found. Before the end it is the best load with all proofs, 0 if there is none.
	Load   int
	Answer Answer
	// Why is a sentence; Flags name oddities met on the way, in order.
	Why   string
	Flags []string
	// Invalid says that the search ended because a step stayed invalid: there is no score.
	Invalid bool
}
