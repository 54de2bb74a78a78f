// Package run carries out a whole measurement: file set, server, drivers, warm-up, search, proof iterations,
// verdict, document. It has one path whether the server is ours or another's and whether the drivers are on this
// machine or on many.
//
// [Bench] is the prime's side, [Agent] the side of each load-making process. The package decides no verdict itself
// (conform and search do), writes no page (render does) and prints nothing: it speaks through [Events].
package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/fill"
	"tidemark.dev/internal/drive/fleet"
	"tidemark.dev/internal/drive/kit"
	"tidemark.dev/internal/drive/probe"
	"tidemark.dev/internal/drive/record"
	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/workload"
)

// ErrInterrupted is the cause of a context that ends because the user asked to stop.
var ErrInterrupted = errors.New("interrupted")

// DefaultSeed fixes the draws, DefaultFileSeed the content of the file set. They are constants so that two runs
// ask for the same operations and share one file set.
const (
	DefaultSeed     = 20261130
	DefaultFileSeed = 99
)

// slotsPerDriver is what one driver process takes on: a process here may hold 20,000 descriptors, and connections
// that are just closing hold theirs beside those that are open.
const slotsPerDriver = 18_000

// Options of a run.
type Options struct {
	// Server names a kit; Targets are addresses of a server that runs already. One of the two.
	Server  string
	Targets []netip.AddrPort
	// Host is the Host field for Targets, the first of them if empty.
	Host string
	// Load is the number of slots, 0 to search for it. MaxLoad bounds the search, 0 for what the drivers can do.
	Load, MaxLoad int
	Workload      *workload.Workload
	WorkloadText  string
	Profile       Profile
	// Overrides names parameters that differ from the profile's.
	Overrides []string
	Seed      uint64
	FileSeed  uint64
	// Root is the directory of the file set and document root of kits; Out the result folder.
	Root, Out string
	// Self is the executable that runs agents and the embedded server, Guard the command line of the guard process.
	Self  string
	Guard []string
	// Fleet says where agents are; without URL and Agents they are started here.
	Fleet  fleet.Options
	Agents int
	// TargetCPUs and DriverCPUs split this machine; empty: half and half.
	TargetCPUs, DriverCPUs []int
	Backend                string
	KitExtra               string
	Pacing                 string
	Tool                   disclosure.Tool
	Command                []string
	Sheet                  disclosure.Sheet
	Events                 Events
}

// bench is one run under way.
type bench struct {
	o     Options
	doc   *disclosure.Document
	began time.Time

	unlock  func() // of the document root
	keeper  *target.Keeper
	kit     *kit.Kit
	target  *target.Target
	probe   *probe.Client
	drivers *drivers
	valid   *probe.Validation

	targets                []netip.AddrPort
	host                   string
	targetCPUs, driverCPUs []int
	max, dirs              int
	maxIsDriver            bool
	rule                   conform.Rule
	ledger                 *probe.Ledger
	unsettled              string              // why log and drivers cannot agree exactly, if so
	breaches               []disclosure.Reason // rules the target broke before anything was measured
	proofs                 []proof
	steps                  int
}

// Bench runs the measurement. The document is returned, and saved in the result folder, whatever happens after the
// folder was made; err says what ended the run early, if anything did. Verdicts are not errors.
func Bench(ctx context.Context, o Options) (*disclosure.Document, error) {
	b := &bench{o: o, began: time.Now()}
	b.doc = b.newDocument()
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return nil, fault.Wrap(fault.Config, err, "result folder")
	}
	if err := b.save(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := b.run(ctx, cancel)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause // what ended the run says more than what it was doing then
	} else if err != nil {
		err = b.blame(err)
	}
	stopErr := b.stop()
	b.conclude(err)
	if err == nil && stopErr != nil {
		b.remark(stopErr)
	}
	if saveErr := b.save(); err == nil {
		err = saveErr
	}
	return b.doc, err
}

