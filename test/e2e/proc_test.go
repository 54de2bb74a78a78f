//go:build e2e && linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// process is one line of the process table.
type process struct {
	pid, parent, group, session int
	state                       string
	exe, line                   string
}

func (p process) String() string { return fmt.Sprintf("%d %s %q", p.pid, p.state, p.line) }

// processes reads the process table. Zombies are left out: they have ended.
func processes() []process {
	var out []process
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended since
		}
		open, end := strings.IndexByte(string(b), '('), strings.LastIndexByte(string(b), ')')
		f := strings.Fields(string(b[end+1:]))
		p := process{state: f[0], line: string(b[open+1 : end])}
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
		p.parent, _ = strconv.Atoi(f[1])
		p.group, _ = strconv.Atoi(f[2])
		p.session, _ = strconv.Atoi(f[3])
		if p.state == "Z" || p.state == "X" {
			continue
		}
		p.exe, _ = os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		if b, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline")); err == nil && len(b) > 0 {
			p.line = strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
		}
		out = append(out, p)
	}
	return out
}

// members lists the processes of a command: it leads a session, and nothing it starts leaves that, not even when its
// parent dies. So this finds orphans too.
func (c *command) members() []process {
	var out []process
	for _, p := range processes() {
		if p.session == c.pid() {
			out = append(out, p)
		}
	}
	return out
}

// member waits for a process of the command whose command line contains words, and returns all there are.
func (c *command) member(words string) []process {
	c.t.Helper()
	var found []process
	c.until(20*time.Second, "a process "+strconv.Quote(words), func() bool {
		found = nil
		for _, p := range c.members() {
			if strings.Contains(p.line, words) {
				found = append(found, p)
			}
		}
		return len(found) > 0
	})
	return found
}

// kill sends a signal to a process of the command.
func kill(t *testing.T, p process, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(p.pid, s); err != nil {
		t.Fatalf("kill %v: %v", p, err)
	}
}

// until polls a condition, at most for so long.
func (c *command) until(most time.Duration, what string, ok func() bool) {
	c.t.Helper()
	if !poll(most, ok) {
		c.t.Fatalf("%s: waited %v for %s\n%s", c.name(), most, what, c.stderr.String())
	}
}

func poll(most time.Duration, ok func() bool) bool {
	deadline := time.Now().Add(most)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			return false
		}
		<-tick.C
	}
	return true
}
