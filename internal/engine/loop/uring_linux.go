package loop

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/engine/ring"
)

const (
	ringEntries = 1024
	poolBuffers = 1024
	mostBuffer  = 64 << 10 // of RecvBuffer

	// headBatched is the longest head that waits for the end of the turn, which takes a
	// copy. A longer one, many answers in one, saves more by going at once.
	headBatched = 4 << 10

	// closeMost bounds how long close waits for the kernel to let go of operations.
	closeMost = time.Second
)

// What an entry is about stands in its user data: kind, generation and ID or index. At
// most one operation of each kind is open for a connection. 24 bits of generation do:
// what is open is cancelled when its connection is closed, and gone an enter later.
const (
	opQuiet = iota // nobody waits for it
	opBell
	opAccept // of the listener, see doors
	opRecv   // from here on of the connection
	opSend
	opPoll // for output

	genMask = 1<<24 - 1
)

// uring has the kernel complete operations: what a turn asks for becomes entries of a
// queue, which the next wait hands over in one system call together.
//
// The kernel touches our memory only inside enters of this thread. Receives go into
// buffers that it chooses from a pool when there is input, not before, addresses of
// accepted peers into doors, which stay until Run ends. Sends never
// wait in the kernel: they take what fits at once, and for the rest there is a poll and
// then an ordinary send, as with epoll. So the memory of a send is free as soon as its
// entry has been handed over, whatever becomes of the connection.
//
// Without Options.Batch a send is a system call at once, because who measures time must
// know when a request has left.
type uring struct {
	base
	ring  *ring.Ring
	batch bool
	most  int // bytes of one receive
	n     int // completions of this turn
	opens int // operations handed over or about to be, opQuiet aside
	kept  stash
	doors doors
}

func newUring(l *Loop, o *Options) (*uring, error) {
	u := &uring{base: base{l: l}, batch: o.Batch, most: min(o.RecvBuffer, mostBuffer)}
	u.doors.first = ring.AcceptPollFirst
	u.own = u
	var err error
	if u.ring, err = ring.New(ring.Options{Entries: ringEntries, Buffers: poolBuffers, BufferSize: u.most}); err != nil {
		return nil, err
	}
	u.watch()
	return u, nil
}

// watch has every ring of the bell reported. Like an edge of epoll, its eventfd need not
// be read for that.
func (u *uring) watch() {
	s, _ := u.entry(ring.OpPoll, int32(u.l.mail.bell), opBell<<56)
	s.Len, s.OpFlags = ring.PollMultishot, unix.POLLIN
}

func (u *uring) entry(op uint8, fd int32, tag uint64) (*ring.SQE, uint32) {
	s, at := u.ring.Next()
	s.Op, s.FD, s.UserData = op, fd, tag
	u.opens++
	return s, at
}

// quiet is entry for what completes only if it fails, and then unheard.
func (u *uring) quiet(op uint8, fd int32) *ring.SQE {
	s, _ := u.ring.Next()
	s.Op, s.FD, s.Flags = op, fd, ring.SkipSuccess
	return s
}

func (u *uring) cancel(tag uint64) { u.quiet(ring.OpCancel, -1).Addr = tag }

func tag(kind uint64, c *conn) uint64 {
	return kind<<56 | uint64(c.gen&genMask)<<32 | uint64(c.id)
}

func (u *uring) wait(l *Loop) (slept, full bool, err error) {
	if !u.ring.Enabled() {
		if err := u.ring.Enable(); err != nil {
			return false, false, err
		}
	}
	u.begin()
	if err := u.fetch(); err != nil {
		return false, false, err
	}
	if u.ring.Ready() == 0 && !u.ring.Pending() {
		if d := l.patience(); d != 0 {
			// First asleep, then empty; senders the other way round.
			l.mail.asleep.Store(true)
			if l.mail.empty() {
				err = u.ring.Wait(d)
				slept = true
			}
			l.mail.asleep.Store(false)
			if err == nil {
				err = u.fetch()
			}
		}
	}
	n := u.ring.Ready()
	u.n = min(n, batch)
	return slept, n > batch || u.ring.Pending(), err
}

