package run

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"

	"tidemark.dev/internal/drive/fleet"
	"tidemark.dev/internal/drive/slot"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/share"
	"tidemark.dev/internal/model/workload"
)

// Commands of a prime to its agents. docs/formats/fleet.md describes them.
const (
	verbInspect = "inspect"
	verbPlan    = "plan"
	verbTables  = "tables"
	verbLoad    = "load"
	verbPause   = "pause"
	verbResume  = "resume"
	verbWindow  = "window"
	verbCollect = "collect"
	verbWarm    = "warm"
	verbBurst   = "burst"
	verbTotals  = "totals"
)

// planMessage makes an agent's engine.
type planMessage struct {
	WorkloadName string           `json:"workload_name"`
	Workload     string           `json:"workload"` // TOML
	Targets      []netip.AddrPort `json:"targets"`
	Host         string           `json:"host"`
	Seed         uint64           `json:"seed,string"`
	FileSeed     uint64           `json:"file_seed,string"`
	Share        share.Share      `json:"share"`
	Count        int              `json:"count"`
	// Agent is this agent's number and SourceCount how many local addresses it should use.
	Agent       int    `json:"agent"`
	SourceCount int    `json:"source_count"`
	Loops       []int  `json:"loops"`
	Backend     string `json:"backend"`
	Pacing      string `json:"pacing"`
	VerifyEvery int    `json:"verify_every"`
	Ramp        int    `json:"ramp_per_second"`
}

type planned struct {
	Sources []string `json:"sources"`
	Loops   int      `json:"loops"`
	Backend string   `json:"backend"`
	Note    string   `json:"note,omitempty"` // why the backend is not the one to be tried
}

type tablesMessage struct {
	Users []byte `json:"users"`
	Ads   []byte `json:"ads"`
}

type loadMessage struct {
	Slots int `json:"slots"`
	Dirs  int `json:"dirs"`
	Users int `json:"users"`
	// Limit is how long the slots that have to go may take to end their operations.
	Limit time.Duration `json:"limit_ns"`
}

type windowMessage struct {
	Start clock.Instant `json:"start"` // agent's clock
	End   clock.Instant `json:"end"`
}

type warmMessage struct {
	Dirs   int           `json:"dirs"`
	Passes int           `json:"passes"`
	Limit  time.Duration `json:"limit_ns"`
}

// warmed says what a warm-up met.
type warmed struct {
	Failures slot.Failures `json:"failures,omitempty"` // of the target, by class
	Cut      bool          `json:"cut,omitempty"`      // it had no time for every file
}

type burstMessage struct {
	Duration time.Duration `json:"duration_ns"`
	Conns    int           `json:"conns"`
	Dirs     int           `json:"dirs"`
	Users    int           `json:"users"`
	Static   bool          `json:"static"`
}

type burstReply struct {
	OpsPerSec  float64 `json:"ops_per_second"`
	Ops        uint64  `json:"ops"`
	Failed     uint64  `json:"failed"`
	BusyCores  float64 `json:"busy_cores"`
	FirstError string  `json:"first_error,omitempty"`
}

// collected is what an agent hands over after a window.
type collected struct {
	Result *slot.Result `json:"result"`
	System system       `json:"system"`
}

// AgentOptions says where an agent finds its run.
type AgentOptions struct {
	URL, Token, Credentials, Run, Name string
}

