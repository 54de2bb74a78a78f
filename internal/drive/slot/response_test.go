package slot

import (
	"bytes"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// oneOf has an operation of every kind on a file of every class.
func oneOf() (ops []workload.Op) {
	for k := range workload.Kind(workload.Kinds) {
		for class := range uint8(3) {
			ops = append(ops, workload.Op{Kind: k, User: 3, LastAd: int32(7 * class), File: fileset.File{Dir: 12, Class: class, Num: 1}})
		}
	}
	return ops
}

// TestEveryResponseIsAcceptedInAnyPieces splits right answers at every byte, and sends them byte by byte.
func TestEveryResponseIsAcceptedInAnyPieces(t *testing.T) {
	for name, chunk := range map[string]int{"length": 0, "chunked": 700, "tiny chunks": 3} {
		t.Run(name, func(t *testing.T) {
			for _, op := range oneOf() {
				s := simulate(t, Plan{Count: 1, VerifyEvery: 1, Pacing: None, FileSeed: 4}, 30, 100)
				o := &origin{seed: 4, tables: s.w.tables, routes: s.w.plan.Workload.Routes, chunk: chunk}
				cut, whole := -1, 1
				s.serve = func(c *simConn, req []byte) {
					b, _ := o.answer(req)
					whole = len(b)
					if cut < 0 {
						for i := range b {
							c.send(time.Duration(i)*time.Microsecond, b[i:i+1])
						}
						return
					}
					c.send(time.Microsecond, b[:cut])
					c.send(2*time.Microsecond, b[cut:])
				}
				step := 1
				if op.File.Class != 1 {
					step = 53
				}
				for ; cut < whole; cut += step {
					if cut > 600 { // wrapper and head are behind us
						step = 997
					}
					before := s.w.sum
					s.w.target = 0
					sl := &s.w.slots[0]
					s.w.running, s.w.above = 1, 1
					sl.op = op
					s.w.begin(0, sl, s.now)
					s.run(s.now.Add(time.Second))
					if d := s.w.sum.minus(before); d.ops != 1 || d.failed != 0 {
						t.Fatalf("%v of %v cut at %d: %d operations, %d failed: %v", op.Kind, op.File, cut, d.ops, d.failed, s.w.trips.errors())
					}
				}
				tags := uint64(0)
				if op.Kind == workload.CAD && op.File.Class > 0 {
					var c fileset.Content
					c.Init(op.File, 4)
					c.Tags(func(int64) { tags++ })
					if tags == 0 {
						t.Fatalf("%v has no tags to check", op.File)
					}
				}
				if n := s.w.sum; n.tags != tags*n.ops || n.bodies != n.ops || n.bytes != int64(n.ops)*op.File.Size() {
					t.Errorf("%v of %v: %d operations checked %d tags, %d bodies, %d bytes", op.Kind, op.File, n.ops, n.tags, n.bodies, n.bytes)
				}
			}
		})
	}
}

// perform runs one operation against serve and returns the failure, noFailure for success.
func perform(t *testing.T, s *sim, op workload.Op) failure {
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
			return failure(f)
		}
	}
	return noFailure
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
		change func(a *answer, q *asked)  // of a right answer
		wire   func(c *simConn, b []byte) // instead of sending it
		dial   func(c *simConn)           // instead of accepting
		want   failure
	}{
		{name: "right", want: noFailure},
		{name: "refused", dial: func(c *simConn) { c.accept(0, syscall.ECONNREFUSED) }, want: failRefused},
		{name: "reset in the handshake", dial: func(c *simConn) { c.accept(0, syscall.ECONNRESET) }, want: failReset},
		{name: "no route", dial: func(c *simConn) { c.accept(0, syscall.EHOSTUNREACH) }, want: failNetwork},
		{name: "kernel gives up", dial: func(c *simConn) { c.accept(0, syscall.ETIMEDOUT) }, want: failTimeout},
		{name: "no handshake", dial: func(c *simConn) {}, want: failTimeout},
		{name: "no memory", dial: func(c *simConn) { c.accept(0, syscall.ENOBUFS) }, want: failMemory},
		{name: "strange error", dial: func(c *simConn) { c.accept(0, syscall.EPERM) }, want: failUnknown},
		{name: "closed without an answer", wire: func(c *simConn, b []byte) { c.fin(0) }, want: failClosed},
		{name: "reset without an answer", wire: func(c *simConn, b []byte) { c.rst(0) }, want: failReset},
		{name: "closed in the head", wire: func(c *simConn, b []byte) { c.send(0, b[:20]); c.fin(0) }, want: failClosed},
		{name: "closed in the body", wire: func(c *simConn, b []byte) { c.send(0, b[:len(b)-1]); c.fin(0) }, want: failClosed},
		{name: "reset in the body", wire: func(c *simConn, b []byte) { c.send(0, b[:2000]); c.rst(time.Millisecond) }, want: failReset},
		{name: "stall before the answer", wire: func(c *simConn, b []byte) {}, want: failTimeout},
		{name: "stall in the head", wire: func(c *simConn, b []byte) { c.send(0, b[:20]) }, want: failTimeout},
		{name: "stall in the body", wire: func(c *simConn, b []byte) { c.send(0, b[:len(b)-1]) }, want: failTimeout},
		{name: "slow head", wire: func(c *simConn, b []byte) {
			for i := range 60 { // each byte is progress
				c.send(time.Duration(i)*time.Second, b[i:i+1])
			}
			c.send(time.Minute, b[60:])
		}, want: noFailure},
		{name: "bytes behind the body at once", wire: func(c *simConn, b []byte) { c.send(0, append(bytes.Clone(b), 'x')) }, want: failLength},
		{name: "bytes behind the body later", wire: func(c *simConn, b []byte) { c.send(0, b); c.send(time.Millisecond, []byte("x")) }, want: failLength},
		{name: "wrong byte", wire: func(c *simConn, b []byte) { c.send(0, flip(b, len(b)-5)) }, want: failBytes},
		{name: "not HTTP", wire: func(c *simConn, b []byte) { c.send(0, []byte("SSH-2.0-OpenSSH\r\n\r\n")) }, want: failMalformed},
		{name: "interim answers", wire: func(c *simConn, b []byte) {
			c.send(0, append([]byte("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"), b...))
		}, want: noFailure},
		{name: "endless interim answers", wire: func(c *simConn, b []byte) {
			c.send(0, []byte(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20)))
		}, want: failMalformed},
		{name: "status 404", change: func(a *answer, q *asked) { a.status = "404 Not Found" }, want: failStatus},
		{name: "status 206", change: func(a *answer, q *asked) { a.status = "206 Partial Content" }, want: failStatus},
		{name: "status 304", change: func(a *answer, q *asked) { a.status, a.body = "304 Not Modified", nil }, want: failStatus},
		{name: "file of another length", change: func(a *answer, q *asked) { a.body = a.body[:len(a.body)-64] }, want: failLength},
		{name: "longer file", change: func(a *answer, q *asked) { a.body = append(a.body, '\n') }, want: failLength},
		{name: "two lengths", change: func(a *answer, q *asked) {
			a.fields = append(a.fields, "Content-Length: 9216", "Content-Length: 9217")
		}, want: failMalformed},
		{name: "page with a byte too many", kind: workload.Get, change: func(a *answer, q *asked) { a.body = append(a.body, '\n') }, want: failLength},
		{name: "page of another type", kind: workload.Get, change: func(a *answer, q *asked) { a.fields[0] = "Content-Type: text/plain" }, want: failWrapper},
		{name: "file without its page", kind: workload.Get, change: func(a *answer, q *asked) { a.body = a.body[300:] }, want: failWrapper},
		{name: "page without its end", kind: workload.CGI, change: func(a *answer, q *asked) { a.body[len(a.body)-3] = 'X' }, want: failWrapper},
		{name: "page of another file", kind: workload.Get, change: func(a *answer, q *asked) {
			a.body = bytes.Replace(a.body, []byte("QUERY_STRING = /file_set/dir00003"), []byte("QUERY_STRING = /file_set/dir00004"), 1)
		}, want: failWrapper},
		{name: "page of another script", kind: workload.CGI, change: func(a *answer, q *asked) {
			a.body = bytes.Replace(a.body, []byte("SCRIPT_NAME = /web99/cgi"), []byte("SCRIPT_NAME = /web99/get"), 1)
		}, want: failWrapper},
		{name: "page that does not know who asks", kind: workload.Get, change: func(a *answer, q *asked) {
			a.body = bytes.Replace(a.body, []byte("REMOTE_ADDR = 127.0.0.2"), []byte("REMOTE_ADDR = localhost"), 1)
		}, want: failWrapper},
		{name: "no cookie", kind: workload.CAD, change: func(a *answer, q *asked) { a.fields = a.fields[:1] }, want: failCookie},
		{name: "cookie among others", kind: workload.CAD, change: func(a *answer, q *asked) {
			a.fields = append([]string{a.fields[0], "set-cookie: other=1"}, a.fields[1:]...)
		}, want: noFailure},
		{name: "broken cookie", kind: workload.CAD, change: func(a *answer, q *asked) { a.fields[1] = "Set-Cookie: found_cookie=Ad_id=x" }, want: failCookie},
		{name: "another ad", kind: workload.CAD, change: func(a *answer, q *asked) {
			a.fields[1] = "Set-Cookie: " + string(web99.AppendFound(nil, web99.Found{Ad: 359, Weight: 1}))
		}, want: failAd},
		{name: "ad not put into the page", kind: workload.CAD, change: func(a *answer, q *asked) {
			i := bytes.Index(a.body, []byte(`"/file_set/dir0`)) + len(`"/file_set/`)
			copy(a.body[i:], "dirNNNNN/classX_Y")
		}, want: failAd},
		{name: "wrong ad in the last tag", kind: workload.CAD, change: func(a *answer, q *asked) {
			i := bytes.LastIndex(a.body, []byte(`"/file_set/dir0`)) + len(`"/file_set/`)
			a.body[i+16] ^= 1
		}, want: failAd},
		{name: "wrong byte beside the ad", kind: workload.CAD, change: func(a *answer, q *asked) {
			i := bytes.Index(a.body, []byte(`"/file_set/dir0`)) - 70
			a.body[i] ^= 1
		}, want: failBytes},
		{name: "post without cookie", kind: workload.Post, change: func(a *answer, q *asked) { a.fields = a.fields[:1] }, want: failCookie},
		{name: "post of another user", kind: workload.Post, change: func(a *answer, q *asked) { a.fields[1] = "Set-Cookie: my_cookie=10006" }, want: failCookie},
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
					o := &origin{seed: 4, tables: s.w.tables, routes: s.w.plan.Workload.Routes, change: c.change, chunk: chunk}
					s.dial = c.dial
					s.serve = func(conn *simConn, req []byte) {
						b, _ := o.answer(req)
						if c.wire == nil {
							conn.send(time.Millisecond, b)
							return
						}
						c.wire(conn, b)
					}
					if got := perform(t, s, of(c.kind)); got != c.want {
						t.Errorf("class %q, want %q; %v", classes[got], classes[c.want], s.w.trips.errors())
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
		o := &origin{seed: 4, tables: s.w.tables, routes: s.w.plan.Workload.Routes, close: true}
		s.serve = func(c *simConn, req []byte) {
			b, _ := o.answer(req)
			c.send(0, b[:len(b)-lack])
			c.fin(time.Millisecond)
		}
		want := [2]failure{noFailure, failLength}[lack]
		if got := perform(t, s, workload.Op{File: fileset.File{Class: 1}, HTTP10: true, Last: true}); got != want {
			t.Errorf("%d bytes missing: class %q, want %q", lack, classes[got], classes[want])
		}
	}
}

