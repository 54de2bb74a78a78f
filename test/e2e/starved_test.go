//go:build e2e && linux

package e2e

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/disclosure"
)

// A driver that gets no processor time measures its own hunger. The run must say so instead of judging the server.

// TestStoppedDriver stops the driver for 60 ms of every 80. Its timers then come 22 ms late on average, of an operation
// of 300 ms that is 7 %, and 1 % is allowed.
func TestStoppedDriver(t *testing.T) {
	c := bench(t, "--load", "100", "--window", "2s")
	c.says("proof: ")
	driver := c.member("agent")[0]
	rhythm := make(chan struct{})
	go func() {
		defer close(rhythm)
		timer := time.NewTimer(0)
		defer timer.Stop()
		for running := true; c.running(); running = !running {
			sig, pause := syscall.SIGSTOP, 60*time.Millisecond
			if !running {
				sig, pause = syscall.SIGCONT, 20*time.Millisecond
			}
			if syscall.Kill(driver.pid, sig) != nil {
				return // it has ended
			}
			timer.Reset(pause)
			<-timer.C
		}
		_ = syscall.Kill(driver.pid, syscall.SIGCONT)
	}()
	c.end(2)
	<-rhythm
	starved(t, c)
}

// TestCrowdedDriver lets three busy processes of higher priority share the driver's processor.
func TestCrowdedDriver(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("needs root to take processor time away from a process")
	}
	c := bench(t, "--load", "500", "--window", "2s", "--driver-cpus", "0", "--target-cpus", "1")
	c.says("proof: ")
	for range 3 {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		var first unix.CPUSet
		first.Set(0)
		pid := cmd.Process.Pid
		if err := unix.SchedSetaffinity(pid, &first); err != nil {
			t.Skipf("cannot bind a process to a processor: %v", err)
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, pid, -20); err != nil {
			t.Skipf("cannot raise a priority: %v", err)
		}
		group(strconv.Itoa(pid), -20)
	}
	c.end(2)
	starved(t, c)
}

// starved checks that a run is invalid because of its driver, and says so wherever it speaks.
func starved(t *testing.T, c *command) {
	t.Helper()
	d := c.document()
	if d.Verdict.Word != disclosure.InvalidRun || d.Verdict.Score != 0 || d.State != disclosure.Complete {
		t.Errorf("%s: %+v", d.State, d.Verdict)
	}
	found := false
	for _, r := range d.Verdict.Reasons {
		if r.Effect != "invalid" {
			continue
		}
		found = true
		if r.Origin != "driver" {
			t.Errorf("the %s is blamed: %s", r.Origin, r.Text)
		}
	}
	if !found {
		t.Errorf("no reason: %v", texts(d.Verdict.Reasons))
	}
	because(t, d, "late_share", "invalid", "driver", "the driver was late for")
	if n := len(d.Iterations); n != 3 {
		t.Errorf("%d attempts, three are due", n)
	}
	for _, it := range d.Iterations {
		if it.Valid || it.Audit.Late <= 1 {
			t.Errorf("attempt %d: valid %v, late %.2f %%", it.Attempt, it.Valid, it.Audit.Late)
		}
	}
	for _, text := range []string{c.stdout.String(), c.stderr.String()} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), "driver was late for") {
			t.Errorf("nothing is said about the driver in:\n%s", text)
		}
	}
}
