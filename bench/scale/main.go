// Command scale measures how the cost of a request grows: with connections, with the
// size of the file set and of a file; and the memory of a connection at rest and of a
// rated slot. It draws what it finds. See bench/README.md.
//
// From the root of the tree: go run ./bench/scale --quick
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"tidemark.dev/bench/plot"
	"tidemark.dev/bench/suite"
	"tidemark.dev/internal/edge/proc"
	"tidemark.dev/internal/model/fileset"
)

func main() {
	p, release := proc.Real()
	sc := defaults()
	code := suite.Command(p, suite.Job{Name: "scale", Rounds: 5, Option: sc.option, Usage: usage, Run: sc.run})
	release()
	p.Exit(code)
}

const usage = `
  --connections=10,100,1000,5000,10000,18000
  --sets=100MB,1GB,4GB         sizes of the file set; as much disk is used
  --sizes=100,1KB,10KB,100KB,1MB,10MB,100MB
  --idle=10000                 connections at rest, slots of the driver
  names for --only: connections-N short-N set-N-warm set-N-cold size-N memory
`

// scaling is the suite's options.
type scaling struct {
	connections []int64
	sets, sizes []int64 // bytes
	idle        int64
}

func defaults() *scaling {
	const k = 1024
	return &scaling{
		connections: []int64{10, 100, 1000, 5000, 10_000, 18_000},
		sets:        []int64{100e6, 1e9, 4e9},
		sizes:       []int64{100, k, 10 * k, 100 * k, k * k, 10 * k * k, 100 * k * k},
		idle:        10_000,
	}
}

func (s *scaling) option(name, value string) (known bool, err error) {
	var list *[]int64
	var one []int64
	unit := int64(1000)
	switch name {
	case "connections":
		list = &s.connections
	case "sets":
		list = &s.sets
	case "sizes":
		list, unit = &s.sizes, 1024
	case "idle":
		list = &one
	default:
		return false, nil
	}
	*list, err = numbers(value, unit)
	if err == nil && name == "idle" {
		if s.idle = one[0]; s.idle < 100 || len(one) > 1 {
			err = errors.New("one number, 100 at least")
		}
	}
	return true, err
}

// numbers reads a list such as 100,10KB,1GB; a K is so many.
func numbers(text string, k int64) (out []int64, err error) {
	for _, word := range strings.Split(text, ",") {
		digits := strings.TrimRight(word, "KMGB")
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is no number above 0", word)
		}
		switch word[len(digits):] {
		case "", "B":
		case "KB":
			n *= k
		case "MB":
			n *= k * k
		case "GB":
			n *= k * k * k
		default:
			return nil, fmt.Errorf("%q: there are KB, MB and GB", word)
		}
		out = append(out, n)
	}
	return out, nil
}

// series is one curve's worth of scenarios.
type series struct {
	name, title, x string
	at             []float64
	scenarios      []suite.Scenario
}

func (c *series) add(at float64, sc suite.Scenario) {
	c.at, c.scenarios = append(c.at, at), append(c.scenarios, sc)
}

// versus compares our server with nginx.
func versus(name, title, list string, c suite.Client) suite.Scenario {
	return suite.Scenario{
		Name: name, Title: title, List: list, Reference: suite.Lane{Server: "nginx", Client: c}, Lanes: []suite.Lane{{Server: "tidemark", Client: c}},
	}
}

// room is for how many connections servers are set up: nginx ends idle ones when less
// than a sixteenth is free.
func room(n int64) int { return int(n + n/8 + 1000) }

// all is everything that is measured.
func (s *scaling) all() []*series {
	const mix = "web99 static mix"
	by := &series{name: "connections", title: "Cost and connections", x: "connections"}
	short := &series{name: "short", title: "Cost and connections, one request for each", x: "connections at a time"}
	for _, n := range s.connections {
		word := strconv.FormatInt(n, 10)
		sc := versus("connections-"+word, mix+", "+word+" connections", suite.Mix, suite.Steady(int(n)))
		sc.Connections = room(n)
		by.add(float64(n), sc)
		if n <= 1000 { // more at a time ask for more ports than there are
			short.add(float64(n), versus("short-"+word, mix+", one request for each connection, "+word+" at a time", suite.Mix, suite.Light(int(n), "-1")))
		}
	}
	warm := &series{name: "set-warm", title: "Cost and size of the file set, page cache warm", x: "bytes of the set"}
	cold := &series{name: "set-cold", title: "Cost and size of the file set, page cache cold", x: "bytes of the set"}
	for _, n := range s.sets {
		dirs := max(1, int(n/fileset.DirBytes))
		word := bytes(n)
		sc := versus("set-"+word+"-warm", "web99 static mix over "+word, suite.Mix, suite.Light(64))
		sc.Dirs, sc.Connections = dirs, 1024
		warm.add(float64(n), sc)
		sc.Name, sc.Title, sc.Cold = "set-"+word+"-cold", sc.Title+", servers and page cache empty at the start of each sample", true
		cold.add(float64(n), sc)
	}
	size := &series{name: "size", title: "Cost and size of a file", x: "bytes of the file"}
	for _, n := range s.sizes {
		word, connections := strconv.FormatInt(n, 10), 64
		if n >= 10<<20 {
			connections = 8 // or none would end
		}
		size.add(float64(n), versus("size-"+word, "One file of "+word+" bytes", word, suite.Light(connections)))
	}
	return []*series{by, short, warm, cold, size}
}

