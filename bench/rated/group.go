package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// group is a control group of our own that bounds processor time.
type group struct {
	dir  string
	kind string // "cgroup v2", "cgroup v1"
}

// newGroup makes a group below mount, by the version of control groups that has the
// processor there.
func newGroup(mount, name string, period, budget time.Duration) (*group, error) {
	var why error
	for _, at := range []string{mount, filepath.Join(mount, "unified")} {
		b, err := os.ReadFile(filepath.Join(at, "cgroup.controllers"))
		if err != nil || !strings.Contains(" "+strings.TrimSpace(string(b))+" ", " cpu ") {
			continue
		}
		g := &group{dir: filepath.Join(at, name), kind: "cgroup v2"}
		err = os.WriteFile(filepath.Join(at, "cgroup.subtree_control"), []byte("+cpu"), 0o644)
		if err == nil {
			err = g.set(map[string]string{"cpu.max": fmt.Sprintf("%d %d", budget.Microseconds(), period.Microseconds())})
		}
		if err == nil {
			return g, nil
		}
		why = errors.Join(why, err)
	}
	for _, at := range []string{filepath.Join(mount, "cpu"), filepath.Join(mount, "cpu,cpuacct")} {
		if _, err := os.Stat(filepath.Join(at, "cpu.cfs_quota_us")); err != nil {
			continue
		}
		g := &group{dir: filepath.Join(at, name), kind: "cgroup v1"}
		err := g.set(map[string]string{
			"cpu.cfs_period_us": strconv.FormatInt(period.Microseconds(), 10), "cpu.cfs_quota_us": strconv.FormatInt(budget.Microseconds(), 10),
		})
		if err == nil {
			return g, nil
		}
		why = errors.Join(why, err)
	}
	if why == nil {
		why = errors.New("no control groups for the processor below " + mount)
	}
	return nil, why
}

// set makes the group and writes its bounds; what cannot be bound is removed again.
func (g *group) set(values map[string]string) error {
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return err
	}
	for name, value := range values {
		path := filepath.Join(g.dir, name)
		err := os.WriteFile(path, []byte(value), 0o644)
		if err == nil {
			var b []byte
			if b, err = os.ReadFile(path); err == nil && strings.TrimSpace(string(b)) != value {
				err = fmt.Errorf("%s is %s, not %s", path, strings.TrimSpace(string(b)), value)
			}
		}
		if err != nil {
			return errors.Join(err, g.remove())
		}
	}
	return nil
}

// add moves a process with its threads.
func (g *group) add(pid int) error {
	return os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
}

// stat is what the kernel says of the bound: periods, and how many were cut short.
func (g *group) stat() map[string]int64 {
	m := map[string]int64{}
	b, err := os.ReadFile(filepath.Join(g.dir, "cpu.stat"))
	if err != nil {
		return m // an addition to the result, not a condition
	}
	for line := range strings.Lines(string(b)) {
		var name string
		var n int64
		if k, _ := fmt.Sscan(line, &name, &n); k == 2 && (name == "nr_periods" || name == "nr_throttled") {
			m[name] = n
		}
	}
	return m
}

// remove removes the group, which must be empty: a process that has just ended may be
// counted a moment longer.
func (g *group) remove() error {
	var err error
	for range 50 {
		if err = os.Remove(g.dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return err
}
