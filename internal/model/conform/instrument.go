package conform

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tidemark.dev/internal/ground/fault"
)

// instrument applies the rules of validity. What was not checked does not pass: an audit nobody filled in voids the
// iteration like one that failed.
func (v *verdict) instrument() {
	a, n := &v.it.Audit, v.it.Requested
	if a.Reported != a.Agents || a.Agents < 1 {
		v.say(Invalid, fault.Driver, "agents_missing", float64(a.Reported), float64(a.Agents), "agents",
			"%d of %d agents reported", a.Reported, a.Agents)
	}
	if a.Attempted != n {
		v.say(Invalid, fault.Driver, "slots_unattempted", float64(a.Attempted), float64(n), "connections",
			"%s of %s slots were attempted", Count(a.Attempted), Count(n))
	}
	v.lateness() // before what may follow from it
	v.consistent()
	v.ownFailures()
	v.identity()
	v.plan()
	if d := a.ClockOffset.Abs(); d > v.rule.MaxClockOffset {
		v.say(Invalid, fault.Driver, "clock_offset", ms(d), ms(v.rule.MaxClockOffset), "milliseconds",
			"the clocks of two agents are %.1f ms apart; %.0f ms are allowed", ms(d), ms(v.rule.MaxClockOffset))
	}
	if a.Overflow > 0 {
		v.say(Invalid, fault.Driver, "histogram_overflow", float64(a.Overflow), 0, "values",
			"%s outside the range of every histogram", plural(int(a.Overflow), "measured time"))
	}
	if a.MemoryPressure > 0 {
		v.say(Invalid, fault.Driver, "memory_pressure", float64(a.MemoryPressure), 0, "events",
			"the driver's kernel was under TCP memory pressure %s", times(a.MemoryPressure))
	}
}

// largestOp bounds the largest operation of a law in mean operations; web99 has 61.
const largestOp = 64

// consistent looks for records that cannot be. One slot may be credited more than its line carries in the window: a
// response that had fallen behind when the window began catches up inside it, by at most one operation. All slots
// together may not, for as many fall behind at the end.
func (v *verdict) consistent() {
	slack := 1 + v.rule.IdentityError
	line := float64(v.rule.LineBps) * v.it.Window.Seconds() * slack
	most := line + largestOp*v.rule.MeanBits
	window := v.it.Window.Seconds() * slack
	var bad []int
	var first string
	var credited float64
	for slot, r := range v.bySlot {
		if r == nil {
			continue
		}
		credited += float64(r.CreditedBits)
		if why := impossible(r, most, window); why != "" {
			if len(bad) == 0 {
				first = why
			}
			bad = append(bad, slot)
		}
	}
	if len(bad) > 0 {
		v.say(Invalid, fault.Driver, "records_impossible", float64(len(bad)), 0, "connections",
			"impossible figures in %s (%s); the first has %s", plural(len(bad), "record"), listSlots(bad), first)
	}
	if n := float64(v.it.Requested); credited > n*line {
		kbit := credited / n / v.it.Window.Seconds() / 1000
		v.say(Invalid, fault.Driver, "credit_impossible", kbit, float64(v.rule.LineBps)/1000, "kilobits per second",
			"%.2f kbit/s were credited to each connection; its line carries %d", kbit, v.rule.LineBps/1000)
	}
}

// impossible says what in a record cannot be, given the most bits and seconds of a slot; "" if all can.
func impossible(r *Record, most, window float64) string {
	switch {
	case r.CreditedBits < 0 || r.WireBytes < 0 || r.OpTime < 0 || r.Late < 0 || r.FirstByte < 0 || r.Response < 0:
		return "a figure below zero"
	case float64(r.CreditedBits) > most:
		return fmt.Sprintf("%d bits credited, it can have %.0f at most", r.CreditedBits, most)
	case r.OpTime.Seconds() > window:
		return fmt.Sprintf("operations of %.3f s in a window of %.3f s", r.OpTime.Seconds(), window)
	case r.Late > r.OpTime:
		return fmt.Sprintf("lateness of %.3f s in operations of %.3f s", r.Late.Seconds(), r.OpTime.Seconds())
	}
	return ""
}

