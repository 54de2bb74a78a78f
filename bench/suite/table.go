package suite

import (
	"fmt"
	"io"
	"strings"
)

// Report is the result of a suite with a method of its own.
type Report struct {
	Head
	Method string            `json:"method"` // in words
	Goals  []Reached         `json:"goals"`
	Tables []Table           `json:"-"`
	Data   any               `json:"measured"` // everything the tables were made of
	Notes  []string          `json:"notes,omitempty"`
	Plots  map[string][]byte `json:"-"` // by the end of their names
}

// Table is for people.
type Table struct {
	Title, Note string
	Columns     []string
	Rows        [][]string
	Plots       []string // of the report, shown below it
}

// Reached is a goal and what was measured, in the goal's own unit.
type Reached struct {
	Measure string  `json:"measure"`
	Unit    string  `json:"unit"`
	Must    float64 `json:"must_in_unit"`
	Aim     float64 `json:"aim_in_unit"`
	More    bool    `json:"more_is_better,omitempty"`
	Value   Value   `json:"measured"`
	Verdict string  `json:"verdict"` // aim, must, missed, not measured
}

// Value is a median and its range, of N figures.
type Value struct {
	Median float64 `json:"median_in_unit"`
	Low    float64 `json:"low_in_unit"`
	High   float64 `json:"high_in_unit"`
	N      int     `json:"n_count"`
}

// Median summarises figures.
func Median(v []float64) Value {
	s := spread(v)
	return Value(s)
}

// Words writes the value with so many decimals.
func (v Value) Words(decimals int) string {
	if v.N == 0 {
		return "-"
	}
	return fmt.Sprintf("**%s** [%s-%s]", figure(v.Median, decimals), figure(v.Low, decimals), figure(v.High, decimals))
}

func figure(v float64, decimals int) string {
	if decimals == 0 {
		return thousands(v)
	}
	return fmt.Sprintf("%.*f", decimals, v)
}

// Plain writes the median alone.
func (v Value) Plain(decimals int) string { return figure(v.Median, decimals) }

// Judge fills in the verdict.
func (g Reached) Judge(v Value) Reached {
	g.Value = v
	g.Verdict = judge(v.Median, v.N, g.Must, g.Aim, g.More)
	return g
}

// judge says which of two goals a figure reaches.
func judge(v float64, n int, must, aim float64, more bool) string {
	reached := func(goal float64) bool { return more && v >= goal || !more && v <= goal }
	switch {
	case n == 0:
		return "not measured"
	case reached(aim):
		return "aim"
	case reached(must):
		return "must"
	}
	return "missed"
}

// Decimals that tell figures of this size apart.
func Decimals(v float64) int {
	switch {
	case v >= 100:
		return 0
	case v >= 10:
		return 1
	}
	return 2
}

// Files are the plots.
func (r *Report) Files() map[string][]byte { return r.Plots }

// Markdown writes the report for people.
func (r *Report) Markdown(w io.Writer) {
	r.top(w)
	fmt.Fprintf(w, "%s\n\n", r.Method)
	if len(r.Goals) > 0 {
		fmt.Fprint(w, "## Goals\n\n| measure | must | aim | measured | n | verdict |\n|---|---|---|---|---|---|\n")
		for _, g := range r.Goals {
			n := Decimals(max(g.Must, g.Aim))
			sign := "at most"
			if g.More {
				sign = "at least"
			}
			fmt.Fprintf(w, "| %s, %s | %s %s | %s | %s | %d | %s |\n", g.Measure, g.Unit, sign, figure(g.Must, n), figure(g.Aim, n), g.Value.Words(n), g.Value.N, g.Verdict)
		}
		fmt.Fprintln(w)
	}
	for _, t := range r.Tables {
		t.markdown(w, r)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "- %s\n", strings.ReplaceAll(n, "\n", " "))
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(w)
	}
	r.bottom(w)
}

func (t *Table) markdown(w io.Writer, r *Report) {
	fmt.Fprintf(w, "## %s\n\n", t.Title)
	if t.Note != "" {
		fmt.Fprintf(w, "%s\n\n", t.Note)
	}
	if len(t.Columns) > 0 {
		fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(t.Columns, " | "), strings.Repeat("---|", len(t.Columns)))
	}
	for _, row := range t.Rows {
		fmt.Fprintf(w, "| %s |\n", strings.ReplaceAll(strings.Join(row, " | "), "\n", " "))
	}
	fmt.Fprintln(w)
	for _, end := range t.Plots {
		if _, there := r.Plots[end]; there {
			fmt.Fprintf(w, "![%s](%s%s)\n\n", t.Title, r.file(), end)
		}
	}
}

// file is the beginning of the names of what is saved.
func (h *Head) file() string { return h.Name + "-" + h.Made.Format("2006-01-02") }
