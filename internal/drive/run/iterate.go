package run

import (
	"context"
	"fmt"
	"sort"
	"time"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/record"
	"tidemark.dev/internal/drive/slot"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/ground/tally"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/search"
	"tidemark.dev/internal/model/workload"
)

// measured is one window, judged.
type measured struct {
	iteration conform.Iteration
	judgement conform.Judgement
	parts     []collected
	started   time.Time
	targetCPU [2]time.Duration // user, system
}

// seek finds the load and proves it.
func (b *bench) seek(ctx context.Context) error {
	p := b.o.Profile
	o := search.Options{Fixed: b.o.Load, Min: 1, Max: b.max, MaxIsDriver: b.maxIsDriver, Width: p.Width, MaxTrials: p.MaxTrials, Resumes: p.Resumes}
	burst := 0.0
	if b.o.Load == 0 {
		b.o.Events.phase(PhaseBurst, fmt.Sprintf("as fast as it goes for %v", p.Burst))
		var err error
		if burst, err = b.burst(ctx); err != nil {
			return err
		}
		o.FirstGuess = b.firstGuess(burst)
		b.o.Events.phase(PhaseSearch, fmt.Sprintf("%.0f operations/s unpaced, first guess %d connections", burst, o.FirstGuess))
	} else {
		b.o.Events.phase(PhaseProof, fmt.Sprintf("3 iterations at %d connections", b.o.Load))
	}
	s := search.New(o)
	b.doc.Search = &disclosure.Search{
		FirstGuess: o.FirstGuess, Min: o.Min, Max: o.Max, Width: 100 * p.Width, Burst: burst, Steps: []disclosure.Step{},
	}
	proving := false
	for {
		step := s.Next()
		if step.Kind == search.Done {
			break
		}
		if step.Kind != search.Trial && !proving && b.o.Load == 0 {
			proving = true
			b.o.Events.phase(PhaseProof, fmt.Sprintf("3 iterations at %d connections", step.Load))
		}
		outcome, err := b.step(ctx, step)
		if err != nil {
			return err
		}
		s.Add(outcome)
	}
	r := s.Result()
	b.doc.Search.Answer, b.doc.Search.Why, b.doc.Search.Flags = r.Answer.String(), r.Why, r.Flags
	b.answer(r)
	return nil
}

// burst measures the unpaced throughput. The connections are enough to keep one core of each side busy.
func (b *bench) burst(ctx context.Context) (float64, error) {
	users := b.o.Workload.UserCount(b.max)
	r, err := b.drivers.burst(ctx, burstMessage{Duration: b.o.Profile.Burst, Conns: 64 * len(b.drivers.agents), Dirs: b.dirs, Users: users})
	if err != nil {
		return 0, err
	}
	if r.Failed > 0 {
		b.unsettled = "the burst met errors"
	}
	if r.Ops == 0 {
		return 0, fault.New(fault.Target, "burst: not one operation of %d succeeded (%s)", r.Failed, r.FirstError)
	}
	return r.OpsPerSec, nil
}

// driverGuess is how many slots one driver core is expected to carry (measured: 5,500 use nine tenths of a core of a
// small virtual machine).
const driverGuess = 6_000

// firstGuess turns burst throughput into slots: a slot at line speed asks for line speed / mean bits operations per
// second. A paced load costs more per operation than a burst (measured: the largest loads that passed asked for 0.5 to
// 0.65 of the burst, and going up costs less than coming down).
func (b *bench) firstGuess(opsPerSec float64) int {
	perSlot := float64(b.rule.LineBps) / b.rule.MeanBits
	guess := int(0.42 * opsPerSec / perSlot)
	cores := max(1, len(b.driverCPUs))
	if b.o.Agents > 0 {
		cores = 0
		for _, a := range b.drivers.agents {
			cores += max(1, len(a.CPUs))
		}
	}
	return min(max(guess, 1), driverGuess*cores, b.max)
}

