//go:build !linux

package ring

// Ring needs Linux.
type Ring struct{}

// New returns an error: a ring needs Linux.
func New(Options) (*Ring, error) { return nil, ErrNotHere }

// Options shape a ring.
type Options struct{}
