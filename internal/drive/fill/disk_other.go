//go:build !linux

package fill

import (
	"errors"
	"os"
)

// Elsewhere a set can be written and verified too. What is lost: the check of
// free space, contiguous files, the lock, the final synchronisation, and the
// trust in directories of an interrupted run (they are written again).

var errNoSpace = errors.New("no space left on device")

func roomOf(string) (room, error) { return room{}, errors.ErrUnsupported }

func preallocate(*os.File, int64) error { return nil }

func syncDisk(*os.File) error { return nil }

func syncFolder(*os.File) error { return nil }

func lockFolder(*os.File, bool) error { return nil }

func bootID() string { return "" }
