//go:build !linux

package clock

import "time"

// hostNow estimates a common base from the calendar clock.
func hostNow() Instant { return Instant(time.Now().UnixNano()) }
