// Package loop moves bytes between sockets and one thread, for both halves: the
// server's connections and the driver's slots live on the same loops.
//
// Call [New] with a [Handler], then Run on a goroutine of its own; Listen or Connect
// make connections, and every one is an [ID] until it is closed. Operations are asked
// for (Recv, Send, SendFile, Connect, SetTimer) and complete by a call of the handler.
//
// It does not parse, does not buffer between the kernel and the handler, keeps no
// timeouts of its own and does not log: what happens is in the completions and in
// [Stats]. It needs Linux; elsewhere New returns an error.
package loop

import (
	"errors"
	"net/netip"
	"time"

	"tidemark.dev/internal/engine/socket"
	"tidemark.dev/internal/ground/clock"
)

// ID numbers a connection of one loop: dense from 0, so that users keep their own
// state in a slice indexed by it. After Close the number is used again, at the
// earliest in the next turn. Whoever keeps an ID beyond the loop goroutine keeps a
// [Ref] instead.
type ID uint32

// Ref names one connection for ever: the ID together with the generation of its
// present owner. It never matches a later connection with the same ID.
type Ref struct {
	ID  ID
	Gen uint32
}

// Handler receives completions. All calls come on the loop goroutine and must not
// block. Every ID handed out by Accepted or Connect is the handler's until it calls
// Close or Abort, whatever errors were reported in between; both may be called inside
// any of these methods.
//
// Errors are a syscall.Errno, unwrapped.
type Handler interface {
	// Accepted reports a new connection of a listener (its index).
	Accepted(id ID, listener int, peer netip.AddrPort)
	// Connected completes Connect. With err == nil the connection takes sends.
	Connected(id ID, err error)
	// Received completes one Recv. len(b) == 0 and err == nil: the peer has closed
	// its half; a further Recv says so again. b is valid until return: never pass
	// it on as the body or tail of a send.
	Received(id ID, b []byte, err error)
	// Sent completes a Send or SendFile that returned false.
	Sent(id ID, err error)
	// Expired reports a timer: its key and the instant it was asked for.
	Expired(key uint32, due clock.Instant)
}

// Options shape a loop.
type Options struct {
	// Backend is one of [Backends]. Default auto: io_uring with Batch where the
	// kernel allows it, else epoll, and [Loop.Backend] says why. Forced, io_uring
	// is an error where the kernel refuses it.
	Backend string
	// Batch has sends leave at the end of the turn, those of all connections by
	// one system call, where the backend can: with io_uring. Send then returns
	// false, and closing hands over what is about to leave. For servers; who
	// measures time wants to know when a request has left.
	Batch bool
	// CPU is the processor the loop's thread is bound to while it runs, or -1
	// for none. The zero value binds to CPU 0.
	CPU int
	// MaxConns bounds the open connections, accepted and own together. Default
	// 1<<20. No ID reaches it. At the bound accepting stops (clients wait in the
	// backlog, with io_uring up to 64 of a listener with a descriptor already)
	// and Connect returns ErrFull; a connection closed in the present turn counts
	// until its end.
	MaxConns int
	// RecvBuffer is the size in bytes of the receive buffer that all connections
	// of the loop share, and with it the largest receive. Default 64 KiB, at
	// least 1 KiB, at most 16 MiB. With io_uring there are several, of at most
	// 64 KiB.
	RecvBuffer int
}

// Backends returns the values of Options.Backend.
func Backends() []string { return []string{"auto", "epoll", "io_uring"} }

// ListenOptions shape a listener; its accepted connections inherit buffers and NoDelay.
type ListenOptions = socket.ListenOptions

// ConnectOptions shape an own connection.
type ConnectOptions = socket.ConnectOptions

// Stats counts what a loop did since New. Plain counters, owned by the loop goroutine.
type Stats struct {
	Turns         uint64        // passes of the loop
	Sleeps        uint64        // turns that began with a sleep in the kernel
	LongestTurn   time.Duration // longest time from wake-up to the end of a turn
	FullBatches   uint64        // waits that filled the event array: more was ready
	Events        uint64        // readiness events taken from the kernel
	Stale         uint64        // of them for connections already closed
	Open          int           // connections open now
	Accepts       uint64        // connections accepted
	AcceptErrors  uint64        // accepts that failed for the peer's or network's sake
	Descriptors   uint64        // accepts that failed for want of descriptors or memory
	Full          uint64        // times accepting stopped at MaxConns
	Connects      uint64        // connects begun
	ConnectErrors uint64        // connects failed, at once or later
	Closes        uint64        // connections closed, aborts included
	Recvs         uint64        // receive calls that brought bytes or an end
	RecvBytes     uint64        // bytes received
	RecvEmpty     uint64        // receive calls that found nothing
	Sends         uint64        // send and sendfile calls that took bytes
	SendBytes     uint64        // bytes sent
	PartialSends  uint64        // sends that had to be continued later
	Deferred      uint64        // connections put off to the next turn by the budget
	Timers        uint64        // timers fired
	Posts         uint64        // posted functions run
}

// ErrFull is returned by Connect when MaxConns connections are open.
var ErrFull = errors.New("loop holds its greatest number of connections")

// errNeedsLinux is what New says elsewhere.
var errNeedsLinux = errors.New("event loop: needs Linux")
