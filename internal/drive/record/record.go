// Package record joins judgement and document: it turns what conform judged and search found into the typed form of
// disclosure, and a saved document back into what conform can judge again.
//
// Call FromIteration when an iteration has been judged and Conclude when the run is over; call Recheck to judge a
// saved run again.
//
// It measures nothing and reads no file.
package record

import (
	"cmp"
	"math"
	"slices"
	"time"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/conform"
)

// percent turns a share into a percentage without the noise of the multiplication; share turns it back.
func percent(share float64) float64 { return math.Round(share*1e11) / 1e9 }

func share(percent float64) float64 { return percent / 100 }

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

func duration(milliseconds float64) time.Duration {
	return time.Duration(math.Round(milliseconds * 1e6))
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// FromRule converts the rule; ToRule restores it.
func FromRule(r conform.Rule) disclosure.Rule {
	return disclosure.Rule{
		LineSpeed: r.LineBps, Floor: r.FloorBps,
		Pass: percent(r.PassShare), Errors: percent(r.ErrorShare), MinOps: r.MinOps,
		RawFrom: r.RawFrom.Seconds(), MeanBits: r.MeanBits,
		IdentityError: percent(r.IdentityError), Late: percent(r.LateShare), LateSlots: percent(r.LateSlots),
		MinP: r.MinP, ClockOffset: milliseconds(r.MaxClockOffset), Stolen: percent(r.MaxStolen),
	}
}

// ToRule restores the rule of a document.
func ToRule(r disclosure.Rule) conform.Rule {
	return conform.Rule{
		LineBps: r.LineSpeed, FloorBps: r.Floor,
		PassShare: share(r.Pass), ErrorShare: share(r.Errors), MinOps: r.MinOps,
		RawFrom: seconds(r.RawFrom), MeanBits: r.MeanBits,
		IdentityError: share(r.IdentityError), LateShare: share(r.Late), LateSlots: share(r.LateSlots),
		MinP: r.MinP, MaxClockOffset: duration(r.ClockOffset), MaxStolen: share(r.Stolen),
	}
}

// FromReasons converts reasons.
func FromReasons(rs []conform.Reason) []disclosure.Reason {
	var out []disclosure.Reason
	for _, r := range rs {
		d := disclosure.Reason{Code: r.Code, Text: r.Text, Effect: r.Effect.String(), Origin: r.Origin.String(), Unit: r.Unit}
		if r.Unit != "" {
			d.Value, d.Limit = &r.Value, &r.Limit
		}
		out = append(out, d)
	}
	return out
}

// FromIteration fills the part of a disclosed iteration that comes from its record and judgement. The caller adds
// number, kind, attempt and start, and what neither holds: latencies, processor time, verified bytes, series, files.
func FromIteration(it *conform.Iteration, j *conform.Judgement, r conform.Rule) disclosure.Iteration {
	d := disclosure.Iteration{
		Window: it.Window.Seconds(),
		Valid:  j.Valid, Passing: j.Passing, Comparable: j.Comparable, Broke: j.Broke,
		Reasons:   FromReasons(j.Reasons),
		Requested: j.Requested, Conforming: j.Conforming, Percent: j.Percent,
		OpsPerSec: j.OpsPerSec, ResponseMS: j.ResponseMS, OpsPerSlot: j.OpsPerSlot, KbitPerSlot: j.KbitPerSlot,
		FirstByteMS: j.FirstByteMS, Identity: 100 * j.IdentityError,
		Ops: j.Ops, Failed: j.Failed, ErrorPercent: j.ErrorPercent, Slow: j.Slow, Erring: j.Erring,
		JudgedBy: "raw", Raw: disclosure.NewSpread(j.RawRates, r.FloorBps, r.LineBps),
		Audit: fromAudit(&it.Audit, j),
	}
	if !j.Raw {
		d.JudgedBy = "adjusted"
		adjusted := disclosure.NewSpread(j.AdjustedRates, r.FloorBps, r.LineBps)
		d.Adjusted = &adjusted
	}
	for class, e := range it.Errors {
		d.Errors = append(d.Errors, disclosure.ErrorClass{Class: class, Origin: e.Origin.String(), Count: e.Count, Example: e.Example})
	}
	slices.SortFunc(d.Errors, func(a, b disclosure.ErrorClass) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class)) // most first
	})
	t := &d.Traffic
	t.FINMissing = it.Audit.FINMissing
	for i := range it.Records {
		rec := &it.Records[i]
		t.WireBytes += rec.WireBytes
		t.CreditedBits += rec.CreditedBits
		t.Connects += uint64(rec.Connects)
		t.Resets += uint64(rec.Resets)
	}
	if t.Connects > 0 {
		t.OpsPerConnect = float64(j.Ops+j.Failed) / float64(t.Connects)
	}
	if p := it.Posts; p.Checked {
		d.Posts = &disclosure.Posts{Acked: p.Acked, Found: p.Found, Missing: p.Missing, Doubled: p.Doubled,
			Foreign: p.Foreign, Uncertain: p.Uncertain}
	}
	return d
}

