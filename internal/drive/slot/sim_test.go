package slot

import (
	"bytes"
	"container/heap"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// sim is a network and a clock: a carrier whose time moves only from event to event.
type sim struct {
	t      testing.TB
	now    clock.Instant
	start  clock.Instant // of the turn
	lag    func() time.Duration
	w      *worker
	events simHeap
	seq    int
	timers map[uint32]int // sequence of the valid timer event
	conns  []*simConn
	free   []loop.ID
	dial   func(c *simConn)             // decides about a connection; nil accepts after 1 ms
	serve  func(c *simConn, req []byte) // answers a request
}

type simEvent struct {
	at  clock.Instant
	seq int
	do  func()
}

type simHeap []simEvent

func (h simHeap) Len() int { return len(h) }
func (h simHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h simHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *simHeap) Push(x any)   { *h = append(*h, x.(simEvent)) }
func (h *simHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

type simConn struct {
	s       *sim
	id      loop.ID
	remote  netip.AddrPort
	local   netip.AddrPort
	in      []byte // arrived, not received
	end     bool   // FIN arrived behind in
	err     error  // error behind in
	armed   int
	closed  bool
	pending bool // a completion is scheduled
	asked   int  // requests seen
}

func (s *sim) at(t clock.Instant, do func()) int {
	s.seq++
	heap.Push(&s.events, simEvent{t, s.seq, do})
	return s.seq
}

func (s *sim) after(d time.Duration, do func()) { s.at(s.now.Add(d), do) }

// run handles events up to t.
func (s *sim) run(t clock.Instant) {
	for len(s.events) > 0 && s.events[0].at <= t {
		e := heap.Pop(&s.events).(simEvent)
		s.now = max(s.now, e.at)
		s.start = s.now
		if s.lag != nil { // the loop gets to the event late
			s.now = s.now.Add(s.lag())
		}
		e.do()
	}
	s.now = max(s.now, t)
	s.start = s.now
}

func (s *sim) Connect(o *loop.ConnectOptions) (loop.ID, error) {
	c := &simConn{s: s, remote: o.Remote, local: o.Local}
	if n := len(s.free); n > 0 {
		c.id = s.free[n-1]
		s.free = s.free[:n-1]
		s.conns[c.id] = c
	} else {
		c.id = loop.ID(len(s.conns))
		s.conns = append(s.conns, c)
	}
	if s.dial != nil {
		s.dial(c)
	} else {
		c.accept(time.Millisecond, nil)
	}
	return c.id, nil
}

// accept completes the connection after d.
func (c *simConn) accept(d time.Duration, err error) {
	c.s.after(d, func() {
		if !c.closed {
			c.s.w.Connected(c.id, err)
		}
	})
}

func (s *sim) Recv(id loop.ID, max int) {
	c := s.conns[id]
	if max < 1 {
		s.t.Errorf("receive of %d bytes", max)
	}
	c.armed = min(max, 64<<10)
	c.wake()
}

// wake schedules the completion of an armed receive.
func (c *simConn) wake() {
	if c.armed == 0 || c.pending || len(c.in) == 0 && !c.end && c.err == nil {
		return
	}
	c.pending = true
	c.s.after(0, func() {
		c.pending = false
		if c.closed || c.armed == 0 {
			return
		}
		n := min(len(c.in), c.armed)
		b := append([]byte(nil), c.in[:n]...)
		c.in = c.in[n:]
		c.armed = 0
		var err error
		if n == 0 {
			err = c.err
		}
		c.s.w.Received(c.id, b, err)
		clear(b) // views must not be kept
	})
}

// send makes bytes arrive after d.
func (c *simConn) send(d time.Duration, b []byte) {
	b = append([]byte(nil), b...)
	c.s.after(d, func() { c.in = append(c.in, b...); c.wake() })
}

func (c *simConn) fin(d time.Duration) { c.s.after(d, func() { c.end = true; c.wake() }) }
func (c *simConn) rst(d time.Duration) {
	c.s.after(d, func() { c.in, c.err = nil, syscall.ECONNRESET; c.wake() })
}

func (s *sim) Send(id loop.ID, head, body, tail []byte) bool {
	c := s.conns[id]
	c.asked++
	s.serve(c, append(append(append([]byte(nil), head...), body...), tail...))
	return true
}

func (s *sim) Close(id loop.ID) {
	c := s.conns[id]
	if c.closed {
		s.t.Errorf("connection %d closed twice", id)
	}
	c.closed = true
	s.after(0, func() { s.free = append(s.free, id) })
}

func (s *sim) SetTimer(key uint32, due clock.Instant) {
	tick := clock.Instant(time.Millisecond)
	at := max((due+tick-1)/tick*tick, s.now)
	var seq int
	seq = s.at(at, func() {
		if s.timers[key] == seq {
			delete(s.timers, key)
			s.w.Expired(key, due)
		}
	})
	s.timers[key] = seq
}

func (s *sim) CancelTimer(key uint32)   { delete(s.timers, key) }
func (s *sim) Refresh() clock.Instant   { return s.now }
func (s *sim) TurnStart() clock.Instant { return s.start }
func (s *sim) Backlog() time.Duration   { return 0 }
func (s *sim) Fd(loop.ID) int           { return -1 }
func (s *sim) Stats() loop.Stats        { return loop.Stats{} }

// law returns the web99 workload, changed.
func law(t testing.TB, change func(*workload.Workload)) *workload.Workload {
	t.Helper()
	w, err := workload.Preset("web99")
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(w)
	}
	return w
}

var simTarget = netip.MustParseAddrPort("127.0.0.1:80")

// simulate makes one worker over a simulated network. serve nil: the right answer after 10 ms.
func simulate(t testing.TB, p Plan, dirs, users int) *sim {
	t.Helper()
	if p.Workload == nil {
		p.Workload = law(t, nil)
	}
	if p.Targets == nil {
		p.Targets = []netip.AddrPort{simTarget}
	}
	p.Wall = func(clock.Instant) int64 { return wallNow }
	line, err := p.prepare()
	if err != nil {
		t.Fatal(err)
	}
	s := &sim{t: t, now: 1e9, start: 1e9, timers: map[uint32]int{}}
	s.w = newWorker(&p, line, 0, 1)
	s.w.net = s
	s.w.tables = someTables(t, users)
	s.w.sampler = p.Workload.Sampler(dirs, users)
	o := &origin{seed: p.FileSeed, tables: s.w.tables, routes: p.Workload.Routes}
	s.serve = func(c *simConn, req []byte) {
		b, last := o.answer(req)
		c.send(10*time.Millisecond, b)
		if last {
			c.fin(10 * time.Millisecond)
		}
	}
	return s
}

func (s *sim) load(n int) { s.w.setLoad(n, s.w.sampler, 1) }

// window records between two instants from now and returns the window after its end.
func (s *sim) window(from, to time.Duration) *window {
	win := newWindow(s.now.Add(from), s.now.Add(to), s.w.users, 100)
	s.w.setWindow(win)
	s.run(win.end.Add(time.Second))
	if !win.over {
		s.t.Fatal("window is not over")
	}
	return win
}

const wallNow = 1_000_000_000

// someTables makes tables of n users in which all kinds of outcome occur.
func someTables(t testing.TB, n int) *web99.Tables {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var users, ads []byte
	for i := range n {
		users, _ = web99.AppendUser(users, web99.User{Index: int32(i), Demographics: 0x11100401 << (r.Uint32() % 2) & 0x3fffffff})
	}
	for i := range web99.Ads {
		a := web99.Ad{
			ID: int32(i), Demographics: r.Uint32() & 0x3fffffff, Weights: r.Uint32() & 0xfffff,
			MinMatch: int32(r.Uint32() % 40), Expiry: wallNow + int64(r.Uint32()%2000) - 1000,
		}
		if d := a.Expiry - wallNow; d >= -clockSlack && d <= clockSlack {
			a.Expiry += 20
		}
		ads, _ = web99.AppendAd(ads, &a)
	}
	tables, err := web99.ParseTables(users, ads)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// origin answers requests as the law demands, without sharing code with the driver beyond the wire facts.
type origin struct {
	seed   uint64
	tables *web99.Tables
	routes workload.Routes

	chunk  int                            // chunk size; 0: Content-Length
	close  bool                           // every body ends with the connection
	change func(a *answer, op *asked)     // misbehaviour
	wall   int64                          // 0: wallNow
	posted func(p web99.Post, user int32) // told of every POST
	files  sync.Map                       // contents by file
}

type asked struct {
	req  httpwire.Request
	kind workload.Kind
	file fileset.File
}

type answer struct {
	status string
	fields []string
	body   []byte
	last   bool
}

// answer returns the bytes of the response and whether the connection ends after it.
func (o *origin) answer(req []byte) ([]byte, bool) {
	var q asked
	n, status := httpwire.ParseRequest(req, &q.req, nil)
	if n == 0 || status != 0 {
		return []byte("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), true
	}
	a := o.compose(&q, req[n:])
	if o.change != nil {
		o.change(a, &q)
	}
	var b []byte
	b = append(b, "HTTP/1.1 "+a.status+"\r\n"...)
	for _, f := range a.fields {
		b = append(append(b, f...), "\r\n"...)
	}
	switch {
	case o.close:
		a.last = true
	case o.chunk > 0 && q.req.Proto == 11:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case !strings.Contains(strings.Join(a.fields, "\n"), "Content-Length"):
		b = httpwire.AppendField(b, "Content-Length", string(httpwire.AppendInt(nil, int64(len(a.body)))))
	}
	if a.last {
		b = append(b, "Connection: close\r\n"...)
	} else if q.req.Proto == 10 {
		b = append(b, "Connection: keep-alive\r\n"...)
	}
	b = append(b, "\r\n"...)
	if o.chunk == 0 || o.close || q.req.Proto != 11 {
		return append(b, a.body...), a.last
	}
	for rest := a.body; len(rest) > 0; {
		k := min(o.chunk, len(rest))
		b = httpwire.AppendChunkHead(b, int64(k))
		b = append(append(b, rest[:k]...), "\r\n"...)
		rest = rest[k:]
	}
	return append(b, httpwire.LastChunk...), a.last
}

// content returns the bytes of a file; they may be changed if anything is to be changed.
func (o *origin) content(f fileset.File) []byte {
	v, known := o.files.Load(f)
	if !known {
		var c fileset.Content
		c.Init(f, o.seed)
		b := make([]byte, c.Size())
		c.Fill(b, 0)
		v, _ = o.files.LoadOrStore(f, b)
	}
	if o.change != nil {
		return bytes.Clone(v.([]byte))
	}
	return v.([]byte)
}

func (o *origin) compose(q *asked, body []byte) *answer {
	a := &answer{status: "200 OK", last: !q.req.KeepAlive}
	path := string(q.req.Path)
	name := q.req.Query
	switch path {
	case o.routes.Get:
		q.kind = workload.Get
	case o.routes.CGI:
		q.kind = workload.CGI
	case o.routes.CAD:
		q.kind = workload.CAD
	case o.routes.Post:
		q.kind = workload.Post
	default:
		q.kind = workload.Static
		name = q.req.Path
	}
	var cookie []byte
	switch q.kind {
	case workload.CAD:
		c, _ := web99.ParseCookie(q.req.Cookie)
		wall := o.wall
		if wall == 0 {
			wall = wallNow
		}
		found := o.tables.Select(c.User-web99.UserOffset, c.LastAd, wall)
		cookie = web99.AppendFound(nil, found)
		defer func() {
			if f, okay := fileset.Parse(name); okay && (f.Class == 1 || f.Class == 2) {
				a.body = web99.Rewrite(nil, a.body, web99.AppendAdFile(nil, found.Ad))
			}
		}()
	case workload.Post:
		p, okay := web99.ParsePost(body)
		c, okay2 := web99.ParseCookie(q.req.Cookie)
		if !okay || !okay2 {
			a.status = "400 Bad Request"
			return a
		}
		name = p.AppendFile(nil)
		cookie = web99.AppendUserCookie(nil, c.User)
		if o.posted != nil {
			o.posted(p, c.User)
		}
	}
	var okay bool
	if q.file, okay = fileset.Parse(name); !okay {
		a.status = "404 Not Found"
		return a
	}
	content := o.content(q.file)
	if q.kind == workload.Static {
		a.fields = []string{"Content-Type: text/plain"}
		a.body = content
		return a
	}
	a.fields = []string{"Content-Type: text/html"}
	if cookie != nil {
		a.fields = append(a.fields, "Set-Cookie: "+string(cookie))
	}
	query := q.req.Query
	a.body = web99.AppendHead(nil, &web99.Wrapper{Software: []byte("origin"), Remote: []byte("127.0.0.2"), Script: []byte(path), Query: query})
	a.body = append(append(a.body, content...), web99.TailText...)
	return a
}

// small leaves class 0 alone.
func small(w *workload.Workload) {
	for i := range w.Files.Class {
		w.Files.Class[i].Share = 0
	}
	w.Files.Class[0].Share = 1
}
