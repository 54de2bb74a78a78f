package exchange

import (
	"testing"

	"tidemark.dev/internal/drive/slot/origin"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// pair makes a checker and a target that answers as it should.
func pair(t *testing.T) (*Checker, *origin.Origin) {
	t.Helper()
	w, err := workload.Preset("web99")
	if err != nil {
		t.Fatal(err)
	}
	o := &origin.Origin{Seed: 4, Tables: origin.Tables(100), Routes: w.Routes}
	c := New("target", w.Routes, 4, func(clock.Instant) int64 { return origin.Now })
	c.SetTables(o.Tables)
	return c, o
}

// judge feeds the response in the pieces that next says (0: the rest) and returns what is wrong with it.
func judge(c *Checker, op *workload.Op, response []byte, next func(at int) int) Mishap {
	var r Reply
	r.Begin(true)
	defer c.Drop(&r)
	for at := 0; at < len(response); {
		n := next(at)
		if n == 0 {
			n = len(response) - at
		}
		piece := append([]byte(nil), response[at:at+n]...)
		bad := c.Take(&r, op, piece, 0)
		clear(piece) // views must not be kept
		if bad != fine {
			return bad
		}
		if at += n; r.Complete != (at == len(response)) {
			return wrong(Unknown, "complete %v after %d of %d bytes", r.Complete, at, len(response))
		}
	}
	if want := r.Counted(); r.Length >= 0 && r.Expected(op) != want {
		return wrong(Unknown, "%d bytes expected, %d counted", r.Expected(op), want)
	}
	return c.End(&r, op)
}

// TestRightAnswersInAnyPieces splits right answers of every kind, class and framing at every byte, and to single bytes.
func TestRightAnswersInAnyPieces(t *testing.T) {
	for name, chunk := range map[string]int{"length": 0, "chunked": 700, "tiny chunks": 3} {
		t.Run(name, func(t *testing.T) {
			c, o := pair(t)
			o.Chunk = chunk
			for k := range workload.Kind(workload.Kinds) {
				for class := range uint8(3) {
					if class == 2 && chunk > 0 && chunk < 100 {
						continue // slow and nothing new
					}
					op := &workload.Op{Kind: k, User: 3, LastAd: int32(7 * class), File: fileset.File{Dir: 12, Class: class, Num: 1}}
					if k != workload.CAD && k != workload.Post {
						op.User, op.LastAd = -1, -1
					}
					response, last := o.Answer(c.AppendRequest(nil, op, 9))
					if last {
						t.Fatalf("%v: the request asks for the end", k)
					}
					before := c.Checked
					tried := uint64(0)
					try := func(next func(int) int) {
						tried++
						if bad := judge(c, op, response, next); bad != fine {
							t.Fatalf("%v of %v: %v: %s", k, op.File, bad.Class, bad.Text)
						}
					}
					try(func(int) int { return 1 })
					for cut := 0; cut < len(response); {
						try(func(at int) int { return max(0, cut-at) })
						if cut++; cut > 700 || class > 0 { // head and wrapper are behind us, or were split before
							cut += 97
						}
					}
					tags := uint64(0)
					if k == workload.CAD {
						var content fileset.Content
						content.Init(op.File, 4)
						content.Tags(func(int64) { tags++ })
						if (tags == 0) != (class == 0) {
							t.Fatalf("%v has %d tags", op.File, tags)
						}
					}
					want := Checked{tried, int64(tried) * op.File.Size(), tried * tags}
					if got := c.Checked.Minus(before); got != want {
						t.Errorf("%v of %v: %+v checked, want %+v", k, op.File, got, want)
					}
				}
			}
		})
	}
}

// TestWhatIsSkippedIsNotLookedAt replaces every piece that may be skipped by noise; what is compared or rewritten never
// may be.
func TestWhatIsSkippedIsNotLookedAt(t *testing.T) {
	c, o := pair(t)
	for k := range workload.Kind(workload.Kinds) {
		for class := range uint8(3) {
			for _, compare := range []bool{false, true} {
				op := &workload.Op{Kind: k, User: 3, LastAd: 7, File: fileset.File{Dir: 12, Class: class, Num: 1}}
				b, _ := o.Answer(c.AppendRequest(nil, op, 9))
				var r Reply
				r.Begin(compare)
				skipped := int64(0)
				for len(b) > 0 {
					n := min(150, len(b))
					if c.Skips(&r, op, n) {
						skipped += int64(n)
						for i := range b[:n] {
							b[i] ^= 0x55
						}
					}
					if bad := c.Take(&r, op, b[:n], 0); bad != fine {
						t.Fatalf("%v of class %d: %v: %s", k, class, bad.Class, bad.Text)
					}
					b = b[n:]
				}
				if bad := c.End(&r, op); bad != fine {
					t.Fatalf("%v of class %d: %v: %s", k, class, bad.Class, bad.Text)
				}
				least := op.File.Size() - 2*150 // the pieces with the head or the end of the page in them
				if compare || k == workload.CAD && class > 0 {
					if skipped > 0 {
						t.Errorf("%v of class %d, compare %v: %d bytes may be skipped", k, class, compare, skipped)
					}
				} else if skipped < least {
					t.Errorf("%v of class %d: %d of %d bytes may be skipped", k, class, skipped, op.File.Size())
				}
			}
		}
	}
}

// TestEveryWrongByteIsSeen flips each byte of a page in turn: whatever it belongs to, the answer is refused, save in
// what only the target can know.
func TestEveryWrongByteIsSeen(t *testing.T) {
	c, o := pair(t)
	op := &workload.Op{Kind: workload.CAD, User: 3, LastAd: 7, File: fileset.File{Dir: 12, Class: 1, Num: 0}} // 1,024 bytes
	response, _ := o.Answer(c.AppendRequest(nil, op, 9))
	accepted := 0
	for i := range response {
		b := append([]byte(nil), response...)
		b[i] ^= 4
		if judge(c, op, b, func(int) int { return 0 }) == fine {
			accepted++
		}
	}
	// Free are the reason phrase, names and values of fields nobody relies on, the name of the software and the
	// digits of the address.
	if accepted == 0 || accepted > 60 {
		t.Errorf("%d of %d wrong bytes accepted", accepted, len(response))
	}
}

// TestRequests states what goes out.
func TestRequests(t *testing.T) {
	c, _ := pair(t)
	file := fileset.File{Dir: 7, Class: 2, Num: 5}
	const plain = "Host: target\r\nUser-Agent: tidemark\r\n"
	for _, x := range []struct {
		op   workload.Op
		want string
	}{
		{workload.Op{File: file}, "GET /file_set/dir00007/class2_5 HTTP/1.1\r\n" + plain + "\r\n"},
		{workload.Op{File: file, Last: true}, "GET /file_set/dir00007/class2_5 HTTP/1.1\r\n" + plain + "Connection: close\r\n\r\n"},
		{workload.Op{File: file, HTTP10: true}, "GET /file_set/dir00007/class2_5 HTTP/1.0\r\n" + plain + "Connection: keep-alive\r\n\r\n"},
		{workload.Op{File: file, HTTP10: true, Last: true}, "GET /file_set/dir00007/class2_5 HTTP/1.0\r\n" + plain + "Connection: close\r\n\r\n"},
		{workload.Op{Kind: workload.Get, File: file}, "GET /web99/get?/file_set/dir00007/class2_5 HTTP/1.1\r\n" + plain + "\r\n"},
		{workload.Op{Kind: workload.CGI, File: file}, "GET /web99/cgi?/file_set/dir00007/class2_5 HTTP/1.1\r\n" + plain + "\r\n"},
		{workload.Op{Kind: workload.CAD, File: file, User: 42, LastAd: 359}, "GET /web99/cad?/file_set/dir00007/class2_5 HTTP/1.1\r\n" + plain +
			"Cookie: my_cookie=user_id=10042&last_ad=359\r\n\r\n"},
		{workload.Op{Kind: workload.Post, File: file, User: 42, LastAd: -1, Last: true}, "POST /web99/post HTTP/1.1\r\n" + plain +
			"Cookie: my_cookie=user_id=10042&last_ad=0\r\nConnection: close\r\n" +
			"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 56\r\n\r\n" +
			"urlroot=/file_set/&dir=00007&class=2&num=5&client=123456"},
	} {
		if got := string(c.AppendRequest(nil, &x.op, 123456)); got != x.want {
			t.Errorf("%v:\n%q\nwant\n%q", x.op.Kind, got, x.want)
		}
	}
}

// TestAdOfOldTables tells an answer from the tables before a Reset from a wrong one.
func TestAdOfOldTables(t *testing.T) {
	c, o := pair(t)
	fresh := *o.Tables
	fresh.Ads = append([]web99.Ad(nil), fresh.Ads...)
	for i := range fresh.Ads {
		fresh.Ads[i].Weights ^= 0x11111
	}
	c.SetTables(&fresh)
	found := 0
	for last := int32(0); last < 40; last++ {
		if o.Tables.Select(5, last, origin.Now) == fresh.Select(5, last, origin.Now) {
			continue
		}
		found++
		op := &workload.Op{Kind: workload.CAD, User: 5, LastAd: last, File: fileset.File{Class: 1}}
		response, _ := o.Answer(c.AppendRequest(nil, op, 9))
		if bad := judge(c, op, response, func(int) int { return 0 }); bad.Class != Table {
			t.Errorf("after ad %d: %v %s", last, bad.Class, bad.Text)
		}
	}
	if found == 0 {
		t.Fatal("the tables never differ")
	}
}

// TestExpiryNearTheClock forgives the flag, and only the flag, when an ad has just expired or is about to.
func TestExpiryNearTheClock(t *testing.T) {
	for _, x := range []struct {
		ours, theirs int64 // clocks, from the expiry
		want         Class
	}{{0, 0, None}, {0, 1, None}, {1, 0, None}, {5, -60, None}, {-5, 60, None}, {6, -1, Ad}, {-6, 1, Ad}, {600, -600, Ad}} {
		c, o := pair(t)
		op := &workload.Op{Kind: workload.CAD, User: 5, LastAd: 20, File: fileset.File{Class: 1}}
		expiry := o.Tables.Ads[o.Tables.Select(5, 20, origin.Now).Ad].Expiry
		c.wall = func(clock.Instant) int64 { return expiry + x.ours }
		o.Wall = expiry + x.theirs
		response, _ := o.Answer(c.AppendRequest(nil, op, 9))
		if bad := judge(c, op, response, func(int) int { return 0 }); bad.Class != x.want {
			t.Errorf("%+d and %+d s from the expiry: %q, want %q", x.ours, x.theirs, bad.Class, x.want)
		}
	}
}

// FuzzTake feeds anything in two pieces: no panic, no endless loop, and nothing but a right answer is accepted.
func FuzzTake(f *testing.F) {
	w, err := workload.Preset("web99")
	if err != nil {
		f.Fatal(err)
	}
	o := &origin.Origin{Seed: 4, Tables: origin.Tables(100), Routes: w.Routes}
	c := New("target", w.Routes, 4, func(clock.Instant) int64 { return origin.Now })
	c.SetTables(o.Tables)
	ops := []workload.Op{
		{File: fileset.File{}}, {Kind: workload.Get, File: fileset.File{}}, {Kind: workload.CAD, User: 3, File: fileset.File{Class: 1}},
		{Kind: workload.Post, User: 3, File: fileset.File{}},
	}
	for i := range ops {
		for _, o.Chunk = range []int{0, 50} {
			b, _ := o.Answer(c.AppendRequest(nil, &ops[i], 9))
			f.Add(uint8(i), b, len(b)/2)
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte, cut int) {
		op := &ops[int(which)%len(ops)]
		cut = max(0, min(cut, len(b)))
		whole := judge(c, op, b, func(int) int { return 0 })
		pieces := judge(c, op, b, func(at int) int { return max(0, cut-at) })
		if (whole == fine) != (pieces == fine) {
			t.Errorf("whole %v %s, in pieces %v %s", whole.Class, whole.Text, pieces.Class, pieces.Text)
		}
	})
}
