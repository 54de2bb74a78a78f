package cgi

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Spawn is what a spawner process does: it starts programs for the server at the other end of the socket
// until that is closed, then kills and reaps what still runs, and returns. Answers go to standard output.
// The process should have nothing else to do.
//
// One thread does it all. For each request it wakes twice, reads one packet, writes one answer, and does
// what starting and reaping take.
func Spawn(server *os.File) error {
	fd := int(server.Fd())
	defer runtime.KeepAlive(server)
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return errors.New("cgi: a spawner is started by a server, which gives it a socket")
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return os.NewSyscallError("cgi: pidfd_open", err) // before Linux 5.3
	}
	_ = unix.Close(self)
	unix.CloseOnExec(fd)
	shed()
	s := &spawning{
		in: make([]byte, maxPacket+1), oob: make([]byte, unix.CmsgSpace(3*4)), answer: make([]byte, 0, answerSize),
		waits: []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
	}
	defer s.end()
	return s.serve()
}

// shed closes what this process inherited without anybody wanting it to: the parent of the server may
// have left descriptors open, and who holds a socket or a pipe keeps it alive. What was inherited is not
// marked to be closed by exec; what the runtime has opened, is.
func shed() {
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	var names []string
	for b := make([]byte, 8<<10); ; {
		n, err := unix.ReadDirent(dir, b)
		if err != nil || n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(b[:n], -1, names)
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// spawning is the state of a spawner process.
type spawning struct {
	in, oob, answer []byte
	programs        []program
	waits           []unix.PollFd // the server's socket, then the programs
}

// program is a program that runs.
type program struct {
	id  uint64
	pid int
}

// serve works until the server closes the socket.
func (s *spawning) serve() error {
	if err := s.say(answer{what: isReady, value: version}); err != nil {
		return gone(err)
	}
	for {
		if err := s.wait(); err != nil {
			return err
		}
		for i := len(s.programs) - 1; i >= 0; i-- {
			if s.waits[1+i].Revents == 0 {
				continue
			}
			if err := s.say(s.reap(i)); err != nil {
				return gone(err)
			}
		}
		if s.waits[0].Revents != 0 {
			if err := s.receive(); err != nil {
				return gone(err)
			}
		}
	}
}

// wait waits until there is something to do.
//
// A wait that Go's scheduler sees wakes its monitor thread, which then looks every 20 us for a millisecond
// and more: that took as much time as the rest of a request. So the scheduler does not see the first
// second. Nothing else in this process wants to run meanwhile.
func (s *spawning) wait() error {
	second := unix.Timespec{Sec: 1}
	n, _, err := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.waits[0])), uintptr(len(s.waits)), uintptr(unsafe.Pointer(&second)), 0, 0, 0)
	for err == unix.EINTR || err == 0 && n == 0 {
		n, _, err = syscall.Syscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.waits[0])), uintptr(len(s.waits)), 0, 0, 0, 0)
	}
	if err != 0 {
		return os.NewSyscallError("cgi: ppoll", err)
	}
	return nil
}

// errClosed is the end of the server's wishes.
var errClosed = errors.New("closed")

// gone turns the end of the server into none of ours.
func gone(err error) error {
	if err == errClosed || err == unix.EPIPE || err == unix.ECONNRESET {
		return nil
	}
	return err
}

// end kills and reaps everything.
func (s *spawning) end() {
	for _, p := range s.programs {
		kill(p.pid)
	}
	for len(s.programs) > 0 {
		s.reap(len(s.programs) - 1)
	}
}

// reap reaps the ith program, which has ended or is about to.
func (s *spawning) reap(i int) answer {
	a := answer{id: s.programs[i].id, what: hasEnded}
	pidfd, last := int(s.waits[1+i].Fd), len(s.programs)-1
	how := reap(s.programs[i].pid)
	a.value = uint32(how.status)
	if how.err != nil {
		a.what, a.value = isLost, 0
	}
	_ = unix.Close(pidfd)
	s.programs[i], s.waits[1+i] = s.programs[last], s.waits[1+last]
	s.programs, s.waits = s.programs[:last], s.waits[:1+last]
	return a
}

func (s *spawning) say(a answer) error {
	for {
		if _, err := unix.Write(answers, a.append(s.answer)); err != unix.EINTR {
			return err
		}
	}
}

// receive takes one packet from the server and does what it says.
func (s *spawning) receive() error {
	n, oob, flags, _, err := unix.Recvmsg(int(s.waits[0].Fd), s.in, s.oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
		return nil
	case err != nil:
		return err
	case n == 0:
		return errClosed
	}
	files, err := descriptors(s.oob[:oob])
	defer func() {
		for _, fd := range files {
			_ = unix.Close(fd)
		}
	}()
	if err != nil {
		return err
	}
	p, err := parsePacket(s.in[:n])
	if err != nil || flags&unix.MSG_TRUNC != 0 {
		return errPacket
	}
	if p.kind == toKill {
		for _, g := range s.programs {
			if g.id == p.id {
				kill(g.pid)
			}
		}
		return nil
	}
	if err = s.start(&p, files); err == nil {
		return nil
	}
	a := answer{id: p.id, what: notStarted, value: uint32(unix.EINVAL)}
	var number syscall.Errno
	if errors.As(err, &number) {
		a.value = uint32(number)
	}
	return s.say(a)
}

// descriptors are those that came with a packet.
func descriptors(oob []byte) (files []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for i := 0; err == nil && i < len(messages); i++ {
		var some []int
		some, err = unix.ParseUnixRights(&messages[i])
		files = append(files, some...)
	}
	return files, err
}

// start starts a program.
func (s *spawning) start(p *packet, files []int) error {
	c := p.command()
	for i := range c.files {
		if p.files&(1<<i) == 0 {
			continue
		}
		if len(files) == 0 {
			return unix.EMFILE // what there was no room for the kernel leaves out
		}
		c.files[i], files = files[0], files[1:]
	}
	pidfd := -1
	pid, err := c.fork(null, &pidfd)
	if err != nil {
		return err
	}
	if pidfd < 0 { // clone gave none, as in some sandboxes
		if pidfd, err = unix.PidfdOpen(pid, 0); err != nil {
			kill(pid)
			reap(pid)
			return err
		}
	}
	s.programs = append(s.programs, program{p.id, pid})
	s.waits = append(s.waits, unix.PollFd{Fd: int32(pidfd), Events: unix.POLLIN})
	return nil
}

// Descriptors of a spawner process; standard input is /dev/null.
const (
	null    = 0
	answers = 1
)
