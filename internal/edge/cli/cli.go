// Package cli is the command line: one file per verb. It is the only package that starts both halves, the one that
// prints, and the one that turns errors into words and exit codes.
//
// Call [Main]. Everything a command needs of its process comes in a proc.Process, so tests run whole commands.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/run"
	"tidemark.dev/internal/edge/proc"
	"tidemark.dev/internal/ground/fault"
)

// Version of the program. The revision comes from the build.
const Version = "0.1.0"

// Exit codes; the README and "tidemark help" list them.
const (
	exitOK          = 0
	exitUsage       = 1
	exitInvalid     = 2
	exitFails       = 3
	exitInterrupted = 130
)

// exit is an error that carries an exit code and needs no words of its own.
type exit struct{ code int }

func (e exit) Error() string { return fmt.Sprintf("exit %d", e.code) }

// tool is what the verbs share.
type tool struct {
	*proc.Process
	quiet bool
}

// Main runs one command and returns its exit code.
func Main(p *proc.Process) int {
	if len(p.Args) == 1 && p.Args[0] == "cgi" {
		return runCGI(p) // before anything else is set up: this is one process per request
	}
	if len(p.Args) == 1 && p.Args[0] == "spawner" {
		return runSpawner(p)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		interrupted := false
		for {
			select {
			case <-stop:
				return
			case <-p.Interrupts:
				if interrupted {
					p.Exit(exitInterrupted) // twice: stop now
				}
				interrupted = true
				cancel(run.ErrInterrupted)
			}
		}
	}()
	t := &tool{Process: p}
	root := t.root()
	root.SetArgs(p.Args)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	err := root.ExecuteContext(ctx)
	var code exit
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &code):
		return code.code
	case errors.Is(err, run.ErrInterrupted), errors.Is(context.Cause(ctx), run.ErrInterrupted):
		fmt.Fprintln(p.Stderr, "tidemark: interrupted")
		return exitInterrupted
	}
	t.complain(err)
	return exitUsage
}

// complain prints an error the way this program speaks: lower case, one line, hints below.
func (t *tool) complain(err error) {
	prefix := "tidemark: "
	if o := fault.OriginOf(err); o != fault.Unknown && o != fault.Config {
		prefix += o.String() + ": "
	}
	var ps fault.Problems
	if errors.As(err, &ps) {
		fmt.Fprintln(t.Stderr, strings.TrimSpace(ps.Error()))
	} else {
		fmt.Fprintln(t.Stderr, prefix+err.Error())
	}
	for _, h := range fault.Hints(err) {
		fmt.Fprintln(t.Stderr, "  hint: "+h)
	}
}

func (t *tool) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "tidemark",
		Short: "how many simultaneous connections a web server carries at line speed",
		Long: `Tidemark finds how many simultaneous connections a web server carries while each
of them still gets its line speed, and proves it.

  tidemark bench                     measure the embedded server on this machine
  tidemark bench --server nginx      measure nginx the same way
  tidemark bench --load 500          prove one load instead of searching
  tidemark serve --root DIR          serve files

Exit codes: 0 passes, 1 usage or set-up, 2 invalid run, 3 valid but does not pass,
130 interrupted. Every flag --some-name can be given as TIDEMARK_SOME_NAME.`,
		SilenceUsage: true, SilenceErrors: true,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return t.environment(c) },
	}
	root.PersistentFlags().BoolVarP(&t.quiet, "quiet", "q", false, "print no progress")
	root.AddCommand(
		t.bench(), t.serve(), t.fileset(), t.agent(), t.report(), t.log(), t.workload(), t.kit(), t.config(),
		t.inspect(), t.version(), t.guard(),
	)
	return root
}

// environment gives flags that were not set on the command line the value of their environment twin.
func (t *tool) environment(c *cobra.Command) error {
	var first error
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || first != nil || f.Name == "help" {
			return
		}
		key := "TIDEMARK_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if v, set := t.Environ(key); set {
			if err := c.Flags().Set(f.Name, v); err != nil {
				first = fault.New(fault.Config, "%s: %v", key, err)
			}
		}
	})
	return first
}

// say prints a line of progress.
func (t *tool) say(format string, a ...any) {
	if !t.quiet {
		fmt.Fprintf(t.Stderr, format+"\n", a...)
	}
}

// describeTool is what a document says of the program that made it.
func describeTool() disclosure.Tool {
	d := disclosure.Tool{Name: "tidemark", Version: Version, GoVersion: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				d.Revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				d.Revision += "+changes"
			}
		}
	}
	return d
}

// cacheDir is where file sets lie unless the user says otherwise.
func (t *tool) cacheDir() string {
	if d := t.Getenv("XDG_CACHE_HOME"); d != "" {
		return d + "/tidemark"
	}
	if h := t.Getenv("HOME"); h != "" {
		return h + "/.cache/tidemark"
	}
	return os.TempDir() + "/tidemark"
}

// count is a flag for numbers like 500, 1k, 2.5k.
type count int

func (c *count) String() string { return fmt.Sprint(int(*c)) }
func (c *count) Type() string   { return "count" }

// Set reads a count.
func (c *count) Set(s string) error {
	unit, digits := 1.0, strings.TrimSpace(s)
	for suffix, n := range map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6} {
		if rest, ok := strings.CutSuffix(digits, suffix); ok {
			digits, unit = rest, n
		}
	}
	var v float64
	if _, err := fmt.Sscanf(digits+"\n", "%g\n", &v); err != nil || v < 0 || v*unit > 1e9 || v*unit != float64(int(v*unit)) {
		return fmt.Errorf("%q is no count (500, 1k, 2.5k)", s)
	}
	*c = count(v * unit)
	return nil
}
