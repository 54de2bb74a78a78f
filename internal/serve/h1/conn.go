package h1

import (
	"net/netip"
	"time"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/serve/cache"
	"tidemark.dev/page"
)

type phase uint8

const (
	closed phase = iota
	idle
	heading
	loading
	sending
	working
	lingering
)

// conn is what a carrier knows about one connection.
type conn struct {
	phase    phase
	keep     bool // open after the present answer
	linger   bool // when not kept: the peer may be sending
	expected bool // 100 Continue is on its way
	listener uint16
	requests int32

	timer    clock.Instant // when the loop's timer is due; 0: not armed. Outlives the connection
	deadline clock.Instant // when the phase ends
	start    clock.Instant // first byte of the present request

	peer  netip.AddrPort
	in    []byte   // received and not yet used; nil if nothing
	need  int      // loading with a length: bytes of head and body
	body  *chunked // loading in chunks
	out   *pending // sending
	extra int64    // bytes of interim answers, to be charged to the next record
	sent  int64    // bytes of finished sends; while lingering: bytes thrown away
	acked int64    // what the peer had acknowledged at the last look
}

// chunked is a body in chunks while it is being received.
type chunked struct {
	dec  httpwire.Chunks
	data []byte
	raw  int64
}

// pending is what must stay valid until Sent.
type pending struct {
	entry    *cache.Entry   // one hold
	response *page.Response // with its file
	parts    parts
	notes    []note
	text     []byte // what the notes point to
	total    int64  // bytes of all sends
}

// Buffers that requests are kept in until they are whole.
const (
	bufferSize  = 4 << 10
	bufferKept  = 64 << 10 // largest that is kept for the next one
	buffersKept = 64
	// A loop with io_uring sends with the turn, so every answer of a turn is pending for a moment.
	pendingsKept = 1024
	recvMost     = 64 << 10

	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 10

	// A stopping server gives idle connections this long for a request that was under way, and then
	// their peers this long to end.
	stopGrace  = 100 * time.Millisecond
	stopLinger = 250 * time.Millisecond
)

type localAddr = netip.AddrPort

// Listening tells the address of a listener, by the index that the loop gave it. Call it before Run.
func (c *Carrier) Listening(index int, at netip.AddrPort) {
	for len(c.local) <= index {
		c.local = append(c.local, localAddr{})
	}
	c.local[index] = at
}

// Accepted implements loop.Handler.
func (c *Carrier) Accepted(id loop.ID, listener int, peer netip.AddrPort) {
	for int(id) >= len(c.conns) {
		c.conns = append(c.conns, conn{})
	}
	cn := &c.conns[id]
	now := c.l.Now()
	*cn = conn{phase: idle, listener: uint16(listener), peer: peer, timer: cn.timer, start: now}
	c.stats.Accepted++
	c.stats.Open++
	wait := c.cfg.HeaderTimeout
	if c.stopping {
		wait = stopGrace
	}
	c.until(id, cn, now.Add(wait))
	c.l.Recv(id, recvMost)
}

// Connected implements loop.Handler; a server connects to nobody.
func (c *Carrier) Connected(loop.ID, error) {}

// Received implements loop.Handler.
//
// Loop goroutine. No allocation for whole requests. Does not block, except as answering does. b is not
// used after return.
func (c *Carrier) Received(id loop.ID, b []byte, err error) {
	cn := &c.conns[id]
	if err != nil || len(b) == 0 {
		c.drop(id, cn, false)
		return
	}
	now := c.l.Now()
	if now >= c.names.due {
		c.tell(now)
	}
	switch cn.phase {
	case idle:
		cn.start = now
		c.run(id, b)
	case heading:
		old := len(cn.in)
		cn.in = append(cn.in, b...)
		if !httpwire.CanAdvance(cn.in, old, &c.cfg.Head) {
			c.l.Recv(id, recvMost)
			return
		}
		c.run(id, cn.in)
	case loading:
		c.load(id, cn, b)
	case lingering:
		if cn.sent += int64(len(b)); cn.sent > lingerBytes {
			c.drop(id, cn, false)
			return
		}
		c.l.Recv(id, recvMost)
	}
}

