package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tidemark.dev/bench/suite"
)

// variant is one kind of connections that slots make.
type variant struct {
	name, title string
	lines       string // of the workload
	must, aim   float64
}

func variants() []variant {
	return []variant{
		{"slots-stay", "connections that stay", suite.StaticOnly + suite.StayOpen, 12_000, 18_000},
		{"slots-sessions", "web99 sessions", suite.StaticOnly, 7_000, 10_000},
	}
}

// climb is one search for the largest load that a core of drivers measures validly.
type climb struct {
	Name   string  `json:"name"`
	Round  int     `json:"round"`
	Server string  `json:"server"`
	Asked  []asked `json:"asked"`
	Found  int     `json:"largest_valid_connections"` // 0: none
	Open   bool    `json:"at_least,omitempty"`        // nothing above was seen to be invalid
	Micro  float64 `json:"driver_microseconds_per_operation"`
	Limit  string  `json:"limited_by,omitempty"`
}

// asked is one load of a climb.
type asked struct {
	Load  int        `json:"load_connections"`
	Valid bool       `json:"valid"`
	Run   *suite.Run `json:"run"`
}

// slots climbs with each variant in turn, round by round. The server is a C limit, so
// that it is not what ends the climb.
func (r *rated) slots(ctx context.Context) error {
	begin, paths := map[string]int{}, map[string]string{}
	var wanted []variant
	for _, v := range variants() {
		if !r.Wanted(v.name) {
			continue
		}
		var err error
		if paths[v.name], err = r.Workload(v.name, v.lines); err != nil {
			return err
		}
		wanted, begin[v.name] = append(wanted, v), min(int(v.must), r.cap)
		if r.Smoke {
			begin[v.name] = 200
		}
	}
	var failed error
	for round := range r.Rounds {
		for _, v := range wanted {
			c := &climb{Name: v.name, Round: round}
			err := r.climb(ctx, c, paths[v.name], begin[v.name], round == 0)
			if len(c.Asked) > 0 {
				r.data.Climbs = append(r.data.Climbs, c)
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", v.name, err))
			} else if c.Found > 0 {
				begin[v.name] = c.Found
			}
			if ctx.Err() != nil {
				return failed
			}
		}
	}
	r.tellSlots(wanted)
	return failed
}

func (r *rated) climb(ctx context.Context, c *climb, path string, begin int, first bool) error {
	server, err := r.Start(ctx, r.place, "C io_uring polled")
	if err != nil {
		r.note("%v", err)
		if server, err = r.Start(ctx, r.place, "C epoll"); err != nil {
			return err
		}
	}
	defer func() { _ = server.Stop(3 * time.Second) }() // measured already
	c.Server = server.Name
	s := seek{low: 50, high: r.cap, at: begin, factor: 1.25, width: 0.02}
	if !first {
		s.factor = 1.08 // the last round's answer is near
	}
	if r.Smoke {
		s.width = 0.5
	}
	for load, more := s.next(); more; load, more = s.next() {
		x, err := r.Undisturbed(ctx, suite.Product{
			Name: c.Name, Peer: server, Workload: path, Load: load, Window: r.window,
			Limit: 9*(r.window+20*time.Second+time.Duration(load)*2*time.Millisecond) + time.Minute,
		})
		if err != nil {
			return err
		}
		if err := server.Failed(); err != nil {
			return err
		}
		a := asked{load, x.Valid() && x.Disturbed == "", x}
		c.Asked = append(c.Asked, a)
		s.add(load, a.Valid)
		r.Say("%-14s round %d  %6d slots  valid %-5v  %.2f us/op  %.2f %% late  driver core %.0f %%  %s", c.Name, c.Round+1, load, a.Valid,
			x.Of((*suite.Window).Driver), x.Of(late), 100*x.Of(cores), blame(&a))
	}
	c.Found, c.Open = s.yes, s.no == 0
	for i := range c.Asked {
		a := &c.Asked[i]
		switch {
		case a.Load == c.Found && a.Valid:
			c.Micro = a.Run.Of((*suite.Window).Driver)
		case a.Load == s.no && !a.Valid:
			c.Limit = blame(a)
		}
	}
	if c.Open {
		c.Limit = fmt.Sprintf("nothing: %d were not exceeded", r.cap)
	}
	return nil
}

