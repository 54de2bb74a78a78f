package host

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"tidemark.dev/internal/serve/host/cgi"
	"tidemark.dev/page"
)

// FastCGIOptions limit a FastCGI responder; zero means the default.
type FastCGIOptions struct {
	MaxBody  int64         // largest request body in bytes; 1 MiB. Larger ones get a 413
	MaxConns int           // connections open at once; 1024. More wait in the listener's backlog
	Idle     time.Duration // time without a record before a connection is closed; 0 keeps it
}

const (
	defaultConns = 1024
	// maxParams is the largest set of variables of one request, in bytes.
	maxParams = 256 << 10
	// flushAt is the amount of output after which a connection writes, in bytes.
	flushAt = 128 << 10
)

// FastCGI is a FastCGI responder for a set. Each connection carries one request at a time and is kept if
// the web server asks for that.
type FastCGI struct {
	s *Set
	o FastCGIOptions

	mu     sync.Mutex
	closed bool
	open   map[io.Closer]struct{} // listeners and connections
	run    sync.WaitGroup
	places chan struct{}
}

// FastCGI makes a responder.
func (s *Set) FastCGI(o FastCGIOptions) *FastCGI {
	if o.MaxBody <= 0 {
		o.MaxBody = MaxBody
	}
	if o.MaxConns <= 0 {
		o.MaxConns = defaultConns
	}
	return &FastCGI{s: s, o: o, open: map[io.Closer]struct{}{}, places: make(chan struct{}, o.MaxConns)}
}

// Serve accepts connections from l until Close; then it returns nil. It takes over l. May be called for
// several listeners at once.
func (f *FastCGI) Serve(l net.Listener) error {
	if !f.enter(l) {
		_ = l.Close()
		return nil
	}
	defer f.leave(l)
	for {
		f.places <- struct{}{}
		c, err := l.Accept()
		if err != nil {
			<-f.places
			if f.isClosed() {
				return nil
			}
			if !temporary(err) {
				return err
			}
			time.Sleep(10 * time.Millisecond) // out of descriptors: let some be closed
			continue
		}
		if !f.enter(c) {
			<-f.places
			_ = c.Close()
			return nil
		}
		go func() {
			defer func() { <-f.places }()
			defer f.leave(c)
			newConn(f, c).serve()
		}()
	}
}

func temporary(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOBUFS)
}

// Close stops accepting, closes every connection and waits until the pages have returned.
func (f *FastCGI) Close() error {
	f.mu.Lock()
	f.closed = true
	for c := range f.open {
		_ = c.Close()
	}
	f.mu.Unlock()
	f.run.Wait()
	return nil
}

func (f *FastCGI) isClosed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.closed
}

func (f *FastCGI) enter(c io.Closer) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.open[c] = struct{}{}
		f.run.Add(1)
	}
	return !f.closed
}

func (f *FastCGI) leave(c io.Closer) {
	f.mu.Lock()
	delete(f.open, c)
	f.mu.Unlock()
	_ = c.Close()
	f.run.Done()
}

// conn is one connection and the buffers it keeps from request to request.
type conn struct {
	f  *FastCGI
	c  net.Conn
	in *bufio.Reader

	id      uint16 // of the request being received; 0 if none
	keep    bool
	tooBig  bool
	started bool // its variables are complete
	params  []byte
	body    []byte
	meta    cgi.Meta
	rs      page.Response
	out     []byte
	open    int // where the output's last record begins in out; -1 if none is open
	record  [1 << 16]byte
}

func newConn(f *FastCGI, c net.Conn) *conn {
	return &conn{f: f, c: c, in: bufio.NewReaderSize(c, 16<<10), open: -1}
}

// serve handles records until the connection ends. What was wrong is not reported: there is nobody to
// tell but the other side, and that sees the connection close.
func (c *conn) serve() {
	defer c.rs.Reset()
	for {
		if c.f.o.Idle > 0 {
			_ = c.c.SetReadDeadline(time.Now().Add(c.f.o.Idle))
		}
		rec, err := readRecord(c.in, &c.record)
		if err != nil {
			return
		}
		more, err := c.handle(rec)
		if err == nil && len(c.out) > 0 {
			err = c.flush()
		}
		if err != nil || !more {
			return
		}
	}
}

var errProtocol = errors.New("fastcgi: record out of place")

// handle takes one record; more is false when the connection is to be closed.
func (c *conn) handle(rec record) (more bool, err error) {
	switch {
	case rec.id == 0 && rec.kind == fcgiGetValues:
		return true, c.values(rec.content)
	case rec.id == 0:
		c.out = appendRecordHeader(c.out, fcgiUnknown, 0, 8)
		c.out = append(c.out, rec.kind, 0, 0, 0, 0, 0, 0, 0)
		return true, nil
	case rec.kind == fcgiBegin:
		return c.begin(rec)
	case rec.id != c.id:
		return true, nil // of a request that was refused or aborted
	case rec.kind == fcgiAbort:
		c.out = appendEnd(c.out, c.id, fcgiComplete)
		c.id = 0
		return c.keep, nil
	case rec.kind == fcgiParams && !c.started:
		c.started = len(rec.content) == 0
		c.params = append(c.params, rec.content...)
		if len(c.params) > maxParams {
			return false, errProtocol
		}
		return true, nil
	case rec.kind == fcgiStdin && c.started:
		if len(rec.content) == 0 {
			return c.keep, c.answer()
		}
		if c.tooBig = c.tooBig || int64(len(c.body)+len(rec.content)) > c.f.o.MaxBody; !c.tooBig {
			c.body = append(c.body, rec.content...)
		}
		return true, nil
	case rec.kind == fcgiData:
		return true, nil
	}
	return false, errProtocol
}