// fetch hands over the entries and brings in what is ready. One enter brings only some
// twenty completions of operations that had to wait, and says that there are more; the
// bound is for a kernel that is out of memory and says so for ever.
func (u *uring) fetch() error {
	for range batch {
		if !u.ring.Pending() || u.ring.Ready() >= batch {
			break
		}
		if err := u.ring.Enter(); err != nil {
			return err
		}
	}
	return nil
}

func (u *uring) complete() {
	u.l.stats.Events += uint64(u.n)
	for i := range u.n {
		u.completed(*u.ring.At(i))
	}
	u.ring.Advance(u.n)
	u.n = 0
	u.welcome()
	u.drain()
}

// completed takes one completion. Loop goroutine. No allocation.
func (u *uring) completed(e ring.CQE) {
	kind := e.UserData >> 56
	more := e.Flags&ring.More != 0
	if kind != opQuiet && !more {
		u.opens--
	}
	switch kind {
	case opQuiet:
	case opBell:
		if !more {
			u.watch()
		}
	case opAccept:
		u.accepted(e)
	default:
		c := u.l.table.lookup(ID(uint32(e.UserData)))
		if c == nil || c.gen&genMask != uint32(e.UserData>>32)&genMask {
			u.l.stats.Stale++
			if id, ok := e.Buffer(); ok {
				u.ring.Return(id)
			}
			return
		}
		switch kind {
		case opRecv:
			u.received(c, e)
		case opSend:
			u.sent(c, int(e.Res))
		case opPoll:
			u.polled(c, e.Res)
		}
	}
}

// serve does for a connection of the ready list what it was put there for.
func (u *uring) serve(c *conn) {
	c.flags &^= queued
	if c.flags&connecting != 0 {
		u.connected(c, nil)
	}
	if c.flags&resume != 0 {
		u.resume(c)
	}
	if c.flags&(armed|stashed) == armed|stashed {
		u.unstash(c)
	}
}

func (u *uring) recv(c *conn, most int, flags uint32) {
	c.want = int32(min(max(most, 1), u.most))
	c.flags = c.flags&^skipping | armed | flags
	switch {
	case c.flags&stashed != 0:
		u.queue(c)
	case c.flags&taking == 0:
		u.take(c)
	default:
		if s := u.ring.Held(c.at); s != nil {
			c.flight = c.want
			s.Len, s.OpFlags = uint32(c.want), uint32(msgFlags(c))
		} else if c.want < c.flight && c.flags&revoked == 0 {
			// It completes, and what is armed then opens another.
			c.flags |= revoked
			u.cancel(tag(opRecv, c))
		}
	}
}

// take opens a receive.
func (u *uring) take(c *conn) {
	s, at := u.entry(ring.OpRecv, c.fd, tag(opRecv, c))
	s.Flags, s.Len, s.OpFlags = ring.SelectBuffer, uint32(c.want), uint32(msgFlags(c))
	if c.flags&readable == 0 {
		s.Prio = ring.PollFirst
	}
	c.at, c.flight = at, c.want
	c.flags |= taking
}

// received takes a completion of the open receive. Loop goroutine. No allocation
// beyond the growth of the stash.
func (u *uring) received(c *conn, e ring.CQE) {
	gen := c.gen
	c.flags &^= taking | revoked
	if e.Flags&ring.NonEmpty != 0 {
		c.flags |= readable
	} else {
		c.flags &^= readable
	}
	id, has := e.Buffer()
	switch errno := syscall.Errno(-min(e.Res, 0)); {
	case e.Res > 0 && has:
		u.deliver(c, u.ring.Buffer(id)[:e.Res])
	case errno == unix.ENOBUFS:
		u.ring.Grow()
		c.flags |= readable
	case errno == unix.ECANCELED || errno == unix.EAGAIN || errno == unix.EINTR:
	default:
		u.ended(c, errno)
	}
	if has {
		u.ring.Return(id)
	}
	if c.gen == gen && c.flags&(armed|taking|stashed) == armed {
		u.take(c)
	}
}

