package page

import (
	"io/fs"
	"os"
	"syscall"
	"unsafe"
)

// RootFiles is a Files over a directory of the operating system, without a cache: every Open opens a
// descriptor. For programs that answer one request, and for tests. Symbolic links are followed as long
// as they stay below the directory.
type RootFiles struct {
	root *os.Root // on kernels without openat2; nil elsewhere
	dir  int      // descriptor of the directory, if root is nil
}

// Root opens a directory as RootFiles.
func Root(dir string) (RootFiles, error) {
	fd, err := syscall.Open(dir, oPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return RootFiles{}, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	probe, err := openBeneath(fd, ".", oPath)
	if err == nil {
		_ = syscall.Close(probe)
		return RootFiles{dir: fd}, nil
	}
	_ = syscall.Close(fd)
	r, err := os.OpenRoot(dir)
	return RootFiles{root: r}, err
}

// Open opens a file below the root; see Files.
func (r RootFiles) Open(path []byte) (File, error) {
	name, ok := clean(path)
	if !ok {
		return File{}, &fs.PathError{Op: "open", Path: string(path), Err: fs.ErrInvalid}
	}
	if r.root != nil {
		return openRooted(r.root, string(name))
	}
	// Without O_NONBLOCK a FIFO below the root would hold the caller until somebody writes to it. It is
	// taken off again because package os starts its poller for such descriptors, which costs a program
	// that lives for one request a third of its life.
	fd, err := openBeneath(r.dir, string(name), syscall.O_RDONLY|syscall.O_NONBLOCK)
	if err != nil {
		return File{}, classify(&fs.PathError{Op: "open", Path: string(name), Err: err})
	}
	_ = syscall.SetNonblock(fd, false)
	return adopt(os.NewFile(uintptr(fd), string(name)))
}

// Close closes the root. Open files stay open.
func (r RootFiles) Close() error {
	if r.root != nil {
		return r.root.Close()
	}
	return syscall.Close(r.dir)
}

const (
	oPath          = 0x200000
	sysOpenat2     = 437 // on every architecture
	resolveBeneath = 0x08
	resolveNoMagic = 0x02
)

// openBeneath is openat2, Linux 5.6: one system call that cannot leave dir.
func openBeneath(dir int, name string, flags uint64) (fd int, err error) {
	p, err := syscall.BytePtrFromString(name)
	if err != nil {
		return -1, err
	}
	how := struct{ flags, mode, resolve uint64 }{flags | syscall.O_CLOEXEC, 0, resolveBeneath | resolveNoMagic}
	for range 100 {
		r, _, e := syscall.Syscall6(sysOpenat2, uintptr(dir), uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		if e == 0 {
			return int(r), nil
		}
		if e != syscall.EINTR && e != syscall.EAGAIN { // EAGAIN: a rename crossed the look-up
			return -1, e
		}
	}
	return -1, syscall.EAGAIN
}
