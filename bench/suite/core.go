package suite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark.dev/internal/engine/sysinfo"
)

// core is what one core did since the machine started. Idle time is exact on kernels
// that stop the tick of an idle core; busy time is sampled, so it is not read.
type core struct {
	at          time.Time
	idle, steal time.Duration
}

// tick is the unit of /proc/stat, USER_HZ.
const tick = 10 * time.Millisecond

func readCore(root fs.FS, number int) (core, error) {
	c := core{at: time.Now()}
	b, err := fs.ReadFile(root, "proc/stat")
	if err != nil {
		return c, err
	}
	name := "cpu" + strconv.Itoa(number)
	for line := range strings.Lines(string(b)) {
		w := strings.Fields(line)
		if len(w) < 9 || w[0] != name {
			continue
		}
		var n [9]int64
		for i := 1; i < len(n); i++ {
			if n[i], err = strconv.ParseInt(w[i], 10, 64); err != nil {
				return c, fmt.Errorf("/proc/stat: %s: %w", name, err)
			}
		}
		c.idle, c.steal = time.Duration(n[4]+n[5])*tick, time.Duration(n[8])*tick
		return c, nil
	}
	return c, fmt.Errorf("/proc/stat: no %s", name)
}

// Load is how a core was used over some time. All shares are 0 to 1.
type Load struct {
	Own     float64 `json:"own_share"`     // by the processes measured
	Foreign float64 `json:"foreign_share"` // neither idle, nor by them, nor stolen
	Steal   float64 `json:"steal_share"`   // taken by the hypervisor
}

// since returns the load since before, of which own was used by the processes measured.
func (c core) since(before core, own time.Duration) Load {
	whole := c.at.Sub(before.at)
	if whole <= 0 {
		return Load{}
	}
	share := func(d time.Duration) float64 { return max(0, float64(d)/float64(whole)) }
	steal := c.steal - before.steal
	return Load{Own: share(own), Steal: share(steal), Foreign: share(whole - (c.idle - before.idle) - own - steal)}
}

// dirty says why a sample taken under this load is worth nothing, or "".
func (l Load) dirty(limit float64) string {
	switch {
	case l.Foreign > limit:
		return fmt.Sprintf("%.0f %% by other processes", 100*l.Foreign)
	case l.Steal > limit:
		return fmt.Sprintf("%.0f %% stolen", 100*l.Steal)
	}
	return ""
}

var errNotQuiet = errors.New("the machine did not become quiet")

// quiet waits until both cores were left alone for a second, at most patience. own is
// the processor time of what may run on the first meanwhile.
func quiet(ctx context.Context, cores [2]int, limit float64, patience time.Duration, own func() time.Duration, waiting func(why string)) error {
	const look = time.Second
	for begun := time.Now(); ; {
		why := ""
		var before [2]core
		var err error
		spent := [2]time.Duration{own()}
		for i, n := range cores {
			if before[i], err = readCore(sysinfo.Live(), n); err != nil {
				return err
			}
		}
		if err := pause(ctx, look); err != nil {
			return err
		}
		spent[0] = own() - spent[0]
		for i, n := range cores {
			now, err := readCore(sysinfo.Live(), n)
			if err != nil {
				return err
			}
			if d := now.since(before[i], spent[i]).dirty(limit); d != "" {
				why = fmt.Sprintf("core %d: %s", n, d)
			}
		}
		if why == "" {
			return nil
		}
		if time.Since(begun) > patience {
			return fmt.Errorf("%w within %v (%s)", errNotQuiet, patience, why)
		}
		waiting(why)
	}
}

// carriers are the kernel's threads that take packets on where softirqs have no more
// time, of the cores watched: what they use is the traffic's own.
func carriers(root fs.FS, cores ...int) (pids []int) {
	stats, _ := fs.Glob(root, "proc/[0-9]*/comm") // the pattern is good
	for _, name := range stats {
		b, err := fs.ReadFile(root, name)
		number, found := strings.CutPrefix(strings.TrimSpace(string(b)), "ksoftirqd/")
		if n, bad := strconv.Atoi(number); err != nil || !found || bad != nil || !slices.Contains(cores, n) {
			continue
		}
		if pid, err := strconv.Atoi(strings.Split(name, "/")[1]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// used is the processor time of processes so far; those that have ended count nothing.
func used(root fs.FS, pids []int) (sum time.Duration) {
	for _, pid := range pids {
		b, err := fs.ReadFile(root, "proc/"+strconv.Itoa(pid)+"/schedstat")
		if err != nil {
			continue
		}
		run, _, _ := strings.Cut(string(b), " ")
		if ns, err := strconv.ParseInt(run, 10, 64); err == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
