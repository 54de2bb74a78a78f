package disclosure

import (
	"fmt"
	"slices"
	"time"
)

// Partial reports whether the run did not come to its end.
func (d *Document) Partial() bool { return d.State != Complete }

// Iteration returns the iteration of that number, or nil.
func (d *Document) Iteration(number int) *Iteration {
	for i := range d.Iterations {
		if d.Iterations[i].Number == number {
			return &d.Iterations[i]
		}
	}
	return nil
}

// Scored returns the iterations the score was taken from, in order.
func (d *Document) Scored() (its []*Iteration) {
	for i := range d.Iterations {
		if d.Iterations[i].Scored {
			its = append(its, &d.Iterations[i])
		}
	}
	return its
}

type checker struct{ found []string }

func (c *checker) say(ok bool, format string, a ...any) {
	if !ok {
		c.found = append(c.found, fmt.Sprintf(format, a...))
	}
}

// Check returns what is wrong with the shape of a document: parts missing, numbers out of range, references to
// iterations that are not there, a verdict that contradicts itself. It returns nil for a sound document. Partial
// documents are sound.
func Check(d *Document) []string {
	c := &checker{}
	if err := checkSchema(d.Schema, Schema); err != nil {
		c.say(false, "%v", err)
	}
	c.say(slices.Contains([]string{Complete, Running, Interrupted, Failed}, d.State), "state %q is none of the four", d.State)
	c.say(d.Tool.Name != "" && d.Tool.Version != "", "tool: name or version is missing")
	c.say(d.Run.ID != "", "run: id is missing")
	c.say(d.Run.Workload != "" && d.Run.Profile != "", "run: workload or profile is missing")
	c.say(slices.Contains([]string{"local", "remote"}, d.Run.Topology), "run: topology %q is neither local nor remote", d.Run.Topology)
	c.time("run.started_at", d.Run.StartedAt, false)
	c.time("run.finished_at", d.Run.FinishedAt, d.State != Complete)
	c.say(!d.Run.Comparable || len(d.Run.Incomparable) == 0, "run: comparable and yet with reasons why not")
	c.say(!d.Run.Comparable || !d.Run.Estimate, "run: both comparable and an estimate")
	c.verdict(d)
	numbers := map[int]bool{}
	last := 0
	for i := range d.Iterations {
		it := &d.Iterations[i]
		c.say(it.Number > last, "iteration %d follows %d", it.Number, last)
		last = it.Number
		numbers[it.Number] = true
		c.iteration(it)
	}
	if s := d.Search; s != nil {
		c.say(s.Min >= 0 && s.Max >= s.Min, "search: bounds %d to %d", s.Min, s.Max)
		for _, step := range s.Steps {
			c.say(step.Iteration == 0 || numbers[step.Iteration], "step %d: iteration %d is not there", step.Number, step.Iteration)
			c.say(step.Load > 0 && step.Conforming >= 0 && step.Conforming <= step.Load,
				"step %d: %d conform of %d", step.Number, step.Conforming, step.Load)
		}
	}
	for _, h := range d.Hosts {
		for _, f := range h.Facts {
			set := 0
			for _, is := range []bool{f.Text != nil, f.Number != nil, f.Flag != nil} {
				if is {
					set++
				}
			}
			c.say(set == 1, "host %s: fact %s/%s holds %d values", h.Name, f.Group, f.Name, set)
		}
	}
	return c.found
}

func (c *checker) time(key, value string, optional bool) {
	if value == "" && optional {
		return
	}
	_, err := time.Parse(time.RFC3339Nano, value)
	c.say(err == nil, "%s: %q is no RFC 3339 time", key, value)
}

func (c *checker) verdict(d *Document) {
	v := &d.Verdict
	c.say(slices.Contains([]string{Passes, DoesNotPass, BrokeRules, InvalidRun, NoVerdict}, v.Word), "verdict: unknown word %q", v.Word)
	c.say(slices.Contains([]int{0, 1, 2, 3, 4, 130}, v.ExitCode), "verdict: unknown exit code %d", v.ExitCode)
	c.say(v.Words != "", "verdict: words are missing")
	c.say(v.Word != NoVerdict || d.Partial(), "verdict: none, in a complete document")
	if v.Word != Passes {
		c.say(v.Score == 0, "verdict: a score of %d without passing", v.Score)
		return
	}
	c.say(v.Score > 0 && v.Score <= v.Load, "verdict: score %d at load %d", v.Score, v.Load)
	it := d.Iteration(v.MedianIteration)
	if it == nil {
		c.say(false, "verdict: median iteration %d is not there", v.MedianIteration)
		return
	}
	c.say(it.Scored && it.Conforming == v.Score && it.Requested == v.Load,
		"verdict: score %d at %d, but iteration %d shows %d of %d", v.Score, v.Load, it.Number, it.Conforming, it.Requested)
	for _, it := range d.Scored() {
		c.say(it.Valid && it.Passing, "verdict: passes, but iteration %d does not", it.Number)
	}
}

func (c *checker) iteration(it *Iteration) {
	n := it.Number
	c.time(fmt.Sprintf("iteration %d: started_at", n), it.StartedAt, false)
	c.say(it.Window > 0, "iteration %d: window of %v s", n, it.Window)
	c.say(it.Requested >= 0 && it.Conforming >= 0 && it.Conforming <= it.Requested, "iteration %d: %d conform of %d", n, it.Conforming, it.Requested)
	c.say(it.Percent >= 0 && it.Percent <= 100, "iteration %d: %v percent conform", n, it.Percent)
	c.say(it.ErrorPercent >= 0 && it.ErrorPercent <= 100, "iteration %d: %v percent failed", n, it.ErrorPercent)
	c.say(!it.Passing || it.Valid, "iteration %d: passing, but not valid", n)
	c.say(it.Valid || len(it.Reasons) > 0, "iteration %d: not valid, and no reason", n)
	spreads := []*Spread{&it.Raw, it.Adjusted}
	for _, s := range spreads {
		if s == nil || len(s.Counts) == 0 {
			continue
		}
		sum := 0
		for _, k := range s.Counts {
			sum += k
		}
		c.say(sum == it.Requested, "iteration %d: bins hold %d of %d slots", n, sum, it.Requested)
	}
	for _, set := range [][]Latency{it.Latency, it.TTFB} {
		for i := range set {
			l := &set[i]
			if l.Count == 0 {
				continue
			}
			q := []float64{l.Min, l.P50, l.P75, l.P90, l.P95, l.P99, l.P999, l.P9999, l.Max}
			c.say(slices.IsSorted(q), "iteration %d: percentiles of %s do not ascend", n, l.Kind)
		}
	}
	if o := it.Overview; o != nil {
		for _, s := range [][]float64{o.FailPerSec, o.KbitPerSlot, o.LatePercent, o.Open} {
			c.say(len(s) == len(o.OpsPerSec), "iteration %d: series of different lengths", n)
		}
	}
}
