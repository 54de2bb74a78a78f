package loop

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/engine/pin"
	"tidemark.dev/internal/engine/socket"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/wheel"
)

const (
	defaultConns  = 1 << 20
	defaultBuffer = 64 << 10
	tick          = 250 * time.Microsecond
)

// backend does the input and output of one loop. The loop crosses it for each phase of
// a turn and for each operation a handler asks for; completions of a whole batch come
// back inside complete and flush, so a backend of completions (io_uring) and one of
// readiness (epoll, which imitates them) look the same from both sides.
//
// All methods are called on the loop goroutine. None calls the handler except complete
// and flush.
type backend interface {
	// wait ends the turn before: it takes what is ready, and if nothing is, it
	// sleeps as long as the loop's patience allows. full: there may be more.
	wait(l *Loop) (slept, full bool, err error)
	// complete delivers what wait took.
	complete()
	// flush delivers what the handler's own doings of this turn made possible.
	flush()
	// busy reports work left over for the next turn, so that it must not sleep.
	busy() bool

	listen(fd int32, deferred bool) (index int, err error)
	unlisten(index int)
	room() // IDs have become free again
	connecting(c *conn, done bool) error
	recv(c *conn, max int, flags uint32) // flags: 0 or skipping
	send(c *conn, head, body, tail []byte) bool
	sendFile(c *conn, head []byte, fd int, off, n int64, tail []byte) bool
	closeWrite(c *conn)
	drop(c *conn) // closes c
	close()
}

// Loop is one event loop. Unless a method says otherwise it belongs to the loop
// goroutine: the one in Run, and before Run the one that called New.
type Loop struct {
	be    backend
	h     Handler
	table table
	wheel *wheel.Wheel
	mail  mailbox
	stats Stats
	cpu   int
	ran   atomic.Bool

	backend, fallback string

	now, start, floor clock.Instant
	full              bool // the last wait filled its array
	fire              func(key uint32, due clock.Instant)
	retry             clock.Instant // when stopped listeners are tried again; 0: none
}

// New returns a loop that does nothing yet. It holds descriptors until Run returns;
// a loop that is not wanted after all is released by Stop followed by Run.
func New(o Options, h Handler) (*Loop, error) {
	if h == nil {
		return nil, errors.New("event loop: no handler")
	}
	if o.MaxConns == 0 {
		o.MaxConns = defaultConns
	}
	if o.MaxConns < 0 || o.MaxConns > 1<<30 {
		return nil, fmt.Errorf("event loop: MaxConns %d is outside 1 to %d", o.MaxConns, 1<<30)
	}
	if o.RecvBuffer == 0 {
		o.RecvBuffer = defaultBuffer
	}
	if o.RecvBuffer < 1<<10 || o.RecvBuffer > 16<<20 {
		return nil, fmt.Errorf("event loop: RecvBuffer %d is outside 1 KiB to 16 MiB", o.RecvBuffer)
	}
	if err := pin.Check(o.CPU); err != nil {
		return nil, fmt.Errorf("event loop: %w", err)
	}
	if !slices.Contains(Backends(), o.Backend) && o.Backend != "" {
		return nil, fmt.Errorf("event loop: unknown backend %q; use one of %s", o.Backend, strings.Join(Backends(), ", "))
	}
	bell, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("event loop: eventfd: %w", err)
	}
	l := &Loop{h: h, cpu: o.CPU}
	l.table.max = o.MaxConns
	l.mail.bell = bell
	l.now = clock.Now()
	l.start, l.floor = l.now, l.now
	l.wheel = wheel.New(tick, l.now)
	l.fire = func(key uint32, due clock.Instant) {
		l.stats.Timers++
		l.h.Expired(key, due)
	}
	if err := l.choose(&o); err != nil {
		closefd(int32(bell))
		return nil, fmt.Errorf("event loop: %w", err)
	}
	return l, nil
}

// choose makes the backend.
func (l *Loop) choose(o *Options) error {
	if o.Backend == "io_uring" || o.Backend != "epoll" && o.Batch {
		u, err := newUring(l, o)
		if err == nil {
			l.be, l.backend = u, "io_uring"
			return nil
		}
		if o.Backend == "io_uring" {
			return fmt.Errorf("%w; backend epoll works everywhere", err)
		}
		l.fallback = err.Error()
	}
	e, err := newEpoll(l, o.RecvBuffer)
	if err != nil {
		return err
	}
	l.be, l.backend = e, "epoll"
	return nil
}