// bytes writes a size: 100MB.
func bytes(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "KB"}} {
		if n >= u.size && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// result is the document of the scenarios with what is more.
type result struct {
	*suite.Document
	Memory []*memory       `json:"memory"`
	Bounds []suite.Reached `json:"memory_goals"`
	Notes  []string        `json:"notes,omitempty"`
	plots  map[string][]byte
	tables []suite.Table
}

func (s *scaling) run(ctx context.Context, m *suite.Suite) (suite.Result, error) {
	if m.Smoke {
		s.connections, s.sets, s.sizes, s.idle = []int64{10, 300}, []int64{10e6, 30e6}, []int64{100, 100 << 10, 10 << 20}, 400
	}
	all := s.all()
	var scenarios []suite.Scenario
	for _, c := range all {
		scenarios = append(scenarios, c.scenarios...)
	}
	r := &result{plots: map[string][]byte{}}
	var err error
	r.Document, err = m.Scenarios(ctx, "Suite scale", scenarios, nil)
	if ctx.Err() == nil && m.Wanted("memory") {
		err = errors.Join(err, s.memory(ctx, m, r))
	}
	if len(r.Scenarios) == 0 && len(r.Memory) == 0 {
		return nil, errors.Join(err, errors.New("nothing was measured"))
	}
	for _, c := range all {
		err = errors.Join(err, r.series(c))
	}
	return r, err
}

// series adds plot and table of a series, of what was measured of it.
func (r *result) series(c *series) error {
	curves := map[string]*plot.Curve{}
	var names []string
	t := suite.Table{Title: c.title, Columns: []string{c.x}, Plots: []string{"-" + c.name + ".svg"}}
	for i, sc := range c.scenarios {
		o := r.Scenario(sc.Name)
		if o == nil {
			continue
		}
		row := []string{thousands(c.at[i])}
		for _, name := range o.Names() {
			cost := o.Cost(name)
			if curves[name] == nil {
				curves[name] = &plot.Curve{Name: name}
				names = append(names, name)
				t.Columns = append(t.Columns, name+", us/request")
			}
			if cost.N > 0 {
				curves[name].Points = append(curves[name].Points, plot.Point{X: c.at[i], Y: cost.Median, Low: cost.Low, High: cost.High})
			}
			row = append(row, cost.Words(suite.Decimals(cost.Median)))
		}
		for _, name := range o.Lanes {
			row = append(row, o.Ratio(name).Words(2))
		}
		t.Rows = append(t.Rows, row)
	}
	if len(t.Rows) == 0 {
		return nil
	}
	t.Columns = append(t.Columns, "ratio")
	chart := plot.Chart{Title: c.title, X: c.x, Y: "server processor time of a request, us: median and range"}
	for _, name := range names {
		chart.Curves = append(chart.Curves, *curves[name])
	}
	svg, err := chart.SVG()
	if svg != nil {
		r.plots["-"+c.name+".svg"] = svg
	}
	r.tables = append(r.tables, t)
	return err
}

func thousands(v float64) string { return suite.Value{Median: v, N: 1}.Plain(0) }

// Markdown writes summary, memory and then every scenario.
func (r *result) Markdown(w io.Writer) {
	report := suite.Report{
		Head: r.Head, Goals: r.Bounds, Tables: r.tables, Notes: r.Notes, Plots: r.plots,
		Method: "What grows: the curves are medians of the samples with their ranges, the ratios those of pairs, as in the tables below.",
	}
	report.Markdown(w)
	fmt.Fprintln(w)
	r.Body(w)
}

// Files are the plots.
func (r *result) Files() map[string][]byte { return r.plots }
