package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/record"
	"tidemark.dev/internal/drive/slot"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/search"
)

// Exit codes of a run, as DESIGN.md lists them.
const (
	exitPasses      = 0
	exitSetup       = 1
	exitInvalid     = 2
	exitFails       = 3
	exitInterrupted = 130
)

// proof is a judged proof iteration and its number in the document.
type proof struct {
	number    int
	judgement conform.Judgement
}

// answer turns what the search and the proofs say into the verdict of the document. Only the proofs at the load the
// search ended with count: those at a load that did not hold belong to its path.
func (b *bench) answer(r search.Result) {
	load := r.Load
	if n := len(b.proofs); load == 0 && n > 0 {
		load = b.proofs[n-1].judgement.Requested // no load holds: the last one tried says why
	}
	var js []conform.Judgement
	var numbers []int
	for _, p := range b.proofs {
		if p.judgement.Requested == load {
			js, numbers = append(js, p.judgement), append(numbers, p.number)
		}
	}
	if len(js) == 0 {
		b.doc.Verdict = record.Conclude(nil, r, nil, b.rule)
		return
	}
	sum := conform.Summarize(record.Setting(b.doc), js)
	b.doc.Verdict = record.Conclude(&sum, r, numbers, b.rule)
	b.doc.Run.Comparable, b.doc.Run.Incomparable = sum.Comparable, record.Incomparable(&sum)
	for _, n := range numbers {
		b.doc.Iterations[n-1].Scored = b.doc.Verdict.Score > 0
	}
}

// settle stops the target in good order and compares its access log with what the drivers and the probe counted:
// operation for operation and byte for byte.
func (b *bench) settle(ctx context.Context) error {
	b.o.Events.phase(PhaseStop, "draining, stopping, comparing logs")
	if err := b.drain(ctx); err != nil {
		return err
	}
	ops, bytes, failed, err := b.totals(ctx)
	if err != nil {
		return err
	}
	if b.target == nil || b.kit.Total == nil {
		return nil
	}
	// Nobody should have to wait for the end of connections that wait for another request.
	if err := b.drivers.load(ctx, 0, b.dirs, b.o.Workload.UserCount(b.max), b.o.Workload.Pacing.Timeout); err != nil {
		return err
	}
	running := b.target
	b.target = nil
	stopErr := running.Stop(10 * time.Second)
	log := &disclosure.LogCheck{
		DriverOps: ops + b.probe.Ops(), DriverBytes: bytes + b.probe.Bytes(), Path: b.kit.Log,
	}
	b.doc.Log = log
	if log.LogOps, log.LogBytes, err = b.kit.Total(b.kit.Log); err != nil {
		log.Why = err.Error()
		return nil
	}
	log.Agree = log.LogOps == log.DriverOps && log.LogBytes == log.DriverBytes
	switch {
	case log.Agree:
	case stopErr != nil:
		log.Why = stopErr.Error()
	case failed > 0:
		log.Why = fmt.Sprintf("%d operations failed on the way; the log may or may not hold them", failed)
	case b.probe.Unsure() > 0:
		log.Why = fmt.Sprintf("%d housekeeping requests failed on the way", b.probe.Unsure())
	case b.unsettled != "":
		log.Why = b.unsettled
	default:
		log.Why = "the access log does not hold what the drivers received"
	}
	if stopErr != nil {
		b.remark(stopErr)
	}
	if !log.Agree {
		b.o.Events.note(fmt.Sprintf("access log: %d operations and %d bytes; drivers: %d and %d (%s)",
			log.LogOps, log.LogBytes, log.DriverOps, log.DriverBytes, log.Why))
	}
	return nil
}

// remark records a failure that comes too late to change a verdict.
func (b *bench) remark(err error) {
	b.o.Events.note(err.Error())
	b.doc.Verdict.Reasons = append(b.doc.Verdict.Reasons, disclosure.Reason{
		Code: "stop", Text: err.Error(), Effect: "note", Origin: fault.OriginOf(err).String(),
	})
}

// totals asks the drained agents for everything they did since they started.
func (b *bench) totals(ctx context.Context) (ops, bytes, failed int64, err error) {
	for _, a := range b.drivers.agents {
		var p slot.Progress
		if err := b.drivers.prime.Call(ctx, a.Agent, verbTotals, struct{}{}, &p); err != nil {
			return 0, 0, 0, err
		}
		ops += int64(p.Ops + p.Failed)
		failed += int64(p.Failed)
		bytes += p.WireBytes
	}
	return ops, bytes, failed, nil
}

// conclude writes the end of the document: what err did to the run, or what the validation found.
func (b *bench) conclude(err error) {
	v := &b.doc.Verdict
	b.doc.Run.FinishedAt = time.Now().UTC().Format(time.RFC3339)
	b.doc.State = disclosure.Complete
	if err != nil {
		b.withdraw()
	}
	switch {
	case errors.Is(err, ErrInterrupted):
		b.doc.State, v.ExitCode = disclosure.Interrupted, exitInterrupted
		v.Word, v.Words = disclosure.NoVerdict, "interrupted before there was a verdict"
	case err != nil:
		b.doc.State, v.ExitCode = disclosure.Failed, exitSetup
		v.Word, v.Words = disclosure.NoVerdict, err.Error()
		origin, effect := fault.OriginOf(err), conform.Invalid
		switch n := len(b.proofs); {
		case origin == fault.Target && n > 0 && b.proofs[n-1].judgement.Valid && !b.proofs[n-1].judgement.Passing:
			b.answer(search.Result{Answer: search.Unfinished}) // it had failed already, and then it failed altogether
			effect = conform.Note
		case b.drivers != nil && origin != fault.Config: // the instrument was not able to measure to the end
			v.Word, v.ExitCode = disclosure.InvalidRun, exitInvalid
		}
		v.Hints = append(v.Hints, fault.Hints(err)...)
		v.Reasons = append(v.Reasons, disclosure.Reason{Code: "run_ended_early", Text: err.Error(), Effect: effect.String(), Origin: origin.String()})
	case len(b.breaches) > 0:
		v.Word, v.ExitCode, v.Reasons = disclosure.BrokeRules, exitFails, b.breaches
		v.Words = "the target broke the rules: " + b.breaches[0].Text
	}
}

// withdraw takes back a verdict that was reached before the run ended early.
func (b *bench) withdraw() {
	b.doc.Verdict = disclosure.Verdict{}
	b.doc.Run.Comparable, b.doc.Run.Incomparable = false, nil
	for i := range b.doc.Iterations {
		b.doc.Iterations[i].Scored = false
	}
}
