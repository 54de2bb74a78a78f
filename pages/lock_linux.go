package pages

import (
	"os"
	"syscall"
)

// flock waits for the exclusive lock on f's open file.
func flock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			return err
		}
	}
}

// funlock cannot fail on a lock that is held.
func funlock(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
