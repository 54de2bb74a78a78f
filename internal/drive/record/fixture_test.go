package record

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/search"
)

// The documents other packages test against stand in disclosure/testdata; they come from here.
var rewrite = flag.Bool("rewrite", false, "write the fixtures of disclosure/testdata anew")

const fixtures = "../../../disclosure/testdata"

// play runs a whole benchmark against a simulated target.
type play struct {
	sim      *sim
	opt      search.Options
	rule     conform.Rule
	trial    time.Duration
	window   time.Duration
	full     bool
	local    bool
	mtu      int
	override []string
	change   func(number int, it *conform.Iteration) // before judging, proofs only
	stop     int                                     // interrupt after so many steps
}

func (p *play) run(id, title string) (*disclosure.Document, []disclosure.SlotRecord, []disclosure.Second) {
	start := time.Date(2026, time.November, 21, 9, 30, 0, 0, time.UTC)
	now := start.Add(26 * time.Second)
	d := document(id, title, start)
	d.Configuration.Rule = FromRule(p.rule)
	d.Configuration.Overrides = p.override
	d.Configuration.Drivers.MTU = p.mtu
	d.Configuration.Phases = disclosure.Phases{WarmUp: 6, RampUp: 2, Window: p.window.Seconds(), RampDown: 1, Trial: p.trial.Seconds(), Burst: 2}
	d.Run.Profile, d.Run.Topology, d.Run.Estimate = "quick", "remote", true
	if p.full {
		d.Run.Profile, d.Run.Estimate = "full", false
		d.Configuration.Phases = disclosure.Phases{WarmUp: 1200, RampUp: 300, Window: 1200, RampDown: 300}
	}
	if p.local {
		d.Run.Topology = "local"
	}
	s := search.New(p.opt)
	var slots []disclosure.SlotRecord
	var series []disclosure.Second
	var steps []disclosure.Step
	var judged []conform.Judgement
	var numbers []int
	for n := 1; s.Next().Kind != search.Done; n++ {
		if p.stop > 0 && n > p.stop {
			break
		}
		step := s.Next()
		length := p.window
		if step.Kind == search.Trial {
			length = p.trial
		}
		w := p.sim.run(step.Load, length)
		number := 0
		if step.Kind != search.Trial {
			number = len(d.Iterations) + 1
			if p.change != nil {
				p.change(number, &w.it)
			}
		}
		j := conform.Judge(p.rule, &w.it)
		if number > 0 {
			it := w.disclose(number, step.Kind.String(), now, &j, p.rule)
			it.Attempt = step.Attempt
			d.Iterations = append(d.Iterations, it)
			slots = append(slots, FromRecords(number, w.it.Records)...)
			series = append(series, w.seconds...)
			if step.Kind == search.Proof && (j.Valid || step.Attempt == 3) {
				judged, numbers = append(judged, j), append(numbers, number)
			}
		}
		o := search.Outcome{Load: step.Load, Conforming: j.Conforming, Hopeless: j.Broke}
		switch {
		case !j.Valid:
			o.Verdict = search.Invalid
		case !j.Passing:
			o.Verdict = search.Fail
		}
		if len(j.Reasons) > 0 && o.Verdict != search.Pass {
			o.Why = j.Reasons[0].Text
		}
		steps = append(steps, disclosure.Step{
			Number: n, Kind: step.Kind.String(), Attempt: step.Attempt, Load: step.Load, Window: length.Seconds(),
			Started: now.Sub(start).Seconds(), Verdict: o.Verdict.String(), Conforming: j.Conforming, Percent: j.Percent,
			OpsPerSec: j.OpsPerSec, ResponseMS: j.ResponseMS, KbitPerSlot: j.KbitPerSlot, LatePercent: 100 * j.LateShare,
			Iteration: number, Why: step.Why,
		})
		now = now.Add(length + 1500*time.Millisecond)
		s.Add(o)
	}
	r := s.Result()
	d.Search = FromSearch(p.opt, r)
	d.Search.Burst = 3.3 * p.sim.capacity * 1.2
	d.Search.Steps = steps
	setting := conform.Setting{Full: p.full, Local: p.local, MTU: p.mtu, Overrides: p.override}
	if r.Answer == search.Unfinished {
		d.State = disclosure.Interrupted
		d.Verdict = disclosure.Verdict{Word: disclosure.NoVerdict, Words: "Interrupted before there was a verdict.", ExitCode: 130}
		return d, slots, series
	}
	// The proofs of the load found, not of loads given up.
	var js []conform.Judgement
	var ns []int
	for i := range judged {
		if r.Answer == search.Doomed || judged[i].Requested == r.Load {
			js, ns = append(js, judged[i]), append(ns, numbers[i])
		}
	}
	var sum *conform.Summary
	if len(js) > 0 {
		v := conform.Summarize(setting, js)
		sum = &v
		d.Run.Comparable = v.Comparable
		d.Run.Incomparable = Incomparable(sum)
	}
	d.Verdict = Conclude(sum, r, ns, p.rule)
	if d.Verdict.Word == disclosure.Passes {
		for _, n := range ns {
			d.Iteration(n).Scored = true
		}
	}
	d.Run.FinishedAt = now.UTC().Format(time.RFC3339)
	d.State = disclosure.Complete
	return d, slots, series
}

