package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tidemark.dev/bench/peers"
	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/target"
)

// Product is one run of the product itself, tidemark bench.
type Product struct {
	Name     string        // of its result folder; a number is added
	Server   string        // kit to start, or
	Peer     *peers.Peer   // a server that runs already
	Root     string        // document root of a kit
	Workload string        // preset or path
	Load     int           // 0: the load is sought
	MaxLoad  int           // of the search, 0: as it comes
	Window   time.Duration // 0: the profile's
	More     []string      // further arguments
	Limit    time.Duration // longest duration of the run
	Look     func(pid int) // called every now and then with the process, may be nil
}

// Run is what one run of the product gave.
type Run struct {
	Command    []string           `json:"command"`
	Verdict    disclosure.Verdict `json:"verdict"`
	Iterations []Window           `json:"iterations"`
	Search     *disclosure.Search `json:"search,omitempty"`
	Disturbed  string             `json:"disturbed,omitempty"` // why its figures do not count
	Folder     string             `json:"-"`
}

// Window is one iteration of a run.
type Window struct {
	Load          int                 `json:"load_connections"`
	Attempt       int                 `json:"attempt_number"`
	Scored        bool                `json:"scored"`
	Valid         bool                `json:"valid"`
	Passing       bool                `json:"passing"`
	Conforming    float64             `json:"conforming_percent"`
	Ops           uint64              `json:"operations_count"`
	Late          float64             `json:"late_percent"`
	DriverSeconds float64             `json:"driver_cpu_seconds"`
	TargetSeconds float64             `json:"target_cpu_seconds,omitempty"` // 0 where the run did not start the server
	DriverCores   float64             `json:"driver_busy_cores"`
	Use           Load                `json:"cores"` // both together
	Reasons       []disclosure.Reason `json:"reasons,omitempty"`
}

// Driver and Target are the processor time of an operation in microseconds.
func (w *Window) Driver() float64 { return w.DriverSeconds / float64(w.Ops) * 1e6 }

// Target see Driver.
func (w *Window) Target() float64 { return w.TargetSeconds / float64(w.Ops) * 1e6 }

// Valid tells whether every window that the answer rests on was valid: the product
// repeats an invalid one at most twice.
func (r *Run) Valid() bool {
	n := 0
	for i, w := range r.Iterations {
		replaced := i+1 < len(r.Iterations) && r.Iterations[i+1].Attempt > w.Attempt
		if !w.Valid && !replaced {
			return false
		}
		n++
	}
	return n > 0
}

// Of is the median of a figure over the valid windows, or over all if none is.
func (r *Run) Of(figure func(w *Window) float64) float64 {
	var valid, all []float64
	for i := range r.Iterations {
		w := &r.Iterations[i]
		if w.Ops == 0 {
			continue
		}
		all = append(all, figure(w))
		if w.Valid {
			valid = append(valid, figure(w))
		}
	}
	if len(valid) > 0 {
		return spread(valid).Median
	}
	return spread(all).Median
}

// Why is what made the run invalid, in the words of its first reason.
func (r *Run) Why() string {
	for _, w := range r.Iterations {
		for _, x := range w.Reasons {
			if x.Effect == "invalid" && !w.Valid {
				return x.Text
			}
		}
	}
	return r.Verdict.Words
}

