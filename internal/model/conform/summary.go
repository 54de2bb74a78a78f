package conform

import (
	"fmt"
	"slices"
	"strings"

	"tidemark.dev/internal/ground/fault"
)

// Proofs is the number of iterations a score is taken from.
const Proofs = 3

// Exit codes of a run.
const (
	ExitPasses     = 0
	ExitInvalid    = 2
	ExitNotPassing = 3
)

// Setting is what is known about the run as a whole that bears on comparability.
type Setting struct {
	// Full says that the full profile ran, Overrides names parameters set by hand, Local that target and drivers
	// shared a host, MTU is the one between them in bytes (0 unknown).
	Full      bool
	Overrides []string
	Local     bool
	MTU       int
}

// mtu is the one all published pages ran over.
const mtu = 1500

// Reasons says why a run in this setting is not comparable.
func (s Setting) Reasons() (rs []Reason) {
	add := func(code string, value, limit float64, unit, text string) {
		rs = append(rs, Reason{Code: code, Text: text, Origin: fault.Config, Effect: Incomparable,
			Value: value, Limit: limit, Unit: unit})
	}
	if !s.Full {
		add("profile_short", 0, 0, "", "only the full profile is comparable")
	}
	if len(s.Overrides) > 0 {
		add("overrides", float64(len(s.Overrides)), 0, "parameters", "set by hand: "+strings.Join(s.Overrides, ", "))
	}
	if s.Local {
		add("local", 0, 0, "", "target and drivers share a host; the run compares only with others on that host")
	}
	switch {
	case s.Local: // the loopback's MTU says nothing more
	case s.MTU == 0:
		add("mtu_unknown", 0, mtu, "bytes", "the MTU between target and drivers is not known")
	case s.MTU != mtu:
		add("mtu", float64(s.MTU), mtu, "bytes", fmt.Sprintf("the MTU between target and drivers is %d, not %d", s.MTU, mtu))
	}
	return rs
}

// Summary is the verdict about a run of iterations at one load.
type Summary struct {
	// Load is the number of slots requested, Score the median conforming count; 0 without a score.
	Load, Score int
	// Median is the index of the iteration the score was taken from, -1 without a score.
	Median int
	// Passing means three valid, passing iterations at one load.
	Valid, Passing, Comparable, Broke bool
	// Reasons are those of the iterations that take something away, each code once (its text names the iteration),
	// and those of the setting.
	Reasons []Reason
	// Words is the verdict in one sentence; ExitCode is 0, 2 or 3.
	Words    string
	ExitCode int
}

// Score returns the median conforming count (the lower middle of an even number), and the index of the first
// iteration that has it. It ignores validity. The index is -1 for no judgements.
func Score(js []Judgement) (score, index int) {
	if len(js) == 0 {
		return 0, -1
	}
	counts := make([]int, len(js))
	for i := range js {
		counts[i] = js[i].Conforming
	}
	sorted := slices.Sorted(slices.Values(counts))
	score = sorted[(len(sorted)-1)/2]
	return score, slices.Index(counts, score)
}

// Summarize judges the run: one judgement per proof iteration, its valid attempt or else its last invalid one.
func Summarize(set Setting, js []Judgement) Summary {
	s := Summary{Median: -1, Valid: true, Passing: len(js) >= Proofs, Comparable: true}
	if len(js) == 0 {
		s.Valid = false
		s.add(Reason{Code: "nothing_measured", Text: "no iteration was measured", Origin: fault.Driver, Effect: Invalid})
	}
	for i := range js {
		j := &js[i]
		s.Valid = s.Valid && j.Valid
		s.Passing = s.Passing && j.Passing
		s.Broke = s.Broke || j.Broke
		s.Comparable = s.Comparable && j.Comparable
		for _, r := range j.Reasons {
			if r.Effect == Note {
				continue
			}
			r.Text = fmt.Sprintf("iteration %d: %s", i+1, r.Text)
			s.add(r)
		}
		if i == 0 {
			s.Load = j.Requested
		} else if j.Requested != s.Load {
			s.Valid = false
			s.add(Reason{Code: "loads_differ", Origin: fault.Driver, Effect: Invalid,
				Text:  fmt.Sprintf("iteration %d ran at %d connections, the first at %d", i+1, j.Requested, s.Load),
				Value: float64(j.Requested), Limit: float64(s.Load), Unit: "connections"})
		}
	}
	if n := len(js); n > 0 && n < Proofs && !s.decided() {
		s.add(Reason{Code: "too_few_iterations", Origin: fault.Driver, Effect: NotPassing,
			Text: fmt.Sprintf("a score takes %d iterations, not %d", Proofs, n), Value: float64(n), Limit: Proofs, Unit: "iterations"})
	}
	for _, r := range set.Reasons() {
		s.add(r)
	}
	s.Passing = s.Passing && s.Valid && !s.Broke
	s.Comparable = s.Comparable && s.Valid && len(set.Reasons()) == 0
	slices.SortStableFunc(s.Reasons, func(a, b Reason) int { return int(b.Effect) - int(a.Effect) })
	s.conclude(js)
	return s
}

// add keeps the first reason of each code.
func (s *Summary) add(r Reason) {
	if !slices.ContainsFunc(s.Reasons, func(o Reason) bool { return o.Code == r.Code }) {
		s.Reasons = append(s.Reasons, r)
	}
}

// decided reports whether some reason already takes the verdict away.
func (s *Summary) decided() bool {
	return slices.ContainsFunc(s.Reasons, func(r Reason) bool { return r.Effect > Incomparable })
}

func (s *Summary) conclude(js []Judgement) {
	first := func(e Effect) string {
		for _, r := range s.Reasons {
			if r.Effect == e {
				return r.Text
			}
		}
		return ""
	}
	switch {
	case !s.Valid:
		s.ExitCode = ExitInvalid
		s.Words = "Invalid: the instrument was not able to measure. " + sentence(first(Invalid))
	case s.Broke:
		s.ExitCode = ExitNotPassing
		s.Words = "The target broke the rules. " + sentence(first(BrokeRules))
	case !s.Passing:
		s.ExitCode = ExitNotPassing
		s.Words = fmt.Sprintf("Does not pass at %s. %s", plural(s.Load, "connection"), sentence(first(NotPassing)))
	default:
		s.Score, s.Median = Score(js)
		j := js[s.Median]
		s.Words = fmt.Sprintf("Passes: %s of %s connections conform (%.1f %%), the median of %d iterations.",
			Count(s.Score), Count(s.Load), j.Percent, len(js))
	}
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
