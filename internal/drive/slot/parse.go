package slot

import (
	"bytes"
	"fmt"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// mishap says what is wrong with a response; the zero value, nothing.
type mishap struct {
	f    failure
	text string
}

var fine = mishap{}

// wrong describes a failure. It allocates: failures are followed by a back-off, so they are rare.
func wrong(f failure, format string, a ...any) mishap { return mishap{f, fmt.Sprintf(format, a...)} }

// maxInterim bounds the 1xx answers before a response.
const maxInterim = 8

// parse consumes response bytes: head, wrapper, file content, tail, in pieces of any size. It sets complete when
// the framing says so. No allocation, but for a head or wrapper that comes in pieces and finds no spare buffer.
func (w *worker) parse(s *slot, b []byte) mishap {
	if s.phase != inHead {
		return w.framed(s, b)
	}
	data := b
	if len(s.pend) > 0 {
		s.pend = append(s.pend, b...)
		data = s.pend
	}
	n := 0
	for interim := 0; ; interim++ {
		var err error
		n, err = httpwire.ParseResponse(data, &w.response, nil)
		if err != nil {
			return wrong(failMalformed, "%v", err)
		}
		if n == 0 {
			w.hold(s, data)
			return fine
		}
		if w.response.Status >= 200 || w.response.Status == 101 {
			break
		}
		if interim == maxInterim {
			return wrong(failMalformed, "%d interim responses", interim)
		}
		data = data[n:]
	}
	held := s.pend
	s.pend = nil
	s.head = int64(n)
	bad := w.judgeHead(s)
	if bad.f == noFailure {
		bad = w.framed(s, data[n:])
	}
	w.keep(&held)
	return bad
}

// hold keeps an unfinished beginning.
func (w *worker) hold(s *slot, data []byte) {
	if s.pend == nil {
		if n := len(w.spare); n > 0 {
			s.pend = w.spare[n-1]
			w.spare = w.spare[:n-1]
		} else {
			s.pend = make([]byte, 0, 4096)
		}
	}
	s.pend = append(s.pend[:0], data...)
}

// keep takes a buffer of hold back.
func (w *worker) keep(b *[]byte) {
	if *b != nil {
		w.spare = append(w.spare, (*b)[:0])
		*b = nil
	}
}

// judgeHead checks status, type, cookie and announced length.
func (w *worker) judgeHead(s *slot) mishap {
	r := &w.response
	if r.Status != 200 {
		return wrong(failStatus, "status %d", r.Status)
	}
	s.length, s.toEOF = r.BodyLength(false)
	s.chunked = r.Chunked
	if s.chunked {
		s.length, s.toEOF = -1, false
		s.chunks.Reset()
	}
	s.ends = s.op.Last || s.toEOF || !r.KeepAlive
	size := s.op.File.Size()
	expect := size
	s.phase = inFile
	if s.op.Kind != workload.Static {
		s.phase = inWrapper
		expect += wrapperGuess
		if !bytes.HasPrefix(r.ContentType, []byte("text/html")) {
			return wrong(failWrapper, "content type %q", r.ContentType)
		}
	} else if s.length >= 0 && s.length != size {
		return wrong(failLength, "%d bytes announced, the file has %d", s.length, size)
	}
	if s.share > 0 {
		if s.length >= 0 {
			expect = s.length
		}
		s.free = int64(s.share * float64(min(s.head, headCap)+expect))
	}
	switch s.op.Kind {
	case workload.CAD:
		return w.judgeAd(s)
	case workload.Post:
		return w.judgePost(s)
	}
	return fine
}

// wrapperGuess stands for the size of a page's wrapper where none is announced; only the point up to which a
// stationary start reads unpaced depends on it.
const wrapperGuess = 350

// judgeAd checks the cookie of an ad rotation against the tables.
func (w *worker) judgeAd(s *slot) mishap {
	var got web99.Found
	found := false
	for _, f := range w.response.Fields {
		if isSetCookie(f.Name) {
			if got, found = web99.ParseFound(f.Value); found {
				break
			}
		}
	}
	if !found {
		return wrong(failCookie, "no found_cookie in the answer to user %d", s.op.User)
	}
	s.ad = got.Ad
	if w.tables == nil {
		return fine
	}
	now := w.plan.Wall(s.first)
	want := w.tables.Select(s.op.User, s.op.LastAd, now)
	if got == want || sameAd(got, want) && w.nearExpiry(w.tables, want.Ad, now) {
		return fine
	}
	if w.former != nil && got == w.former.Select(s.op.User, s.op.LastAd, now) {
		return wrong(failTable, "user %d after ad %d: %v stood in the tables before the Reset, due %v", s.op.User, s.op.LastAd, got, want)
	}
	return wrong(failAd, "user %d after ad %d: %v instead of %v", s.op.User, s.op.LastAd, got, want)
}

func sameAd(a, b web99.Found) bool { return a.Ad == b.Ad && a.Weight == b.Weight }

// clockSlack is how far the target's calendar may stand from ours when an ad expires.
const clockSlack = 5

func (w *worker) nearExpiry(t *web99.Tables, ad int32, now int64) bool {
	if ad < 0 || int(ad) >= len(t.Ads) {
		return false
	}
	d := now - t.Ads[ad].Expiry
	return d >= -clockSlack && d <= clockSlack
}

func (w *worker) judgePost(s *slot) mishap {
	want := s.op.User + web99.UserOffset
	for _, f := range w.response.Fields {
		if !isSetCookie(f.Name) {
			continue
		}
		if got, found := web99.ParseUserCookie(f.Value); found {
			if got == want {
				return fine
			}
			return wrong(failCookie, "my_cookie=%d in the answer to user %d", got, want)
		}
	}
	return wrong(failCookie, "no my_cookie in the answer to user %d", want)
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
func (w *worker) framed(s *slot, b []byte) mishap {
	if !s.chunked {
		if s.length >= 0 && int64(len(b)) > s.length-s.body {
			return wrong(failLength, "%d bytes after the end of the response", int64(len(b))-(s.length-s.body))
		}
		bad := w.feed(s, b)
		s.complete = s.length >= 0 && s.body == s.length
		return bad
	}
	for len(b) > 0 {
		data, n, done, err := s.chunks.Next(b)
		if err != nil {
			return wrong(failMalformed, "%v", err)
		}
		b = b[n:]
		if bad := w.feed(s, data); bad.f != noFailure {
			return bad
		}
		if done {
			s.complete = true
			if len(b) > 0 {
				return wrong(failLength, "%d bytes after the end of the response", len(b))
			}
			return fine
		}
		if n == 0 {
			return wrong(failMalformed, "chunk decoder takes nothing of %d bytes", len(b))
		}
	}
	return fine
}

// feed checks body bytes in order.
func (w *worker) feed(s *slot, b []byte) mishap {
	s.body += int64(len(b))
	var held []byte
	if s.phase == inWrapper {
		data := b
		if len(s.pend) > 0 {
			s.pend = append(s.pend, b...)
			data = s.pend
		}
		n := web99.ParseHead(data, &w.wrapper)
		if n < 0 {
			return wrong(failWrapper, "the page does not begin as it must")
		}
		if n == 0 {
			w.hold(s, data)
			return fine
		}
		if bad := w.judgeWrapper(s, n); bad.f != noFailure {
			return bad
		}
		held, s.pend = s.pend, nil
		s.phase = inFile
		b = data[n:]
	}
	bad := w.contents(s, b)
	w.keep(&held)
	return bad
}

// judgeWrapper checks what the page says about the request, and with it the announced length.
func (w *worker) judgeWrapper(s *slot, n int) mishap {
	v := &w.wrapper
	if len(v.Software) == 0 {
		return wrong(failWrapper, "SERVER_SOFTWARE is empty")
	}
	if !isAddress(v.Remote) {
		return wrong(failWrapper, "REMOTE_ADDR %q is no address", v.Remote)
	}
	script := append(w.scratch[:0], w.route(s.op.Kind)...)
	if !web99.Holds(v.Script, script) {
		return wrong(failWrapper, "SCRIPT_NAME %q instead of %q", v.Script, script)
	}
	query := w.scratch[:0]
	if s.op.Kind != workload.Post {
		query = s.op.File.AppendPath(query)
	}
	if !web99.Holds(v.Query, query) {
		return wrong(failWrapper, "QUERY_STRING %q instead of %q", v.Query, query)
	}
	whole := int64(n) + s.op.File.Size() + int64(len(web99.TailText))
	if s.length >= 0 && s.length != whole {
		return wrong(failLength, "%d bytes announced, page and file have %d", s.length, whole)
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
func (w *worker) contents(s *slot, b []byte) mishap {
	if s.phase == inFile {
		size := s.op.File.Size()
		part := b[:min(int64(len(b)), size-s.at)]
		if bad := w.verify(s, part); bad.f != noFailure {
			return bad
		}
		s.at += int64(len(part))
		b = b[len(part):]
		if s.at == size {
			s.phase = atEnd
			if s.op.Kind != workload.Static {
				s.phase = inTail
			}
		}
	}
	if s.phase == inTail {
		rest := web99.TailText[s.tail:]
		n := min(len(rest), len(b))
		if string(b[:n]) != rest[:n] {
			return wrong(failWrapper, "the page does not end as it must")
		}
		s.tail += int16(n)
		b = b[n:]
		if int(s.tail) == len(web99.TailText) {
			s.phase = atEnd
		}
	}
	if len(b) > 0 && s.phase == atEnd {
		return wrong(failLength, "the body is longer than it must be")
	}
	return fine
}

// parseEnd checks that a response that has ended was whole.
func (w *worker) parseEnd(s *slot) mishap {
	switch s.phase {
	case atEnd:
		if s.sampled {
			w.sum.bodies++
			w.sum.bytes += s.op.File.Size()
		}
		w.sum.tags += uint64(s.tags)
		return fine
	case inWrapper:
		return wrong(failWrapper, "the page ends in its beginning")
	case inTail:
		return wrong(failWrapper, "the page ends in its end")
	}
	return wrong(failLength, "the body ends %d bytes into a file of %d", s.at, s.op.File.Size())
}

// tagging is the work of checkTag, which Content.Tags calls without room for arguments.
type tagging struct {
	s     *slot
	name  [web99.TagName]byte // the ad's file name
	part  []byte              // content bytes at off
	off   int64
	apply bool // write the name into part instead of comparing
	bad   bool
}

// rewritten reports whether the ad's name replaces the placeholders of this response.
func (s *slot) rewritten() bool {
	return s.op.Kind == workload.CAD && (s.op.File.Class == 1 || s.op.File.Class == 2)
}

// verify checks content bytes at the slot's offset: tags of a rotated ad always, everything when sampled.
func (w *worker) verify(s *slot, part []byte) mishap {
	tagged := s.rewritten()
	if len(part) == 0 || !tagged && !s.sampled {
		return fine
	}
	w.content.Init(s.op.File, w.plan.FileSeed)
	if !tagged {
		if i := w.content.Check(part, s.at); i >= 0 {
			return wrong(failBytes, "byte %d of the file is wrong", s.at+int64(i))
		}
		return fine
	}
	w.tagging = tagging{s: s, part: part, off: s.at}
	copy(w.tagging.name[:], web99.AppendAdFile(w.scratch[:0], s.ad))
	w.content.Tags(w.onTag)
	if w.tagging.bad {
		return wrong(failAd, "file %s does not show ad %d", s.op.File, s.ad)
	}
	if !s.sampled {
		return fine
	}
	for off := s.at; len(part) > 0; {
		want := w.scratch[:min(len(part), len(w.scratch))]
		w.content.Fill(want, off)
		w.tagging.part, w.tagging.off, w.tagging.apply = want, off, true
		w.content.Tags(w.onTag)
		if !bytes.Equal(want, part[:len(want)]) {
			return wrong(failBytes, "bytes %d to %d of the file are wrong", off, off+int64(len(want)))
		}
		off += int64(len(want))
		part = part[len(want):]
	}
	return fine
}

// checkTag compares or writes the part of one placeholder that lies in tagging.part.
func (w *worker) checkTag(at int64) {
	t := &w.tagging
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
		t.s.tags++
	}
}

// unixWall is the default of Plan.Wall.
func unixWall(i clock.Instant) int64 { return clock.Wall(i).Unix() }