// Product runs tidemark bench with its drivers on the client's core and, if it starts
// the server, that on the server's. A run whose verdict is a bad one is no error; one
// without a document is.
func (s *Suite) Product(ctx context.Context, p Product) (*Run, error) {
	dir := filepath.Join(s.Work, "runs")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	s.runs++
	out := filepath.Join(dir, fmt.Sprintf("%s-%d", p.Name, s.runs))
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	args := []string{"bench", "--json", "--profile", "quick", "--workload", p.Workload, "--out", out, "--driver-cpus", strconv.Itoa(s.ClientCPU)}
	if p.Peer != nil {
		args = append(args, "--target", "http://"+p.Peer.Address.String())
	} else {
		args = append(args, "--server", p.Server, "--root", p.Root, "--target-cpus", strconv.Itoa(s.ServerCPU))
	}
	if p.Load > 0 {
		args = append(args, "--load", strconv.Itoa(p.Load))
	}
	if p.MaxLoad > 0 {
		args = append(args, "--max-load", strconv.Itoa(p.MaxLoad))
	}
	if p.Window > 0 {
		args = append(args, "--window", p.Window.String())
	}
	args = append(args, p.More...)
	c := target.Command{
		Name: p.Name, Path: s.Built["tidemark"], Args: args, CPUs: []int{s.ServerCPU, s.ClientCPU}, Log: out + ".log",
	}
	if err := os.RemoveAll(c.Log); err != nil {
		return nil, err
	}
	prime, err := s.Place.Keeper.Spawn(c)
	if err != nil {
		return nil, err
	}
	prime.Expect()
	watch := s.Watch(func() time.Duration {
		user, system := prime.CPU()
		if p.Peer != nil {
			u, k := p.Peer.CPU()
			user, system = user+u, system+k
		}
		return user + system
	})
	if p.Look != nil {
		ended, done := make(chan struct{}), make(chan struct{})
		defer func() { close(ended); <-done }()
		go func() {
			defer close(done)
			t := time.NewTicker(250 * time.Millisecond)
			defer t.Stop()
			for {
				select {
				case <-t.C:
					p.Look(prime.Pid)
				case <-ended:
					return
				}
			}
		}()
	}
	late := time.NewTimer(p.Limit)
	defer late.Stop()
	select {
	case <-prime.Done():
	case <-late.C:
		err = fmt.Errorf("%s did not end within %v", p.Name, p.Limit)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		err = errors.Join(err, prime.Stop(3*time.Second))
	}
	if watchErr := watch.Stop(); err == nil {
		err = watchErr
	}
	if err != nil {
		return nil, err
	}
	d, err := disclosure.Load(out)
	if err != nil {
		text, _ := os.ReadFile(c.Log) // err says what is missing
		return nil, fmt.Errorf("%w\n%s", err, text)
	}
	r := &Run{Command: d.Run.Command, Verdict: d.Verdict, Search: d.Search, Folder: out}
	for i := range d.Iterations {
		r.Iterations = append(r.Iterations, window(&d.Iterations[i], watch))
		if w := &r.Iterations[i]; r.Disturbed == "" && !s.Smoke {
			r.Disturbed = w.Use.dirty(s.Limit)
		}
	}
	if len(r.Iterations) == 0 && d.Verdict.Word != disclosure.InvalidRun && d.Verdict.Word != disclosure.DoesNotPass {
		text, _ := os.ReadFile(c.Log) // only to be told
		return nil, fmt.Errorf("%s: %s %s", p.Name, d.Verdict.Words, strings.TrimSpace(string(text[max(0, len(text)-400):])))
	}
	return r, nil
}

// window takes from an iteration of a document what the suites compare.
func window(it *disclosure.Iteration, watch *Watch) Window {
	w := Window{
		Load: it.Requested, Attempt: it.Attempt, Scored: it.Scored, Valid: it.Valid, Passing: it.Passing, Conforming: it.Percent,
		Ops: it.Ops, Late: it.Audit.Late,
	}
	for _, r := range it.Reasons {
		if r.Effect != "incomparable" && r.Effect != "note" {
			w.Reasons = append(w.Reasons, r)
		}
	}
	for _, c := range it.CPU {
		if c.Name == "target" {
			w.TargetSeconds += c.User + c.System
		} else {
			w.DriverSeconds += c.User + c.System
			w.DriverCores += c.Cores
		}
	}
	if from, err := time.Parse(time.RFC3339, it.StartedAt); err == nil {
		w.Use = watch.Load(from, from.Add(time.Duration(it.Window*float64(time.Second))))
	}
	return w
}

// Undisturbed repeats a run until nothing else used the machine during its windows,
// at most Tries times; the last one is returned as it is.
func (s *Suite) Undisturbed(ctx context.Context, p Product) (r *Run, err error) {
	for range s.Tries {
		if r, err = s.Product(ctx, p); err != nil || r.Disturbed == "" {
			return r, err
		}
		s.Say("%s: again: %s", p.Name, r.Disturbed)
		var busy []*peers.Peer
		if p.Peer != nil {
			busy = append(busy, p.Peer)
		}
		if err := s.Quiet(ctx, busy...); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Workload writes a variant of the web99 workload and returns its path.
func (s *Suite) Workload(name, lines string) (string, error) {
	path := filepath.Join(s.Work, name+".toml")
	return path, os.WriteFile(path, []byte("version = 1\nname = \""+name+"\"\nbase = \"web99\"\n"+lines), 0o644)
}

// Files only and, with the second, connections that stay: the two variants the suites use.
const (
	StaticOnly = "[mix]\nstatic = 1.0\nget = 0.0\ncgi = 0.0\ncad = 0.0\npost = 0.0\n"
	StayOpen   = "[sessions]\nkeepalive_share = 1.0\nshortest = 255\nlongest = 255\n"
)
