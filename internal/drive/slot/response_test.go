package slot

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"tidemark.dev/internal/drive/slot/exchange"
	"tidemark.dev/internal/drive/slot/origin"
	"time"

	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// perform runs one operation against serve and returns the failure, exchange.None for success.
func perform(t *testing.T, s *sim, op workload.Op) exchange.Class {
	t.Helper()
	before, trips := s.w.sum, s.w.trips.count
	sl := &s.w.slots[0]
	s.w.target, s.w.running, s.w.above = 0, 1, 1
	sl.op = op
	s.w.begin(0, sl, s.now)
	s.run(s.now.Add(2 * time.Minute))
	d := s.w.sum.minus(before)
	if sl.state != gone || sl.linked || s.w.open != 0 {
		t.Fatalf("slot ends in state %d, linked %v, %d connections open", sl.state, sl.linked, s.w.open)
	}
	if d.ops+d.failed != 1 {
		t.Fatalf("%d operations, %d failed, want one of them", d.ops, d.failed)
	}
	for f := range trips {
		if s.w.trips.count[f] > trips[f] {
			return exchange.Class(f)
		}
	}
	return exchange.None
}

// TestEveryFaultHasItsClass lets a server misbehave in every way and asks whose fault the driver thinks it was.
func TestEveryFaultHasItsClass(t *testing.T) {
	class1 := fileset.File{Dir: 3, Class: 1, Num: 8}
	of := func(k workload.Kind) workload.Op { return workload.Op{Kind: k, User: 5, LastAd: 20, File: class1} }
	flip := func(b []byte, i int) []byte {
		b = bytes.Clone(b)
		b[i] ^= 1
		return b
	}
	cases := []struct {
		name   string
		kind   workload.Kind
		change func(a *origin.Answer, q *origin.Asked) // of a right answer
		wire   func(c *simConn, b []byte)              // instead of sending it
		dial   func(c *simConn)                        // instead of accepting
		want   exchange.Class
	}{
		{name: "right", want: exchange.None},
		{name: "refused", dial: func(c *simConn) { c.accept(0, syscall.ECONNREFUSED) }, want: exchange.Refused},
		{name: "reset in the handshake", dial: func(c *simConn) { c.accept(0, syscall.ECONNRESET) }, want: exchange.Reset},
		{name: "no route", dial: func(c *simConn) { c.accept(0, syscall.EHOSTUNREACH) }, want: exchange.Network},
		{name: "kernel gives up", dial: func(c *simConn) { c.accept(0, syscall.ETIMEDOUT) }, want: exchange.Timeout},
		{name: "no handshake", dial: func(c *simConn) {}, want: exchange.Timeout},
		{name: "no memory", dial: func(c *simConn) { c.accept(0, syscall.ENOBUFS) }, want: exchange.Memory},
		{name: "strange error", dial: func(c *simConn) { c.accept(0, syscall.EPERM) }, want: exchange.Unknown},
		{name: "closed without an answer", wire: func(c *simConn, b []byte) { c.fin(0) }, want: exchange.Closed},
		{name: "reset without an answer", wire: func(c *simConn, b []byte) { c.rst(0) }, want: exchange.Reset},
		{name: "closed in the head", wire: func(c *simConn, b []byte) { c.send(0, b[:20]); c.fin(0) }, want: exchange.Closed},
		{name: "closed in the body", wire: func(c *simConn, b []byte) { c.send(0, b[:len(b)-1]); c.fin(0) }, want: exchange.Closed},
		{name: "reset in the body", wire: func(c *simConn, b []byte) { c.send(0, b[:2000]); c.rst(time.Millisecond) }, want: exchange.Reset},
		{name: "stall before the answer", wire: func(c *simConn, b []byte) {}, want: exchange.Timeout},
		{name: "stall in the head", wire: func(c *simConn, b []byte) { c.send(0, b[:20]) }, want: exchange.Timeout},
		{name: "stall in the body", wire: func(c *simConn, b []byte) { c.send(0, b[:len(b)-1]) }, want: exchange.Timeout},
		{name: "slow head", wire: func(c *simConn, b []byte) {
			for i := range 60 { // each byte is progress
				c.send(time.Duration(i)*time.Second, b[i:i+1])
			}
			c.send(time.Minute, b[60:])
		}, want: exchange.None},
		{name: "bytes behind the body at once", wire: func(c *simConn, b []byte) { c.send(0, append(bytes.Clone(b), 'x')) }, want: exchange.Length},
		{name: "bytes behind the body later", wire: func(c *simConn, b []byte) { c.send(0, b); c.send(time.Millisecond, []byte("x")) }, want: exchange.Length},
		{name: "wrong byte", wire: func(c *simConn, b []byte) { c.send(0, flip(b, len(b)-5)) }, want: exchange.Bytes},
		{name: "not HTTP", wire: func(c *simConn, b []byte) { c.send(0, []byte("SSH-2.0-OpenSSH\r\n\r\n")) }, want: exchange.Malformed},
		{name: "interim answers", wire: func(c *simConn, b []byte) {
			c.send(0, append([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), b...))
		}, want: exchange.None},
		{name: "endless interim answers", wire: func(c *simConn, b []byte) {
			c.send(0, []byte(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20)))
		}, want: exchange.Malformed},
		{name: "status 404", change: func(a *origin.Answer, q *origin.Asked) { a.Status = "404 Not Found" }, want: exchange.Status},
		{name: "status 206", change: func(a *origin.Answer, q *origin.Asked) { a.Status = "206 Partial Content" }, want: exchange.Status},
		{name: "status 304", change: func(a *origin.Answer, q *origin.Asked) { a.Status, a.Body = "304 Not Modified", nil }, want: exchange.Status},
		{name: "file of another length", change: func(a *origin.Answer, q *origin.Asked) { a.Body = a.Body[:len(a.Body)-64] }, want: exchange.Length},
		{name: "longer file", change: func(a *origin.Answer, q *origin.Asked) { a.Body = append(a.Body, '\n') }, want: exchange.Length},
		{name: "two lengths", change: func(a *origin.Answer, q *origin.Asked) {
			a.Fields = append(a.Fields, "Content-Length: 9216", "Content-Length: 9217")
		}, want: exchange.Malformed},
		{name: "page with a byte too many", kind: workload.Get, change: func(a *origin.Answer, q *origin.Asked) { a.Body = append(a.Body, '\n') }, want: exchange.Length},
		{name: "page of another type", kind: workload.Get, change: func(a *origin.Answer, q *origin.Asked) { a.Fields[0] = "Content-Type: text/plain" }, want: exchange.Wrapper},
		{name: "file without its page", kind: workload.Get, change: func(a *origin.Answer, q *origin.Asked) { a.Body = a.Body[300:] }, want: exchange.Wrapper},
		{name: "page without its end", kind: workload.CGI, change: func(a *origin.Answer, q *origin.Asked) { a.Body[len(a.Body)-3] = 'X' }, want: exchange.Wrapper},
		{name: "page of another file", kind: workload.Get, change: func(a *origin.Answer, q *origin.Asked) {
			a.Body = bytes.Replace(a.Body, []byte("QUERY_STRING = /file_set/dir00003"), []byte("QUERY_STRING = /file_set/dir00004"), 1)
		}, want: exchange.Wrapper},
		{name: "page of another script", kind: workload.CGI, change: func(a *origin.Answer, q *origin.Asked) {
			a.Body = bytes.Replace(a.Body, []byte("SCRIPT_NAME = /web99/cgi"), []byte("SCRIPT_NAME = /web99/get"), 1)
		}, want: exchange.Wrapper},
		{name: "page that does not know who asks", kind: workload.Get, change: func(a *origin.Answer, q *origin.Asked) {
			a.Body = bytes.Replace(a.Body, []byte("REMOTE_ADDR = 127.0.0.2"), []byte("REMOTE_ADDR = localhost"), 1)
		}, want: exchange.Wrapper},
		{name: "no cookie", kind: workload.CAD, change: func(a *origin.Answer, q *origin.Asked) { a.Fields = a.Fields[:1] }, want: exchange.Cookie},
		{name: "cookie among others", kind: workload.CAD, change: func(a *origin.Answer, q *origin.Asked) {
			a.Fields = append([]string{a.Fields[0], "set-cookie: other=1"}, a.Fields[1:]...)
		}, want: exchange.None},
		{name: "broken cookie", kind: workload.CAD, change: func(a *origin.Answer, q *origin.Asked) { a.Fields[1] = "Set-Cookie: found_cookie=Ad_id=x" }, want: exchange.Cookie},
		{name: "another ad", kind: workload.CAD, change: func(a *origin.Answer, q *origin.Asked) {
			a.Fields[1] = "Set-Cookie: " + string(web99.AppendFound(nil, web99.Found{Ad: 359, Weight: 1}))
		}, want: exchange.Ad},
		{name: "ad not put into the page", kind: workload.CAD, change: func(a *origin.Answer, q *origin.Asked) {
			i := bytes.Index(a.Body, []byte(`"/file_set/dir0`)) + len(`"/file_set/`)
			copy(a.Body[i:], "dirNNNNN/classX_Y")
		}, want: exchange.Ad},
		{name: "wrong ad in the last tag", kind: workload.CAD, change: func(a *origin.Answer, q *origin.Asked) {
			i := bytes.LastIndex(a.Body, []byte(`"/file_set/dir0`)) + len(`"/file_set/`)
			a.Body[i+16] ^= 1
		}, want: exchange.Ad},
		{name: "wrong byte beside the ad", kind: workload.CAD, change: func(a *origin.Answer, q *origin.Asked) {
			i := bytes.Index(a.Body, []byte(`"/file_set/dir0`)) - 70
			a.Body[i] ^= 1
		}, want: exchange.Bytes},
		{name: "post without cookie", kind: workload.Post, change: func(a *origin.Answer, q *origin.Asked) { a.Fields = a.Fields[:1] }, want: exchange.Cookie},
		{name: "post of another user", kind: workload.Post, change: func(a *origin.Answer, q *origin.Asked) { a.Fields[1] = "Set-Cookie: my_cookie=10006" }, want: exchange.Cookie},
	}
	for _, chunk := range []int{0, 1000} {
		for _, pacing := range []string{Rated, None} {
			for _, c := range cases {
				if chunk > 0 && (c.wire != nil || c.dial != nil || c.name == "two lengths" || c.name == "status 304") {
					continue
				}
				name := c.name + " " + pacing
				if chunk > 0 {
					name += " chunked"
				}
				t.Run(name, func(t *testing.T) {
					if c.name == "bytes behind the body later" && pacing == None {
						t.Skip("the operation is over by then")
					}
					s := simulate(t, Plan{Count: 1, VerifyEvery: 1, Pacing: pacing, FileSeed: 4}, 30, 100)
					o := &origin.Origin{Seed: 4, Tables: s.tables, Routes: s.w.plan.Workload.Routes, Change: c.change, Chunk: chunk}
					s.dial = c.dial
					s.serve = func(conn *simConn, req []byte) {
						b, _ := o.Answer(req)
						if c.wire == nil {
							conn.send(time.Millisecond, b)
							return
						}
						c.wire(conn, b)
					}
					if got := perform(t, s, of(c.kind)); got != c.want {
						t.Errorf("class %q, want %q; %v", got, c.want, s.w.trips.errors())
					}
				})
			}
		}
	}
}

// TestBodyUntilTheEnd accepts a response that ends with the connection, in the right length only.
func TestBodyUntilTheEnd(t *testing.T) {
	for _, lack := range []int{0, 1} {
		s := simulate(t, Plan{Count: 1, VerifyEvery: 1, FileSeed: 4}, 30, 100)
		o := &origin.Origin{Seed: 4, Tables: s.tables, Routes: s.w.plan.Workload.Routes, Close: true}
		s.serve = func(c *simConn, req []byte) {
			b, _ := o.Answer(req)
			c.send(0, b[:len(b)-lack])
			c.fin(time.Millisecond)
		}
		want := [2]exchange.Class{exchange.None, exchange.Length}[lack]
		if got := perform(t, s, workload.Op{File: fileset.File{Class: 1}, HTTP10: true, Last: true}); got != want {
			t.Errorf("%d bytes missing: class %q, want %q", lack, got, want)
		}
	}
}
