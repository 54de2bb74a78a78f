package fill

import (
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/fault"
)

var errNoSpace error = unix.ENOSPC

// roomOf asks the file system what an ordinary user may still take.
func roomOf(dir string) (room, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return room{}, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	r := room{bytes: int64(st.Bavail) * st.Bsize, block: st.Bsize, inodes: int64(st.Ffree)}
	if st.Files == 0 { // btrfs and others make inodes as needed
		r.inodes = -1
	}
	return r, nil
}

// regular is a regular file opened for reading, without what package os spends on each.
type regular struct{ fd int }

// openRegular opens a file of a directory, which both dir and self are, and returns its size. What is not a regular
// file is refused and never waited for.
func openRegular(_ *os.Root, self *os.File, name string) (f regular, size int64, err error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(int(self.Fd()), name, flags, 0)
	for err == unix.EINTR {
		fd, err = unix.Openat(int(self.Fd()), name, flags, 0)
	}
	switch err {
	case nil:
	case unix.ELOOP, unix.ENXIO: // a link, a socket
		return f, 0, errIrregular
	default:
		return f, 0, &os.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err != nil {
		err = os.NewSyscallError("fstat", err)
	} else if st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = errIrregular
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return regular{fd}, st.Size, err
}

// Read reads as a Reader does.
func (f regular) Read(b []byte) (int, error) {
	n, err := unix.Read(f.fd, b)
	for err == unix.EINTR {
		n, err = unix.Read(f.fd, b)
	}
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return max(n, 0), os.NewSyscallError("read", err)
}

// Close closes the file, of which nothing was written.
func (f regular) Close() { _ = unix.Close(f.fd) }

// syncDisk writes the file system that holds f to the disk.
func syncDisk(f *os.File) error {
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}

// syncFolder makes the names in a directory durable.
func syncFolder(f *os.File) error { return f.Sync() }

// lockFolder keeps a second process out of the folder; the lock goes with f.
func lockFolder(f *os.File, shared bool) error {
	how := unix.LOCK_EX
	if shared {
		how = unix.LOCK_SH
	}
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fault.Hint(errors.New("another process is at work on it"), "wait for it, or give --root a folder of its own")
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOLCK) {
		return nil // some network file systems
	}
	return os.NewSyscallError("flock", err)
}

// bootID names the present boot of the kernel; "" if it does not say.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
