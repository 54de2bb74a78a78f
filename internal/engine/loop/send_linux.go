package loop

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// outgoing is a send the kernel has not taken whole.
type outgoing struct {
	head []byte // own copy once the call has returned, in buf
	body []byte
	tail []byte
	fd   int   // file, when n > 0
	off  int64 // of the rest of the file part
	n    int64 // bytes left of the file part
	err  syscall.Errno
	buf  []byte

	// With io_uring, of the send that is open:
	asked int    // bytes
	at    uint32 // place of its entry
	msg   unix.Msghdr
	iov   [3]unix.Iovec
}

func (o *outgoing) empty() bool {
	return len(o.head) == 0 && len(o.body) == 0 && len(o.tail) == 0 && o.n == 0
}

// skip takes n bytes off the front of head, body, tail.
func (o *outgoing) skip(n int) {
	k := min(n, len(o.head))
	o.head, n = o.head[k:], n-k
	k = min(n, len(o.body))
	o.body, n = o.body[k:], n-k
	o.tail = o.tail[n:]
}

// keepHead copies what is left of the caller's head.
func (o *outgoing) keepHead() {
	o.buf = append(o.buf[:0], o.head...)
	o.head = o.buf
}

// outbox stores the unfinished sends of a loop, a few of its connections at a time.
type outbox struct {
	all  []*outgoing
	free []int32
}

// headKept is the largest head buffer worth keeping for the next owner.
const headKept = 16 << 10

func (b *outbox) take() int32 {
	if n := len(b.free); n > 0 {
		i := b.free[n-1]
		b.free = b.free[:n-1]
		return i
	}
	b.all = append(b.all, new(outgoing))
	return int32(len(b.all) - 1)
}

// put forgets everything the send referred to.
func (b *outbox) put(i int32) {
	o := b.all[i]
	buf := o.buf
	if cap(buf) > headKept {
		buf = nil
	}
	*o = outgoing{buf: buf}
	b.free = append(b.free, i)
}

// clip shortens parts to limit bytes together and returns what is left.
func clip(parts *[3][]byte, limit int) (n int) {
	for i, p := range parts {
		parts[i] = p[:min(len(p), limit-n)]
		n += len(parts[i])
	}
	return n
}

// whole returns the part that has all n bytes of parts, or nil.
func whole(parts *[3][]byte, n int) []byte {
	for _, p := range parts {
		if len(p) == n {
			return p
		}
	}
	return nil
}

// vector describes parts and returns how many are not empty.
func vector(iov *[3]unix.Iovec, parts *[3][]byte) (k int) {
	for _, p := range parts {
		if len(p) > 0 {
			iov[k].Base = &p[0]
			iov[k].SetLen(len(p))
			k++
		}
	}
	return k
}

// gather sends parts of a, b and c, at most limit bytes, by one system call and
// returns how many of asked bytes the kernel took. No allocation. Does not block.
func gather(fd int32, a, b, c []byte, flags, limit int) (n, asked int, errno syscall.Errno) {
	parts := [3][]byte{a, b, c}
	asked = clip(&parts, limit)
	flags |= unix.MSG_NOSIGNAL
	if p := whole(&parts, asked); p != nil {
		n, errno = sendto(fd, p, flags)
	} else {
		var iov [3]unix.Iovec
		var m unix.Msghdr
		m.Iov = &iov[0]
		m.SetIovlen(vector(&iov, &parts))
		n, errno = sendmsg(fd, &m, flags)
	}
	if errno != 0 {
		n = 0
	}
	return n, asked, errno
}

const oneSend = "loop: a send before the one before has ended"

func (b *base) send(c *conn, head, body, tail []byte) bool {
	if c.flags&sending != 0 {
		panic(oneSend)
	}
	total := len(head) + len(body) + len(tail)
	if total == 0 {
		return true
	}
	n, asked, errno := gather(c.fd, head, body, tail, 0, sendMost)
	if errno == 0 {
		b.l.stats.Sends++
		b.l.stats.SendBytes += uint64(n)
		if n == total {
			return true
		}
	}
	i := b.out.take()
	o := b.out.all[i]
	o.head, o.body, o.tail = head, body, tail
	o.skip(n)
	b.park(c, i, errno, n == asked)
	return false
}

