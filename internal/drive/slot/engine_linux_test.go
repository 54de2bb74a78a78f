package slot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"tidemark.dev/internal/drive/slot/origin"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"tidemark.dev/internal/engine/ring"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/ground/tally"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/share"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(everyBackend{m}) }

// everyBackend runs the tests once for each backend of the loops.
type everyBackend struct{ m *testing.M }

// backend is that of the loops of this pass.
var backend = "epoll"

func (e everyBackend) Run() (code int) {
	code = e.m.Run()
	r, err := ring.New(ring.Options{Entries: 8, Buffers: 16, BufferSize: 1 << 10})
	if err != nil {
		fmt.Println("not tested on io_uring:", err)
		return code
	}
	r.Close()
	backend = "io_uring"
	fmt.Println("and once more on io_uring")
	return max(code, e.m.Run())
}

// server answers on a loopback port until the test ends.
type server struct {
	addr   netip.AddrPort
	l      net.Listener
	wg     sync.WaitGroup
	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// listen serves each connection to 127.0.0.1 with handle.
func listen(t *testing.T, handle func(c *net.TCPConn)) *server {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	return serve(t, l, handle)
}

func serve(t *testing.T, l net.Listener, handle func(c *net.TCPConn)) *server {
	t.Helper()
	s := &server{addr: l.Addr().(*net.TCPAddr).AddrPort(), l: l, conns: map[net.Conn]bool{}}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			if s.closed {
				c.Close()
			}
			s.conns[c] = true
			s.mu.Unlock()
			s.wg.Add(1)
			go func() {
				defer s.wg.Done()
				handle(c.(*net.TCPConn))
				c.Close()
				s.mu.Lock()
				delete(s.conns, c)
				s.mu.Unlock()
			}()
		}
	}()
	t.Cleanup(s.stop)
	return s
}