// deliver completes the armed receive with b. The limit may have been lowered after the
// kernel had taken it: the next receive gets what is over.
func (u *uring) deliver(c *conn, b []byte) {
	if n := int(c.want); n < len(b) {
		c.flags |= stashed
		c.stash = u.kept.put(b[n:])
		b = b[:n]
	}
	u.hand(c, b)
}

func (u *uring) hand(c *conn, b []byte) {
	c.flags &^= armed
	u.charge(c, len(b))
	u.l.stats.Recvs++
	u.l.stats.RecvBytes += uint64(len(b))
	u.l.h.Received(c.id, b[:len(b):len(b)], nil)
}

// unstash completes the armed receive from the stash.
func (u *uring) unstash(c *conn) {
	i := c.stash
	k := u.kept.all[i]
	b := k.buf[k.at:]
	b = b[:min(len(b), int(c.want))]
	k.at += len(b)
	last := k.at == len(k.buf)
	if last {
		c.flags &^= stashed
	}
	u.hand(c, b)
	if last {
		u.kept.drop(i)
	}
}

// ended completes the armed receive with an end or error.
func (u *uring) ended(c *conn, errno syscall.Errno) {
	if errno != 0 {
		c.errno = int32(errno)
	}
	c.flags &^= armed
	c.flags |= readable
	u.charge(c, 0)
	u.l.stats.Recvs++
	u.l.h.Received(c.id, nil, c.pending())
}

func (u *uring) send(c *conn, head, body, tail []byte) bool {
	if !u.batch || len(head) > headBatched {
		return u.base.send(c, head, body, tail)
	}
	if c.flags&sending != 0 {
		panic(oneSend)
	}
	if len(head)+len(body)+len(tail) == 0 {
		return true
	}
	c.out = u.out.take()
	c.flags |= sending | giving
	o := u.out.all[c.out]
	o.head, o.body, o.tail = head, body, tail
	o.keepHead()
	parts := [3][]byte{o.head, body, tail}
	o.asked = clip(&parts, sendMost)
	s, at := u.entry(ring.OpSend, c.fd, tag(opSend, c))
	s.OpFlags = unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT
	o.at = at
	if p := whole(&parts, o.asked); p != nil {
		s.Addr, s.Len = uint64(uintptr(unsafe.Pointer(&p[0]))), uint32(len(p))
	} else {
		o.msg = unix.Msghdr{Iov: &o.iov[0]}
		o.msg.SetIovlen(vector(&o.iov, &parts))
		s.Op, s.Addr, s.Len = ring.OpSendMsg, uint64(uintptr(unsafe.Pointer(&o.msg))), 1
	}
	return false
}

// sent takes the completion of a send of the turn before.
func (u *uring) sent(c *conn, n int) {
	c.flags &^= giving
	o := u.out.all[c.out]
	if n < 0 && n != -int(unix.EAGAIN) && n != -int(unix.EINTR) {
		u.charge(c, 0)
		u.finish(c, syscall.Errno(-n))
		return
	}
	if n > 0 {
		u.l.stats.Sends++
		u.l.stats.SendBytes += uint64(n)
		o.skip(n)
	}
	switch {
	case o.empty():
		u.finish(c, 0)
	case n == o.asked:
		u.l.stats.PartialSends++
		c.flags |= resume
		u.postpone(c)
	default:
		u.l.stats.PartialSends++
		u.blocked(c)
	}
}

