package cgi

import (
	"errors"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Who starts a program is hidden behind this: start(command, end) gives a group, and end is called once,
// by any goroutine, perhaps before start has returned, when the program has ended, its group has been
// killed and it has been reaped. If start fails, end is not called.

// command is a program to be started.
type command struct {
	program, dir string
	args, env    []string // args without the program's own name
	files        [3]int   // standard input, output and error; -1 for nothing
}

// group is a program that was started, and what it started itself.
type group interface {
	// kill kills all of it, if it has not ended. Any goroutine.
	kill()
}

// result is how a program ended.
type result struct {
	status syscall.WaitStatus
	err    error // unstarted or errLost, in words for the client; then there is no status
}

// errLost is for programs of which nobody knows how they ended.
var errLost = errors.New("CGI program: exit status lost")

// unstarted is why a program did not start.
type unstarted struct{ err error }

// Error does not tell clients about the files of the server.
func (u unstarted) Error() string {
	if errors.Is(u.err, syscall.E2BIG) {
		return "CGI program did not start: the request is too large for its environment"
	}
	return "CGI program did not start"
}

// fork starts c in a group of its own; null stands in for descriptors that are -1. Blocks until the
// program is loaded. If pidfd is not nil, it gets a descriptor of the process.
//
// Pdeathsig covers a parent that is killed itself and cannot clean up. The kernel sends it when the
// thread that forked ends, and Go ends a thread only with a goroutine locked to it: loops, which do not
// start programs.
func (c *command) fork(null int, pidfd *int) (pid int, err error) {
	files := make([]uintptr, len(c.files))
	for i, fd := range c.files {
		if fd < 0 {
			fd = null
		}
		files[i] = uintptr(fd)
	}
	return syscall.ForkExec(c.program, append([]string{c.program}, c.args...), &syscall.ProcAttr{
		Dir: c.dir, Env: c.env, Files: files,
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, PidFD: pidfd},
	})
}

// kill kills a program that has not been reaped, and its group. The program may have gone to another group.
func kill(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

// reap kills what is left of the group of a program that has ended, and reaps the program, in this order:
// as long as it is a zombie the group's number cannot be taken by another.
func reap(pid int) result {
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	var status syscall.WaitStatus
	for {
		switch _, err := syscall.Wait4(pid, &status, 0, nil); err {
		case nil:
			return result{status: status}
		case syscall.EINTR:
		default:
			return result{err: errLost} // somebody else has reaped it
		}
	}
}

// direct is a child of this process.
type direct struct {
	pid int

	mu     sync.Mutex
	reaped bool // then the group's number may belong to somebody else
}

// startDirect starts c as a child of this process.
func startDirect(c *command, null int, end func(result)) (group, error) {
	pid, err := c.fork(null, nil)
	if err != nil {
		return nil, unstarted{err}
	}
	d := &direct{pid: pid}
	go func() {
		for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		d.mu.Lock()
		how := reap(pid)
		d.reaped = true
		d.mu.Unlock()
		end(how)
	}()
	return d, nil
}

func (d *direct) kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.reaped {
		kill(d.pid)
	}
}
