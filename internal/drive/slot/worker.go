package slot

import (
	"math"
	"net/netip"
	"sync/atomic"
	"time"

	"tidemark.dev/internal/drive/slot/exchange"
	"tidemark.dev/internal/drive/slot/source"
	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/model/pace"
	"tidemark.dev/internal/model/workload"
)

// carrier is the part of *loop.Loop a worker uses. Tests put a simulated network with a manual clock in its place.
type carrier interface {
	Connect(o *loop.ConnectOptions) (loop.ID, error)
	Recv(id loop.ID, max int)
	Skip(id loop.ID, max int)
	Send(id loop.ID, head, body, tail []byte) (done bool)
	Close(id loop.ID)
	SetTimer(key uint32, due clock.Instant)
	CancelTimer(key uint32)
	Refresh() clock.Instant
	TurnStart() clock.Instant
	Backlog() time.Duration
	Fd(id loop.ID) int
	Stats() loop.Stats
}

// state is where a slot stands. From connecting on an operation is open.
type state uint8

const (
	gone       state = iota // not part of the load, no connection
	parked                  // waits for Resume, its connection perhaps open
	connecting              // handshake under way
	ending                  // the last session is over: wait for the target's FIN, then connect
	receiving               // request sent, response not complete
	crediting               // response complete, line time not
	recovering              // back-off after an error
)

// role says what a slot works for.
type role uint8

const (
	user    role = iota // a slot of the load
	fetcher             // of Warm
	burster             // of Burst
)

// slot is one simulated user: at most one connection, one operation at a time.
type slot struct {
	cursor workload.Cursor
	op     workload.Op
	bucket pace.Bucket
	reply  exchange.Reply
	post   *Post // the POST under way

	begun    clock.Instant // operation
	asked    clock.Instant // connect, send or receive was asked for
	first    clock.Instant // first response byte
	line     clock.Instant // line clock began; 0 not yet
	deadline clock.Instant // what the timer is wanted for
	alarm    clock.Instant // what it is set to; 0 not set

	late  time.Duration // lateness charged to the operation
	slack time.Duration // lateness of its paced reads, charged only if they delayed its end

	wire   int64 // bytes read from the socket
	free   int64 // HTTP-layer bytes that a stationary start reads unpaced
	base   int64 // bits credited before the window began
	passed int64 // bits credited in a window that ended during the operation
	share  float64

	conn   loop.ID
	number uint32 // global slot number
	served uint32 // responses on this connection
	from   source.Pair
	state  state
	role   role

	linked, armed, eof, ends bool // connection open; receive armed; FIN seen; connection ends with this response
	metered, tried, leaving  bool // waits for tokens; ever connected; above the load: its open operation ends unpaced
}

// bits returns the HTTP-layer bits received that the line clock counts.
func (s *slot) bits() int64 { return 8 * (s.reply.Counted() - s.free) }

// credited returns the bits credited at t.
func (s *slot) credited(t clock.Instant) int64 {
	if s.line == 0 || s.state < receiving || s.state == recovering {
		return 0
	}
	return s.bucket.Pacer.Credited(s.bits(), t.Sub(s.line))
}

// Timer keys below controls belong to the worker, key controls+i to its slot i.
const (
	keyRamp uint32 = iota
	keyPublish
	keyEdge
	keyTask
	controls
)

const (
	never        = clock.Instant(math.MaxInt64)
	rampTick     = 5 * time.Millisecond
	publishEvery = 100 * time.Millisecond
	finWait      = time.Second // how long the target may take to close
)

// sums are a worker's counters since it was made. Window figures are differences of two of them.
type sums struct {
	ops, failed, connects      uint64
	bits, wire                 int64
	late                       time.Duration
	finMissing, hangups, stale uint64
	checked                    exchange.Checked
}

// worker owns the slots of one loop. Everything in it belongs to the loop goroutine, except what is atomic and,
// before the loop runs, everything.
type worker struct {
	net   carrier
	loop  *loop.Loop // nil in simulations
	index int        // of this loop
	loops int

	plan    *Plan
	pacer   pace.Pacer
	timeout time.Duration
	backoff time.Duration
	segment int
	checker *exchange.Checker
	sampler *workload.Sampler
	ports   *source.Ports // nil: the kernel chooses
	connect loop.ConnectOptions
	slots   []slot // users first, then those of tasks
	users   int
	owner   []uint32 // slot of each connection
	request []byte

	target, running, above int // slots wanted, in operation, and those of them above target
	paused                 bool
	scan                   int
	rampFrom               clock.Instant
	ramped                 time.Duration // of the ramp that the slots started so far stand for
	gen                    uint64
	reached                atomic.Uint64
	readyWait, idleWait    []chan struct{}

	sum    sums
	trips  tripwire
	worst  time.Duration
	edge   clock.Instant // next edge of the window
	win    *window
	task   *task
	posts  posts
	open   int
	snap   snapshot
	algos  []string // congestion controls read back
	looked bool
}

