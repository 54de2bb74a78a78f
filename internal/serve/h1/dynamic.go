package h1

import (
	"bytes"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/serve/cache"
	"tidemark.dev/page"
)

// dynamic answers with a page.
//
// Loop goroutine. No allocation for a page on the loop that makes none. Blocks as long as the page does.
func (c *Carrier) dynamic(id loop.ID, cn *conn, r *route, head, body []byte, behind bool) step {
	c.view(&c.page, cn, &c.rq, c.path, r, head, body)
	if r.detacher != nil && r.detacher.Detached(&c.page) {
		return c.detach(id, cn, r, head, body)
	}
	rs := c.takeResponse()
	if !serve(r.page, &c.page, rs) {
		c.stats.Panics++
	}
	return c.reply(id, cn, rs, behind)
}

// serve runs a page. false: it panicked, and the answer is an error.
func serve(p page.Page, rq *page.Request, rs *page.Response) (ok bool) {
	defer func() {
		if !ok {
			_ = recover()
			failure(rs, 500)
		}
	}()
	p.Serve(rq, rs)
	return true
}

// failure makes rs say that the server has failed.
func failure(rs *page.Response, status int) {
	rs.Reset()
	rs.Status(status)
	rs.Type("text/plain; charset=utf-8")
	rs.AppendInt(int64(status)).Append(" ").Append(httpwire.StatusText(status)).Append("\n")
}

// view fills a page's request with views into the received one.
func (c *Carrier) view(to *page.Request, cn *conn, rq *httpwire.Request, path []byte, r *route, head, body []byte) {
	*to = page.Request{
		Method: rq.MethodName, Path: path, Query: rq.Query, Script: path, Body: body,
		Remote: cn.peer.Addr(), RemotePort: cn.peer.Port(),
		Host: rq.Host, Cookie: rq.Cookie, ContentType: rq.ContentType,
		Fields: fieldLines(head), Proto: "HTTP/1.1",
	}
	if rq.Proto == 10 {
		to.Proto = "HTTP/1.0"
	}
	if n := len(r.path) - 1; r.path[n] == '/' {
		to.Script = path[:n]
	}
	if int(cn.listener) < len(c.local) {
		to.Local = c.local[cn.listener]
	}
}

// fieldLines returns the header lines of a head, without request line and empty line.
func fieldLines(head []byte) []byte {
	from := 0
	if head[0] == '\r' {
		from = 2
	}
	from += bytes.IndexByte(head[from:], '\n') + 1
	return head[from : len(head)-2]
}

// reply sends what a page has answered, and takes rs back in the end.
func (c *Carrier) reply(id loop.ID, cn *conn, rs *page.Response, behind bool) step {
	v := rs.View()
	if v.Status < 200 || v.Status > 599 {
		failure(rs, 500)
		v = rs.View()
	}
	bodiless := v.Status == 204 || v.Status == 304
	b := c.begin(c.header[:0], cn, v.Status)
	if !bodiless {
		if v.Type != "" {
			b = httpwire.AppendField(b, "Content-Type", v.Type)
		}
		b = append(b, "Content-Length: "...)
		b = httpwire.AppendInt(b, v.Length)
		b = append(b, "\r\n"...)
	}
	b = append(b, v.Fields...)
	b = append(b, "\r\n"...)
	c.header = b
	if bodiless || c.rq.Method == httpwire.HEAD {
		c.note(cn, v.Status, int64(len(b)), 0)
		c.out = append(c.out, b...)
		c.putResponse(rs)
		return next
	}
	c.note(cn, v.Status, int64(len(b)), v.Length)
	f := &v.File
	byFD := f.Handle != nil && f.Size > 0 && (f.Bytes == nil || f.Size >= c.cfg.SendfileMin)
	var done bool
	switch {
	case !byFD && (behind || len(c.out) > 0) && int64(len(b))+v.Length <= stageMost:
		c.out = append(append(c.out, b...), v.Head...)
		c.out = append(append(c.out, f.Bytes...), v.Tail...)
		c.putResponse(rs)
		return next
	case len(c.out) > 0 && (f.Size > 0 || len(v.Head) == 0):
		c.out = append(append(c.out, b...), v.Head...)
		done = c.send(id, c.out, f, byFD, v.Tail)
	case len(c.out) > 0:
		c.out = append(c.out, b...)
		done = c.l.Send(id, c.out, v.Head, v.Tail)
	case f.Size > 0:
		done = c.send(id, rs.Prepend(b), f, byFD, v.Tail)
	default:
		done = c.l.Send(id, b, v.Head, v.Tail)
	}
	if p := c.done(id, cn, done); p != nil {
		p.response = rs
		return pause
	}
	c.putResponse(rs)
	return next
}

// send sends a file between a head and a tail.
func (c *Carrier) send(id loop.ID, head []byte, f *page.File, byFD bool, tail []byte) bool {
	if byFD {
		return c.l.SendFile(id, head, int(f.Handle.Fd()), f.Offset, f.Size, tail)
	}
	return c.l.Send(id, head, f.Bytes, tail)
}