// ownFailures counts failures of our own origin, and those nobody classified, which count as ours.
func (v *verdict) ownFailures() {
	own := maps.Clone(v.it.Audit.DriverFailures)
	if own == nil {
		own = map[string]uint64{}
	}
	unclassified := map[string]uint64{}
	for class, e := range v.it.Errors {
		if e.Count == 0 {
			continue
		}
		switch origin(class, e) {
		case fault.Driver, fault.Config:
			own[class] = max(own[class], e.Count)
		case fault.Unknown:
			unclassified[class] = e.Count
		}
	}
	if total := sum(own); total > 0 {
		v.say(Invalid, fault.Driver, "own_failures", float64(total), 0, "failures",
			"%s of the driver itself: %s", plural(int(total), "failure"), listCounts(own))
	}
	if total := sum(unclassified); total > 0 {
		v.say(Invalid, fault.Unknown, "unclassified_failures", float64(total), 0, "failures",
			"%s of unknown origin, which count as the driver's: %s", plural(int(total), "failure"), listCounts(unclassified))
	}
}

// origin is the one recorded, or that of the class when none was.
func origin(class string, e ErrorCount) fault.Origin {
	if e.Origin == fault.Unknown {
		return OriginOf(class)
	}
	return e.Origin
}

// identity: operations tile a slot's time, so their sum is known beforehand.
func (v *verdict) identity() {
	if e := v.j.IdentityError; math.Abs(e) > v.rule.IdentityError {
		v.say(Invalid, fault.Driver, "identity", 100*e, 100*v.rule.IdentityError, "percent",
			"the time of all operations is %+.3f %% off requested x window; %.1f %% is allowed", 100*e, 100*v.rule.IdentityError)
	}
}

// lateness: the driver's own delays are charged to the target, so they must be small and must decide nothing. (That
// they do not decide the iteration is seen to in slots.) How many slots they decide matters where a score may come of
// it; an iteration that fails with and without them fails, and has many slots near the floor.
func (v *verdict) lateness() {
	j, n := v.j, float64(v.it.Requested)
	if j.LateShare > v.rule.LateShare {
		v.say(Invalid, fault.Driver, "late_share", 100*j.LateShare, 100*v.rule.LateShare, "percent",
			"the driver was late for %.2f %% of the time of all operations; %.1f %% is allowed", 100*j.LateShare, 100*v.rule.LateShare)
	}
	// One slot may always be near the floor by chance: of fewer than 200 it would be too large a share.
	if share := float64(j.LateSlots) / n; v.passes && share > v.rule.LateSlots && j.LateSlots > 1 {
		v.say(Invalid, fault.Driver, "late_slots", 100*share, 100*v.rule.LateSlots, "percent",
			"the driver's lateness decides about %s (%.2f %%); %.1f %% is allowed",
			plural(j.LateSlots, "slot"), 100*share, 100*v.rule.LateSlots)
	}
}

// plan: the operations issued are those of the law.
func (v *verdict) plan() {
	a := &v.it.Audit
	var issued, planned uint64
	var off []string
	for _, p := range a.Plan {
		issued, planned = issued+p.Issued, planned+p.Planned
		if p.Issued != p.Planned {
			off = append(off, p.Kind)
		}
	}
	slices.Sort(off)
	switch {
	case len(a.Plan) == 0:
		v.say(Invalid, fault.Driver, "plan_unchecked", 0, 0, "operations", "the operations issued were not compared with the plan")
	case len(off) > 0:
		v.say(Invalid, fault.Driver, "plan_differs", float64(issued), float64(planned), "operations",
			"operations issued differ from the plan for %s: %d issued, %d planned in all", strings.Join(off, ", "), issued, planned)
	}
	if len(a.ChiSquareP) == 0 {
		v.say(Invalid, fault.Driver, "mix_unchecked", 0, v.rule.MinP, "probability", "the drawn mix was not tested against the law")
	}
	for _, name := range slices.Sorted(maps.Keys(a.ChiSquareP)) {
		if p := a.ChiSquareP[name]; !(p > v.rule.MinP) { // a NaN fails too
			v.say(Invalid, fault.Driver, "mix_unlikely", p, v.rule.MinP, "probability",
				"the drawn distribution of %s is not the law's (chi-square p = %.1e, at least %.0e is due)", name, p, v.rule.MinP)
		}
	}
}

