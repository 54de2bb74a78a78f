// Package host carries pages in places other than the server's own loops: behind another web server as a
// FastCGI responder, and in a Go program as an http.Handler. (The fourth place, a CGI program, is the
// package cgi below this one, which stays free of net/http.)
//
// Open a Set of routes, then call FastCGI or Handler on it; close it at the end. A route may hold any
// page.Page, the gateway for CGI programs included, so a server in front can run CGI through here too.
//
// Pages run on goroutines here, so requests need not be detached. A page that panics is answered with a
// 500. The package does not match patterns and does not write an access log.
package host

import (
	"errors"
	"fmt"

	"tidemark.dev/page"
)

// MaxBody is the largest request body unless options say otherwise, in bytes.
const MaxBody = 1 << 20

// Route binds a path to a page. The path must match exactly. A page stands in one route only.
type Route struct {
	Path string
	Page page.Page
}

// Set is an opened set of routes.
type Set struct {
	routes []Route
	byPath map[string]page.Page
}

// Open opens every page, in order, with ctx; on an error the opened ones are closed again.
func Open(routes []Route, ctx *page.Context) (*Set, error) {
	s := &Set{byPath: make(map[string]page.Page, len(routes))}
	for _, r := range routes {
		err := s.add(r, ctx)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("route %q: %w", r.Path, err), s.Close())
		}
	}
	return s, nil
}

func (s *Set) add(r Route, ctx *page.Context) error {
	if r.Path == "" || r.Path[0] != '/' {
		return errors.New("not an absolute path")
	}
	if s.byPath[r.Path] != nil {
		return errors.New("there twice")
	}
	if err := r.Page.Open(ctx); err != nil {
		return err
	}
	s.routes = append(s.routes, r)
	s.byPath[r.Path] = r.Page
	return nil
}

// Close closes every page, in reverse order. No carrier may serve any more.
func (s *Set) Close() error {
	var errs []error
	for i := len(s.routes) - 1; i >= 0; i-- {
		if err := s.routes[i].Page.Close(); err != nil {
			errs = append(errs, fmt.Errorf("route %q: %w", s.routes[i].Path, err))
		}
	}
	s.routes = nil
	return errors.Join(errs...)
}

// serve answers rq with the page of its path.
func (s *Set) serve(rq *page.Request, rs *page.Response) {
	p := s.byPath[string(rq.Script)]
	if p == nil {
		refuse(rs, 404, "no such page")
		return
	}
	whole := false
	defer func() {
		if !whole {
			_ = recover() // nil for a page that called runtime.Goexit; there is no answer either
			refuse(rs, 500, "internal error")
		}
	}()
	p.Serve(rq, rs)
	whole = true
}

func refuse(rs *page.Response, status int, why string) {
	rs.Clear()
	rs.Status(status)
	rs.Type("text/plain; charset=utf-8")
	rs.Append(why).Append("\n")
}
