package suite

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/engine/sysinfo"
)

func TestRunIsJudgedByItsWindows(t *testing.T) {
	late := []disclosure.Reason{{Effect: "not_passing", Text: "slow"}, {Effect: "invalid", Text: "late"}}
	good := func(cpu float64) Window { return Window{Attempt: 1, Valid: true, Ops: 1000, DriverSeconds: cpu} }
	bad := func(attempt int) Window {
		return Window{Attempt: attempt, Ops: 1000, DriverSeconds: 9, Reasons: late}
	}
	for name, c := range map[string]struct {
		windows []Window
		valid   bool
		micro   float64
	}{
		"valid":         {[]Window{good(1), good(3), good(2)}, true, 2000},
		"repeated":      {[]Window{good(1), bad(1), {Attempt: 2, Valid: true, Ops: 1000, DriverSeconds: 3}, good(2)}, true, 2000},
		"never valid":   {[]Window{bad(1), bad(2), bad(3)}, false, 9000},
		"ends invalid":  {[]Window{good(1), bad(1)}, false, 1000},
		"bad then good": {[]Window{bad(1), good(2)}, false, 2000}, // the next proof is no repetition
		"none":          {nil, false, 0},
	} {
		r := &Run{Iterations: c.windows}
		if got := r.Of((*Window).Driver); r.Valid() != c.valid || got != c.micro {
			t.Errorf("%s: valid %v, %g us", name, r.Valid(), got)
		}
		if why := r.Why(); strings.Contains(name, "valid") && name != "valid" && why != "late" {
			t.Errorf("%s: %q", name, why)
		}
	}
}

func TestWatchJudgesAWindow(t *testing.T) {
	begun := time.Unix(1000, 0)
	w := &Watch{}
	for i := range 11 { // from second 5 on somebody uses half a core; a fifth is ours all the time
		d := time.Duration(i) * time.Second
		foreign := max(0, d-5*time.Second) / 2
		c := core{at: begun.Add(d), idle: d - d/5 - foreign}
		w.moments = append(w.moments, moment{cores: [2]core{c, {at: c.at, idle: d}}, own: d / 5})
	}
	at := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	for name, c := range map[string]struct {
		from, to int
		foreign  float64
	}{"quiet": {1, 4, 0}, "noisy": {6, 9, 0.5}, "half": {3, 7, 0.25}, "before all": {-5, -1, 0}} {
		got := w.Load(at(c.from), at(c.to))
		if d := got.Foreign - c.foreign; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAnonymousMemory(t *testing.T) {
	root := fstest.MapFS{"proc/7/status": {Data: []byte("Name:\tx\nVmRSS:\t 900 kB\nRssAnon:\t  40 kB\nRssFile:\t 1 kB\n")}}
	if n, ok := anonymous(root, 7); !ok || n != 40960 {
		t.Errorf("%d, %v", n, ok)
	}
	if _, ok := anonymous(root, 8); ok {
		t.Error("a process that is not there has memory")
	}
}

func TestReport(t *testing.T) {
	r := Report{Head: Head{Name: "x", Host: &sysinfo.Host{}, Made: time.Unix(0, 0).UTC()}, Plots: map[string][]byte{"-a.svg": nil}}
	r.Goals = []Reached{
		Reached{Measure: "slots", Unit: "slots", Must: 12000, Aim: 18000, More: true}.Judge(Median([]float64{13000, 12000, 19000})),
		Reached{Measure: "cost", Unit: "ratio", Must: 0.65, Aim: 0.5}.Judge(Median([]float64{0.7})),
		Reached{Measure: "none", Unit: "ratio", Must: 1, Aim: 1}.Judge(Median(nil)),
	}
	r.Tables = []Table{{Title: "T", Columns: []string{"a", "b"}, Rows: [][]string{{"1", "two\nlines"}}, Plots: []string{"-a.svg", "-missing.svg"}}}
	var b strings.Builder
	r.Markdown(&b)
	for _, want := range []string{
		"| slots, slots | at least 12,000 | 18,000 | **13,000** [12,000-19,000] | 3 | must |",
		"| cost, ratio | at most 0.65 | 0.50 | **0.70** [0.70-0.70] | 1 | missed |",
		"| none, ratio | at most 1.00 | 1.00 | - | 0 | not measured |",
		"| a | b |\n|---|---|\n| 1 | two lines |\n",
		"![T](x-1970-01-01-a.svg)",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "missing") {
		t.Error("a plot that was not made is shown")
	}
}
