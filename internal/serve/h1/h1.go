// Package h1 carries HTTP/1.0 and HTTP/1.1 on event loops: it reads requests, finds their answer in the
// file cache or in a page, and writes it.
//
// Make one [Site] with [NewSite], what all loops have in common, and one [Carrier] per loop with
// [Site.Carrier]; the carrier is the loop's handler, and Attach tells it its loop.
//
// It parses nothing itself (httpwire does), decides nothing about files (files does) and keeps none
// (cache does). It speaks no TLS, upgrades to nothing, and refuses TRACE and CONNECT.
//
// # What a request costs
//
// One receive into the loop's buffer, one send of head and body: the body straight from the cache's
// memory, or by sendfile. Nothing is allocated for files and for pages that run on the loop. A
// connection owns a buffer only while it has an incomplete request. Several requests received together
// (pipelining) are answered by one send as far as their answers are in memory and not large.
//
// # Connections
//
// A connection is always in exactly one phase, and the phase says which completion is due:
//
//	idle      Received   nothing of a request has arrived
//	heading   Received   part of a head has arrived; the client has HeaderTimeout from its first byte
//	loading   Received   the head is whole, the body is not; BodyTimeout and 500 bytes a second
//	sending   Sent       an answer is on its way; WriteTimeout without progress ends it
//	working   a post     a detached page runs, or a cold file is being read
//	lingering Received   this side has ended; what the peer still sends is thrown away
//
// No receive is armed while an answer is on its way, so a client cannot make the server collect work.
// The timer of a connection is not moved for each request: it is armed for the earliest time it may be
// needed and looks at the deadline when it fires.
//
// # Closing
//
// After the last answer the server closes first. If the client asked for the end, and nothing more of it
// is at hand, that is a plain close. Otherwise (an error, a limit, a stop) the client may be sending, and
// a close would answer with a reset that can destroy the answer in flight: the server ends its side and
// reads until the client ends, at most two seconds.
package h1

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/binlog"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/serve/cache"
	"tidemark.dev/page"
)

// Defaults of Config.
const (
	DefaultKeepAlive   = 75 * time.Second // nginx's keepalive_timeout
	DefaultHeaderTime  = 10 * time.Second // half of what Apache's mod_reqtimeout allows at first
	DefaultBodyTime    = 20 * time.Second // mod_reqtimeout: body=20,MinRate=500
	DefaultWriteTime   = 60 * time.Second // nginx's send_timeout
	DefaultBodyMax     = 1 << 20          // nginx's client_max_body_size
	bodyRate           = 500              // bytes a second that prolong BodyTimeout, mod_reqtimeout
	defaultSoftware    = "Tidemark"
	defaultSendfileMin = 40 << 10
)

// Config is what the loops of a server have in common. A zero value means the default where there is one.
type Config struct {
	// Cache has the files; nil: there are only pages.
	Cache *cache.Cache
	// Index names the files that answer for a directory, in order; nil: index.html.
	Index []string
	// Routes binds paths to opened pages.
	Routes []Route
	// Workers runs detached pages; must be set if there are any. Readers reads files that are not in
	// memory; must be set with Cache. They are two, so that slow pages do not keep files waiting.
	Workers, Readers *Workers
	// Software is the Server field.
	Software string
	// SendfileMin is the size in bytes from which a page's file goes out by sendfile if it can; 40 KiB.
	SendfileMin int64

	// KeepAlive allows more than one request on a connection, KeepAliveMax bounds them; 0: no bound.
	KeepAlive    bool
	KeepAliveMax int
	// Timeouts of the phases; see the package comment.
	KeepAliveTimeout, HeaderTimeout, BodyTimeout, WriteTimeout time.Duration
	// BodyMax is the largest request body, in bytes.
	BodyMax int64
	// Head bounds request heads.
	Head httpwire.Limits
}

// Route binds a path to a page.
type Route struct {
	// Path is exact, or a whole subtree if it ends in "/".
	Path string
	// Page answers; it is open.
	Page page.Page
}

// Site is what the carriers of a server share. It does not change.
type Site struct {
	cfg     Config
	exact   map[string]*route
	subtree []*route // longest first
}

type route struct {
	path     string
	page     page.Page
	detacher page.Detacher // nil: never detached
}

