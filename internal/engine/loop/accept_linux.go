package loop

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/engine/ring"
	"tidemark.dev/internal/engine/socket"
)

// doors are the open accepts of a ring, acceptBurst for each listener: the kernel fills
// one for each connection, address included, without a system call. They are opened again
// by the turn that handles them, so a listener gets no more than that in a turn.
//
// At MaxConns the kernel still accepts those who come: they wait at their door, as others
// do in the backlog, until there is room.
type doors struct {
	of    []*door // by listener
	first uint16  // ring.AcceptPollFirst where the kernel knows it
}

// door is where connections of one listener arrive.
type door struct {
	peer    [acceptBurst]unix.RawSockaddrAny
	size    [acceptBurst]uint32
	free    []uint8 // places without an accept
	waiting []waiting
}

type waiting struct {
	fd int32
	at uint8
}

func (u *uring) listen(fd int32, deferred bool) (int, error) {
	i := len(u.listeners)
	u.listeners = append(u.listeners, &listener{fd: fd, deferred: deferred})
	d := &door{free: make([]uint8, acceptBurst)}
	for at := range d.free {
		d.free[at] = uint8(at)
	}
	u.doors.of = append(u.doors.of, d)
	u.admit(i)
	return i, nil
}

// admit lets in who waits and, if that is all, opens the free accepts. Loop goroutine.
func (u *uring) admit(i int) {
	ln, d, t := u.listeners[i], u.doors.of[i], &u.l.table
	ln.ready = false
	for len(d.waiting) > 0 && !t.full() {
		w := d.waiting[0]
		d.waiting = d.waiting[:copy(d.waiting, d.waiting[1:])]
		u.enters(i, w)
	}
	if len(d.waiting) > 0 {
		u.filled(ln)
		return
	}
	for _, at := range d.free {
		d.size[at] = unix.SizeofSockaddrAny
		s, _ := u.entry(ring.OpAccept, ln.fd, opAccept<<56|uint64(u.doors.first)<<40|uint64(at)<<32|uint64(i))
		s.Prio, s.OpFlags = u.doors.first, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC
		s.Addr, s.Off = uint64(uintptr(unsafe.Pointer(&d.peer[at]))), uint64(uintptr(unsafe.Pointer(&d.size[at])))
	}
	d.free = d.free[:0]
}

// enters makes a connection of one that has arrived.
func (u *uring) enters(i int, w waiting) {
	d := u.doors.of[i]
	d.free = append(d.free, w.at)
	u.arrived(i, int(w.fd), &d.peer[w.at])
}

// accepted takes the end of an accept. Loop goroutine. No allocation but for peers with
// an IPv6 scope.
func (u *uring) accepted(e ring.CQE) {
	i, at := int(uint32(e.UserData)), uint8(e.UserData>>32)
	ln, d := u.listeners[i], u.doors.of[i]
	switch w := (waiting{e.Res, at}); {
	case e.Res < 0:
		d.free = append(d.free, at)
		u.refused(ln, syscall.Errno(-e.Res), e.UserData>>40&0xffff != 0)
	case u.l.table.full():
		d.waiting = append(d.waiting, w)
	default:
		u.enters(i, w)
	}
	ln.ready = !ln.paused
}

// refused takes an error of an accept. first: of one that was asked to wait first.
func (u *uring) refused(ln *listener, errno syscall.Errno, first bool) {
	switch {
	case errno == unix.ECANCELED || errno == unix.EAGAIN || errno == unix.EINTR:
	case errno == unix.EINVAL && first:
		u.doors.first = 0
	case passing(errno):
		u.l.stats.AcceptErrors++
	case !ln.paused:
		u.pause(ln)
	}
}

// unhook takes the accepts back, and what has come in by them, before it empties the
// backlog.
func (u *uring) unhook(i int) {
	ln, d := u.listeners[i], u.doors.of[i]
	u.quiet(ring.OpCancel, ln.fd).OpFlags = ring.CancelFD | ring.CancelAll
	for range batch {
		// An error of the ring comes again with the next wait.
		if len(d.free)+len(d.waiting) == acceptBurst || u.fetch() != nil {
			break
		}
		for ; u.ring.Ready() > 0; u.ring.Advance(1) {
			u.completed(*u.ring.At(0))
		}
	}
	u.accept(i, socket.DefaultBacklog)
	d.close()
	closefd(ln.fd)
}

func (d *door) close() {
	for _, w := range d.waiting {
		closefd(w.fd)
	}
	d.waiting = nil
}