func (s *server) stop() {
	s.l.Close()
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// request reads one request, nil at the end.
func request(c net.Conn, buf []byte) (req, rest []byte) {
	for {
		var r httpwire.Request
		if n, status := httpwire.ParseRequest(buf, &r, nil); status != 0 {
			return nil, nil
		} else if n > 0 && int64(len(buf)) >= int64(n)+max(0, r.ContentLength) {
			n += int(max(0, r.ContentLength))
			return buf[:n:n], buf[n:]
		}
		more := make([]byte, 4096)
		n, err := c.Read(more)
		if err != nil {
			return nil, nil
		}
		buf = append(buf, more[:n]...)
	}
}

// right answers everything as the law demands.
func right(o *origin.Origin) func(c *net.TCPConn) {
	return func(c *net.TCPConn) {
		var buf []byte
		for {
			req, rest := request(c, buf)
			if req == nil {
				return
			}
			buf = rest
			b, last := o.Answer(req)
			o.Answered.Add(1)
			o.Sent.Add(int64(len(b)))
			if _, err := c.Write(b); err != nil || last {
				return
			}
		}
	}
}

// fast is the law at a line speed at which a second holds many operations.
func fast(w *workload.Workload) {
	w.Pacing.LineBps *= 8
	w.Pacing.QuantumBytes *= 4
	w.Pacing.Timeout = 10 * time.Second
}

// record sets a window that begins soon and returns its result, the load paused. Where the machine is so busy that the
// loops hear of a window after it began, it asks for a later one.
func record(t *testing.T, e *Engine, length time.Duration) *Result {
	t.Helper()
	ctx := limited(t)
	lead := 20 * time.Millisecond
	start := clock.Now().Add(lead)
	for err := e.Window(start, start.Add(length)); err != nil; err = e.Window(start, start.Add(length)) {
		if lead *= 2; lead > 10*time.Second {
			t.Fatal(err)
		}
		start = clock.Now().Add(lead)
	}
	awaitInstant(start.Add(length))
	must(t, e.Pause(ctx))
	r, err := e.Collect(ctx)
	must(t, err)
	return r
}

func newEngine(t *testing.T, p Plan) *Engine {
	t.Helper()
	if p.Workload == nil {
		p.Workload = law(t, fast)
	}
	p.Backend = backend
	p.Wall = func(clock.Instant) int64 { return origin.Now }
	e, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func tableBytes(t *testing.T, tables *web99.Tables) (users, ads []byte) {
	for i, d := range tables.Users {
		users, _ = web99.AppendUser(users, web99.User{Index: int32(i), Demographics: d})
	}
	for i := range tables.Ads {
		ads, _ = web99.AppendAd(ads, &tables.Ads[i])
	}
	return users, ads
}

// TestWindowOverSockets drives a right server and checks every sum of the result.
func TestWindowOverSockets(t *testing.T) {
	for _, pacing := range []string{Rated, Deferred} {
		t.Run(pacing, func(t *testing.T) {
			const slots, dirs, users = 13, 30, 100
			type key struct {
				dir, client, user int32
				class, num        uint8
			}
			var mu sync.Mutex
			logged := map[key]int{}
			tables := origin.Tables(users)
			w := law(t, fast)
			o := &origin.Origin{Seed: 4, Tables: tables, Routes: w.Routes, Posted: func(p web99.Post, user int32) {
				mu.Lock()
				logged[key{p.Dir, p.Client, user, p.Class, p.Num}]++
				mu.Unlock()
			}}
			srv := listen(t, right(o))
			sources, err := LocalSources(srv.addr.Addr(), 1, 3)
			must(t, err)
			e := newEngine(t, Plan{
				Targets: []netip.AddrPort{srv.addr}, Workload: w, Seed: 3, FileSeed: 4, Share: share.Share{Positions: []int{1}, Period: 2}, Count: 20,
				Sources: sources, Loops: []int{-1, -1}, Pacing: pacing,
			})
			ctx := limited(t)
			must(t, e.SetTables(tableBytes(t, tables)))
			must(t, e.SetLoad(slots, dirs, users))
			must(t, e.AwaitReady(ctx))
			if !e.Ready() {
				t.Error("not ready after AwaitReady")
			}
			const length = 1300 * time.Millisecond
			r := record(t, e, length)

			if p := e.Progress(); p.Running != 0 || p.Ops != uint64(o.Answered.Load()) || p.WireBytes != o.Sent.Load() {
				t.Errorf("%+v, the server answered %d requests with %d bytes", p, o.Answered.Load(), o.Sent.Load())
			}
			if len(r.Errors) > 0 || len(r.Audit.Driver) > 0 {
				t.Fatalf("errors %v, driver %v", r.Errors, r.Audit.Driver)
			}
			if len(r.Records) != slots || r.Audit.Attempted != slots {
				t.Fatalf("%d records, %d attempted", len(r.Records), r.Audit.Attempted)
			}
			var ops, begun uint32
			for i, rec := range r.Records {
				if rec.Slot != uint32(1+2*i) {
					t.Errorf("record %d is of slot %d", i, rec.Slot)
				}
				if rec.OpTime != length {
					t.Errorf("slot %d: operations took %v of %v", rec.Slot, rec.OpTime, length)
				}
				// An operation that had fallen behind at the start may catch up: by a quantum if rated, by a file if not.
				catch := map[string]int{Rated: w.Pacing.QuantumBytes, Deferred: fileset.MaxSize}[pacing]
				limit := int64(float64(w.Pacing.LineBps)*length.Seconds()) + 8*int64(catch)
				if rec.CreditedBits > limit || rec.CreditedBits <= 0 {
					t.Errorf("slot %d: %d bits credited, the line carries %d", rec.Slot, rec.CreditedBits, limit)
				}
				ops, begun = ops+rec.Ops, begun+rec.Begun
			}
			if r.Audit.OpTime != slots*length {
				t.Errorf("operations took %v, want %v", r.Audit.OpTime, slots*length)
			}
			a := r.Audit
			if a.Misplanned != 0 || a.Planned != r.Issued.Kind {
				t.Errorf("planned %v, issued %v, misplanned %d", a.Planned, r.Issued.Kind, a.Misplanned)
			}
			var issued uint64
			for _, n := range r.Issued.Kind {
				issued += n
			}
			if issued != uint64(begun) {
				t.Errorf("%d issued, %d begun", issued, begun)
			}
			if a.PortReuse != 0 || a.FINMissing != 0 || a.Stale != 0 || a.Unfinished != 0 || a.Overflow != 0 {
				t.Errorf("audit %+v", a)
			}
			if a.Straddling != slots || a.Turns == 0 || a.Connects == 0 || len(a.Congestion) == 0 {
				t.Errorf("audit %+v", a)
			}
			if a.VerifiedBodies == 0 || a.VerifiedBodies > uint64(ops)/4 || a.Tags == 0 {
				t.Errorf("%d of %d bodies verified, %d tags", a.VerifiedBodies, ops, a.Tags)
			}
			mu.Lock()
			acked := map[key]int{}
			for _, p := range r.Posts {
				if p.State != Acknowledged {
					t.Errorf("%+v", p)
				}
				acked[key{p.Dir, int32(p.Client), p.User, p.Class, p.Num}]++
			}
			if d := cmp.Diff(logged, acked, cmp.AllowUnexported(key{})); d != "" || len(acked) == 0 {
				t.Errorf("%d POSTs acknowledged, the server's log differs:\n%s", len(acked), d)
			}
			mu.Unlock()

			b, err := json.Marshal(r)
			must(t, err)
			var back Result
			must(t, json.Unmarshal(b, &back))
			if d := cmp.Diff(r.Records, back.Records); d != "" {
				t.Error(d)
			}
			for k := range r.Kinds {
				if r.Kinds[k].Whole.Count() != back.Kinds[k].Whole.Count() || r.Kinds[k].FirstByte.Quantile(0.5) != back.Kinds[k].FirstByte.Quantile(0.5) {
					t.Errorf("%v: histograms differ after the way through JSON", workload.Kind(k))
				}
			}
			back.Records, back.Kinds = r.Records, r.Kinds
			if d := cmp.Diff(r, &back, cmp.AllowUnexported(tally.Histogram{})); d != "" {
				t.Error(d)
			}

			e.Resume()
			must(t, e.AwaitReady(ctx))
			must(t, e.SetLoad(3, dirs, users))
			must(t, e.AwaitReady(ctx))
			must(t, e.SetLoad(0, dirs, users))
			must(t, e.AwaitReady(ctx))
			if p := awaitProgress(e, func(p Progress) bool { return p.Running == 0 && p.Connected == 0 }); p.Ops < uint64(ops) {
				t.Errorf("progress %+v", p)
			}
		})
	}
}

// awaitInstant returns once the clock has reached t.
func awaitInstant(t clock.Instant) {
	timer := time.NewTimer(t.Sub(clock.Now()))
	<-timer.C
}

// awaitProgress polls until the snapshot is as wanted; the test's own time limit ends it.
func awaitProgress(e *Engine, want func(Progress) bool) Progress {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if p := e.Progress(); want(p) {
			return p
		}
		<-tick.C
	}
}

// TestFaultsOverSockets repeats those faults that the kernel has a part in.
func TestFaultsOverSockets(t *testing.T) {
	w := law(t, func(w *workload.Workload) {
		fast(w)
		w.Mix = workload.Mix{Static: 1}
		small(w)
		w.Pacing.Backoff = 10 * time.Millisecond
	})
	o := &origin.Origin{Seed: 4, Routes: w.Routes}
	dead := listen(t, func(*net.TCPConn) {})
	dead.stop()
	cases := []struct {
		name   string
		handle func(c *net.TCPConn, req []byte)
		class  string
		origin fault.Origin
	}{
		{"refused", nil, conform.ClassRefused, fault.Target},
		{"reset at once", func(c *net.TCPConn, req []byte) { c.SetLinger(0) }, conform.ClassReset, fault.Target},
		{"reset in the body", func(c *net.TCPConn, req []byte) {
			b, _ := o.Answer(req)
			c.Write(b[:len(b)-50])
			c.SetLinger(0)
		}, conform.ClassReset, fault.Target},
		{"closed without answer", func(c *net.TCPConn, req []byte) {}, conform.ClassClosed, fault.Target},
		{"closed in the body", func(c *net.TCPConn, req []byte) { b, _ := o.Answer(req); c.Write(b[:len(b)-50]) }, conform.ClassClosed, fault.Target},
		{"stalls", func(c *net.TCPConn, req []byte) {
			b, _ := o.Answer(req)
			c.Write(b[:len(b)-50])
			io.Copy(io.Discard, c)
		}, conform.ClassTimeout, fault.Target},
		{"wrong byte", func(c *net.TCPConn, req []byte) {
			b, _ := o.Answer(req)
			b[len(b)-50] ^= 1
			c.Write(b)
			io.Copy(io.Discard, c)
		}, conform.ClassBytes, fault.Target},
		{"bad status", func(c *net.TCPConn, req []byte) {
			io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
			io.Copy(io.Discard, c)
		}, conform.ClassStatus, fault.Target},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			addr := dead.addr
			w.Pacing.Timeout = 20 * time.Second
			if c.class == conform.ClassTimeout {
				w.Pacing.Timeout = 100 * time.Millisecond
			}
			if c.handle != nil {
				addr = listen(t, func(conn *net.TCPConn) {
					if req, _ := request(conn, nil); req != nil {
						c.handle(conn, req)
					}
				}).addr
			}
			e := newEngine(t, Plan{Targets: []netip.AddrPort{addr}, Workload: w, FileSeed: 4, Count: 5, VerifyEvery: 1})
			ctx := limited(t)
			must(t, e.SetLoad(5, 10, 10))
			must(t, e.AwaitReady(ctx))
			r := record(t, e, 500*time.Millisecond)
			got := r.Errors[c.class]
			if len(r.Errors) != 1 || got.Count == 0 || got.Origin != c.origin || got.Example == "" {
				t.Errorf("errors %+v, want only %s of the %v", r.Errors, c.class, c.origin)
			}
			if r.Audit.OpTime != 5*500*time.Millisecond {
				t.Errorf("operations took %v of 2.5s", r.Audit.OpTime)
			}
			for _, rec := range r.Records {
				if rec.CreditedBits != 0 || rec.Ops != 0 || rec.Failed == 0 {
					t.Errorf("%+v", rec)
				}
			}
		})
	}
}

