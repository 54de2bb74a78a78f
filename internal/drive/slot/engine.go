package slot

import (
	"context"
	"net/netip"
	"time"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
)

// Engine drives the slots of one agent.
type Engine struct{ plan Plan }

var errSoon = fault.New(fault.Driver, "not written yet")

// New makes an engine and starts its loops. It has no load yet.
func New(p Plan) (*Engine, error) { return nil, errSoon }

// SetTables gives the two tables as fetched after a Reset, and starts a new list of POSTs.
func (e *Engine) SetTables(users, ads []byte) error { return errSoon }

// SetLoad asks for so many slots drawing over so many directories and users. It returns at once; slots are added
// at RampPerSecond and removed at the end of their operation. See Ready.
func (e *Engine) SetLoad(slots, dirs, users int) error { return errSoon }

// Ready reports whether the load asked for has been reached: every slot of it in operation, every other gone.
func (e *Engine) Ready() bool { return false }

// AwaitReady waits until Ready.
func (e *Engine) AwaitReady(ctx context.Context) error { return errSoon }

// Pause drains: the rest of every open operation is read unpaced, then slots wait with their connections open. It
// returns when all wait.
func (e *Engine) Pause(ctx context.Context) error { return errSoon }

// Resume starts the paused slots again, each with a stationary first operation.
func (e *Engine) Resume() {}

// Window sets the recording window. Both instants should lie in the future.
func (e *Engine) Window(start, end clock.Instant) error { return errSoon }

// Collect waits for the end of the window and hands over what was recorded.
func (e *Engine) Collect(ctx context.Context) (*Result, error) { return nil, errSoon }

// Warm fetches every file of the first dirs directories unpaced and verifies every byte, passes times.
func (e *Engine) Warm(ctx context.Context, dirs, passes int) error { return errSoon }

// Burst runs an unpaced closed loop over the whole mix for the duration.
func (e *Engine) Burst(ctx context.Context, d time.Duration, conns int) (BurstResult, error) {
	return e.BurstWith(ctx, BurstOptions{Duration: d, Conns: conns})
}

// BurstWith runs an unpaced closed loop as described by o.
func (e *Engine) BurstWith(ctx context.Context, o BurstOptions) (BurstResult, error) {
	return BurstResult{}, errSoon
}

// Progress returns a snapshot.
func (e *Engine) Progress() Progress { return Progress{} }

// Close stops the loops and closes every connection.
func (e *Engine) Close() error { return nil }

// LocalSources lists at most n local addresses to connect to target from, for agent number agent (from 0): a
// disjoint part of 127.0.0.2 and following for a target in 127/8, the interface addresses of the same family
// otherwise, nil where the kernel should choose (::1 is a single address).
func LocalSources(target netip.Addr, agent, n int) ([]netip.Addr, error) { return nil, nil }

// SourcesNeeded returns how many source addresses a rate of connections per second needs, at 400 connections/s for
// each pair of a source and one of targets target addresses.
func SourcesNeeded(perSecond float64, targets int) int { return 1 }