// Backend returns what the loop runs on, "epoll" or "io_uring", and why that is not
// what it would have been, or "". Any goroutine.
func (l *Loop) Backend() (name, fallback string) { return l.backend, l.fallback }

// Run turns the loop until Stop. It locks the calling goroutine to its thread, binds
// that thread to Options.CPU, and undoes both before it returns; when the binding
// cannot be undone the goroutine stays locked, so that no other one inherits it.
// On return everything is closed, and no completion was sent for what was open.
func (l *Loop) Run() error {
	if l.ran.Swap(true) {
		return errors.New("event loop: Run called twice")
	}
	runtime.LockOSThread()
	undo, err := pin.Thread(l.cpu)
	if err == nil {
		for err == nil {
			var last bool
			if last, err = l.turn(); last {
				break
			}
		}
	} else {
		undo = func() bool { return true }
	}
	l.shut() // on this thread, to which a ring belongs
	if undo() {
		runtime.UnlockOSThread()
	}
	if err != nil {
		return fmt.Errorf("event loop: %w", err)
	}
	return nil
}

// turn is one pass: wait, completions, posted functions, timers, and what all of these
// made possible. No allocation. Blocks only in wait.
func (l *Loop) turn() (last bool, err error) {
	slept, full, err := l.be.wait(l)
	if err != nil {
		return false, err
	}
	l.begin(slept, full)
	l.be.complete()
	last = l.runPosts()
	l.wheel.Advance(l.Refresh(), l.fire)
	l.be.flush()
	if l.table.reap() {
		l.be.room()
	}
	if d := clock.Now().Sub(l.start); d > l.stats.LongestTurn {
		l.stats.LongestTurn = d
	}
	return last, nil
}

// begin notes when the turn started and since when its events can have been ready.
//
// An event handled in this turn became ready after the previous wait returned, or that
// wait would have returned it: floor is the start of the previous turn. If this wait
// slept, nothing was ready when it began and floor is now. If the previous wait
// filled its array, some events of this turn may be older: floor stays.
func (l *Loop) begin(slept, full bool) {
	prev := l.start
	l.start = clock.Now()
	l.now = l.start
	l.stats.Turns++
	switch {
	case slept:
		l.stats.Sleeps++
		l.floor = l.start
	case !l.full:
		l.floor = prev
	}
	l.full = full
	if full {
		l.stats.FullBatches++
	}
}

// patience returns how long the loop may sleep now as far as it knows itself, the
// mailbox aside: 0 not at all, below 0 for ever.
func (l *Loop) patience() time.Duration {
	if l.be.busy() {
		return 0
	}
	next, ok := l.wheel.Next()
	if l.retry != 0 && (!ok || l.retry.Before(next)) {
		next, ok = l.retry, true
	}
	if !ok {
		return -1
	}
	return max(0, next.Sub(clock.Now()))
}

// runPosts runs the functions posted up to now and reports whether they were the last.
func (l *Loop) runPosts() (last bool) {
	n, last := l.mail.take()
	for ; n != nil; n = n.next {
		if n.f == nil || n.to && l.table.find(n.ref) == nil {
			continue
		}
		l.stats.Posts++
		n.f()
	}
	return last
}

// shut closes everything.
func (l *Loop) shut() {
	for last := false; !last; {
		l.mail.push(&letter{stop: true})
		last = l.runPosts()
	}
	l.mail.close()
	l.table.each(l.drop)
	l.table.reap()
	l.be.close()
	closefd(int32(l.mail.bell))
	l.mail.bell = -1
}

// Stop makes Run return at the end of its turn; functions already posted still run.
// Any goroutine, any number of times. After it Post returns false.
func (l *Loop) Stop() { l.mail.push(&letter{stop: true}) }

// Post has f run on the loop goroutine, in the turn under way or the next one,
// functions of one sender in the order they were posted. It returns false, and f will
// not run, after Stop. Any goroutine. Allocates. Does not block.
func (l *Loop) Post(f func()) bool { return l.mail.push(&letter{f: f}) }

