package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/fleet"
	"tidemark.dev/internal/drive/kit"
	"tidemark.dev/internal/drive/run"
	"tidemark.dev/internal/edge/live"
	"tidemark.dev/internal/edge/render"
	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/workload"
)

type benchFlags struct {
	targets             []string
	server, profile     string
	load, maxLoad       count
	workload            string
	out, root           string
	fleet, fleetToken   string
	fleetListen         string
	agents              int
	json, own           bool
	seed                uint64
	window              time.Duration
	targetCPUs, drvCPUs []int
	backend, extra      string
	congestion          string
	notes               []string
}

func (t *tool) bench() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench",
		Short: "find and prove the load a web server carries",
		Long: `Find and prove the load a web server carries.

Without --target a server is started on this machine: the embedded one, or the
one named by --server. Half of the CPUs go to it, the other half to the drivers.
Without --load the largest load that passes is sought first.

Results go to a folder of their own below ./tidemark-results, file sets to the
user's cache directory (tidemark fileset clean removes them).`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return t.runBench(c.Context(), c, &f) },
	}
	fl := c.Flags()
	fl.StringArrayVar(&f.targets, "target", nil, "URL of a running server to measure; may be repeated for its other addresses")
	fl.StringVar(&f.server, "server", "", "server to start: "+strings.Join(kit.Names(), ", ")+" (default tidemark)")
	fl.Var(&f.load, "load", "connections to prove instead of searching")
	fl.Var(&f.maxLoad, "max-load", "largest load the search may ask for")
	fl.StringVar(&f.workload, "workload", "web99", "preset or file")
	fl.StringVar(&f.profile, "profile", "quick", strings.Join(run.ProfileNames(), ", "))
	fl.StringVar(&f.out, "out", "", "result folder")
	fl.StringVar(&f.root, "root", "", "directory of the file set and the tables")
	fl.StringVar(&f.fleet, "fleet", "", "NATS server where agents wait; with --agents")
	fl.StringVar(&f.fleetListen, "fleet-listen", "", "address where remote agents reach this run; with --agents")
	fl.StringVar(&f.fleetToken, "fleet-token", "", "secret of the fleet; better in TIDEMARK_FLEET_TOKEN")
	fl.IntVar(&f.agents, "agents", 0, "agents to wait for instead of starting drivers here")
	fl.BoolVar(&f.json, "json", false, "print the result document")
	fl.BoolVar(&f.own, "i-own-this-target", false, "confirm that a target beyond this machine may be put under load")
	fl.Uint64Var(&f.seed, "seed", run.DefaultSeed, "seed of every draw")
	fl.DurationVar(&f.window, "window", 0, "length of the proof windows (overrides the profile)")
	fl.IntSliceVar(&f.targetCPUs, "target-cpus", nil, "CPUs of the server")
	fl.IntSliceVar(&f.drvCPUs, "driver-cpus", nil, "CPUs of the drivers")
	fl.StringVar(&f.backend, "backend", "auto", "event loop of the drivers: "+strings.Join(loop.Backends(), ", "))
	fl.StringVar(&f.congestion, "congestion", "", "TCP congestion control of both sides, in a network namespace of the run's own (root)")
	fl.StringVar(&f.extra, "server-config", "", "lines added to the server's configuration; they show in the result")
	fl.StringArrayVar(&f.notes, "note", nil, "a note for the result, may be repeated")
	return c
}

