//go:build !linux

package cache

import (
	"errors"
	"os"
	"syscall"
	"time"
)

var errNeedsLinux = errors.New("file cache: needs Linux")

type root struct{}

func newRoot(string) (*root, error) { return nil, errNeedsLinux }

func (*root) close()                                      {}
func (*root) open([]byte, bool) (int, syscall.Errno)      { return -1, syscall.ENOENT }
func (*root) stat(name []byte, i *identity) syscall.Errno { return syscall.ENOENT }

type identity struct {
	dev, inode           uint64
	size, mtime, changed int64
	mode                 uint32
}

func (i *identity) regular() bool          { return false }
func (i *identity) directory() bool        { return false }
func (i *identity) settled(time.Time) bool { return false }

func statOf(int, *identity) error               { return errNeedsLinux }
func readQuick(int, []byte, int64) (int, error) { return 0, errNeedsLinux }
func read(int, []byte, int64) (int, error)      { return 0, errNeedsLinux }
func willNeed(int, int64)                       {}
func handleOf(fd int, name string) *os.File     { return os.NewFile(uintptr(fd), name) }
func closeFD(int)                               {}
func descriptorLimit() int64                    { return 1024 }