func (c *Carrier) takeResponse() *page.Response {
	if n := len(c.responses); n > 0 {
		rs := c.responses[n-1]
		c.responses = c.responses[:n-1]
		return rs
	}
	return new(page.Response)
}

func (c *Carrier) putResponse(rs *page.Response) {
	rs.Reset()
	if len(c.responses) < buffersKept {
		c.responses = append(c.responses, rs)
	}
}

// job is work that may block: a detached page, or a file that is not in memory. A connection has at
// most one.
type job struct {
	c    *Carrier
	ref  loop.Ref
	do   func() // run, as a value made once
	back func() // finish

	raw  []byte // copies: head, body, clean path
	head []byte
	body []byte
	path []byte
	rq   httpwire.Request

	r        *route // nil: read the file at path
	page     page.Request
	response *page.Response
	panicked bool

	entry *cache.Entry
	err   error
}

// detach has a worker run a page, with a copy of the request.
func (c *Carrier) detach(id loop.ID, cn *conn, r *route, head, body []byte) step {
	if !c.flush(id, cn) {
		return c.undo(cn)
	}
	j := c.newJob(id, cn, head, body)
	j.r = r
	j.response = c.takeResponse()
	c.view(&j.page, cn, &j.rq, j.path, r, j.head, j.body)
	return c.start(id, cn, j, c.cfg.Workers)
}

// fetch has a worker read the file of c.path.
func (c *Carrier) fetch(id loop.ID, cn *conn, head []byte) step {
	if !c.flush(id, cn) {
		return c.undo(cn)
	}
	return c.start(id, cn, c.newJob(id, cn, head, nil), c.cfg.Readers)
}

// undo takes back that a request was begun, because it must wait for a send.
func (c *Carrier) undo(cn *conn) step {
	c.stats.Requests--
	cn.requests--
	cn.keep = true
	return again
}

func (c *Carrier) newJob(id loop.ID, cn *conn, head, body []byte) *job {
	var j *job
	if n := len(c.jobs); n > 0 {
		j = c.jobs[n-1]
		c.jobs = c.jobs[:n-1]
	} else {
		j = &job{c: c}
		j.do, j.back = j.run, j.finish
	}
	j.ref = c.l.Ref(id)
	raw := append(j.raw[:0], head...)
	raw = append(raw, body...)
	raw = append(raw, c.path...)
	h, b := len(head), len(head)+len(body)
	j.raw, j.head, j.body, j.path = raw, raw[:h:h], raw[h:b:b], raw[b:]
	httpwire.ParseRequest(j.head, &j.rq, &c.cfg.Head) // was parsed before
	return j
}

func (c *Carrier) start(id loop.ID, cn *conn, j *job, on *Workers) step {
	cn.phase = working
	c.until(id, cn, never)
	on.submit(j.do)
	return pause
}

// run is the part of a job that may block. Worker goroutine.
func (j *job) run() {
	if j.r != nil {
		j.panicked = !serve(j.r.page, &j.page, j.response)
	} else {
		j.entry, j.err = j.c.site.acquire(j.path)
	}
	if !j.c.l.Post(j.back) { // the loop has ended
		j.release()
	}
}

// release lets go of what a job brought if nobody wants it.
func (j *job) release() {
	if j.response != nil {
		j.response.Reset()
	}
	if j.entry != nil {
		j.entry.Release()
	}
}

// finish answers with what a job brought. Loop goroutine.
func (j *job) finish() {
	c := j.c
	defer c.putJob(j)
	if j.panicked {
		c.stats.Panics++
	}
	if !c.l.Alive(j.ref) {
		j.release()
		return
	}
	id := j.ref.ID
	cn := &c.conns[id]
	if now := c.l.Now(); now >= c.names.due {
		c.tell(now)
	}
	c.rq, j.rq = j.rq, c.rq
	c.extra.scan(c.rq.Fields)
	if c.stopping && cn.keep {
		cn.keep, cn.linger = false, true
	}
	behind := len(cn.in) > 0
	var st step
	switch {
	case j.r != nil:
		rs := j.response
		j.response = nil
		st = c.reply(id, cn, rs, behind)
	case j.err != nil:
		c.path = append(c.path[:0], j.path...)
		st = c.unfound(cn, j.err)
	default:
		st = c.file(id, cn, j.entry, c.files.Adopt(j.entry, nil), behind)
	}
	j.entry = nil
	if c.after(id, cn, st, behind) == next && c.flush(id, cn) {
		c.resume(id, cn)
	}
}

func (c *Carrier) putJob(j *job) {
	*j = job{c: c, do: j.do, back: j.back, raw: j.raw[:0], rq: httpwire.Request{Fields: j.rq.Fields[:0]}}
	if cap(j.raw) > bufferKept {
		j.raw = nil
	}
	if len(c.jobs) < buffersKept {
		c.jobs = append(c.jobs, j)
	}
}