func (t *tool) runBench(ctx context.Context, c *cobra.Command, f *benchFlags) error {
	o, err := t.benchOptions(c, f)
	if err != nil {
		return err
	}
	if f.congestion != "" {
		if inside, err := t.isolate(f.congestion); !inside || err != nil {
			return err
		}
	}
	display := live.New(t.Stderr, live.Options{Terminal: t.Terminal, Quiet: t.quiet, Color: t.Getenv("NO_COLOR") == ""})
	o.Events = display.Events()
	doc, err := run.Bench(ctx, o)
	display.Close()
	if doc == nil {
		return err
	}
	if reportErr := writeReports(o.Out, doc); reportErr != nil {
		if err == nil {
			err = reportErr
		}
	}
	if f.json {
		if jsonErr := disclosure.Write(t.Stdout, doc); jsonErr != nil {
			return fault.Wrap(fault.Config, jsonErr, "result")
		}
	} else if doc.State == disclosure.Complete || len(doc.Iterations) > 0 {
		if sumErr := render.Summary(t.Stdout, doc); sumErr != nil {
			return fault.Wrap(fault.Config, sumErr, "summary")
		}
		fmt.Fprintf(t.Stdout, "\nresult folder: %s\n", o.Out)
	} else {
		t.say("partial result: %s", o.Out)
	}
	if err != nil && !errors.Is(err, run.ErrInterrupted) {
		t.complain(err)
	}
	switch {
	case doc.Verdict.ExitCode != exitOK:
		return exit{doc.Verdict.ExitCode}
	case err != nil: // a good result that could not be written
		return exit{exitUsage}
	}
	return nil
}

// writeReports draws the pages of a result folder.
func writeReports(dir string, d *disclosure.Document) error {
	for _, r := range []struct{ name, format string }{{"report.html", "html"}, {"report.txt", "text"}} {
		path := filepath.Join(dir, r.name)
		w, err := os.Create(path)
		if err != nil {
			return fault.Wrap(fault.Config, err, "report")
		}
		err = render.Write(w, r.format, d)
		if closeErr := w.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			_ = os.Remove(path) // half a report misleads; err says why there is none
			return fault.Wrap(fault.Config, err, r.name)
		}
	}
	return nil
}

func (t *tool) benchOptions(c *cobra.Command, f *benchFlags) (run.Options, error) {
	o := run.Options{
		Server: f.server, Load: int(f.load), MaxLoad: int(f.maxLoad), Seed: f.seed, FileSeed: run.DefaultFileSeed,
		Self: t.Self, Guard: []string{t.Self, "guard"}, Agents: f.agents, TargetCPUs: f.targetCPUs, DriverCPUs: f.drvCPUs,
		Backend: f.backend, KitExtra: f.extra, Tool: describeTool(), Command: append([]string{"tidemark"}, t.Args...), Root: f.root, Out: f.out,
		Fleet: fleet.Options{URL: f.fleet, Listen: f.fleetListen, Token: f.fleetToken},
	}
	var err error
	if o.Profile, err = run.ProfileNamed(f.profile); err != nil {
		return o, err
	}
	if c.Flags().Changed("window") {
		if f.window < time.Second {
			return o, fault.New(fault.Config, "--window %v: a window has at least 1s", f.window)
		}
		o.Profile.Window, o.Profile.Fail = f.window, f.window
		o.Overrides = append(o.Overrides, "window="+f.window.String())
	}
	if !slices.Contains(loop.Backends(), f.backend) {
		return o, fault.New(fault.Config, "--backend %q: there are %s", f.backend, strings.Join(loop.Backends(), ", "))
	}
	if f.congestion != "" {
		if len(f.targets) > 0 || f.agents > 0 {
			return o, fault.New(fault.Config, "--congestion is for a server and drivers on this machine: both sides must have the same")
		}
		o.Overrides = append(o.Overrides, "congestion="+f.congestion)
	}
	if f.extra != "" {
		o.Overrides = append(o.Overrides, "server-config")
	}
	if o.Workload, o.WorkloadText, err = loadWorkload(f.workload); err != nil {
		return o, err
	}
	if o.Workload.TLS != nil {
		return o, fault.Hint(fault.New(fault.Config, "workload %s asks for TLS, which this version does not drive", o.Workload.Name), "use --workload web99")
	}
	if len(f.targets) > 0 && f.server != "" {
		return o, fault.New(fault.Config, "give --target for a running server or --server for one to start, not both")
	}
	if (f.fleet != "" || f.fleetListen != "") && f.agents == 0 {
		return o, fault.New(fault.Config, "--fleet and --fleet-listen need --agents N")
	}
	if len(f.targets) > 0 {
		for _, name := range []string{"server-config", "target-cpus"} {
			if c.Flags().Changed(name) {
				return o, fault.New(fault.Config, "--%s is for a server started here, not for --target", name)
			}
		}
		if err := resolveTargets(&o, f.targets); err != nil {
			return o, err
		}
		for _, a := range o.Targets {
			if !f.own && !run.LocalTarget(a.Addr()) {
				return o, fault.Hint(fault.New(fault.Config, "%s is not an address of this machine", a.Addr()),
					"say --i-own-this-target if it is yours to put under load")
			}
		}
	} else if o.Server == "" {
		o.Server = "tidemark"
	} else if err := kit.Known(o.Server); err != nil {
		return o, err
	}
	if o.Root == "" {
		o.Root = filepath.Join(t.cacheDir(), "fileset-"+o.Profile.Name)
	}
	if o.Root, err = filepath.Abs(o.Root); err != nil {
		return o, fault.Wrap(fault.Config, err, "file set")
	}
	if o.Out == "" {
		name := o.Server
		if name == "" {
			name = "remote"
		}
		if o.Load > 0 {
			name += fmt.Sprintf("-%d", o.Load)
		}
		o.Out = uniqueDir(filepath.Join("tidemark-results", time.Now().Format("20060102-150405")+"-"+name))
	}
	if _, err := os.Lstat(filepath.Join(o.Out, disclosure.ResultFile)); err == nil {
		return o, fault.Hint(fault.New(fault.Config, "%s holds a result already", o.Out), "results are never overwritten: give --out another folder")
	}
	o.Sheet.Notes.Other = f.notes
	return o, nil
}

