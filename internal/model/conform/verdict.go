package conform

import (
	"fmt"
	"slices"
	"time"

	"tidemark.dev/internal/ground/fault"
)

// verdict is the working state of one judgement.
type verdict struct {
	rule Rule
	it   *Iteration
	j    *Judgement

	// bySlot has one entry per requested slot, nil where no record came.
	bySlot []*Record
	// sums over all records
	opTime, late time.Duration
	ops, failed  uint64
	passes       bool // share and errors, validity aside
}

func (v *verdict) say(e Effect, o fault.Origin, code string, value, limit float64, unit, format string, a ...any) {
	v.j.Reasons = append(v.j.Reasons, Reason{
		Code: code, Text: fmt.Sprintf(format, a...), Origin: o, Effect: e, Value: value, Limit: limit, Unit: unit,
	})
}

// arrange puts the records in slot order. Without slots or window there is nothing to judge.
func (v *verdict) arrange() bool {
	n := v.it.Requested
	if n <= 0 || v.it.Window <= 0 {
		v.say(Invalid, fault.Driver, "nothing_measured", float64(n), 1, "connections",
			"nothing was measured: %s requested over %v", plural(n, "connection"), v.it.Window)
		return false
	}
	v.bySlot = make([]*Record, n)
	var doubled, foreign int
	for i := range v.it.Records {
		rec := &v.it.Records[i]
		switch {
		case int64(rec.Slot) >= int64(n):
			foreign++
		case v.bySlot[rec.Slot] != nil:
			doubled++
			if before(rec, v.bySlot[rec.Slot]) { // whichever comes first in the input, the same one is judged
				v.bySlot[rec.Slot] = rec
			}
		default:
			v.bySlot[rec.Slot] = rec
		}
	}
	var missing []int
	for slot, rec := range v.bySlot {
		if rec == nil {
			missing = append(missing, slot)
		}
	}
	if len(missing) > 0 {
		v.say(Invalid, fault.Driver, "records_missing", float64(len(missing)), 0, "connections",
			"%s of %d left no record (%s)", plural(len(missing), "slot"), n, listSlots(missing))
	}
	if doubled > 0 || foreign > 0 {
		v.say(Invalid, fault.Driver, "records_surplus", float64(doubled+foreign), 0, "records",
			"%s too many: %d for slots that have one, %d for slots not requested",
			plural(doubled+foreign, "record"), doubled, foreign)
	}
	return true
}

// before orders records of one slot, to choose among doubles without regard to their order.
func before(a, b *Record) bool {
	fa, fb := a.fields(), b.fields()
	return slices.Compare(fa[:], fb[:]) < 0
}

// figures sums the records and fills the columns of the result page.
func (v *verdict) figures() {
	j, seconds := v.j, v.it.Window.Seconds()
	var credited int64
	var response, firstByte time.Duration
	for _, rec := range v.bySlot {
		if rec == nil {
			continue
		}
		v.ops += uint64(rec.Ops)
		v.failed += uint64(rec.Failed)
		credited += rec.CreditedBits
		v.opTime += rec.OpTime
		v.late += rec.Late
		response += rec.Response
		firstByte += rec.FirstByte
	}
	n := float64(v.it.Requested)
	j.Ops, j.Failed = v.ops, v.failed
	if all := v.ops + v.failed; all > 0 {
		j.ErrorPercent = 100 * float64(v.failed) / float64(all)
	}
	j.OpsPerSec = float64(v.ops) / seconds
	j.OpsPerSlot = j.OpsPerSec / n
	j.KbitPerSlot = float64(credited) / 1000 / (n * seconds)
	if v.ops > 0 {
		j.ResponseMS = response.Seconds() * 1000 / float64(v.ops)
		j.FirstByteMS = firstByte.Seconds() * 1000 / float64(v.ops)
	}
	j.IdentityError = v.opTime.Seconds()/(n*seconds) - 1
	if v.opTime > 0 {
		j.LateShare = v.late.Seconds() / v.opTime.Seconds()
	}
}

