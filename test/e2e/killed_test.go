//go:build e2e && linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/disclosure"
)

// Whatever part of a run is killed: it ends soon, says what happened, leaves a result that can be read and judged as
// far as it goes, and leaves no process behind (command.end looks for those).

// half starts a bench and returns when its first iteration has been judged.
func half(t *testing.T, args ...string) *command {
	t.Helper()
	c := bench(t, append([]string{"--load", "100", "--window", "2s"}, args...)...)
	c.says("proof         100 connections: ")
	return c
}

// partial checks the result of a run that ended early.
func partial(t *testing.T, c *command, states ...string) *disclosure.Document {
	t.Helper()
	d := c.document()
	ok := false
	for _, s := range states {
		ok = ok || d.State == s
	}
	if !ok || d.Verdict.Score != 0 || d.Verdict.Word == disclosure.Passes || len(d.Iterations) == 0 {
		t.Errorf("state %q (want %v), %d iterations, %+v", d.State, states, len(d.Iterations), d.Verdict)
	}
	return d
}

// soon checks that a run ended not long after what ended it.
func soon(t *testing.T, c *command, since time.Time, most time.Duration) {
	t.Helper()
	if d := c.began.Add(c.took).Sub(since); d > most {
		t.Errorf("%s: took %v more to end, %v are plenty\n%s", c.name(), d, most, c.stderr.String())
	}
}

func TestKilledDriver(t *testing.T) {
	c := half(t)
	since := time.Now()
	kill(t, c.member("agent")[0], syscall.SIGKILL)
	c.end(2)
	soon(t, c, since, 20*time.Second)
	d := partial(t, c, disclosure.Failed)
	because(t, d, "run_ended_early", "invalid", "driver", "driver-1", "killed")
	if !strings.Contains(c.stderr.String(), "tidemark: driver: ") {
		t.Errorf("standard error:\n%s", c.stderr.String())
	}
}

func TestKilledServer(t *testing.T) {
	t.Setenv("TIDEMARK_LISTEN", "127.0.0.1:1") // for a "tidemark serve" of the user's, not for the server of a run
	c := half(t, "--server-config", `software = "short-lived"`)
	since := time.Now()
	kill(t, c.member("tidemark serve ")[0], syscall.SIGKILL)
	c.end(2)
	soon(t, c, since, 20*time.Second)
	d := partial(t, c, disclosure.Failed)
	because(t, d, "run_ended_early", "invalid", "target", "tidemark (pid ", "killed")
	if d.Run.Server != "short-lived" {
		t.Errorf("the configuration given did not reach the server: it calls itself %q", d.Run.Server)
	}
}

func TestKilledNginxMaster(t *testing.T) {
	have(t, "nginx")
	c := half(t, "--server", "nginx")
	since := time.Now()
	kill(t, c.member("nginx: master")[0], syscall.SIGKILL) // its workers know nothing of it and would serve on
	c.end(2)
	soon(t, c, since, 20*time.Second)
	because(t, partial(t, c, disclosure.Failed), "run_ended_early", "invalid", "target", "nginx (pid ", "killed")
}

// TestKilledNginxWorker kills the one worker of nginx, which its master replaces at once: the run goes on. What the
// worker had sent is still in the kernel's buffers, so few operations fail or none; but the lines of its log that were
// not yet written are gone, and the run must notice that.
func TestKilledNginxWorker(t *testing.T) {
	have(t, "nginx")
	c := half(t, "--server", "nginx")
	// The window of the second iteration begins after 2 s. Two kills, because the log may just have been written.
	timer := time.NewTimer(2500 * time.Millisecond)
	defer timer.Stop()
	for range 2 {
		<-timer.C
		before := c.member("nginx: worker")[0]
		kill(t, before, syscall.SIGKILL)
		c.until(10*time.Second, "another worker", func() bool {
			now := c.member("nginx: worker")
			return len(now) == 1 && now[0].pid != before.pid
		})
		timer.Reset(400 * time.Millisecond)
	}
	c.end(0, 3)
	d := c.document()
	if l := d.Log; d.State != disclosure.Complete || l == nil || l.Agree || l.Why == "" || l.LogOps >= l.DriverOps {
		t.Errorf("%s, log %+v", d.State, d.Log)
	}
	for _, it := range d.Iterations {
		for _, e := range it.Errors {
			if e.Origin != "target" {
				t.Errorf("iteration %d: %+v", it.Number, e)
			}
		}
	}
}

