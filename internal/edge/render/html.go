package render

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"tidemark.dev/disclosure"
)

//go:embed page.tmpl style.css
var assets embed.FS

// htmlPage is what the template sees: words and geometry, nothing left to decide.
type htmlPage struct {
	Style     template.CSS
	Title     string
	Kicker    string
	Server    string
	Subtitle  string
	Verdict   string
	Class     string // "good", "bad", "muted"
	Lead      string // ">= " of the score
	Score     string
	ScoreNote string
	Words     string
	Caveats   []string
	Why       []disclosure.Reason
	Not       []disclosure.Reason
	Hints     []string
	Rows      []htmlRow
	Median    bool
	Glance    []pair
	GlanceOf  string
	Errors    []disclosure.ErrorClass
	Plots     []*plot
	Latency   []latencyRow
	Rules     auditTable
	Search    []disclosure.Step
	Sheet     []group
	Notes     any
	Config    []group
	Texts     []disclosure.Text
	Footer    string
	NotSPEC   string
	Frame     frame
}

// frame is the inner rectangle of every plot.
type frame struct{ X, Y, X2, Y2, W, H float64 }

type htmlRow struct {
	Number, Requested, Conforming, Percent, OpsPerSec, Response, OpsPerSlot, Kbit string
	Remark, Class                                                                 string
}

type latencyRow struct {
	Kind, Count                 string
	First, FirstP99, FirstMax   string
	Whole, Whole99, Whole999, M string
}

// HTML draws a page that needs no other file and no script.
func HTML(w io.Writer, d *disclosure.Document) error {
	style, err := assets.ReadFile("style.css")
	if err != nil {
		return err
	}
	t, err := template.New("page.tmpl").Funcs(template.FuncMap{
		"num": num, "count": func(n int) string { return count(n) },
		"ucount": func(n uint64) string { return count(n) }, "fixed1": grouped,
		"keep": func(s string) string { return strings.ReplaceAll(s, " %", "\u00a0%") }, // a number keeps its sign
		"dict": func(p *plot, f frame) any {
			return struct {
				Plot  *plot
				Frame frame
			}{p, f}
		},
	}).ParseFS(assets, "page.tmpl")
	if err != nil {
		return err
	}
	p := newHTMLPage(d)
	p.Style = template.CSS(style) // ours, embedded
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return err
	}
	_, err = w.Write(b.Bytes())
	return err
}

func newHTMLPage(d *disclosure.Document) *htmlPage {
	v := &d.Verdict
	p := &htmlPage{
		Title:   d.Run.Workload + " result: " + d.Run.Server,
		Kicker:  strings.Join([]string{d.Run.Workload + " result", d.Run.Profile + " profile", d.Run.Topology}, " · "),
		Server:  d.Run.Server,
		Verdict: verdictWords(d), Class: "bad", Words: v.Words,
		Why: unsaid(v), Not: d.Run.Incomparable, Hints: v.Hints,
		Plots: plots(d), Rules: audit(d),
		Sheet: sheetGroups(d), Notes: notes(d), Config: configuration(d),
		NotSPEC: notSPEC,
		Frame:   frame{plotLeft, plotTop, plotInnerX2, plotInnerY2, plotInnerW, plotInnerH},
	}
	if p.Server == "" {
		p.Server = "unnamed server"
	}
	switch v.Word {
	case disclosure.Passes:
		p.Class = "good"
		p.Score = count(v.Score)
		p.ScoreNote = "conforming connections"
		if v.AtLeast {
			p.Lead = "at least"
		}
		if v.Driver {
			p.ScoreNote = "conforming connections; the driver makes no more"
		}
	case disclosure.InvalidRun, disclosure.NoVerdict:
		p.Class = "muted"
	}
	if d.Run.Title != "" {
		p.Subtitle = d.Run.Title + ", "
	}
	p.Subtitle += date(d.Run.StartedAt)
	for _, c := range caveats(d) {
		p.Caveats = append(p.Caveats, strings.ToUpper(c[:1])+c[1:])
	}
	p.rows(d)
	if it := subject(d); it != nil {
		p.Glance, p.GlanceOf, p.Errors = glance(it), runName(d, it), it.Errors
		p.latency(it)
	}
	if s := sought(d); s != nil {
		p.Search = s.Steps
	}
	for _, t := range append([]disclosure.Text{d.Configuration.Workload}, d.Configuration.Target.Files...) {
		if t.Text != "" {
			p.Texts = append(p.Texts, t)
		}
	}
	p.Footer = strings.TrimSpace(d.Tool.Name+" "+d.Tool.Version) + ", run " + d.Run.ID
	return p
}