func (c *conn) begin(rec record) (more bool, err error) {
	if len(rec.content) != 8 {
		return false, errProtocol
	}
	if c.id != 0 {
		c.out = appendEnd(c.out, rec.id, fcgiNoMultiple)
		return true, nil
	}
	keep := rec.content[2]&fcgiKeepConn != 0
	if rec.content[0] != 0 || rec.content[1] != fcgiResponder {
		c.out = appendEnd(c.out, rec.id, fcgiNoSuchRole)
		return keep, nil
	}
	c.id, c.keep, c.started, c.tooBig = rec.id, keep, false, false
	c.params, c.body = c.params[:0], c.body[:0]
	return true, nil
}

// values answers GET_VALUES.
func (c *conn) values(asked []byte) error {
	var b []byte
	if err := eachPair(asked, func(name, _ []byte) {
		switch string(name) {
		case "FCGI_MAX_CONNS", "FCGI_MAX_REQS":
			b = appendPair(b, string(name), strconv.Itoa(c.f.o.MaxConns))
		case "FCGI_MPXS_CONNS":
			b = appendPair(b, string(name), "0")
		}
	}); err != nil {
		return err
	}
	c.out = append(appendRecordHeader(c.out, fcgiValues, 0, len(b)), b...)
	return nil
}

// answer serves the request that is now complete.
func (c *conn) answer() error {
	c.meta.Reset()
	if err := eachPair(c.params, c.meta.Add); err != nil {
		return err
	}
	rq, length, err := c.meta.Request()
	c.rs.Reset()
	switch {
	case err != nil:
		refuse(&c.rs, 400, "malformed request")
		rq = &page.Request{}
	case c.tooBig:
		refuse(&c.rs, 413, "request body too large")
	case length != int64(len(c.body)):
		refuse(&c.rs, 400, "request body incomplete")
	default:
		rq.Body = c.body
		c.page(rq)
	}
	err = c.write(string(rq.Method) == "HEAD")
	c.rs.Reset()
	c.id = 0
	if cap(c.body) > MaxBody {
		c.body = nil
	}
	return err
}

// page runs the page. For one that may take long it watches the connection, and tells the page when the
// web server aborts the request or goes away.
func (c *conn) page(rq *page.Request) {
	d, ok := c.f.s.byPath[string(rq.Script)].(page.Detacher)
	if !ok || !d.Detached(rq) {
		c.f.s.serve(rq, &c.rs)
		return
	}
	done, watched := make(chan struct{}), make(chan struct{})
	rq.Done = done
	_ = c.c.SetReadDeadline(time.Time{})
	go func() {
		defer close(watched)
		// No record may come before our answer, except an abort.
		h, err := c.in.Peek(2)
		if err == nil && h[1] == fcgiAbort || err != nil && !timedOut(err) {
			close(done)
		}
	}()
	c.f.s.serve(rq, &c.rs)
	_ = c.c.SetReadDeadline(time.Unix(1, 0))
	<-watched
	_ = c.c.SetReadDeadline(time.Time{})
}

func timedOut(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

// write writes the response and the end of the request.
func (c *conn) write(head bool) error {
	v := c.rs.View()
	var h [page.Room]byte
	err := c.stream(cgi.AppendHeader(h[:0], &v))
	if !head && err == nil {
		if err = c.stream(v.Head); err == nil {
			err = c.file(&v.File)
		}
		if err == nil {
			err = c.stream(v.Tail)
		}
	}
	if err != nil {
		return err
	}
	c.endRecord()
	c.out = appendRecordHeader(c.out, fcgiStdout, c.id, 0)
	c.out = appendEnd(c.out, c.id, fcgiComplete)
	return c.flush()
}

// file streams a file. If it is shorter than it said, the answer cannot be completed.
func (c *conn) file(f *page.File) error {
	if f.InMemory() {
		return c.stream(f.Bytes)
	}
	for at := int64(0); at < f.Size; {
		want := int(min(f.Size-at, fcgiMost, int64(c.room())))
		begin := len(c.out)
		c.out = append(c.out, make([]byte, want)...)
		n, err := f.ReadAt(c.out[begin:], at)
		if n < want {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		at += int64(n)
		if err := c.flushIfFull(); err != nil {
			return err
		}
	}
	return nil
}

// stream appends b to the output, in records.
func (c *conn) stream(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), c.room())
		c.out = append(c.out, b[:n]...)
		b = b[n:]
		if err := c.flushIfFull(); err != nil {
			return err
		}
	}
	return nil
}

// room opens a record if none is open, and returns how much goes into it, at least 1.
func (c *conn) room() int {
	if c.open >= 0 && len(c.out)-c.open == fcgiHeader+fcgiMost {
		c.endRecord()
	}
	if c.open < 0 {
		c.open = len(c.out)
		c.out = appendRecordHeader(c.out, fcgiStdout, c.id, 0)
	}
	return fcgiHeader + fcgiMost - (len(c.out) - c.open)
}

// endRecord puts the length into the open record.
func (c *conn) endRecord() {
	if c.open < 0 {
		return
	}
	n := len(c.out) - c.open - fcgiHeader
	c.out[c.open+4], c.out[c.open+5] = byte(n>>8), byte(n)
	c.open = -1
}

func (c *conn) flushIfFull() error {
	if len(c.out) < flushAt {
		return nil
	}
	c.endRecord()
	return c.flush()
}

func (c *conn) flush() error {
	_, err := c.c.Write(c.out)
	c.out = c.out[:0]
	return err
}
