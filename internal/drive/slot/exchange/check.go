package exchange

import (
	"bytes"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// maxInterim bounds the 1xx answers before a response.
const maxInterim = 8

// Take consumes response bytes that came at an instant: head, wrapper, file content, tail, in pieces of any size.
//
// Loop goroutine. No allocation, but for failures, and for a head or wrapper that comes in pieces and finds no spare
// buffer. Never blocks. b is not kept.
func (c *Checker) Take(r *Reply, op *workload.Op, b []byte, at clock.Instant) Mishap {
	if r.phase != inHead {
		return c.framed(r, op, b)
	}
	data := b
	if len(r.pend) > 0 {
		r.pend = append(r.pend, b...)
		data = r.pend
	}
	n := 0
	for interim := 0; ; interim++ {
		var err error
		n, err = httpwire.ParseResponse(data, &c.response, nil)
		if err != nil {
			return wrong(Malformed, "%v", err)
		}
		if n == 0 {
			c.hold(r, data)
			return fine
		}
		if c.response.Status >= 200 || c.response.Status == 101 {
			break
		}
		if interim == maxInterim {
			return wrong(Malformed, "%d interim responses", interim)
		}
		data = data[n:]
	}
	held := r.pend
	r.pend = nil
	r.Head = int64(n)
	bad := c.judgeHead(r, op, at)
	if bad.Class == None {
		bad = c.framed(r, op, data[n:])
	}
	c.keep(&held)
	return bad
}

// Skips reports whether the next n bytes, whatever they are, are only counted: they are file content that is neither
// compared nor rewritten, or more than there is of a file that ends the response.
//
// Loop goroutine. No allocation. Never blocks.
func (c *Checker) Skips(r *Reply, op *workload.Op, n int) bool {
	if r.phase != inFile || r.chunked || r.compare || r.rewritten(op) {
		return false
	}
	return op.Kind == workload.Static && r.Length >= 0 || int64(n) <= op.File.Size()-r.at
}

// judgeHead checks status, type, cookie and announced length.
func (c *Checker) judgeHead(r *Reply, op *workload.Op, at clock.Instant) Mishap {
	h := &c.response
	if h.Status != 200 {
		return wrong(Status, "status %d", h.Status)
	}
	r.Length, r.ToEOF = h.BodyLength(false)
	if r.chunked = h.Chunked; r.chunked {
		r.Length, r.ToEOF = -1, false
		r.chunks.Reset()
	}
	r.Ends = op.Last || r.ToEOF || !h.KeepAlive
	r.phase = inFile
	if op.Kind == workload.Static {
		if size := op.File.Size(); r.Length >= 0 && r.Length != size {
			return wrong(Length, "%d bytes announced, the file has %d", r.Length, size)
		}
		return fine
	}
	r.phase = inWrapper
	if !bytes.HasPrefix(h.ContentType, []byte("text/html")) {
		return wrong(Wrapper, "content type %q", h.ContentType)
	}
	switch op.Kind {
	case workload.CAD:
		return c.judgeAd(r, op, at)
	case workload.Post:
		return c.judgePost(op)
	}
	return fine
}

// judgeAd checks the cookie of an ad rotation against the tables.
func (c *Checker) judgeAd(r *Reply, op *workload.Op, at clock.Instant) Mishap {
	var got web99.Found
	found := false
	for _, f := range c.response.Fields {
		if isSetCookie(f.Name) {
			if got, found = web99.ParseFound(f.Value); found {
				break
			}
		}
	}
	if !found {
		return wrong(Cookie, "no found_cookie in the answer to user %d", op.User)
	}
	r.ad = got.Ad
	if c.tables == nil {
		return fine
	}
	now := c.wall(at)
	want := c.tables.Select(op.User, op.LastAd, now)
	if got == want || sameAd(got, want) && c.nearExpiry(c.tables, want.Ad, now) {
		return fine
	}
	if c.former != nil && got == c.former.Select(op.User, op.LastAd, now) {
		return wrong(Table, "user %d after ad %d: %v stood in the tables before the Reset, due %v", op.User, op.LastAd, got, want)
	}
	return wrong(Ad, "user %d after ad %d: %v instead of %v", op.User, op.LastAd, got, want)
}

func sameAd(a, b web99.Found) bool { return a.Ad == b.Ad && a.Weight == b.Weight }

// clockSlack is how far the target's calendar may stand from ours when an ad expires.
const clockSlack = 5

func (c *Checker) nearExpiry(t *web99.Tables, ad int32, now int64) bool {
	if ad < 0 || int(ad) >= len(t.Ads) {
		return false
	}
	d := now - t.Ads[ad].Expiry
	return d >= -clockSlack && d <= clockSlack
}

func (c *Checker) judgePost(op *workload.Op) Mishap {
	want := op.User + web99.UserOffset
	for _, f := range c.response.Fields {
		if !isSetCookie(f.Name) {
			continue
		}
		if got, found := web99.ParseUserCookie(f.Value); found {
			if got == want {
				return fine
			}
			return wrong(Cookie, "my_cookie=%d in the answer to user %d", got, want)
		}
	}
	return wrong(Cookie, "no my_cookie in the answer to user %d", want)
}

func isSetCookie(name []byte) bool {
	const want = "set-cookie"
	if len(name) != len(want) {
		return false
	}
	for i, c := range name {
		if c|0x20 != want[i] {
			return false
		}
	}
	return true
}

// framed undoes the framing of body bytes.
func (c *Checker) framed(r *Reply, op *workload.Op, b []byte) Mishap {
	if !r.chunked {
		if r.Length >= 0 && int64(len(b)) > r.Length-r.Body {
			return wrong(Length, "%d bytes after the end of the response", int64(len(b))-(r.Length-r.Body))
		}
		bad := c.feed(r, op, b)
		r.Complete = r.Length >= 0 && r.Body == r.Length
		return bad
	}
	for len(b) > 0 {
		data, n, done, err := r.chunks.Next(b)
		if err != nil {
			return wrong(Malformed, "%v", err)
		}
		b = b[n:]
		if bad := c.feed(r, op, data); bad.Class != None {
			return bad
		}
		if done {
			r.Complete = true
			if len(b) > 0 {
				return wrong(Length, "%d bytes after the end of the response", len(b))
			}
			return fine
		}
		if n == 0 {
			return wrong(Malformed, "chunk decoder takes nothing of %d bytes", len(b))
		}
	}
	return fine
}

// feed checks body bytes in order.
func (c *Checker) feed(r *Reply, op *workload.Op, b []byte) Mishap {
	r.Body += int64(len(b))
	var held []byte
	if r.phase == inWrapper {
		data := b
		if len(r.pend) > 0 {
			r.pend = append(r.pend, b...)
			data = r.pend
		}
		n := web99.ParseHead(data, &c.wrapper)
		if n < 0 {
			return wrong(Wrapper, "the page does not begin as it must")
		}
		if n == 0 {
			c.hold(r, data)
			return fine
		}
		if bad := c.judgeWrapper(r, op, n); bad.Class != None {
			return bad
		}
		held, r.pend = r.pend, nil
		r.phase = inFile
		b = data[n:]
	}
	bad := c.contents(r, op, b)
	c.keep(&held)
	return bad
}

// judgeWrapper checks what the page says about the request, and with it the announced length.
func (c *Checker) judgeWrapper(r *Reply, op *workload.Op, n int) Mishap {
	v := &c.wrapper
	if len(v.Software) == 0 {
		return wrong(Wrapper, "SERVER_SOFTWARE is empty")
	}
	if !isAddress(v.Remote) {
		return wrong(Wrapper, "REMOTE_ADDR %q is no address", v.Remote)
	}
	script := append(c.scratch[:0], c.route(op.Kind)...)
	if !web99.Holds(v.Script, script) {
		return wrong(Wrapper, "SCRIPT_NAME %q instead of %q", v.Script, script)
	}
	query := c.scratch[:0]
	if op.Kind != workload.Post {
		query = op.File.AppendPath(query)
	}
	if !web99.Holds(v.Query, query) {
		return wrong(Wrapper, "QUERY_STRING %q instead of %q", v.Query, query)
	}
	whole := int64(n) + op.File.Size() + int64(len(web99.TailText))
	if r.Length >= 0 && r.Length != whole {
		return wrong(Length, "%d bytes announced, page and file have %d", r.Length, whole)
	}
	return fine
}

// isAddress reports whether b looks like an IP address; which one, a proxy may have changed.
func isAddress(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') && c != '.' && c != ':' {
			return false
		}
	}
	return len(b) >= len("::") && len(b) <= len("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255")
}

