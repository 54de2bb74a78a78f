package conform

import (
	"time"

	"tidemark.dev/internal/ground/fault"
)

// Record is everything kept about one slot over one measured window. Nothing is kept per operation.
// All figures are of the window only; operations that straddle an edge count by their part inside, except
// where a field says otherwise.
type Record struct {
	// Slot is the global slot number, 0 to requested-1.
	Slot uint32
	// Ops is the number of operations completed successfully inside the window.
	Ops uint32
	// Failed is the number of operations that ended in failure inside the window.
	Failed uint32
	// Begun is the number of operations begun inside the window.
	Begun uint32
	// Connects is the number of connections opened, Resets the number the target or network tore down.
	Connects, Resets uint32
	// CreditedBits is the sum over operations of min(received, line speed x time since the first byte), in bits
	// of the HTTP layer; a failed operation contributes nothing.
	CreditedBits int64
	// WireBytes is the number of bytes received from the socket, failed operations included.
	WireBytes int64
	// OpTime is the time of the window covered by operations: connect, wait, paced response, back-off. It
	// tiles the window, so the sum over all slots is requested x window.
	OpTime time.Duration
	// Late is the part of OpTime caused by the driver's own lateness: timer due to handled, ready to handled.
	Late time.Duration
	// FirstByte is the sum of the times to first byte of the operations in Ops.
	FirstByte time.Duration
	// Response is the sum of the whole durations of the operations in Ops, their part before the window included.
	Response time.Duration
}

// ErrorCount counts one class of failed operations.
type ErrorCount struct {
	Count  uint64
	Origin fault.Origin
	// Example is the text of the first failure of the class, addresses and all; may be empty.
	Example string
}

// PlanCount compares operations issued with those the plan asked for, for one kind.
type PlanCount struct {
	Kind            string
	Issued, Planned uint64
}

// Audit is what the instrument says about itself over one iteration, over all agents.
type Audit struct {
	// Agents is the number of agents expected, Reported the number that delivered.
	Agents, Reported int
	// Attempted is the number of slots that tried at least one connection since they were added.
	Attempted int
	// DriverFailures counts failures of our own, by class or name. Those that failed an operation may stand in
	// Iteration.Errors too: of a class in both, the larger count holds.
	DriverFailures map[string]uint64
	// Plan compares issued with planned operations, per kind.
	Plan []PlanCount
	// ChiSquareP holds the p-value of each drawn distribution against the law ("kind", "class", "file", "directory").
	ChiSquareP map[string]float64
	// Overflow counts values no histogram could hold.
	Overflow uint64
	// MemoryPressure counts TCP memory pressure events on the drivers.
	MemoryPressure uint64
	// ClockOffset is the largest distance of an agent's clock from the prime's.
	ClockOffset time.Duration
	// RunQueue and Steal are the worst agent's shares (0 to 1) of time runnable but not running, and stolen by the
	// hypervisor.
	RunQueue, Steal float64
	// WorstLate is the longest single delay seen between due or ready and handled.
	WorstLate time.Duration
	// PortReuse counts port pairs used again within 60 s; TimeWaitOverflow is the kernel's counter of that name.
	PortReuse, TimeWaitOverflow uint64
	// Congestion lists the TCP congestion controls read back from connections, each once.
	Congestion []string
	// FINMissing counts connections the server promised to close and did not within 1 s.
	FINMissing uint64
}

// PostCheck compares POST records acknowledged by the target with those found in its log afterwards.
type PostCheck struct {
	// Checked says that the log was fetched and compared at all.
	Checked bool
	// Acked is the number of acknowledged POSTs, Found the number of log records matched, Missing the acknowledged
	// ones not found, Doubled the surplus copies, Foreign the records nobody sent, Uncertain the failed or
	// unfinished POSTs (each may be there once or not at all).
	Acked, Found, Missing, Doubled, Foreign, Uncertain uint64
}

// Iteration is the whole record of one measured window.
type Iteration struct {
	Requested int
	Window    time.Duration
	Records   []Record
	// Errors counts failed operations by class (see the Class constants).
	Errors map[string]ErrorCount
	Audit  Audit
	Posts  PostCheck
	// Broke lists rules the target broke that no counter shows, in words.
	Broke []string
}
