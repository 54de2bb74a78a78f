// Package slot is the driver engine of one agent: simulated users ("slots") as client state machines on the
// loops of internal/engine/loop, their samples, and what the engine has to say about its own lateness.
//
// Make an Engine with New and give it a load with SetLoad; then record windows with Window and Collect. Warm and
// Burst use the same state machine for the warm-up and the unpaced capacity probe.
//
// The package judges nothing: it records what happened per slot, and conform decides what it means. It draws no
// operation itself (workload does), writes no request and checks no response (exchange does), chooses no port
// (source does), and retries no failed operation.
//
// # Time
//
// Every instant of a slot belongs to exactly one operation: connecting, waiting for the first byte, the paced
// response, and the back-off after an error are parts of it. The next operation starts at the instant the
// previous one ends, so over any window the times of all operations sum to slots x window; Result carries the
// sums, and the test suite holds them to the nanosecond. A window edge splits the operation open at that instant:
// the loop settles an edge before it handles any event at or after it.
//
// # Goroutines
//
// Each loop owns its slots and touches nothing else; the methods of Engine may be called from any goroutine and
// reach the loops through Post. Nothing on the path of an operation allocates or locks.
package slot

import (
	"net/netip"
	"time"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/tally"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/share"
	"tidemark.dev/internal/model/workload"
)

// Ways a slot receives, values of Plan.Pacing.
const (
	// Rated reads at no more than the line speed: a token bucket of one quantum.
	Rated = "rated"
	// Deferred reads at once and waits out the line time.
	Deferred = "deferred"
	// None neither limits nor waits: raw throughput, never scored.
	None = "none"
)

// Plan is everything an engine is made from. Zero values mean the default stated beside the field.
type Plan struct {
	// Targets are the addresses of the server under test; slot i uses Targets[i mod len]. At least one.
	Targets []netip.AddrPort
	// Host is the Host field of every request; default the first target.
	Host string
	// Workload is required.
	Workload *workload.Workload
	// Seed fixes every draw, FileSeed the content of the file set.
	Seed, FileSeed uint64
	// Share says which global slot numbers are this agent's (zero: all), Count how many slots it will be asked for at
	// most (0 to 1,000,000). Slot i of the agent is the global slot Share.Number(i).
	Share share.Share
	Count int
	// Sources are the local addresses to connect from, in turn, with explicit ports (see LocalSources). Empty, or a
	// family with a single address such as ::1: the kernel chooses.
	Sources []netip.Addr
	// PortFirst and PortLast bound the local ports; default 1024 to 65535. Agents that share an address must not
	// share ports.
	PortFirst, PortLast uint16
	// Loops lists the CPU of each loop, -1 for not pinned; default one loop, not pinned.
	Loops []int
	// Backend of the loops ("auto", "epoll", "io_uring"); default "auto", which is epoll.
	Backend string
	// Pacing is Rated, Deferred or None; default the workload's.
	Pacing string
	// VerifyEvery checks one body in so many byte for byte; default 16, 1 checks all, negative none.
	VerifyEvery int
	// RampPerSecond is the most slots started per second; default 1,000.
	RampPerSecond int
	// Wall is wall-clock time in Unix seconds, used to judge the expiry flag of ads; default clock.Wall(now).
	Wall func(clock.Instant) int64
}

// Progress is a snapshot of what an engine has done since it was made: exact when a Pause, Warm or Burst has just
// returned, up to 100 ms old otherwise.
type Progress struct {
	// Load is the number of slots asked for, Running those in an operation, Connected the open connections.
	Load, Running, Connected int
	// Ops and Failed count operations ended, Connects connections opened.
	Ops, Failed, Connects uint64
	// Bits counts HTTP-layer bits received, WireBytes all bytes read from sockets.
	Bits, WireBytes int64
	// Late is the lateness summed over operations.
	Late time.Duration
	// Driver counts failures of our own origin.
	Driver uint64
}

// Second is one second of the series of a window.
type Second struct {
	// Ops and Failed count operations that ended in the second, Connects connections opened.
	Ops      uint32 `json:"ops"`
	Failed   uint32 `json:"failed"`
	Connects uint32 `json:"connects"`
	// Open is the number of open connections at the end of the second.
	Open uint32 `json:"open"`
	// Bits is the number of HTTP-layer bits received.
	Bits int64 `json:"bits"`
	// Late is the lateness charged to operations.
	Late time.Duration `json:"late_ns"`
}

// PostState says what became of a POST.
type PostState uint8

const (
	// Uncertain is a POST that was sent and failed or did not finish: the log may hold it once or not at all.
	Uncertain PostState = iota
	// Acknowledged is a POST answered completely and correctly: the log holds it exactly once.
	Acknowledged
)

