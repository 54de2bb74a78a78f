package loop

import (
	"fmt"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/engine/socket"
)

const (
	// interest is registered once; nothing about it changes in a connection's life.
	// EPOLLPRI is there for one reason: see probing.
	interest = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLPRI | unix.EPOLLET

	bellAt       = -1 // where an event's data says it comes from: the mailbox,
	listenersAt  = -2 // listener i at listenersAt - i, else the ID of a connection
	inputEvents  = unix.EPOLLIN | unix.EPOLLPRI | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	endEvents    = unix.EPOLLPRI | unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR
	outputEvents = unix.EPOLLOUT | unix.EPOLLHUP | unix.EPOLLERR
)

// epoll imitates completions on readiness.
//
// Every socket is registered once, edge-triggered, for everything. An edge only sets
// flags; an operation runs when it is asked for and its flag is set, whichever comes
// second. When the asking comes second it is not run on the spot, for that would call
// the handler from inside its own call: the connection goes on the ready list, which
// the same turn serves, or, when the connection has used up its budget, on the list of
// the next turn, which then does not sleep.
//
// Edges are lost by whoever does not read to the end, so the flag readable is cleared
// only on proof that the kernel's queue was empty after the last edge: EAGAIN, or a
// receive that returned less than it asked for. The short receive saves a system call
// per request, but proves nothing when an end or an error is queued behind the bytes
// (no further edge will announce it), nor when the peer sent urgent data (a receive
// stops at the mark): once such an event was seen, only EAGAIN counts.
//
// The obvious design, level-triggered with EPOLLOUT switched on when needed, costs an
// epoll_ctl for each change of mind, and a rated reader changes its mind with every
// receive.
type epoll struct {
	base
	fd     int
	coarse bool // no epoll_pwait2
	buf    []byte
	n      int // events of this turn
	evs    [batch]unix.EpollEvent
}

func newEpoll(l *Loop, buffer int) (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	e := &epoll{base: base{l: l}, fd: fd, buf: make([]byte, buffer)}
	e.own = e
	// Edge-triggered, an eventfd reports every write, so nobody need read it.
	if errno := epollAdd(fd, l.mail.bell, unix.EPOLLIN|unix.EPOLLET, bellAt, 0); errno != 0 {
		closefd(int32(fd))
		return nil, fmt.Errorf("epoll_ctl: %w", errno)
	}
	_, errno := epollSleep(fd, e.evs[:], 0, false)
	e.coarse = errno != 0 && errno != unix.EINTR
	return e, nil
}

func (e *epoll) wait(l *Loop) (slept, full bool, err error) {
	e.begin()
	n, errno := epollPoll(e.fd, e.evs[:])
	if n == 0 && errno == 0 {
		if d := l.patience(); d != 0 {
			// First asleep, then empty; senders the other way round.
			l.mail.asleep.Store(true)
			if l.mail.empty() {
				n, errno = epollSleep(e.fd, e.evs[:], d, e.coarse)
				slept = true
			}
			l.mail.asleep.Store(false)
		}
	}
	if errno != 0 {
		// The runtime preempts by signal, so EINTR is daily bread; it ends the
		// wait early and nothing more.
		if errno != unix.EINTR {
			return slept, false, fmt.Errorf("epoll_pwait: %w", errno)
		}
		n = 0
	}
	e.n = n
	return slept, n == batch, nil
}

func (e *epoll) complete() {
	t := &e.l.table
	e.l.stats.Events += uint64(e.n)
	for i := range e.n {
		ev := e.evs[i]
		if ev.Fd >= 0 {
			// A child process between fork and exec holds copies of our
			// sockets, which keeps closed ones in the epoll set for that
			// long: events may come for any earlier owner of an ID.
			if c := t.find(Ref{ID(ev.Fd), uint32(ev.Pad)}); c != nil {
				e.event(c, ev.Events)
			} else {
				e.l.stats.Stale++
			}
		} else if ev.Fd != bellAt {
			if ln := e.listeners[listenersAt-ev.Fd]; ln.fd >= 0 {
				ln.ready = true
			}
		}
	}
	e.welcome()
	e.drain()
}