// TestTargetThatDoesNotClose counts it and goes on after a second of the next operation's time.
func TestTargetThatDoesNotClose(t *testing.T) {
	w := law(t, func(w *workload.Workload) { fast(w); small(w); w.Mix = workload.Mix{Static: 1} })
	o := &origin.Origin{Seed: 4, Routes: w.Routes}
	srv := listen(t, func(c *net.TCPConn) {
		var buf []byte
		for {
			req, rest := request(c, buf)
			if req == nil {
				return
			}
			buf = rest
			b, _ := o.Answer(req)
			c.Write(b)
		}
	})
	e := newEngine(t, Plan{Targets: []netip.AddrPort{srv.addr}, Workload: w, FileSeed: 4, Count: 8})
	ctx := limited(t)
	must(t, e.SetLoad(8, 10, 10))
	must(t, e.AwaitReady(ctx))
	r := record(t, e, 2500*time.Millisecond)
	if r.Audit.FINMissing < 8 || len(r.Errors) > 0 {
		t.Errorf("%d FINs missing, errors %v", r.Audit.FINMissing, r.Errors)
	}
}

func TestWarmFetchesEveryFileOnce(t *testing.T) {
	var mu sync.Mutex
	seen := map[fileset.File]int{}
	o := &origin.Origin{Seed: 4, Change: func(a *origin.Answer, q *origin.Asked) {
		mu.Lock()
		defer mu.Unlock()
		if seen[q.File]++; q.File == (fileset.File{Dir: 0, Class: 2, Num: 3}) && seen[q.File] > 2 {
			a.Body[100] ^= 1
		}
	}}
	srv := listen(t, right(o))
	e := newEngine(t, Plan{Targets: []netip.AddrPort{srv.addr}, FileSeed: 4, Count: 8, Loops: []int{-1, -1}})
	must(t, e.Warm(limited(t), 1, 2))
	mu.Lock()
	if len(seen) != 36 {
		t.Errorf("%d files fetched, want 36", len(seen))
	}
	for f, n := range seen {
		if n != 2 {
			t.Errorf("%v fetched %d times", f, n)
		}
	}
	mu.Unlock()
	if err := e.Warm(limited(t), 1, 1); fault.OriginOf(err) != fault.Target {
		t.Errorf("a wrong byte gives %v of origin %v", err, fault.OriginOf(err))
	}
}

