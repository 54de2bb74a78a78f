package h1

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"syscall"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/serve/cache"
	"tidemark.dev/internal/serve/files"
)

// static answers with the file of c.path, which the loop does not know yet.
func (c *Carrier) static(id loop.ID, cn *conn, head []byte, behind bool) step {
	n := len(c.path)
	e, owned, err := c.open(c.path[n-1] == '/')
	switch err {
	case nil:
		return c.file(id, cn, e, owned, behind)
	case cache.ErrCold:
		c.path = c.path[:n]
		return c.fetch(id, cn, head)
	}
	return c.unfound(cn, err)
}

// unfound answers for a path at which no file was found.
func (c *Carrier) unfound(cn *conn, err error) step {
	if err == cache.ErrDirectory && c.path[len(c.path)-1] != '/' {
		return c.toDirectory(cn)
	}
	return c.fail(cn, statusOf(err))
}

// acquire is open for a worker: it waits for the disk.
func (s *Site) acquire(path []byte) (e *cache.Entry, err error) {
	if path[len(path)-1] != '/' {
		return s.cfg.Cache.Acquire(path, false)
	}
	for _, name := range s.cfg.Index {
		e, err = s.cfg.Cache.Acquire(append(path[:len(path):len(path)], name...), false)
		if !errors.Is(err, fs.ErrNotExist) && err != cache.ErrDirectory {
			return e, err
		}
	}
	return nil, fs.ErrNotExist
}

// open finds the file of c.path; of a directory its index, whose name it then leaves in c.path. It does
// not wait for the disk.
func (c *Carrier) open(dir bool) (e *cache.Entry, owned bool, err error) {
	now := c.l.Now()
	if !dir {
		return c.files.Find(c.path, nil, now, true)
	}
	n := len(c.path)
	for i, name := range c.cfg.Index {
		c.path = append(c.path[:n], name...)
		// Only the first choice may stand for the directory in the loop's table: another one would
		// hide the first when that comes into being.
		var also []byte
		if i == 0 {
			also = c.path[:n:n]
		}
		e, owned, err = c.files.Find(c.path, also, now, true)
		if !errors.Is(err, fs.ErrNotExist) && err != cache.ErrDirectory {
			return e, owned, err
		}
	}
	return nil, false, fs.ErrNotExist
}

// toDirectory sends a client that left out the last slash of a directory to the right place; relative
// links on its index would not work otherwise. The location is made of the clean path, so it begins with
// one slash and no other host can come of it.
func (c *Carrier) toDirectory(cn *conn) step {
	c.header = append(appendEscaped(c.header[:0], c.path), '/')
	if c.rq.HasQuery {
		c.header = append(append(c.header, '?'), c.rq.Query...)
	}
	return c.failWith(cn, 301, "Location", c.header)
}

// appendEscaped percent-encodes what may not stand in a path.
func appendEscaped(b, path []byte) []byte {
	const plain = "/-._~!$&'()*+,;=:@"
	const hex = "0123456789ABCDEF"
	for _, x := range path {
		letter := x|0x20 >= 'a' && x|0x20 <= 'z' || x >= '0' && x <= '9'
		for i := 0; !letter && i < len(plain); i++ {
			letter = x == plain[i]
		}
		if letter {
			b = append(b, x)
		} else {
			b = append(b, '%', hex[x>>4], hex[x&15])
		}
	}
	return b
}

// statusOf turns an error of opening into a status.
func statusOf(err error) int {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid), err == cache.ErrDirectory:
		return 404
	case errors.Is(err, fs.ErrPermission):
		return 403
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return 503
	}
	return 500
}

// file answers with a file. owned: the hold on e is given along.
//
// Loop goroutine. No allocation for files in memory or sent whole. Does not block, except for the disk
// in a sendfile. e may not be used after return.
func (c *Carrier) file(id loop.ID, cn *conn, e *cache.Entry, owned, behind bool) step {
	rq := &c.rq
	if len(rq.IfNoneMatch)|len(rq.IfModifiedSince)|len(rq.Range)|len(rq.IfMatch)|len(rq.IfUnmodifiedSince) != 0 {
		cond := files.Of(rq)
		v := files.Validators{ETag: e.ETag, ModTime: e.ModTime, Size: e.Size}
		status, spans := files.Decide(&cond, &v, rq.Method == httpwire.GET, c.spans)
		if status != 200 {
			return c.notWhole(id, cn, e, owned, behind, status, spans)
		}
	}
	head := e.Head()
	ok := c.names.ok[c.ending(cn)]
	switch {
	case rq.Method == httpwire.HEAD:
		c.note(cn, 200, int64(len(ok)+len(head)), 0)
		c.out = append(append(c.out, ok...), head...)
		if owned {
			e.Release()
		}
		return next
	case e.InMemory():
		c.note(cn, 200, int64(len(ok)+len(head)), e.Size)
		return c.block(id, cn, ok, e.Block(), e, owned, behind)
	}
	c.note(cn, 200, int64(len(ok)+len(head)), e.Size)
	c.out = append(append(c.out, ok...), head...)
	p := c.done(id, cn, c.l.SendFile(id, c.out, e.FD(), 0, e.Size, nil))
	return hold(p, e, owned)
}