func rule() conform.Rule {
	r := conform.DefaultRule()
	r.MeanBits = 8 * (14_727 + 240 + 60)
	return r
}

func generator(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 99)) }

// plays are the fixtures.
func plays() map[string]*play {
	quick := func(seed uint64) *play {
		return &play{
			sim:  &sim{rng: generator(seed), capacity: 1500, base: 0.004, late: 0.0009},
			opt:  search.Options{FirstGuess: 1700, Min: 10, Max: 4000, Width: 0.05, MaxTrials: 6},
			rule: rule(), trial: 5 * time.Second, window: 8 * time.Second, local: true,
		}
	}
	full := quick(1)
	full.full, full.local, full.mtu = true, false, 1500
	full.sim = &sim{rng: generator(2), capacity: 1536, base: 0.0039, late: 0.0004}
	full.opt = search.Options{Fixed: 1440, Max: 1445}
	full.window = 1200 * time.Second

	invalid := quick(3)
	invalid.opt = search.Options{Fixed: 900, Max: 900}
	invalid.sim.late = 0.017
	invalid.sim.stall = 0.4

	lost := quick(4)
	lost.opt = search.Options{Fixed: 900, Max: 900}
	lost.change = func(number int, it *conform.Iteration) {
		if number == 2 {
			broke(it)
		}
	}

	slow := quick(5)
	slow.opt = search.Options{Fixed: 1600, Max: 1600}
	slow.change = func(number int, it *conform.Iteration) {
		for i := range it.Records {
			if i%3 == 0 {
				it.Records[i].Failed, it.Records[i].Resets = 1, 1
			}
		}
		it.Errors[conform.ClassReset] = conform.ErrorCount{Count: 534, Origin: fault.Target, Example: "read 127.0.0.2:41212->127.0.0.1:8080: connection reset by peer"}
		it.Errors[conform.ClassRefused] = conform.ErrorCount{Count: 3, Origin: fault.Target}
	}

	partial := quick(6)
	partial.stop = 8

	doomed := quick(7)
	doomed.sim.base = 0.2
	doomed.opt.FirstGuess, doomed.opt.Min = 60, 20

	return map[string]*play{"quick": quick(16), "full": full, "invalid": invalid, "broke": lost, "slow": slow,
		"partial": partial, "doomed": doomed}
}

func document(id, title string, start time.Time) *disclosure.Document {
	return &disclosure.Document{
		Schema: disclosure.Schema, State: disclosure.Running,
		Tool: disclosure.Tool{Name: "tidemark", Version: "0.1.0", Revision: "5d2c1e9", GoVersion: "go1.26.8", Platform: "linux/amd64"},
		Run: disclosure.Run{
			ID: id, Title: title, StartedAt: start.Format(time.RFC3339),
			Command:  []string{"tidemark", "bench", "--server", "tidemark"},
			Workload: "web99", Server: "tidemark 0.1.0",
		},
		Verdict: disclosure.Verdict{Word: disclosure.NoVerdict, Words: "The run is under way."},
		Configuration: disclosure.Configuration{
			Workload: disclosure.Text{Name: "web99", Path: "workload.toml", Digest: "xxh3:9a4c1f6b0d27e835"},
			Seed:     1999, FileSeed: 99,
			FileSet: disclosure.FileSet{Directories: 20, LoadDirectories: 20, Files: 720, Bytes: 102_389_680, ReportedMB: 97.6, Path: "/var/cache/tidemark/fileset-20"},
			Target: disclosure.Target{
				Kit: "tidemark", Product: "tidemark", Version: "0.1.0", URLs: []string{"http://127.0.0.1:8080"},
				Command: []string{"tidemark", "serve", "-c", "server.toml"}, Processes: 1, Affinity: []int{0},
				Files: []disclosure.Text{{Name: "server.toml", Path: "server.toml", Digest: "xxh3:41d7c09e5b8a2f13",
					Text: "listen = [\"127.0.0.1:8080\"]\nroot = \"/var/cache/tidemark/fileset-20\"\nloops = 1\n"}},
				Digest: "xxh3:41d7c09e5b8a2f13",
			},
			Drivers: disclosure.Drivers{
				Agents: []disclosure.Agent{
					{Name: "agent-1", Host: "bench-1", Slots: 700, First: 0, Loops: 1, Affinity: []int{1}, Sources: []string{"127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5"}},
					{Name: "agent-2", Host: "bench-1", Slots: 700, First: 700, Loops: 1, Affinity: []int{1}, Sources: []string{"127.0.0.6", "127.0.0.7", "127.0.0.8", "127.0.0.9"}, ClockOffset: 0.04},
				},
				Pacing: "rated", ReceiveBuffer: 16384, MaxSegment: 1460, Congestion: []string{"cubic"}, VerifyEvery: 16, RampPerSecond: 1000,
			},
		},
		Hosts: []disclosure.Host{{
			Name: "bench-1", Roles: []string{"target", "driver", "prime"},
			Facts: []disclosure.Fact{
				disclosure.TextFact("cpu", "model", "AMD EPYC 9454P 48-Core Processor"),
				disclosure.NumberFact("cpu", "cores", 2, "count"),
				disclosure.TextFact("cpu", "virtualization", "kvm"),
				disclosure.NumberFact("memory", "total", 8_324_300_800, "bytes"),
				disclosure.TextFact("kernel", "release", "6.18.2"),
				disclosure.TextFact("network", "congestion_control", "cubic"),
				disclosure.NumberFact("network", "loopback_mtu", 65536, "bytes"),
				disclosure.NumberFact("limits", "open_files", 20000, "count"),
				disclosure.NumberFact("sysctl", "net.core.somaxconn", 4096, "count"),
				disclosure.FlagFact("sysctl", "net.ipv4.tcp_tw_reuse", true),
			},
		}},
	}
}