// newWorker makes the worker of loop index of loops. Its carrier is set later.
func newWorker(p *Plan, line pace.Pacer, index, loops int) *worker {
	w := &worker{
		index: index, loops: loops, plan: p, pacer: line, edge: never,
		timeout: p.Workload.Pacing.Timeout, backoff: p.Workload.Pacing.Backoff, segment: p.Workload.Pacing.SegmentBytes,
		checker: exchange.New(p.Host, p.Workload.Routes, p.FileSeed, p.Wall), request: make([]byte, 0, 1024),
	}
	w.connect.RcvBuf = p.Workload.Pacing.RecvBufferBytes
	w.connect.MaxSeg = p.Workload.Pacing.SegmentBytes
	w.connect.LazyAck = true // the request follows at once
	if len(p.Sources) > 0 {
		w.ports = source.New(p.Sources, p.PortFirst, p.PortLast, index, loops, clock.Now())
	}
	w.users = dealt(p.Count, index, loops)
	w.slots = make([]slot, w.users)
	for i := range w.slots {
		s := &w.slots[i]
		s.number = uint32(p.Share.Number(i*loops + index))
		s.cursor.Seed, s.cursor.Slot = p.Seed, s.number
		s.bucket = line.Bucket()
	}
	return w
}

// dealt returns how many of n things that are dealt in turn loop index of loops gets.
func dealt(n, index, loops int) int { return (n - index + loops - 1) / loops }

// tick reads the clock and settles a window edge that has passed before anything else happens.
func (w *worker) tick() clock.Instant {
	now := w.net.Refresh()
	for now >= w.edge {
		w.settle()
	}
	return now
}

// ready returns how late an event is handled that cannot have been possible before since.
func (w *worker) ready(now, since clock.Instant) time.Duration {
	return min(now.Sub(since), now.Sub(w.net.TurnStart())+w.net.Backlog())
}

// delay notes one delay of our own that ends now, and returns what of it lies in the time that is recorded: like an
// operation it is split where the window began.
func (w *worker) delay(now clock.Instant, d time.Duration) time.Duration {
	w.worst = max(w.worst, d)
	if w.win != nil && w.win.open {
		d = min(d, now.Sub(w.win.start))
	}
	return d
}

// lag charges a delay of our own that ends now to the open operation of slot i. What of it lies before the end of a
// window that is over goes to its record.
func (w *worker) lag(i uint32, s *slot, now clock.Instant, d time.Duration) {
	d = w.delay(now, d)
	if win := w.win; win != nil && win.over && s.role == user {
		passed := min(d-now.Sub(win.end), win.end.Sub(max(s.begun, win.start)))
		if passed > 0 {
			win.records[i].Late += passed
			d -= passed
		}
	}
	s.late += d
}

// arm wants the slot's timer at t. A timer that is set earlier is left alone and moved on when it fires.
func (w *worker) arm(i uint32, s *slot, t clock.Instant) {
	s.deadline = t
	if t == never || s.alarm != 0 && s.alarm <= t {
		return
	}
	s.alarm = t
	w.net.SetTimer(controls+i, t)
}

// Accepted never happens: workers do not listen.
func (w *worker) Accepted(loop.ID, int, netip.AddrPort) {}

// Expired handles a timer. Loop goroutine. No allocation.
func (w *worker) Expired(key uint32, due clock.Instant) {
	now := w.tick()
	if key < controls {
		w.control(key, now)
		return
	}
	i := key - controls
	s := &w.slots[i]
	s.alarm = 0
	if now < s.deadline {
		if s.deadline != never {
			w.arm(i, s, s.deadline)
		}
		return
	}
	late := now.Sub(s.deadline)
	s.deadline = never
	switch s.state {
	case connecting:
		w.fail(i, s, now, exchange.Timeout, "no connection")
	case receiving:
		if !s.metered {
			w.fail(i, s, now, exchange.Timeout, "no progress")
			return
		}
		s.metered = false
		s.slack += w.delay(now, late)
		w.more(i, s, now)
	case crediting:
		w.lag(i, s, now, late)
		w.finish(i, s, now)
	case ending:
		w.lag(i, s, now, late)
		w.sum.finMissing++
		w.drop(s, now)
		w.dial(i, s, now)
	case recovering:
		w.lag(i, s, now, late)
		w.spend(i, s, now)
		w.next(i, s, now)
	case parked:
		if s.linked && s.ends {
			w.sum.finMissing++
			w.drop(s, now)
		}
	}
}

