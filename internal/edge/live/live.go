// Package live shows a run while it is under way: a status line that is redrawn on a terminal, plain lines
// otherwise.
//
// Make a Display with [New], give its Events to the run and Close it at the end. A [Bar] shows work of known size.
// The package only writes; nothing it shows is kept anywhere else.
package live

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/run"
)

// Options of a display.
type Options struct {
	Terminal bool // the writer is a terminal
	Quiet    bool // write nothing
	Color    bool // the terminal may be coloured
}

// Display writes the events of a run. Its methods may be called from any goroutine.
type Display struct {
	o  Options
	mu sync.Mutex
	w  io.Writer

	began   time.Time
	step    *run.Began
	stepAt  time.Time
	status  bool // a status line stands unfinished on the terminal
	lastBar time.Time
}

// New makes a display on w.
func New(w io.Writer, o Options) *Display {
	if o.Quiet {
		w = io.Discard
	}
	return &Display{o: o, w: w, began: time.Now()}
}

// Events returns the functions to give to the run.
func (d *Display) Events() run.Events {
	return run.Events{
		Phase: func(phase, text string) {
			d.line("%s: %s", phase, text)
		},
		Progress: func(phase string, done float64, text string) {
			d.progress(phase, done, text)
		},
		Note: func(text string) { d.line("note: %s", text) },
		StepBegan: func(b run.Began) {
			d.mu.Lock()
			d.step, d.stepAt = &b, time.Now()
			d.mu.Unlock()
			if d.o.Terminal {
				d.redraw(fmt.Sprintf("%s %d: %d connections", b.Kind, b.Number, b.Load))
			}
		},
		Second:    d.second,
		StepEnded: d.ended,
	}
}

// Close ends an open status line.
func (d *Display) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
}

func (d *Display) clear() {
	if d.status {
		fmt.Fprint(d.w, "\r\x1b[K")
		d.status = false
	}
}

func (d *Display) line(format string, a ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clear()
	fmt.Fprintf(d.w, "%6.1fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, a...))
}

func (d *Display) redraw(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.w, "\r\x1b[K%6.1fs  %s", time.Since(d.began).Seconds(), text)
	d.status = true
}

func (d *Display) progress(phase string, done float64, text string) {
	d.mu.Lock()
	due := time.Since(d.lastBar) > 100*time.Millisecond
	if due {
		d.lastBar = time.Now()
	}
	d.mu.Unlock()
	if d.o.Terminal && due {
		d.redraw(strings.TrimSpace(fmt.Sprintf("%s %s %s", phase, bar(done, 24), text)))
	}
}

func (d *Display) second(s run.Second) {
	d.mu.Lock()
	step, at := d.step, d.stepAt
	d.mu.Unlock()
	if step == nil {
		return
	}
	text := fmt.Sprintf("%s %d: %d of %d connections, %.0f ops/s, %.0f kbit/s each, late %.2f %%",
		step.Kind, step.Number, s.Running, s.Load, s.OpsPerSec, s.KbitPerSlot, s.LatePercent)
	if s.FailedPerSec > 0 {
		text += fmt.Sprintf(", %.0f errors/s", s.FailedPerSec)
	}
	if d.o.Terminal {
		d.redraw(fmt.Sprintf("%s %s", bar(float64(time.Since(at))/float64(step.Length), 16), text))
	}
}

func (d *Display) ended(s disclosure.Step) {
	d.mu.Lock()
	d.step = nil
	d.mu.Unlock()
	text := fmt.Sprintf("%-10s %6d connections: %s, %d conform (%.1f %%), %.0f ops/s, %.1f kbit/s each",
		s.Kind, s.Load, d.paint(s.Verdict), s.Conforming, s.Percent, s.OpsPerSec, s.KbitPerSlot)
	if s.Verdict != "pass" && s.Why != "" {
		text += "\n         " + s.Why
	}
	d.line("%s", text)
}

// paint colours a verdict; the word itself says the same without colour.
func (d *Display) paint(verdict string) string {
	if !d.o.Terminal || !d.o.Color {
		return verdict
	}
	code := map[string]string{"pass": "32", "fail": "31", "invalid": "33", "driver limit": "33"}[verdict]
	if code == "" {
		return verdict
	}
	return "\x1b[" + code + "m" + verdict + "\x1b[0m"
}

func bar(done float64, width int) string {
	done = min(max(done, 0), 1)
	full := int(done*float64(width) + 0.5)
	return "[" + strings.Repeat("=", full) + strings.Repeat(" ", width-full) + "]"
}

// Bar shows work of known size. Set may be called from any goroutine.
type Bar struct{ d *Display }

// NewBar makes a bar on w.
func NewBar(w io.Writer, o Options) *Bar { return &Bar{New(w, o)} }

// Set shows a share from 0 to 1 and a text.
func (b *Bar) Set(done float64, text string) { b.d.progress("", done, text) }

// Close removes the bar.
func (b *Bar) Close() { b.d.Close() }
