package target

import (
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/engine/sysinfo"
	"tidemark.dev/internal/ground/fault"
)

// Keeper starts processes from one locked thread and sees to it that none of
// them outlives this process.
//
// Two mechanisms, because one is not enough. Every process gets a parent-death
// signal, which the kernel ties to the starting *thread*: hence the one locked
// thread that lives as long as the Keeper. A server that forks workers of its
// own (nginx) would leave those behind, so a small guard process holds the read
// end of a pipe from this process and ends the groups it was told of when the
// pipe breaks.
type Keeper struct {
	work  chan func()
	guard io.WriteCloser
	cmd   *exec.Cmd
}

// NewKeeper starts the thread and, when guard is not empty, the guard process
// (the command line of something that runs [Guard] on its standard input).
func NewKeeper(guard []string) (*Keeper, error) {
	k := &Keeper{work: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its work
		for f := range k.work {
			f()
		}
	}()
	if len(guard) == 0 {
		return k, nil
	}
	k.cmd = exec.Command(guard[0], guard[1:]...)
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not reach it
	w, err := k.cmd.StdinPipe()
	if err == nil {
		err = k.cmd.Start()
	}
	if err != nil {
		close(k.work)
		return nil, fault.Wrap(fault.Driver, err, "guard process")
	}
	k.guard = w
	return k, nil
}

// Close lets the guard go. Every process must have been stopped.
func (k *Keeper) Close() {
	if k.guard != nil {
		_, _ = io.WriteString(k.guard, "done\n")
		_ = k.guard.Close()
		_ = k.cmd.Wait()
	}
	close(k.work)
}

// Spawn starts one process. It does not wait for readiness.
func (k *Keeper) Spawn(c Command) (*Process, error) {
	origin := c.Origin
	if origin == fault.Unknown {
		origin = fault.Target
	}
	log, err := openLog(c.Log)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, c.Name)
	}
	defer log.Close()
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Dir = c.Dir
	// What a process of ours is to do stands in its arguments; TIDEMARK_LISTEN or TIDEMARK_ROOT in the user's environment
	// are meant for the command he gave.
	cmd.Env = append(slices.DeleteFunc(cmd.Environ(), func(e string) bool { return strings.HasPrefix(e, "TIDEMARK_") }), c.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error, 1)
	k.work <- func() { started <- startOn(cmd, c.CPUs) }
	if err := <-started; err != nil {
		return nil, fault.Wrap(origin, err, "start "+c.Name)
	}
	p := &Process{Command: c, Pid: cmd.Process.Pid, proc: cmd.Process, done: make(chan struct{})}
	if k.guard != nil {
		if _, err := fmt.Fprintln(k.guard, p.Pid); err != nil {
			killGroup(p.Pid)
			_ = cmd.Wait()
			return nil, fault.Wrap(fault.Driver, err, "guard process")
		}
	}
	go func() {
		// What a server that was killed leaves of its group (nginx: workers that go on serving) goes with it, before
		// its number is free for others.
		for unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		killGroup(p.Pid)
		err := cmd.Wait()
		p.mu.Lock()
		p.state, p.waitErr = cmd.ProcessState, err
		p.mu.Unlock()
		if k.guard != nil {
			_, _ = fmt.Fprintf(k.guard, "-%d\n", p.Pid) // its number may be given to another
		}
		close(p.done)
	}()
	return p, nil
}

// startOn starts cmd with the affinity given: the child inherits the affinity
// of the starting thread, which gets its own back afterwards.
func startOn(cmd *exec.Cmd, cpus []int) error {
	if len(cpus) == 0 {
		return cmd.Start()
	}
	var before, wanted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("sched_getaffinity: %w", err)
	}
	for _, c := range cpus {
		wanted.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		return fmt.Errorf("sched_setaffinity %v: %w", cpus, err)
	}
	err := cmd.Start()
	if back := unix.SchedSetaffinity(0, &before); back != nil && err == nil {
		err = fmt.Errorf("sched_setaffinity: %w", back)
	}
	return err
}

// Guard reads lines from r: N for a process that was started, -N for one that
// ended, "done" at an orderly end. When r ends without that word the process at
// the other end has died, and Guard kills the groups still alive.
func Guard(r io.Reader) {
	b, _ := io.ReadAll(r) // a read error is the same news as an end
	alive := map[int]bool{}
	for _, l := range strings.Fields(string(b)) {
		if l == "done" {
			return
		}
		switch pid, err := strconv.Atoi(l); {
		case err != nil:
		case pid > 1:
			alive[pid] = true
		default:
			delete(alive, -pid)
		}
	}
	for pid := range alive {
		killGroup(pid)
	}
}

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// CPU time of the process and of all its descendants that it has waited for,
// plus the running ones.
func (p *Process) CPU() (user, system time.Duration) {
	p.mu.Lock()
	state := p.state
	p.mu.Unlock()
	if state != nil {
		return state.UserTime(), state.SystemTime()
	}
	tree, err := sysinfo.ReadTree(sysinfo.Live(), p.Pid)
	if err != nil {
		return 0, 0 // it ends just now
	}
	for _, one := range tree.Processes {
		user += one.User
		system += one.System
	}
	return user, system
}
