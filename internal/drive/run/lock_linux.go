package run

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/fault"
)

// lock keeps other runs away from a document root: they would share its tables and post log. The lock ends with the
// process, however it ends.
func lock(root string) (release func(), err error) {
	f, err := os.Open(root) // the directory itself: a lock file would be one more thing in a folder that is not ours alone
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "lock")
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOLCK) { // some network file systems
		_ = f.Close()
		return nil, fault.Hint(fault.New(fault.Config, "another run uses %s", root), "wait for it, or give --root a folder of its own")
	}
	return func() { _ = f.Close() }, nil
}