// step carries out one step of the search and records it.
func (b *bench) step(ctx context.Context, s search.Step) (search.Outcome, error) {
	b.steps++
	p := b.o.Profile
	settle, window, kept := p.TrialSettle, p.Trial, false
	switch s.Kind {
	case search.Proof:
		settle, window, kept = p.RampUp, p.Window, true
	case search.FailProof:
		settle, window, kept = p.RampUp, p.Fail, true
	}
	if b.o.Events.StepBegan != nil {
		b.o.Events.StepBegan(Began{Kind: s.Kind.String(), Number: b.steps, Load: s.Load, Why: s.Why, Length: settle + window})
	}
	started := time.Since(b.began)
	m, err := b.measure(ctx, s.Load, settle, window, kept)
	if err != nil {
		return search.Outcome{}, err
	}
	j := &m.judgement
	outcome := search.Outcome{Load: s.Load, Conforming: j.Conforming, Verdict: b.outcomeOf(s, j), Hopeless: j.Valid && j.Broke, Busy: b.busy(m), Why: why(j)}
	step := disclosure.Step{
		Number: b.steps, Kind: s.Kind.String(), Attempt: s.Attempt, Load: s.Load, Window: window.Seconds(), Started: started.Seconds(),
		Verdict: outcome.Verdict.String(), Conforming: j.Conforming, Percent: j.Percent, OpsPerSec: j.OpsPerSec,
		ResponseMS: j.ResponseMS, KbitPerSlot: j.KbitPerSlot, LatePercent: 100 * j.LateShare, Why: outcome.Why,
		Reasons: record.FromReasons(j.Reasons),
	}
	if kept {
		if step.Iteration, err = b.keep(s, m); err != nil {
			return outcome, err
		}
		if s.Kind == search.Proof {
			b.proved(proof{step.Iteration, *j}, s.Attempt)
		}
	}
	b.doc.Search.Steps = append(b.doc.Search.Steps, step)
	if err := b.save(); err != nil { // what is said has been saved
		return outcome, err
	}
	if b.o.Events.StepEnded != nil {
		b.o.Events.StepEnded(step)
	}
	return outcome, nil
}

// busy is the share of its processors that the target or one of the drivers used, whichever is largest.
func (b *bench) busy(m *measured) (share float64) {
	if b.target != nil {
		used := m.targetCPU[0] + m.targetCPU[1]
		share = used.Seconds() / m.iteration.Window.Seconds() / float64(max(1, len(b.targetCPUs)))
	}
	for i, p := range m.parts {
		share = max(share, p.System.Cores/float64(max(1, len(b.drivers.agents[i].CPUs))))
	}
	return share
}

// proved keeps the proofs: a repetition takes the place of the invalid attempt.
func (b *bench) proved(p proof, attempt int) {
	if n := len(b.proofs); attempt > 1 && n > 0 && !b.proofs[n-1].judgement.Valid {
		b.proofs = b.proofs[:n-1]
	}
	b.proofs = append(b.proofs, p)
}

// outcomeOf maps a judgement to the search's alphabet. An instrument that was not able to measure tries again: a
// trial once, unless it was far from able, a proof twice. Then the load is beyond the drivers, and a search goes on
// below it.
func (b *bench) outcomeOf(s search.Step, j *conform.Judgement) search.Verdict {
	switch {
	case j.Valid && j.Passing:
		return search.Pass
	case j.Valid:
		return search.Fail
	case b.o.Load > 0 || !driversFault(j):
		return search.Invalid
	case s.Kind == search.Trial && (s.Attempt > 1 || j.LateShare > hopelesslyLate), s.Attempt > 2:
		return search.DriverLimit
	}
	return search.Invalid
}

// hopelesslyLate is the lateness at which a trial is not worth a second try: three times what is allowed.
const hopelesslyLate = 0.03