// control handles the worker's own timers.
func (w *worker) control(key uint32, now clock.Instant) {
	switch key {
	case keyRamp:
		w.ramp(now)
	case keyPublish:
		w.publish()
		w.net.SetTimer(keyPublish, now.Add(publishEvery))
	case keyTask:
		w.taskOver(now)
	case keyEdge: // tick has settled it
	}
}

// ramp starts as many slots as the ramp allows by now: new ones at the plan's rate, those that have been at work before
// within half a second, which is slower than they ask by themselves and so no jolt.
func (w *worker) ramp(now clock.Instant) {
	fresh := time.Duration(float64(time.Second) * float64(w.loops) / float64(w.plan.RampPerSecond))
	again := min(fresh, time.Second/2/time.Duration(max(1, w.target)))
	for ; w.scan < w.target && w.ramped <= now.Sub(w.rampFrom) && !w.paused; w.scan++ {
		s := &w.slots[w.scan]
		switch s.state {
		case gone:
			w.ramped += fresh
		case parked:
			w.ramped += again
		default:
			continue
		}
		w.start(uint32(w.scan), s, now)
	}
	if w.scan < w.target && !w.paused {
		w.net.SetTimer(keyRamp, now.Add(rampTick))
	}
	w.check()
}

// beginRamp starts idle slots.
func (w *worker) beginRamp(now clock.Instant) {
	w.scan, w.ramped, w.rampFrom = 0, 0, now
	w.ramp(now)
}

// setLoad wants the first target slots in operation and all others gone.
func (w *worker) setLoad(target int, s *workload.Sampler, gen uint64) {
	now := w.tick()
	w.target, w.sampler, w.gen, w.above = target, s, max(w.gen, gen), 0
	for i := range w.slots[:w.users] {
		s := &w.slots[i]
		s.leaving = i >= target
		switch {
		case i < target:
		case s.state == parked:
			w.retire(s, now)
		case s.state != gone:
			w.above++
		}
	}
	for i := target; i < w.users; i++ {
		w.hasten(uint32(i), &w.slots[i], now)
	}
	w.beginRamp(now)
}

// hurried tells that a slot's open operation is to end unpaced: all are to wait, or this one is to go.
func (w *worker) hurried(s *slot) bool {
	return s.role == user && (w.paused || s.leaving)
}

// hasten lets an open operation end unpaced: nobody waits 18 s for the largest file of a slot that is to go.
func (w *worker) hasten(i uint32, s *slot, now clock.Instant) {
	switch s.state {
	case receiving:
		if s.metered {
			s.metered = false
			w.more(i, s, now)
		}
	case crediting:
		w.finish(i, s, now)
	case recovering:
		w.spend(i, s, now)
		w.next(i, s, now)
	}
}

// pause lets every open operation end unpaced.
func (w *worker) pause() {
	now := w.tick()
	w.paused = true
	for i := range w.slots[:w.users] {
		w.hasten(uint32(i), &w.slots[i], now)
	}
	w.check()
}

// abandon ends what a pause has left open.
func (w *worker) abandon() (open int) {
	now := w.tick()
	for i := range w.slots[:w.users] {
		if s := &w.slots[i]; w.paused && s.state >= connecting {
			open++
			w.fail(uint32(i), s, now, exchange.Timeout, "given up at the end of the drain")
		}
	}
	return open
}

// resume starts the slots again.
func (w *worker) resume(gen uint64) {
	now := w.tick()
	w.paused, w.gen = false, max(w.gen, gen)
	w.beginRamp(now)
}

// check tells those who wait for a full load or for silence.
func (w *worker) check() {
	if w.running == 0 {
		w.publish()
		w.idleWait = release(w.idleWait)
	}
	if w.above == 0 && (w.paused || w.running == w.target) {
		w.publish()
		w.reached.Store(w.gen)
		w.readyWait = release(w.readyWait)
	}
}

func release(waiting []chan struct{}) []chan struct{} {
	for _, c := range waiting {
		close(c)
	}
	return waiting[:0]
}

// snapshot is what Progress reads.
type snapshot struct {
	load, running, connected    atomic.Int64
	ops, failed, connects, ours atomic.Uint64
	bits, wire, late            atomic.Int64
}

func (w *worker) publish() {
	p := &w.snap
	p.load.Store(int64(w.target))
	p.running.Store(int64(w.running))
	p.connected.Store(int64(w.open))
	p.ops.Store(w.sum.ops)
	p.failed.Store(w.sum.failed)
	p.connects.Store(w.sum.connects)
	p.bits.Store(w.sum.bits)
	p.wire.Store(w.sum.wire)
	p.late.Store(int64(w.sum.late))
	var ours uint64
	for f, n := range w.trips.count {
		if n > 0 && exchange.Class(f).Ours() {
			ours += n
		}
	}
	p.ours.Store(ours)
}
