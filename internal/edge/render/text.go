package render

import (
	"fmt"
	"io"
	"strings"

	"tidemark.dev/disclosure"
)

const pageWidth = 79

// page collects lines and their first error.
type page struct {
	w   io.Writer
	err error
}

func (p *page) line(format string, a ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(fmt.Sprintf(format, a...), " "))
	}
}

func (p *page) rule() { p.line("%s", strings.Repeat("=", pageWidth)) }

// para writes text wrapped behind an indent; the first line carries lead instead of blanks.
func (p *page) para(lead, text string, indent int) {
	if n := len([]rune(lead)); n > 0 && n >= indent { // too long a label keeps the first line for itself and a short value
		if n+2+len([]rune(text)) <= pageWidth {
			p.line("%s  %s", lead, text)
			return
		}
		p.line("%s", lead)
		lead = ""
	}
	for i, l := range wrap(text, pageWidth-indent) {
		if i > 0 {
			lead = ""
		}
		p.line("%-*s%s", indent, lead, l)
	}
}

func (p *page) center(text string) {
	p.line("%*s%s", max(0, (pageWidth-len([]rune(text)))/2), "", text)
}

// Text draws the classic page, in the order the published pages have.
func Text(w io.Writer, d *disclosure.Document) error {
	p := &page{w: w}
	p.title(d)
	p.performance(d)
	for _, g := range sheetGroups(d) {
		p.pairs(g)
	}
	p.pairs(configuration(d)[0])
	if ns := notes(d); len(ns) > 0 {
		p.rule()
		p.line("Notes/Tuning Information")
		for _, n := range ns {
			p.line(" %s", n.Title)
			for _, l := range n.Lines {
				p.para("", l, 3)
			}
		}
	}
	p.rule()
	p.details(d)
	p.reasons(d)
	p.search(d)
	p.instrument(d)
	p.rule()
	for _, g := range configuration(d)[1:] {
		p.pairs(g)
	}
	p.line("")
	p.para("", notSPEC, 0)
	return p.err
}

// Summary draws what is shown when a run ends: the verdict, the table, the reasons and what may help.
func Summary(w io.Writer, d *disclosure.Document) error {
	p := &page{w: w}
	p.para("", verdictLine(d), 0)
	p.para("", d.Verdict.Words, 0)
	if its, _ := rows(d); len(its) > 0 {
		p.line("")
		p.details(d)
	}
	p.reasons(d)
	return p.err
}

// verdictLine is the first line of a summary: "web99 1,315  passes - estimate; not comparable".
func verdictLine(d *disclosure.Document) string {
	line := d.Run.Workload
	if s := scoreWords(&d.Verdict); s != "" {
		line += " " + s
	}
	line += ": " + strings.ToLower(verdictWords(d))
	for _, c := range caveats(d) {
		line += "; " + c
	}
	return line
}

func (p *page) title(d *disclosure.Document) {
	p.center(d.Run.Workload + " Result")
	p.rule()
	name := d.Run.Server
	if d.Sheet.HTTP.Product != "" {
		name = joined(d.Sheet.HTTP.Vendor, d.Sheet.HTTP.Product)
	}
	score := scoreWords(&d.Verdict)
	if score != "" {
		score += " " + d.Run.Workload
	} else {
		score = verdictWords(d)
	}
	machine := joined(d.Sheet.Hardware.Vendor, d.Sheet.Hardware.Model)
	if machine == "" && len(d.Hosts) > 0 {
		machine = d.Hosts[0].Name
	}
	p.banner(machine, score)
	p.banner(name, "")
	p.rule()
	for _, c := range caveats(d) {
		p.para("*", strings.ToUpper(c[:1])+c[1:]+".", 2)
	}
	p.para("", d.Verdict.Words, 0)
	p.rule()
}

// banner writes one line between double bars, the right column 24 wide.
func (p *page) banner(left, right string) {
	const rightWidth = 24
	const leftWidth = pageWidth - rightWidth - 10
	if r := []rune(left); len(r) > leftWidth {
		left = string(r[:leftWidth-1]) + "…"
	}
	p.line("|| %-*s || %*s ||", leftWidth, left, rightWidth, right)
}

func joined(vendor, product string) string {
	if vendor == "" || product == "" {
		return vendor + product
	}
	return vendor + " : " + product
}

