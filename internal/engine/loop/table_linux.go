package loop

import "syscall"

// conn is the loop's whole state of one connection. It holds no Go pointer, so the
// collector does not look at the slabs; what a connection needs only while a send is
// unfinished lives in the outbox.
type conn struct {
	fd    int32
	gen   uint32 // generation of the present or next owner of the ID
	flags uint32
	turn  uint32 // turn that used belongs to
	used  int32  // bytes charged against the budget in that turn
	want  int32  // most bytes of the armed receive
	out   int32  // index in the outbox of the unfinished send
	errno int32  // error that a send was told and a receive must still hear of
	id    ID

	// With io_uring:
	flight int32  // most bytes of the open receive
	at     uint32 // place of its entry
	stash  int32  // bytes that are more than asked for
}

const (
	open       = 1 << iota // between alloc and release
	connecting             // Connected is due
	readable               // the kernel may hold input; cleared by a short receive
	probing                // short receives prove nothing: an end, error or urgent mark was seen
	armed                  // Received is due
	sending                // Sent is due; out is valid
	resume                 // the unfinished send waits for its turn, not for the kernel
	queued                 // on the ready list of this or the next turn
	halfClose              // CloseWrite waits for the end of the send
	skipping               // the armed receive throws away

	// With io_uring, operations that are open, in the queue or in the kernel:
	taking  // receive
	revoked // it is being cancelled
	giving  // send
	polling // poll for output
	stashed // stash is valid
)

const (
	slabBits = 9
	slabSize = 1 << slabBits // 512 connections, 24 KiB
)

// table maps IDs to connections. Slabs never move: a *conn stays valid while handlers
// run, whatever they open or close.
type table struct {
	slabs []*[slabSize]conn
	free  []ID // released in earlier turns
	grave []ID // released in this turn
	next  ID   // lowest ID never used
	open  int
	max   int
}

// lookup returns the open connection id or nil.
func (t *table) lookup(id ID) *conn {
	if id >= t.next {
		return nil
	}
	c := &t.slabs[id>>slabBits][id&(slabSize-1)]
	if c.flags&open == 0 {
		return nil
	}
	return c
}

// find returns the connection of a Ref or nil when it is gone.
func (t *table) find(r Ref) *conn {
	c := t.lookup(r.ID)
	if c == nil || c.gen != r.Gen {
		return nil
	}
	return c
}

// full reports whether alloc would exceed max. Released IDs count until reap, so that
// no ID ever reaches max.
func (t *table) full() bool { return t.open+len(t.grave) >= t.max }

// alloc takes an ID for fd, the most recently released first. The table must not be
// full.
func (t *table) alloc(fd int) *conn {
	var id ID
	if n := len(t.free); n > 0 {
		id = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		id = t.next
		if int(id>>slabBits) == len(t.slabs) {
			t.slabs = append(t.slabs, new([slabSize]conn))
		}
		t.next++
	}
	t.open++
	c := &t.slabs[id>>slabBits][id&(slabSize-1)]
	*c = conn{fd: int32(fd), gen: c.gen, id: id, flags: open}
	return c
}

// release ends the ownership of c. Its ID is given out again after reap.
func (t *table) release(c *conn) {
	c.flags = 0
	c.gen++
	c.fd = -1
	t.open--
	t.grave = append(t.grave, c.id)
}

// reap ends the turn: what was released in it may be used again. It reports whether
// there was any.
func (t *table) reap() bool {
	any := len(t.grave) > 0
	t.free = append(t.free, t.grave...)
	t.grave = t.grave[:0]
	return any
}

// pending returns the error that a send has consumed, nil if there is none: the kernel
// tells an error once, and to the next call it looks like a clean end.
func (c *conn) pending() error {
	if c.errno == 0 {
		return nil
	}
	return syscall.Errno(c.errno)
}

// each calls f for every open connection. f may release it.
func (t *table) each(f func(*conn)) {
	for id := ID(0); id < t.next; id++ {
		if c := t.lookup(id); c != nil {
			f(c)
		}
	}
}
