// Package origin answers requests as the law demands, or wrongly in just the way a test asks for. It is the target of
// the driver's tests and shares nothing with the driver but the wire facts.
//
// Make an Origin and call Answer. It opens no socket.
package origin

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// Now is what its clock shows unless Wall is set, in Unix seconds.
const Now = 1_000_000_000

// ClockSlack is how far an expiry stays away from Now.
const ClockSlack = 10

// Tables makes tables of n users in which all kinds of outcome occur.
func Tables(n int) *web99.Tables {
	r := rand.New(rand.NewPCG(1, 2))
	var users, ads []byte
	for i := range n {
		users, _ = web99.AppendUser(users, web99.User{Index: int32(i), Demographics: 0x11100401 << (r.Uint32() % 2) & 0x3fffffff})
	}
	for i := range web99.Ads {
		a := web99.Ad{
			ID: int32(i), Demographics: r.Uint32() & 0x3fffffff, Weights: r.Uint32() & 0xfffff,
			MinMatch: int32(r.Uint32() % 40), Expiry: Now + int64(r.Uint32()%2000) - 1000,
		}
		if d := a.Expiry - Now; d >= -ClockSlack && d <= ClockSlack {
			a.Expiry += 20
		}
		ads, _ = web99.AppendAd(ads, &a)
	}
	tables, err := web99.ParseTables(users, ads)
	if err != nil {
		panic(err) // written a line before
	}
	return tables
}

// Origin answers requests as the law demands, without sharing code with the driver beyond the wire facts.
type Origin struct {
	Seed   uint64
	Tables *web99.Tables
	Routes workload.Routes

	Chunk  int                            // chunk size; 0: Content-Length
	Close  bool                           // every body ends with the connection
	Change func(a *Answer, op *Asked)     // misbehaviour
	Wall   int64                          // 0: Now
	Posted func(p web99.Post, user int32) // told of every POST

	Answered, Sent atomic.Int64 // responses and bytes of them, where the caller counts
	files          sync.Map     // contents by file
}

// Asked is a request as the origin understood it.
type Asked struct {
	Req  httpwire.Request
	Kind workload.Kind
	File fileset.File
}

// Answer is a response before it is framed.
type Answer struct {
	Status string
	Fields []string
	Body   []byte
	Last   bool
}

// Answer returns the bytes of the response and whether the connection ends after it.
func (o *Origin) Answer(req []byte) ([]byte, bool) {
	var q Asked
	n, status := httpwire.ParseRequest(req, &q.Req, nil)
	if n == 0 || status != 0 {
		return []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), true
	}
	a := o.compose(&q, req[n:])
	if o.Change != nil {
		o.Change(a, &q)
	}
	var b []byte
	b = append(b, "HTTP/1.1 "+a.Status+"\r\n"...)
	for _, f := range a.Fields {
		b = append(append(b, f...), "\r\n"...)
	}
	switch {
	case o.Close:
		a.Last = true
	case o.Chunk > 0 && q.Req.Proto == 11:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case !strings.Contains(strings.Join(a.Fields, "\n"), "Content-Length"):
		b = httpwire.AppendField(b, "Content-Length", string(httpwire.AppendInt(nil, int64(len(a.Body)))))
	}
	if a.Last {
		b = append(b, "Connection: close\r\n"...)
	} else if q.Req.Proto == 10 {
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	b = append(b, "\r\n"...)
	if o.Chunk == 0 || o.Close || q.Req.Proto != 11 {
		return append(b, a.Body...), a.Last
	}
	for rest := a.Body; len(rest) > 0; {
		k := min(o.Chunk, len(rest))
		b = httpwire.AppendChunkHead(b, int64(k))
		b = append(append(b, rest[:k]...), "\r\n"...)
		rest = rest[k:]
	}
	return append(b, httpwire.LastChunk...), a.Last
}

// content returns the bytes of a file; they may be changed if anything is to be changed.
func (o *Origin) content(f fileset.File) []byte {
	v, known := o.files.Load(f)
	if !known {
		var c fileset.Content
		c.Init(f, o.Seed)
		b := make([]byte, c.Size())
		c.Fill(b, 0)
		v, _ = o.files.LoadOrStore(f, b)
	}
	if o.Change != nil {
		return bytes.Clone(v.([]byte))
	}
	return v.([]byte)
}

func (o *Origin) compose(q *Asked, body []byte) *Answer {
	a := &Answer{Status: "200 OK", Last: !q.Req.KeepAlive}
	path := string(q.Req.Path)
	name := q.Req.Query
	switch path {
	case o.Routes.Get:
		q.Kind = workload.Get
	case o.Routes.CGI:
		q.Kind = workload.CGI
	case o.Routes.CAD:
		q.Kind = workload.CAD
	case o.Routes.Post:
		q.Kind = workload.Post
	default:
		q.Kind = workload.Static
		name = q.Req.Path
	}
	var cookie []byte
	switch q.Kind {
	case workload.CAD:
		c, _ := web99.ParseCookie(q.Req.Cookie)
		wall := o.Wall
		if wall == 0 {
			wall = Now
		}
		found := o.Tables.Select(c.User-web99.UserOffset, c.LastAd, wall)
		cookie = web99.AppendFound(nil, found)
		defer func() {
			if f, okay := fileset.Parse(name); okay && (f.Class == 1 || f.Class == 2) {
				a.Body = web99.Rewrite(nil, a.Body, web99.AppendAdFile(nil, found.Ad))
			}
		}()
	case workload.Post:
		p, okay := web99.ParsePost(body)
		c, okay2 := web99.ParseCookie(q.Req.Cookie)
		if !okay || !okay2 {
			a.Status = "400 Bad Request"
			return a
		}
		name = p.AppendFile(nil)
		cookie = web99.AppendUserCookie(nil, c.User)
		if o.Posted != nil {
			o.Posted(p, c.User)
		}
	}
	var okay bool
	if q.File, okay = fileset.Parse(name); !okay {
		a.Status = "404 Not Found"
		return a
	}
	content := o.content(q.File)
	if q.Kind == workload.Static {
		a.Fields = []string{"Content-Type: text/plain"}
		a.Body = content
		return a
	}
	a.Fields = []string{"Content-Type: text/html"}
	if cookie != nil {
		a.Fields = append(a.Fields, "Set-Cookie: "+string(cookie))
	}
	query := q.Req.Query
	a.Body = web99.AppendHead(nil, &web99.Wrapper{Software: []byte("origin"), Remote: []byte("127.0.0.2"), Script: []byte(path), Query: query})
	a.Body = append(append(a.Body, content...), web99.TailText...)
	return a
}
