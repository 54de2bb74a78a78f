package h1

import (
	"time"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/serve/files"
)

// step says how the answering of one request went on.
type step uint8

const (
	next  step = iota // answered, or staged to be; go on with the next request
	pause             // an answer is on its way, or being made: go on when it is there
	again             // a send must end first: take this request once more then
	more              // the request is not whole; a receive is armed
	gone              // the connection has ended; its input means nothing any more
)

const maxRanges = files.MaxRanges

// run answers the requests in b, in the loop's buffer or cn.in, and keeps what is left.
//
// Loop goroutine. No allocation for what is answered from memory. Does not block, except as answering
// does.
func (c *Carrier) run(id loop.ID, b []byte) {
	cn := &c.conns[id]
	for len(b) > 0 {
		if (len(c.out) > outFull || len(c.batch) == cap(c.batch)) && !c.flush(id, cn) {
			c.save(cn, b)
			return
		}
		n, status := httpwire.ParseRequest(b, &c.rq, &c.cfg.Head)
		if n == 0 {
			if status != 0 {
				c.rq = httpwire.Request{Fields: c.rq.Fields[:0]} // holds nothing to rely on
				c.refuse(id, cn, status)
				return
			}
			break
		}
		body, used, st := c.bodyOf(id, cn, b, n)
		if st == next {
			st = c.answer(id, cn, b[:n], body, len(b) > used)
		}
		switch st {
		case next:
			b = b[used:]
		case pause:
			c.save(cn, b[used:])
			return
		case again:
			c.save(cn, b)
			return
		default:
			return
		}
	}
	if !c.flush(id, cn) {
		c.save(cn, b)
		return
	}
	c.save(cn, b)
	c.await(id, cn)
}

// bodyOf returns the body behind a head of n bytes, and the bytes of both. If it is not all there the
// request is kept, and the connection loads the rest.
func (c *Carrier) bodyOf(id loop.ID, cn *conn, b []byte, n int) (body []byte, used int, st step) {
	rq := &c.rq
	if !rq.Chunked {
		if rq.ContentLength <= 0 {
			return nil, n, next
		}
		if rq.ContentLength <= int64(len(b)-n) {
			used = n + int(rq.ContentLength)
			return b[n:used], used, next
		}
	}
	// What has been answered must not wait for this body.
	if !c.flush(id, cn) {
		return nil, 0, again
	}
	if status := c.foresee(); status != 0 {
		c.refuse(id, cn, status)
		return nil, 0, gone
	}
	if rq.Chunked {
		return c.unchunk(id, cn, b, n)
	}
	cn.need = n + int(rq.ContentLength)
	c.save(cn, b)
	return nil, 0, c.startLoading(id, cn, len(b)-n)
}

// foresee returns the status of a refusal that need not see the body, or 0.
func (c *Carrier) foresee() int {
	rq := &c.rq
	if rq.ContentLength > c.cfg.BodyMax {
		return 413
	}
	if rq.Method == httpwire.GET || rq.Method == httpwire.HEAD || rq.Method == httpwire.OPTIONS {
		return 0
	}
	var ok bool
	if c.path, ok = httpwire.CleanPath(c.path[:0], rq.Path); !ok {
		return 400
	}
	if c.site.find(c.path) == nil {
		return c.methodStatus()
	}
	return 0
}

// methodStatus refuses a method that files do not know.
func (c *Carrier) methodStatus() int {
	if c.rq.Method == httpwire.Other {
		return 501
	}
	return 405
}

// unchunk decodes what is there of a body in chunks.
func (c *Carrier) unchunk(id loop.ID, cn *conn, b []byte, n int) (body []byte, used int, st step) {
	k := len(c.bodies)
	if k > 0 {
		cn.body, c.bodies = c.bodies[k-1], c.bodies[:k-1]
	} else {
		cn.body = new(chunked)
	}
	cn.body.dec.Reset()
	cn.body.data, cn.body.raw = cn.body.data[:0], 0
	consumed, done, status := c.chunks(cn, b[n:])
	if status != 0 {
		c.refuse(id, cn, status)
		return nil, 0, gone
	}
	if done {
		return cn.body.data, n + consumed, next
	}
	have := len(b) - n
	c.save(cn, b[:n]) // of what is there only the head is still needed
	return nil, 0, c.startLoading(id, cn, have)
}

// chunks feeds the decoder. status is that of a refusal.
func (c *Carrier) chunks(cn *conn, b []byte) (consumed int, done bool, status int) {
	data, consumed, done, err := cn.body.dec.Decode(cn.body.data, b)
	cn.body.data = data
	cn.body.raw += int64(len(b))
	switch {
	case err != nil:
		return 0, false, 400
	case int64(len(data)) > c.cfg.BodyMax:
		return 0, false, 413
	}
	return consumed, done, 0
}