// slots judges every slot, once as recorded and once with lateness taken away, and the share of each.
func (v *verdict) slots() {
	j, n := v.j, v.it.Requested
	j.RawRates, j.AdjustedRates = make([]float64, n), make([]float64, n)
	j.Conforms = make([]bool, n)
	erring := v.erring()
	floor := float64(v.rule.FloorBps)
	var prompt int // conforming slots with lateness taken away
	for slot, rec := range v.bySlot {
		if rec == nil {
			j.Slow++
			continue
		}
		raw, adjusted := v.rule.rates(rec, v.it.Window)
		j.RawRates[slot], j.AdjustedRates[slot] = raw, adjusted
		rawPrompt, adjustedPrompt := v.rule.rates(rec, v.it.Window-rec.Late)
		rate, ratePrompt := adjusted, adjustedPrompt
		if j.Raw {
			rate, ratePrompt = raw, rawPrompt
		}
		if rate < floor {
			j.Slow++
		}
		if erring[slot] {
			j.Erring++
		}
		j.Conforms[slot] = rate >= floor && !erring[slot]
		if j.Conforms[slot] {
			j.Conforming++
		}
		conforms := ratePrompt >= floor && !erring[slot]
		if conforms {
			prompt++
		}
		if conforms != j.Conforms[slot] {
			j.LateSlots++
		}
	}
	j.Rates = j.AdjustedRates
	if j.Raw {
		j.Rates = j.RawRates
	}
	j.Percent = 100 * float64(j.Conforming) / float64(n)
	v.passes = v.holds(j.Conforming)
	if v.holds(prompt) != v.passes {
		v.say(Invalid, fault.Driver, "late_verdict", 100*float64(prompt)/float64(n), j.Percent, "percent",
			"the driver's lateness decides the verdict: %.2f %% of the slots conform as measured, %.2f %% with it taken away",
			j.Percent, 100*float64(prompt)/float64(n))
	}
	if !v.shareHolds(j.Conforming) {
		v.say(NotPassing, fault.Target, "too_few_conform", j.Percent, 100*v.rule.PassShare, "percent",
			"%s of %s connections conform (%s); %s must",
			Count(j.Conforming), Count(n), percent(j.Percent), percent(100*v.rule.PassShare))
	}
	if !v.errorsHold() {
		v.say(NotPassing, fault.Target, "too_many_errors", j.ErrorPercent, 100*v.rule.ErrorShare, "percent",
			"%s of %s operations failed (%s); it must stay below %s",
			Count(int(v.failed)), Count(int(v.failed+v.ops)), percent(j.ErrorPercent), percent(100*v.rule.ErrorShare))
	}
}

// erring marks the slots whose error share is too high: by themselves from MinOps operations on, as one pool below
// that, where a share of single slots would say nothing.
func (v *verdict) erring() []bool {
	marks := make([]bool, len(v.bySlot))
	var poolFailed, poolAll uint64
	for slot, rec := range v.bySlot {
		if rec == nil {
			continue
		}
		all := uint64(rec.Ops) + uint64(rec.Failed)
		if all >= uint64(v.rule.MinOps) {
			marks[slot] = !below(uint64(rec.Failed), all, v.rule.ErrorShare)
			continue
		}
		poolFailed += uint64(rec.Failed)
		poolAll += all
	}
	if below(poolFailed, poolAll, v.rule.ErrorShare) {
		return marks
	}
	for slot, rec := range v.bySlot {
		if rec != nil && uint64(rec.Ops)+uint64(rec.Failed) < uint64(v.rule.MinOps) {
			marks[slot] = true
		}
	}
	return marks
}

func (v *verdict) holds(conforming int) bool { return v.shareHolds(conforming) && v.errorsHold() }

func (v *verdict) shareHolds(conforming int) bool {
	// Both sides are the doubles nearest to the same real number when the share is met exactly.
	return float64(conforming)/float64(v.it.Requested) >= v.rule.PassShare
}

func (v *verdict) errorsHold() bool { return below(v.failed, v.failed+v.ops, v.rule.ErrorShare) }

// below reports part/all < share; nothing out of nothing is below.
func below(part, all uint64, share float64) bool {
	return all == 0 || float64(part)/float64(all) < share
}

// rates returns the raw and the size-adjusted rate (bit/s) of a slot over a window.
//
// Raw is what was credited over the time it took. Over a short window the sizes a slot happened to draw decide
// that figure, so the adjusted rate asks what it would be for the law's mean size B: r = B / (B/L + o), with
// o = (window - credited/L) / operations begun, the time per operation in which nothing was credited.
func (r *Rule) rates(rec *Record, window time.Duration) (raw, adjusted float64) {
	if window <= 0 {
		return float64(r.LineBps), float64(r.LineBps) // all of it was lateness
	}
	seconds, line := window.Seconds(), float64(r.LineBps)
	raw = float64(rec.CreditedBits) / seconds
	overhead := (seconds - float64(rec.CreditedBits)/line) / float64(max(rec.Begun, 1))
	adjusted = r.MeanBits / (r.MeanBits/line + max(overhead, 0))
	return raw, adjusted
}

// conclude draws the verdicts from the reasons.
func (v *verdict) conclude() {
	j := v.j
	j.Valid, j.Comparable = true, true
	for _, r := range j.Reasons {
		switch r.Effect {
		case Invalid:
			j.Valid = false
		case BrokeRules:
			j.Broke = true
		case Incomparable:
			j.Comparable = false
		}
	}
	j.Comparable = j.Comparable && j.Valid && !j.Broke
	j.Passing = v.passes && j.Valid && !j.Broke
	slices.SortStableFunc(j.Reasons, func(a, b Reason) int { return int(b.Effect) - int(a.Effect) })
}
