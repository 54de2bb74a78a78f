// Package socket opens the TCP sockets of a loop: what must be set before a handshake is
// set, nothing ever blocks, and no child process inherits them.
//
// Call [Listen] or [Connect]; what they return is a bare descriptor, and the caller's.
//
// It moves no bytes and waits for nothing: that is the loop's. It needs Linux.
package socket

import "net/netip"

// ListenOptions shape a listener; its accepted connections inherit buffers and NoDelay.
type ListenOptions struct {
	// Backlog is the number of finished handshakes the kernel keeps for us.
	// Default 4096; the sysctl net.core.somaxconn caps it silently.
	Backlog int
	// RcvBuf and SndBuf are SO_RCVBUF and SO_SNDBUF in bytes, 0 for the kernel's
	// own choice. Linux doubles the number and then stops tuning it.
	RcvBuf, SndBuf int
	// NoDelay switches Nagle's algorithm off. Servers want it: without it the
	// tail of a SendFile waits for the peer's acknowledgement.
	NoDelay bool
	// DeferAccept reports connections only when their first bytes are there
	// (TCP_DEFER_ACCEPT, 1 s). Not for protocols where the server speaks first.
	DeferAccept bool
}

// ConnectOptions shape an own connection.
type ConnectOptions struct {
	// Remote is where to connect to.
	Remote netip.AddrPort
	// Local is the source. Zero: the kernel chooses. An address with port 0: the
	// kernel chooses the port when it knows the remote side, so that one address
	// carries many more connections than it has ports (IP_BIND_ADDRESS_NO_PORT).
	// An address with a port: exactly that one, or EADDRINUSE.
	Local netip.AddrPort
	// RcvBuf is SO_RCVBUF in bytes (Linux doubles it), MaxSeg is TCP_MAXSEG in
	// bytes; both are set before the handshake. 0 leaves them alone.
	RcvBuf, MaxSeg int
	// NoDelay switches Nagle's algorithm off.
	NoDelay bool
	// LazyAck lets the acknowledgement that ends the handshake wait for the first
	// send (TCP_QUICKACK off), which saves a packet where that follows at once.
	LazyAck bool
}