func fromAudit(a *conform.Audit, j *conform.Judgement) disclosure.Audit {
	d := disclosure.Audit{
		Agents: a.Agents, Reported: a.Reported, Attempted: a.Attempted,
		DriverFailures: a.DriverFailures, ChiSquareP: a.ChiSquareP,
		Late: 100 * j.LateShare, LateSlots: j.LateSlots, WorstLate: milliseconds(a.WorstLate),
		Overflow: a.Overflow, MemoryPressure: a.MemoryPressure, ClockOffset: milliseconds(a.ClockOffset),
		RunQueue: percent(a.RunQueue), Steal: percent(a.Steal),
		PortReuse: a.PortReuse, TimeWaitOverflow: a.TimeWaitOverflow, Congestion: a.Congestion,
	}
	for _, p := range a.Plan {
		d.Plan = append(d.Plan, disclosure.Planned{Kind: p.Kind, Issued: p.Issued, Planned: p.Planned})
	}
	return d
}

// FromRecords converts the slot records of iteration number n.
func FromRecords(n int, rs []conform.Record) []disclosure.SlotRecord {
	out := make([]disclosure.SlotRecord, len(rs))
	for i, r := range rs {
		out[i] = disclosure.SlotRecord{
			Iteration: n, Slot: r.Slot, Ops: r.Ops, Failed: r.Failed, Begun: r.Begun, Connects: r.Connects, Resets: r.Resets,
			CreditedBits: r.CreditedBits, WireBytes: r.WireBytes, OpTime: int64(r.OpTime), Late: int64(r.Late),
			FirstByte: int64(r.FirstByte), Response: int64(r.Response),
		}
	}
	return out
}

// ToIteration restores an iteration from the document and the slot records of that iteration.
func ToIteration(d *disclosure.Iteration, slots []disclosure.SlotRecord) *conform.Iteration {
	a := &d.Audit
	it := &conform.Iteration{
		Requested: d.Requested, Window: seconds(d.Window),
		Errors: map[string]conform.ErrorCount{},
		Audit: conform.Audit{
			Agents: a.Agents, Reported: a.Reported, Attempted: a.Attempted,
			DriverFailures: a.DriverFailures, ChiSquareP: a.ChiSquareP,
			Overflow: a.Overflow, MemoryPressure: a.MemoryPressure, ClockOffset: duration(a.ClockOffset),
			RunQueue: share(a.RunQueue), Steal: share(a.Steal), WorstLate: duration(a.WorstLate),
			PortReuse: a.PortReuse, TimeWaitOverflow: a.TimeWaitOverflow, Congestion: a.Congestion,
			FINMissing: d.Traffic.FINMissing,
		},
	}
	for _, p := range a.Plan {
		it.Audit.Plan = append(it.Audit.Plan, conform.PlanCount{Kind: p.Kind, Issued: p.Issued, Planned: p.Planned})
	}
	for _, e := range d.Errors {
		it.Errors[e.Class] = conform.ErrorCount{Count: e.Count, Origin: origin(e.Origin), Example: e.Example}
	}
	if p := d.Posts; p != nil {
		it.Posts = conform.PostCheck{Checked: true, Acked: p.Acked, Found: p.Found, Missing: p.Missing, Doubled: p.Doubled,
			Foreign: p.Foreign, Uncertain: p.Uncertain}
	}
	for _, r := range d.Reasons {
		if r.Code == "broke_rule" { // seen by the run and by no counter: the text is the record
			it.Broke = append(it.Broke, r.Text)
		}
	}
	for _, r := range slots {
		if r.Iteration != d.Number {
			continue
		}
		it.Records = append(it.Records, conform.Record{
			Slot: r.Slot, Ops: r.Ops, Failed: r.Failed, Begun: r.Begun, Connects: r.Connects, Resets: r.Resets,
			CreditedBits: r.CreditedBits, WireBytes: r.WireBytes, OpTime: time.Duration(r.OpTime), Late: time.Duration(r.Late),
			FirstByte: time.Duration(r.FirstByte), Response: time.Duration(r.Response),
		})
	}
	return it
}

func origin(word string) fault.Origin {
	for _, o := range []fault.Origin{fault.Target, fault.Network, fault.Driver, fault.Config} {
		if o.String() == word {
			return o
		}
	}
	return fault.Unknown
}