// contents checks file content and the wrapper's tail.
func (c *Checker) contents(r *Reply, op *workload.Op, b []byte) Mishap {
	if r.phase == inFile {
		size := op.File.Size()
		part := b[:min(int64(len(b)), size-r.at)]
		if bad := c.verify(r, op, part); bad.Class != None {
			return bad
		}
		r.at += int64(len(part))
		b = b[len(part):]
		if r.at == size {
			r.phase = atEnd
			if op.Kind != workload.Static {
				r.phase = inTail
			}
		}
	}
	if r.phase == inTail {
		rest := web99.TailText[r.tail:]
		n := min(len(rest), len(b))
		if string(b[:n]) != rest[:n] {
			return wrong(Wrapper, "the page does not end as it must")
		}
		r.tail += uint8(n)
		b = b[n:]
		if int(r.tail) == len(web99.TailText) {
			r.phase = atEnd
		}
	}
	if len(b) > 0 && r.phase == atEnd {
		return wrong(Length, "the body is longer than it must be")
	}
	return fine
}

// End checks that a response that is complete, or has ended with its connection, was whole.
func (c *Checker) End(r *Reply, op *workload.Op) Mishap {
	switch r.phase {
	case atEnd:
		if r.compare {
			c.Checked.Bodies++
			c.Checked.Bytes += op.File.Size()
		}
		c.Checked.Tags += uint64(r.tags)
		return fine
	case inWrapper:
		return wrong(Wrapper, "the page ends in its beginning")
	case inTail:
		return wrong(Wrapper, "the page ends in its end")
	}
	return wrong(Length, "the body ends %d bytes into a file of %d", r.at, op.File.Size())
}

