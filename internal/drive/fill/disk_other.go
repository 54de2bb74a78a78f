//go:build !linux

package fill

import (
	"errors"
	"os"
)

// Elsewhere a set can be written and verified too. What is lost: the check of free space, the lock, the synchronisation,
// and the trust in directories of an interrupted run (they are written again).

var errNoSpace = errors.New("no space left on device")

func roomOf(string) (room, error) { return room{}, errors.ErrUnsupported }

// regular is a regular file opened for reading.
type regular struct{ *os.File }

// openRegular opens a file of a directory, which both dir and self are, and returns its size.
func openRegular(dir *os.Root, _ *os.File, name string) (f regular, size int64, err error) {
	st, err := dir.Lstat(name) // before opening: a pipe in its place would block
	if err != nil {
		return f, 0, err
	}
	if !st.Mode().IsRegular() {
		return f, 0, errIrregular
	}
	f.File, err = dir.Open(name)
	return f, st.Size(), err
}

func syncDisk(*os.File) error { return nil }

func syncFolder(*os.File) error { return nil }

func lockFolder(*os.File, bool) error { return nil }

func bootID() string { return "" }
