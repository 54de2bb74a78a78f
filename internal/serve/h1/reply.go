package h1

import (
	"time"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/serve/cache"
)

const (
	outSize   = 64 << 10 // room for staged answers
	outKept   = 256 << 10
	outFull   = 48 << 10 // sent before another answer is staged
	stageMost = 8 << 10  // a larger answer is not copied but ends the stage
	batchSize = 64       // answers in one send
)

// continued is the interim answer to Expect: 100-continue.
var continued = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// ending is what an answer says about the connection.
type ending uint8

const (
	silent ending = iota // HTTP/1.1 stays open without a word
	close_               // "Connection: close"
	open10               // "Connection: keep-alive", for HTTP/1.0
	endings
)

// text holds the lines that change once a second or never, written out: Server, Date and Connection, and
// the same with the status line of 200 before them.
type text struct {
	common [endings][]byte
	ok     [endings][]byte
	due    clock.Instant // when Date is wrong
	wall   int64         // Unix ns of the calendar at instant 0
}

// tell writes the lines for the second that now is in.
func (c *Carrier) tell(now clock.Instant) {
	unix := time.Now().UnixNano()
	t := &c.names
	t.wall = unix - int64(now)
	t.due = now + clock.Instant(int64(time.Second)-unix%int64(time.Second))
	for i := range endings {
		b := t.ok[i][:0]
		b = httpwire.AppendStatusLine(b, 11, 200)
		line := len(b)
		b = httpwire.AppendField(b, "Server", c.cfg.Software)
		b = append(b, "Date: "...)
		b = httpwire.AppendDate(b, unix/int64(time.Second))
		b = append(b, "\r\n"...)
		switch i {
		case close_:
			b = append(b, "Connection: close\r\n"...)
		case open10:
			b = append(b, "Connection: keep-alive\r\n"...)
		}
		t.ok[i], t.common[i] = b, b[line:]
	}
}

func (c *Carrier) ending(cn *conn) ending {
	switch {
	case !cn.keep:
		return close_
	case c.rq.Proto == 10:
		return open10
	}
	return silent
}

// begin appends the status line and the common fields. The version is always ours, 1.1, as RFC 9110
// section 2.5 wants it: it says what the server speaks.
func (c *Carrier) begin(b []byte, cn *conn, status int) []byte {
	b = httpwire.AppendStatusLine(b, 11, status)
	return append(b, c.names.common[c.ending(cn)]...)
}

// fail stages the answer of an error, or of anything else that a line of text can say.
func (c *Carrier) fail(cn *conn, status int) step { return c.failWith(cn, status, "", nil) }

// failWith is fail with one more header field.
func (c *Carrier) failWith(cn *conn, status int, name string, value []byte) step {
	at := len(c.out)
	b := c.begin(c.out, cn, status)
	if status == 405 {
		b = append(b, allow...)
	}
	if name != "" {
		b = httpwire.AppendField(b, name, value)
	}
	reason := httpwire.StatusText(status)
	length := len("000 \n") + len(reason)
	b = append(b, "Content-Type: text/plain; charset=utf-8\r\nContent-Length: "...)
	b = httpwire.AppendInt(b, int64(length))
	b = append(b, "\r\n\r\n"...)
	head := len(b) - at
	if c.rq.Method != httpwire.HEAD {
		b = httpwire.AppendInt(b, int64(status))
		b = append(b, ' ')
		b = append(b, reason...)
		b = append(b, '\n')
	}
	c.out = b
	c.note(cn, status, int64(head), int64(len(b)-at-head))
	return next
}

const allow = "Allow: GET, HEAD, OPTIONS\r\n"

func (c *Carrier) options(cn *conn) step {
	at := len(c.out)
	b := c.begin(c.out, cn, 204)
	b = append(b, allow...)
	b = append(b, "\r\n"...)
	c.out = b
	c.note(cn, 204, int64(len(b)-at), 0)
	return next
}

// refuse answers a request that cannot be understood, or is not wanted to its end, and ends the
// connection. Input of it that is still to come is thrown away.
func (c *Carrier) refuse(id loop.ID, cn *conn, status int) {
	cn.keep, cn.linger = false, true
	c.extra.scan(c.rq.Fields)
	c.fail(cn, status)
	c.putBody(cn)
	if !c.flush(id, cn) {
		c.save(cn, nil)
		return
	}
	c.end(id, cn, true)
}

// flush sends what is staged. false: that takes longer, and Sent will follow.
func (c *Carrier) flush(id loop.ID, cn *conn) bool {
	if len(c.out) == 0 {
		return true
	}
	done := c.l.Send(id, c.out, nil, nil)
	return c.done(id, cn, done) == nil
}

// done accounts for a send. It returns nil if the kernel has taken everything; else the connection is
// sending, and what must live until Sent belongs into the pending that is returned.
func (c *Carrier) done(id loop.ID, cn *conn, done bool) *pending {
	if c.out = c.out[:0]; cap(c.out) > outKept {
		c.out = make([]byte, 0, outSize)
	}
	if done {
		cn.sent += c.record(c.batch)
		c.batch = c.batch[:0]
		return nil
	}
	p := c.takePending()
	p.keep(c.batch)
	c.batch = c.batch[:0]
	cn.out = p
	cn.phase = sending
	c.until(id, cn, c.l.Now().Add(c.cfg.WriteTimeout))
	return p
}

// block sends or stages a head and a body that lies in the cache's memory, both known to be short.
func (c *Carrier) block(id loop.ID, cn *conn, head, block []byte, e *cache.Entry, owned, behind bool) step {
	if (behind || len(c.out) > 0) && len(head)+len(block) <= stageMost {
		c.out = append(append(c.out, head...), block...)
		if owned {
			e.Release()
		}
		return next
	}
	if len(c.out) > 0 {
		c.out = append(c.out, head...)
		head = c.out
	}
	p := c.done(id, cn, c.l.Send(id, head, block, nil))
	return hold(p, e, owned)
}

// hold keeps an entry until Sent, or lets it go.
func hold(p *pending, e *cache.Entry, owned bool) step {
	if p == nil {
		if owned {
			e.Release()
		}
		return next
	}
	if !owned {
		e.Retain()
	}
	p.entry = e
	return pause
}
