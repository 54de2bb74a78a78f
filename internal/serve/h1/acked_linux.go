package h1

import "golang.org/x/sys/unix"

// acknowledged returns how many bytes the peer of a socket has acknowledged since it was accepted.
func acknowledged(fd int) (int64, bool) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, false
	}
	return int64(info.Bytes_acked), true
}
