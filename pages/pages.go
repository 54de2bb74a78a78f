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

import (
	"errors"
	"fmt"
	"sync"

	"tidemark.dev/internal/model/web99"
	"tidemark.dev/page"
)

// Options of a Site; the zero value is good.
type Options struct {
	// Seed is mixed into the tables that Reset generates.
	Seed uint64
}

// Site is what the pages share. One Site serves one Context.Dir, in which the tables and the post log
// lie; Sites in several processes may serve the same directory.
type Site struct {
	seed uint64

	mu     sync.Mutex // guards the rest while pages open and close
	opened int
	dir    string
	tables *store
	log    *postLog
}

// NewSite makes a Site. The pages it returns may be opened and closed in any order.
func NewSite(o Options) *Site { return &Site{seed: o.Seed} }

// Get is the standard dynamic GET; also the page of the CGI program. It answers a request for one of the
// two tables from the Site's own, freshly checked copy, because a server's cache may be minutes old.
func (s *Site) Get() page.Page { return &get{common{site: s}} }

// CAD is the GET with custom ad rotation.
func (s *Site) CAD() page.Page { return &cad{common{site: s}} }

// Post is the POST.
func (s *Site) Post() page.Page { return &post{common{site: s}} }

// Command answers Reset and Fetch. Every request is detached.
func (s *Site) Command() page.Page { return &command{common{site: s}} }

func (s *Site) open(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened > 0 && s.dir != dir {
		return fmt.Errorf("pages of one site in two directories: %s and %s", s.dir, dir)
	}
	if s.opened == 0 {
		s.dir, s.tables, s.log = dir, newStore(dir), newPostLog(dir)
	}
	s.opened++
	return nil
}

func (s *Site) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened--; s.opened > 0 {
		return nil
	}
	return errors.Join(s.log.close(), s.tables.close())
}

// common is what every page has.
type common struct {
	site     *Site
	ctx      *page.Context
	software []byte
}

// Open implements page.Page.
func (c *common) Open(ctx *page.Context) error {
	if ctx.Files == nil {
		return errors.New("web99 page: no files")
	}
	c.ctx, c.software = ctx, []byte(ctx.Software)
	return c.site.open(ctx.Dir)
}

// Close implements page.Page.
func (c *common) Close() error { return c.site.close() }

// begin starts the answer: everything up to the file content. Any goroutine. No allocation.
func (c *common) begin(rq *page.Request, rs *page.Response) {
	var text [64]byte
	w := web99.Wrapper{Software: c.software, Script: rq.Script, Query: rq.Query}
	if rq.Remote.IsValid() {
		w.Remote = rq.Remote.AppendTo(text[:0])
	}
	rs.Extend(func(b []byte) []byte { return web99.AppendHead(b, &w) })
	rs.Tail(web99.Tail())
}

// fail makes the answer an error page: a message where the file would be, and the cookie of no ad.
func (c *common) fail(rq *page.Request, rs *page.Response, message string, operand []byte) {
	rs.Clear()
	cookie(rs, web99.NoAd())
	c.begin(rq, rs)
	rs.Append("error: ").Append(message)
	if operand != nil {
		rs.Append(": ")
		rs.Extend(func(b []byte) []byte { return web99.AppendEscaped(b, operand) })
	}
}

func cookie(rs *page.Response, f web99.Found) {
	var text [80]byte
	rs.Cookie(web99.AppendFound(text[:0], f))
}

// file opens a file of the file set, or answers with an error page. The path is absolute, as in a URL.
func (c *common) file(rq *page.Request, rs *page.Response, path []byte) (f page.File, ok bool) {
	if len(path) == 0 || path[0] != '/' {
		c.fail(rq, rs, "no file named", path)
		return f, false
	}
	f, err := c.ctx.Files.Open(path)
	if err != nil {
		c.fail(rq, rs, "no such file", path)
		return f, false
	}
	return f, true
}

func reading(method []byte) bool { return string(method) == "GET" || string(method) == "HEAD" }

// get is the standard dynamic GET.
type get struct{ common }

// Serve implements page.Page. Any goroutine. No allocation. Does not block, except once after a Reset
// for as long as reading the tables takes.
func (g *get) Serve(rq *page.Request, rs *page.Response) {
	if !reading(rq.Method) {
		g.fail(rq, rs, "only GET here, not", rq.Method)
		return
	}
	switch string(rq.Query) {
	case "/" + web99.PersonalityName, "/" + web99.AdsName:
		g.table(rq, rs)
		return
	}
	if f, ok := g.file(rq, rs, rq.Query); ok {
		g.begin(rq, rs)
		rs.SetFile(f)
	}
}

