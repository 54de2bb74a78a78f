package slot

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// congestion returns the TCP congestion control of a socket, "" if it cannot be read.
func congestion(fd int) string {
	if fd < 0 {
		return ""
	}
	name, err := unix.GetsockoptString(fd, syscall.IPPROTO_TCP, unix.TCP_CONGESTION)
	if err != nil {
		return ""
	}
	return name
}
