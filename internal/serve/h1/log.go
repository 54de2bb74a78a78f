package h1

import (
	"time"

	"tidemark.dev/internal/ground/binlog"
	"tidemark.dev/internal/ground/httpwire"
)

// note is the record of one answer, and how many of its bytes are head.
type note struct {
	binlog.Record
	head int64
}

// fields are header fields that only the log and rare cases want.
type fields struct {
	referer, agent []byte
	expect         bool // an expectation that is not 100-continue
}

// scan finds them. The lengths leave few names to compare. No allocation.
func (f *fields) scan(all []httpwire.Field) {
	*f = fields{}
	for i := range all {
		name := all[i].Name
		switch len(name) {
		case 6:
			if fold(name, "expect") && !fold(all[i].Value, "100-continue") {
				f.expect = true
			}
		case 7:
			if fold(name, "referer") {
				f.referer = all[i].Value
			}
		case 10:
			if name[0]|0x20 == 'u' && fold(name, "user-agent") {
				f.agent = all[i].Value
			}
		}
	}
}

func fold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, x := range b {
		if x|0x20 != lower[i] {
			return false
		}
	}
	return true
}

var (
	http10 = []byte("HTTP/1.0")
	http11 = []byte("HTTP/1.1")
)

// note adds an answer to the batch of the next send. Its texts are views into the request, which stays
// where it is until done has been called.
func (c *Carrier) note(cn *conn, status int, head, body int64) {
	c.stats.Responses++
	if status >= 400 {
		c.stats.Refused++
	}
	c.batch = append(c.batch, note{})
	n := &c.batch[len(c.batch)-1]
	n.head = head + cn.extra
	n.Bytes, n.BodyBytes = n.head+body, body
	cn.extra = 0
	if c.log == nil {
		return
	}
	rq := &c.rq
	n.Time = int64(cn.start)
	n.Status, n.Loop = uint16(status), c.index
	n.Remote = cn.peer.Addr()
	n.Method, n.Target, n.Host = rq.MethodName, rq.Target, rq.Host
	switch rq.Proto {
	case 10:
		n.Proto = http10
	case 11:
		n.Proto = http11
	}
	n.Referer, n.Agent = c.extra.referer, c.extra.agent
}

// record writes the records of answers that the kernel has taken whole, and returns their bytes.
func (c *Carrier) record(notes []note) int64 {
	var sum int64
	now := int64(c.l.Now())
	for i := range notes {
		n := &notes[i]
		sum += n.Bytes
		if c.log != nil {
			c.stamp(n, now)
		}
	}
	c.stats.Bytes += sum
	return sum
}

// stamp turns the instants of a record into calendar time and length, and appends it.
func (c *Carrier) stamp(n *note, now int64) {
	start := n.Time
	n.Time = now + c.names.wall
	if n.Duration = 0; now > start {
		n.Duration = time.Duration(now - start)
	}
	c.log.Append(&n.Record)
}

// cut writes the records of answers that did not go out whole; got is what the peer has of them.
func (c *Carrier) cut(p *pending, got int64) {
	now := int64(c.l.Refresh())
	c.stats.Bytes += got
	for i := range p.notes {
		n := &p.notes[i]
		mine := min(got, n.Bytes)
		got -= mine
		if mine < n.Bytes {
			c.stats.Aborted++
		}
		n.Bytes, n.BodyBytes = mine, max(0, mine-n.head)
		if c.log != nil {
			c.stamp(n, now)
		}
	}
}

// keep copies notes with their texts, which would not live until Sent.
func (p *pending) keep(notes []note) {
	size := 0
	for i := range notes {
		n := &notes[i]
		size += len(n.Method) + len(n.Target) + len(n.Host) + len(n.Referer) + len(n.Agent)
		p.total += n.Bytes
	}
	if cap(p.text) < size {
		p.text = make([]byte, 0, max(size, 512))
	}
	p.notes = append(p.notes[:0], notes...)
	for i := range p.notes {
		n := &p.notes[i]
		for _, v := range [...]*[]byte{&n.Method, &n.Target, &n.Host, &n.Referer, &n.Agent} {
			at := len(p.text)
			p.text = append(p.text, *v...)
			*v = p.text[at:len(p.text):len(p.text)]
		}
	}
}