// Agent joins a run and drives load for it until the run is over.
func Agent(ctx context.Context, o AgentOptions) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	a := &agent{}
	defer a.close()
	return fleet.Join(ctx, fleet.JoinOptions{
		URL: o.URL, Token: o.Token, Credentials: o.Credentials, Run: o.Run,
		Info: fleet.Info{Agent: o.Name, Host: host, Pid: os.Getpid(), CPUs: availableCPUs(), DescriptorLimit: descriptorLimit()},
		Verbs: map[string]fleet.Verb{
			verbInspect: func(context.Context, json.RawMessage) (any, error) { return Host() },
			verbPlan:    verb(a.plan),
			verbTables: verb(func(_ context.Context, m tablesMessage) (any, error) {
				return a.with(func(e *slot.Engine) error { return e.SetTables(m.Users, m.Ads) })
			}),
			verbLoad: verb(func(ctx context.Context, m loadMessage) (any, error) {
				runtime.GC() // what the window before left: it is not to fall due in the next one
				return a.with(func(e *slot.Engine) error { return bring(ctx, e, m) })
			}),
			verbPause: verb(func(ctx context.Context, limit time.Duration) (any, error) {
				return a.with(func(e *slot.Engine) error { return drain(ctx, e, limit) })
			}),
			verbResume: verb(func(context.Context, struct{}) (any, error) {
				return a.with(func(e *slot.Engine) error { e.Resume(); return nil })
			}),
			verbWindow:  verb(a.window),
			verbCollect: verb(a.collect),
			verbWarm: verb(func(ctx context.Context, m warmMessage) (any, error) {
				var out warmed
				_, err := a.with(func(e *slot.Engine) (err error) { out, err = warm(ctx, e, m); return err })
				return out, err
			}),
			verbBurst: verb(a.burst),
			verbTotals: verb(func(context.Context, struct{}) (any, error) {
				var p slot.Progress
				_, err := a.with(func(e *slot.Engine) error { p = e.Progress(); return nil })
				return p, err
			}),
		},
		Beat: a.beat,
	})
}

// verb decodes the body of a command for f.
func verb[M any](f func(context.Context, M) (any, error)) fleet.Verb {
	return func(ctx context.Context, body json.RawMessage) (any, error) {
		var m M
		if len(body) > 0 {
			if err := json.Unmarshal(body, &m); err != nil {
				return nil, fault.Wrap(fault.Driver, err, "command")
			}
		}
		return f(ctx, m)
	}
}

type metered struct {
	system system
	err    error
}

// agent is the state behind the verbs.
type agent struct {
	mu      sync.Mutex
	engine  *slot.Engine
	metered chan metered // the window's figures of this process, when it is over
}

func (a *agent) with(f func(*slot.Engine) error) (any, error) {
	a.mu.Lock()
	e := a.engine
	a.mu.Unlock()
	if e == nil {
		return nil, fault.New(fault.Driver, "no plan yet")
	}
	return nil, f(e)
}

// warm fetches every file within the limit. It ends here, where the connections are: they would go on beside the
// measurement otherwise.
func warm(ctx context.Context, e *slot.Engine, m warmMessage) (out warmed, err error) {
	limited, cancel := context.WithTimeout(ctx, m.Limit)
	defer cancel()
	err = e.Warm(limited, m.Dirs, m.Passes)
	switch {
	case err == nil || ctx.Err() != nil:
		return out, err
	case limited.Err() != nil:
		out.Cut = true
		return out, nil
	case fault.OriginOf(err) == fault.Target && errors.As(err, &out.Failures):
		return out, nil // what that means is the prime's to say
	}
	return out, err
}

// bring changes the load and waits until it is reached. Operations in its way that do not end are given up.
func bring(ctx context.Context, e *slot.Engine, m loadMessage) error {
	if err := e.SetLoad(m.Slots, m.Dirs, m.Users); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, m.Limit)
	defer cancel()
	err := e.AwaitReady(limited)
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return err
	}
	if err := drain(ctx, e, 0); err != nil && fault.OriginOf(err) != fault.Target {
		return err
	}
	e.Resume()
	return e.AwaitReady(ctx)
}

// drain pauses the load. Operations that the target has not answered within the limit, although nothing holds it
// back, are given up.
func drain(ctx context.Context, e *slot.Engine, limit time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := e.Pause(limited)
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return err
	}
	n, err := e.Abandon()
	if err != nil || n == 0 {
		return err
	}
	return fault.New(fault.Target, "drain: %s not answered to the end within %v", plural(n, "operation"), limit)
}

