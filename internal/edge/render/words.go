package render

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"tidemark.dev/disclosure"
)

// notSPEC stands on every page: the workload is that of a retired benchmark, the result is not one of its.
const notSPEC = "web99 is an open successor workload. This is not a SPEC result and not comparable with one."

// count writes a whole number with commas between thousands.
func count[T int | int64 | uint64](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	first := 1
	if n < 0 {
		first = 2
	}
	for i := len(s) - 3; i >= first; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// fixed writes with so many decimals.
func fixed(v float64, decimals int) string { return strconv.FormatFloat(v, 'f', decimals, 64) }

// short writes with about three digits and no trailing zeros.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 999.5:
		return count(int64(math.Round(v)))
	case a >= 100:
		return fixed(v, 0)
	case a >= 10:
		return trim(fixed(v, 1))
	case a >= 1:
		return trim(fixed(v, 2))
	case a >= 0.0001:
		return trim(fixed(v, 2-int(math.Floor(math.Log10(a)))))
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func trim(s string) string { return strings.TrimSuffix(strings.TrimRight(s, "0"), ".") }

// bytesWords writes a number of bytes with a decimal unit, as result pages do.
func bytesWords(n int64) string {
	v := float64(n)
	for _, unit := range []string{"bytes", "kB", "MB", "GB"} {
		if v < 1000 {
			return short(v) + " " + unit
		}
		v /= 1000
	}
	return short(v) + " TB"
}

// date writes an RFC 3339 time for people, in UTC.
func date(rfc3339 string) string {
	t, err := time.Parse(time.RFC3339Nano, rfc3339)
	if err != nil {
		return rfc3339
	}
	return t.UTC().Format("2 January 2006, 15:04 UTC")
}

// duration writes seconds for people: "8 s", "20 min", "1 h 5 min".
func duration(seconds float64) string {
	s := int(math.Round(seconds))
	switch {
	case seconds < 10 && float64(s) != seconds:
		return short(seconds) + " s"
	case s < 120:
		return strconv.Itoa(s) + " s"
	case s < 7200 && s%60 == 0:
		return strconv.Itoa(s/60) + " min"
	case s < 3600:
		return strconv.Itoa(s/60) + " min " + strconv.Itoa(s%60) + " s"
	}
	h := strconv.Itoa(s/3600) + " h"
	if m := s / 60 % 60; m > 0 {
		h += " " + strconv.Itoa(m) + " min"
	}
	return h
}

// verdictWords says a verdict in one or two words.
func verdictWords(d *disclosure.Document) string {
	switch d.Verdict.Word {
	case disclosure.Passes:
		return "Passes"
	case disclosure.DoesNotPass:
		return "Does not pass"
	case disclosure.BrokeRules:
		return "Broke the rules"
	case disclosure.InvalidRun:
		return "Invalid"
	}
	if d.State == disclosure.Running {
		return "Under way"
	}
	return "No verdict"
}

// scoreWords writes the score as it may be quoted, "" without one.
func scoreWords(v *disclosure.Verdict) string {
	if v.Word != disclosure.Passes {
		return ""
	}
	lead, tail := "", ""
	if v.AtLeast {
		lead = ">= "
	}
	if v.Driver {
		tail = " (driver)"
	}
	return lead + count(v.Score) + tail
}

// caveats are the short remarks that go with every quotation of the result.
func caveats(d *disclosure.Document) (out []string) {
	switch d.State {
	case disclosure.Running:
		out = append(out, "partial: the run was under way or was killed")
	case disclosure.Interrupted:
		out = append(out, "partial: interrupted")
	case disclosure.Failed:
		out = append(out, "partial: the run ended by an error")
	}
	if d.Run.Estimate {
		out = append(out, "estimate: the run is too short for a result")
	}
	if !d.Run.Comparable {
		out = append(out, "not comparable with other runs")
	}
	return out
}

// http is what the protocol is called in labels.
func http(d *disclosure.Document) string {
	if strings.HasSuffix(d.Run.Workload, "-tls") {
		return "HTTPS"
	}
	return "HTTP"
}

// rows are the iterations of the details table: those the score was taken from, then those above it that failed, from
// index above on. Without a score they are all there are, in order of time.
func rows(d *disclosure.Document) (its []*disclosure.Iteration, above int) {
	its = d.Scored()
	above = len(its)
	for i := range d.Iterations {
		it := &d.Iterations[i]
		if above == 0 || it.Requested > d.Verdict.Load && it.Valid && !it.Passing {
			its = append(its, it)
		}
	}
	if above == 0 {
		above = len(its)
	}
	return its, above
}

// sought returns the search of the document if there was one: a given load has steps, but no trials.
func sought(d *disclosure.Document) *disclosure.Search {
	if d.Search == nil {
		return nil
	}
	for i := range d.Search.Steps {
		if d.Search.Steps[i].Kind == "trial" {
			return d.Search
		}
	}
	return nil
}

// subject is the iteration a page shows in detail: the one of the score, else the last kept proof, else the last.
func subject(d *disclosure.Document) *disclosure.Iteration {
	if it := d.Iteration(d.Verdict.MedianIteration); it != nil {
		return it
	}
	for i := len(d.Iterations) - 1; i >= 0; i-- {
		if d.Iterations[i].Kind == "proof" {
			return &d.Iterations[i]
		}
	}
	if n := len(d.Iterations); n > 0 {
		return &d.Iterations[n-1]
	}
	return nil
}

// runName is what the page calls an iteration: by its row in the details table, by its load if it stands above.
func runName(d *disclosure.Document, it *disclosure.Iteration) string {
	its, above := rows(d)
	for i := range its {
		if its[i] == it && i < above {
			return fmt.Sprintf("run %d", i+1)
		}
	}
	return fmt.Sprintf("iteration %d, at %s", it.Number, count(it.Requested))
}

// wrap breaks text at blanks into lines of at most width runes; a longer word stands alone.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(strings.ReplaceAll(text, " %", "\x00%")) { // a number keeps its sign
		word = strings.ReplaceAll(word, "\x00", " ")
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// pair is a label and a value of the disclosure, group a headed list of them.
type pair struct{ Name, Value string }

type group struct {
	Title string
	Pairs []pair
}

// sheetGroups returns the benchmark notes in the order of the classic pages, without what nobody filled in.
func sheetGroups(d *disclosure.Document) []group {
	s := &d.Sheet
	hardware, software, server, network, clients := &s.Hardware, &s.Software, &s.HTTP, &s.Network, &s.Clients
	h := http(d)
	all := []group{
		{"Availability Dates", []pair{
			{"All Hardware", s.Availability.Hardware}, {h + " Software", s.Availability.HTTP},
			{"Operating System", s.Availability.System}, {"Supplemental System", s.Availability.Supplemental}}},
		{"Hardware", []pair{
			{"Vendor", hardware.Vendor}, {"Model", hardware.Model}, {"Processor", hardware.Processor},
			{"# Processors", hardware.Processors}, {"Primary Cache", hardware.PrimaryCache},
			{"Secondary Cache", hardware.SecondaryCache}, {"Other Cache", hardware.OtherCache},
			{"Memory", hardware.Memory}, {"Disk Subsystem", hardware.Disks},
			{"Disk Controllers", hardware.DiskControllers}, {"Other Hardware", hardware.Other}}},
		{"Software", []pair{
			{"Operating System", software.System}, {"File System", software.FileSystem}, {"Other Software", software.Other}}},
		{h + " Software", []pair{
			{"Vendor", server.Vendor}, {h + " Software", server.Product}, {"API", server.API},
			{"Server Cache", server.Cache}, {"Log Mode", server.LogMode}}},
		{"Test Sponsor", []pair{
			{"Test Date", s.Sponsor.TestDate}, {"Tested By", s.Sponsor.TestedBy}, {"Licence", s.Sponsor.Licence}}},
		{"Network", []pair{
			{"# of Controllers", network.ControllerCount}, {"Network Controllers", network.Controllers},
			{"# of Nets", network.NetCount}, {"Type of Nets", network.NetType}, {"Network Speed", network.Speed},
			{"MSL (sec)", network.MSL}, {"Time-Wait (sec)", network.TimeWait}, {"MTU", network.MTU}}},
		{"Clients", []pair{
			{"# of Clients", clients.Count}, {"Model", clients.Model}, {"Processor", clients.Processor},
			{"# of Processors", clients.Processors}, {"Memory", clients.Memory},
			{"Network Controller", clients.Controller}, {"Operating System", clients.System}, {"Compiler", clients.Compiler}}},
	}
	return filled(all)
}

// filled drops pairs without a value and groups without pairs.
func filled(groups []group) []group {
	var out []group
	for _, g := range groups {
		var kept []pair
		for _, p := range g.Pairs {
			if p.Value != "" {
				kept = append(kept, p)
			}
		}
		if len(kept) > 0 {
			out = append(out, group{g.Title, kept})
		}
	}
	return out
}

// notes returns the free notes in the order of the classic pages.
func notes(d *disclosure.Document) []struct {
	Title string
	Lines []string
} {
	n := &d.Sheet.Notes
	type block = struct {
		Title string
		Lines []string
	}
	var out []block
	for _, b := range []block{
		{"SUT Notes", n.Target}, {"Operating System Notes", n.System}, {http(d) + " Software Notes", n.HTTP},
		{http(d) + " API Notes", n.API}, {"Hardware Notes", n.Hardware}, {"Network Notes", n.Network},
		{"Client Notes", n.Client}, {"Other Notes", n.Other},
	} {
		if len(b.Lines) > 0 {
			out = append(out, b)
		}
	}
	return out
}

// requested is the load of the details table.
func requested(d *disclosure.Document) int {
	if d.Verdict.Load > 0 {
		return d.Verdict.Load
	}
	if it := subject(d); it != nil {
		return it.Requested
	}
	return 0
}

// megabytes writes the size of the file set as result pages do: two decimals, no trailing zeros.
func megabytes(v float64) string { return trim(fixed(v, 2)) }
