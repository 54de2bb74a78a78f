package cgi

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Spawner is a process that starts the programs of Gateways. Start it before there are many descriptors.
//
// If that process ends, the programs end with it, their requests fail, and the next request has another
// process started, at most one in a second. Until that answers, programs are started directly. (What the
// programs had started themselves may stay then, as it may when a server is killed that has no Spawner.)
type Spawner struct {
	o        SpawnerOptions
	patience patience
	now      func() time.Time

	mu       sync.Mutex
	link     *link // nil: none, or not yet
	starting bool
	last     time.Time // when one was started
	told     bool      // of the loss
	closed   bool
	run      sync.WaitGroup
}

// restartPause is the least time between two starts.
const restartPause = time.Second

// patience is how long a process may take to start, and to do as it is told: to kill a program, to take a
// packet, to end. It needs milliseconds, and microseconds. One that is late is stuck and killed.
type patience struct{ start, do time.Duration }

// errNoSpawner says that the program is to be started in another way.
var errNoSpawner = errors.New("cgi: no spawner")

// NewSpawner starts the process and waits until it answers. If it does not, Lost is told: a server can do
// without. Close it.
func NewSpawner(o SpawnerOptions) *Spawner {
	return newSpawner(o, patience{start: 30 * time.Second, do: 5 * time.Second}, time.Now)
}

func newSpawner(o SpawnerOptions, p patience, now func() time.Time) *Spawner {
	s := &Spawner{o: o, patience: p, now: now, starting: true, last: now()}
	if l := s.launch(); l != nil {
		select {
		case <-l.ready:
		case <-l.ended:
		}
	}
	return s
}

// Close ends the process, which kills what it has started, and waits for it.
func (s *Spawner) Close() {
	s.mu.Lock()
	s.closed = true
	l := s.link
	s.mu.Unlock()
	if l != nil {
		l.close()
	}
	s.run.Wait()
}

// start has the process start a program. It does not wait for that: that a program did not start is how
// it ended. See start_linux.go; errNoSpawner asks to start it in another way.
//
// Any goroutine; blocks for the patience of the Spawner at most, and ordinarily not at all.
func (s *Spawner) start(c *command, end func(result)) (group, error) {
	s.mu.Lock()
	l := s.link
	if l == nil && !s.starting && !s.closed && s.now().Sub(s.last) >= restartPause {
		s.starting, s.last = true, s.now()
		s.run.Go(func() { s.launch() })
	}
	s.mu.Unlock()
	if l == nil {
		return nil, errNoSpawner
	}
	return l.start(c, end)
}

// launch starts a process, or returns nil. s.starting is set.
func (s *Spawner) launch() *link {
	l, err := dial(&s.o, s.patience)
	s.mu.Lock()
	s.link, s.starting = l, false
	closed := s.closed
	s.mu.Unlock()
	if err != nil {
		s.lost(err, false)
		return nil
	}
	if closed {
		l.close()
	}
	s.run.Go(func() {
		err, answered := l.serve()
		s.mu.Lock()
		s.link = nil
		s.mu.Unlock()
		s.lost(err, answered)
		close(l.ended)
	})
	return l
}

// lost tells about a loss: of a process that had answered always, of the attempts after it once.
func (s *Spawner) lost(err error, answered bool) {
	s.mu.Lock()
	tell := !s.closed && s.o.Lost != nil && (answered || !s.told)
	s.told = true
	s.mu.Unlock()
	if tell {
		s.o.Lost(fmt.Errorf("CGI spawner: %w", err))
	}
}

// link is one spawner process.
type link struct {
	socket   *os.File // to it
	answers  *os.File // from it
	process  *os.Process
	patience patience
	ready    chan struct{} // it has answered
	ended    chan struct{} // it is no more

	mu      sync.Mutex
	open    bool // for programs
	last    uint64
	running map[uint64]func(result)
}