// PostTo is Post for a function about one connection: when that has been closed by
// then, f does not run, even if its ID already has another owner. It returns false
// only after Stop. Any goroutine. Allocates. Does not block.
func (l *Loop) PostTo(r Ref, f func()) bool { return l.mail.push(&letter{f: f, ref: r, to: true}) }

// Ref returns the lasting name of id. Loop goroutine. No allocation.
func (l *Loop) Ref(id ID) Ref {
	c := l.table.lookup(id)
	if c == nil {
		return Ref{ID: id, Gen: ^uint32(0)}
	}
	return Ref{ID: id, Gen: c.gen}
}

// Alive reports whether the connection is still open. Loop goroutine. No allocation.
func (l *Loop) Alive(r Ref) bool { return l.table.find(r) != nil }

// Listen opens a listener with SO_REUSEPORT, so that every loop of a process has its
// own on the same address; the kernel spreads connections over them. actual carries
// the port chosen for port 0. Indexes count from 0 and are not used again. Loop
// goroutine, or before Run.
//
// SO_REUSEPORT lets another process of the same user listen on the same port, too.
// Who must know that a port is free has to try it without that option first.
func (l *Loop) Listen(addr netip.AddrPort, o ListenOptions) (index int, actual netip.AddrPort, err error) {
	fd, actual, err := socket.Listen(addr, &o)
	if err != nil {
		return 0, actual, err
	}
	index, err = l.be.listen(int32(fd), o.DeferAccept)
	if err != nil {
		closefd(int32(fd))
		return 0, actual, fmt.Errorf("listen %v: %w", addr, err)
	}
	return index, actual, nil
}

// StopListen closes a listener before the turn ends. Connections whose handshake the
// kernel has finished by then are still accepted, for closing would reset them. An
// index that is closed or unknown is ignored. Loop goroutine.
func (l *Loop) StopListen(index int) { l.be.unlisten(index) }

// Connect begins a connection; Connected follows, never inside the call. An error
// means that nothing was begun: a resource or address is missing on this side
// (EMFILE, EADDRINUSE, EADDRNOTAVAIL, ErrFull) or the kernel refused at once
// (ENETUNREACH); the errno is wrapped. Loop goroutine. No allocation on success.
func (l *Loop) Connect(o *ConnectOptions) (ID, error) {
	if l.table.full() {
		return 0, ErrFull
	}
	l.stats.Connects++
	fd, done, err := socket.Connect(o)
	if err != nil {
		l.stats.ConnectErrors++
		return 0, err
	}
	c := l.table.alloc(fd)
	if err := l.be.connecting(c, done); err != nil {
		l.stats.ConnectErrors++
		closefd(c.fd)
		l.table.release(c)
		return 0, err
	}
	return c.id, nil
}

// Recv arms one receive of at most max bytes (at least 1, at most RecvBuffer);
// Received follows, never inside the call; if input is at hand in this turn (epoll) or
// in the next, which does not sleep (io_uring). Arming again before that changes max.
// An id that is closed is ignored, here and in all methods below. Loop goroutine. No
// allocation.
func (l *Loop) Recv(id ID, max int) {
	if c := l.table.lookup(id); c != nil {
		l.be.recv(c, max, 0)
	}
}

// Skip is Recv for bytes that nobody is going to look at: the kernel does not copy them.
// Received gets their number as the length of a slice of unspecified content. A Recv
// asked for before that may still complete in the same way. Loop goroutine. No
// allocation.
func (l *Loop) Skip(id ID, max int) {
	if c := l.table.lookup(id); c != nil {
		l.be.recv(c, max, skipping)
	}
}

// Send sends head, body and tail, in this order, by one system call. done: the kernel
// took it all, and no Sent follows. Otherwise Sent follows later, after the rest has
// gone or with an error; with Options.Batch that is the rule for heads up to 4 KiB.
// head may be used again at once; body and tail must stay as they are until done or
// Sent, and may not be the buffer of Received. One send at a time: another before Sent
// panics. Loop goroutine. Does not block. No allocation beyond the growth of the store
// of unfinished sends.
func (l *Loop) Send(id ID, head, body, tail []byte) (done bool) {
	c := l.table.lookup(id)
	return c != nil && l.be.send(c, head, body, tail)
}