// driversFault tells whether every reason for invalidity is that the drivers could not keep up.
func driversFault(j *conform.Judgement) bool {
	found := false
	for _, r := range j.Reasons {
		if r.Effect != conform.Invalid {
			continue
		}
		if r.Origin != fault.Driver {
			return false
		}
		found = true
	}
	return found
}

// why is the most telling reason in words.
func why(j *conform.Judgement) string {
	for _, effect := range []conform.Effect{conform.Invalid, conform.BrokeRules, conform.NotPassing} {
		for _, r := range j.Reasons {
			if r.Effect == effect {
				return r.Text
			}
		}
	}
	return ""
}

// measure brings the load up, records one window and judges it. A proof has its own Reset before and its drain,
// Fetch and comparison of the post log after it; trials follow one another without a pause.
func (b *bench) measure(ctx context.Context, load int, settle, window time.Duration, proof bool) (*measured, error) {
	d := b.drivers
	if proof {
		if err := b.drain(ctx); err != nil {
			return nil, err
		}
		if err := b.reset(ctx); err != nil {
			return nil, err
		}
		if err := d.resume(ctx); err != nil {
			return nil, err
		}
	}
	limit := b.o.Workload.Pacing.Timeout + time.Duration(load)*time.Millisecond // 1,000 slots start in a second
	if err := d.load(ctx, load, b.dirsFor(load), b.o.Workload.UserCount(load), 2*limit); err != nil {
		return nil, err
	}
	start, end, err := b.open(ctx, settle, window)
	if err != nil {
		return nil, err
	}
	m := &measured{started: clock.Wall(start)}
	wait(ctx, start)
	u0, s0 := b.cpu()
	wait(ctx, end)
	u1, s1 := b.cpu()
	m.targetCPU = [2]time.Duration{u1 - u0, s1 - s0}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if proof {
		wait(ctx, end.Add(b.o.Profile.RampDown))
		if err := b.drain(ctx); err != nil {
			return nil, err
		}
	}
	if m.parts, err = d.collect(ctx); err != nil {
		return nil, err
	}
	m.iteration = b.assemble(load, window, m.parts)
	if proof {
		b.posts(ctx, m)
		if ctx.Err() != nil { // who was interrupted knows nothing about the target's log
			return nil, context.Cause(ctx)
		}
	}
	m.judgement = conform.Judge(b.rule, &m.iteration)
	return m, nil
}

// open sets the window. Loops so busy that they hear of it too late get more notice, twice: how late they are is for the
// window to show.
func (b *bench) open(ctx context.Context, settle, window time.Duration) (start, end clock.Instant, err error) {
	for range 3 {
		start = clock.Now().Add(settle)
		end = start.Add(window)
		if err = b.drivers.window(ctx, start, end); err == nil || ctx.Err() != nil {
			break
		}
		settle *= 2
	}
	return start, end, fault.Hint(err, "the drivers get too little processor time")
}

// drain pauses the load: what is open is read unpaced to its end, for at most as long as an operation may be without
// progress. At line speed the largest file takes 18 s, of a healthy server a drain takes milliseconds. Operations that
// the target leaves open even so are given up and lose their credit; that is no reason to end the run.
func (b *bench) drain(ctx context.Context) error {
	err := b.drivers.pause(ctx, b.o.Workload.Pacing.Timeout)
	if err != nil && ctx.Err() == nil && fault.OriginOf(err) == fault.Target {
		b.o.Events.note(err.Error())
		b.unsettled, err = "a drain did not end", nil
	}
	return err
}

func (b *bench) cpu() (user, system time.Duration) {
	if b.target == nil {
		return 0, 0
	}
	return b.target.CPU()
}

// posts fetches the post log and compares it with what was sent.
func (b *bench) posts(ctx context.Context, m *measured) {
	if b.o.Workload.Mix.Post == 0 {
		return
	}
	log, err := b.probe.Fetch(ctx, b.ledger.Posts())
	if err == nil {
		m.iteration.Posts, err = b.ledger.Check(log)
	}
	if err != nil {
		m.iteration.Broke = append(m.iteration.Broke, "post log: "+err.Error())
	}
}

