package socket

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deferSeconds is how long a connection without data waits under DeferAccept before
// the kernel hands it out all the same (nginx uses the same value).
const deferSeconds = 1

// DefaultBacklog is ListenOptions.Backlog where that is 0.
const DefaultBacklog = 4096

// sockaddr is room for an address of either family.
type sockaddr struct {
	v4 unix.RawSockaddrInet4
	v6 unix.RawSockaddrInet6
}

// set fills in a and returns what the kernel wants to see of it.
func (s *sockaddr) set(a netip.AddrPort) (family int, p unsafe.Pointer, size uint32, err error) {
	ip := a.Addr()
	switch {
	case ip.Is4() || ip.Is4In6():
		s.v4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: ip.As4()}
		putPort(&s.v4.Port, a.Port())
		return unix.AF_INET, unsafe.Pointer(&s.v4), unix.SizeofSockaddrInet4, nil
	case ip.Is6():
		s.v6 = unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: ip.As16()}
		putPort(&s.v6.Port, a.Port())
		if z := ip.Zone(); z != "" {
			if s.v6.Scope_id, err = scope(z); err != nil {
				return 0, nil, 0, err
			}
		}
		return unix.AF_INET6, unsafe.Pointer(&s.v6), unix.SizeofSockaddrInet6, nil
	}
	return 0, nil, 0, fmt.Errorf("address %v: not an IP address", a)
}

func scope(zone string) (uint32, error) {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("zone %s: %w", zone, err)
	}
	return uint32(i.Index), nil
}

func putPort(p *uint16, port uint16) {
	b := (*[2]byte)(unsafe.Pointer(p))
	b[0], b[1] = byte(port>>8), byte(port)
}

func getPort(p *uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(p))
	return uint16(b[0])<<8 | uint16(b[1])
}

// AddrOf reads an address the kernel wrote. It allocates for IPv6 with a scope only.
func AddrOf(a *unix.RawSockaddrAny) netip.AddrPort {
	switch a.Addr.Family {
	case unix.AF_INET:
		v := (*unix.RawSockaddrInet4)(unsafe.Pointer(a))
		return netip.AddrPortFrom(netip.AddrFrom4(v.Addr), getPort(&v.Port))
	case unix.AF_INET6:
		v := (*unix.RawSockaddrInet6)(unsafe.Pointer(a))
		ip := netip.AddrFrom16(v.Addr).Unmap()
		if v.Scope_id != 0 && ip.Is6() {
			ip = ip.WithZone(strconv.FormatUint(uint64(v.Scope_id), 10))
		}
		return netip.AddrPortFrom(ip, getPort(&v.Port))
	}
	return netip.AddrPort{}
}

// Local asks the kernel for the own address of a socket; zero when it has none.
func Local(fd int32) netip.AddrPort {
	var a unix.RawSockaddrAny
	size := uint32(unix.SizeofSockaddrAny)
	_, _, e := syscall.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd),
		uintptr(unsafe.Pointer(&a)), uintptr(unsafe.Pointer(&size)))
	if e != 0 {
		return netip.AddrPort{}
	}
	return AddrOf(&a)
}

// open opens a TCP socket that never blocks and does not reach child processes.
func open(family int) (int, syscall.Errno) {
	fd, _, e := syscall.RawSyscall(unix.SYS_SOCKET, uintptr(family),
		unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	return int(fd), e
}

// bind and the calls below are raw, for none of them waits.
func bind(fd int, p unsafe.Pointer, size uint32) syscall.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(p), uintptr(size))
	return e
}

// connect does not retry EINTR: an interrupted connect goes on in the background.
func connect(fd int, sa unsafe.Pointer, size uint32) syscall.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(sa), uintptr(size))
	return e
}

func setInt(fd, level, name, value int) syscall.Errno {
	v := int32(value)
	_, _, e := syscall.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(name),
		uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0)
	return e
}

