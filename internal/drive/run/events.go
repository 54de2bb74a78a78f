package run

import (
	"time"

	"tidemark.dev/disclosure"
)

// Phases of a run, in order. A run with a given load has no burst and no search.
const (
	PhaseFiles    = "file set"
	PhaseStart    = "start"
	PhaseValidate = "validation"
	PhaseWarm     = "warm-up"
	PhaseBurst    = "burst"
	PhaseSearch   = "search"
	PhaseProof    = "proof"
	PhaseStop     = "stop"
)

// Events are how a run speaks while it is under way. Any field may be nil. The functions are called from the run's
// goroutines, one at a time, and must not block: the run waits for them.
type Events struct {
	// Phase begins a phase; text says what it will do.
	Phase func(phase, text string)
	// Progress of a phase that knows its size, 0 to 1.
	Progress func(phase string, done float64, text string)
	// Second is one second of load, summed over agents.
	Second func(Second)
	// StepBegan and StepEnded frame a trial or a proof.
	StepBegan func(Began)
	StepEnded func(disclosure.Step)
	// Note is a remark worth a line.
	Note func(text string)
}

// Began announces a step.
type Began struct {
	Kind   string
	Number int
	Load   int
	Why    string
	// Length is the whole length of the step as planned.
	Length time.Duration
}

// Second is a snapshot over all agents, about once a second.
type Second struct {
	Load, Running, Connected int
	OpsPerSec, FailedPerSec  float64
	KbitPerSlot              float64
	LatePercent              float64
}

func (e *Events) phase(phase, text string) {
	if e.Phase != nil {
		e.Phase(phase, text)
	}
}

func (e *Events) progress(phase string, done float64, text string) {
	if e.Progress != nil {
		e.Progress(phase, done, text)
	}
}

func (e *Events) note(text string) {
	if e.Note != nil {
		e.Note(text)
	}
}
