package run

import (
	"slices"
	"testing"

	"tidemark.dev/internal/drive/slot"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/search"
)

func TestSplitCPUs(t *testing.T) {
	tests := []struct {
		all             []int
		server          bool
		target, drivers []int
	}{
		{[]int{0, 1}, true, []int{1}, []int{0}},
		{[]int{0, 1, 2}, true, []int{2}, []int{0, 1}},
		{[]int{2, 3, 6, 7}, true, []int{6, 7}, []int{2, 3}},
		{[]int{5}, true, []int{5}, []int{5}}, // one CPU is shared
		{[]int{0, 1}, false, nil, []int{0, 1}},
	}
	for _, tt := range tests {
		target, drivers := splitCPUs(tt.all, tt.server)
		if !slices.Equal(target, tt.target) || !slices.Equal(drivers, tt.drivers) {
			t.Errorf("CPUs %v, server %v: %v and %v, want %v and %v", tt.all, tt.server, target, drivers, tt.target, tt.drivers)
		}
	}
}

func TestAgentCPUs(t *testing.T) {
	for _, tt := range []struct {
		cpus []int
		i, n int
		want []int
	}{
		{[]int{0, 1, 2, 3}, 0, 2, []int{0, 1}},
		{[]int{0, 1, 2, 3}, 1, 2, []int{2, 3}},
		{[]int{0, 1, 2}, 1, 2, []int{1, 2}},
		{[]int{4}, 1, 3, []int{4}}, // more agents than CPUs share them
		{nil, 0, 1, nil},
	} {
		if got := agentCPUs(tt.cpus, tt.i, tt.n); !slices.Equal(got, tt.want) {
			t.Errorf("agent %d of %d on %v: %v, want %v", tt.i, tt.n, tt.cpus, got, tt.want)
		}
	}
}

func TestOutcomeOf(t *testing.T) {
	late := []conform.Reason{{Effect: conform.Invalid, Origin: fault.Driver, Code: "late_share"}}
	clock := []conform.Reason{{Effect: conform.Invalid, Origin: fault.Network}}
	trial := func(attempt int) search.Step { return search.Step{Kind: search.Trial, Attempt: attempt} }
	proof := func(attempt int) search.Step { return search.Step{Kind: search.Proof, Attempt: attempt} }
	tests := []struct {
		name string
		load int // fixed
		step search.Step
		j    conform.Judgement
		want search.Verdict
	}{
		{"passes", 0, trial(1), conform.Judgement{Valid: true, Passing: true}, search.Pass},
		{"fails", 0, trial(1), conform.Judgement{Valid: true}, search.Fail},
		{"a late trial is tried again", 0, trial(1), conform.Judgement{Reasons: late, LateShare: 0.02}, search.Invalid},
		{"late twice is too much", 0, trial(2), conform.Judgement{Reasons: late, LateShare: 0.02}, search.DriverLimit},
		{"very late is too much at once", 0, trial(1), conform.Judgement{Reasons: late, LateShare: 0.2}, search.DriverLimit},
		{"a proof is repeated twice", 0, proof(2), conform.Judgement{Reasons: late, LateShare: 0.2}, search.Invalid},
		{"then it is too much", 0, proof(3), conform.Judgement{Reasons: late, LateShare: 0.2}, search.DriverLimit},
		{"a given load is never called too much", 500, proof(3), conform.Judgement{Reasons: late, LateShare: 0.2}, search.Invalid},
		{"what is not the driver's says nothing about the load", 0, trial(2), conform.Judgement{Reasons: clock}, search.Invalid},
	}
	for _, tt := range tests {
		b := &bench{o: Options{Load: tt.load}}
		if got := b.outcomeOf(tt.step, &tt.j); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestARepeatedProofTakesThePlaceOfTheInvalidOne(t *testing.T) {
	b := &bench{}
	of := func(number int, valid bool) proof {
		return proof{number, conform.Judgement{Requested: 100, Valid: valid}}
	}
	b.proved(of(1, true), 1)
	b.proved(of(2, false), 1)
	b.proved(of(3, true), 2)
	b.proved(of(4, true), 1)
	var numbers []int
	for _, p := range b.proofs {
		numbers = append(numbers, p.number)
	}
	if !slices.Equal(numbers, []int{1, 3, 4}) {
		t.Errorf("proofs %v are judged, want 1, 3 and 4", numbers)
	}
}

func TestSeriesAddsAgentsUp(t *testing.T) {
	part := func(ops ...uint32) collected {
		r := &slot.Result{}
		for _, n := range ops {
			r.Series = append(r.Series, slot.Second{Ops: n, Open: 10, Bits: 8})
		}
		return collected{Result: r}
	}
	got := series(3, []collected{part(5, 6), part(7, 8, 9)})
	if len(got) != 3 {
		t.Fatalf("%d seconds, want 3", len(got))
	}
	for i, want := range []uint64{12, 14, 9} {
		if s := got[i]; s.Ops != want || s.Second != i || s.Iteration != 3 {
			t.Errorf("second %d: %+v, want %d operations", i, s, want)
		}
	}
	if got[0].Open != 20 || got[0].Bits != 16 {
		t.Errorf("second 0: %+v", got[0])
	}
}

func TestProfiles(t *testing.T) {
	if got := ProfileNames(); !slices.Equal(got, []string{"quick", "standard", "full"}) {
		t.Errorf("profiles %v", got)
	}
	for _, name := range ProfileNames() {
		p, err := ProfileNamed(name)
		if err != nil || p.Name != name || p.Window <= 0 || p.Trial <= 0 || p.Fail <= 0 || p.Width <= 0 || p.MaxTrials <= 0 {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	if _, err := ProfileNamed("swift"); fault.OriginOf(err) != fault.Config {
		t.Errorf("an unknown profile gives %v", err)
	}
}