// TestSingleAddress leaves the choice of ports to the kernel, as on ::1.
func TestSingleAddress(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	srv := serve(t, l, right(&origin.Origin{Seed: 4}))
	list, err := LocalSources(srv.addr.Addr(), 0, 4)
	must(t, err)
	e := newEngine(t, Plan{Targets: []netip.AddrPort{srv.addr}, FileSeed: 4, Sources: list})
	must(t, e.Warm(limited(t), 1, 1))
}

func TestBurstCountsWhatTheServerSaw(t *testing.T) {
	w := law(t, nil)
	o := &origin.Origin{Seed: 4, Tables: origin.Tables(100), Routes: w.Routes}
	srv := listen(t, right(o))
	e := newEngine(t, Plan{Targets: []netip.AddrPort{srv.addr}, Workload: w, FileSeed: 4, Loops: []int{-1, -1}})
	must(t, e.SetTables(tableBytes(t, o.Tables)))
	for _, static := range []bool{false, true} {
		r, err := e.BurstWith(limited(t), BurstOptions{Duration: 300 * time.Millisecond, Conns: 7, Static: static, Dirs: 5, Users: 100})
		must(t, err)
		if r.Ops == 0 || r.Failed != 0 || len(r.Errors) > 0 || r.Bits <= 0 || r.Whole.Count() != int64(r.Ops) {
			t.Errorf("burst: %d operations, %d failed, %v", r.Ops, r.Failed, r.Errors)
		}
		if r.OpsPerSec != float64(r.Ops)/0.3 {
			t.Errorf("%v operations/s of %d in 0.3 s", r.OpsPerSec, r.Ops)
		}
	}
	if _, err := e.Burst(limited(t), time.Second, 0); fault.OriginOf(err) != fault.Config {
		t.Errorf("burst without connections: %v", err)
	}
}