// uniqueDir returns dir, or dir with a number behind it where that exists.
func uniqueDir(dir string) string {
	for i := 2; ; i++ {
		if _, err := os.Lstat(dir); os.IsNotExist(err) {
			return dir
		}
		if i == 2 {
			dir += "-2"
		} else {
			dir = dir[:strings.LastIndexByte(dir, '-')+1] + fmt.Sprint(i)
		}
	}
}

// resolveTargets turns URLs into addresses. All must name one server: the Host field is that of the first.
func resolveTargets(o *run.Options, urls []string) error {
	for i, s := range urls {
		if !strings.Contains(s, "://") {
			s = "http://" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" {
			return fault.New(fault.Config, "target %q is no URL (http://127.0.0.1:8080/)", s)
		}
		if u.Scheme != "http" {
			return fault.New(fault.Config, "target %s: this version drives http only", s)
		}
		if u.Path != "" && u.Path != "/" {
			return fault.New(fault.Config, "target %s: the file set is expected at the root, paths are not supported", s)
		}
		port := u.Port()
		if port == "" {
			port = "80"
		}
		addrs, err := net.LookupHost(u.Hostname())
		if err != nil {
			return fault.Wrap(fault.Config, err, "target "+s)
		}
		// Of a name with addresses of both families the older is meant: "localhost" more often than not is a server
		// on 127.0.0.1. Who means the other one writes the address.
		addr := addrs[max(0, slices.IndexFunc(addrs, func(a string) bool { return !strings.Contains(a, ":") }))]
		a, err := netip.ParseAddrPort(net.JoinHostPort(addr, port))
		if err != nil {
			return fault.Wrap(fault.Config, err, "target "+s)
		}
		o.Targets = append(o.Targets, a)
		if i == 0 {
			o.Host = u.Host
		}
	}
	return nil
}

// loadWorkload reads a preset or a file.
func loadWorkload(name string) (*workload.Workload, string, error) {
	for _, preset := range workload.Names() {
		if preset == name {
			src, err := workload.Source(name)
			if err != nil {
				return nil, "", err
			}
			w, err := workload.Preset(name)
			return w, string(src), err
		}
	}
	src, err := os.ReadFile(name)
	if err != nil {
		return nil, "", fault.Hint(fault.New(fault.Config, "workload %q is neither a preset nor a file: %v", name, err),
			"presets: "+strings.Join(workload.Names(), ", "))
	}
	w, err := workload.Parse(name, src)
	return w, string(src), err
}