// notWhole answers with less than the file, or with none of it.
func (c *Carrier) notWhole(id loop.ID, cn *conn, e *cache.Entry, owned, behind bool, status int, spans []httpwire.Span) step {
	st := next
	switch {
	case status == 304:
		at := len(c.out)
		c.out = c.begin(c.out, cn, 304)
		c.out = appendValidators(c.out, e)
		c.out = append(c.out, "\r\n"...)
		c.note(cn, 304, int64(len(c.out)-at), 0)
	case status == 416:
		v := append(c.header[:0], "bytes */"...)
		c.header = strconv.AppendInt(v, e.Size, 10)
		st = c.failWith(cn, 416, "Content-Range", c.header)
	case status != 206:
		st = c.fail(cn, status)
	case len(spans) == 1:
		return c.part(id, cn, e, owned, behind, spans[0])
	default:
		return c.multipart(id, cn, e, owned, spans)
	}
	if owned {
		e.Release()
	}
	return st
}

func appendValidators(b []byte, e *cache.Entry) []byte {
	b = httpwire.AppendField(b, "Last-Modified", e.Modified)
	b = httpwire.AppendField(b, "ETag", e.ETag)
	return append(b, "Accept-Ranges: bytes\r\n"...)
}

// part answers with one range.
func (c *Carrier) part(id loop.ID, cn *conn, e *cache.Entry, owned, behind bool, s httpwire.Span) step {
	b := c.begin(c.header[:0], cn, 206)
	b = httpwire.AppendField(b, "Content-Type", e.Type)
	b = append(b, "Content-Range: "...)
	b = files.AppendContentRange(b, s, e.Size)
	b = append(b, "\r\nContent-Length: "...)
	b = httpwire.AppendInt(b, s.Len)
	b = append(b, "\r\n"...)
	b = appendValidators(b, e)
	b = append(b, "\r\n"...)
	c.header = b
	c.note(cn, 206, int64(len(b)), s.Len)
	if e.InMemory() {
		return c.block(id, cn, b, e.Body()[s.Off:s.Off+s.Len], e, owned, behind)
	}
	c.out = append(c.out, b...)
	p := c.done(id, cn, c.l.SendFile(id, c.out, e.FD(), s.Off, s.Len, nil))
	return hold(p, e, owned)
}

// parts is the rest of a multipart answer from a descriptor.
type parts struct {
	spans    []httpwire.Span
	at       int
	ctype    string
	boundary string
	size     int64
	fd       int
	head     []byte
}

func (p *parts) left() bool { return p.at < len(p.spans) }

// frame appends what stands before part i, or after the last.
func (p *parts) frame(b []byte, i int) []byte {
	if i == len(p.spans) {
		return files.AppendPartsEnd(b, p.boundary)
	}
	return files.AppendPart(b, i == 0, p.boundary, p.ctype, p.spans[i], p.size)
}

// multipart answers with several ranges. From memory they are copied together; from a descriptor they
// go out one after the other.
func (c *Carrier) multipart(id loop.ID, cn *conn, e *cache.Entry, owned bool, spans []httpwire.Span) step {
	ps := parts{spans: spans, ctype: e.Type, size: e.Size, fd: e.FD()}
	// Content cannot hold a boundary that nobody could foresee.
	ps.boundary = strconv.FormatUint(rand.Uint64(), 36) + strconv.FormatUint(rand.Uint64(), 36)
	length := int64(0)
	for i, s := range spans {
		c.header = ps.frame(c.header[:0], i)
		length += int64(len(c.header)) + s.Len
	}
	c.header = ps.frame(c.header[:0], len(spans))
	length += int64(len(c.header))

	at := len(c.out)
	b := c.begin(c.out, cn, 206)
	b = httpwire.AppendField(b, "Content-Type", "multipart/byteranges; boundary="+ps.boundary)
	b = append(b, "Content-Length: "...)
	b = httpwire.AppendInt(b, length)
	b = append(b, "\r\n"...)
	b = appendValidators(b, e)
	b = append(b, "\r\n"...)
	c.out = b
	c.note(cn, 206, int64(len(b)-at), length)

	if e.InMemory() {
		for i, s := range spans {
			c.out = ps.frame(c.out, i)
			c.out = append(c.out, e.Body()[s.Off:s.Off+s.Len]...)
		}
		c.out = ps.frame(c.out, len(spans))
		if owned {
			e.Release()
		}
		return next
	}
	// Always by way of a pending: it owns what the later parts need.
	p := c.takePending()
	ps.spans = append(p.parts.spans[:0], spans...)
	ps.head = ps.frame(append(p.parts.head[:0], c.out...), 0)
	p.parts = ps
	c.out = c.out[:0]
	p.keep(c.batch)
	c.batch = c.batch[:0]
	p.entry = e
	if !owned {
		e.Retain()
	}
	cn.out, cn.phase = p, sending
	c.until(id, cn, c.l.Now().Add(c.cfg.WriteTimeout))
	if !c.nextPart(id, p) {
		return pause
	}
	cn.out = nil
	cn.sent += c.record(p.notes)
	c.putPending(p)
	return next
}

// nextPart sends parts until one takes longer (false) or all are out.
func (c *Carrier) nextPart(id loop.ID, p *pending) bool {
	ps := &p.parts
	for ps.left() {
		s := ps.spans[ps.at]
		ps.at++
		var tail []byte
		if !ps.left() {
			tail = ps.frame(nil, ps.at)
		}
		done := c.l.SendFile(id, ps.head, ps.fd, s.Off, s.Len, tail)
		if ps.left() {
			ps.head = ps.frame(ps.head[:0], ps.at)
		}
		if !done {
			return false
		}
	}
	return true
}
