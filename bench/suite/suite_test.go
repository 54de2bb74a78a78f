package suite

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestClientsOutputs(t *testing.T) {
	const h2load = `starting benchmark...
finished in 2.05s, 41234.50 req/s, 589.13MB/s
requests: 82469 total, 82533 started, 82469 done, 82460 succeeded, 9 failed, 9 errored, 0 timeout
status codes: 82469 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 1.15GB (1235495424) total, 15.40MB (16143968) headers (space savings 0.00%), 1.13GB (1217232384) data
`
	for name, c := range map[string]struct {
		parse  func([]byte) (Tally, error)
		output string
		want   Tally
		fault  string // part of
		fails  bool
	}{
		"json":             {parseJSON, "Running 1s test\n{\"requests\": 9, \"seconds\": 1.5, \"bytes\": 70}\n", Tally{Requests: 9, Seconds: 1.5, Bytes: 70}, "", false},
		"closed early":     {parseJSON, `{"requests": 9, "seconds": 1, "reconnects": 2}`, Tally{Requests: 9, Seconds: 1}, "2 connections closed early", false},
		"wrong length":     {parseJSON, `{"requests": 9, "seconds": 1, "bad_length": 3}`, Tally{Requests: 9, Seconds: 1}, "3 wrong lengths", false},
		"said by itself":   {parseJSON, `{"requests": 9, "seconds": 1, "fault": "reset"}`, Tally{Requests: 9, Seconds: 1}, "reset", false},
		"no result":        {parseJSON, "connect: Connection refused\n", Tally{}, "", true},
		"h2load":           {parseH2load, h2load, Tally{Requests: 82469, Seconds: 2.05, Bytes: 1235495424}, "9 requests failed", false},
		"h2load, no start": {parseH2load, "could not resolve\n", Tally{}, "", true},
	} {
		got, err := c.parse([]byte(c.output))
		if (err != nil) != c.fails {
			t.Errorf("%s: error %v", name, err)
		}
		if !strings.Contains(got.Fault, c.fault) || c.fault == "" && got.Fault != "" {
			t.Errorf("%s: fault %q, want %q", name, got.Fault, c.fault)
		}
		got.Fault = ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCarriersOfPackets(t *testing.T) {
	root := fstest.MapFS{
		"proc/14/comm": {Data: []byte("ksoftirqd/0\n")}, "proc/14/schedstat": {Data: []byte("2000000000 7 9\n")},
		"proc/22/comm": {Data: []byte("ksoftirqd/1\n")}, "proc/22/schedstat": {Data: []byte("500000000 1 1\n")},
		"proc/30/comm": {Data: []byte("my-ksoftirqd/0\n")}, "proc/30/schedstat": {Data: []byte("900 1 1\n")},
		"proc/31/comm": {Data: []byte("ksoftirqd/2\n")}, "proc/31/schedstat": {Data: []byte("900 1 1\n")},
		"proc/stat": {Data: []byte("cpu 1\n")},
	}
	pids := carriers(root, 0, 1)
	if diff := cmp.Diff([]int{14, 22}, pids); diff != "" {
		t.Error(diff)
	}
	if got := used(root, append(pids, 99)); got != 2500*time.Millisecond { // 99 has ended
		t.Errorf("used %v", got)
	}
}

func TestCoreLoad(t *testing.T) {
	read := func(line string) core {
		t.Helper()
		c, err := readCore(fstest.MapFS{"proc/stat": {Data: []byte("cpu  9 9 9 9 9 9 9 9 9 0\ncpu0 8 8 8 8 8 8 8 8 8 0\n" + line + "\n")}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before, now := read("cpu1 0 0 0 100 10 0 0 5 0 0"), read("cpu1 50 0 50 115 15 0 0 15 0 0")
	now.at = before.at.Add(time.Second)
	// Of one second 0.2 idle and waiting, 0.1 stolen, 0.55 our own: 0.15 is left.
	got := now.since(before, 550*time.Millisecond)
	for name, v := range map[string][2]float64{"own": {got.Own, 0.55}, "steal": {got.Steal, 0.1}, "foreign": {got.Foreign, 0.15}} {
		if d := v[0] - v[1]; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s: %g, want %g", name, v[0], v[1])
		}
	}
	if why := got.dirty(0.12); !strings.Contains(why, "15 % by other processes") {
		t.Errorf("dirty: %q", why)
	}
	if why := (Load{Steal: 0.2}).dirty(0.12); !strings.Contains(why, "20 % stolen") {
		t.Errorf("dirty: %q", why)
	}
	if why := (Load{Own: 1, Foreign: 0.05, Steal: 0.05}).dirty(0.12); why != "" {
		t.Errorf("dirty: %q", why)
	}
	if _, err := readCore(fstest.MapFS{"proc/stat": {Data: []byte("cpu0 1 2 3 4 5 6 7 8 9 0\n")}}, 1); err == nil {
		t.Error("a core that is not there was read")
	}
}

func TestGoals(t *testing.T) {
	all := []*Outcome{{
		Name: "s", Client: "light", Reference: "nginx",
		Pairs: map[string][]Pair{
			"we":  {{0, 0.5, 2}, {1, 0.7, 1.5}, {2, 0.6, 1.8}, {3, 9, 9}},
			"h2o": {{0, 2, 1}, {1, 0.5, 1}, {2, 0.8, 1}}, // round 3 was given up
		},
	}}
	for name, c := range map[string]struct {
		goal Goal
		want Spread
		say  string
	}{
		"aim":          {Goal{Scenario: "s", Lane: "h2o", Must: 1, Aim: 0.8}, Spread{0.8, 0.5, 2, 3}, "aim"},
		"must":         {Goal{Scenario: "s", Lane: "we", Must: 0.65, Aim: 0.5}, Spread{0.65, 0.5, 9, 4}, "must"},
		"missed":       {Goal{Scenario: "s", Lane: "we", Must: 0.6, Aim: 0.5}, Spread{0.65, 0.5, 9, 4}, "missed"},
		"rate":         {Goal{Scenario: "s", Lane: "we", Rate: true, Must: 1.5, Aim: 2}, Spread{1.9, 1.5, 9, 4}, "must"},
		"better of":    {Goal{Scenario: "s", Lane: "we", BetterOf: "h2o", Must: 1, Aim: 0.7}, Spread{0.75, 0.5, 1.4, 3}, "must"},
		"not measured": {Goal{Scenario: "other", Lane: "we"}, Spread{}, "not measured"},
		"no such lane": {Goal{Scenario: "s", Lane: "Caddy"}, Spread{}, "not measured"},
	} {
		got := c.goal.figure(all)
		const tiny = 1e-9
		near := func(a, b float64) bool { return a-b < tiny && b-a < tiny }
		if !near(got.Median, c.want.Median) || !near(got.Low, c.want.Low) || !near(got.High, c.want.High) || got.N != c.want.N || got.Verdict != c.say {
			t.Errorf("%s: %+v, want %+v, %s", name, got, c.want, c.say)
		}
	}
}

func TestOptions(t *testing.T) {
	o, err := parse([]string{"--short", "--only=^mix", "--server-core=3", "--sample=1500ms"}, Job{})
	if err != nil || o.Rounds != 3 || o.Sample != 1500*time.Millisecond || o.ServerCPU != 3 || !o.Only.MatchString("mix-64") || o.Only.MatchString("remix") {
		t.Errorf("%+v, %v", o, err)
	}
	for _, bad := range []string{"--fast", "--rounds=many", "--rounds=0", "--server-core=0", "--only=(", "--sample=2"} {
		if _, err := parse([]string{bad}, Job{}); !errors.Is(err, errUsage) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestThousands(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 999.4: "999", 999.6: "1,000", 1234567: "1,234,567"} {
		if got := thousands(v); got != want {
			t.Errorf("%g: %q", v, got)
		}
	}
}
