package cache

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// root opens files below a directory. No name, however spelled and whatever links lie below it, leads
// outside: the kernel resolves the whole path beneath the directory's handle (openat2, Linux 5.6), so
// there is no moment between a check and the use. Where openat2 is missing or forbidden by a sandbox,
// os.Root does the same walk in user space.
type root struct {
	dir    *os.File
	fd     int
	walker *os.Root // nil while openat2 works
}

// Flags and resolve bits of openat2. O_NONBLOCK so that a FIFO below the root cannot stop the thread.
const (
	openFlags     = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	resolveBits   = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
	resolveCached = 0x20 // RESOLVE_CACHED of linux/openat2.h (5.12): EAGAIN instead of waiting for a disk
	rwfNowait     = 0x08 // RWF_NOWAIT of linux/fs.h (4.14)
)

func newRoot(path string) (*root, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := dir.Stat()
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "open", Path: path, Err: unix.ENOTDIR}
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	r := &root{dir: dir, fd: int(dir.Fd())}
	fd, errno := r.openat2(&[]byte(".\x00")[0], 0)
	if errno == 0 {
		unix.Close(fd)
		return r, nil
	}
	r.walker, err = os.OpenRoot(path)
	if err != nil {
		dir.Close()
		return nil, err
	}
	return r, nil
}

func (r *root) close() {
	if r.walker != nil {
		r.walker.Close()
	}
	r.dir.Close()
}

func (r *root) openat2(name *byte, extra uint64) (int, syscall.Errno) {
	how := unix.OpenHow{Flags: openFlags, Resolve: resolveBits | extra}
	fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(r.fd), uintptr(unsafe.Pointer(name)),
		uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
	runtime.KeepAlive(name)
	return int(fd), errno
}

// open opens a relative path that ends in a NUL byte. With quick it fails with EAGAIN when that would
// take a disk access. Any goroutine.
func (r *root) open(name []byte, quick bool) (int, syscall.Errno) {
	if r.walker != nil {
		return r.walk(string(name[:len(name)-1]))
	}
	var extra uint64
	if quick {
		extra = resolveCached
	}
	for range 8 {
		fd, errno := r.openat2(&name[0], extra)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN && !quick: // a rename somewhere crossed the walk: once more
		case errno == unix.EINVAL && quick: // a kernel before 5.12
			return -1, unix.EAGAIN
		default:
			return fd, errno
		}
	}
	return -1, unix.EAGAIN
}

func (r *root) walk(name string) (int, syscall.Errno) {
	f, err := r.walker.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		var errno syscall.Errno
		if errors.As(err, &errno) {
			return -1, errno
		}
		return -1, unix.EXDEV // os.Root's own refusal of a path that leaves
	}
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err.(syscall.Errno)
	}
	return fd, 0
}

// identity tells whether a name still means the same content. The change time catches what leaves size
// and modification time alone: a restored time stamp, changed permissions.
type identity struct {
	dev, inode           uint64
	size, mtime, changed int64 // bytes, Unix ns
	mode                 uint32
}

func (i *identity) regular() bool   { return i.mode&unix.S_IFMT == unix.S_IFREG }
func (i *identity) directory() bool { return i.mode&unix.S_IFMT == unix.S_IFDIR }

func (i *identity) set(st *unix.Stat_t) {
	*i = identity{st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano(), st.Mode}
}

// stat reads the identity of what a relative, NUL-terminated path names now. It follows links without
// the checks of open, so its answer only ever confirms a file that open has approved.
// Any goroutine. No allocation.
func (r *root) stat(name []byte, id *identity) syscall.Errno {
	var st unix.Stat_t
	for {
		_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(r.fd), uintptr(unsafe.Pointer(&name[0])),
			uintptr(unsafe.Pointer(&st)), 0, 0, 0)
		runtime.KeepAlive(name)
		if errno == unix.EINTR {
			continue
		}
		id.set(&st)
		return errno
	}
}

func statOf(fd int, id *identity) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	id.set(&st)
	return nil
}

// readQuick reads b from the page cache; EAGAIN when the disk would be needed, or when the file system
// cannot say.
func readQuick(fd int, b []byte, off int64) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := unix.Preadv2(fd, [][]byte{b}, off, rwfNowait)
	if err == unix.EOPNOTSUPP || err == unix.EINTR || err == unix.ENOSYS {
		err = unix.EAGAIN
	}
	return max(n, 0), err
}

// read fills b as far as the file goes.
func read(fd int, b []byte, off int64) (int, error) {
	got := 0
	for got < len(b) {
		n, err := unix.Pread(fd, b[got:], off+int64(got))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return got, err
		}
		if n == 0 {
			break
		}
		got += n
	}
	return got, nil
}

// willNeed starts reading the first bytes of a file that goes out by sendfile, which would otherwise
// wait for the disk on an event loop.
func willNeed(fd int, n int64) { _ = unix.Fadvise(fd, 0, n, unix.FADV_WILLNEED) }

// handleOf makes an os.File of a descriptor of a regular file.
func handleOf(fd int, name string) *os.File {
	// Without this os.File would try to poll it.
	if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
		_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&^unix.O_NONBLOCK)
	}
	return os.NewFile(uintptr(fd), name)
}

func closeFD(fd int) { _ = unix.Close(fd) }

// descriptorLimit is the number of descriptors this process may have.
func descriptorLimit() int64 {
	var rl unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &rl); err != nil {
		return 1024
	}
	return int64(min(rl.Cur, 1<<24))
}

// settled reports whether a later change would show in the identity: time stamps move in steps of the
// kernel's tick, so two writes within one tick can look alike (git calls such an entry racy).
func (i *identity) settled(now time.Time) bool {
	const tick = 20 * time.Millisecond // twice the slowest tick, HZ=100
	return now.UnixNano()-max(i.mtime, i.changed) > int64(tick)
}