// table answers with one of the two tables.
func (g *get) table(rq *page.Request, rs *page.Response) {
	t, err := g.site.tables.fresh(g.ctx.Time().Unix())
	if err != nil {
		g.fail(rq, rs, "tables", []byte(err.Error()))
		return
	}
	content := t.users
	if string(rq.Query) == "/"+web99.AdsName {
		content = t.ads
	}
	g.begin(rq, rs)
	rs.SetFile(page.File{Bytes: content, Size: int64(len(content)), ModTime: t.modTime})
}

// cad is the GET with custom ad rotation.
type cad struct{ common }

// maxRewrite is the largest file that is rewritten, in bytes; files of classes 1 and 2 are far smaller.
const maxRewrite = 1 << 20

// Serve implements page.Page. Any goroutine. No allocation once the response's buffer has grown. Does
// not block, except once after a Reset for as long as reading the tables takes.
func (c *cad) Serve(rq *page.Request, rs *page.Response) {
	if !reading(rq.Method) {
		c.fail(rq, rs, "only GET here, not", rq.Method)
		return
	}
	who, ok := web99.ParseCookie(rq.Cookie)
	if !ok {
		c.fail(rq, rs, "no cookie my_cookie=user_id=U&last_ad=A in", rq.Cookie)
		return
	}
	second := c.ctx.Time().Unix()
	t, err := c.site.tables.fresh(second)
	if err != nil {
		c.fail(rq, rs, "tables", []byte(err.Error()))
		return
	}
	f, ok := c.file(rq, rs, rq.Query)
	if !ok {
		return
	}
	found := t.Select(who.User-web99.UserOffset, who.LastAd, second)
	cookie(rs, found)
	c.begin(rq, rs)
	class, ok := web99.ClassOf(rq.Query)
	if !ok || !web99.Rewritten(class) || found.Ad < 0 || f.Size > maxRewrite {
		rs.SetFile(f)
		return
	}
	rs.Extend(func(b []byte) []byte {
		at := len(b)
		if b, err = f.AppendTo(b); err == nil {
			var name [web99.TagName]byte
			web99.RewriteInPlace(b[at:], web99.AppendAdFile(name[:0], found.Ad))
		}
		return b
	})
	f.Release()
	if err != nil {
		c.fail(rq, rs, "cannot read", rq.Query)
	}
}

// post is the POST.
type post struct{ common }

// Serve implements page.Page. Any goroutine. No allocation. Blocks for the few system calls of an append
// to the post log.
func (p *post) Serve(rq *page.Request, rs *page.Response) {
	if string(rq.Method) != "POST" {
		p.fail(rq, rs, "only POST here, not", rq.Method)
		return
	}
	if len(rq.Body) == 0 {
		p.fail(rq, rs, "empty POST", nil)
		return
	}
	who, ok := web99.ParseCookie(rq.Cookie)
	if !ok {
		p.fail(rq, rs, "no cookie my_cookie=user_id=U&last_ad=A in", rq.Cookie)
		return
	}
	form, ok := web99.ParsePost(rq.Body)
	if !ok {
		p.fail(rq, rs, "malformed POST body", rq.Body[:min(len(rq.Body), 200)])
		return
	}
	path := form.AppendFile(rs.Scratch(len(rq.Body)))
	f, ok := p.file(rq, rs, path)
	if !ok {
		return
	}
	pid := int64(p.ctx.Pid)
	if err := p.site.log.append(&web99.Record{
		Time: p.ctx.Time().Unix(), Pid: pid, Thread: pid,
		Dir: form.Dir, Class: form.Class, Num: form.Num, Client: int64(form.Client), File: path, User: int64(who.User),
	}); err != nil {
		f.Release()
		p.fail(rq, rs, "post log", []byte(err.Error()))
		return
	}
	var text [32]byte
	rs.Cookie(web99.AppendUserCookie(text[:0], who.User))
	p.begin(rq, rs)
	rs.SetFile(f)
}

// command answers Reset and Fetch.
type command struct{ common }

// Detached implements page.Detacher: Reset writes files, and a fetched log may be tens of megabytes.
func (c *command) Detached(*page.Request) bool { return true }

// Serve implements page.Page. Any goroutine. Blocks.
func (c *command) Serve(rq *page.Request, rs *page.Response) {
	if !reading(rq.Method) {
		c.fail(rq, rs, "only GET here, not", rq.Method)
		return
	}
	what, r, ok := web99.ParseCommand(rq.Query)
	switch {
	case !ok || what == web99.NotCommand:
		c.fail(rq, rs, "unknown or malformed command", rq.Query)
	case what == web99.CommandReset:
		if err := c.site.reset(&r); err != nil {
			c.fail(rq, rs, "Reset", []byte(err.Error()))
			return
		}
		c.begin(rq, rs)
	default:
		f, n, err := c.site.log.fetch()
		if err != nil {
			c.fail(rq, rs, "Fetch", []byte(err.Error()))
			return
		}
		c.begin(rq, rs)
		rs.Extend(func(b []byte) []byte {
			b, _ = web99.AppendCount(b, n)
			return b
		})
		rs.SetFile(f)
	}
}