func (a *agent) beat() any {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.engine == nil {
		return slot.Progress{}
	}
	return a.engine.Progress()
}

func (a *agent) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.engine != nil {
		_ = a.engine.Close() // the process ends next
	}
}

func (a *agent) plan(_ context.Context, m planMessage) (any, error) {
	w, err := workload.Parse(m.WorkloadName, []byte(m.Workload))
	if err != nil {
		return nil, err
	}
	sources, err := slot.LocalSources(m.Targets[0].Addr(), m.Agent, m.SourceCount)
	if err != nil {
		return nil, err
	}
	// The first agent on a CPU would otherwise find Go's helpers in its way: collector, timers and network poller
	// get a processor of their own beside the loops.
	runtime.GOMAXPROCS(max(2, len(m.Loops)+1))
	e, err := slot.New(slot.Plan{
		Targets: m.Targets, Host: m.Host, Workload: w, Seed: m.Seed, FileSeed: m.FileSeed,
		Share: m.Share, Count: m.Count, Sources: sources, Loops: m.Loops, Backend: m.Backend,
		Pacing: m.Pacing, VerifyEvery: m.VerifyEvery, RampPerSecond: m.Ramp,
	})
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.engine != nil {
		_ = e.Close()
		return nil, fault.New(fault.Driver, "already has a plan")
	}
	a.engine = e
	out := planned{Loops: max(1, len(m.Loops))}
	out.Backend, out.Note = e.Backend()
	for _, s := range sources {
		out.Sources = append(out.Sources, s.String())
	}
	return out, nil
}

// window sets the recording window and measures the process itself over the same time.
func (a *agent) window(ctx context.Context, m windowMessage) (any, error) {
	a.mu.Lock()
	e := a.engine
	a.mu.Unlock()
	if e == nil {
		return nil, fault.New(fault.Driver, "no plan yet")
	}
	if err := e.Window(m.Start, m.End); err != nil {
		return nil, err
	}
	done := make(chan metered, 1)
	a.mu.Lock()
	a.metered = done
	a.mu.Unlock()
	go func() {
		wait(ctx, m.Start)
		before, err := takeSample()
		wait(ctx, m.End)
		after, err2 := takeSample()
		done <- metered{after.since(before), errors.Join(err, err2)}
	}()
	return nil, nil
}

func (a *agent) collect(ctx context.Context, _ struct{}) (any, error) {
	a.mu.Lock()
	e, metered := a.engine, a.metered
	a.mu.Unlock()
	if e == nil || metered == nil {
		return nil, fault.New(fault.Driver, "no window yet")
	}
	r, err := e.Collect(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case m := <-metered:
		return collected{Result: r, System: m.system}, m.err
	case <-ctx.Done():
		return nil, fault.Wrap(fault.Driver, ctx.Err(), "collect")
	}
}

func (a *agent) burst(ctx context.Context, m burstMessage) (any, error) {
	a.mu.Lock()
	e := a.engine
	a.mu.Unlock()
	if e == nil {
		return nil, fault.New(fault.Driver, "no plan yet")
	}
	before, err := takeSample()
	if err != nil {
		return nil, err
	}
	b, err := e.BurstWith(ctx, slot.BurstOptions{Duration: m.Duration, Conns: m.Conns, Dirs: m.Dirs, Users: m.Users, Static: m.Static})
	if err != nil {
		return nil, err
	}
	after, err := takeSample()
	if err != nil {
		return nil, err
	}
	out := burstReply{OpsPerSec: b.OpsPerSec, Ops: b.Ops, Failed: b.Failed, BusyCores: after.since(before).Cores}
	for class, e := range b.Errors {
		out.FirstError = class + ": " + e.Example
	}
	return out, nil
}

// wait blocks until the clock reads t or ctx ends. It is used for the edges of sampling only: the loops keep the
// window's edges themselves.
func wait(ctx context.Context, t clock.Instant) {
	d := t.Sub(clock.Now())
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
