package slot

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidemark.dev/internal/drive/slot/source"
	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/pace"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// Engine drives the slots of one agent. Its methods may be called from any goroutine.
type Engine struct {
	plan    Plan
	workers []*worker
	gen     atomic.Uint64
	ended   sync.WaitGroup
	failure atomic.Pointer[error] // first error of a loop

	mu          sync.Mutex // serialises the methods that set up, not the loops
	dirs, users int        // of the last SetLoad
	tasking     sync.Mutex // one Warm or Burst at a time
}

// maxSlots bounds Plan.Count; a process has far fewer descriptors.
const maxSlots = 1_000_000

// New makes an engine and starts its loops. It has no load yet.
func New(p Plan) (*Engine, error) {
	line, err := p.prepare()
	if err != nil {
		return nil, err
	}
	e := &Engine{plan: p}
	for k, cpu := range p.Loops {
		w := newWorker(&e.plan, line, k, len(p.Loops))
		l, err := loop.New(loop.Options{Backend: p.Backend, CPU: cpu}, w)
		if err != nil {
			for _, w := range e.workers { // Run releases what New took
				w.loop.Stop()
				_ = w.loop.Run()
			}
			return nil, fault.Wrap(fault.Driver, err, "loop")
		}
		w.net, w.loop = l, l
		e.workers = append(e.workers, w)
	}
	for _, w := range e.workers {
		w.loop.Post(func() { w.net.SetTimer(keyPublish, w.net.Refresh()) })
		e.ended.Add(1)
		go func() {
			defer e.ended.Done()
			if err := w.loop.Run(); err != nil {
				err = fault.Wrap(fault.Driver, err, fmt.Sprintf("loop %d", w.index))
				e.failure.CompareAndSwap(nil, &err)
			}
		}()
	}
	return e, nil
}

// Backend returns what the loops run on, and why that is not io_uring where Plan.Backend asked to try it.
func (e *Engine) Backend() (name, fallback string) { return e.workers[0].loop.Backend() }

// prepare fills in defaults and refuses what cannot be.
func (p *Plan) prepare() (line pace.Pacer, err error) {
	var bad fault.Problems
	no := func(field, format string, a ...any) { bad.Add(fault.Problem{Field: field}, format, a...) }
	if len(p.Targets) == 0 {
		no("targets", "at least one address is needed")
	}
	for _, t := range p.Targets {
		if !t.IsValid() || t.Port() == 0 {
			no("targets", "%v is no address and port", t)
		}
	}
	if p.Workload == nil {
		no("workload", "is missing")
		return line, bad.Err()
	}
	if p.Count < 0 || p.Count > maxSlots {
		no("count", "%d slots, 0 to %d are possible", p.Count, maxSlots)
	}
	def := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	def(&p.VerifyEvery, 16)
	def(&p.RampPerSecond, 1000)
	if p.Count > 0 && (p.Share.Period > 0 && len(p.Share.Positions) == 0 || p.Share.Number(p.Count-1) >= taskNumber) {
		no("share", "%d slots do not fit", p.Count)
	}
	if p.RampPerSecond < 1 {
		no("ramp_per_second", "%d is not positive", p.RampPerSecond)
	}
	if p.PortFirst == 0 {
		p.PortFirst = 1024
	}
	if p.PortLast == 0 {
		p.PortLast = 65535
	}
	if len(p.Loops) == 0 {
		p.Loops = []int{-1}
	}
	if ports := int(p.PortLast) - int(p.PortFirst) + 1; ports < len(p.Loops) {
		no("port_first", "%d to %d are too few ports for %d loops", p.PortFirst, p.PortLast, len(p.Loops))
	}
	for _, s := range p.Sources {
		if len(p.Targets) > 0 && s.Is4() != p.Targets[0].Addr().Unmap().Is4() {
			no("sources", "%v and target %v are of different families", s, p.Targets[0])
		}
	}
	if p.Host == "" && len(p.Targets) > 0 {
		p.Host = p.Targets[0].String()
	}
	if p.Wall == nil {
		p.Wall = func(i clock.Instant) int64 { return clock.Wall(i).Unix() }
	}
	if p.Pacing == "" {
		p.Pacing = p.Workload.Pacing.Mode
	}
	if p.Pacing == "" {
		p.Pacing = Rated
	}
	mode, known := pace.ParseMode(p.Pacing)
	if !known {
		no("pacing", "%q is not rated, deferred or none", p.Pacing)
	}
	line = pace.Pacer{Rate: p.Workload.Pacing.LineBps, Quantum: int32(p.Workload.Pacing.QuantumBytes), Mode: mode}
	return line, bad.Err()
}

// post runs f on the loop of w and waits for its end.
func (e *Engine) post(w *worker, f func()) error {
	done := make(chan struct{})
	if !w.loop.Post(func() { defer close(done); f() }) {
		return e.broken()
	}
	<-done
	return nil
}

