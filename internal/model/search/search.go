// Package search finds the largest load a target carries: history of verdicts in, next load out.
//
// Call New, then Next and Add in turn until Next answers Done; Result is the answer. The machine is pure: it
// takes no time, keeps no clock and draws no random number, so the same verdicts always give the same steps.
//
// It runs nothing, judges nothing and knows no reason why an outcome was what it was.
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
	Pass Verdict = iota
	Fail
	Invalid
	// DriverLimit means that the driver cannot make this load (out of ports, descriptors, processor).
	DriverLimit
)

func (v Verdict) String() string { return [...]string{"pass", "fail", "invalid", "driver limit"}[v&3] }

// Outcome reports a step done.
type Outcome struct {
	Load    int
	Verdict Verdict
	// Conforming is the number of conforming slots; the spread of the proofs is taken from it.
	Conforming int
	// Why explains a verdict that is not Pass; the machine only repeats it.
	Why string
}

// Options of a search. The zero value of a field means its default.
type Options struct {
	// Fixed makes no search: Proofs iterations at this load, and no fail-proof.
	Fixed int
	// FirstGuess is the load tried first, brought into Min..Max. Default Min.
	FirstGuess int
	// Min is the smallest load worth reporting (default 1), Max the largest that may be asked for (required;
	// what files or drivers were prepared for).
	Min, Max int
	// MaxIsDriver says that Max is the drivers' limit and not the user's.
	MaxIsDriver bool
	// Width is the relative width at which bisection stops. Default 0.02.
	Width float64
	// MaxTrials bounds trials (default 40). Proofs is the number of proof iterations (default 3). Resumes is how
	// often a passing fail-proof sends the search upward again (default 2). Repeats is how often an invalid step
	// is repeated (default 2). Negative means none.
	MaxTrials, Proofs, Resumes, Repeats int
}

// Answer says what kind of answer the search gave.
type Answer uint8

const (
	// Exact: the load passes all proofs and the load above it fails.
	Exact Answer = iota
	// AtLeast: the load passes all proofs, and no load above it was seen to fail.
	AtLeast
	// AtLeastDriver: as AtLeast, because the driver can make no more.
	AtLeastDriver
	// Doomed: no load passes, or none could be measured; Why says which.
	Doomed
	// Fixed: the load was given, not sought.
	Fixed
)

func (a Answer) String() string {
	return [...]string{"exact", "at least", "at least (driver)", "doomed", "fixed", "", "", ""}[a&7]
}

// Result is the answer.
type Result struct {
	Load   int
	Answer Answer
	// Why is a sentence; Flags name oddities met on the way.
	Why   string
	Flags []string
	// Invalid says that the search ended because a step stayed invalid.
	Invalid bool
}

// Search is the state machine. Use New.
type Search struct{}

// New starts a search.
func New(o Options) *Search { return &Search{} }

// Next returns the step to do now. Without an Add in between it returns the same step.
func (s *Search) Next() Step { return Step{Kind: Done} }

// Add reports the outcome of the step Next returned.
func (s *Search) Add(o Outcome) {}

// Result returns the answer; before Done it is what could be said if the search ended here.
func (s *Search) Result() Result { return Result{} }
