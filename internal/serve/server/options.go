package server

import (
	"net/netip"
	"time"

	"tidemark.dev/internal/ground/fault"
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
	// Backend is that of the loops: "auto" (or empty: io_uring, or epoll where the kernel refuses that), "epoll", "io_uring".
	Backend string
	// Backlog is the length of each listener's queue; 4096. The kernel cuts it at net.core.somaxconn.
	Backlog int
	// DeferAccept lets the kernel keep a connection until its first bytes arrive (TCP_DEFER_ACCEPT).
	// It saves a wake-up per connection; a connection that stays silent is not seen for a second.
	DeferAccept bool
	// SendBuffer and ReceiveBuffer are the sockets' sizes in bytes; 0 lets the kernel tune them.
	SendBuffer, ReceiveBuffer int
	// MaxConns bounds the open connections of all loops together; 0 leaves it to the descriptor limit.
	// At the bound the kernel's queue holds new ones.
	MaxConns int

	// CacheBytes bounds the memory for file contents; 0 means a quarter of the memory this process may use, at
	// most 1 GiB.
	CacheBytes int64
	// CacheFileMax is the largest file kept in memory, in bytes; 128 KiB.
	CacheFileMax int64
	// SendfileMin is the size in bytes from which files go to the network by sendfile from a kept
	// descriptor; 40 KiB (measured: below it one send of head and content together is cheaper).
	SendfileMin int64
	// CacheFiles bounds the kept descriptors; 0 means a quarter of the descriptor limit.
	CacheFiles int
	// CacheValid is how long a cached file is used before its metadata is compared again; 1 s. Below 0
	// it is compared before every use.
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
	// WriteTimeout ends a connection whose peer takes no byte of an answer for that long; 60 s. It is
	// noticed within twice that time.
	WriteTimeout time.Duration
	// BodyMax is the largest request body in bytes; 1 MiB.
	BodyMax int64
	// ShutdownTimeout is how long Run waits for open answers when it is to stop; 10 s.
	ShutdownTimeout time.Duration

	// AccessLog is the path of the binary access log; empty: no log. All loops append to the one file.
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
	// Workers bounds the goroutines that run detached pages; 64.
	Workers int
	// Spawner is the process that starts CGI programs, so that a start does not cost the more the more
	// connections there are. Without a Command, and without a Route with CGI, there is none, and the
	// server starts them itself.
	Spawner cgi.SpawnerOptions
}

// Route binds a path to a page, or to a CGI program.
type Route struct {
	// Path of the URL: exact, or a whole subtree if it ends in "/".
	Path string
	// Page answers the requests. The same value at several paths is opened once, with the Dir and
	// Settings of the first.
	Page page.Page
	// CGI runs a program for each request instead; Page must be nil. The server's Spawner is filled in.
	CGI *cgi.Options
	// Dir is the page's directory for its own data.
	Dir string
	// Settings are the page's options.
	Settings map[string]string
}

// Defaults that are this package's own; the others are named with the options of cache and h1.
const (
	DefaultShutdown = 10 * time.Second
	DefaultWorkers  = 64
	DefaultSoftware = "Tidemark"
	readers         = 8 // goroutines that read cold files
)

// Default returns the options of a server as it should be, without anything to serve.
func Default() Options { return Options{KeepAlive: true, DeferAccept: true} }

// check reports every option that cannot be right by itself, and fills in this package's defaults.
func (o *Options) check() error {
	var ps fault.Problems
	bad := func(field, text string) { ps = append(ps, fault.Problem{Field: field, Text: text}) }
	if len(o.Listen) == 0 {
		bad("listen", "no address")
	}
	for _, a := range o.Listen {
		if !a.IsValid() {
			bad("listen", "an address is not valid")
		}
	}
	for _, n := range []struct {
		field string
		value int64
	}{
		{"backlog", int64(o.Backlog)}, {"send buffer", int64(o.SendBuffer)}, {"receive buffer", int64(o.ReceiveBuffer)},
		{"connections", int64(o.MaxConns)}, {"cache bytes", o.CacheBytes}, {"cache file max", o.CacheFileMax},
		{"sendfile min", o.SendfileMin}, {"cache files", int64(o.CacheFiles)}, {"cache cooling", int64(o.CacheCooling)},
		{"keep-alive timeout", int64(o.KeepAliveTimeout)}, {"keep-alive max", int64(o.KeepAliveMax)},
		{"header timeout", int64(o.HeaderTimeout)}, {"body timeout", int64(o.BodyTimeout)},
		{"write timeout", int64(o.WriteTimeout)}, {"body max", o.BodyMax},
		{"shutdown timeout", int64(o.ShutdownTimeout)}, {"workers", int64(o.Workers)},
	} {
		if n.value < 0 {
			bad(n.field, "must not be negative")
		}
	}
	for _, r := range o.Pages {
		if (r.Page == nil) == (r.CGI == nil) {
			bad("page "+r.Path, "needs either a page or a CGI program")
		}
	}
	if o.Root == "" && len(o.Pages) == 0 {
		bad("root", "nothing to serve: neither a document root nor a page")
	}
	if o.ShutdownTimeout == 0 {
		o.ShutdownTimeout = DefaultShutdown
	}
	if o.Workers == 0 {
		o.Workers = DefaultWorkers
	}
	if o.Software == "" {
		o.Software = DefaultSoftware
	}
	if ps == nil {
		return nil
	}
	return ps
}