func late(w *suite.Window) float64       { return w.Late }
func cores(w *suite.Window) float64      { return w.DriverCores }
func conforming(w *suite.Window) float64 { return w.Conforming }

// blame says why a load is not valid, or that slots did not conform: then the target,
// too, had its share.
func blame(a *asked) string {
	switch {
	case a.Run.Disturbed != "":
		return "disturbed: " + a.Run.Disturbed
	case !a.Valid:
		return a.Run.Why()
	case a.Run.Of(conforming) < 99:
		return fmt.Sprintf("%.1f %% conform", a.Run.Of(conforming))
	}
	return ""
}

// tellSlots adds goals and table.
func (r *rated) tellSlots(wanted []variant) {
	t := suite.Table{
		Title:   "Rated slots of a core of drivers, in valid runs",
		Note:    "Static mix. Each round climbs and bisects to 2 %. C io_uring polled is never woken, and its congestion control is cubic.",
		Columns: []string{"slots", "round", "against", "largest valid load", "driver us/op", "driver core", "late", "conform", "what ended it"},
	}
	for _, v := range wanted {
		var found []float64
		for _, c := range r.data.Climbs {
			if c.Name != v.name {
				continue
			}
			row := []string{v.title, fmt.Sprint(c.Round + 1), c.Server, fmt.Sprint(c.Found), "", "", "", "", c.Limit}
			for _, a := range c.Asked {
				if a.Valid && a.Load == c.Found {
					row[4], row[5] = fmt.Sprintf("%.2f", c.Micro), fmt.Sprintf("%.0f %%", 100*a.Run.Of(cores))
					row[6], row[7] = fmt.Sprintf("%.2f %%", a.Run.Of(late)), fmt.Sprintf("%.1f %%", a.Run.Of(conforming))
				}
			}
			if c.Open {
				row[3] = "at least " + row[3]
			}
			t.Rows = append(t.Rows, row)
			found = append(found, float64(c.Found))
		}
		r.report.Goals = append(r.report.Goals, suite.Reached{
			Measure: "rated slots of a driver core, " + v.title, Unit: "slots", Must: v.must, Aim: v.aim, More: true,
		}.Judge(suite.Median(found)))
	}
	if len(t.Rows) > 0 {
		r.report.Tables = append(r.report.Tables, t)
	}
}

// seek finds the largest load that is answered with yes: by growing steps until one is
// a no (or by shrinking ones until one is a yes), then by halves.
type seek struct {
	low, high int     // loads that may be asked
	at        int     // first load
	factor    float64 // of a step
	width     float64 // relative, between yes and no at the end
	yes, no   int     // largest load with yes, smallest with no above it; 0 none yet
}

// next is the load to ask, while there is one.
func (s *seek) next() (load int, more bool) {
	switch {
	case s.yes == 0 && s.no == 0:
		load = s.at
	case s.no == 0:
		load = int(float64(s.yes) * s.factor)
	case s.yes == 0:
		load = int(float64(s.no) / s.factor)
	case float64(s.no-s.yes) <= s.width*float64(s.yes):
		return 0, false
	default:
		load = (s.yes + s.no) / 2
	}
	if load = min(max(load/10*10, s.low), s.high); load == s.yes || load == s.no {
		return 0, false
	}
	return load, true
}

// add takes the answer. A yes above a no, or a no below a yes, is noise: the later counts.
func (s *seek) add(load int, ok bool) {
	if ok {
		s.yes = load
	} else {
		s.no = load
	}
}

// short cuts a sentence for a cell.
func short(text string) string {
	if first, _, more := strings.Cut(text, "\n"); more {
		return first
	}
	return text
}
