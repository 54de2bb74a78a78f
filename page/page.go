// Package page is the contract between a dynamic page and whatever carries it to a client: the event
// loops of the server, a FastCGI responder, a CGI program, an ordinary Go HTTP server.
//
// A page is a value with three methods. Open is called once, before the first request, and gets
// everything the page may use: files, a directory of its own, a clock, its options. Serve answers one
// request by filling a Response. Close is called once, after the last request. Call order is guaranteed;
// Serve is called from several goroutines at once, so what a page keeps between requests needs a lock or
// an atomic value.
//
//	type Hello struct{ name string }
//
//	func (h *Hello) Open(ctx *page.Context) error { h.name = ctx.Options["name"]; return nil }
//	func (h *Hello) Close() error                 { return nil }
//	func (h *Hello) Serve(rq *page.Request, rs *page.Response) {
//		rs.Type("text/plain; charset=utf-8")
//		rs.Append("hello, ").Append(h.name).Append("\n")
//	}
//
// Serve normally runs on an event loop that also serves thousands of other connections: it must not
// block, sleep, or wait for a lock that is held for long. A page that has such requests implements
// Detacher and says which; those run on a goroutine of their own.
//
// Views and lifetimes are the only sharp edge. The byte slices of a Request are views that die when
// Serve returns; copy what must live longer. Bytes given to a Response by SetFile and Tail are not
// copied and must stay valid until the carrier has sent them: a File says so itself through its owner,
// a tail should be a constant or a slice that is never changed.
//
// The package does not route, does not parse forms or cookies, does not compress and does not stream:
// the length of every response is known when Serve returns.
package page

import "time"

// A Page answers requests for one route. One value serves all goroutines of a process.
type Page interface {
	// Open prepares the page. ctx stays valid until Close returns.
	Open(ctx *Context) error
	// Serve answers rq by filling rs, which is empty. Any goroutine, several at once; must not block
	// unless Detached said so for this request. For a HEAD request the carrier drops the body. A panic
	// is a bug in the page; carriers answer 500 and go on.
	Serve(rq *Request, rs *Response)
	// Close releases what Open took. No Serve runs or follows.
	Close() error
}

// A Detacher is a page some of whose requests may block.
type Detacher interface {
	// Detached reports whether rq is to be served on a goroutine of its own, with a request that was
	// copied out of the carrier's buffers. Called on the loop before Serve; must not block.
	Detached(rq *Request) bool
}

// Context is what a page may use of the process it runs in.
type Context struct {
	// Files opens files below the document root, usually from the server's cache; nil if there is none.
	Files Files
	// Dir is a directory for the page's own data; empty if it has none. Carriers of the same page in
	// several processes give them the same Dir.
	Dir string
	// Software names the server, as in the Server header field.
	Software string
	// Options holds the page's settings from the configuration.
	Options map[string]string
	// Now is the wall clock; nil means time.Now.
	Now func() time.Time
	// Pid is the process id to write into shared files; 0 if unknown.
	Pid int
}

// Time is the current wall-clock time.
func (c *Context) Time() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// Files opens files below a document root.
type Files interface {
	// Open returns the file at a slash-separated path relative to the root; leading slashes are
	// ignored. A path that leaves the root, names a directory, or is not there gives an error that
	// matches fs.ErrNotExist, fs.ErrPermission or fs.ErrInvalid. The caller releases the file, or hands
	// it to Response.SetFile. May be called from any goroutine. Reads at most metadata from disk.
	Open(path []byte) (File, error)
}
