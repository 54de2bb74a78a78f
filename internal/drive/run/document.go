package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/fleet"
	"tidemark.dev/internal/drive/kit"
	"tidemark.dev/internal/drive/slot"
	"tidemark.dev/internal/ground/fault"
)

// newDocument is the document of a run that has just begun.
func (b *bench) newDocument() *disclosure.Document {
	o := &b.o
	d := &disclosure.Document{
		Schema: disclosure.Schema, State: disclosure.Running, Tool: o.Tool, Sheet: o.Sheet, Iterations: []disclosure.Iteration{},
		Run: disclosure.Run{
			ID: b.began.UTC().Format("20060102-150405"), StartedAt: b.began.UTC().Format(time.RFC3339), Command: o.Command,
			Workload: o.Workload.Name, Profile: o.Profile.Name, Topology: "remote", Server: o.Server, Estimate: o.Profile.Estimate,
		},
		Verdict: disclosure.Verdict{Word: disclosure.NoVerdict, Words: "the run is under way, or was killed"},
	}
	if o.Server != "" && o.Agents == 0 {
		d.Run.Topology = "local"
	}
	c := &d.Configuration
	c.Workload = text(o.Workload.Name+".toml", o.WorkloadText)
	c.Seed, c.FileSeed, c.Overrides = o.Seed, o.FileSeed, o.Overrides
	p := o.Profile
	c.Phases = disclosure.Phases{
		WarmUp: p.WarmUp.Seconds(), RampUp: p.RampUp.Seconds(), Window: p.Window.Seconds(), RampDown: p.RampDown.Seconds(),
		Trial: p.Trial.Seconds(), Burst: p.Burst.Seconds(),
	}
	pacing := o.Pacing
	if pacing == "" {
		pacing = o.Workload.Pacing.Mode
	}
	c.Drivers = disclosure.Drivers{
		Pacing: pacing, ReceiveBuffer: o.Workload.Pacing.RecvBufferBytes, MaxSegment: o.Workload.Pacing.SegmentBytes,
		VerifyEvery: 16, RampPerSecond: p.Ramp, Agents: []disclosure.Agent{},
	}
	return d
}

func text(name, s string) disclosure.Text {
	sum := sha256.Sum256([]byte(s))
	return disclosure.Text{Name: name, Text: s, Digest: "sha256:" + hex.EncodeToString(sum[:])}
}

// describeKit notes the server that was started.
func (b *bench) describeKit(cgi string) {
	k := b.kit
	t := &b.doc.Configuration.Target
	t.Kit, t.Product, t.Version = k.Name, k.Name, k.Version
	t.URLs, t.Affinity, t.Processes = []string{"http://" + k.Address.String() + "/"}, b.targetCPUs, len(k.Commands)
	whole := ""
	for _, f := range kit.SortedFiles(k.Files) {
		t.Files = append(t.Files, text(f.Name, f.Text))
		whole += f.Text
	}
	t.Digest = text("", whole).Digest
	for _, c := range k.Commands {
		t.Command = append(t.Command, strings.Join(append([]string{c.Path}, c.Args...), " "))
	}
	h := &b.doc.Sheet.HTTP
	fillIn(&h.Product, k.Name)
	fillIn(&h.API, k.API)
	fillIn(&h.Cache, k.Cache)
	fillIn(&h.LogMode, k.LogMode)
	n := &b.doc.Sheet.Notes
	n.HTTP = append(n.HTTP, "CGI program: "+cgi)
}

// fillIn sets what the user has left empty.
func fillIn(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// describeServer notes what the target says of itself.
func (b *bench) describeServer() {
	t := &b.doc.Configuration.Target
	if b.o.Server == "" {
		t.Kit, t.Product = "http", b.valid.Server
		for _, a := range b.targets {
			t.URLs = append(t.URLs, "http://"+a.String()+"/")
		}
	}
	b.doc.Run.Server = b.valid.Server
	if b.doc.Run.Server == "" {
		b.doc.Run.Server = b.o.Server
	}
	fillIn(&b.doc.Sheet.HTTP.Product, b.doc.Run.Server)
	fillIn(&b.doc.Sheet.Sponsor.TestDate, b.began.Format("Jan-2006"))
}

// describeDrivers notes the agents and their hosts.
func (b *bench) describeDrivers(ctx context.Context, plans []planned) error {
	d := &b.doc.Configuration.Drivers
	hosts := make([]disclosure.Host, len(b.drivers.agents))
	var mu sync.Mutex
	err := b.drivers.prime.Each(b.drivers.agents, func(a fleet.Info) error {
		var h disclosure.Host
		if err := b.drivers.prime.Call(ctx, a.Agent, verbInspect, struct{}{}, &h); err != nil {
			return err
		}
		mu.Lock()
		hosts[b.agentIndex(a.Agent)] = h
		mu.Unlock()
		return nil
	})
	if err != nil {
		return err
	}
	byName := map[string]int{}
	for i, a := range b.drivers.agents {
		d.Agents = append(d.Agents, disclosure.Agent{
			Name: a.Agent, Host: a.Host, First: b.drivers.shares[i].Number(0), Slots: b.drivers.shares[i].Count(b.max), Loops: plans[i].Loops, Affinity: a.CPUs,
			Sources: plans[i].Sources, Backend: plans[i].Backend, ClockOffset: float64(a.OffsetNS) / 1e6,
		})
		if _, known := byName[a.Host]; known {
			continue
		}
		h := hosts[i]
		h.Name, h.Roles = a.Host, []string{"driver"}
		if b.o.Server != "" && b.o.Agents == 0 {
			h.Roles = []string{"target", "driver", "prime"}
		}
		byName[a.Host] = len(b.doc.Hosts)
		b.doc.Hosts = append(b.doc.Hosts, h)
	}
	d.MTU = pathMTU(b.targets[0])
	if b.doc.Run.Topology == "local" {
		if err := b.fillSheet(); err != nil {
			return err
		}
	}
	return b.save()
}

func (b *bench) save() error {
	return fault.Wrap(fault.Config, disclosure.Save(b.o.Out, b.doc), "result")
}

// sourceCount is how many local addresses an agent should use for so many connections a second. The burst opens
// far more than the paced load, hence the lower bound; loopback addresses cost nothing.
func sourceCount(perSecond float64, targets int) int {
	return max(64, slot.SourcesNeeded(perSecond, targets))
}
