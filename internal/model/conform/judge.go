package conform

import (
	"time"

	"tidemark.dev/internal/ground/fault"
)

// Effect says what a reason takes away.
type Effect uint8

const (
	// Note takes nothing away.
	Note Effect = iota
	// Incomparable takes away Comparable.
	Incomparable
	// NotPassing takes away Passing: the target did not hold the load.
	NotPassing
	// BrokeRules takes away Passing: the target answered wrongly.
	BrokeRules
	// Invalid takes away Valid: the instrument was not able to measure.
	Invalid
)

func (e Effect) String() string {
	switch e {
	case Incomparable:
		return "incomparable"
	case NotPassing:
		return "not_passing"
	case BrokeRules:
		return "broke_rules"
	case Invalid:
		return "invalid"
	}
	return "note"
}

// Reason explains one part of a verdict. Text is a whole sentence with its figures; Code never changes.
type Reason struct {
	Code   string
	Text   string
	Origin fault.Origin
	Effect Effect
	// Value is what was seen and Limit what is allowed, in Unit; zero when the reason has no figure.
	Value, Limit float64
	Unit         string
}

// Judgement is the verdict about one iteration.
type Judgement struct {
	Requested int
	Window    time.Duration

	// Conforming is the number of conforming slots, Percent 100 x conforming / requested.
	Conforming int
	Percent    float64
	// OpsPerSec is successful operations completed per second, ResponseMS their mean time in milliseconds,
	// OpsPerSlot operations per second and requested slot, KbitPerSlot credited kbit/s per requested slot.
	OpsPerSec, ResponseMS, OpsPerSlot, KbitPerSlot float64
	// FirstByteMS is the mean time to first byte in milliseconds.
	FirstByteMS float64
	// IdentityError is sum of op time / (requested x window) - 1.
	IdentityError float64
	// LateShare is lateness as a share of op time; LateSlots the number of slot verdicts it changes.
	LateShare float64
	LateSlots int
	// Ops and Failed are sums over slots, ErrorPercent 100 x failed / (ops + failed).
	Ops, Failed  uint64
	ErrorPercent float64
	// Slow and Erring count non-conforming slots by cause; a slot may be both.
	Slow, Erring int

	// Passing needs Valid. Broke says that the target answered wrongly.
	Passing, Valid, Comparable, Broke bool
	Reasons                           []Reason

	// Raw says that the raw rate was judged, not the size-adjusted one.
	Raw bool
	// Rates, RawRates and AdjustedRates are bit/s per slot in slot order; Rates is the one that was judged.
	Rates, RawRates, AdjustedRates []float64
	// Conforms is the verdict per slot, in slot order.
	Conforms []bool
}

// Judge judges one iteration. It does not change it.
func Judge(r Rule, it *Iteration) Judgement { return Judgement{} }

// Setting is what is known about the run as a whole that bears on comparability.
type Setting struct {
	// Full says that the full profile ran, Overrides names parameters set by hand, Local that target and drivers
	// shared a host, MTU is the one between them (0 unknown).
	Full      bool
	Overrides []string
	Local     bool
	MTU       int
}

// Summary is the verdict about a run of iterations at one load.
type Summary struct {
	// Load is the number of slots requested, Score the median conforming count; Score is 0 without one.
	Load, Score int
	// Median is the index of the iteration the score was taken from, -1 without one.
	Median int
	// Passing means three valid, passing iterations.
	Valid, Passing, Comparable, Broke bool
	Reasons                           []Reason
	// Words is the verdict in one sentence; ExitCode is 0, 2 or 3.
	Words    string
	ExitCode int
}

// Score returns the median conforming count (the lower middle of an even number; the first of equal ones), and
// the index of the iteration it was taken from. It ignores validity. Index is -1 for no judgements.
func Score(js []Judgement) (score, index int) { return 0, -1 }

// Summarize judges the run. It expects the valid attempt of each iteration, or the last invalid one.
func Summarize(set Setting, js []Judgement) Summary { return Summary{} }
