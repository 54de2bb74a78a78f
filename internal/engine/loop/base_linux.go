package loop

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/engine/socket"
	"tidemark.dev/internal/ground/clock"
)

const (
	batch       = 512       // events taken by one wait
	acceptBurst = 64        // connections taken from one listener in one turn
	recvBudget  = 256 << 10 // bytes one connection may receive in one turn
	recvCharge  = 4 << 10   // least charge of one receive, so that tiny ones end too
	turnBudget  = 4 << 20   // bytes all may receive in one turn beyond their first receive
	sendMost    = 1 << 20   // bytes offered to the kernel for one connection at a time

	// acceptPause is how long a listener rests after running out of descriptors.
	acceptPause = 10 * time.Millisecond
)

// base is what the backends have in common: whom to serve and when, the listeners, and
// the sends the kernel has not taken whole.
type base struct {
	l         *Loop
	own       own
	turn      uint32
	spent     int // charged to the turn
	listeners []*listener
	starved   bool // a listener waits for room
	leaving   bool // a listener is to be closed
	ready     []Ref
	later     []Ref
	out       outbox
	peer      unix.RawSockaddrAny
}

// own is what a backend does its own way.
type own interface {
	admit(i int)        // listener i may have connections, and it is its turn
	adopt(c *conn) bool // c has been accepted; false: the kernel has no memory for it
	serve(c *conn)      // c was on the ready list
	blocked(c *conn)    // the unfinished send of c waits for the kernel
	unhook(i int)       // listener i is to be emptied and closed
}

type listener struct {
	fd       int32
	ready    bool // the backlog may hold connections
	starved  bool // ready but for MaxConns
	paused   bool // ready but for descriptors: until Loop.retry
	deferred bool // TCP_DEFER_ACCEPT: input comes with the connection
	leaving  bool // StopListen
}

// begin ends what the turn before left over to this one.
func (b *base) begin() {
	b.turn++
	b.spent = 0
	// Not a swap: before the first turn both lists may hold something.
	b.ready = append(b.ready, b.later...)
	b.later = b.later[:0]
}

func (b *base) busy() bool {
	if len(b.ready) > 0 || b.leaving {
		return true
	}
	for _, ln := range b.listeners {
		if ln.ready {
			return true
		}
	}
	return false
}

// welcome accepts from the listeners whose turn it is.
func (b *base) welcome() {
	if r := b.l.retry; r != 0 && !b.l.now.Before(r) {
		b.l.retry = 0
		for _, ln := range b.listeners {
			ln.ready = ln.ready || ln.paused
			ln.paused = false
		}
	}
	for i := 0; i < len(b.listeners); i++ {
		if b.listeners[i].ready {
			b.own.admit(i)
		}
	}
}

func (b *base) flush() {
	b.drain()
	if b.leaving {
		b.leave()
		b.drain()
	}
}

// leave closes the listeners that StopListen named, once their backlogs are empty.
func (b *base) leave() {
	b.leaving = false
	for i := 0; i < len(b.listeners); i++ {
		if ln := b.listeners[i]; ln.leaving && ln.fd >= 0 {
			b.own.unhook(i)
			*ln = listener{fd: -1}
		}
	}
}

// drain serves the ready list, which may grow meanwhile; the budgets end that. Served
// connections join at the end, so what a spent turn leaves over is next.
func (b *base) drain() {
	for i := 0; i < len(b.ready); i++ {
		if b.spent >= turnBudget {
			b.l.stats.Deferred += uint64(len(b.ready) - i)
			b.later = append(b.later, b.ready[i:]...)
			break
		}
		if c := b.l.table.find(b.ready[i]); c != nil {
			b.own.serve(c)
		}
	}
	b.ready = b.ready[:0]
}

// msgFlags are those of the armed receive.
func msgFlags(c *conn) int {
	if c.flags&skipping != 0 {
		return unix.MSG_TRUNC
	}
	return 0
}

func (b *base) connected(c *conn, err error) {
	c.flags &^= connecting
	if err != nil {
		b.l.stats.ConnectErrors++
	}
	b.l.h.Connected(c.id, err)
}

// queue puts c on the ready list of this turn, or of the next one when c has had its
// share.
func (b *base) queue(c *conn) {
	if c.flags&queued != 0 {
		return
	}
	if c.turn == b.turn && c.used >= recvBudget {
		b.postpone(c)
		return
	}
	c.flags |= queued
	b.ready = append(b.ready, Ref{c.id, c.gen})
}

func (b *base) postpone(c *conn) {
	if c.flags&queued != 0 {
		return
	}
	c.flags |= queued
	b.later = append(b.later, Ref{c.id, c.gen})
	b.l.stats.Deferred++
}

func (b *base) charge(c *conn, n int) {
	if c.turn != b.turn {
		c.turn, c.used = b.turn, 0
	}
	n = max(n, recvCharge)
	c.used += int32(n)
	b.spent += n
}

func (b *base) unlisten(i int) {
	if i >= 0 && i < len(b.listeners) && b.listeners[i].fd >= 0 {
		b.listeners[i].leaving = true
		b.leaving = true
	}
}

// accept takes up to most connections from listener i. Loop goroutine. No allocation
// but for peers with an IPv6 scope. Does not block.
func (b *base) accept(i, most int) {
	ln := b.listeners[i]
	for range most {
		if b.l.table.full() {
			b.filled(ln)
			return
		}
		switch fd, errno := accept(ln.fd, &b.peer); {
		case errno == 0:
			if !b.arrived(i, fd, &b.peer) {
				return
			}
		case errno == unix.EAGAIN:
			ln.ready = false
			return
		case passing(errno):
			b.l.stats.AcceptErrors++
		default:
			b.pause(ln)
			return
		}
	}
}

// arrived makes a connection of fd, for which the table must have room.
func (b *base) arrived(i, fd int, peer *unix.RawSockaddrAny) bool {
	ln, l := b.listeners[i], b.l
	c := l.table.alloc(fd)
	if !b.own.adopt(c) {
		closefd(c.fd)
		l.table.release(c)
		b.pause(ln)
		return false
	}
	if ln.deferred {
		c.flags |= readable
	}
	l.stats.Accepts++
	l.h.Accepted(c.id, i, socket.AddrOf(peer))
	return true
}

// passing tells errors of one connection, see accept(2), from those of the listener.
func passing(errno syscall.Errno) bool {
	switch errno {
	case unix.ECONNABORTED, unix.EPROTO, unix.EPERM, unix.ENETDOWN, unix.ENOPROTOOPT,
		unix.EHOSTDOWN, unix.ENONET, unix.EHOSTUNREACH, unix.EOPNOTSUPP, unix.ENETUNREACH:
		return true
	}
	return false
}

// filled stops a listener until there is room for another connection.
func (b *base) filled(ln *listener) {
	ln.ready, ln.starved = false, true
	b.starved = true
	b.l.stats.Full++
}

// pause rests a listener for want of descriptors or memory. The edge that announced
// the waiting connections will not come again, so a timer has to.
func (b *base) pause(ln *listener) {
	b.l.stats.Descriptors++
	ln.ready, ln.paused = false, true
	b.l.retry = clock.Now().Add(acceptPause)
}

func (b *base) room() {
	if !b.starved {
		return
	}
	b.starved = false
	for _, ln := range b.listeners {
		ln.ready = ln.ready || ln.starved
		ln.starved = false
	}
}

func (b *base) shutListeners() {
	for _, ln := range b.listeners {
		if ln.fd >= 0 {
			closefd(ln.fd)
			ln.fd = -1
		}
	}
}