// target applies the rules about answers: whoever breaks one has no score, however fast.
func (v *verdict) target() {
	for _, class := range slices.Sorted(maps.Keys(v.it.Errors)) {
		e := v.it.Errors[class]
		if e.Count > 0 && Breaks(class) && origin(class, e) == fault.Target {
			example := ""
			if e.Example != "" {
				example = "; the first: " + e.Example
			}
			v.say(BrokeRules, fault.Target, "broke_"+strings.ReplaceAll(class, "-", "_"), float64(e.Count), 0, "operations",
				"%s answered with %s%s", plural(int(e.Count), "operation"), wrongWords(class), example)
		}
	}
	p := &v.it.Posts
	if p.Missing > 0 {
		v.say(BrokeRules, fault.Target, "posts_missing", float64(p.Missing), 0, "records",
			"%s of %s acknowledged POST records are not in the target's log", Count(int(p.Missing)), Count(int(p.Acked)))
	}
	if p.Doubled > 0 {
		v.say(BrokeRules, fault.Target, "posts_doubled", float64(p.Doubled), 0, "records",
			"%s in the target's log more than once", plural(int(p.Doubled), "POST record"))
	}
	if p.Foreign > 0 {
		v.say(BrokeRules, fault.Target, "posts_foreign", float64(p.Foreign), 0, "records",
			"%s in the target's log that nobody sent", plural(int(p.Foreign), "POST record"))
	}
	for _, text := range v.it.Broke {
		v.say(BrokeRules, fault.Target, "broke_rule", 0, 0, "", "%s", text)
	}
}

func wrongWords(class string) string {
	switch class {
	case ClassLength:
		return "the wrong length"
	case ClassBytes:
		return "the wrong bytes"
	case ClassWrapper:
		return "a wrong page around the file"
	case ClassCookie:
		return "the wrong cookie"
	case ClassAd:
		return "the wrong ad"
	}
	return "a stale table"
}

// setting applies the rules of comparability that belong to one iteration.
func (v *verdict) setting() {
	a := &v.it.Audit
	if a.RunQueue > v.rule.MaxStolen {
		v.say(Incomparable, fault.Driver, "run_queue", 100*a.RunQueue, 100*v.rule.MaxStolen, "percent",
			"a driver waited for a processor %.1f %% of the time; %.0f %% is allowed", 100*a.RunQueue, 100*v.rule.MaxStolen)
	}
	if a.Steal > v.rule.MaxStolen {
		v.say(Incomparable, fault.Driver, "steal", 100*a.Steal, 100*v.rule.MaxStolen, "percent",
			"the hypervisor took %.1f %% of a driver's time; %.0f %% is allowed", 100*a.Steal, 100*v.rule.MaxStolen)
	}
	if a.PortReuse > 0 {
		v.say(Incomparable, fault.Driver, "port_reuse", float64(a.PortReuse), 0, "connections",
			"%s reused a port pair within 60 s; more source addresses are needed", plural(int(a.PortReuse), "connection"))
	}
	if a.TimeWaitOverflow > 0 {
		v.say(Incomparable, fault.Driver, "time_wait_overflow", float64(a.TimeWaitOverflow), 0, "events",
			"the table of connections in TIME_WAIT overflowed %s", times(a.TimeWaitOverflow))
	}
	if len(a.Congestion) > 1 {
		v.say(Incomparable, fault.Driver, "congestion_mixed", float64(len(a.Congestion)), 1, "algorithms",
			"connections used different congestion controls: %s", strings.Join(slices.Sorted(slices.Values(a.Congestion)), ", "))
	}
	if !v.it.Posts.Checked {
		v.say(Incomparable, fault.Driver, "posts_unchecked", 0, 0, "records", "the target's log of POST records was not compared")
	}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

func sum(m map[string]uint64) (n uint64) {
	for _, v := range m {
		n += v
	}
	return n
}