// each runs f on every loop and waits until all have run.
func (e *Engine) each(f func(w *worker)) error {
	var all sync.WaitGroup
	for _, w := range e.workers {
		all.Add(1)
		if !w.loop.Post(func() { defer all.Done(); f(w) }) {
			all.Done()
			all.Wait()
			return e.broken()
		}
	}
	all.Wait()
	return nil
}

func (e *Engine) broken() error {
	if err := e.failure.Load(); err != nil {
		return *err
	}
	return fault.New(fault.Driver, "the engine is closed")
}

// SetTables gives the two tables as fetched after a Reset, and starts a new list of POSTs. The load should be
// paused or 0: an answer under way would be judged by the new tables.
func (e *Engine) SetTables(users, ads []byte) error {
	t, err := web99.ParseTables(users, ads)
	if err != nil {
		return fault.Wrap(fault.Target, err, "tables")
	}
	return e.each(func(w *worker) {
		w.checker.SetTables(t)
		w.takePosts()
	})
}

// SetLoad asks for so many slots drawing over so many directories and users. It returns at once; slots are added
// at RampPerSecond and removed at the end of their operation, whose rest is read unpaced. See Ready.
func (e *Engine) SetLoad(slots, dirs, users int) error {
	if slots < 0 || slots > e.plan.Count {
		return fault.New(fault.Config, "load of %d slots, the plan has %d", slots, e.plan.Count)
	}
	if dirs < 1 || dirs > fileset.MaxDirs || users < 1 || users > workload.MaxUsers {
		return fault.New(fault.Config, "load over %d directories and %d users", dirs, users)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.plan.Workload.Sampler(dirs, users)
	e.dirs, e.users = dirs, users
	gen := e.gen.Add(1)
	return e.each(func(w *worker) { w.setLoad(dealt(slots, w.index, w.loops), s, gen) })
}

// Ready reports whether the load asked for has been reached: every slot of it in operation, every other gone. While
// paused, the second half alone decides.
func (e *Engine) Ready() bool {
	gen := e.gen.Load()
	for _, w := range e.workers {
		if w.reached.Load() != gen {
			return false
		}
	}
	return true
}

// AwaitReady waits until Ready.
func (e *Engine) AwaitReady(ctx context.Context) error {
	return e.await(ctx, "await load", func(w *worker, c chan struct{}) { w.readyWait = append(w.readyWait, c) })
}

// await has every worker close a channel of its own when it comes to what enter registers for.
func (e *Engine) await(ctx context.Context, what string, enter func(w *worker, c chan struct{})) error {
	var waits []chan struct{}
	for _, w := range e.workers {
		c := make(chan struct{})
		waits = append(waits, c)
		if err := e.post(w, func() { enter(w, c); w.check() }); err != nil {
			return err
		}
	}
	return e.wait(ctx, what, waits)
}

// wait returns when all channels are closed, or with an error when ctx or a loop ends first.
func (e *Engine) wait(ctx context.Context, what string, waits []chan struct{}) error {
	tick := time.NewTicker(time.Second) // a loop that died closes nothing
	defer tick.Stop()
	for _, c := range waits {
		for open := true; open; {
			select {
			case <-c:
				open = false
			case <-ctx.Done():
				return fault.Wrap(fault.Driver, context.Cause(ctx), what)
			case <-tick.C:
				if err := e.failure.Load(); err != nil {
					return *err
				}
			}
		}
	}
	return nil
}

// Pause drains: the rest of every open operation is read unpaced, then slots wait with their connections open. It
// returns when all wait; when ctx ends first, the drain goes on by itself.
func (e *Engine) Pause(ctx context.Context) error {
	return e.await(ctx, "drain", func(w *worker, c chan struct{}) {
		w.idleWait = append(w.idleWait, c)
		w.pause()
	})
}

// Abandon fails, as a timeout, every operation that a drain has left open, and returns how many those were. A window
// that has ended takes back what it credited to them.
func (e *Engine) Abandon() (open int, err error) {
	var n atomic.Int64
	err = e.each(func(w *worker) { n.Add(int64(w.abandon())) })
	return int(n.Load()), err
}

// Resume starts the paused slots again, each with a stationary first operation. AwaitReady tells when all run.
func (e *Engine) Resume() {
	gen := e.gen.Add(1)
	_ = e.each(func(w *worker) { w.resume(gen) }) // a closed engine has nothing to resume
}

// Window sets the recording window, replacing one that was not collected. It fails if the start has passed when a
// loop hears of it. The load should be reached, and neither load nor pause change inside.
func (e *Engine) Window(start, end clock.Instant) error {
	if end <= start {
		return fault.New(fault.Config, "window ends %v after its start", end.Sub(start))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	wins := make([]*window, len(e.workers))
	for i, w := range e.workers {
		wins[i] = newWindow(start, end, w.users, e.dirs)
	}
	ahead := make([]time.Duration, len(e.workers))
	if err := e.each(func(w *worker) { ahead[w.index] = w.setWindow(wins[w.index]) }); err != nil {
		return err
	}
	if d := slices.Min(ahead); d <= 0 {
		return fault.New(fault.Driver, "window began %v before the loops could be told", -d)
	}
	return nil
}

// Warm fetches every file of the first dirs directories unpaced and verifies every byte, passes times, over a few
// connections. It ends early after many failures. The file set must have that many directories.
func (e *Engine) Warm(ctx context.Context, dirs, passes int) error {
	if dirs < 1 || dirs > fileset.MaxDirs {
		return fault.New(fault.Config, "warm-up of %d directories", dirs)
	}
	tasks, err := e.run(ctx, warmConns, func(w *worker) *task {
		return &task{
			role: fetcher, file: int64(w.index), step: int64(w.loops),
			files: int64(dirs) * fileset.FilesPerDir, passes: passes,
		}
	})
	if err != nil {
		return err
	}
	var all tripwire
	for _, t := range tasks {
		all.add(&t.trip)
	}
	return all.err("warm-up")
}

// warmConns is the number of connections of a warm-up: enough to keep a server's cores busy, too few to be a load.
const warmConns = 16

// run has every worker do its part of a task.
func (e *Engine) run(ctx context.Context, conns int, part func(w *worker) *task) ([]*task, error) {
	e.tasking.Lock()
	defer e.tasking.Unlock()
	var tasks []*task
	var waits []chan struct{}
	for _, w := range e.workers {
		t := part(w)
		t.done = make(chan struct{})
		tasks, waits = append(tasks, t), append(waits, t.done)
	}
	if err := e.each(func(w *worker) { w.beginTask(tasks[w.index], dealt(conns, w.index, w.loops)) }); err != nil {
		return nil, err
	}
	what := "burst"
	if tasks[0].role == fetcher {
		what = "warm-up"
	}
	if err := e.wait(ctx, what, waits); err != nil {
		_ = e.each(func(w *worker) { w.cancelTask() }) // err says more than a second one would
		return nil, err
	}
	return tasks, nil
}

// Burst runs an unpaced closed loop over the whole mix for the duration.
func (e *Engine) Burst(ctx context.Context, d time.Duration, conns int) (BurstResult, error) {
	return e.BurstWith(ctx, BurstOptions{Duration: d, Conns: conns})
}

// BurstWith runs an unpaced closed loop as described by o.
func (e *Engine) BurstWith(ctx context.Context, o BurstOptions) (BurstResult, error) {
	e.mu.Lock()
	if o.Dirs == 0 {
		o.Dirs = e.dirs
	}
	if o.Users == 0 {
		o.Users = max(1, e.users)
	}
	e.mu.Unlock()
	r := BurstResult{Conns: o.Conns}
	if o.Duration <= 0 || o.Conns < 1 || o.Dirs < 1 || o.Dirs > fileset.MaxDirs || o.Users > workload.MaxUsers {
		return r, fault.New(fault.Config, "burst of %v over %d connections, %d directories, %d users", o.Duration, o.Conns, o.Dirs, o.Users)
	}
	sampler := e.plan.Workload.Sampler(o.Dirs, o.Users)
	begun := clock.Now()
	tasks, err := e.run(ctx, o.Conns, func(w *worker) *task {
		return &task{role: burster, sampler: sampler, static: o.Static, end: begun.Add(o.Duration)}
	})
	if err != nil {
		return r, err
	}
	var all tripwire
	for k, t := range tasks {
		r.Ops += t.ops
		r.Failed += t.failed
		r.Bits += t.bits
		r.Connects += t.connects
		all.add(&t.trip)
		if k > 0 {
			tasks[0].first.Merge(&t.first)
			tasks[0].whole.Merge(&t.whole)
		}
	}
	r.FirstByte, r.Whole = &tasks[0].first, &tasks[0].whole
	r.Duration = o.Duration
	r.OpsPerSec = float64(r.Ops) / o.Duration.Seconds()
	r.Errors = all.errors()
	return r, nil
}

// Progress returns a snapshot.
func (e *Engine) Progress() Progress {
	var p Progress
	for _, w := range e.workers {
		s := &w.snap
		p.Load += int(s.load.Load())
		p.Running += int(s.running.Load())
		p.Connected += int(s.connected.Load())
		p.Ops += s.ops.Load()
		p.Failed += s.failed.Load()
		p.Connects += s.connects.Load()
		p.Bits += s.bits.Load()
		p.WireBytes += s.wire.Load()
		p.Late += time.Duration(s.late.Load())
		p.Driver += s.ours.Load()
	}
	return p
}

// Close stops the loops, closes every connection and waits for both. It returns the first error of a loop.
func (e *Engine) Close() error {
	for _, w := range e.workers {
		w.loop.Stop()
	}
	e.ended.Wait()
	if err := e.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// LocalSources lists local addresses for Plan.Sources; see source.Local.
func LocalSources(target netip.Addr, agent, n int) ([]netip.Addr, error) {
	return source.Local(target, agent, n)
}

// SourcesNeeded returns how many source addresses a rate of connections needs; see source.Needed.
func SourcesNeeded(perSecond float64, targets int) int { return source.Needed(perSecond, targets) }