// Sent implements loop.Handler.
func (c *Carrier) Sent(id loop.ID, err error) {
	cn := &c.conns[id]
	if err != nil {
		c.drop(id, cn, false)
		return
	}
	if cn.expected { // 100 Continue went out late
		cn.expected = false
		c.l.Recv(id, recvMost)
		return
	}
	p := cn.out
	if p.parts.left() && !c.nextPart(id, p) {
		return
	}
	cn.out = nil
	cn.sent += p.total
	c.record(p.notes)
	c.putPending(p)
	if now := c.l.Now(); now >= c.names.due {
		c.tell(now)
	}
	c.resume(id, cn)
}

// resume goes on after an answer that went out whole.
func (c *Carrier) resume(id loop.ID, cn *conn) {
	if !cn.keep {
		c.end(id, cn, cn.linger || len(cn.in) > 0)
		return
	}
	cn.phase = idle
	if len(cn.in) > 0 {
		cn.start = c.l.Now()
		c.run(id, cn.in)
		return
	}
	c.await(id, cn)
}

// await arms the next receive. What has arrived of the next request is in cn.in.
func (c *Carrier) await(id loop.ID, cn *conn) {
	now := c.l.Now()
	switch {
	case len(cn.in) == 0:
		cn.phase = idle
		wait := c.cfg.KeepAliveTimeout
		if c.stopping {
			wait = stopGrace
		} else if cn.requests == 0 {
			wait = c.cfg.HeaderTimeout
		}
		c.until(id, cn, now.Add(wait))
	case cn.phase != heading:
		cn.phase = heading
		c.until(id, cn, now.Add(c.cfg.HeaderTimeout))
	}
	c.l.Recv(id, recvMost)
}

// save keeps rest, which may lie in cn.in itself, for later; nothing frees the buffer.
func (c *Carrier) save(cn *conn, rest []byte) {
	if len(rest) == 0 {
		if cn.in != nil {
			c.putBuffer(cn.in)
			cn.in = nil
		}
		return
	}
	if cn.in == nil {
		cn.in = c.takeBuffer()
	}
	cn.in = append(cn.in[:0], rest...)
}

// end closes the connection after its last answer. polite: the peer may be sending.
func (c *Carrier) end(id loop.ID, cn *conn, polite bool) {
	if !polite {
		c.drop(id, cn, false)
		return
	}
	c.save(cn, nil)
	c.l.CloseWrite(id)
	cn.phase = lingering
	cn.sent = 0
	wait := lingerTime
	if c.stopping {
		wait = stopLinger
	}
	c.until(id, cn, c.l.Now().Add(wait))
	c.l.Recv(id, recvMost)
}

// drop ends the connection now, and records an answer that was under way with what arrived of it.
func (c *Carrier) drop(id loop.ID, cn *conn, abort bool) {
	if p := cn.out; p != nil {
		got := int64(0)
		if acked, ok := acknowledged(c.l.Fd(id)); ok {
			got = min(max(acked-cn.sent, 0), p.total)
		}
		c.cut(p, got)
		cn.out = nil
		c.l.Abort(id) // before the memory goes: what the kernel was not given is not wanted any more
		c.putPending(p)
	} else if abort {
		c.l.Abort(id)
	} else {
		c.l.Close(id)
	}
	c.save(cn, nil)
	c.putBody(cn)
	cn.phase = closed
	c.stats.Open--
	if c.stopping && c.stats.Open == 0 {
		c.l.Post(c.check)
	}
}

// until sets the end of the present phase. No allocation; touches the loop's timer only if it would
// fire too late.
func (c *Carrier) until(id loop.ID, cn *conn, due clock.Instant) {
	cn.deadline = due
	if due != never && (cn.timer == 0 || due < cn.timer) {
		cn.timer = due
		c.l.SetTimer(uint32(id)+1, due)
	}
}