func sheet() disclosure.Sheet {
	return disclosure.Sheet{
		Hardware: disclosure.HardwareNotes{Vendor: "Example Computers", Model: "Model 1U", Processor: "800 MHz one-core", Processors: "1 core, 1 chip, 1 core/chip",
			PrimaryCache: "16KBI+16KBD on chip", SecondaryCache: "256KB(I+D) on chip", OtherCache: "none", Memory: "2 GB", Disks: "2x 9.1GB", DiskControllers: "Integrated", Other: "1 x gigabit switch"},
		Software:     disclosure.SoftwareNotes{System: "Linux 6.18", FileSystem: "ext4", Other: "none"},
		HTTP:         disclosure.HTTPNotes{Vendor: "Example", Product: "tidemark 0.1.0", API: "page", Cache: "none", LogMode: "binary access log"},
		Availability: disclosure.Availability{Hardware: "Dec-2025", HTTP: "Nov-2026", System: "Nov-2026", Supplemental: "Nov-2026"},
		Sponsor:      disclosure.Sponsor{TestDate: "Nov-2026", TestedBy: "Example & Sons", Licence: "none"},
		Network: disclosure.NetworkNotes{ControllerCount: "1", Controllers: "1000-SX", NetCount: "1", NetType: "Gigabit Ethernet", Speed: "1 Gb/s",
			MSL: "30 (Non RFC1122)", TimeWait: "60 (Non RFC1122)", MTU: "1500"},
		Clients: disclosure.ClientNotes{Count: "5", Model: "Model 1U", Processor: "1000 MHz", Processors: "2", Memory: "128 MB", Controller: "1000-SX", System: "Linux 6.18", Compiler: "go1.26.8"},
		Notes: disclosure.Notes{
			Target:  []string{"1st disk for the system", "2nd disk for logs and data <striped>"},
			System:  []string{"ulimit -n 10000, number of open files, default 1024", "net.core.somaxconn = 4096"},
			Network: []string{"txqueuelen = 10000, transmit queue length, default 100"},
		},
	}
}

