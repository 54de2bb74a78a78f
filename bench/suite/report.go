package suite

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"tidemark.dev/internal/engine/sysinfo"
)

// Head says where, when and of what a result was made.
type Head struct {
	Version  int               `json:"version"`
	Name     string            `json:"-"` // of the files
	Suite    string            `json:"suite"`
	Made     time.Time         `json:"made"`
	Smoke    bool              `json:"is_smoke,omitempty"` // nothing was discarded: the figures mean nothing
	Commit   string            `json:"commit,omitempty"`
	Host     *sysinfo.Host     `json:"host"`
	Software map[string]string `json:"software"`
}

func (h *Head) top(w io.Writer) {
	fmt.Fprintf(w, "# %s, %s\n\n", h.Suite, h.Made.Format("2006-01-02 15:04 MST"))
	if h.Smoke {
		fmt.Fprint(w, "**Smoke run: samples are too short and none was discarded. The figures mean nothing.**\n\n")
	}
	fmt.Fprintf(w, "%s, %d threads, Linux %s, congestion control %s. Commit %s.\n", h.Host.Processor.Model, h.Host.Processor.Threads,
		h.Host.Kernel.Release, h.Host.Sysctls["net.ipv4.tcp_congestion_control"], h.Commit)
}

func (h *Head) bottom(w io.Writer) {
	if len(h.Software) == 0 {
		return
	}
	fmt.Fprint(w, "## Software\n\n")
	for _, name := range sortedKeys(h.Software) {
		fmt.Fprintf(w, "- %s: %s\n", name, h.Software[name])
	}
}

// Document is what a suite leaves behind. Every sample is in it, those that do not
// count with the reason, so each ratio can be computed again.
type Document struct {
	Head
	Options struct {
		SampleSeconds float64 `json:"sample_seconds"`
		Rounds        int     `json:"rounds"`
		Limit         float64 `json:"foreign_limit_share"`
		ServerCPU     int     `json:"server_core_number"`
		ClientCPU     int     `json:"client_core_number"`
	} `json:"options"`
	Goals     []Figure   `json:"goals"`
	Scenarios []*Outcome `json:"scenarios"`
}

// Goal is a figure that the project has set itself.
type Goal struct {
	Measure  string // in words
	Scenario string
	Lane     string
	// BetterOf names another lane: the reference or it, whichever is better, is what counts.
	BetterOf string
	// Rate compares requests per second and not processor time.
	Rate      bool
	Must, Aim float64
}

// Figure is a goal and what was measured.
type Figure struct {
	Measure string  `json:"measure"`
	Client  string  `json:"client"`
	Must    float64 `json:"must_ratio"`
	Aim     float64 `json:"aim_ratio"`
	Spread
	Verdict string `json:"verdict"` // aim, must, missed, not measured
}

// Spread is a median and its range, of N ratios.
type Spread struct {
	Median float64 `json:"median_ratio"`
	Low    float64 `json:"low_ratio"`
	High   float64 `json:"high_ratio"`
	N      int     `json:"n_count"`
}