// unsaid returns the reasons of the verdict: without those that bear on comparability alone, which have a list of
// their own, and without one that stands in the sentence above already.
func unsaid(v *disclosure.Verdict) (rs []disclosure.Reason) {
	for _, r := range v.Reasons {
		if r.Effect != "incomparable" {
			rs = append(rs, r)
		}
	}
	if len(rs) == 1 && strings.Contains(strings.ToLower(v.Words), strings.ToLower(rs[0].Text)) {
		return nil
	}
	return rs
}

func (p *htmlPage) rows(d *disclosure.Document) {
	its, above := rows(d)
	for i, it := range its {
		r := htmlRow{
			Number: fmt.Sprint(i + 1), Requested: count(it.Requested), Conforming: count(it.Conforming), Percent: fixed(it.Percent, 1) + " %",
			OpsPerSec: grouped(it.OpsPerSec), Response: fixed(it.ResponseMS, 1), OpsPerSlot: fixed(it.OpsPerSlot, 2), Kbit: fixed(it.KbitPerSlot, 1),
		}
		switch {
		case !it.Valid:
			r.Remark, r.Class = "invalid", "dim"
		case i >= above:
			r.Number, r.Remark, r.Class = "–", "above the score", "dim"
		case it.Number == d.Verdict.MedianIteration:
			r.Remark, r.Class = "median", "median"
			p.Median = true
		case !it.Passing:
			r.Remark = "does not pass"
		}
		p.Rows = append(p.Rows, r)
	}
}

// deep writes a percentile if there were operations enough to show it.
func deep(l *disclosure.Latency, percentile, value float64) string {
	if !shows(l, percentile) {
		return "–"
	}
	return short(value)
}

func (p *htmlPage) latency(it *disclosure.Iteration) {
	for i := range it.Latency {
		l := &it.Latency[i]
		r := latencyRow{Kind: l.Kind, Count: count(l.Count), Whole: short(l.P50), Whole99: deep(l, 99, l.P99), Whole999: deep(l, 99.9, l.P999), M: short(l.Max)}
		for k := range it.TTFB {
			if f := &it.TTFB[k]; f.Kind == l.Kind {
				r.First, r.FirstP99, r.FirstMax = short(f.P50), deep(f, 99, f.P99), short(f.Max)
			}
		}
		p.Latency = append(p.Latency, r)
	}
}

// grouped writes one decimal, with commas between thousands.
func grouped(v float64) string {
	s := fixed(v, 1)
	whole, part, _ := strings.Cut(s, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n == 0 { // -0.4 has a sign that 0 has not
		return s
	}
	return count(n) + "." + part
}

func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}

// auditTable is what the instrument says of itself, one column per kept iteration.
type auditTable struct {
	Heads []string
	Rows  []auditRow
}

type auditRow struct {
	Name, Limit string
	Cells       []auditCell
}

type auditCell struct {
	Text string
	Bad  bool
}

