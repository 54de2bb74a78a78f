// Package host carries pages in places other than the server's own loops: as a FastCGI responder, and
// as an http.Handler.
package host

import (
	"errors"
	"net"
	"net/http"
	"time"

	"tidemark.dev/page"
)

// Route binds a path to a page. The path must match exactly.
type Route struct {
	Path string
	Page page.Page
}

// Set is an opened set of routes.
type Set struct{ routes []Route }

// Open opens every page, in order; on an error the opened ones are closed again.
func Open(routes []Route, ctx *page.Context) (*Set, error) { return nil, errors.ErrUnsupported }

// Close closes every page, in reverse order.
func (s *Set) Close() error { return nil }

// Handler serves the set over net/http.
func (s *Set) Handler() http.Handler { return http.NotFoundHandler() }

// FastCGIOptions limit a FastCGI responder; zero means the default.
type FastCGIOptions struct {
	MaxBody  int64         // largest request body in bytes; 1 MiB
	MaxConns int           // connections open at once; 1024
	Idle     time.Duration // idle time before a kept connection is closed; 0 keeps it
}

// FastCGI is a FastCGI responder for a set.
type FastCGI struct{ s *Set }

// FastCGI makes a responder.
func (s *Set) FastCGI(o FastCGIOptions) *FastCGI { return &FastCGI{s} }

// Serve accepts connections from l until Close; then it returns nil. It takes over l.
func (f *FastCGI) Serve(l net.Listener) error { return errors.ErrUnsupported }

// Close stops accepting, closes every connection and waits for their goroutines.
func (f *FastCGI) Close() error { return nil }