func (b *bench) run(ctx context.Context, cancel context.CancelCauseFunc) error {
	if err := b.plan(); err != nil {
		return err
	}
	if err := b.files(ctx); err != nil {
		return err
	}
	if err := b.start(ctx); err != nil {
		return err
	}
	b.o.Events.phase(PhaseValidate, "one operation of each kind")
	v, err := probe.Validate(ctx, b.probe, b.o.Workload, b.o.FileSeed, b.max, b.dirs)
	if err != nil {
		return err
	}
	b.valid = v
	for _, text := range v.Broke {
		b.broke("validation", text)
	}
	if len(b.breaches) > 0 {
		return nil // conclude says what was wrong
	}
	b.describeServer()
	b.setRule()
	if err := b.engage(ctx, cancel); err != nil {
		return err
	}
	if err := b.warm(ctx); err != nil || len(b.breaches) > 0 {
		return err
	}
	if err := b.seek(ctx); err != nil {
		return err
	}
	return b.settle(ctx)
}

// plan fixes everything that follows from the options alone: CPUs, the largest load, directories.
func (b *bench) plan() error {
	all := availableCPUs()
	for _, c := range slices.Concat(b.o.TargetCPUs, b.o.DriverCPUs) {
		if !slices.Contains(all, c) {
			return fault.New(fault.Config, "there is no CPU %d for this run, it has %v", c, all)
		}
	}
	b.targetCPUs, b.driverCPUs = b.o.TargetCPUs, b.o.DriverCPUs
	if len(b.targetCPUs) == 0 && len(b.driverCPUs) == 0 {
		b.targetCPUs, b.driverCPUs = splitCPUs(all, b.o.Server != "")
	}
	switch {
	case b.o.Load > 0:
		b.max = b.o.Load
	case b.o.MaxLoad > 0:
		b.max = b.o.MaxLoad
	case b.o.Profile.Dirs > 0:
		b.max, b.maxIsDriver = slotsPerDriver*max(1, len(b.driverCPUs)), true
	default:
		b.max = defaultMaxLoad // a file set for more would not fit many disks
	}
	b.dirs = b.dirsFor(b.max)
	b.ledger = probe.NewLedger()
	return nil
}

// defaultMaxLoad bounds a search whose file set grows with the load: 13 GB.
const defaultMaxLoad = 4000

// splitCPUs gives the server one half of the CPUs and the drivers the other; a single CPU is shared. Without a
// server of our own the drivers have all.
func splitCPUs(all []int, server bool) (target, drivers []int) {
	if !server {
		return nil, all
	}
	if len(all) < 2 {
		return all, all
	}
	half := (len(all) + 1) / 2
	return all[half:], all[:half]
}

func (b *bench) dirsFor(load int) int {
	if b.o.Profile.Dirs > 0 {
		return b.o.Profile.Dirs
	}
	return b.o.Workload.Dirs(load)
}

// files makes the file set for a server on this machine.
func (b *bench) files(ctx context.Context) error {
	b.doc.Configuration.FileSet = disclosure.FileSet{
		Directories: b.dirs, Files: b.dirs * fileset.FilesPerDir, Bytes: int64(b.dirs) * fileset.DirBytes,
		ReportedMB: fileset.ReportedMB(b.dirs), Path: b.o.Root,
	}
	if b.o.Server == "" {
		b.doc.Configuration.FileSet.Path = ""
		return nil
	}
	b.o.Events.phase(PhaseFiles, fmt.Sprintf("%d directories, %.0f MB in %s", b.dirs, fileset.ReportedMB(b.dirs), b.o.Root))
	_, err := fill.Create(ctx, b.o.Root, fill.Plan{Dirs: b.dirs, Seed: b.o.FileSeed}, func(p fill.Progress) {
		b.o.Events.progress(PhaseFiles, float64(p.BytesDone)/float64(max(p.Bytes, 1)), "")
	})
	if err != nil {
		return err
	}
	b.unlock, err = lock(b.o.Root)
	return err
}