// audit lays out the rules of validity and comparability. Whether a cell is bad is what the judgement said.
func audit(d *disclosure.Document) auditTable {
	its, above := rows(d)
	rule := &d.Configuration.Rule
	var t auditTable
	for i, it := range its {
		head := fmt.Sprintf("run %d", i+1)
		if i >= above {
			head = count(it.Requested)
		}
		t.Heads = append(t.Heads, head)
	}
	add := func(name, limit string, codes []string, cell func(it *disclosure.Iteration) string) {
		row := auditRow{Name: name, Limit: limit}
		for _, it := range its {
			c := auditCell{Text: cell(it)}
			for _, r := range it.Reasons {
				for _, code := range codes {
					c.Bad = c.Bad || r.Code == code
				}
			}
			row.Cells = append(row.Cells, c)
		}
		t.Rows = append(t.Rows, row)
	}
	if len(its) == 0 {
		return t
	}
	n := func(f func(a *disclosure.Audit) uint64) func(it *disclosure.Iteration) string {
		return func(it *disclosure.Iteration) string { return count(f(&it.Audit)) }
	}
	add("Slots attempted", "all", []string{"slots_unattempted", "records_missing", "records_surplus"}, func(it *disclosure.Iteration) string {
		return count(it.Audit.Attempted) + " of " + count(it.Requested)
	})
	add("Agents reported", "all", []string{"agents_missing"}, func(it *disclosure.Iteration) string {
		return fmt.Sprintf("%d of %d", it.Audit.Reported, it.Audit.Agents)
	})
	add("Own failures", "0", []string{"own_failures", "unclassified_failures"}, func(it *disclosure.Iteration) string {
		var sum uint64
		for _, v := range it.Audit.DriverFailures {
			sum += v
		}
		for _, e := range it.Errors {
			if e.Origin != "target" && e.Origin != "network" {
				sum += e.Count
			}
		}
		return count(sum)
	})
	add("Operation time off its sum", "± "+short(rule.IdentityError)+" %", []string{"identity"}, func(it *disclosure.Iteration) string {
		return fmt.Sprintf("%+.4f %%", it.Identity)
	})
	add("Late", "≤ "+short(rule.Late)+" %", []string{"late_share", "late_verdict"}, func(it *disclosure.Iteration) string { return short(it.Audit.Late) + " %" })
	add("Slot verdicts lateness decides", "≤ "+short(rule.LateSlots)+" % if passing", []string{"late_slots"}, func(it *disclosure.Iteration) string { return count(it.Audit.LateSlots) })
	add("Issued operations off the plan", "0", []string{"plan_differs", "plan_unchecked"}, func(it *disclosure.Iteration) string {
		if len(it.Audit.Plan) == 0 {
			return "not compared"
		}
		var off uint64
		for _, p := range it.Audit.Plan {
			off += max(p.Issued, p.Planned) - min(p.Issued, p.Planned)
		}
		return count(off)
	})
	add("Least chi-square p of the mix", "> "+fmt.Sprintf("%.0e", rule.MinP), []string{"mix_unlikely", "mix_unchecked"}, func(it *disclosure.Iteration) string {
		least, any := 2.0, false
		for _, p := range it.Audit.ChiSquareP {
			least, any = min(least, p), true
		}
		if !any {
			return "not tested"
		}
		return short(least)
	})
	add("Clocks apart", "≤ "+short(rule.ClockOffset)+" ms", []string{"clock_offset"}, func(it *disclosure.Iteration) string { return short(it.Audit.ClockOffset) + " ms" })
	add("Times out of range", "0", []string{"histogram_overflow"}, n(func(a *disclosure.Audit) uint64 { return a.Overflow }))
	add("TCP memory pressure", "0", []string{"memory_pressure"}, n(func(a *disclosure.Audit) uint64 { return a.MemoryPressure }))
	add("Run queue", "≤ "+short(rule.Stolen)+" % *", []string{"run_queue"}, func(it *disclosure.Iteration) string { return short(it.Audit.RunQueue) + " %" })
	add("Steal", "≤ "+short(rule.Stolen)+" % *", []string{"steal"}, func(it *disclosure.Iteration) string { return short(it.Audit.Steal) + " %" })
	add("Ports reused early", "0 *", []string{"port_reuse"}, n(func(a *disclosure.Audit) uint64 { return a.PortReuse }))
	add("TIME_WAIT overflow", "0 *", []string{"time_wait_overflow"}, n(func(a *disclosure.Audit) uint64 { return a.TimeWaitOverflow }))
	add("Congestion control", "one *", []string{"congestion_mixed"}, func(it *disclosure.Iteration) string { return strings.Join(it.Audit.Congestion, ", ") })
	return t
}
