package record

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/model/conform"
)

// Difference is a figure that does not come out as the document says.
type Difference struct {
	Iteration int    // number, 0 for the run as a whole
	Key       string // key of the document
	Saved     string
	Computed  string
}

func (d Difference) String() string {
	where := "run"
	if d.Iteration > 0 {
		where = fmt.Sprintf("iteration %d", d.Iteration)
	}
	return fmt.Sprintf("%s: %s: saved %s, computed %s", where, d.Key, d.Saved, d.Computed)
}

// Setting returns what the document says about the setting of the run.
func Setting(d *disclosure.Document) conform.Setting {
	return conform.Setting{
		Full: d.Run.Profile == "full", Overrides: d.Configuration.Overrides,
		Local: d.Run.Topology == "local", MTU: d.Configuration.Drivers.MTU,
	}
}

// Recheck judges every iteration of d again from its slot records, and the run from its iterations. It returns nil
// when everything comes out as saved.
func Recheck(d *disclosure.Document, slots []disclosure.SlotRecord) []Difference {
	rule := ToRule(d.Configuration.Rule)
	var c comparer
	var scored []conform.Judgement
	var numbers []int
	for i := range d.Iterations {
		saved := &d.Iterations[i]
		it := ToIteration(saved, slots)
		j := conform.Judge(rule, it)
		c.iteration = saved.Number
		computed := FromIteration(it, &j, rule)
		c.compareIteration(saved, &computed)
		if saved.Scored {
			scored, numbers = append(scored, j), append(numbers, saved.Number)
		}
	}
	c.iteration = 0
	if d.Verdict.Word != disclosure.Passes {
		c.say("verdict.score_connections", d.Verdict.Score == 0, d.Verdict.Score, 0)
		return c.found
	}
	s := conform.Summarize(Setting(d), scored)
	c.say("verdict.score_connections", d.Verdict.Score == s.Score, d.Verdict.Score, s.Score)
	c.say("verdict.load_connections", d.Verdict.Load == s.Load, d.Verdict.Load, s.Load)
	c.say("verdict.exit_code", d.Verdict.ExitCode == s.ExitCode, d.Verdict.ExitCode, s.ExitCode)
	c.say("run.comparable", d.Run.Comparable == s.Comparable, d.Run.Comparable, s.Comparable)
	if s.Median >= 0 {
		c.say("verdict.median_iteration_number", d.Verdict.MedianIteration == numbers[s.Median], d.Verdict.MedianIteration, numbers[s.Median])
	}
	return c.found
}

type comparer struct {
	iteration int
	found     []Difference
}

func (c *comparer) say(key string, same bool, saved, computed any) {
	if !same {
		c.found = append(c.found, Difference{c.iteration, key, fmt.Sprint(saved), fmt.Sprint(computed)})
	}
}

// number compares figures; nine digits agree when the same integers were summed.
func (c *comparer) number(key string, saved, computed float64) {
	c.say(key, math.Abs(saved-computed) <= 1e-9*max(1, math.Abs(saved)), saved, computed)
}

func (c *comparer) compareIteration(a, b *disclosure.Iteration) {
	c.say("valid", a.Valid == b.Valid, a.Valid, b.Valid)
	c.say("passing", a.Passing == b.Passing, a.Passing, b.Passing)
	c.say("comparable", a.Comparable == b.Comparable, a.Comparable, b.Comparable)
	c.say("broke_rules", a.Broke == b.Broke, a.Broke, b.Broke)
	c.say("conforming_connections", a.Conforming == b.Conforming, a.Conforming, b.Conforming)
	c.say("slow_connections", a.Slow == b.Slow, a.Slow, b.Slow)
	c.say("erring_connections", a.Erring == b.Erring, a.Erring, b.Erring)
	c.say("judged_by", a.JudgedBy == b.JudgedBy, a.JudgedBy, b.JudgedBy)
	c.say("operations_count", a.Ops == b.Ops, a.Ops, b.Ops)
	c.say("failed_operations_count", a.Failed == b.Failed, a.Failed, b.Failed)
	c.number("conforming_percent", a.Percent, b.Percent)
	c.number("throughput_operations_per_second", a.OpsPerSec, b.OpsPerSec)
	c.number("response_milliseconds", a.ResponseMS, b.ResponseMS)
	c.number("throughput_operations_per_second_per_connection", a.OpsPerSlot, b.OpsPerSlot)
	c.number("rate_kilobits_per_second", a.KbitPerSlot, b.KbitPerSlot)
	c.number("identity_error_percent", a.Identity, b.Identity)
	c.number("audit.late_percent", a.Audit.Late, b.Audit.Late)
	c.say("audit.late_changes_connections", a.Audit.LateSlots == b.Audit.LateSlots, a.Audit.LateSlots, b.Audit.LateSlots)
	saved, computed := codes(a.Reasons), codes(b.Reasons)
	c.say("reasons", saved == computed, saved, computed)
}

func codes(rs []disclosure.Reason) string {
	var list []string
	for _, r := range rs {
		list = append(list, r.Code)
	}
	slices.Sort(list)
	return "[" + strings.Join(list, " ") + "]"
}
