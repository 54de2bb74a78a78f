package pin

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Check reports whether a thread of this process may be bound to cpu; to none, -1, always.
func Check(cpu int) error {
	if cpu == -1 {
		return nil
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("processors of this process: %w", err)
	}
	if cpu < -1 || cpu >= len(set)*64 || !set.IsSet(cpu) {
		return fmt.Errorf("CPU %d is not among the %d this process may use", cpu, set.Count())
	}
	return nil
}

// Thread binds the current thread to cpu, -1: to none. undo gives it back the processors it had and
// reports whether the thread is as it was.
//
// The binding stays with this thread: the runtime starts other threads from a thread
// of its own when the present one is locked, so they do not inherit it.
func Thread(cpu int) (undo func() bool, err error) {
	if cpu == -1 {
		return func() bool { return true }, nil
	}
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return nil, fmt.Errorf("bind to CPU %d: %w", cpu, err)
	}
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return nil, fmt.Errorf("bind to CPU %d: %w", cpu, err)
	}
	return func() bool { return unix.SchedSetaffinity(0, &before) == nil }, nil
}