func (b *base) sendFile(c *conn, head []byte, fd int, off, n int64, tail []byte) bool {
	if c.flags&sending != 0 {
		panic(oneSend)
	}
	if n <= 0 {
		return b.send(c, head, nil, tail)
	}
	i := b.out.take()
	o := b.out.all[i]
	o.head, o.tail, o.fd, o.off, o.n = head, tail, fd, off, n
	errno, more := b.push(c, o)
	if errno == 0 && o.empty() {
		b.out.put(i)
		return true
	}
	b.park(c, i, errno, more)
	return false
}

// park makes a send that has just been asked for an unfinished one. more: it is not
// the kernel that stopped it.
func (b *base) park(c *conn, i int32, errno syscall.Errno, more bool) {
	o := b.out.all[i]
	c.out = i
	c.flags |= sending
	b.l.stats.PartialSends++
	switch {
	case errno != 0 && errno != unix.EAGAIN:
		// Reported from the ready list, never inside the call.
		o.err = errno
		c.flags |= resume
		b.charge(c, 0)
		b.queue(c)
		return
	case more:
		c.flags |= resume
		b.postpone(c)
	}
	o.keepHead()
	if !more {
		b.own.blocked(c)
	}
}

// push offers the rest of o, at most sendMost bytes. more: the kernel took that much
// and may take more.
func (b *base) push(c *conn, o *outgoing) (errno syscall.Errno, more bool) {
	for left := sendMost; ; {
		if len(o.head)+len(o.body) > 0 || o.n == 0 {
			flags, tail := 0, o.tail
			if o.n > 0 {
				flags, tail = unix.MSG_MORE, nil
			}
			n, asked, errno := gather(c.fd, o.head, o.body, tail, flags, left)
			if errno != 0 {
				return errno, false
			}
			b.l.stats.Sends++
			b.l.stats.SendBytes += uint64(n)
			o.skip(n)
			if n < asked {
				return 0, false
			}
			left -= n
		} else {
			n, errno := sendfile(c.fd, o.fd, o.off, min(o.n, int64(left)))
			if errno != 0 {
				return errno, false
			}
			if n == 0 {
				return unix.EIO, false // the file has become shorter
			}
			b.l.stats.Sends++
			b.l.stats.SendBytes += uint64(n)
			o.off += int64(n)
			o.n -= int64(n)
			// A short sendfile may be the end of its inner pipe rather than
			// of the socket's room: only EAGAIN arms the edge.
			left -= n
		}
		if o.empty() {
			return 0, false
		}
		if left <= 0 {
			return 0, true
		}
	}
}

// resume goes on with the unfinished send of c. Loop goroutine. No allocation.
func (b *base) resume(c *conn) {
	c.flags &^= resume
	o := b.out.all[c.out]
	errno := o.err
	if errno == 0 {
		var more bool
		errno, more = b.push(c, o)
		if more {
			c.flags |= resume
			b.postpone(c)
			return
		}
		if errno == unix.EAGAIN || errno == 0 && !o.empty() {
			b.own.blocked(c)
			return
		}
	}
	b.finish(c, errno)
}

// finish completes the send of c.
func (b *base) finish(c *conn, errno syscall.Errno) {
	b.out.put(c.out)
	c.flags &^= sending
	if errno != 0 {
		// EPIPE is not kept: it says that this side has ended, or that the peer
		// reset after an end of its own, which a receive has yet to see.
		if errno != unix.EPIPE {
			c.errno = int32(errno)
		}
		b.l.h.Sent(c.id, errno)
		return
	}
	if c.flags&halfClose != 0 {
		c.flags &^= halfClose
		shutdownWrite(c.fd)
	}
	b.l.h.Sent(c.id, nil)
}

func (b *base) closeWrite(c *conn) {
	if c.flags&sending != 0 {
		c.flags |= halfClose
		return
	}
	shutdownWrite(c.fd)
}
