//go:build linux && (amd64 || arm64 || riscv64)

package pages

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// watched is a path whose file is identified again and again.
type watched struct {
	name string
	path *byte // name, NUL-terminated
}

func watch(name string) watched {
	w := watched{name: name}
	w.path, _ = syscall.BytePtrFromString(name) // nil for a name with NUL, which identify reports
	return w
}

// identify looks the path up. No allocation, which syscall.Stat cannot offer: it copies the path.
func (w *watched) identify() (identity, error) {
	if w.path == nil {
		return identity{}, &os.PathError{Op: "stat", Path: w.name, Err: syscall.EINVAL}
	}
	const (
		newfstatat = 79 // the number shared by the newer architectures
		onAMD64    = 262
	)
	call, here := uintptr(newfstatat), ^uintptr(99) // AT_FDCWD is -100
	if runtime.GOARCH == "amd64" {
		call = onAMD64
	}
	var st syscall.Stat_t
	_, _, e := syscall.Syscall6(call, here, uintptr(unsafe.Pointer(w.path)), uintptr(unsafe.Pointer(&st)), 0, 0, 0)
	if e != 0 {
		return identity{}, &os.PathError{Op: "stat", Path: w.name, Err: e}
	}
	return identify(&st), nil
}

// identifyOpen is identify for an open file. No allocation. False if fd is none.
func identifyOpen(fd uintptr) (identity, bool) {
	var st syscall.Stat_t
	_, _, e := syscall.Syscall(syscall.SYS_FSTAT, fd, uintptr(unsafe.Pointer(&st)), 0)
	return identify(&st), e == 0
}

func identify(st *syscall.Stat_t) identity {
	return identity{st.Dev, st.Ino, uint64(st.Nlink), st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

func identityOf(info os.FileInfo) identity {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return identify(st)
	}
	return identity{size: info.Size(), modTime: info.ModTime().UnixNano()}
}