// assemble puts the agents' parts together to one iteration.
func (b *bench) assemble(load int, window time.Duration, parts []collected) conform.Iteration {
	it := conform.Iteration{Requested: load, Window: window, Errors: map[string]conform.ErrorCount{}}
	a := &it.Audit
	a.Agents, a.DriverFailures, a.ChiSquareP = len(b.drivers.agents), map[string]uint64{}, map[string]float64{}
	congestion := map[string]bool{}
	var issued slot.Counts
	var plan [workload.Kinds]conform.PlanCount
	for i, p := range parts {
		r := p.Result
		if r == nil {
			continue
		}
		a.Reported++
		it.Records = append(it.Records, r.Records...)
		b.ledger.Add(r.Posts)
		for class, e := range r.Errors {
			sum := it.Errors[class]
			sum.Count, sum.Origin = sum.Count+e.Count, e.Origin
			if sum.Example == "" {
				sum.Example = e.Example
			}
			it.Errors[class] = sum
		}
		a.Attempted += r.Audit.Attempted
		for class, n := range r.Audit.Driver {
			if _, counted := r.Errors[class]; !counted {
				a.DriverFailures[class] += n
			}
		}
		for k := range plan {
			plan[k].Kind = workload.Kind(k).String()
			plan[k].Issued += r.Issued.Kind[k]
			plan[k].Planned += r.Audit.Planned[k]
		}
		addCounts(&issued, &r.Issued)
		a.Overflow += r.Audit.Overflow
		a.WorstLate = max(a.WorstLate, r.Audit.WorstLate)
		a.PortReuse += r.Audit.PortReuse
		a.FINMissing += r.Audit.FINMissing
		a.MemoryPressure += p.System.MemoryPressure
		a.TimeWaitOverflow = max(a.TimeWaitOverflow, p.System.TimeWaitOverflow) // one counter per host
		a.RunQueue, a.Steal = max(a.RunQueue, p.System.RunQueue), max(a.Steal, p.System.Steal)
		a.ClockOffset = max(a.ClockOffset, time.Duration(b.drivers.agents[i].RoundTripNS/2))
		for _, c := range r.Audit.Congestion {
			congestion[c] = true
		}
	}
	sort.Slice(it.Records, func(i, j int) bool { return it.Records[i].Slot < it.Records[j].Slot })
	a.Plan = plan[:]
	for c := range congestion {
		a.Congestion = append(a.Congestion, c)
	}
	sort.Strings(a.Congestion)
	b.test(&it, &issued, load)
	return it
}

func addCounts(sum, c *slot.Counts) {
	for i, n := range c.Kind {
		sum.Kind[i] += n
	}
	for i, n := range c.File {
		sum.File[i] += n
	}
	for len(sum.Dir) < len(c.Dir) {
		sum.Dir = append(sum.Dir, 0)
	}
	for i, n := range c.Dir {
		sum.Dir[i] += n
	}
}

// test compares what was drawn with the law.
func (b *bench) test(it *conform.Iteration, c *slot.Counts, load int) {
	s := b.o.Workload.Sampler(b.dirsFor(load), b.o.Workload.UserCount(load))
	class := c.Class()
	var file [9]uint64
	for i, n := range c.File {
		file[i%9] += n
	}
	for _, t := range []struct {
		name     string
		observed []uint64
		shares   []float64
	}{
		{"kind", c.Kind[:], s.KindShare()}, {"class", class[:], s.ClassShare()},
		{"file", file[:], s.FileShare()}, {"directory", c.Dir, s.DirShare()},
	} {
		if len(t.observed) != len(t.shares) {
			it.Broke = append(it.Broke, fmt.Sprintf("drawn %s counts have %d cells, the law has %d", t.name, len(t.observed), len(t.shares)))
			continue
		}
		_, p := workload.ChiSquare(t.observed, t.shares)
		it.Audit.ChiSquareP[t.name] = p
	}
}

