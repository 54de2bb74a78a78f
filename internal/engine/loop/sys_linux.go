package loop

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Raw system calls. Everything here except epollSleep and sendfile returns without
// waiting for anything outside the processor, so it goes around the scheduler
// (with Syscall a request cost 1.26 times the processor time, measured on Linux 6.18
// with Go 1.26). A raw call that could block would hold up a stop of
// the world, hence the two exceptions: the wait itself, and sendfile, which may read
// the disk.
//
// Zero means success; other results are errno values, EINTR already retried.

func recvfrom(fd int32, b []byte, flags int) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

func sendto(fd int32, b []byte, flags int) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

func sendmsg(fd int32, m *unix.Msghdr, flags int) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_SENDMSG, uintptr(fd),
			uintptr(unsafe.Pointer(m)), uintptr(flags), 0, 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

// sendfile sends n bytes of in from off on, and moves no file position.
func sendfile(out int32, in int, off, n int64) (int, syscall.Errno) {
	for {
		at := off
		m, _, e := syscall.Syscall6(unix.SYS_SENDFILE, uintptr(out), uintptr(in),
			uintptr(unsafe.Pointer(&at)), uintptr(n), 0, 0)
		if e != unix.EINTR {
			return int(m), e
		}
	}
}

func accept(fd int32, peer *unix.RawSockaddrAny) (int, syscall.Errno) {
	for {
		size := uint32(unix.SizeofSockaddrAny)
		n, _, e := syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd),
			uintptr(unsafe.Pointer(peer)), uintptr(unsafe.Pointer(&size)),
			unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		if e != unix.EINTR {
			return int(n), e
		}
	}
}

// closefd does not retry EINTR: Linux has released the descriptor by then.
func closefd(fd int32) { syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

func shutdownWrite(fd int32) {
	syscall.RawSyscall(unix.SYS_SHUTDOWN, uintptr(fd), unix.SHUT_WR, 0)
}

func setLinger(fd int32, seconds int32) syscall.Errno {
	v := unix.Linger{Onoff: 1, Linger: seconds}
	_, _, e := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_LINGER,
		uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
	return e
}

// takeError reads and clears the pending error of a socket.
func takeError(fd int32) syscall.Errno {
	var v int32
	size := uint32(unsafe.Sizeof(v))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_ERROR,
		uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return e
	}
	return syscall.Errno(v)
}

func wake(fd int) {
	one := uint64(1)
	syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
}

func epollAdd(ep, fd int, events uint32, at, gen int32) syscall.Errno {
	ev := unix.EpollEvent{Events: events, Fd: at, Pad: gen}
	_, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(ep), unix.EPOLL_CTL_ADD, uintptr(fd),
		uintptr(unsafe.Pointer(&ev)), 0, 0)
	return e
}

// epollPoll takes what is ready without waiting.
func epollPoll(ep int, evs []unix.EpollEvent) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep),
		uintptr(unsafe.Pointer(unsafe.SliceData(evs))), uintptr(len(evs)), 0, 0, 0)
	return int(n), e
}

// epollSleep waits for at most d; below 0, for ever. Blocks. coarse avoids
// epoll_pwait2 (Linux 5.11) and rounds up to milliseconds.
func epollSleep(ep int, evs []unix.EpollEvent, d time.Duration, coarse bool) (int, syscall.Errno) {
	if coarse {
		ms := -1
		if d >= 0 {
			ms = int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
		}
		n, _, e := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep),
			uintptr(unsafe.Pointer(unsafe.SliceData(evs))), uintptr(len(evs)), uintptr(ms), 0, 0)
		return int(n), e
	}
	// The first part of the wait is a raw call, which the scheduler does not see: a server under load sleeps
	// often and briefly, and each sleep that the scheduler sees wakes its monitor thread some fifty times,
	// every 20 us (measured: 10 to 25 % of a small answer's cost, with a spare slot in GOMAXPROCS). A raw call
	// may be this long because the runtime stops threads by signal, and a signal ends epoll_pwait2.
	if d != 0 {
		first := rawWait
		if d > 0 {
			first = min(first, d)
		}
		ts := timespec{0, int64(first)}
		n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(ep),
			uintptr(unsafe.Pointer(unsafe.SliceData(evs))), uintptr(len(evs)), uintptr(unsafe.Pointer(&ts)), 0, 0)
		if n != 0 || e != 0 || d == first {
			return int(n), e
		}
		if d > 0 {
			d -= first
		}
	}
	var limit *timespec
	if d >= 0 {
		limit = &timespec{int64(d / time.Second), int64(d % time.Second)}
	}
	n, _, e := syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(ep),
		uintptr(unsafe.Pointer(unsafe.SliceData(evs))), uintptr(len(evs)), uintptr(unsafe.Pointer(limit)), 0, 0)
	return int(n), e
}

// rawWait is how long a wait is hidden from the scheduler.
const rawWait = 20 * time.Millisecond

// timespec is __kernel_timespec: 64-bit on every architecture.
type timespec struct{ sec, nsec int64 }