// startLoading waits for the rest of a body of which so many bytes are there.
func (c *Carrier) startLoading(id loop.ID, cn *conn, have int) step {
	cn.phase = loading
	cn.start = c.l.Now()
	c.until(id, cn, cn.start.Add(c.cfg.BodyTimeout))
	if c.rq.ExpectContinue && have == 0 {
		cn.extra += int64(len(continued))
		if !c.l.Send(id, nil, continued, nil) {
			cn.expected = true
			return more
		}
	}
	c.l.Recv(id, recvMost)
	return more
}

// load takes more of a body.
func (c *Carrier) load(id loop.ID, cn *conn, b []byte) {
	if cn.body == nil {
		cn.in = append(cn.in, b...)
		if len(cn.in) >= cn.need {
			c.run(id, cn.in)
			return
		}
		c.prolong(id, cn, int64(len(cn.in)))
		return
	}
	consumed, done, status := c.chunks(cn, b)
	switch {
	case status != 0:
		c.refuse(id, cn, status)
		return
	case !done:
		c.prolong(id, cn, cn.body.raw)
		return
	}
	head, rest := cn.in, b[consumed:]
	if n, _ := httpwire.ParseRequest(head, &c.rq, &c.cfg.Head); n != len(head) {
		c.drop(id, cn, false) // cannot happen: it was parsed before
		return
	}
	switch c.answer(id, cn, head, cn.body.data, len(rest) > 0) {
	case next:
		if !c.flush(id, cn) {
			c.save(cn, rest)
			return
		}
		c.save(cn, nil)
		cn.phase, cn.start = idle, c.l.Now()
		if len(rest) > 0 {
			c.run(id, rest)
			return
		}
		c.await(id, cn)
	case pause:
		c.save(cn, rest)
	}
}

// prolong gives a body that keeps coming more time.
func (c *Carrier) prolong(id loop.ID, cn *conn, have int64) {
	cn.deadline = cn.start.Add(c.cfg.BodyTimeout + time.Duration(have/bodyRate)*time.Second)
	c.l.Recv(id, recvMost)
}

// answer answers the request in c.rq. The head and body are in memory that stays until return.
//
// Loop goroutine. No allocation for files in the loop's table and for pages on the loop.
func (c *Carrier) answer(id loop.ID, cn *conn, head, body []byte, behind bool) step {
	rq := &c.rq
	c.extra.scan(rq.Fields)
	c.stats.Requests++
	cn.requests++
	cn.keep = rq.KeepAlive && c.cfg.KeepAlive && !c.stopping &&
		(c.cfg.KeepAliveMax == 0 || int(cn.requests) < c.cfg.KeepAliveMax)
	cn.linger = rq.KeepAlive && !cn.keep
	if c.extra.expect {
		return c.after(id, cn, c.fail(cn, 417), behind)
	}
	if c.files != nil && (rq.Method == httpwire.GET || rq.Method == httpwire.HEAD) {
		if e := c.files.Get(rq.Path, c.l.Now()); e != nil {
			return c.after(id, cn, c.file(id, cn, e, false, behind), behind)
		}
	}
	return c.after(id, cn, c.look(id, cn, head, body, behind), behind)
}

// after ends the connection if this was its last answer.
func (c *Carrier) after(id loop.ID, cn *conn, st step, behind bool) step {
	c.putBody(cn)
	if st != next || cn.keep {
		return st
	}
	if !c.flush(id, cn) {
		cn.linger = cn.linger || behind
		return pause
	}
	c.end(id, cn, cn.linger || behind)
	return gone
}

// look finds who answers a request whose path is not in the loop's table.
func (c *Carrier) look(id loop.ID, cn *conn, head, body []byte, behind bool) step {
	rq := &c.rq
	if rq.Method == httpwire.OPTIONS && len(rq.Path) == 1 && rq.Path[0] == '*' {
		return c.options(cn)
	}
	if rq.Method == httpwire.TRACE || rq.Method == httpwire.CONNECT {
		return c.fail(cn, 405)
	}
	var ok bool
	if c.path, ok = httpwire.CleanPath(c.path[:0], rq.Path); !ok {
		return c.fail(cn, 400)
	}
	if r := c.site.find(c.path); r != nil {
		return c.dynamic(id, cn, r, head, body, behind)
	}
	switch rq.Method {
	case httpwire.GET, httpwire.HEAD:
	case httpwire.OPTIONS:
		return c.options(cn)
	default:
		return c.fail(cn, c.methodStatus())
	}
	if c.files == nil {
		return c.fail(cn, 404)
	}
	return c.static(id, cn, head, behind)
}
