package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidemark.dev/bench/suite"
)

func TestOptions(t *testing.T) {
	s := defaults()
	for _, o := range [][2]string{{"connections", "10,20"}, {"sets", "10MB,2GB"}, {"sizes", "100,10KB,1MB"}, {"idle", "500"}} {
		if known, err := s.option(o[0], o[1]); !known || err != nil {
			t.Errorf("%v: %v, %v", o, known, err)
		}
	}
	want := &scaling{connections: []int64{10, 20}, sets: []int64{10e6, 2e9}, sizes: []int64{100, 10240, 1 << 20}, idle: 500}
	if diff := cmp.Diff(want, s, cmp.AllowUnexported(scaling{})); diff != "" {
		t.Error(diff)
	}
	for _, bad := range [][2]string{{"sets", "10" + "TB"}, {"sizes", ""}, {"connections", "0"}, {"idle", "10"}, {"idle", "500,600"}, {"sizes", "1K"}} {
		if _, err := s.option(bad[0], bad[1]); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
	if known, _ := s.option("fast", ""); known {
		t.Error("an option that does not exist is known")
	}
}

// Names are unique, as --only and the tables find scenarios by them.
func TestScenarios(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range defaults().all() {
		if len(c.at) != len(c.scenarios) || len(c.at) == 0 {
			t.Errorf("%s: %d places, %d scenarios", c.name, len(c.at), len(c.scenarios))
		}
		for _, sc := range c.scenarios {
			if seen[sc.Name] {
				t.Errorf("%s twice", sc.Name)
			}
			seen[sc.Name] = true
		}
	}
	for _, want := range []string{"connections-18000", "short-1000", "set-4GB-cold", "set-100MB-warm", "size-104857600"} {
		if !seen[want] {
			t.Errorf("no %s", want)
		}
	}
}

func TestSeriesOfWhatWasMeasured(t *testing.T) {
	sample := func(server string, cpu float64) suite.Sample {
		return suite.Sample{Lane: server, Server: server, ServerSeconds: cpu, Tally: suite.Tally{Requests: 1000, Seconds: 1}}
	}
	bad := sample("tidemark", 99)
	bad.Discarded = "noise"
	r := &result{plots: map[string][]byte{}, Document: &suite.Document{Scenarios: []*suite.Outcome{{
		Name: "connections-10", Client: "light", Reference: "nginx", Lanes: []string{"tidemark"},
		Pairs:   map[string][]suite.Pair{"tidemark": {{CPU: 0.5}}},
		Samples: []suite.Sample{sample("nginx", 0.02), sample("tidemark", 0.01), bad},
	}}}}
	for _, c := range defaults().all() {
		if err := r.series(c); err != nil {
			t.Fatal(err)
		}
	}
	if len(r.tables) != 1 || len(r.plots) != 1 {
		t.Fatalf("%d tables, %d plots", len(r.tables), len(r.plots))
	}
	if diff := cmp.Diff([][]string{{"10", "**20.0** [20.0-20.0]", "**10.0** [10.0-10.0]", "**0.50** [0.50-0.50]"}}, r.tables[0].Rows); diff != "" {
		t.Error(diff)
	}
	if svg := string(r.plots["-connections.svg"]); !strings.Contains(svg, "tidemark, 10: 10 [10-10]") {
		t.Error(svg)
	}
}

func TestMemoryIsADifference(t *testing.T) {
	m := memory{Few: 100, Many: 1100, Less: 5_000_000, More: 6_024_000}
	if m.each(); m.Each != 1024 {
		t.Errorf("%g", m.Each)
	}
}
