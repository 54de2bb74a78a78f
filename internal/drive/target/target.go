// Package target runs the processes of a server under test and of the drivers:
// it starts them on given CPUs, waits until they answer, reads the CPU time
// they use, and stops them. No process outlives the run, however the run ends.
//
// Start a server with [Start] and single processes with [Keeper.Spawn]. What
// the processes are and how they are configured is the business of package kit.
package target

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"tidemark.dev/internal/ground/fault"
)

// Command describes one process.
type Command struct {
	Name string   // for messages: "nginx", "driver 1"
	Path string   // executable
	Args []string // without the program's name
	Env  []string // added to the environment of this process
	Dir  string   // working directory; empty means this process's
	CPUs []int    // CPUs it may run on; empty means all
	// Log receives standard output and error. Required: silence hides reasons.
	Log string
	// Stop is the signal that asks the process to finish; SIGTERM if zero.
	Stop syscall.Signal
	// Origin of the process's failures: fault.Target or fault.Driver.
	Origin fault.Origin
	// Ready says what to await after the start; nil awaits nothing.
	Ready *Ready
}

// Ready is a condition that tells that a process answers.
type Ready struct {
	Network string // "tcp" or "unix"
	Address string
}

// Target is a running server under test.
type Target struct {
	keeper    *Keeper
	processes []*Process
}

// startTimeout bounds the time from start to the first answer. A server that
// loads a file set of gigabytes may take seconds, not a minute.
const startTimeout = 60 * time.Second

// Start starts the commands in order and waits for each to get ready. On an
// error everything started is stopped again; the error has the tail of the
// process's own words.
func Start(ctx context.Context, k *Keeper, commands []Command) (*Target, error) {
	t := &Target{keeper: k}
	for _, c := range commands {
		p, err := k.Spawn(c)
		if err == nil {
			t.processes = append(t.processes, p)
			err = p.await(ctx)
		}
		if err != nil {
			t.Stop(2 * time.Second)
			return nil, err
		}
	}
	return t, nil
}

// CPU is the time the server's processes and their descendants, ended ones
// included, have used, split as the kernel samples it.
func (t *Target) CPU() (user, system time.Duration) {
	for _, p := range t.processes {
		u, s := p.CPU()
		user += u
		system += s
	}
	return user, system
}

// Processes of the target, in starting order.
func (t *Target) Processes() []*Process { return t.processes }

// Failed yields the error of a process that ended without being asked.
func (t *Target) Failed() error {
	for _, p := range t.processes {
		if err := p.Failed(); err != nil {
			return err
		}
	}
	return nil
}

// Stop asks the processes to finish, last started first, and ends what has not
// finished after grace. It returns the errors of processes that failed.
func (t *Target) Stop(grace time.Duration) error {
	var first error
	for i := len(t.processes) - 1; i >= 0; i-- {
		if err := t.processes[i].Stop(grace); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Process is a started command.
type Process struct {
	Command
	Pid int

	proc *os.Process
	done chan struct{}

	mu      sync.Mutex
	asked   bool // Stop was called
	state   *os.ProcessState
	waitErr error
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Failed returns why a process ended that nobody asked to, nil otherwise.
func (p *Process) Failed() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked {
		return nil
	}
	return p.ended()
}

func (p *Process) ended() error {
	why := "ended"
	if p.waitErr != nil {
		why = p.waitErr.Error()
	} else if p.state != nil {
		why = p.state.String()
	}
	err := fault.New(p.origin(), "%s (pid %d): %s", p.Name, p.Pid, why)
	if words := tail(p.Log); words != "" {
		err = fault.Hint(err, "its last words: "+words)
	}
	return err
}

func (p *Process) origin() fault.Origin {
	if p.Origin == fault.Unknown {
		return fault.Target
	}
	return p.Origin
}

// await polls the ready condition with short pauses; a process that ends while
// it is awaited is an error at once.
func (p *Process) await(ctx context.Context) error {
	if p.Ready == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	dialer := net.Dialer{}
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for {
		c, err := dialer.DialContext(ctx, p.Ready.Network, p.Ready.Address)
		if err == nil {
			_ = c.Close()
			return nil
		}
		select {
		case <-p.done:
			if failed := p.Failed(); failed != nil {
				return failed
			}
			return fault.New(p.origin(), "%s: stopped before it answered", p.Name)
		case <-ctx.Done():
			return fault.New(p.origin(), "%s: no answer on %s: %v", p.Name, p.Ready.Address, ctx.Err())
		case <-pause.C:
		}
	}
}

// Expect says that the process will end by itself and that this is no failure.
func (p *Process) Expect() {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
}

// Stop asks the process to finish and ends its group after grace.
func (p *Process) Stop(grace time.Duration) error {
	p.mu.Lock()
	already := p.asked
	p.asked = true
	p.mu.Unlock()
	select {
	case <-p.done:
		if !already {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.ended()
		}
		return nil
	default:
	}
	sig := p.Command.Stop
	if sig == 0 {
		sig = syscall.SIGTERM
	}
	_ = p.proc.Signal(sig)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
	}
	killGroup(p.Pid)
	<-p.done
	return fault.New(p.origin(), "%s (pid %d): did not stop within %v and was killed", p.Name, p.Pid, grace)
}

// tail returns the last lines a process wrote, shortened for a message.
func tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 2000
	if st, err := f.Stat(); err == nil && st.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(lines) > 4 {
		lines = lines[len(lines)-4:]
	}
	return strings.Join(lines, " | ")
}

func openLog(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of a process: %w", err)
	}
	return f, nil
}