func spread(v []float64) Spread {
	if len(v) == 0 {
		return Spread{}
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return Spread{Median: median(v), Low: v[0], High: v[len(v)-1], N: len(v)}
}

// median of sorted values.
func median(v []float64) float64 {
	if len(v)%2 == 1 {
		return v[len(v)/2]
	}
	return (v[len(v)/2-1] + v[len(v)/2]) / 2
}

func (s Spread) String() string {
	if s.N == 0 {
		return "-"
	}
	return fmt.Sprintf("**%.2f** [%.2f-%.2f]", s.Median, s.Low, s.High)
}

// figure judges a goal by the outcomes.
func (g Goal) figure(all []*Outcome) Figure {
	f := Figure{Measure: g.Measure, Must: g.Must, Aim: g.Aim, Verdict: "not measured"}
	i := slices.IndexFunc(all, func(o *Outcome) bool { return o.Name == g.Scenario })
	if i < 0 {
		return f
	}
	o := all[i]
	if f.Client = o.Client; f.Client == "" {
		f.Client = g.Lane + " against " + o.Reference
	}
	rivals := map[int]float64{}
	for _, p := range o.Pairs[g.BetterOf] {
		rivals[p.Round] = p.CPU
	}
	var ratios []float64
	for _, p := range o.Pairs[g.Lane] {
		r := p.CPU
		if g.Rate {
			r = p.Rate
		}
		if g.BetterOf != "" {
			rival, ok := rivals[p.Round]
			if !ok {
				continue
			}
			r /= min(1, rival)
		}
		ratios = append(ratios, r)
	}
	if f.Spread = spread(ratios); f.N == 0 {
		return f
	}
	f.Verdict = judge(f.Median, f.N, g.Must, g.Aim, g.Rate)
	return f
}

// row is one line of a scenario's table.
type row struct {
	name                   string
	micros, rate           float64 // medians of the samples that count
	serverBusy, clientBusy float64
	cpu, throughput        Spread
	discarded, samples     int
}

func (o *Outcome) row(name string) row {
	r := row{name: name}
	var micros, rates, server, client []float64
	for i := range o.Samples {
		x := &o.Samples[i]
		if x.Lane != name {
			continue
		}
		if x.Discarded != "" {
			r.discarded++
			continue
		}
		micros, rates = append(micros, o.micros(x)), append(rates, x.Rate())
		server, client = append(server, x.ServerCore.Own), append(client, x.ClientCore.Own)
	}
	r.samples = len(micros)
	r.micros, r.rate = spread(micros).Median, spread(rates).Median
	r.serverBusy, r.clientBusy = spread(server).Median, spread(client).Median
	var cpu, rate []float64
	for _, p := range o.Pairs[name] {
		cpu, rate = append(cpu, p.CPU), append(rate, p.Rate)
	}
	r.cpu, r.throughput = spread(cpu), spread(rate)
	return r
}

// Markdown writes the document for people.
func (d *Document) Markdown(w io.Writer) {
	d.top(w)
	d.Body(w)
	d.bottom(w)
}

// Body writes goals and scenarios.
func (d *Document) Body(w io.Writer) {
	fmt.Fprintf(w, "Server on core %d, client on core %d, loopback. Samples of %g s, %d rounds.\n\n", d.Options.ServerCPU, d.Options.ClientCPU,
		d.Options.SampleSeconds, d.Options.Rounds)
	fmt.Fprintf(w, `Processor time is that of the whole process tree (user and system) for each request. Each ratio is a sample over the mean of the reference samples just before
and after it; cells give **median** [lowest-highest]. Where a range crosses 1.00 no
difference is shown. Absolute figures drift over minutes: compare them within a row's
ratio only. Discarded: more than %.0f %% of a core used by others or stolen, or the client
saw a fault.

`, 100*d.Options.Limit)
	if len(d.Goals) > 0 {
		fmt.Fprint(w, "## Goals\n\n| measure | client | must | aim | measured | n | verdict |\n|---|---|---|---|---|---|---|\n")
		for _, g := range d.Goals {
			fmt.Fprintf(w, "| %s | %s | %.2f | %.2f | %v | %d | %s |\n", g.Measure, g.Client, g.Must, g.Aim, g.Spread, g.N, g.Verdict)
		}
		fmt.Fprintln(w)
	}
	for _, o := range d.Scenarios {
		o.markdown(w)
	}
}

// Scenario is the outcome of that name, or nil.
func (d *Document) Scenario(name string) *Outcome {
	for _, o := range d.Scenarios {
		if o.Name == name {
			return o
		}
	}
	return nil
}

// Files has none.
func (d *Document) Files() map[string][]byte { return nil }

func (o *Outcome) markdown(w io.Writer) {
	what := "server"
	if o.Client != "" {
		fmt.Fprintf(w, "## %s: %s\n\nReference: %s.\n\n", o.Title, o.Client, o.Reference)
	} else {
		what = "client"
		fmt.Fprintf(w, "## %s\n\nClients of %s. Reference: %s.\n\n", o.Title, o.Server, o.Reference)
	}
	fmt.Fprintf(w, "| | requests/s | %s us/request | us ratio | requests/s ratio | n | discarded | server core | client core |\n|---|---|---|---|---|---|---|---|---|\n", what)
	for i, name := range append([]string{o.Reference}, o.Lanes...) {
		r := o.row(name)
		if r.samples == 0 {
			fmt.Fprintf(w, "| %s | | | | | 0 | %d | | |\n", name, r.discarded)
			continue
		}
		cpu, rate, n := r.cpu.String(), r.throughput.String(), r.cpu.N
		if i == 0 {
			cpu, rate, n = "1", "1", r.samples
		}
		fmt.Fprintf(w, "| %s | %s | %.2f | %s | %s | %d | %d | %.0f %% | %.0f %% |\n", name, thousands(r.rate), r.micros, cpu, rate, n, r.discarded,
			100*r.serverBusy, 100*r.clientBusy)
	}
	fmt.Fprintln(w)
	for _, n := range o.Notes {
		fmt.Fprintf(w, "- %s\n", strings.ReplaceAll(n, "\n", " "))
	}
	if len(o.Notes) > 0 {
		fmt.Fprintln(w)
	}
}

// thousands writes 12345.6 as 12,346.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", math.Round(v))
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
