package live

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/run"
)

// speak sends the events of a small run to a display and returns what it wrote, times taken out.
func speak(o Options) string {
	var b strings.Builder
	d := New(&b, o)
	e := d.Events()
	e.Phase(run.PhaseFiles, "20 directories")
	e.Progress(run.PhaseFiles, 0.5, "100 MB/s")
	e.StepBegan(run.Began{Kind: "trial", Number: 1, Load: 500, Length: 5 * time.Second})
	e.Second(run.Second{Load: 500, Running: 480, OpsPerSec: 1500, KbitPerSlot: 390, LatePercent: 0.1, FailedPerSec: 2})
	e.StepEnded(disclosure.Step{Kind: "trial", Load: 500, Verdict: "fail", Conforming: 400, Percent: 80, OpsPerSec: 1500, KbitPerSlot: 300, Why: "too slow"})
	e.Note("a remark")
	d.Close()
	return regexp.MustCompile(` *\d+\.\ds  `).ReplaceAllString(b.String(), "T ")
}

func TestPlainLinesWithoutATerminal(t *testing.T) {
	want := `T file set: 20 directories
T trial         500 connections: fail, 400 conform (80.0 %), 1500 ops/s, 300.0 kbit/s each
         too slow
T note: a remark
`
	if got := speak(Options{}); got != want {
		t.Errorf("wrote\n%s\nwant\n%s", got, want)
	}
}

func TestStatusLineOnATerminal(t *testing.T) {
	got := speak(Options{Terminal: true, Color: true})
	for _, part := range []string{
		"\r\x1b[KT file set [============            ] 100 MB/s",
		"trial 1: 480 of 500 connections, 1500 ops/s, 390 kbit/s each, late 0.10 %, 2 errors/s",
		"\x1b[31mfail\x1b[0m",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q does not hold %q", got, part)
		}
	}
	if strings.Contains(speak(Options{Terminal: true}), "\x1b[31m") {
		t.Error("coloured although colour is off")
	}
}

func TestQuietWritesNothing(t *testing.T) {
	if got := speak(Options{Quiet: true, Terminal: true}); got != "" {
		t.Errorf("wrote %q", got)
	}
}