// keep records a proof in the document and its slots and seconds beside it.
func (b *bench) keep(s search.Step, m *measured) (int, error) {
	n := len(b.doc.Iterations) + 1
	it := record.FromIteration(&m.iteration, &m.judgement, b.rule)
	it.Number, it.Kind, it.Attempt = n, s.Kind.String(), s.Attempt
	it.StartedAt = m.started.UTC().Format(time.RFC3339Nano)
	b.distributions(&it, m.parts)
	b.traffic(&it, m)
	seconds := series(n, m.parts)
	it.Overview = disclosure.NewOverview(seconds, m.iteration.Requested, 300)
	it.Slots, it.Seconds = disclosure.SlotsFile, disclosure.SecondsFile
	if err := disclosure.AppendSlots(b.o.Out, record.FromRecords(n, m.iteration.Records)); err != nil {
		return n, fault.Wrap(fault.Config, err, "result")
	}
	if err := disclosure.AppendSeconds(b.o.Out, seconds); err != nil {
		return n, fault.Wrap(fault.Config, err, "result")
	}
	b.doc.Iterations = append(b.doc.Iterations, it)
	return n, nil
}

// distributions merges the agents' histograms per kind.
func (b *bench) distributions(it *disclosure.Iteration, parts []collected) {
	add := func(into *[]disclosure.Latency, pick func(slot.Latency) *tally.Histogram) {
		var all tally.Histogram
		for k := range workload.Kinds {
			var sum tally.Histogram
			for _, p := range parts {
				if h := pick(p.Result.Kinds[k]); h != nil {
					sum.Merge(h)
				}
			}
			if sum.Count() == 0 {
				continue
			}
			all.Merge(&sum)
			*into = append(*into, disclosure.NewLatency(workload.Kind(k).String(), sum.Buckets, uint64(sum.Under()+sum.Over())))
		}
		*into = append(*into, disclosure.NewLatency("all", all.Buckets, uint64(all.Under()+all.Over())))
	}
	add(&it.Latency, func(l slot.Latency) *tally.Histogram { return l.Whole })
	add(&it.TTFB, func(l slot.Latency) *tally.Histogram { return l.FirstByte })
}

func (b *bench) traffic(it *disclosure.Iteration, m *measured) {
	for i, p := range m.parts {
		it.Traffic.VerifiedBytes += p.Result.Audit.VerifiedBytes
		it.Traffic.VerifiedOps += p.Result.Audit.VerifiedBodies
		it.CPU = append(it.CPU, disclosure.CPU{
			Name: b.drivers.agents[i].Agent, User: p.System.UserSeconds, System: p.System.SystemSeconds,
			Cores: p.System.Cores, Available: float64(max(1, len(b.drivers.agents[i].CPUs))),
			MaxRSS: p.System.PeakBytes,
		})
	}
	if b.target != nil {
		u, s := m.targetCPU[0].Seconds(), m.targetCPU[1].Seconds()
		it.CPU = append(it.CPU, disclosure.CPU{
			Name: "target", User: u, System: s, Cores: (u + s) / m.iteration.Window.Seconds(), Available: float64(max(1, len(b.targetCPUs))),
		})
	}
}

// series adds the agents' seconds up.
func series(n int, parts []collected) []disclosure.Second {
	var out []disclosure.Second
	for _, p := range parts {
		for i, s := range p.Result.Series {
			if i == len(out) {
				out = append(out, disclosure.Second{Iteration: n, Second: i})
			}
			o := &out[i]
			o.Ops += uint64(s.Ops)
			o.Failed += uint64(s.Failed)
			o.Bits += s.Bits
			o.Connects += uint64(s.Connects)
			o.Open += int(s.Open)
			o.Late += int64(s.Late)
		}
	}
	return out
}