// TestAdOfOldTables tells an answer from the tables before a Reset from a wrong one.
func TestAdOfOldTables(t *testing.T) {
	s := simulate(t, Plan{Count: 1, FileSeed: 4}, 30, 100)
	old := s.w.tables
	fresh := *old
	fresh.Ads = append([]web99.Ad(nil), old.Ads...)
	for i := range fresh.Ads {
		fresh.Ads[i].Weights ^= 0x11111
	}
	s.w.former, s.w.tables = old, &fresh
	found := false
	for last := int32(0); last < 40 && !found; last++ {
		if old.Select(5, last, wallNow) == fresh.Select(5, last, wallNow) {
			continue
		}
		found = true
		if got := perform(t, s, workload.Op{Kind: workload.CAD, User: 5, LastAd: last, File: fileset.File{Class: 1}}); got != failTable {
			t.Errorf("after ad %d: class %q", last, classes[got])
		}
	}
	if !found {
		t.Fatal("the tables never differ")
	}
}

// TestExpiryNearTheClock forgives the flag, and only the flag, around the expiry of an ad.
func TestExpiryNearTheClock(t *testing.T) {
	for _, off := range []int64{-clockSlack - 1, -2, 0, 2, clockSlack + 2} {
		s := simulate(t, Plan{Count: 1, FileSeed: 4}, 30, 100)
		found := s.w.tables.Select(5, 20, wallNow)
		expiry := s.w.tables.Ads[found.Ad].Expiry
		s.w.plan.Wall = func(clock.Instant) int64 { return expiry }
		o := &origin{seed: 4, tables: s.w.tables, routes: s.w.plan.Workload.Routes, wall: expiry + off}
		s.serve = func(c *simConn, req []byte) { b, _ := o.answer(req); c.send(0, b) }
		got := perform(t, s, workload.Op{Kind: workload.CAD, User: 5, LastAd: 20, File: fileset.File{Class: 1}})
		// The target's clock stands at expiry+off, so its flag may differ from ours, which stands at expiry.
		if got != noFailure {
			t.Errorf("target's clock %+d s: class %q", off, classes[got])
		}
		s.w.plan.Wall = func(clock.Instant) int64 { return expiry + clockSlack + 10 }
		o.wall = expiry - 10
		if got := perform(t, s, workload.Op{Kind: workload.CAD, User: 5, LastAd: 20, File: fileset.File{Class: 1}}); got != failAd {
			t.Errorf("flag wrong by far: class %q", classes[got])
		}
	}
}
