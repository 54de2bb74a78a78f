package conform

import (
	"maps"
	"slices"
)

// Merge adds the part of an iteration measured by another agent. Parts may be merged in any order and grouping.
// Requested counts add up, as do agents; window and post check are those of the first part that has them.
func (it *Iteration) Merge(o *Iteration) {
	it.Requested += o.Requested
	if it.Window == 0 {
		it.Window = o.Window
	}
	it.Records = append(it.Records, o.Records...)
	if it.Errors == nil && len(o.Errors) > 0 {
		it.Errors = make(map[string]ErrorCount, len(o.Errors))
	}
	for class, e := range o.Errors {
		it.Errors[class] = it.Errors[class].add(e)
	}
	it.Audit.Merge(&o.Audit)
	it.Posts.merge(&o.Posts)
	it.Broke = union(it.Broke, o.Broke)
}

// add keeps the smaller example, so that the order of adding does not show.
func (e ErrorCount) add(o ErrorCount) ErrorCount {
	e.Count += o.Count
	e.Origin = max(e.Origin, o.Origin)
	if e.Example == "" || (o.Example != "" && o.Example < e.Example) {
		e.Example = o.Example
	}
	return e
}

// Merge adds what another agent says about itself: counts add up, of shares and distances the worst holds. A p-value
// cannot be merged; the smaller one is kept until the caller tests the summed counts (see ChiSquare).
func (a *Audit) Merge(o *Audit) {
	a.Agents += o.Agents
	a.Reported += o.Reported
	a.Attempted += o.Attempted
	if a.DriverFailures == nil && len(o.DriverFailures) > 0 {
		a.DriverFailures = make(map[string]uint64, len(o.DriverFailures))
	}
	for name, n := range o.DriverFailures {
		a.DriverFailures[name] += n
	}
	for _, p := range o.Plan {
		i := slices.IndexFunc(a.Plan, func(q PlanCount) bool { return q.Kind == p.Kind })
		if i < 0 {
			a.Plan = append(a.Plan, p)
			continue
		}
		a.Plan[i].Issued += p.Issued
		a.Plan[i].Planned += p.Planned
	}
	if a.ChiSquareP == nil && len(o.ChiSquareP) > 0 {
		a.ChiSquareP = maps.Clone(o.ChiSquareP)
	}
	for name, p := range o.ChiSquareP {
		if q, ok := a.ChiSquareP[name]; !ok || p < q {
			a.ChiSquareP[name] = p
		}
	}
	a.Overflow += o.Overflow
	a.MemoryPressure += o.MemoryPressure
	a.ClockOffset = max(a.ClockOffset.Abs(), o.ClockOffset.Abs())
	a.RunQueue = max(a.RunQueue, o.RunQueue)
	a.Steal = max(a.Steal, o.Steal)
	a.WorstLate = max(a.WorstLate, o.WorstLate)
	a.PortReuse += o.PortReuse
	a.TimeWaitOverflow += o.TimeWaitOverflow
	a.Congestion = union(a.Congestion, o.Congestion)
	a.FINMissing += o.FINMissing
}

func (p *PostCheck) merge(o *PostCheck) {
	p.Checked = p.Checked || o.Checked
	p.Acked += o.Acked
	p.Found += o.Found
	p.Missing += o.Missing
	p.Doubled += o.Doubled
	p.Foreign += o.Foreign
	p.Uncertain += o.Uncertain
}

// union returns the sorted set of both; it changes neither.
func union(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	u := append(slices.Clone(a), b...)
	slices.Sort(u)
	return slices.Compact(u)
}
