package run

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"tidemark.dev/internal/drive/fleet"
	"tidemark.dev/internal/drive/slot"
	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/share"
)

// drivers is the prime's view of all agents of a run.
type drivers struct {
	prime  *fleet.Prime
	agents []fleet.Info
	shares []share.Share     // of each agent
	local  []*target.Process // those this run started

	mu   sync.Mutex
	last map[string]slot.Progress
	prev slot.Progress
	at   time.Time
}

// startLocal starts n agents of this executable on the given CPUs.
func (d *drivers) startLocal(k *target.Keeper, self, dir string, n int, cpus []int) error {
	for i := range n {
		name := fmt.Sprintf("driver-%d", i+1)
		p, err := k.Spawn(target.Command{
			Name: name, Path: self,
			Args: []string{"agent", "--quiet", "--name", name, "--fleet", d.prime.URL(), "--run", d.prime.Run()},
			Env:  []string{"TIDEMARK_FLEET_TOKEN=" + d.prime.Token()}, // not in the arguments: those are public
			CPUs: agentCPUs(cpus, i, n), Log: filepath.Join(dir, name+".log"), Origin: fault.Driver,
		})
		if err != nil {
			return err
		}
		d.local = append(d.local, p)
		go func() {
			<-p.Done()
			if err := p.Failed(); err != nil {
				d.prime.Forget(name, err)
			}
		}()
	}
	return nil
}

// agentCPUs gives agent i of n its part of the drivers' CPUs: its own where there are enough, shared otherwise.
func agentCPUs(cpus []int, i, n int) []int {
	if len(cpus) == 0 {
		return nil
	}
	if len(cpus) < n {
		return []int{cpus[i%len(cpus)]}
	}
	lo, hi := i*len(cpus)/n, (i+1)*len(cpus)/n
	return cpus[lo:hi]
}

// begin keeps the agents' beats and turns them into one Second each second.
func (d *drivers) begin(second func(Second)) {
	d.last = map[string]slot.Progress{}
	d.prime.OnBeat(func(agent string, body []byte) {
		var p slot.Progress
		if json.Unmarshal(body, &p) != nil {
			return // a beat of another version says only that the agent lives
		}
		d.mu.Lock()
		d.last[agent] = p
		full := len(d.last) >= len(d.agents) && len(d.agents) > 0
		first := len(d.agents) > 0 && agent == d.agents[0].Agent
		var s Second
		if full && first {
			s = d.sum()
		}
		d.mu.Unlock()
		if full && first && second != nil {
			second(s)
		}
	})
}

func (d *drivers) sum() Second {
	var p slot.Progress
	for _, a := range d.last {
		p.Load += a.Load
		p.Running += a.Running
		p.Connected += a.Connected
		p.Ops += a.Ops
		p.Failed += a.Failed
		p.Bits += a.Bits
		p.Late += a.Late
	}
	now := time.Now()
	s := Second{Load: p.Load, Running: p.Running, Connected: p.Connected}
	if dt := now.Sub(d.at).Seconds(); !d.at.IsZero() && dt > 0 && p.Ops >= d.prev.Ops {
		s.OpsPerSec = float64(p.Ops-d.prev.Ops) / dt
		s.FailedPerSec = float64(p.Failed-d.prev.Failed) / dt
		if p.Running > 0 {
			s.KbitPerSlot = float64(p.Bits-d.prev.Bits) / dt / 1000 / float64(p.Running)
			s.LatePercent = 100 * (p.Late - d.prev.Late).Seconds() / dt / float64(p.Running)
		}
	}
	d.prev, d.at = p, now
	return s
}

// each sends a command to every agent at once. make builds the body for agent number i.
func (d *drivers) each(ctx context.Context, verb string, make func(i int) any) error {
	index := map[string]int{}
	for i, a := range d.agents {
		index[a.Agent] = i
	}
	return d.prime.Each(d.agents, func(a fleet.Info) error {
		return d.prime.Call(ctx, a.Agent, verb, make(index[a.Agent]), nil)
	})
}

func same(body any) func(int) any { return func(int) any { return body } }

func (d *drivers) tables(ctx context.Context, users, ads []byte) error {
	return d.each(ctx, verbTables, same(tablesMessage{Users: users, Ads: ads}))
}

// load asks for a load and waits until every slot of it operates.
func (d *drivers) load(ctx context.Context, slots, dirs, users int, limit time.Duration) error {
	return d.each(ctx, verbLoad, func(i int) any {
		return loadMessage{Slots: d.shares[i].Count(slots), Dirs: dirs, Users: users, Limit: limit}
	})
}

// deal fixes which slots are whose, by the agents' CPUs.
func (d *drivers) deal() {
	weights := make([]int, len(d.agents))
	for i, a := range d.agents {
		weights[i] = max(1, len(a.CPUs))
	}
	d.shares = share.Deal(weights)
}

func (d *drivers) pause(ctx context.Context, limit time.Duration) error {
	return d.each(ctx, verbPause, same(limit))
}

func (d *drivers) resume(ctx context.Context) error { return d.each(ctx, verbResume, same(struct{}{})) }

// warm fetches every file once. One agent is enough.
func (d *drivers) warm(ctx context.Context, dirs int, limit time.Duration) (out warmed, err error) {
	err = d.prime.Call(ctx, d.agents[0].Agent, verbWarm, warmMessage{Dirs: dirs, Passes: 1, Limit: limit}, &out)
	return out, err
}

func (d *drivers) burst(ctx context.Context, m burstMessage) (sum burstReply, err error) {
	var mu sync.Mutex
	m.Conns = max(1, m.Conns/len(d.agents))
	err = d.prime.Each(d.agents, func(a fleet.Info) error {
		var r burstReply
		if err := d.prime.Call(ctx, a.Agent, verbBurst, m, &r); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		sum.Ops += r.Ops
		sum.Failed += r.Failed
		sum.OpsPerSec += r.OpsPerSec
		sum.BusyCores += r.BusyCores
		if r.FirstError != "" {
			sum.FirstError = r.FirstError
		}
		return nil
	})
	return sum, err
}

func (d *drivers) window(ctx context.Context, start, end clock.Instant) error {
	return d.each(ctx, verbWindow, func(i int) any {
		return windowMessage{Start: d.agents[i].ToAgent(start), End: d.agents[i].ToAgent(end)}
	})
}

// collect gathers the results of every agent, in the order of the agents.
func (d *drivers) collect(ctx context.Context) ([]collected, error) {
	out := make([]collected, len(d.agents))
	index := map[string]int{}
	for i, a := range d.agents {
		index[a.Agent] = i
	}
	err := d.prime.Each(d.agents, func(a fleet.Info) error {
		return d.prime.Call(ctx, a.Agent, verbCollect, struct{}{}, &out[index[a.Agent]])
	})
	return out, err
}

// stop lets the agents go and ends those of this run.
func (d *drivers) stop(grace time.Duration) error {
	for _, p := range d.local {
		p.Expect() // they leave when the prime closes
	}
	d.prime.Close()
	var first error
	for _, p := range d.local {
		select {
		case <-p.Done():
		case <-time.After(grace):
		}
		if err := p.Stop(grace); err != nil && first == nil {
			first = err
		}
	}
	return first
}
