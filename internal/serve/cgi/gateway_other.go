//go:build !linux

package cgi

import (
	"errors"
	"os"

	"tidemark.dev/page"
)

// Gateway is a page that answers every request with a process of its own. It needs Linux.
type Gateway struct{}

// New reports that it needs Linux.
func New(o Options) (*Gateway, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return nil, errors.New("cgi: running programs needs Linux")
}

// Open implements page.Page.
func (g *Gateway) Open(*page.Context) error { return errors.New("cgi: needs Linux") }

// Close implements page.Page.
func (g *Gateway) Close() error { return nil }

// Counts says how requests ended so far.
func (g *Gateway) Counts() Counts { return Counts{} }

// Serve implements page.Page.
func (g *Gateway) Serve(_ *page.Request, rs *page.Response) { refuse(rs, 501, "needs Linux") }

// Spawner is a process that starts the programs of Gateways. It needs Linux.
type Spawner struct{}

// NewSpawner returns one that does nothing.
func NewSpawner(SpawnerOptions) *Spawner { return &Spawner{} }

// Close does nothing.
func (*Spawner) Close() {}

// Spawn reports that it needs Linux.
func Spawn(*os.File) error { return errors.New("cgi: needs Linux") }