// NewSite checks c and returns a Site.
func NewSite(c Config) (*Site, error) {
	set(&c.KeepAliveTimeout, DefaultKeepAlive)
	set(&c.HeaderTimeout, DefaultHeaderTime)
	set(&c.BodyTimeout, DefaultBodyTime)
	set(&c.WriteTimeout, DefaultWriteTime)
	set(&c.BodyMax, DefaultBodyMax)
	set(&c.SendfileMin, defaultSendfileMin)
	set(&c.Software, defaultSoftware)
	if c.Cache != nil && c.Readers == nil {
		return nil, errors.New("files without readers: cold ones need them")
	}
	if c.Index == nil {
		c.Index = []string{"index.html"}
	}
	switch {
	case c.KeepAliveTimeout < 0 || c.HeaderTimeout < 0 || c.BodyTimeout < 0 || c.WriteTimeout < 0:
		return nil, errors.New("timeouts must be positive")
	case c.KeepAliveMax < 0:
		return nil, errors.New("requests of a connection: must not be negative")
	case c.BodyMax < 0:
		return nil, errors.New("largest body: must not be negative")
	case strings.ContainsAny(c.Software, "\r\n\x00"):
		return nil, fmt.Errorf("server name %q: has a control byte", c.Software)
	}
	for _, name := range c.Index {
		if name == "" || strings.ContainsAny(name, "/%\x00") {
			return nil, fmt.Errorf("index %q: is not a plain file name", name)
		}
	}
	s := &Site{cfg: c, exact: map[string]*route{}}
	for _, r := range c.Routes {
		if err := s.add(r); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func set[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

func (s *Site) add(r Route) error {
	clean, ok := httpwire.CleanPath(nil, []byte(r.Path))
	if !ok || string(clean) != r.Path {
		return fmt.Errorf("route %q: is not a clean absolute path", r.Path)
	}
	if r.Page == nil {
		return fmt.Errorf("route %s: has no page", r.Path)
	}
	if s.exact[r.Path] != nil {
		return fmt.Errorf("route %s: is there twice", r.Path)
	}
	to := &route{path: r.Path, page: r.Page}
	to.detacher, _ = r.Page.(page.Detacher)
	if to.detacher != nil && s.cfg.Workers == nil {
		return fmt.Errorf("route %s: may be detached, but there are no workers", r.Path)
	}
	s.exact[r.Path] = to
	if strings.HasSuffix(r.Path, "/") {
		i := 0
		for i < len(s.subtree) && len(s.subtree[i].path) > len(r.Path) {
			i++
		}
		s.subtree = append(s.subtree[:i], append([]*route{to}, s.subtree[i:]...)...)
	}
	return nil
}

// find returns the route of a clean path, or nil.
func (s *Site) find(path []byte) *route {
	if r := s.exact[string(path)]; r != nil {
		return r
	}
	for _, r := range s.subtree {
		if len(path) >= len(r.path) && string(path[:len(r.path)]) == r.path {
			return r
		}
	}
	return nil
}

// Stats counts what a carrier did.
type Stats struct {
	Accepted  int64 // connections
	Open      int64 // connections open now
	Requests  int64 // requests understood
	Responses int64 // answers begun
	Bytes     int64 // of answers that were sent whole, and what went out of the others
	Refused   int64 // answers of 400 and above
	Aborted   int64 // answers that did not go out whole
	Timeouts  int64 // connections ended by a timeout other than idleness
	Panics    int64 // pages that panicked
	Hits      int64 // files found in the loop's own table
}

// Carrier serves one loop's connections. It is that loop's handler and belongs to its goroutine.
type Carrier struct {
	site  *Site
	cfg   *Config
	l     *loop.Loop
	index uint16
	log   *binlog.Writer
	files *cache.Local
	local []localAddr // by listener

	conns []conn // by loop.ID
	stats Stats

	rq    httpwire.Request // the request being answered
	extra fields           // more of it
	path  []byte           // its clean path
	page  page.Request
	spans []httpwire.Span

	out    []byte // answers staged for one send
	header []byte
	batch  []note // records of the answers staged or being sent
	names  text

	buffers   [][]byte
	pendings  []*pending
	responses []*page.Response
	jobs      []*job
	bodies    []*chunked

	stopping bool
	drained  func()
}

// Carrier returns the carrier of one loop. log is nil for none.
func (s *Site) Carrier(index int, log *binlog.Writer) *Carrier {
	return &Carrier{
		site: s, cfg: &s.cfg, index: uint16(index), log: log,
		out:   make([]byte, 0, outSize),
		batch: make([]note, 0, batchSize),
		spans: make([]httpwire.Span, 0, maxRanges),
	}
}

// Attach tells the carrier its loop. Call it once, before the loop runs.
func (c *Carrier) Attach(l *loop.Loop) {
	c.l = l
	if c.cfg.Cache != nil {
		c.files = c.cfg.Cache.Local(func() { l.Post(c.sweep) })
	}
	c.tell(l.Refresh())
}

func (c *Carrier) sweep() { c.files.Sweep() }

// Stats returns the counters. Loop goroutine, or after the loop has ended.
func (c *Carrier) Stats() Stats {
	s := c.stats
	if c.files != nil {
		s.Hits = c.files.Hits()
	}
	return s
}

// never is a deadline that does not come.
const never = clock.Instant(1<<63 - 1)
