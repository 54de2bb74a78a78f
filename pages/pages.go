// Package pages holds the dynamic pages of the web99 workload: standard GET, custom-ad GET, POST, and
// the housekeeping commands Reset and Fetch. They are written against package page alone, as anybody's
// pages would be, and share a Site: the two tables and the post log in one directory.
//
// Make a Site, take its pages, and register them with a carrier:
//
//	site := pages.NewSite(pages.Options{})
//	routes := []host.Route{{Path: "/web99/get", Page: site.Get()}, ...}
//
// The CGI operation is the page Get carried by a CGI program (cmd/tidemark-cgi). The pages do not make
// the file set, and they take no shortcut for it: every answer opens its file and reads the request.
package pages

import "tidemark.dev/page"

// Options of a Site; the zero value is good.
type Options struct {
	// Seed is mixed into the tables that Reset generates.
	Seed uint64
}

// Site is what the pages share. One Site serves one Context.Dir.
type Site struct{ seed uint64 }

// NewSite makes a Site. The pages it returns may be opened and closed in any order.
func NewSite(o Options) *Site { return &Site{seed: o.Seed} }

// Get is the standard dynamic GET; also the page of the CGI program.
func (s *Site) Get() page.Page { return stub{} }

// CAD is the GET with custom ad rotation.
func (s *Site) CAD() page.Page { return stub{} }

// Post is the POST.
func (s *Site) Post() page.Page { return stub{} }

// Command answers Reset and Fetch.
func (s *Site) Command() page.Page { return stub{} }

type stub struct{}

func (stub) Open(*page.Context) error            { return nil }
func (stub) Serve(*page.Request, *page.Response) {}
func (stub) Close() error                        { return nil }
