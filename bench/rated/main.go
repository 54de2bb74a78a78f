// Command rated measures with the product itself, at line speed: how many slots a core
// of drivers can rate, what an operation costs the server there, and the score of a
// server held to a part of a core. See bench/README.md.
//
// From the root of the tree: go run ./bench/rated --quick
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"tidemark.dev/bench/peers"
	"tidemark.dev/bench/suite"
	"tidemark.dev/internal/edge/proc"
)

func main() {
	p, release := proc.Real()
	r := rated{window: 10 * time.Second, cap: 19_000}
	code := suite.Command(p, suite.Job{Name: "rated", Rounds: 3, Option: r.option, Usage: usage, Run: r.run})
	release()
	p.Exit(code)
}

const usage = `
  --window=10s       length of the windows of a run; three make one
  --congestion=NAME  congestion control of both sides in the runs "target" (root)
  --cap=19000        most slots asked for
  names for --only: slots-stay slots-sessions target-5510 target-2110 quota
`

// rated is the suite's options and what it measures.
type rated struct {
	window     time.Duration
	congestion string
	cap        int

	*suite.Suite
	report suite.Report
	data   data
	place  peers.Place // with the contents the product expects
}

// data is everything that was measured.
type data struct {
	WindowSeconds float64  `json:"window_seconds"`
	Congestion    string   `json:"congestion,omitempty"`
	Climbs        []*climb `json:"slots"`
	Series        []*duel  `json:"compared"`
}

func (r *rated) option(name, value string) (known bool, err error) {
	switch name {
	case "window":
		r.window, err = time.ParseDuration(value)
		if err == nil && r.window < time.Second {
			err = errors.New("a window has at least 1s")
		}
	case "congestion":
		r.congestion = value
	case "cap":
		r.cap, err = strconv.Atoi(value)
	default:
		return false, nil
	}
	return true, err
}

func (r *rated) run(ctx context.Context, s *suite.Suite) (suite.Result, error) {
	r.Suite = s
	if s.Smoke {
		r.window, r.cap = time.Second, 200
	}
	r.data.WindowSeconds, r.data.Congestion = r.window.Seconds(), r.congestion
	var err error
	if r.place, err = s.ProductPlace(ctx); err != nil {
		return nil, err
	}
	if r.report.Head, err = s.Head(ctx, "Suite rated"); err != nil {
		return nil, err
	}
	r.report.Method = fmt.Sprintf("Runs of `tidemark bench`, windows of %v, three to a run, server on core %d, drivers on core %d, loopback.\n"+
		"A run counts if its windows were valid and, during each, nothing else used more than %.0f %% of a core. Cells give **median** [lowest-highest].",
		r.window, s.ServerCPU, s.ClientCPU, 100*s.Limit)
	err = r.all(ctx)
	r.report.Data = &r.data
	if len(r.data.Climbs)+len(r.data.Series) == 0 {
		return nil, errors.Join(err, errors.New("nothing was measured"))
	}
	return &r.report, err
}

// all measures what is asked for. One part that fails does not take the others along.
func (r *rated) all(ctx context.Context) error {
	err := r.slots(ctx)
	loads := []int{5510, 2110}
	if r.Smoke {
		loads = loads[:1] // the other does the same
	}
	for _, load := range loads {
		if name := "target-" + strconv.Itoa(load); r.Wanted(name) && ctx.Err() == nil {
			err = errors.Join(err, r.target(ctx, name, load))
		}
	}
	if r.Wanted("quota") && ctx.Err() == nil {
		err = errors.Join(err, r.quota(ctx))
	}
	return err
}

// note tells a person now and the reader later.
func (r *rated) note(format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	r.Say("%s", text)
	r.report.Notes = append(r.report.Notes, text)
}
