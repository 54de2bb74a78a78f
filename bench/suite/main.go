package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/edge/proc"
	"tidemark.dev/internal/engine/sysinfo"
)

const usage = `usage: go run ./bench/%s [options]

  --quick            smoke run: does everything work? The figures mean nothing
  --short            three rounds of one second: some six minutes
  --sample=2s        length of a sample
  --rounds=7         samples of each server or client
  --only=REGEXP      scenarios whose name matches
  --out=DIR          write NAME-DATE.md and .json there
  --work=DIR         file set, programs, logs (default: below the temporary directory)
  --server-core=1    core of the servers
  --client-core=0    core of the clients
  --limit=0.1        share of a core that others may use during a sample
  --patience=10m     longest wait for a quiet machine
`

// guard is the argument that makes this program the guard of the servers it starts.
const guard = "guard"

// Main is a whole suite: it reads the options, measures the scenarios and writes the
// results. It returns the exit code: 0 when every scenario was measured, 1 otherwise.
func Main(p *proc.Process, name string, scenarios []Scenario, goals []Goal) int {
	if len(p.Args) == 1 && p.Args[0] == guard {
		target.Guard(p.Stdin)
		return 0
	}
	o, err := parse(p.Args)
	if err == nil {
		err = run(p, name, o, scenarios, goals)
	}
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintf(p.Stderr, usage, name)
		fmt.Fprintln(p.Stderr, err)
		return 1
	case err != nil:
		fmt.Fprintln(p.Stderr, err)
		return 1
	}
	return 0
}

var errUsage = errors.New("options")

// parse reads options of the form --name or --name=value.
func parse(args []string) (Options, error) {
	o := Options{
		Work: filepath.Join(os.TempDir(), "tidemark-bench"), ServerCPU: 1, ClientCPU: 0,
		Sample: 2 * time.Second, Rounds: 7, Tries: 5, Limit: 0.1, Patience: 10 * time.Minute,
	}
	for _, a := range args {
		name, value, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		var err error
		switch name {
		case "quick":
			o.Smoke, o.Sample, o.Rounds = true, 300*time.Millisecond, 1
		case "short":
			o.Sample, o.Rounds = time.Second, 3
		case "sample":
			o.Sample, err = time.ParseDuration(value)
		case "rounds":
			o.Rounds, err = strconv.Atoi(value)
		case "only":
			o.Only, err = regexp.Compile(value)
		case "out":
			o.Out = value
		case "work":
			o.Work, err = filepath.Abs(value)
		case "server-core":
			o.ServerCPU, err = strconv.Atoi(value)
		case "client-core":
			o.ClientCPU, err = strconv.Atoi(value)
		case "limit":
			o.Limit, err = strconv.ParseFloat(value, 64)
		case "patience":
			o.Patience, err = time.ParseDuration(value)
		default:
			err = errors.New("unknown option")
		}
		if err != nil {
			return o, fmt.Errorf("%w: %s: %w", errUsage, a, err)
		}
	}
	if o.ServerCPU == o.ClientCPU || o.Rounds < 1 || o.Sample <= 0 {
		return o, fmt.Errorf("%w: two cores, one round and some time are the least", errUsage)
	}
	return o, nil
}

func run(p *proc.Process, name string, o Options, scenarios []Scenario, goals []Goal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-p.Interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	say := func(format string, a ...any) { fmt.Fprintf(p.Stderr, format+"\n", a...) }
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env GOMOD: %w", err)
	}
	o.Module = filepath.Dir(strings.TrimSpace(string(mod)))
	keeper, err := target.NewKeeper([]string{p.Self, guard})
	if err != nil {
		return err
	}
	defer keeper.Close()
	s, err := newSuite(ctx, o, keeper, say)
	if err != nil {
		return err
	}
	d, err := s.all(ctx, scenarios, goals)
	if len(d.Scenarios) == 0 {
		return errors.Join(err, errors.New("nothing was measured"))
	}
	d.Suite = "Suite " + name
	d.Markdown(p.Stdout)
	if o.Out != "" {
		err = errors.Join(err, d.save(filepath.Join(o.Out, name+"-"+d.Made.Format("2006-01-02"))))
	}
	return err
}

// all measures the scenarios. The document holds what was measured even when the
// error says that something was not.
func (s *Suite) all(ctx context.Context, scenarios []Scenario, goals []Goal) (*Document, error) {
	d := &Document{Version: 1, Made: time.Now(), Smoke: s.Smoke, Software: map[string]string{}}
	d.Options.SampleSeconds, d.Options.Rounds, d.Options.Limit = s.Sample.Seconds(), s.Rounds, s.Limit
	d.Options.ServerCPU, d.Options.ClientCPU = s.ServerCPU, s.ClientCPU
	var err error
	if d.Host, err = sysinfo.Read(sysinfo.Live()); err != nil {
		return d, err
	}
	if out, err := exec.CommandContext(ctx, "git", "-C", s.Module, "describe", "--always", "--dirty").Output(); err == nil {
		d.Commit = strings.TrimSpace(string(out))
	}
	if err := s.quiet(ctx); err != nil {
		return d, err
	}
	var failed error
	for _, sc := range scenarios {
		if s.Only != nil && !s.Only.MatchString(sc.Name) {
			continue
		}
		out, err := s.measure(ctx, sc)
		if len(out.Samples) > 0 {
			d.Scenarios = append(d.Scenarios, out)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", sc.Name, err))
			out.Notes = append(out.Notes, err.Error())
		}
		if ctx.Err() != nil || errors.Is(err, errNotQuiet) {
			break
		}
	}
	for _, g := range goals {
		if f := g.figure(d.Scenarios); f.N > 0 || s.Only == nil {
			d.Goals = append(d.Goals, f)
		}
	}
	for name, version := range s.versions {
		if version != "" {
			d.Software[name] = version
		}
	}
	return d, failed
}

// save writes the document as Markdown and JSON.
func (d *Document) save(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	f, err := os.Create(path + ".md")
	if err != nil {
		return err
	}
	d.Markdown(f)
	return errors.Join(f.Close(), os.WriteFile(path+".json", append(b, '\n'), 0o644))
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
