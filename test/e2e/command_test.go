//go:build e2e && linux

package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidemark.dev/disclosure"
)

// bound is how long any one command may take. The longest of them, three iterations with drains, takes a minute.
const bound = 150 * time.Second

// output collects what a process writes, for reading while it writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// command is one run of the program: the leader of a session of its own.
type command struct {
	t              *testing.T
	args           []string
	cmd            *exec.Cmd
	out            string // the result folder of a bench
	temp           string // its TMPDIR
	stdout, stderr output
	began          time.Time
	ended          chan struct{}
	code           int // -1: ended by a signal
	took           time.Duration
}

// start runs the program.
func start(t *testing.T, args ...string) *command {
	t.Helper()
	return launch(t, exec.Command(suite.tidemark, args...), args)
}

// launch runs cmd as a command.
func launch(t *testing.T, cmd *exec.Cmd, args []string) *command {
	t.Helper()
	c := &command{t: t, args: args, cmd: cmd, temp: t.TempDir(), ended: make(chan struct{})}
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "TMPDIR="+c.temp, "XDG_CACHE_HOME="+filepath.Join(suite.dir, "cache"))
	cmd.Stdout, cmd.Stderr = &c.stdout, &c.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.WaitDelay = 5 * time.Second // a process left behind may hold the pipes
	c.began = time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group(strconv.Itoa(c.pid()), -10)
	go func() {
		_ = cmd.Wait()
		c.code, c.took = cmd.ProcessState.ExitCode(), time.Since(c.began)
		close(c.ended)
	}()
	t.Cleanup(func() {
		for _, p := range c.members() {
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		<-c.ended
	})
	return c
}

func (c *command) pid() int { return c.cmd.Process.Pid }

func (c *command) name() string { return "tidemark " + strings.Join(c.args, " ") }

// running tells whether the command has not ended.
func (c *command) running() bool {
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// says waits until the command has written text to standard error.
func (c *command) says(text string) {
	c.t.Helper()
	c.until(60*time.Second, strconv.Quote(text), func() bool {
		if strings.Contains(c.stderr.String(), text) {
			return true
		}
		if !c.running() {
			c.t.Fatalf("%s: ended (exit %d) without %q\n%s%s", c.name(), c.code, text, c.stdout.String(), c.stderr.String())
		}
		return false
	})
}

// end waits for the end and checks what every end has in common: one of the exit codes expected, no process and no
// temporary file left behind.
func (c *command) end(codes ...int) {
	c.t.Helper()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		c.t.Fatalf("%s: still running after %v:\n%v\n%s", c.name(), bound, c.members(), c.stderr.String())
	}
	if !slices.Contains(codes, c.code) {
		c.t.Errorf("%s: exit %d, want %v\n%s%s", c.name(), c.code, codes, c.stdout.String(), c.stderr.String())
	}
	// Who is killed cannot clean up; its guard needs a moment for it.
	var left []process
	if !poll(5*time.Second, func() bool { left = c.members(); return len(left) == 0 }) {
		c.t.Errorf("%s: left behind: %v", c.name(), left)
	}
	if c.code >= 0 {
		files, err := filepath.Glob(filepath.Join(c.temp, "*"))
		if err != nil || len(files) > 0 {
			c.t.Errorf("%s: left in TMPDIR: %v %v", c.name(), files, err)
		}
	}
	if panicked := strings.Contains(c.stderr.String(), "goroutine "); panicked || strings.Contains(c.stderr.String(), "DATA RACE") {
		c.t.Errorf("%s: panic or race:\n%s", c.name(), c.stderr.String())
	}
	c.logs()
}

// logs looks for panics and races in what the processes of a bench wrote.
func (c *command) logs() {
	for _, pattern := range []string{"*.log", "server/*.log"} {
		names, _ := filepath.Glob(filepath.Join(c.out, pattern))
		for _, n := range names {
			b, err := os.ReadFile(n)
			if err == nil && (bytes.Contains(b, []byte("\ngoroutine ")) || bytes.Contains(b, []byte("DATA RACE"))) {
				c.t.Errorf("%s: %s:\n%s", c.name(), n, b)
			}
		}
	}
}

// tidemark runs a command to its end and returns what it printed.
func tidemark(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	c := start(t, args...)
	c.end(code)
	return c.stdout.String(), c.stderr.String()
}

// bench starts a measurement with the shared file set.
func bench(t *testing.T, args ...string) *command {
	t.Helper()
	out := filepath.Join(t.TempDir(), "the user's results") // a blank and a quote are nothing special
	all := append([]string{"bench", "--out", out}, args...)
	if !slices.Contains(args, "--target") && !slices.Contains(args, "--root") {
		all = append(all, "--root", suite.root)
	}
	c := start(t, all...)
	c.out = out
	return c
}

// document reads the result and checks that the program's other verbs can read it too, whatever became of the run.
func (c *command) document() *disclosure.Document {
	c.t.Helper()
	d, err := disclosure.Load(c.out)
	if err != nil {
		c.t.Fatalf("%s: %v", c.name(), err)
	}
	if d.State != disclosure.Running && d.Verdict.ExitCode != c.code {
		c.t.Errorf("%s: exit %d, the document says %d", c.name(), c.code, d.Verdict.ExitCode)
	}
	check, _ := tidemark(c.t, 0, "report", "check", c.out)
	if partial := d.State != disclosure.Complete; partial != strings.Contains(check, "partial") {
		c.t.Errorf("report check of a document in state %q says: %s", d.State, check)
	}
	for _, format := range []string{"text", "html", "json", "md"} {
		text, _ := tidemark(c.t, 0, "report", "render", "--format", format, c.out)
		if len(text) < 300 {
			c.t.Errorf("report render --format %s: only %q", format, text)
		}
	}
	return d
}

// reason returns the reason of the verdict with this code.
func reason(d *disclosure.Document, code string) (r disclosure.Reason, found bool) {
	i := slices.IndexFunc(d.Verdict.Reasons, func(r disclosure.Reason) bool { return r.Code == code })
	if i < 0 {
		return r, false
	}
	return d.Verdict.Reasons[i], true
}

// because checks that the verdict rests on a reason: its effect, origin and words.
func because(t *testing.T, d *disclosure.Document, code, effect, origin string, words ...string) {
	t.Helper()
	r, found := reason(d, code)
	if !found {
		t.Errorf("no reason %q among %+v", code, texts(d.Verdict.Reasons))
		return
	}
	if r.Effect != effect || r.Origin != origin {
		t.Errorf("reason %q: effect %q and origin %q, want %q and %q", code, r.Effect, r.Origin, effect, origin)
	}
	for _, w := range words {
		if !strings.Contains(r.Text, w) {
			t.Errorf("reason %q says %q, not %q", code, r.Text, w)
		}
	}
}

func texts(rs []disclosure.Reason) []string {
	var out []string
	for _, r := range rs {
		out = append(out, r.Effect+" "+r.Code+": "+r.Text)
	}
	return out
}

// have skips a test that needs a program.
func have(t *testing.T, program string) string {
	t.Helper()
	for _, p := range []string{program, "/usr/sbin/" + program, "/usr/local/sbin/" + program} {
		if path, err := exec.LookPath(p); err == nil {
			return path
		} else if !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
			t.Logf("%s: %v", p, err)
		}
	}
	t.Skipf("%s is not installed", program)
	return ""
}
