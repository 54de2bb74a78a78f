package suite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
  --sample=%v        length of a sample
  --rounds=%d         samples of each server or client
  --only=REGEXP      scenarios whose name matches
  --out=DIR          write NAME-DATE.md and .json there
  --work=DIR         file set, programs, logs (default: below the temporary directory)
  --server-core=1    core of the servers
  --client-core=0    core of the clients
  --limit=0.1        share of a core that others may use during a sample
  --patience=10m     longest wait for a quiet machine
%s`

// guard is the argument that makes this program the guard of the servers it starts.
const guard = "guard"

// Job is what a command of the suites does.
type Job struct {
	Name   string
	Caddy  bool          // build it too
	Sample time.Duration // default length of a sample, 0 for 2 s
	Rounds int           // default, 0 for 7
	// Option takes an option of this command alone; Usage explains them, a line each.
	Option func(name, value string) (known bool, err error)
	Usage  string
	// Run measures. What it returns is printed and kept even when err says that something is missing.
	Run func(ctx context.Context, s *Suite) (Result, error)
}

// Result is what a command leaves behind. The JSON document is its encoding.
type Result interface {
	Markdown(w io.Writer)
	// Files are what the Markdown refers to, by the end of their names.
	Files() map[string][]byte
}

// Main is a whole suite of scenarios: it reads the options, measures and writes the
// results. It returns the exit code: 0 when every scenario was measured, 1 otherwise.
func Main(p *proc.Process, name string, scenarios []Scenario, goals []Goal) int {
	return Command(p, Job{Name: name, Caddy: true, Run: func(ctx context.Context, s *Suite) (Result, error) {
		d, err := s.Scenarios(ctx, "Suite "+name, scenarios, goals)
		if len(d.Scenarios) == 0 {
			return nil, errors.Join(err, errors.New("nothing was measured"))
		}
		return d, err
	}})
}

// Command prepares the machine and runs a job on it. It returns the exit code.
func Command(p *proc.Process, j Job) int {
	if len(p.Args) == 1 && p.Args[0] == guard {
		target.Guard(p.Stdin)
		return 0
	}
	o, err := parse(p.Args, j)
	if err == nil {
		err = perform(p, j, o)
	}
	switch {
	case errors.Is(err, errUsage):
		d, _ := parse(nil, j) // the defaults are right
		fmt.Fprintf(p.Stderr, usage, j.Name, d.Sample, d.Rounds, j.Usage)
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
func parse(args []string, j Job) (Options, error) {
	o := Options{
		Work: filepath.Join(os.TempDir(), "tidemark-bench"), ServerCPU: 1, ClientCPU: 0,
		Sample: cmp.Or(j.Sample, 2*time.Second), Rounds: cmp.Or(j.Rounds, 7), Tries: 5, Limit: 0.1, Patience: 10 * time.Minute,
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
			known := false
			if j.Option != nil {
				known, err = j.Option(name, value)
			}
			if !known {
				err = errors.New("unknown option")
			}
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

func perform(p *proc.Process, j Job, o Options) error {
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
	s, err := newSuite(ctx, o, j.Caddy, keeper, say)
	if err != nil {
		return err
	}
	s.name = j.Name
	if err := s.Quiet(ctx); err != nil {
		return err
	}
	result, err := j.Run(ctx, s)
	if result == nil {
		return err
	}
	result.Markdown(p.Stdout)
	if o.Out != "" {
		err = errors.Join(err, save(result, filepath.Join(o.Out, j.Name+"-"+time.Now().Format("2006-01-02"))))
	}
	return err
}

// Scenarios measures scenarios. The document holds what was measured even when the
// error says that something was not.
func (s *Suite) Scenarios(ctx context.Context, title string, scenarios []Scenario, goals []Goal) (*Document, error) {
	d := &Document{}
	var err error
	if d.Head, err = s.Head(ctx, title); err != nil {
		return d, err
	}
	d.Options.SampleSeconds, d.Options.Rounds, d.Options.Limit = s.Sample.Seconds(), s.Rounds, s.Limit
	d.Options.ServerCPU, d.Options.ClientCPU = s.ServerCPU, s.ClientCPU
	var failed error
	for _, sc := range scenarios {
		if !s.Wanted(sc.Name) {
			continue
		}
		out, err := s.measure(ctx, sc)
		if len(out.Samples) > 0 || len(out.Notes) > 0 { // why nothing was measured belongs into the document, too
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
	return d, failed
}

// Wanted tells whether --only asks for a scenario of this name.
func (s *Suite) Wanted(name string) bool { return s.Only == nil || s.Only.MatchString(name) }

// Head describes the machine and the run. Versions of servers started later still
// find their way into it.
func (s *Suite) Head(ctx context.Context, title string) (Head, error) {
	h := Head{Version: 1, Name: s.name, Suite: title, Made: time.Now(), Smoke: s.Smoke, Software: s.versions}
	var err error
	if h.Host, err = sysinfo.Read(sysinfo.Live()); err != nil {
		return h, err
	}
	if out, err := exec.CommandContext(ctx, "git", "-C", s.Module, "describe", "--always", "--dirty").Output(); err == nil {
		h.Commit = strings.TrimSpace(string(out))
	}
	return h, nil
}

// save writes a result as Markdown and JSON, and its files beside them.
func save(r Result, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	var text bytes.Buffer
	r.Markdown(&text)
	files := map[string][]byte{".md": text.Bytes(), ".json": append(b, '\n')}
	maps.Copy(files, r.Files())
	for end, b := range files {
		err = errors.Join(err, os.WriteFile(path+end, b, 0o644))
	}
	return err
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
