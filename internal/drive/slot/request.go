package slot

import (
	"encoding/binary"
	"slices"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// requestText is the part of every request that never changes.
type requestText struct {
	start [workload.Kinds]string // method, blank, and for pages the route
	rest  [2]string              // from the blank before the version to the end of the constant fields: HTTP/1.1, HTTP/1.0
	root  []byte                 // urlroot of a POST
}

const agent = "tidemark"

func newRequestText(p *Plan) requestText {
	r := &p.Workload.Routes
	fields := "\r\nHost: " + p.Host + "\r\nUser-Agent: " + agent + "\r\n"
	return requestText{
		start: [workload.Kinds]string{
			workload.Static: "GET ", workload.Get: "GET " + r.Get + "?", workload.CGI: "GET " + r.CGI + "?",
			workload.CAD: "GET " + r.CAD + "?", workload.Post: "POST " + r.Post,
		},
		rest: [2]string{" HTTP/1.1" + fields, " HTTP/1.0" + fields},
		root: []byte("/file_set/"),
	}
}

// route returns the script of a page.
func (w *worker) route(k workload.Kind) string {
	r := &w.plan.Workload.Routes
	switch k {
	case workload.Get:
		return r.Get
	case workload.CGI:
		return r.CGI
	case workload.CAD:
		return r.CAD
	case workload.Post:
		return r.Post
	}
	return ""
}

// appendRequest appends the request of the slot's operation. No allocation when b has room.
//
// The session's last request asks for the end of the connection in both versions; HTTP/1.0 must ask for the
// opposite, too.
func (w *worker) appendRequest(b []byte, s *slot) []byte {
	op := &s.op
	b = append(b, w.text.start[op.Kind]...)
	if op.Kind != workload.Post {
		b = op.File.AppendPath(b)
	}
	version := 0
	if op.HTTP10 {
		version = 1
	}
	b = append(b, w.text.rest[version]...)
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
	// The body is written first, behind the room it takes, to know its length.
	p := web99.Post{URLRoot: w.text.root, Dir: op.File.Dir, Class: op.File.Class, Num: op.File.Num, Client: int32(s.number)}
	var room [128]byte
	body := web99.AppendPost(room[:0], &p)
	b = append(b, "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: "...)
	b = httpwire.AppendInt(b, int64(len(body)))
	b = append(b, "\r\n\r\n"...)
	return append(b, body...)
}

// Post lists the POSTs sent, in blocks, so that an operation may hold a pointer to its own entry.
type posts struct{ blocks [][]Post }

const postBlock = 4096

// add notes a POST as uncertain. It allocates once in 4,096 calls.
func (p *posts) add(s *slot) *Post {
	if n := len(p.blocks); n == 0 || len(p.blocks[n-1]) == postBlock {
		p.blocks = append(p.blocks, make([]Post, 0, postBlock))
	}
	last := &p.blocks[len(p.blocks)-1]
	f := s.op.File
	*last = append(*last, Post{Dir: f.Dir, Class: f.Class, Num: f.Num, User: s.op.User + web99.UserOffset, Client: s.number})
	return &(*last)[len(*last)-1]
}

// all returns a copy of the list.
func (p *posts) all() []Post {
	var out []Post
	for _, b := range p.blocks {
		out = append(out, b...)
	}
	return out
}

// postBytes is the encoded size of a Post.
const postBytes = 15

func appendPosts(b []byte, list []Post) []byte {
	b = slices.Grow(b, len(list)*postBytes)
	for _, p := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Dir))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.User))
		b = binary.LittleEndian.AppendUint32(b, p.Client)
		b = append(b, p.Class, p.Num, byte(p.State))
	}
	return b
}

func parsePosts(b []byte) ([]Post, error) {
	if len(b)%postBytes != 0 {
		return nil, fault.New(fault.Driver, "list of POSTs has %d bytes", len(b))
	}
	list := make([]Post, 0, len(b)/postBytes)
	for ; len(b) > 0; b = b[postBytes:] {
		list = append(list, Post{
			Dir: int32(binary.LittleEndian.Uint32(b)), User: int32(binary.LittleEndian.Uint32(b[4:])),
			Client: binary.LittleEndian.Uint32(b[8:]), Class: b[12], Num: b[13], State: PostState(b[14]),
		})
	}
	return list, nil
}
