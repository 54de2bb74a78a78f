// Package exchange is one operation as bytes: the request a slot sends, and the check of everything that comes back.
//
// Make a Checker for each loop; AppendRequest writes a request, and a Reply, begun for each operation, takes the
// response in pieces of any size through Checker.Take, until it is Complete or the connection ends and Checker.End
// has the last word. Status and length of every response are checked, the wrapper of every page, the cookies and the
// ad of every rotation; bodies are compared byte for byte where asked.
//
// The package knows no connection, no time and no pacing, keeps no response, and decides nothing about a failed
// operation but its class.
package exchange

import (
	"fmt"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// HeadCap is how many header bytes count as received, so that verbose headers earn no credit.
const HeadCap = 512

// Mishap says what is wrong with a response; the zero value, nothing.
type Mishap struct {
	Class Class
	Text  string
}

var fine = Mishap{}

// wrong describes a failure. It allocates: failures are followed by a back-off, so they are rare.
func wrong(c Class, format string, a ...any) Mishap { return Mishap{c, fmt.Sprintf(format, a...)} }

// phase is the part of the response that comes next.
type phase uint8

const (
	inHead phase = iota
	inWrapper
	inFile
	inTail
	atEnd
)

// Reply is the state of one response, without its bytes. A plain value of about 170 bytes; begin it with Begin.
type Reply struct {
	Head   int64 // bytes of status line and headers
	Body   int64 // bytes of the body, framing removed
	Length int64 // announced length of the body, -1 none

	Complete bool // the framing says that all is there
	Ends     bool // the connection ends with this response
	ToEOF    bool // the body ends with the connection

	compare bool // byte for byte
	chunked bool
	phase   phase
	tail    uint8 // bytes of the wrapper's tail seen
	tags    uint8 // ad tags checked
	ad      int32 // the ad the response must show, -1 none
	at      int64 // offset in the file
	chunks  httpwire.Chunks
	pend    []byte // beginning of a head or wrapper that came in pieces; from Checker.spare
}

// Begin makes r ready for the response to another request; compare asks for its body to be compared with the file.
func (r *Reply) Begin(compare bool) {
	r.Head, r.Body, r.Length, r.at = 0, 0, -1, 0
	r.Complete, r.Ends, r.ToEOF, r.chunked, r.compare = false, false, false, false, compare
	r.phase, r.tail, r.tags, r.ad = inHead, 0, 0, -1
}

// Counted returns the HTTP-layer bytes received: headers up to HeadCap, and body.
func (r *Reply) Counted() int64 { return min(r.Head, HeadCap) + r.Body }

// Begun reports whether the whole head has come.
func (r *Reply) Begun() bool { return r.phase != inHead }

// Expected returns how many HTTP-layer bytes the response will have: exactly where a length was announced, else
// within the size of a page's wrapper.
func (r *Reply) Expected(op *workload.Op) int64 {
	switch {
	case r.Length >= 0:
		return min(r.Head, HeadCap) + r.Length
	case op.Kind == workload.Static:
		return min(r.Head, HeadCap) + op.File.Size()
	}
	return min(r.Head, HeadCap) + op.File.Size() + typicalWrapper
}

const typicalWrapper = 350

// Checked counts what was compared.
type Checked struct {
	Bodies uint64 // bodies compared byte for byte
	Bytes  int64  // bytes in them
	Tags   uint64 // ad substitutions checked
}

// Minus returns what was added since b.
func (a Checked) Minus(b Checked) Checked {
	return Checked{a.Bodies - b.Bodies, a.Bytes - b.Bytes, a.Tags - b.Tags}
}

// Checker writes requests and checks responses, for one loop at a time. One goroutine.
type Checker struct {
	// Checked counts what was compared so far.
	Checked Checked

	text     text
	routes   workload.Routes
	seed     uint64
	wall     func(clock.Instant) int64
	tables   *web99.Tables
	former   *web99.Tables // the tables before, to recognise answers from them
	response httpwire.Response
	wrapper  web99.Wrapper
	content  fileset.Content
	scratch  []byte
	spare    [][]byte
	tagging  tagging
	onTag    func(off int64)
}

// New returns a checker for a target called host and a file set of that seed. wall gives Unix seconds, to tell which
// ads have expired.
func New(host string, routes workload.Routes, seed uint64, wall func(clock.Instant) int64) *Checker {
	c := &Checker{text: newText(host, &routes), routes: routes, seed: seed, wall: wall, scratch: make([]byte, 16<<10)}
	c.response.Fields = make([]httpwire.Field, 0, httpwire.DefaultFields)
	c.onTag = c.tag
	return c
}

// SetTables replaces the tables the ad rotation is checked against. Without any, only its form is checked.
func (c *Checker) SetTables(t *web99.Tables) { c.former, c.tables = c.tables, t }

// hold keeps an unfinished beginning.
func (c *Checker) hold(r *Reply, data []byte) {
	if r.pend == nil {
		if n := len(c.spare); n > 0 {
			r.pend = c.spare[n-1]
			c.spare = c.spare[:n-1]
		} else {
			r.pend = make([]byte, 0, 4096)
		}
	}
	r.pend = append(r.pend[:0], data...)
}

// keep takes a buffer of hold back.
func (c *Checker) keep(b *[]byte) {
	if *b != nil {
		c.spare = append(c.spare, (*b)[:0])
		*b = nil
	}
}

// Drop gives up a response that will not be finished.
func (c *Checker) Drop(r *Reply) { c.keep(&r.pend) }

// text is the part of every request that never changes.
type text struct {
	start [workload.Kinds]string // method, blank, and for pages the route
	rest  [2]string              // from the blank before the version to the end of the constant fields: HTTP/1.1, HTTP/1.0
	root  []byte                 // urlroot of a POST
}

const agent = "tidemark"

func newText(host string, r *workload.Routes) text {
	fields := "\r\nHost: " + host + "\r\nUser-Agent: " + agent + "\r\n"
	return text{
		start: [workload.Kinds]string{
			workload.Static: "GET ", workload.Get: "GET " + r.Get + "?", workload.CGI: "GET " + r.CGI + "?",
			workload.CAD: "GET " + r.CAD + "?", workload.Post: "POST " + r.Post,
		},
		rest: [2]string{" HTTP/1.1" + fields, " HTTP/1.0" + fields},
		root: []byte("/" + fileset.Root + "/"),
	}
}

// route returns the script of a page.
func (c *Checker) route(k workload.Kind) string {
	switch k {
	case workload.Get:
		return c.routes.Get
	case workload.CGI:
		return c.routes.CGI
	case workload.CAD:
		return c.routes.CAD
	}
	return c.routes.Post
}

// AppendRequest appends the request of an operation; client is the client field of a POST.
//
// The session's last request asks for the end of the connection in both versions of the protocol; in HTTP/1.0 the
// others must ask for the opposite.
//
// Loop goroutine. No allocation when b has room. Never blocks.
func (c *Checker) AppendRequest(b []byte, op *workload.Op, client int32) []byte {
	b = append(b, c.text.start[op.Kind]...)
	if op.Kind != workload.Post {
		b = op.File.AppendPath(b)
	}
	version := 0
	if op.HTTP10 {
		version = 1
	}
	b = append(b, c.text.rest[version]...)
	if op.Kind == workload.CAD || op.Kind == workload.Post {
		b = append(b, "Cookie: "...)
		b = web99.AppendCookie(b, web99.Cookie{User: op.User + web99.UserOffset, LastAd: max(0, op.LastAd)})
		b = append(b, "\r\n"...)
	}
	switch {
	case op.Last:
		b = append(b, "Connection: close\r\n"...)
	case op.HTTP10:
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	if op.Kind != workload.Post {
		return append(b, "\r\n"...)
	}
	p := web99.Post{URLRoot: c.text.root, Dir: op.File.Dir, Class: op.File.Class, Num: op.File.Num, Client: client}
	body := web99.AppendPost(c.scratch[:0], &p) // first, to know its length
	b = append(b, "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: "...)
	b = httpwire.AppendInt(b, int64(len(body)))
	b = append(b, "\r\n\r\n"...)
	return append(b, body...)
}