func TestCancelledWaits(t *testing.T) {
	srv := listen(t, func(c *net.TCPConn) { io.Copy(io.Discard, c) })
	e := newEngine(t, Plan{Targets: []netip.AddrPort{srv.addr}, FileSeed: 4, Count: 4})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	must(t, e.SetLoad(4, 5, 5))
	must(t, e.AwaitReady(limited(t)))
	for name, f := range map[string]func(context.Context) error{
		"pause": e.Pause,
		"warm":  func(ctx context.Context) error { return e.Warm(ctx, 1, 1) },
		"burst": func(ctx context.Context) error {
			_, err := e.Burst(ctx, time.Minute, 3)
			return err
		},
	} {
		if err := f(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := e.Collect(limited(t)); err == nil {
		t.Error("collect without a window")
	}
	if err := e.Window(clock.Now().Add(-time.Second), clock.Now().Add(time.Second)); err == nil {
		t.Error("a window that has begun was taken")
	}
	far := clock.Now().Add(time.Hour)
	must(t, e.Window(far, far.Add(time.Second)))
	collected := make(chan error)
	go func() {
		_, err := e.Collect(limited(t))
		collected <- err
	}()
	for err := error(nil); err == nil; { // whenever the other one takes the window in hand, it must learn of the end
		must(t, e.Window(far, far.Add(time.Second)))
		select {
		case err = <-collected:
		default:
		}
	}
	must(t, e.Close())
	if err := e.SetLoad(1, 5, 5); err == nil {
		t.Error("a closed engine took a load")
	}
}