// dial starts a spawner process. It gets nothing of ours: /dev/null, a pipe and a socket, and an environment
// in which the Go runtime uses one processor, keeps no file open to look for more, and sends no signals to
// a thread that waits.
//
// It takes packets, not a stream: each is one system call on either side, and descriptors cannot come apart
// from the request they belong to. Answers have a way of their own, because of a socket the runtime's
// poller would also be told, and woken for it, that a packet has been taken.
func dial(o *SpawnerOptions, p patience) (_ *link, err error) {
	if len(o.Command) == 0 {
		return nil, errors.New("no command")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	l := &link{
		socket: os.NewFile(uintptr(pair[0]), "spawner"), patience: p,
		ready: make(chan struct{}), ended: make(chan struct{}), running: map[uint64]func(result){},
	}
	theirs := os.NewFile(uintptr(pair[1]), "server")
	defer theirs.Close()
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	// For the largest packet and some more. Where the system allows less, large packets are refused.
	_ = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, maxPacket)
	var out int
	if l.answers, out, err = pipe(0); err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	stdout := os.NewFile(uintptr(out), "answers")
	defer stdout.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	stderr := null
	if o.Stderr != nil {
		stderr = o.Stderr
	}
	l.process, err = os.StartProcess(o.Command[0], o.Command, &os.ProcAttr{
		Env:   []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0,asyncpreemptoff=1"},
		Files: []*os.File{null, stdout, stderr, theirs},
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// close asks the process to end; it is waited for by serve. Any goroutine, more than once.
func (l *link) close() { _, _ = l.socket.Close(), l.answers.Close() }

// serve takes the answers of the process until it ends or the connection is closed, reaps it, and fails
// what was running: it has been killed. The error says why it ended.
func (l *link) serve() (why error, answered bool) {
	late := time.AfterFunc(l.patience.start, l.abandon)
	why = l.receive(late)
	l.mu.Lock()
	answered, l.open = l.open, false
	l.mu.Unlock()
	if !answered && !late.Stop() {
		why = errors.New("it does not answer")
	}
	l.close() // sends it away, if it is still there
	stuck := time.AfterFunc(l.patience.do, l.abandon)
	state, err := l.process.Wait()
	stuck.Stop()
	switch {
	case why != nil:
	case err != nil:
		why = err
	default:
		why = errors.New(state.String())
	}
	l.mu.Lock()
	running := l.running
	l.running = nil
	l.mu.Unlock()
	for _, end := range running {
		end(result{err: errLost})
	}
	return why, answered
}

// receive takes answers until there are no more, or one that makes no sense.
func (l *link) receive(late *time.Timer) error {
	r := bufio.NewReaderSize(l.answers, 64*answerSize)
	for {
		b, err := r.Peek(answerSize)
		if err != nil {
			return nil // how the process has ended says more
		}
		a := parseAnswer(b)
		_, _ = r.Discard(answerSize)
		if a.what != isReady {
			l.end(a)
			continue
		}
		if a.value != version {
			return errors.New("another version answers: the executable has been replaced")
		}
		if !late.Stop() {
			return nil // too late, or twice
		}
		l.mu.Lock()
		l.open = true
		l.mu.Unlock()
		close(l.ready)
	}
}

// end ends a program as the process has answered.
func (l *link) end(a answer) {
	end := l.forget(a.id)
	if end == nil {
		return
	}
	switch a.what {
	case hasEnded:
		end(result{status: syscall.WaitStatus(a.value)})
	case notStarted:
		end(result{err: unstarted{syscall.Errno(a.value)}})
	default:
		end(result{err: errLost})
	}
}

// forget takes a program off the list and returns what is to be told of its end, or nil if that was told.
func (l *link) forget(id uint64) func(result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.running[id]
	delete(l.running, id)
	return end
}

// start sends a program to the process.
func (l *link) start(c *command, end func(result)) (group, error) {
	l.mu.Lock()
	if !l.open {
		l.mu.Unlock()
		return nil, errNoSpawner
	}
	l.last++
	p := spawned{l, l.last}
	l.running[p.id] = end
	l.mu.Unlock()

	var files []int
	for _, fd := range c.files {
		if fd >= 0 {
			files = append(files, fd)
		}
	}
	b, fits := appendStart(nil, c, p.id)
	err := error(unix.EMSGSIZE)
	if fits {
		err = l.send(b, unix.UnixRights(files...))
	}
	if err == nil || l.forget(p.id) == nil {
		return p, nil // or the process has ended, and so has the program
	}
	switch err {
	case unix.EMSGSIZE:
		return nil, unstarted{unix.E2BIG}
	case unix.EAGAIN:
		l.abandon()
	}
	return nil, errNoSpawner
}

// send sends a packet, whole or not at all. It waits for room only if the process is behind; EAGAIN says
// that it is stuck.
func (l *link) send(b, rights []byte) (err error) {
	deadline := time.Now().Add(l.patience.do)
	socket, err := l.socket.SyscallConn()
	if err != nil {
		return err
	}
	closed := socket.Control(func(fd uintptr) {
		for {
			_, err = unix.SendmsgN(int(fd), b, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if err != unix.EAGAIN {
				return
			}
			left := time.Until(deadline)
			if left <= 0 {
				return
			}
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, int(left/time.Millisecond)+1)
		}
	})
	return cmp.Or(closed, err)
}

// abandon ends a process that does not do as it is told.
func (l *link) abandon() { _ = l.process.Kill() }

// spawned is a program of a spawner.
type spawned struct {
	l  *link
	id uint64
}

func (p spawned) runs() bool {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	return p.l.running[p.id] != nil
}

func (p spawned) kill() {
	if !p.runs() {
		return
	}
	time.AfterFunc(p.l.patience.do, func() {
		if p.runs() {
			p.l.abandon()
		}
	})
	_ = p.l.send(appendKill(nil, p.id), nil) // if that fails the process has ended
}