// Post is one POST sent, as the target's log should show it.
type Post struct {
	Dir    int32
	User   int32  // user number as in the cookie, offset included
	Client uint32 // the client field of the body: the global slot number
	Class  uint8
	Num    uint8
	State  PostState
}

// Latency holds the two distributions kept per kind of operation, in nanoseconds.
type Latency struct {
	// FirstByte is begin of the operation to first response byte, Whole begin to end, paced response included.
	FirstByte, Whole *tally.Histogram
}

// Counts is how often each thing was drawn by the operations begun in a window.
type Counts struct {
	Kind [workload.Kinds]uint64 `json:"kind"`
	// File counts class c, file f at index c*9+f.
	File [36]uint64 `json:"file"`
	Dir  []uint64   `json:"dir"`
}

// Class returns the sums of File by class.
func (c *Counts) Class() (n [4]uint64) {
	for i, v := range c.File {
		n[i/9] += v
	}
	return n
}

// Result is what one agent recorded of one window. It travels as JSON with binary parts (see MarshalJSON).
type Result struct {
	Start, End clock.Instant
	// Records has one entry per slot of the load, in slot order.
	Records []conform.Record
	// Kinds holds the distributions of successful operations that ended in the window, by workload.Kind.
	Kinds [workload.Kinds]Latency
	// Errors counts failed operations by class.
	Errors map[string]conform.ErrorCount
	Audit  Audit
	// Series has one entry per second of the window, the last perhaps partial.
	Series []Second
	// Issued counts what was drawn by the operations begun in the window.
	Issued Counts
	// Posts are the POSTs sent since the last SetTables or Collect.
	Posts []Post
}

// Audit is what the engine says about itself over one window.
type Audit struct {
	// Attempted is the number of slots that tried a connection since they were added.
	Attempted int `json:"attempted"`
	// Planned are the operations the plan asked for in the window, recounted from seeds and cursors alone;
	// Result.Issued are those issued. Misplanned counts operations in which the two differ, directories and files
	// included: 0 unless something is wrong.
	Planned    [workload.Kinds]uint64 `json:"planned"`
	Misplanned uint64                 `json:"misplanned"`
	// Driver counts failures of our own origin by class, those of failed operations included.
	Driver map[string]uint64 `json:"driver,omitempty"`
	// Late is lateness charged to operations, WorstLate the longest single delay.
	Late      time.Duration `json:"late_ns"`
	WorstLate time.Duration `json:"worst_late_ns"`
	// OpTime is the in-window time of all operations: slots x window unless something is wrong.
	OpTime time.Duration `json:"op_time_ns"`
	// Overflow counts values no histogram could hold.
	Overflow uint64 `json:"overflow"`
	// Connects counts connections opened, PortReuse those whose local port was used within the last 60 s,
	// PortBusy ports skipped because somebody else held them.
	Connects  uint64 `json:"connects"`
	PortReuse uint64 `json:"port_reuse"`
	PortBusy  uint64 `json:"port_busy"`
	// FINMissing counts connections the server was told to close and did not within 1 s, Hangups connections it
	// closed between operations without being told, Stale operations that failed because it did so just then.
	FINMissing uint64 `json:"fin_missing"`
	Hangups    uint64 `json:"hangups"`
	Stale      uint64 `json:"stale"`
	// Verified counts bodies and bytes compared with the file set, Tags ad substitutions checked.
	VerifiedBodies uint64 `json:"verified_bodies"`
	VerifiedBytes  int64  `json:"verified_bytes"`
	Tags           uint64 `json:"tags"`
	// Straddling counts operations open at the end of the window, Unfinished those still open at Collect.
	Straddling int `json:"straddling"`
	Unfinished int `json:"unfinished"`
	// Turns is the number of loop turns, Sleeps those that slept.
	Turns  uint64 `json:"turns"`
	Sleeps uint64 `json:"sleeps"`
	// Congestion lists the TCP congestion controls read back from connections.
	Congestion []string `json:"congestion,omitempty"`
}

// BurstOptions describes a burst.
type BurstOptions struct {
	Duration time.Duration
	// Conns is the number of connections, each a closed loop.
	Conns int
	// Static asks for static files only instead of the whole mix (which needs SetTables).
	Static bool
	// Dirs and Users bound the draws; 0 means those of the last SetLoad.
	Dirs, Users int
}

// BurstResult is what a burst measured.
type BurstResult struct {
	Duration  time.Duration
	Conns     int
	Ops       uint64
	Failed    uint64
	OpsPerSec float64
	// Bits is the number of HTTP-layer bits received, Connects of connections opened.
	Bits     int64
	Connects uint64
	// FirstByte and Whole are distributions over all kinds, in nanoseconds.
	FirstByte, Whole *tally.Histogram
	Errors           map[string]conform.ErrorCount
}