// TestKilledPrime kills the commanding process: drivers, servers and their workers must follow.
func TestKilledPrime(t *testing.T) {
	for _, server := range []string{"tidemark", "nginx"} {
		t.Run(server, func(t *testing.T) {
			if server == "nginx" {
				have(t, "nginx")
			}
			c := half(t, "--server", server)
			if n := len(c.members()); n < 4 {
				t.Errorf("only %d processes run: %v", n, c.members())
			}
			_ = syscall.Kill(c.pid(), syscall.SIGKILL)
			c.end(-1)
			d := partial(t, c, disclosure.Running)
			if d.Verdict.Word != disclosure.NoVerdict || !strings.Contains(d.Verdict.Words, "killed") {
				t.Errorf("%+v", d.Verdict)
			}
		})
	}
}

// TestInterrupt is Ctrl-C: the terminal sends it to the whole foreground group.
func TestInterrupt(t *testing.T) {
	c := half(t)
	since := time.Now()
	if err := syscall.Kill(-c.pid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	c.end(130)
	soon(t, c, since, 15*time.Second)
	d := partial(t, c, disclosure.Interrupted)
	if !strings.Contains(c.stdout.String(), c.out) {
		t.Errorf("the summary does not name the folder:\n%s", c.stdout.String())
	}
	for _, it := range d.Iterations {
		if it.Broke {
			t.Errorf("iteration %d: %v", it.Number, texts(it.Reasons))
		}
	}
	for _, name := range []string{"report.html", "report.txt"} {
		if st, err := os.Stat(filepath.Join(c.out, name)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTerminate ends a run in a network namespace as a service manager would: one signal to the one process it knows.
func TestTerminate(t *testing.T) {
	if unix.Geteuid() != 0 || unix.Access("/proc/sys/net/ipv4/tcp_congestion_control", unix.W_OK) != nil {
		t.Skip("needs root for a network namespace")
	}
	c := half(t, "--congestion", "reno")
	since := time.Now()
	_ = syscall.Kill(c.pid(), syscall.SIGTERM)
	c.end(130)
	soon(t, c, since, 15*time.Second)
	d := partial(t, c, disclosure.Interrupted)
	if got := d.Iterations[0].Audit.Congestion; len(got) != 1 || got[0] != "reno" {
		t.Errorf("congestion control %v", got)
	}
}

func TestInterruptTwice(t *testing.T) {
	c := half(t, "--server-config", "[timeout]\nwrite = \"60s\"")
	since := time.Now()
	_ = syscall.Kill(-c.pid(), syscall.SIGINT)
	_ = syscall.Kill(-c.pid(), syscall.SIGTERM) // as good as a second Ctrl-C, and never merged with the first
	c.end(130)
	soon(t, c, since, 3*time.Second)
	partial(t, c, disclosure.Running, disclosure.Interrupted)
}

// TestInterruptEarly interrupts before there is anything to report.
func TestInterruptEarly(t *testing.T) {
	for _, phase := range []string{"file set: ", "start: ", "validation: ", "warm-up: "} {
		c := bench(t, "--load", "100", "--window", "2s")
		c.says(phase)
		_ = syscall.Kill(c.pid(), syscall.SIGINT)
		c.end(130)
		if d := c.document(); d.State != disclosure.Interrupted || len(d.Iterations) != 0 {
			t.Errorf("%s: state %q, %d iterations", phase, d.State, len(d.Iterations))
		}
	}
}