// start starts the server under test, or takes the addresses of one that runs.
func (b *bench) start(ctx context.Context) error {
	var err error
	if b.keeper, err = target.NewKeeper(b.o.Guard); err != nil {
		return err
	}
	if b.o.Server == "" {
		b.targets, b.host = b.o.Targets, b.o.Host
		if b.host == "" {
			b.host = b.targets[0].String()
		}
	} else {
		dir, err := filepath.Abs(filepath.Join(b.o.Out, "server"))
		if err != nil {
			return fault.Wrap(fault.Config, err, "result folder")
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fault.Wrap(fault.Config, err, "result folder")
		}
		b.o.Events.phase(PhaseStart, b.o.Server+onCPUs(b.targetCPUs))
		cgi, note := kit.CGIProgram(ctx, b.o.Self, dir)
		b.kit, err = kit.Write(ctx, b.o.Server, kit.Spec{
			Root: b.o.Root, Dir: dir, CPUs: b.targetCPUs, Self: b.o.Self, CGI: cgi,
			Connections: b.max + b.max/4 + 1000, Extra: b.o.KitExtra,
		})
		if err != nil {
			return err
		}
		b.describeKit(note)
		if b.target, err = target.Start(ctx, b.keeper, b.kit.Commands); err != nil {
			return err
		}
		b.targets, b.host = []netip.AddrPort{b.kit.Address}, b.kit.Address.String()
	}
	b.probe = probe.New(b.targets[0], b.host, b.o.Workload.Routes, b.o.Workload.Pacing.Timeout)
	return b.save()
}

func onCPUs(cpus []int) string {
	if len(cpus) == 0 {
		return ""
	}
	words := make([]string, len(cpus))
	for i, c := range cpus {
		words[i] = strconv.Itoa(c)
	}
	if len(words) == 1 {
		return " on CPU " + words[0]
	}
	return " on CPUs " + strings.Join(words, ", ")
}

// setRule takes the figures of the verdict from workload and validation.
func (b *bench) setRule() {
	c, p := b.o.Workload.Conformance, b.o.Workload.Pacing
	r := conform.DefaultRule()
	r.LineBps, r.FloorBps = p.LineBps, c.FloorBps
	r.PassShare, r.ErrorShare, r.MinOps, r.RawFrom = c.PassShare, c.ErrorShare, c.MinOps, c.RawFrom
	s := b.o.Workload.Sampler(b.dirs, b.o.Workload.UserCount(b.max))
	r.MeanBits = b.valid.Overhead.MeanBits(s)
	b.rule = r
	b.doc.Configuration.Rule = record.FromRule(r)
}

// engage starts or awaits the agents and gives them their plan. From here on a lost agent or an ended server
// cancels the run.
func (b *bench) engage(ctx context.Context, cancel context.CancelCauseFunc) error {
	prime, err := fleet.Open(b.o.Fleet)
	if err != nil {
		return err
	}
	b.drivers = &drivers{prime: prime}
	n := b.o.Agents
	if n == 0 {
		n = (b.max + slotsPerDriver - 1) / slotsPerDriver
		b.o.Events.phase(PhaseStart, plural(n, "driver")+onCPUs(b.driverCPUs))
		if err := b.drivers.startLocal(b.keeper, b.o.Self, b.o.Out, n, b.driverCPUs); err != nil {
			return err
		}
	} else {
		b.o.Events.phase(PhaseStart, "waiting for "+plural(n, "agent")+": tidemark agent --fleet "+prime.URL()+" --run "+prime.Run())
		if b.o.Fleet.Token == "" && prime.Token() != "" {
			b.o.Events.note("their token: TIDEMARK_FLEET_TOKEN=" + prime.Token())
		}
	}
	if b.drivers.agents, err = prime.Await(ctx, n); err != nil {
		return err
	}
	b.drivers.begin(b.o.Events.Second)
	go b.watch(ctx, cancel, b.target)

	w := b.o.Workload
	opsPerSecond := float64(b.max) * float64(b.rule.LineBps) / b.rule.MeanBits
	b.drivers.deal()
	plans := make([]planned, n)
	err = b.drivers.prime.Each(b.drivers.agents, func(a fleet.Info) error {
		i := b.agentIndex(a.Agent)
		m := planMessage{
			WorkloadName: w.Name, Workload: b.o.WorkloadText, Targets: b.targets, Host: b.host,
			Seed: b.o.Seed, FileSeed: b.o.FileSeed, Share: b.drivers.shares[i], Count: b.drivers.shares[i].Count(b.max), Agent: i,
			SourceCount: sourceCount(opsPerSecond/w.RequestsPerConnection()/float64(n), len(b.targets)),
			Loops:       []int{-1}, Backend: b.o.Backend, Pacing: b.o.Pacing, Ramp: b.o.Profile.Ramp,
		}
		if b.o.Agents == 0 {
			m.Loops = agentCPUs(b.driverCPUs, i, n)
		} else if len(a.CPUs) > 0 {
			m.Loops = a.CPUs
		}
		if err := prime.Call(ctx, a.Agent, verbPlan, m, &plans[i]); err != nil {
			return err
		}
		if why := plans[i].Note; why != "" {
			b.o.Events.note("agent " + a.Agent + " has the event loop epoll: " + why)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.describeDrivers(ctx, plans)
}

func (b *bench) agentIndex(name string) int {
	for i, a := range b.drivers.agents {
		if a.Agent == name {
			return i
		}
	}
	return -1
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return strconv.Itoa(n) + " " + word + "s"
}

// watch ends the run when one of its processes ends.
func (b *bench) watch(ctx context.Context, cancel context.CancelCauseFunc, server *target.Target) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-b.drivers.prime.Lost():
			cancel(err)
			return
		case <-tick.C:
			if server == nil {
				continue
			}
			if err := server.Failed(); err != nil {
				cancel(err)
				return
			}
		}
	}
}