// Every fixture is a sound document, comes out of its records as saved, and says what its name says.
func TestFixtures(t *testing.T) {
	want := map[string]struct {
		word  string
		exit  int
		state string
	}{
		"quick":   {disclosure.Passes, 0, disclosure.Complete},
		"full":    {disclosure.Passes, 0, disclosure.Complete},
		"invalid": {disclosure.InvalidRun, 2, disclosure.Complete},
		"broke":   {disclosure.BrokeRules, 3, disclosure.Complete},
		"slow":    {disclosure.DoesNotPass, 3, disclosure.Complete},
		"partial": {disclosure.NoVerdict, 130, disclosure.Interrupted},
		"doomed":  {disclosure.DoesNotPass, 3, disclosure.Complete},
	}
	for name, p := range plays() {
		t.Run(name, func(t *testing.T) {
			if p.full && testing.Short() && !*rewrite {
				t.Skip("simulates three times 1200 s")
			}
			d, slots, seconds := p.run("2026-11-21-"+name, "")
			if p.full {
				d.Sheet = sheet()
				d.Run.Title = "Example & Sons, one processor"
				d.Configuration.FileSet = disclosure.FileSet{Directories: 972, LoadDirectories: 972, Files: 34992, Bytes: 972 * 5119484, ReportedMB: 4743.36}
				d.Hosts[0].Roles = []string{"target"}
				d.Hosts = append(d.Hosts, disclosure.Host{Name: "load-1", Roles: []string{"driver", "prime"}, Facts: d.Hosts[0].Facts})
			}
			t.Logf("%s exit %d: %s", d.Verdict.Word, d.Verdict.ExitCode, d.Verdict.Words)
			for _, r := range d.Verdict.Reasons {
				t.Logf("  %s: %s", r.Code, r.Text)
			}
			w := want[name]
			if d.Verdict.Word != w.word || d.Verdict.ExitCode != w.exit || d.State != w.state {
				t.Errorf("%s, exit %d, %s", d.Verdict.Word, d.Verdict.ExitCode, d.State)
			}
			if faults := disclosure.Check(d); faults != nil {
				t.Errorf("unsound: %q", faults)
			}
			if diff := Recheck(d, slots); diff != nil {
				t.Errorf("recheck: %v", diff)
			}
			if *rewrite {
				write(t, name, d, slots, seconds)
			}
		})
	}
}

func write(t *testing.T, name string, d *disclosure.Document, slots []disclosure.SlotRecord, seconds []disclosure.Second) {
	t.Helper()
	dir := t.TempDir()
	for i := range d.Iterations { // one with histograms is enough for a test
		if name == "quick" && i == 0 {
			continue
		}
		for _, set := range [][]disclosure.Latency{d.Iterations[i].Latency, d.Iterations[i].TTFB} {
			for k := range set {
				set[k].HDR = ""
			}
		}
	}
	if err := disclosure.Save(dir, d); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, disclosure.ResultFile), filepath.Join(fixtures, name+".json")); err != nil {
		t.Fatal(err)
	}
}

// A document that went through the file comes out the same, verdicts included.
func TestRecheckAfterReading(t *testing.T) {
	d, slots, _ := plays()["invalid"].run("again", "")
	dir := t.TempDir()
	if err := disclosure.Save(dir, d); err != nil {
		t.Fatal(err)
	}
	if err := disclosure.AppendSlots(dir, slots); err != nil {
		t.Fatal(err)
	}
	read, err := disclosure.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	records, err := disclosure.LoadSlots(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, read); diff != "" {
		t.Error(diff)
	}
	if diff := Recheck(read, records); diff != nil {
		t.Error(diff)
	}
}

// Whatever figure is edited, the check finds it.
func TestRecheckFindsEdits(t *testing.T) {
	p := plays()["quick"]
	p.opt = search.Options{Fixed: 300, Max: 300}
	sound, slots, _ := p.run("edited", "")
	if diff := Recheck(sound, slots); diff != nil {
		t.Fatal(diff)
	}
	edits := map[string]func(d *disclosure.Document){
		"conforming_connections":           func(d *disclosure.Document) { d.Iterations[1].Conforming-- },
		"conforming_percent":               func(d *disclosure.Document) { d.Iterations[0].Percent -= 0.01 },
		"throughput_operations_per_second": func(d *disclosure.Document) { d.Iterations[2].OpsPerSec *= 1.001 },
		"rate_kilobits_per_second":         func(d *disclosure.Document) { d.Iterations[2].KbitPerSlot += 0.1 },
		"verdict.score_connections":        func(d *disclosure.Document) { d.Verdict.Score++ },
		"run.comparable":                   func(d *disclosure.Document) { d.Run.Comparable = true },
		"valid":                            func(d *disclosure.Document) { d.Iterations[0].Audit.Overflow = 1 },
		"reasons": func(d *disclosure.Document) {
			d.Iterations[0].Errors = []disclosure.ErrorClass{{Class: "odd", Origin: "unknown", Count: 1}}
		},
		"judged_by": func(d *disclosure.Document) { d.Configuration.Rule.RawFrom = 1 },
	}
	for key, edit := range edits {
		b, err := json.Marshal(sound)
		if err != nil {
			t.Fatal(err)
		}
		d := new(disclosure.Document)
		if err := json.Unmarshal(b, d); err != nil {
			t.Fatal(err)
		}
		edit(d)
		found := false
		for _, diff := range Recheck(d, slots) {
			found = found || diff.Key == key
		}
		if !found {
			t.Errorf("an edit of %s was not found: %v", key, Recheck(d, slots))
		}
	}
	if diff := Recheck(sound, slots[1:]); diff == nil {
		t.Error("a missing record was not found")
	}
}

func TestRuleRoundTrip(t *testing.T) {
	r := rule()
	if diff := cmp.Diff(r, ToRule(FromRule(r))); diff != "" {
		t.Error(diff)
	}
}
