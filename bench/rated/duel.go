package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"tidemark.dev/bench/suite"
	"tidemark.dev/internal/engine/sysinfo"
)

// duel compares two servers by runs in turn: the reference, ours, the reference ...
type duel struct {
	Name   string    `json:"name"`
	What   string    `json:"what"` // of the figures
	Runs   []bout    `json:"runs"`
	Ratios []float64 `json:"ratios"`        // of the runs that count
	Marked []float64 `json:"marked_ratios"` // of those that do not
}

// bout is one run of a duel.
type bout struct {
	Server string           `json:"server"`
	Figure float64          `json:"figure"`
	Marked string           `json:"marked,omitempty"` // why it does not count
	Quota  map[string]int64 `json:"quota,omitempty"`  // what the kernel says of the bound
	Run    *suite.Run       `json:"run"`
}

// ratios divides each run of ours by the mean of the two beside it.
func (d *duel) ratios() {
	for i := 1; i+1 < len(d.Runs); i += 2 {
		a, x, b := &d.Runs[i-1], &d.Runs[i], &d.Runs[i+1]
		mean := (a.Figure + b.Figure) / 2
		if mean <= 0 || a.Figure <= 0 || b.Figure <= 0 || x.Figure <= 0 {
			continue
		}
		if a.Marked+x.Marked+b.Marked == "" {
			d.Ratios = append(d.Ratios, x.Figure/mean)
		} else {
			d.Marked = append(d.Marked, x.Figure/mean)
		}
	}
}

// fight runs the duel: one run more of the reference than of ours.
func (r *rated) fight(d *duel, reference, ours string, run func(server string) (bout, error)) error {
	r.data.Series = append(r.data.Series, d)
	for i := range 2*r.Rounds + 1 {
		server := reference
		if i%2 == 1 {
			server = ours
		}
		b, err := run(server)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", d.Name, server, err)
		}
		b.Server = server
		d.Runs = append(d.Runs, b)
		r.Say("%-12s %-15s %.2f %s  %.2f %% late  %s", d.Name, server, b.Figure, d.What, b.Run.Of(late), b.Marked)
	}
	return nil
}

// target compares the processor time of an operation at a fixed load.
func (r *rated) target(ctx context.Context, name string, load int) error {
	path, err := r.Workload("sessions", suite.StaticOnly)
	if err != nil {
		return err
	}
	measure := fmt.Sprintf("server CPU of an operation at %d slots, vs nginx", load)
	if r.Smoke {
		load = 200
	}
	var more []string
	if r.congestion != "" {
		more = []string{"--congestion", r.congestion}
	}
	d := &duel{Name: name, What: "us/op"}
	err = r.fight(d, "nginx", "tidemark", func(server string) (bout, error) {
		x, err := r.Undisturbed(ctx, suite.Product{
			Name: name, Server: server, Root: r.place.Root, Workload: path, Load: load, Window: r.window, More: more,
			Limit: 9*(r.window+20*time.Second+time.Duration(load)*2*time.Millisecond) + time.Minute,
		})
		if err != nil {
			return bout{}, err
		}
		b := bout{Figure: x.Of((*suite.Window).Target), Run: x, Marked: x.Disturbed}
		if !x.Valid() {
			b.Marked = "not valid: " + x.Why()
		}
		return b, nil
	})
	d.ratios()
	title := fmt.Sprintf("Server CPU of an operation at %d slots, static mix, web99 sessions", load)
	if r.congestion != "" {
		title += ", " + r.congestion
	}
	r.tell(d, title, "Processor time of the server's process tree in the window over operations ended in it.",
		suite.Reached{Measure: measure, Unit: "ratio", Must: 0.65, Aim: 0.50})
	return err
}

// The bound: 30 % of a core in periods so short that no slot notices one.
const (
	period = 5000 * time.Microsecond
	budget = 1500 * time.Microsecond
)

// quota compares the scores of servers held to a part of a core.
func (r *rated) quota(ctx context.Context) error {
	group, err := newGroup("/sys/fs/cgroup", fmt.Sprintf("tidemark-bench-%d", os.Getpid()), period, budget)
	if err != nil {
		r.note("quota: left out: %v", err)
		return nil
	}
	defer func() {
		if err := group.remove(); err != nil {
			r.note("quota: %v", err)
		}
	}()
	d := &duel{Name: "quota", What: "slots"}
	err = r.fight(d, "nginx FastCGI", "tidemark pages", func(server string) (bout, error) { return r.held(ctx, group, server) })
	d.ratios()
	r.tell(d, "Score with 30 % of a core, full mix", fmt.Sprintf("Search of the quick profile. The server's processes are in a group of %v in each %v (%s).", budget, period, group.kind),
		suite.Reached{Measure: "score with 30 % of a core, vs nginx with FastCGI pages", Unit: "ratio", Must: 1.4, Aim: 1.8, More: true})
	return err
}

// held is one search against a server in the group.
func (r *rated) held(ctx context.Context, group *group, name string) (b bout, err error) {
	server, err := r.Start(ctx, r.place, name)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, server.Stop(5*time.Second)) }()
	for _, p := range server.Processes() {
		tree, err := sysinfo.ReadTree(sysinfo.Live(), p.Pid)
		if err != nil {
			return b, err
		}
		for _, one := range tree.Processes {
			if err := group.add(one.PID); err != nil {
				return b, err
			}
		}
	}
	before := group.stat()
	p := suite.Product{Name: "quota", Peer: server, Workload: "web99", Limit: 15 * time.Minute}
	if r.Smoke {
		p.Load, p.Window = 50, r.window
	}
	if b.Run, err = r.Undisturbed(ctx, p); err != nil {
		return b, err
	}
	b.Quota = group.stat()
	for k, v := range before {
		b.Quota[k] -= v
	}
	b.Figure, b.Marked = float64(b.Run.Verdict.Score), b.Run.Disturbed
	switch {
	case !b.Run.Valid():
		b.Marked = "not valid: " + b.Run.Why()
	case b.Run.Verdict.Driver:
		b.Marked = "the drivers were the limit"
	}
	return b, nil
}

// tell adds goal and table of a duel.
func (r *rated) tell(d *duel, title, note string, goal suite.Reached) {
	r.report.Goals = append(r.report.Goals, goal.Judge(suite.Median(d.Ratios)))
	t := suite.Table{
		Title: title, Note: note,
		Columns: []string{"server", d.What, "driver us/op", "late", "conform", "marked: does not count"},
	}
	for _, b := range d.Runs {
		t.Rows = append(t.Rows, []string{
			b.Server, fmt.Sprintf("%.*f", suite.Decimals(b.Figure), b.Figure), fmt.Sprintf("%.2f", b.Run.Of((*suite.Window).Driver)),
			fmt.Sprintf("%.2f %%", b.Run.Of(late)), fmt.Sprintf("%.1f %%", b.Run.Of(conforming)), short(b.Marked),
		})
	}
	ratio := suite.Median(d.Ratios).Words(2)
	if len(d.Marked) > 0 {
		ratio += fmt.Sprintf("; of runs that do not count: %s", suite.Median(d.Marked).Words(2))
	}
	t.Note += " Ratio: " + ratio + "."
	r.report.Tables = append(r.report.Tables, t)
}