// warm fetches every file once, then runs paced for as long as the profile says.
func (b *bench) warm(ctx context.Context) error {
	b.o.Events.phase(PhaseWarm, fmt.Sprintf("every file once, %d files", b.dirs*fileset.FilesPerDir))
	if err := b.reset(ctx); err != nil {
		return err
	}
	met, err := b.drivers.warm(ctx, b.dirs, b.o.Profile.Fetch)
	switch {
	case err != nil:
		return err
	case met.Cut:
		b.o.Events.note(fmt.Sprintf("the warm-up had no time to fetch every file within %v", b.o.Profile.Fetch))
		b.unsettled = "the warm-up was cut short"
	}
	for _, class := range slices.Sorted(maps.Keys(met.Failures)) {
		e := met.Failures[class]
		text := fmt.Sprintf("warm-up: %s of %d files: %s (%s)", conform.Count(int(e.Count)), b.dirs*fileset.FilesPerDir, class, e.Example)
		if conform.Breaks(class) { // every byte was looked at, an iteration looks at samples
			b.broke("broke_"+strings.ReplaceAll(class, "-", "_"), text)
			continue
		}
		b.o.Events.note(text) // the iterations will count such errors
		b.unsettled = "the warm-up met errors of the target"
	}
	return nil
}

// blame looks for the end of a process of the target behind an error: a server that has died refuses connections
// before anybody has noticed.
func (b *bench) blame(err error) error {
	if b.target == nil || fault.OriginOf(err) != fault.Target {
		return err
	}
	soon := time.After(500 * time.Millisecond)
	for {
		if failed := b.target.Failed(); failed != nil {
			return failed
		}
		select {
		case <-soon:
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// broke notes a rule that the target broke before anything was measured.
func (b *bench) broke(code, text string) {
	b.breaches = append(b.breaches, disclosure.Reason{Code: code, Text: text, Effect: "broke_rules", Origin: fault.Target.String()})
}

// reset brings the target's tables and post log to their beginning and tells the drivers.
func (b *bench) reset(ctx context.Context) error {
	if !probe.UsesPages(b.o.Workload) {
		return nil
	}
	users, ads, err := b.probe.Reset(ctx, probe.ResetFor(b.o.Workload, b.max))
	if err != nil {
		return err
	}
	b.ledger = probe.NewLedger()
	return b.drivers.tables(ctx, users, ads)
}

// stop ends what the run started, drivers first.
func (b *bench) stop() error {
	var first error
	note := func(err error) {
		if err != nil && first == nil {
			first = err
		}
	}
	if b.drivers != nil {
		note(b.drivers.stop(5 * time.Second))
	}
	if b.target != nil {
		note(b.target.Stop(10 * time.Second))
	}
	if b.keeper != nil {
		b.keeper.Close()
	}
	if b.kit != nil && b.kit.Scratch != "" {
		note(fault.Wrap(fault.Config, os.RemoveAll(b.kit.Scratch), "stop"))
	}
	if b.unlock != nil {
		b.unlock()
	}
	return first
}