func closefd(fd int) { syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// step is one setting of a new socket and the name to report it by.
type step struct {
	name              string
	level, opt, value int
	wanted            bool
}

func apply(fd int, steps []step) error {
	for i := range steps {
		s := &steps[i]
		if !s.wanted {
			continue
		}
		if e := setInt(fd, s.level, s.opt, s.value); e != 0 {
			return os.NewSyscallError("setsockopt "+s.name, e)
		}
	}
	return nil
}

// Listen returns a listening socket with SO_REUSEPORT and the address it got.
func Listen(addr netip.AddrPort, o *ListenOptions) (fd int, actual netip.AddrPort, err error) {
	backlog := o.Backlog
	switch {
	case backlog == 0:
		backlog = DefaultBacklog
	case backlog < 0:
		return -1, actual, fmt.Errorf("listen %v: negative backlog %d", addr, backlog)
	}
	var sa sockaddr
	family, p, size, err := sa.set(addr)
	if err != nil {
		return -1, actual, fmt.Errorf("listen: %w", err)
	}
	fd, e := open(family)
	if e != 0 {
		return -1, actual, fmt.Errorf("listen %v: socket: %w", addr, e)
	}
	defer func() {
		if err != nil {
			closefd(fd)
			fd = -1
		}
	}()
	// Buffers before listen: they decide the window scale of the handshake, and
	// accepted sockets inherit them, as they do TCP_NODELAY. "[::]" takes IPv6
	// only, so that it can stand beside "0.0.0.0".
	err = apply(fd, []step{
		{"SO_REUSEADDR", unix.SOL_SOCKET, unix.SO_REUSEADDR, 1, true},
		{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1, true},
		{"IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1, family == unix.AF_INET6},
		{"SO_RCVBUF", unix.SOL_SOCKET, unix.SO_RCVBUF, o.RcvBuf, o.RcvBuf > 0},
		{"SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, o.SndBuf, o.SndBuf > 0},
		{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1, o.NoDelay},
		{"TCP_DEFER_ACCEPT", unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, deferSeconds, o.DeferAccept},
	})
	if err != nil {
		return fd, actual, fmt.Errorf("listen %v: %w", addr, err)
	}
	if e := bind(fd, p, size); e != 0 {
		return fd, actual, fmt.Errorf("listen %v: bind: %w", addr, e)
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_LISTEN, uintptr(fd), uintptr(backlog), 0); e != 0 {
		return fd, actual, fmt.Errorf("listen %v: %w", addr, e)
	}
	return fd, Local(int32(fd)), nil
}

// Connect begins a connection. done: it is finished already. No allocation on success.
func Connect(o *ConnectOptions) (fd int, done bool, err error) {
	var to sockaddr
	family, p, size, err := to.set(o.Remote)
	if err != nil {
		return -1, false, fmt.Errorf("connect: %w", err)
	}
	fd, e := open(family)
	if e != 0 {
		return -1, false, os.NewSyscallError("socket", e)
	}
	if err := prepare(fd, family, o); err != nil {
		closefd(fd)
		return -1, false, err
	}
	// EINTR: the handshake goes on and ends like any other.
	e = connect(fd, p, size)
	if e != 0 && e != unix.EINPROGRESS && e != unix.EINTR {
		closefd(fd)
		return -1, false, os.NewSyscallError("connect", e)
	}
	return fd, e == 0, nil
}

// prepare applies what must precede connect. No allocation unless it fails.
func prepare(fd, family int, o *ConnectOptions) error {
	if o.RcvBuf > 0 {
		if e := setInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, o.RcvBuf); e != 0 {
			return os.NewSyscallError("setsockopt SO_RCVBUF", e)
		}
	}
	if o.MaxSeg > 0 {
		if e := setInt(fd, unix.IPPROTO_TCP, unix.TCP_MAXSEG, o.MaxSeg); e != 0 {
			return os.NewSyscallError("setsockopt TCP_MAXSEG", e)
		}
	}
	if o.NoDelay {
		if e := setInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); e != 0 {
			return os.NewSyscallError("setsockopt TCP_NODELAY", e)
		}
	}
	if o.LazyAck {
		if e := setInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 0); e != 0 {
			return os.NewSyscallError("setsockopt TCP_QUICKACK", e)
		}
	}
	if !o.Local.Addr().IsValid() {
		return nil
	}
	if o.Local.Port() == 0 {
		// Valid on IPv6 sockets too: the option lives in the part both share.
		if e := setInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); e != 0 {
			return os.NewSyscallError("setsockopt IP_BIND_ADDRESS_NO_PORT", e)
		}
	}
	var from sockaddr
	fam, p, size, err := from.set(o.Local)
	if err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if fam != family {
		return fmt.Errorf("connect %v from %v: different address families", o.Remote, o.Local)
	}
	if e := bind(fd, p, size); e != 0 {
		return os.NewSyscallError("bind", e)
	}
	return nil
}
