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
func Judge(r Rule, it *Iteration) Judgement {
	j := Judgement{
		Requested: it.Requested, Window: it.Window,
		Raw: it.Window >= r.RawFrom,
	}
	v := verdict{rule: r, it: it, j: &j}
	if !v.arrange() {
		return j
	}
	v.figures()
	v.slots()
	v.instrument()
	v.target()
	v.setting()
	v.conclude()
	return j
}