// blocked waits for room.
func (u *uring) blocked(c *conn) {
	if c.flags&polling == 0 {
		c.flags |= polling
		s, _ := u.entry(ring.OpPoll, c.fd, tag(opPoll, c))
		s.OpFlags = unix.POLLOUT
	}
}

// polled takes the end of a handshake, or room for an unfinished send.
func (u *uring) polled(c *conn, events int32) {
	c.flags &^= polling
	if c.flags&connecting != 0 {
		var err error
		if events < 0 {
			err = syscall.Errno(-events)
		} else if events&(unix.POLLERR|unix.POLLHUP) != 0 {
			if errno := takeError(c.fd); errno != 0 {
				err = errno
			}
		}
		u.connected(c, err)
	}
	// A poll that failed does no harm: the send finds out by itself.
	if c.flags&(sending|resume|giving) == sending {
		u.resume(c)
	}
}

func (u *uring) connecting(c *conn, done bool) error {
	c.flags |= connecting
	if done {
		u.queue(c)
	} else {
		u.blocked(c)
	}
	return nil
}

func (u *uring) adopt(*conn) bool { return true }

// drop closes c. Its descriptor stays taken until entries that name it have been handed
// over, so that they meet no stranger; the socket closes when they have ended.
func (u *uring) drop(c *conn) {
	if c.flags&giving != 0 {
		// The kernel has its try, as it would have had with epoll, and is through
		// with the memory.
		o := u.out.all[c.out]
		if u.ring.Held(o.at) != nil {
			u.ring.Submit()
		}
		if s := u.ring.Held(o.at); s != nil {
			*s = ring.SQE{Op: ring.OpNop, UserData: s.UserData}
		}
	}
	if c.flags&sending != 0 {
		u.out.put(c.out)
	}
	if c.flags&stashed != 0 {
		u.kept.drop(c.stash)
	}
	if c.flags&taking != 0 {
		u.cancel(tag(opRecv, c))
	}
	if c.flags&polling != 0 {
		u.cancel(tag(opPoll, c))
	}
	if c.flags&(taking|polling) == 0 && !u.batch {
		closefd(c.fd)
		return
	}
	u.quiet(ring.OpClose, c.fd)
}

// close waits until the kernel has let go of the sockets, so that their addresses are
// free when Run returns.
func (u *uring) close() {
	u.shutListeners()
	for _, d := range u.doors.of {
		d.close()
	}
	if u.ring.Enabled() || u.ring.Enable() == nil {
		s := u.quiet(ring.OpCancel, -1)
		s.OpFlags = ring.CancelAny | ring.CancelAll
		for end := time.Now().Add(closeMost); ; {
			err := u.fetch()
			n := u.ring.Ready()
			for i := range n {
				e := u.ring.At(i)
				if e.UserData>>56 != opQuiet && e.Flags&ring.More == 0 {
					u.opens--
				}
				if e.UserData>>56 == opAccept && e.Res >= 0 {
					closefd(e.Res)
				}
			}
			u.ring.Advance(n)
			if err != nil || u.opens <= 0 || time.Now().After(end) {
				break
			}
			if u.ring.Ready() == 0 && !u.ring.Pending() {
				u.ring.Wait(closeMost / 100)
			}
		}
	}
	u.ring.Close()
}

// stash keeps bytes that are more than asked for, for a few connections at a time.
type stash struct {
	all  []*kept
	free []int32
}

type kept struct {
	buf []byte
	at  int // handed over up to here
}

func (s *stash) put(b []byte) (i int32) {
	if n := len(s.free); n > 0 {
		i = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		i = int32(len(s.all))
		s.all = append(s.all, new(kept))
	}
	s.all[i].buf = append(s.all[i].buf, b...)
	return i
}

func (s *stash) drop(i int32) {
	k := s.all[i]
	k.at, k.buf = 0, k.buf[:0]
	if cap(k.buf) > headKept {
		k.buf = nil
	}
	s.free = append(s.free, i)
}
