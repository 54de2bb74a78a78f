package run

import (
	"errors"
	"testing"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/conform"
)

// TestConclude ends runs early after a verdict about their proofs.
func TestConclude(t *testing.T) {
	passes := conform.Judgement{Requested: 100, Conforming: 100, Valid: true, Passing: true}
	fails := conform.Judgement{Requested: 100, Conforming: 50, Valid: true, Reasons: []conform.Reason{
		{Code: "too_few_conform", Text: "half of them", Effect: conform.NotPassing, Origin: fault.Target},
	}}
	tests := []struct {
		name    string
		proofs  []conform.Judgement
		drivers *drivers
		err     error
		state   string
		word    string
		code    int
		effect  string // of the reason run_ended_early
	}{
		{"interrupted", []conform.Judgement{passes, passes, passes}, &drivers{}, ErrInterrupted, disclosure.Interrupted, disclosure.NoVerdict, 130, ""},
		{"before the load", nil, nil, fault.New(fault.Target, "no answer"), disclosure.Failed, disclosure.NoVerdict, 1, "invalid"},
		{"what was set is no good", nil, &drivers{}, fault.New(fault.Config, "disk full"), disclosure.Failed, disclosure.NoVerdict, 1, "invalid"},
		{"the target died", []conform.Judgement{passes}, &drivers{}, fault.New(fault.Target, "killed"), disclosure.Failed, disclosure.InvalidRun, 2, "invalid"},
		{"the driver died", []conform.Judgement{fails}, &drivers{}, fault.New(fault.Driver, "killed"), disclosure.Failed, disclosure.InvalidRun, 2, "invalid"},
		{"nobody knows", []conform.Judgement{fails}, &drivers{}, errors.New("odd"), disclosure.Failed, disclosure.InvalidRun, 2, "invalid"},
		{"the target failed and died", []conform.Judgement{fails}, &drivers{}, fault.New(fault.Target, "killed"), disclosure.Failed, disclosure.DoesNotPass, 3, "note"},
	}
	for _, tt := range tests {
		b := &bench{doc: &disclosure.Document{}, drivers: tt.drivers}
		for i, j := range tt.proofs {
			b.doc.Iterations = append(b.doc.Iterations, disclosure.Iteration{Number: i + 1, Scored: true})
			b.proofs = append(b.proofs, proof{i + 1, j})
		}
		v := &b.doc.Verdict
		v.Word, v.Score, v.Load, v.MedianIteration, b.doc.Run.Comparable = disclosure.Passes, 100, 100, 2, true
		b.conclude(tt.err)
		if b.doc.State != tt.state || v.Word != tt.word || v.ExitCode != tt.code || v.Words == "" {
			t.Errorf("%s: state %q, %+v", tt.name, b.doc.State, *v)
		}
		if v.Score != 0 || v.MedianIteration != 0 || b.doc.Run.Comparable {
			t.Errorf("%s: a score is left: %+v", tt.name, *v)
		}
		for _, it := range b.doc.Iterations {
			if it.Scored {
				t.Errorf("%s: iteration %d is scored", tt.name, it.Number)
			}
		}
		effect := ""
		for _, r := range v.Reasons {
			if r.Code == "run_ended_early" {
				effect = r.Effect
			}
		}
		if effect != tt.effect {
			t.Errorf("%s: the end has the effect %q, want %q (%+v)", tt.name, effect, tt.effect, v.Reasons)
		}
	}
}
