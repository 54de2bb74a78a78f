package render

import (
	"fmt"
	"io"
	"strings"

	"tidemark.dev/disclosure"
)

// Markdown draws a page for issues and notes: verdict, table, reasons, and the configuration in short.
func Markdown(w io.Writer, d *disclosure.Document) error {
	p := &page{w: w}
	title := d.Run.Workload + ": " + d.Run.Server
	if s := scoreWords(&d.Verdict); s != "" {
		title = d.Run.Workload + " " + s + ": " + d.Run.Server
	}
	p.line("# %s", escapeMD(title))
	p.line("")
	p.line("**%s.** %s", verdictWords(d), escapeMD(d.Verdict.Words))
	if cs := caveats(d); len(cs) > 0 {
		p.line("")
		p.line("*%s.*", escapeMD(strings.ToUpper(cs[0][:1])+strings.Join(cs, "; ")[1:]))
	}
	its, above := rows(d)
	if len(its) > 0 {
		p.line("")
		p.line("| run | requested | conforming | percent | ops/s | response ms | ops/s/slot | kbit/s | |")
		p.line("|---:|---:|---:|---:|---:|---:|---:|---:|---|")
		for i, it := range its {
			number, remark := fmt.Sprint(i+1), ""
			if i >= above {
				number, remark = "-", "above the score"
			}
			if it.Number == d.Verdict.MedianIteration {
				remark = "median"
			}
			if !it.Valid {
				remark = "invalid"
			}
			p.line("| %s | %s | %s | %s | %s | %s | %s | %s | %s |", number, count(it.Requested), count(it.Conforming),
				fixed(it.Percent, 1), fixed(it.OpsPerSec, 1), fixed(it.ResponseMS, 1), fixed(it.OpsPerSlot, 2), fixed(it.KbitPerSlot, 1), remark)
		}
	}
	list := func(title string, rs []disclosure.Reason) {
		if len(rs) == 0 {
			return
		}
		p.line("")
		p.line("## %s", title)
		p.line("")
		for _, r := range rs {
			p.line("- %s", escapeMD(r.Text))
		}
	}
	list("Why", unsaid(&d.Verdict))
	list("Not comparable because", d.Run.Incomparable)
	if it := subject(d); it != nil {
		p.line("")
		p.line("## Measurement (%s)", runName(d, it))
		p.line("")
		for _, pr := range glance(it) {
			p.line("- %s: %s", escapeMD(pr.Name), escapeMD(pr.Value))
		}
	}
	for _, g := range append(sheetGroups(d), configuration(d)...) {
		p.line("")
		p.line("## %s", escapeMD(g.Title))
		p.line("")
		for _, pr := range g.Pairs {
			if pr.Value != "" {
				p.line("- %s: %s", escapeMD(pr.Name), escapeMD(pr.Value))
			}
		}
	}
	for _, n := range notes(d) {
		p.line("")
		p.line("## %s", escapeMD(n.Title))
		p.line("")
		for _, l := range n.Lines {
			p.line("- %s", escapeMD(l))
		}
	}
	p.line("")
	p.line("%s", escapeMD(notSPEC))
	return p.err
}

// escapeMD takes the meaning from characters Markdown or HTML would act on.
var escapeMD = strings.NewReplacer("\\", "\\\\", "`", "\\`", "*", "\\*", "_", "\\_", "[", "\\[", "]", "\\]", "<", "&lt;",
	">", "&gt;", "|", "\\|", "#", "\\#", "\n", " ").Replace
