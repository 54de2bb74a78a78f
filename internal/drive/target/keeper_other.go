//go:build !linux

package target

import (
	"io"
	"time"

	"tidemark.dev/internal/ground/fault"
)

// Keeper needs Linux: parent-death signals, process groups and affinity.
type Keeper struct{}

// NewKeeper reports that Linux is needed.
func NewKeeper([]string) (*Keeper, error) {
	return nil, fault.New(fault.Config, "running a server under test needs Linux")
}

// Close does nothing.
func (*Keeper) Close() {}

// Spawn reports that Linux is needed.
func (*Keeper) Spawn(c Command) (*Process, error) {
	return nil, fault.New(fault.Config, "start %s: needs Linux", c.Name)
}

// Guard does nothing.
func Guard(io.Reader) {}

// CPU is unknown.
func (*Process) CPU() (user, system time.Duration) { return 0, 0 }

func killGroup(int) {}

// Namespace reports that Linux is needed.
func Namespace(path string, args, env []string) error {
	return fault.New(fault.Config, "a network namespace needs Linux")
}

// EnterNamespace reports that Linux is needed.
func EnterNamespace(string) error {
	return fault.New(fault.Config, "a network namespace needs Linux")
}
