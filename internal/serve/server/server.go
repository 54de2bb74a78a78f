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
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/binlog"
	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/ground/httpwire"
	"tidemark.dev/internal/serve/cache"
	"tidemark.dev/internal/serve/cgi"
	"tidemark.dev/internal/serve/files"
	"tidemark.dev/internal/serve/h1"
	"tidemark.dev/page"
)

// Server is a set of loops that answer on the same addresses.
type Server struct {
	o        Options
	addrs    []netip.AddrPort
	cache    *cache.Cache
	log      *os.File
	workers  *h1.Workers
	readers  *h1.Workers
	opened   []page.Page
	gateways []*cgi.Gateway
	spawner  *cgi.Spawner // nil: none
	units    []*unit

	mu      sync.Mutex
	running bool
	closed  chan struct{} // when Run has cleaned up
	last    Stats         // then
}

// unit is one loop with what is its own.
type unit struct {
	loop      *loop.Loop
	carrier   *h1.Carrier
	log       *binlog.Writer
	listeners []int
}

// New makes a server: opens root, log and pages, and binds the addresses. Connections wait in the
// kernel's queue until Run. A server that is not wanted after all is released by Run with a context
// that has ended.
func New(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if len(o.Loops) == 0 {
		for range runtime.GOMAXPROCS(0) {
			o.Loops = append(o.Loops, -1)
		}
	}
	s := &Server{o: o, closed: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	return s, nil
}

func (s *Server) open() (err error) {
	o := &s.o
	if len(o.Spawner.Command) > 0 && slices.ContainsFunc(o.Pages, func(r Route) bool { return r.CGI != nil }) {
		s.spawner = cgi.NewSpawner(o.Spawner) // before there is anything that it could get a copy of
	}
	if o.Root != "" {
		if s.cache, err = cache.New(s.cacheOptions()); err != nil {
			return fault.Wrap(fault.Config, err, "document root")
		}
	}
	if o.AccessLog != "" {
		if s.log, err = binlog.Open(o.AccessLog); err != nil {
			return fault.Wrap(fault.Config, err, "access log")
		}
	}
	s.workers, s.readers = h1.NewWorkers(o.Workers), h1.NewWorkers(readers)
	routes, err := s.openPages()
	if err != nil {
		return err
	}
	site, err := h1.NewSite(h1.Config{
		Cache: s.cache, Index: o.Index, Routes: routes, Workers: s.workers, Readers: s.readers,
		Software: o.Software, SendfileMin: o.SendfileMin,
		KeepAlive: o.KeepAlive, KeepAliveMax: o.KeepAliveMax, KeepAliveTimeout: o.KeepAliveTimeout,
		HeaderTimeout: o.HeaderTimeout, BodyTimeout: o.BodyTimeout, WriteTimeout: o.WriteTimeout,
		BodyMax: o.BodyMax,
	})
	if err != nil {
		return fault.Wrap(fault.Config, err, "")
	}
	for i, cpu := range o.Loops {
		if err := s.openLoop(site, i, cpu); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) cacheOptions() cache.Options {
	o := &s.o
	types := files.NewTypes(o.Types)
	c := cache.Options{
		Root: o.Root, Bytes: o.CacheBytes, FileMax: o.CacheFileMax, Inline: o.SendfileMin,
		Files: o.CacheFiles, Valid: o.CacheValid, Cooling: o.CacheCooling,
		Describe: func(b []byte, path string, size, modTime int64) ([]byte, cache.Meta) {
			m := cache.Meta{
				Type:     types.Of(path),
				ETag:     string(files.AppendETag(nil, modTime, size)),
				Modified: string(files.AppendModified(nil, modTime, time.Now().UnixNano())),
			}
			b = httpwire.AppendField(b, "Content-Type", m.Type)
			b = append(b, "Content-Length: "...)
			b = httpwire.AppendInt(b, size)
			b = append(b, "\r\n"...)
			b = httpwire.AppendField(b, "Last-Modified", m.Modified)
			b = httpwire.AppendField(b, "ETag", m.ETag)
			return append(b, "Accept-Ranges: bytes\r\n\r\n"...), m
		},
	}
	if !o.Hidden {
		c.Refuse = files.Hidden
	}
	return c
}

// openPages opens every page once, in the order of the routes.
func (s *Server) openPages() (routes []h1.Route, err error) {
	for _, r := range s.o.Pages {
		p := r.Page
		if r.CGI != nil {
			with := *r.CGI
			if with.Spawner == nil {
				with.Spawner = s.spawner
			}
			g, err := cgi.New(with)
			if err != nil {
				return nil, fault.Wrap(fault.Config, err, "page "+r.Path)
			}
			s.gateways = append(s.gateways, g)
			p = g
		}
		if !s.isOpen(p) {
			ctx := &page.Context{
				Files: noFiles{}, Dir: r.Dir, Software: s.o.Software, Options: r.Settings,
				Now: time.Now, Pid: os.Getpid(),
			}
			if s.cache != nil {
				ctx.Files = s.cache
			}
			if err := p.Open(ctx); err != nil {
				return nil, fault.Wrap(fault.Config, err, "page "+r.Path)
			}
			s.opened = append(s.opened, p)
		}
		routes = append(routes, h1.Route{Path: r.Path, Page: p})
	}
	return routes, nil
}

func (s *Server) isOpen(p page.Page) bool {
	if !reflect.TypeOf(p).Comparable() {
		return false
	}
	for _, q := range s.opened {
		if reflect.TypeOf(q).Comparable() && q == p {
			return true
		}
	}
	return false
}

// noFiles is what pages see of a server without a document root.
type noFiles struct{}

func (noFiles) Open([]byte) (page.File, error) { return page.File{}, fs.ErrNotExist }

func (s *Server) openLoop(site *h1.Site, index, cpu int) error {
	u := &unit{}
	if s.log != nil {
		u.log = binlog.NewWriter(s.log, binlog.Options{Software: oneLine(s.o.Software)})
	}
	s.units = append(s.units, u)
	u.carrier = site.Carrier(index, u.log)
	conns := s.o.MaxConns
	if n := len(s.o.Loops); conns > 0 {
		conns = (conns + n - 1) / n
	}
	l, err := loop.New(loop.Options{Backend: s.o.Backend, Batch: true, CPU: cpu, MaxConns: conns}, u.carrier)
	if err != nil {
		return fault.Wrap(fault.Config, err, "")
	}
	u.loop = l
	u.carrier.Attach(l)
	for i, at := range s.o.Listen {
		if index == 0 {
			if err := vacant(at); err != nil {
				return fault.Wrap(fault.Config, err, "")
			}
		} else {
			at = s.addrs[i]
		}
		k, actual, err := l.Listen(at, loop.ListenOptions{
			Backlog: s.o.Backlog, RcvBuf: s.o.ReceiveBuffer, SndBuf: s.o.SendBuffer,
			NoDelay: true, DeferAccept: s.o.DeferAccept,
		})
		if err != nil {
			return fault.Wrap(fault.Config, err, "")
		}
		if index == 0 {
			s.addrs = append(s.addrs, actual)
		}
		u.listeners = append(u.listeners, k)
		u.carrier.Listening(k, actual)
	}
	return nil
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
}

// vacant reports an address that another process listens on. The loops' own listeners share their
// address on purpose (SO_REUSEPORT), and would share it with a forgotten server just as well.
func vacant(at netip.AddrPort) error {
	if at.Port() == 0 {
		return nil
	}
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return err
	}
	return l.Close()
}

// Addrs returns the addresses listened on, in the order of Options.Listen.
func (s *Server) Addrs() []netip.AddrPort { return s.addrs }

// Backend returns what the loops run on, and why that is not io_uring where Options.Backend asked to try it.
func (s *Server) Backend() (name, fallback string) { return s.units[0].loop.Backend() }

// Run serves until ctx ends, then stops gracefully: it accepts no more, finishes what is open with
// Connection: close, and cuts what is left after Options.ShutdownTimeout. Everything is released when it
// returns. An error says that a loop, a page or the log failed; call Run once.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.running {
		s.mu.Unlock()
		return errors.New("server: Run called twice")
	}
	s.running = true
	s.mu.Unlock()

	// A loop keeps a scheduler slot of the runtime to itself, so that many are taken before anybody else
	// runs: the log's writers, workers, the collector. Without a slot for them they would have to take a
	// loop's by force, with two thread switches each time (measured: a tenth of a small answer's cost,
	// a quarter of a large one's, on one processor).
	if n := len(s.units) + 1; runtime.GOMAXPROCS(0) < n {
		runtime.GOMAXPROCS(n)
	}
	ended := make(chan error, len(s.units))
	for _, u := range s.units {
		go func() { ended <- u.loop.Run() }()
	}
	var failed error
	left := len(s.units)
	select {
	case <-ctx.Done():
	case err := <-ended:
		left--
		failed = fmt.Errorf("a loop has ended: %w", err)
	}
	deadline := clock.Now().Add(s.o.ShutdownTimeout)
	for _, u := range s.units {
		u.loop.Post(func() {
			for _, k := range u.listeners {
				u.loop.StopListen(k)
			}
			u.carrier.Stop(deadline, u.loop.Stop)
		})
	}
	for range left {
		if err := <-ended; err != nil && failed == nil {
			failed = err
		}
	}
	return errors.Join(failed, s.release())
}

// release closes everything. The loops have ended or were never run.
func (s *Server) release() error {
	var errs []error
	for _, g := range s.gateways {
		errs = append(errs, g.Close()) // ends the programs that workers wait for
	}
	if s.workers != nil {
		limit := time.After(s.o.ShutdownTimeout)
		for _, done := range []<-chan struct{}{s.workers.Close(), s.readers.Close()} {
			select {
			case <-done:
			case <-limit:
				errs = append(errs, errors.New("a page is still at work, it is left alone"))
			}
		}
	}
	for i := len(s.opened) - 1; i >= 0; i-- {
		if _, is := s.opened[i].(*cgi.Gateway); !is {
			errs = append(errs, s.opened[i].Close())
		}
	}
	for _, u := range s.units {
		if u.loop != nil { // of no effect on one that has run
			u.loop.Stop()
			_ = u.loop.Run()
		}
		if u.log != nil {
			errs = append(errs, u.log.Close())
		}
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	if s.spawner != nil {
		s.spawner.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = s.sum()
	if s.cache != nil {
		s.cache.Close()
	}
	close(s.closed)
	return errors.Join(errs...)
}