// SendFile is Send with n bytes of the file fd from off on as the body. It moves no
// file position, so fd may be shared; it must stay open until done or Sent. A file
// that ends early gives Sent with EIO. Worth it from about 40 KB on (measured);
// smaller bodies are cheaper in memory. The file is read by the system call: it
// blocks the loop while the disk is slow. Loop goroutine. No allocation, as Send.
func (l *Loop) SendFile(id ID, head []byte, fd int, off, n int64, tail []byte) (done bool) {
	c := l.table.lookup(id)
	return c != nil && l.be.sendFile(c, head, fd, off, n, tail)
}

// Close ends the connection: no more completions for id. What the kernel has taken is
// still delivered; what an unfinished Send has left is not, and its body and tail are
// free at once. If input is unread or
// arrives later the kernel sends RST, which may overtake data in flight: CloseWrite
// and receive to the end first where that matters. Loop goroutine. No allocation.
func (l *Loop) Close(id ID) {
	if c := l.table.lookup(id); c != nil {
		l.drop(c)
	}
}

// CloseWrite sends FIN after everything sent so far, the rest of an unfinished Send
// included. Receiving goes on. Loop goroutine. No allocation.
func (l *Loop) CloseWrite(id ID) {
	if c := l.table.lookup(id); c != nil {
		l.be.closeWrite(c)
	}
}

// Abort is Close with RST: nothing in flight is delivered, no TIME_WAIT remains.
// Loop goroutine. No allocation.
func (l *Loop) Abort(id ID) {
	if c := l.table.lookup(id); c != nil {
		setLinger(c.fd, 0)
		l.drop(c)
	}
}

func (l *Loop) drop(c *conn) {
	l.be.drop(c)
	l.table.release(c)
	l.stats.Closes++
}

// SetTimer sets or moves the timer key; Expired follows once, at the first tick
// (250 us) at or after due. Keys are small dense numbers of the handler's choice (memory
// grows to the greatest); closing a connection cancels nothing. Loop goroutine. No
// allocation after growth.
func (l *Loop) SetTimer(key uint32, due clock.Instant) { l.wheel.Set(key, due) }

// CancelTimer makes sure that the timer key does not expire. Loop goroutine.
func (l *Loop) CancelTimer(key uint32) { l.wheel.Cancel(key) }

// Now returns the clock as last read: at the start of the turn, before its timers, and
// by Refresh. Loop goroutine.
func (l *Loop) Now() clock.Instant { return l.now }

// Refresh reads the clock and returns it, as Now will from here on. Loop goroutine.
func (l *Loop) Refresh() clock.Instant {
	l.now = clock.Now()
	return l.now
}

// TurnStart returns when the wait of this turn returned. With Backlog it bounds how
// late a completion is handled: whatever is being completed became possible no earlier
// than TurnStart - Backlog, so the delay inside the loop is at most
//
//	Refresh() - TurnStart() + Backlog()
//
// Not covered: delay before the thread runs at all after a sleep (the kernel's run
// queue), connections waiting in a listener's backlog, and a receive that is armed
// late, which counts from its arming. Loop goroutine.
func (l *Loop) TurnStart() clock.Instant { return l.start }

// Backlog returns 0 if this turn's wait slept, for then nothing was ready before it;
// else the time since the earliest moment at which an event of this turn can have
// become ready, which is the length of the previous turn, and more only after waits
// that could not take everything (Stats.FullBatches). Loop goroutine.
func (l *Loop) Backlog() time.Duration { return l.start.Sub(l.floor) }

// Fd returns the descriptor of a connection, -1 when it is closed. It is lent for
// getsockopt and the like: it may be neither read, written nor closed.
func (l *Loop) Fd(id ID) int {
	if c := l.table.lookup(id); c != nil {
		return int(c.fd)
	}
	return -1
}

// LocalPort returns the own port of a connection, 0 when it has none (any more). It is
// a system call. Loop goroutine.
func (l *Loop) LocalPort(id ID) int {
	if c := l.table.lookup(id); c != nil {
		return int(socket.Local(c.fd).Port())
	}
	return 0
}

// Stats returns the counters. Loop goroutine, or after Run has returned.
func (l *Loop) Stats() Stats {
	s := l.stats
	s.Open = l.table.open
	return s
}
