package sysinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"tidemark.dev/internal/ground/clock"
)

// Tree is a process and all its descendants at one moment.
type Tree struct {
	At        clock.Instant `json:"at_nanoseconds"`
	Processes []Process     `json:"processes"` // parents before their children
}

// Process is one process and the time it has used. The times include those of its
// children that have ended and been waited for, so the sum over a tree does not fall
// when a CGI program ends; it does when a process ends whose parent ignores SIGCHLD.
type Process struct {
	PID       int           `json:"pid"`
	Parent    int           `json:"parent_pid"`
	Name      string        `json:"name"`
	User      time.Duration `json:"user_nanoseconds"`   // in units of 10 ms
	System    time.Duration `json:"system_nanoseconds"` // in units of 10 ms
	PeakBytes int64         `json:"peak_resident_bytes"`
	Threads   []Thread      `json:"threads"`
}

// Thread is one thread of a process.
type Thread struct {
	TID      int           `json:"tid"`
	Name     string        `json:"name"`
	Born     int64         `json:"born_ticks"`         // 10 ms since boot: tells apart threads of one number
	User     time.Duration `json:"user_nanoseconds"`   // in units of 10 ms
	System   time.Duration `json:"system_nanoseconds"` // in units of 10 ms
	Running  time.Duration `json:"running_nanoseconds"`
	RunQueue time.Duration `json:"run_queue_nanoseconds"` // able to run, and waiting for a processor
}

// ReadTree reads the process pid and all its descendants below root. A process or
// thread that ends meanwhile is left out, unless it is pid itself.
//
// Any goroutine. Takes about 0.1 ms for each thread, so it belongs at the ends of a
// measured window and into one-second series of the few, not into a hot loop.
func ReadTree(root fs.FS, pid int) (Tree, error) {
	t := Tree{At: clock.Now()}
	top, err := readProcess(root, pid)
	if err != nil {
		return Tree{}, fmt.Errorf("process %d: %w", pid, err)
	}
	t.Processes = append(t.Processes, top)
	for i := 0; i < len(t.Processes); i++ {
		for _, child := range children(root, t.Processes[i]) {
			if p, err := readProcess(root, child); err == nil {
				t.Processes = append(t.Processes, p)
			}
		}
	}
	return t, nil
}

// children lists the living children of p, or without the kernel's list of them
// (CONFIG_PROC_CHILDREN) searches all processes.
func children(root fs.FS, p Process) []int {
	var list []int
	known := false
	for _, t := range p.Threads {
		b, err := fs.ReadFile(root, fmt.Sprintf("proc/%d/task/%d/children", p.PID, t.TID))
		if err != nil {
			continue
		}
		known = true
		for _, w := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(w); err == nil {
				list = append(list, n)
			}
		}
	}
	if known {
		return list
	}
	entries, _ := fs.ReadDir(root, "proc")
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := readStat(root, "proc/"+e.Name()+"/stat"); err == nil && s.parent == p.PID {
			list = append(list, n)
		}
	}
	return list
}

func readProcess(root fs.FS, pid int) (Process, error) {
	dir := "proc/" + strconv.Itoa(pid)
	s, err := readStat(root, dir+"/stat")
	if err != nil {
		return Process{}, err
	}
	p := Process{PID: pid, Parent: s.parent, Name: s.name, User: s.user + s.childUser, System: s.system + s.childSystem}
	if b, err := fs.ReadFile(root, dir+"/status"); err == nil {
		p.PeakBytes = kilobytes(fields(string(b))["VmHWM"])
	}
	entries, err := fs.ReadDir(root, dir+"/task")
	if err != nil {
		return Process{}, err
	}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		s, err := readStat(root, dir+"/task/"+e.Name()+"/stat")
		if err != nil {
			continue // ended
		}
		t := Thread{TID: tid, Name: s.name, Born: s.born, User: s.user, System: s.system}
		if b, err := fs.ReadFile(root, dir+"/task/"+e.Name()+"/schedstat"); err == nil {
			// Three numbers: nanoseconds on a processor, nanoseconds waiting for one, slices.
			if w := strings.Fields(string(b)); len(w) == 3 {
				running, _ := strconv.ParseInt(w[0], 10, 64)
				queued, _ := strconv.ParseInt(w[1], 10, 64)
				t.Running, t.RunQueue = time.Duration(running), time.Duration(queued)
			}
		}
		p.Threads = append(p.Threads, t)
	}
	return p, nil
}