// event takes an edge. Loop goroutine. No allocation.
func (e *epoll) event(c *conn, events uint32) {
	if events&inputEvents != 0 {
		c.flags |= readable
		if events&endEvents != 0 {
			c.flags |= probing
		}
	}
	if c.flags&connecting != 0 {
		if events&outputEvents == 0 {
			return
		}
		var err error
		if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			if errno := takeError(c.fd); errno != 0 {
				err = errno
			}
		}
		e.connected(c, err)
	}
	if events&outputEvents != 0 && c.flags&(sending|resume) == sending {
		e.resume(c)
	}
	if c.flags&(armed|readable) == armed|readable {
		e.receive(c)
	}
}

// serve does for a connection of the ready list what it was put there for.
func (e *epoll) serve(c *conn) {
	c.flags &^= queued
	if c.flags&connecting != 0 {
		e.connected(c, nil)
	}
	if c.flags&resume != 0 {
		e.resume(c)
	}
	if c.flags&(armed|readable) == armed|readable {
		e.receive(c)
	}
}

func (e *epoll) recv(c *conn, most int, flags uint32) {
	c.want = int32(min(max(most, 1), len(e.buf)))
	c.flags = c.flags&^skipping | armed | flags
	if c.flags&readable != 0 {
		e.queue(c)
	}
}

// receive completes the armed receive unless there is nothing. Loop goroutine. No
// allocation. Does not block.
func (e *epoll) receive(c *conn) {
	b := e.buf[:c.want]
	n, errno := recvfrom(c.fd, b, msgFlags(c))
	if errno == unix.EAGAIN {
		c.flags &^= readable
		e.l.stats.RecvEmpty++
		return
	}
	c.flags &^= armed
	e.l.stats.Recvs++
	if errno != 0 {
		c.errno = int32(errno)
		e.charge(c, 0)
		e.l.h.Received(c.id, nil, errno)
		return
	}
	e.charge(c, n)
	if n == 0 {
		// No edge announces an end twice, so the flag stays for the next Recv.
		c.flags |= probing
		e.l.h.Received(c.id, nil, c.pending())
		return
	}
	if n < len(b) && c.flags&probing == 0 {
		c.flags &^= readable
	}
	e.l.stats.RecvBytes += uint64(n)
	e.l.h.Received(c.id, b[:n:n], nil)
}

func (e *epoll) connecting(c *conn, done bool) error {
	// After connect, not before: a fresh socket reports a hang-up at once.
	if errno := epollAdd(e.fd, int(c.fd), interest, int32(c.id), int32(c.gen)); errno != 0 {
		return fmt.Errorf("epoll_ctl: %w", errno)
	}
	c.flags |= connecting
	if done {
		e.queue(c)
	}
	return nil
}

func (e *epoll) listen(fd int32, deferred bool) (int, error) {
	i := len(e.listeners)
	if errno := epollAdd(e.fd, int(fd), unix.EPOLLIN|unix.EPOLLET, int32(listenersAt-i), 0); errno != 0 {
		return 0, fmt.Errorf("epoll_ctl: %w", errno)
	}
	e.listeners = append(e.listeners, &listener{fd: fd, deferred: deferred})
	return i, nil
}

func (e *epoll) adopt(c *conn) bool {
	return epollAdd(e.fd, int(c.fd), interest, int32(c.id), int32(c.gen)) == 0
}

// blocked has nothing to do: the edge is registered.
func (e *epoll) blocked(*conn) {}

func (e *epoll) admit(i int) { e.accept(i, acceptBurst) }

func (e *epoll) unhook(i int) {
	e.accept(i, socket.DefaultBacklog)
	closefd(e.listeners[i].fd)
}

func (e *epoll) drop(c *conn) {
	if c.flags&sending != 0 {
		e.out.put(c.out)
	}
	closefd(c.fd)
}

func (e *epoll) close() {
	e.shutListeners()
	closefd(int32(e.fd))
}
