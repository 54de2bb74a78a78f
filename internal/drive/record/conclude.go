package record

import (
	"fmt"
	"strings"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/search"
)

// FromSearch converts the bounds and the answer of a search; the caller adds burst and steps.
func FromSearch(o search.Options, r search.Result) *disclosure.Search {
	return &disclosure.Search{
		FirstGuess: o.FirstGuess, Min: o.Min, Max: o.Max, Width: percent(o.Width),
		Answer: r.Answer.String(), Why: r.Why, Flags: r.Flags,
	}
}

// Conclude puts the verdict of a run into words: s is the summary of its proof iterations, r the answer of the
// search, numbers the numbers of the iterations summarized, in the order of the summary, and rule the rule they were
// judged by. s may be nil when the search ended before there were proofs.
func Conclude(s *conform.Summary, r search.Result, numbers []int, rule conform.Rule) disclosure.Verdict {
	if s == nil || r.Answer == search.Doomed {
		return doomed(s, r)
	}
	v := disclosure.Verdict{
		Words: s.Words, ExitCode: s.ExitCode, Load: s.Load, Reasons: verdictReasons(s.Reasons),
	}
	switch {
	case !s.Valid:
		v.Word = disclosure.InvalidRun
	case s.Broke:
		v.Word = disclosure.BrokeRules
	case !s.Passing:
		v.Word = disclosure.DoesNotPass
	default:
		v.Word, v.Score, v.MedianIteration = disclosure.Passes, s.Score, numbers[s.Median]
		v.AtLeast = r.Answer == search.AtLeast || r.Answer == search.AtLeastDriver
		v.Driver = r.Answer == search.AtLeastDriver
		v.Words = passWords(s, r, rule)
	}
	return v
}

func passWords(s *conform.Summary, r search.Result, rule conform.Rule) string {
	var b strings.Builder
	lead := ""
	switch r.Answer {
	case search.AtLeast, search.AtLeastDriver:
		lead = "At least "
	}
	fmt.Fprintf(&b, "%s%s of %s connections keep %d kbit/s or more of their %d kbit/s line.",
		lead, conform.Count(s.Score), conform.Count(s.Load), rule.FloorBps/1000, rule.LineBps/1000)
	switch r.Answer {
	case search.Exact:
		b.WriteString(" More connections do not pass.")
	case search.AtLeast:
		b.WriteString(" No load above was shown to fail.")
	case search.AtLeastDriver:
		b.WriteString(" The driver could make or measure no more.")
	case search.Fixed:
		b.WriteString(" The load was given, not sought.")
	}
	return b.String()
}

// doomed is the verdict of a search that found no load.
func doomed(s *conform.Summary, r search.Result) disclosure.Verdict {
	v := disclosure.Verdict{Word: disclosure.DoesNotPass, ExitCode: conform.ExitNotPassing, Words: sentence(r.Why)}
	effect := conform.NotPassing
	if r.Invalid || (s != nil && !s.Valid) {
		v.Word, v.ExitCode, effect = disclosure.InvalidRun, conform.ExitInvalid, conform.Invalid
		v.Words = "Invalid: the instrument was not able to measure. " + v.Words
	} else if s != nil && s.Broke {
		v.Word = disclosure.BrokeRules
		v.Words = "The target broke the rules. " + v.Words
	}
	if s != nil {
		v.Load = s.Load
		v.Reasons = verdictReasons(s.Reasons)
	}
	if len(v.Reasons) == 0 {
		v.Reasons = []disclosure.Reason{{Code: "search_doomed", Text: r.Why, Effect: effect.String()}}
	}
	return v
}

// verdictReasons leaves out what bears only on comparability: that stands with the run.
func verdictReasons(rs []conform.Reason) []disclosure.Reason {
	var keep []conform.Reason
	for _, r := range rs {
		if r.Effect > conform.Incomparable {
			keep = append(keep, r)
		}
	}
	return FromReasons(keep)
}

// Incomparable returns the reasons why a run cannot be set beside others.
func Incomparable(s *conform.Summary) []disclosure.Reason {
	var keep []conform.Reason
	for _, r := range s.Reasons {
		if r.Effect == conform.Incomparable {
			keep = append(keep, r)
		}
	}
	return FromReasons(keep)
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
