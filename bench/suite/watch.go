package suite

import (
	"bytes"
	"io/fs"
	"strconv"
	"time"

	"tidemark.dev/internal/engine/sysinfo"
)

// moment is what both cores and the measured processes had done by some time.
type moment struct {
	cores [2]core
	own   time.Duration
}

// Watch follows the two cores and the measured processes while a long run is under
// way, so that its windows can be judged afterwards.
type Watch struct {
	stop, done chan struct{}
	moments    []moment
	err        error
}

// Watch begins to look; own returns the processor time of the processes measured. That of
// the kernel's threads that carry their packets is added to it.
func (s *Suite) Watch(own func() time.Duration) *Watch {
	w := &Watch{stop: make(chan struct{}), done: make(chan struct{})}
	packets := carriers(sysinfo.Live(), s.ServerCPU, s.ClientCPU)
	go func() {
		defer close(w.done)
		t := time.NewTicker(time.Second) // a look takes milliseconds from what is watched
		defer t.Stop()
		for last := false; ; {
			var m moment
			m.own = own() + used(sysinfo.Live(), packets)
			for i, n := range [2]int{s.ServerCPU, s.ClientCPU} {
				if m.cores[i], w.err = readCore(sysinfo.Live(), n); w.err != nil {
					return
				}
			}
			w.moments = append(w.moments, m)
			if last {
				return
			}
			select {
			case <-t.C:
			case <-w.stop:
				last = true
			}
		}
	}()
	return w
}

// Stop ends the watch.
func (w *Watch) Stop() error {
	close(w.stop)
	<-w.done
	return w.err
}

// Load is how both cores together were used between two times, in shares of one core:
// whose processor time was used on which of the two is not asked.
func (w *Watch) Load(from, to time.Time) Load {
	var first, last *moment
	for i := range w.moments {
		m := &w.moments[i]
		if first == nil || !m.cores[0].at.After(from) {
			first = m
		}
		if last == nil || last.cores[0].at.Before(to) {
			last = m
		}
	}
	if first == nil || !last.cores[0].at.After(first.cores[0].at) {
		return Load{}
	}
	own := last.own - first.own
	a, b := last.cores[0].since(first.cores[0], 0), last.cores[1].since(first.cores[1], 0)
	share := own.Seconds() / last.cores[0].at.Sub(first.cores[0].at).Seconds()
	return Load{Own: share, Steal: a.Steal + b.Steal, Foreign: max(0, a.Foreign+b.Foreign-share)}
}

// Dirty says why a window under this load is worth nothing, or "".
func (l Load) Dirty(limit float64) string { return l.dirty(limit) }

// anonymous is the anonymous resident memory of a process in bytes.
func anonymous(root fs.FS, pid int) (int64, bool) {
	b, err := fs.ReadFile(root, "proc/"+strconv.Itoa(pid)+"/status")
	if err != nil {
		return 0, false // it has ended
	}
	_, rest, found := bytes.Cut(b, []byte("\nRssAnon:"))
	words := bytes.Fields(rest)
	if !found || len(words) == 0 {
		return 0, false
	}
	kb, err := strconv.ParseInt(string(words[0]), 10, 64)
	return kb << 10, err == nil
}

// Anonymous is the anonymous resident memory of a process tree in bytes; without its
// head if below says so.
func Anonymous(pid int, below bool) (sum int64) {
	root := sysinfo.Live()
	tree, err := sysinfo.ReadTree(root, pid)
	if err != nil {
		return 0
	}
	for _, p := range tree.Processes {
		if n, ok := anonymous(root, p.PID); ok && !(below && p.PID == pid) {
			sum += n
		}
	}
	return sum
}
