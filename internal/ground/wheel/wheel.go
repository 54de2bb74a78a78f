// Package wheel is a hierarchical timer wheel.
package wheel

import (
	"time"

	"tidemark.dev/internal/ground/clock"
)

// Wheel holds at most one timer per key.
type Wheel struct{}

// New returns an empty wheel.
func New(tick time.Duration, start clock.Instant) *Wheel { return &Wheel{} }

// Set arms key, replacing an earlier timer of that key.
func (w *Wheel) Set(key uint32, due clock.Instant) {}

// Cancel disarms key.
func (w *Wheel) Cancel(key uint32) {}

// Armed reports whether key is armed.
func (w *Wheel) Armed(key uint32) bool { return false }

// Len returns the number of armed timers.
func (w *Wheel) Len() int { return 0 }

// Advance fires what is due.
func (w *Wheel) Advance(now clock.Instant, fire func(key uint32, due clock.Instant)) {}

// Next returns a lower bound of the next firing.
func (w *Wheel) Next() (clock.Instant, bool) { return 0, false }