// tagging is the work of tag, which Content.Tags calls without room for arguments.
type tagging struct {
	r     *Reply
	name  [web99.TagName]byte // the ad's file name
	part  []byte              // content bytes at off
	off   int64
	apply bool // write the name into part instead of comparing
	bad   bool
}

// rewritten reports whether the ad's name replaces the placeholders of this response.
func (r *Reply) rewritten(op *workload.Op) bool {
	return op.Kind == workload.CAD && r.ad >= 0 && (op.File.Class == 1 || op.File.Class == 2)
}

// verify checks content bytes at the offset reached: tags of a rotated ad always, everything when asked for.
func (c *Checker) verify(r *Reply, op *workload.Op, part []byte) Mishap {
	tagged := r.rewritten(op)
	if len(part) == 0 || !tagged && !r.compare {
		return fine
	}
	c.content.Init(op.File, c.seed)
	if !tagged {
		if i := c.content.Check(part, r.at); i >= 0 {
			return wrong(Bytes, "byte %d of the file is wrong", r.at+int64(i))
		}
		return fine
	}
	c.tagging = tagging{r: r, part: part, off: r.at}
	copy(c.tagging.name[:], web99.AppendAdFile(c.scratch[:0], r.ad))
	c.content.Tags(c.onTag)
	if c.tagging.bad {
		return wrong(Ad, "file %s does not show ad %d", op.File, r.ad)
	}
	if !r.compare {
		return fine
	}
	for off := r.at; len(part) > 0; {
		want := c.scratch[:min(len(part), len(c.scratch))]
		c.content.Fill(want, off)
		c.tagging.part, c.tagging.off, c.tagging.apply = want, off, true
		c.content.Tags(c.onTag)
		if !bytes.Equal(want, part[:len(want)]) {
			return wrong(Bytes, "bytes %d to %d of the file are wrong", off, off+int64(len(want)))
		}
		off += int64(len(want))
		part = part[len(want):]
	}
	return fine
}

// tag compares or writes the part of one placeholder that lies in tagging.part.
func (c *Checker) tag(at int64) {
	t := &c.tagging
	lo, hi := max(at, t.off), min(at+web99.TagName, t.off+int64(len(t.part)))
	if lo >= hi {
		return
	}
	here, name := t.part[lo-t.off:hi-t.off], t.name[lo-at:hi-at]
	if t.apply {
		copy(here, name)
		return
	}
	if !bytes.Equal(here, name) {
		t.bad = true
	}
	if hi == at+web99.TagName {
		t.r.tags++
	}
}