// Expired implements loop.Handler. Key 0 is the deadline of a stop, key id+1 a connection's.
func (c *Carrier) Expired(key uint32, due clock.Instant) {
	if key == 0 {
		c.cutAll()
		return
	}
	id := loop.ID(key - 1)
	cn := &c.conns[id]
	cn.timer = 0
	if cn.phase == closed {
		return
	}
	now := c.l.Now()
	if now < cn.deadline {
		c.until(id, cn, cn.deadline)
		return
	}
	switch cn.phase {
	case idle:
		if cn.requests == 0 && !c.stopping {
			c.stats.Timeouts++
			c.drop(id, cn, false)
			return
		}
		c.end(id, cn, true)
	case heading, loading:
		c.stats.Timeouts++
		if cn.expected {
			c.drop(id, cn, true)
			return
		}
		c.tell(now)
		c.rq = httpwire.Request{Fields: c.rq.Fields[:0]}
		c.refuse(id, cn, 408)
	case sending:
		acked, ok := acknowledged(c.l.Fd(id))
		if ok && acked != cn.acked {
			cn.acked = acked
			c.until(id, cn, now.Add(c.cfg.WriteTimeout))
			return
		}
		c.stats.Timeouts++
		c.drop(id, cn, true)
	case lingering:
		c.drop(id, cn, false)
	}
}

// Stop begins a graceful end: open answers are finished and say so, idle connections are closed after a
// moment in which a request under way may still arrive, and at the deadline the rest is cut. The caller
// has stopped the listeners. drained is called when no connection is left. Loop goroutine.
func (c *Carrier) Stop(deadline clock.Instant, drained func()) {
	c.stopping, c.drained = true, drained
	c.l.SetTimer(0, deadline)
	now := c.l.Now()
	for i := range c.conns {
		if cn := &c.conns[i]; cn.phase == idle {
			c.until(loop.ID(i), cn, now.Add(stopGrace))
		}
	}
	c.l.Post(c.check)
}

// check runs after the turn in which the last connection went: the closing listeners may have brought
// another one.
func (c *Carrier) check() {
	if c.stats.Open == 0 && c.drained != nil {
		f := c.drained
		c.drained = nil
		f()
	}
}

func (c *Carrier) cutAll() {
	for i := range c.conns {
		if cn := &c.conns[i]; cn.phase != closed {
			c.drop(loop.ID(i), cn, true)
		}
	}
}

func (c *Carrier) takeBuffer() []byte {
	if n := len(c.buffers); n > 0 {
		b := c.buffers[n-1]
		c.buffers = c.buffers[:n-1]
		return b
	}
	return make([]byte, 0, bufferSize)
}

func (c *Carrier) putBuffer(b []byte) {
	if cap(b) <= bufferKept && len(c.buffers) < buffersKept {
		c.buffers = append(c.buffers, b[:0])
	}
}

func (c *Carrier) takePending() *pending {
	if n := len(c.pendings); n > 0 {
		p := c.pendings[n-1]
		c.pendings = c.pendings[:n-1]
		return p
	}
	return new(pending)
}

// putPending lets go of everything p holds.
func (c *Carrier) putPending(p *pending) {
	if p.entry != nil {
		p.entry.Release()
	}
	if p.response != nil {
		c.putResponse(p.response)
	}
	*p = pending{notes: p.notes[:0], text: p.text[:0], parts: parts{spans: p.parts.spans[:0]}}
	if len(c.pendings) < pendingsKept {
		c.pendings = append(c.pendings, p)
	}
}

func (c *Carrier) putBody(cn *conn) {
	if cn.body == nil {
		return
	}
	if cap(cn.body.data) <= bufferKept && len(c.bodies) < buffersKept {
		c.bodies = append(c.bodies, cn.body)
	}
	cn.body = nil
}
