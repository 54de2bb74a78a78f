// Package server is the web server as a value: loops, listeners, file cache, dynamic pages and access
// log, put together from one Options.
//
// Start from [Default], call [New], then Run until its context ends; Addrs says where the server
// listens. New binds every address and opens every page, so a configuration that cannot work fails
// there and not later.
//
// It reads no configuration file, handles no signals and prints nothing; TLS, HTTP/2 and HTTP/3 are
// other carriers' work. It needs Linux.
package server

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"tidemark.dev/internal/serve/cgi"
	"tidemark.dev/page"
)

// Options describe a server. A zero number means the default named with the field; Default returns the
// whole set with the switches on that should be on.
type Options struct {
	// Listen holds the addresses to listen on; port 0 lets the kernel choose. At least one.
	Listen []netip.AddrPort
	// Root is the document root. Empty: no files are served, only pages.
	Root string
	// Loops names the CPU of each event loop, -1 for a loop that is not pinned. Empty: one unpinned
	// loop for each CPU the process may use.
	Loops []int
	// Backend is that of the loops: "auto" (or empty), "epoll", "io_uring".
	Backend string
	// Backlog is the length of each listener's queue; 4096. The kernel cuts it at net.core.somaxconn.
	Backlog int
	// DeferAccept lets the kernel keep a connection until its first bytes arrive (TCP_DEFER_ACCEPT).
	DeferAccept bool
	// SendBuffer and ReceiveBuffer are the sockets' sizes in bytes; 0 lets the kernel tune them.
	SendBuffer, ReceiveBuffer int
	// MaxConns bounds the open connections of all loops together; 0 leaves it to the descriptor limit.
	// At the bound the kernel's queue holds new ones.
	MaxConns int

	// CacheBytes bounds the memory for file contents; 0 means a quarter of the machine's memory, at
	// most 1 GiB.
	CacheBytes int64
	// CacheFileMax is the largest file kept in memory, in bytes; 128 KiB.
	CacheFileMax int64
	// SendfileMin is the size in bytes from which files go to the network by sendfile from a kept
	// descriptor, never through memory of ours; 40 KiB (measured: below it one send of head and
	// content together is cheaper).
	SendfileMin int64
	// CacheFiles bounds the kept descriptors; 0 means a quarter of the descriptor limit.
	CacheFiles int
	// CacheValid is how long a cached file is used before its metadata is compared again; 1 s.
	CacheValid time.Duration
	// CacheCooling keeps files out of the cache until they have been unchanged for that long; 0 admits
	// them at once.
	CacheCooling time.Duration

	// KeepAlive lets connections serve more than one request.
	KeepAlive bool
	// KeepAliveTimeout ends a connection that waits for its next request; 75 s.
	KeepAliveTimeout time.Duration
	// KeepAliveMax is the greatest number of requests of one connection; 0 for no bound.
	KeepAliveMax int
	// HeaderTimeout bounds the time from the first byte of a request head (or from accept) to its
	// end; 10 s.
	HeaderTimeout time.Duration
	// BodyTimeout bounds the time for a request body, plus one second for every 500 bytes of it; 20 s.
	BodyTimeout time.Duration
	// WriteTimeout ends a connection whose peer takes no byte of an answer for that long; 60 s.
	WriteTimeout time.Duration
	// BodyMax is the largest request body in bytes; 1 MiB.
	BodyMax int64

	// AccessLog is the path of the binary access log; empty: no log. Every loop appends its blocks to
	// the same file.
	AccessLog string
	// Software is the Server header field; "Tidemark" if empty.
	Software string
	// Index names the files looked for in a directory, in order; index.html if nil.
	Index []string
	// Types maps extensions without the dot, in lower case, to content types, over the built-in table.
	// "" is the type of names without extension, "*" that of unknown ones.
	Types map[string]string
	// Hidden serves files and directories whose name begins with a dot; otherwise they do not exist,
	// except below /.well-known/.
	Hidden bool

	// Pages binds paths to dynamic pages.
	Pages []Route
	// Workers bounds the goroutines that run detached pages and read cold files; 64.
	Workers int
}

// Route binds a path to a page, or to a CGI program.
type Route struct {
	// Path of the URL: exact, or a whole subtree if it ends in "/".
	Path string
	// Page answers the requests. The same value at several paths is opened once.
	Page page.Page
	// CGI runs a program for each request instead; Page must be nil.
	CGI *cgi.Options
	// Dir is the page's directory for its own data.
	Dir string
	// Settings are the page's options.
	Settings map[string]string
}

// Default returns the options of a server as it should be: with keep-alive, without anything to serve.
func Default() Options { return Options{KeepAlive: true} }

// Server is a set of running loops.
type Server struct{ o Options }

// New makes a server: binds the addresses, opens root, log and pages.
func New(o Options) (*Server, error) { return &Server{o: o}, nil }

// Addrs returns the addresses listened on, in the order of Options.Listen.
func (s *Server) Addrs() []netip.AddrPort { return nil }

// Run serves until ctx ends, then stops gracefully: accepts no more, finishes open answers with
// Connection: close, and cuts what is left at the deadline set by ShutdownTimeout.
func (s *Server) Run(ctx context.Context) error { return errors.ErrUnsupported }

// Stats is a sum over all loops.
type Stats struct {
	Accepted, Open                        int64
	Requests, Responses                   int64
	Bytes                                 int64
	Errors, Aborted, Timeouts             int64
	CacheHits, CacheMisses, CacheEvicted  int64
	CacheBytes, CacheEntries, CacheOpened int64
	LogWaits                              int64
}

// Stats returns the counters. Any goroutine; waits for the loops' present turns.
func (s *Server) Stats() Stats { return Stats{} }
