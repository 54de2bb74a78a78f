package config

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/serve/cgi"
	"tidemark.dev/internal/serve/host"
	"tidemark.dev/internal/serve/server"
	"tidemark.dev/page"
	"tidemark.dev/pages"
)

// Process is what a configuration needs to know of the process that runs it.
type Process struct {
	Software string // "Tidemark/0.1"
	Self     string // this executable: the CGI program where the file names none, and what starts CGI programs
}

// library holds the pages by the name configuration files use. The list is written out: adding a page to a build
// is one line here.
func library() map[string]func(*pages.Site) page.Page {
	return map[string]func(*pages.Site) page.Page{
		"web99/get":     (*pages.Site).Get,
		"web99/cad":     (*pages.Site).CAD,
		"web99/post":    (*pages.Site).Post,
		"web99/command": (*pages.Site).Command,
	}
}

func pageNamed(name string) func(*pages.Site) page.Page { return library()[name] }

// PageNames lists the pages a configuration file may use.
func PageNames() []string {
	var names []string
	for n := range library() {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// path makes a path of the file absolute.
func (f *File) path(p string) string {
	if p == "" || filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(f.dir, p)
}

// Server composes the options of the web server.
func (f *File) Server(p Process) (server.Options, error) {
	o := server.Default()
	listen := f.Listen
	if len(listen) == 0 {
		listen = []string{"127.0.0.1:8080"}
	}
	for _, l := range listen {
		a, err := ParseListen(l)
		if err != nil {
			return o, fault.Wrap(fault.Config, err, "listen")
		}
		o.Listen = append(o.Listen, a)
	}
	o.Root, o.Loops, o.Backend, o.Backlog, o.MaxConns = f.path(f.Root), f.CPUs, f.Backend, f.Backlog, f.Connections
	o.SendBuffer, o.ReceiveBuffer = int(f.SendBuffer), int(f.ReceiveBuffer)
	o.Index, o.Types, o.Hidden, o.Software = f.Index, f.Types, f.Hidden, f.software(p)
	o.CacheBytes, o.CacheFileMax, o.SendfileMin = int64(f.Cache.Bytes), int64(f.Cache.FileMax), int64(f.Cache.Sendfile)
	o.CacheFiles, o.CacheValid, o.CacheCooling = f.Cache.Files, time.Duration(f.Cache.Valid), time.Duration(f.Cache.Cooling)
	if f.KeepAlive.On != nil {
		o.KeepAlive = *f.KeepAlive.On
	}
	o.KeepAliveTimeout, o.KeepAliveMax = time.Duration(f.KeepAlive.Timeout), f.KeepAlive.Requests
	o.HeaderTimeout, o.BodyTimeout, o.WriteTimeout = time.Duration(f.Timeout.Header), time.Duration(f.Timeout.Body), time.Duration(f.Timeout.Write)
	switch f.Log.Access {
	case "off":
	case "":
		o.AccessLog = f.path("access.tml")
	default:
		o.AccessLog = f.path(f.Log.Access)
	}
	site := pages.NewSite(pages.Options{})
	for _, pg := range f.Page {
		r := server.Route{Path: pg.Path, Dir: f.pageDir(pg), Settings: pg.Settings}
		if pg.Use == "cgi" {
			options := f.gateway(p)
			r.CGI = &options
		} else {
			r.Page = pageNamed(pg.Use)(site)
		}
		o.Pages = append(o.Pages, r)
	}
	if p.Self != "" {
		o.Spawner.Command = []string{p.Self, "spawner"}
	}
	return o, nil
}

func (f *File) software(p Process) string {
	if f.Software != "" {
		return f.Software
	}
	return p.Software
}

func (f *File) pageDir(pg Page) string {
	if pg.Dir != "" {
		return f.path(pg.Dir)
	}
	return f.path(f.Root)
}

// gateway describes the CGI program. Without one this executable does it, told so by its first argument.
func (f *File) gateway(p Process) cgi.Options {
	o := cgi.Options{
		Program: f.path(f.CGI.Program), Timeout: time.Duration(f.CGI.Timeout),
		// A program of one request has no use for a second processor, and a Go program that is told so
		// starts in three quarters of the time (measured: threads and what they touch).
		Env: append(slices.Clone(f.CGI.Env), "TIDEMARK_ROOT="+f.path(f.Root), "GOMAXPROCS=1"),
	}
	if o.Program == "" {
		o.Program, o.Args = p.Self, []string{"cgi"}
	}
	return o
}

// Responder is a running FastCGI responder's parts.
type Responder struct {
	*host.FastCGI
	Listener net.Listener
	set      *host.Set
	files    page.RootFiles
}

// Close ends the responder and its pages.
func (r *Responder) Close() error {
	err := r.FastCGI.Close()
	if e := r.set.Close(); err == nil {
		err = e
	}
	if e := r.files.Close(); err == nil {
		err = e
	}
	return err
}

// Responder opens the pages behind a FastCGI listener.
func (f *File) Responder(p Process) (*Responder, error) {
	network, address, _ := strings.Cut(f.FastCGI, ":")
	site := pages.NewSite(pages.Options{})
	var routes []host.Route
	for _, pg := range f.Page {
		var one page.Page
		if pg.Use == "cgi" {
			g, err := cgi.New(f.gateway(p))
			if err != nil {
				return nil, fault.Wrap(fault.Config, err, f.name)
			}
			one = g
		} else {
			one = pageNamed(pg.Use)(site)
		}
		routes = append(routes, host.Route{Path: pg.Path, Page: one})
	}
	files, err := page.Root(f.path(f.Root))
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, f.name)
	}
	set, err := host.Open(routes, &page.Context{Files: files, Dir: f.path(f.Root), Software: f.software(p), Pid: os.Getpid()})
	if err != nil {
		_ = files.Close()
		return nil, fault.Wrap(fault.Config, err, f.name)
	}
	if network == "unix" {
		_ = os.Remove(address) // a socket left by a process that died; a live one keeps its own inode
	}
	l, err := net.Listen(network, address)
	if err != nil {
		_ = set.Close()
		_ = files.Close()
		return nil, fault.Wrap(fault.Config, err, "fastcgi")
	}
	return &Responder{FastCGI: set.FastCGI(host.FastCGIOptions{}), Listener: l, set: set, files: files}, nil
}