// stat is the part of a stat file that is used.
type stat struct {
	name                   string
	parent                 int
	user, system           time.Duration
	childUser, childSystem time.Duration
	born                   int64
}

// readStat parses a stat file: proc(5) gives the numbers of the fields.
func readStat(root fs.FS, path string) (stat, error) {
	b, err := fs.ReadFile(root, path)
	if err != nil {
		return stat{}, err
	}
	// The name stands in parentheses and may contain anything, these included.
	open, end := strings.IndexByte(string(b), '('), strings.LastIndexByte(string(b), ')')
	if open < 0 || end < open {
		return stat{}, errors.New("stat: no name")
	}
	s := stat{name: string(b[open+1 : end])}
	w := strings.Fields(string(b[end+1:])) // w[0] is field 3
	if len(w) < 20 {
		return stat{}, errors.New("stat: too short")
	}
	var n [20]int64
	for i := 1; i < len(n); i++ {
		if n[i], err = strconv.ParseInt(w[i], 10, 64); err != nil {
			return stat{}, fmt.Errorf("stat: field %d: %q is no number", i+3, w[i])
		}
	}
	s.parent = int(n[4-3])
	s.user, s.system = time.Duration(n[14-3])*tick, time.Duration(n[15-3])*tick
	s.childUser, s.childSystem = time.Duration(n[16-3])*tick, time.Duration(n[17-3])*tick
	s.born = n[22-3]
	return s, nil
}

// Usage is what a tree used between two moments.
type Usage struct {
	Elapsed       time.Duration `json:"elapsed_nanoseconds"`
	User          time.Duration `json:"user_nanoseconds"`
	System        time.Duration `json:"system_nanoseconds"`
	Running       time.Duration `json:"running_nanoseconds"`         // of the threads living at the end
	RunQueue      time.Duration `json:"run_queue_nanoseconds"`       // of the threads living at the end
	WorstRunQueue time.Duration `json:"worst_run_queue_nanoseconds"` // of one thread
	Processes     int           `json:"processes_count"`             // at the end
	Threads       int           `json:"threads_count"`               // at the end
	PeakBytes     int64         `json:"peak_resident_bytes"`         // sum over the processes living at the end
}

// Since returns what the tree used since before.
func (t Tree) Since(before Tree) Usage {
	type key struct {
		tid  int
		born int64
	}
	old := map[key]Thread{}
	u := Usage{Elapsed: t.At.Sub(before.At), Processes: len(t.Processes)}
	for _, p := range before.Processes {
		u.User -= p.User
		u.System -= p.System
		for _, h := range p.Threads {
			old[key{h.TID, h.Born}] = h
		}
	}
	for _, p := range t.Processes {
		u.User += p.User
		u.System += p.System
		u.PeakBytes += p.PeakBytes
		u.Threads += len(p.Threads)
		for _, h := range p.Threads {
			was := old[key{h.TID, h.Born}]
			queued := max(h.RunQueue-was.RunQueue, 0)
			u.Running += max(h.Running-was.Running, 0)
			u.RunQueue += queued
			u.WorstRunQueue = max(u.WorstRunQueue, queued)
		}
	}
	u.User, u.System = max(u.User, 0), max(u.System, 0)
	return u
}

// Cores returns the mean number of cores kept busy.
func (u Usage) Cores() float64 { return share(u.User+u.System, u.Elapsed) }

// RunQueueShare returns which part of the time that threads were able to run they
// waited for a processor, 0 to 1.
func (u Usage) RunQueueShare() float64 { return share(u.RunQueue, u.RunQueue+u.Running) }

// WorstRunQueueShare returns which part of the elapsed time the unluckiest thread
// waited for a processor, 0 to 1.
func (u Usage) WorstRunQueueShare() float64 { return share(u.WorstRunQueue, u.Elapsed) }