func (p *page) performance(d *disclosure.Document) {
	its, above := rows(d)
	if above == 0 {
		p.line("PERFORMANCE: no iteration was measured.")
		p.rule()
		return
	}
	p.line("PERFORMANCE")
	p.line("%16s |   Conforming Simultaneous", "Iteration")
	p.line("%16s |        Connections", "")
	p.line("  ---------------+----------------------------")
	for i, it := range its[:above] {
		p.line("%11d      | %16d", i+1, it.Conforming)
	}
	p.line("  ---------------+----------------------------")
	median := "no score"
	if d.Verdict.Word == disclosure.Passes {
		median = fmt.Sprint(d.Verdict.Score)
	}
	p.line("%13s    | %16s", "Median", median)
	p.rule()
}

func (p *page) pairs(g group) {
	p.line("%s", g.Title)
	for _, pr := range g.Pairs {
		p.para("   "+pr.Name, pr.Value, 28)
	}
}

// details draws the classic table. The median row carries an arrow; iterations above the score stand below the rest.
func (p *page) details(d *disclosure.Document) {
	its, above := rows(d)
	p.line("Test Run Details")
	if len(its) == 0 {
		p.line("  (no iteration was measured)")
		return
	}
	p.line("  Run   Conforming  Percent | Throughput  Response  ops/sec/    Kbits/")
	p.line("  Num  Connections  Conform |    ops/sec      msec   loadgen       sec")
	for i, it := range its {
		number := fmt.Sprint(i + 1)
		if i >= above {
			number = "-"
		}
		switch {
		case i >= above && (i == above || it.Requested != its[i-1].Requested):
			p.line("  %s requested, above the score:", plural(it.Requested, "connection"))
		case i > 0 && it.Requested != its[i-1].Requested, i == 0 && its[above-1].Requested != it.Requested:
			p.line("  %s requested:", plural(it.Requested, "connection"))
		}
		arrow := ""
		if it.Number == d.Verdict.MedianIteration {
			arrow = "=>"
		}
		remark := ""
		if !it.Valid {
			remark = " invalid"
		}
		p.line("%2s%3s %12d %7s%% | %10s %9s %9s %9s%s", arrow, number, it.Conforming, fixed(it.Percent, 1),
			fixed(it.OpsPerSec, 1), fixed(it.ResponseMS, 1), fixed(it.OpsPerSlot, 2), fixed(it.KbitPerSlot, 1), remark)
	}
}

func (p *page) reasons(d *disclosure.Document) {
	block := func(title string, rs []disclosure.Reason) {
		if len(rs) == 0 {
			return
		}
		p.line("")
		p.line("%s", title)
		for _, r := range rs {
			p.para("  -", r.Text, 4)
		}
	}
	block("Why", unsaid(&d.Verdict))
	block("Not comparable because", d.Run.Incomparable)
	if len(d.Verdict.Hints) > 0 {
		p.line("")
		p.line("What may help")
		for _, h := range d.Verdict.Hints {
			p.para("  -", h, 4)
		}
	}
}

func (p *page) search(d *disclosure.Document) {
	s := sought(d)
	if s == nil {
		return
	}
	p.rule()
	p.line("Search")
	p.line("  Step  Kind        Connections  Conforming   Percent   Kbits/sec  Verdict")
	for _, st := range s.Steps {
		verdict := st.Verdict
		if st.Attempt > 1 {
			verdict += fmt.Sprintf(" (attempt %d)", st.Attempt)
		}
		p.line("%6d  %-10s %12s %11s %8s%% %11s  %s", st.Number, st.Kind, count(st.Load), count(st.Conforming),
			fixed(st.Percent, 1), fixed(st.KbitPerSlot, 1), verdict)
	}
	if s.Why != "" {
		p.para("", "Answer: "+s.Why+".", 2)
	}
	for _, f := range s.Flags {
		p.para("", "Flag: "+f+".", 2)
	}
}

// instrument shows what the driver says of itself, and the target's side, for the iteration shown in detail.
func (p *page) instrument(d *disclosure.Document) {
	it := subject(d)
	if it == nil {
		return
	}
	p.rule()
	p.line("Measurement (%s)", runName(d, it))
	for _, pr := range glance(it) {
		p.para("   "+pr.Name, pr.Value, 28)
	}
	for _, e := range it.Errors {
		p.para("   Error: "+e.Class, fmt.Sprintf("%s operations, origin %s", count(e.Count), e.Origin), 28)
	}
	if len(it.TTFB) > 0 {
		p.line("")
		p.line("  First byte, msec       mean       p50       p90       p99     p99.9       max")
		for i := range it.TTFB {
			l := &it.TTFB[i]
			p.line("  %-16s %10s %9s %9s %9s %9s %9s", l.Kind, short(l.Mean), short(l.P50), short(l.P90), deep(l, 99, l.P99), deep(l, 99.9, l.P999), short(l.Max))
		}
	}
}
