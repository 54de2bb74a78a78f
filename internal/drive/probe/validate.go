package probe

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/web99"
	"tidemark.dev/internal/model/workload"
)

// Overhead is what a server puts around the bytes of a file, in bytes per kind of operation: header and, for dynamic
// pages, the wrapper. The size-adjusted rate needs it for the law's mean bits.
type Overhead [workload.Kinds]float64

// countedHead is the most header bytes that count as received (DESIGN, section 2).
const countedHead = 512

// Validation is the outcome of asking for one operation of each kind.
type Validation struct {
	Overhead Overhead
	// Server is what the target calls itself.
	Server string
	// Broke lists what was wrong, in words; a measurement makes no sense then.
	Broke []string
}

// Validate asks for one operation of each kind the workload has, and checks every byte of the answers. An error
// means that the target cannot be asked at all; wrong answers are in Validation.Broke.
func Validate(ctx context.Context, p *Client, w *workload.Workload, fileSeed uint64, load, dirs int) (*Validation, error) {
	v := &Validation{}
	first, cancel := context.WithTimeoutCause(ctx, contact, fmt.Errorf("no answer within %v: is it a web server?", contact))
	defer cancel()
	if err := (&checker{probe: p, v: v, seed: fileSeed, ctx: first}).static(fileset.File{}); err != nil {
		return nil, err
	}
	c := &checker{probe: p, v: v, seed: fileSeed, ctx: ctx}
	for class := range uint8(len(w.Files.Class)) {
		f := fileset.File{Dir: int32(int(class) % dirs), Class: class, Num: 0}
		if err := c.static(f); err != nil {
			return nil, err
		}
	}
	last := fileset.File{Dir: int32(dirs - 1), Class: 1, Num: 8}
	if err := c.static(last); err != nil {
		return nil, err
	}
	if !UsesPages(w) || len(v.Broke) > 0 {
		return v, nil
	}
	users, ads, err := p.Reset(ctx, ResetFor(w, load))
	if err != nil {
		return nil, fault.Hint(err, "the workload has dynamic operations: the target needs the web99 pages (tidemark kit shows how)")
	}
	tables, err := web99.ParseTables(users, ads)
	if err != nil {
		v.Broke = append(v.Broke, fmt.Sprintf("tables after a Reset: %v", err))
		return v, nil
	}
	for _, s := range []struct {
		share float64
		ask   func() error
	}{
		{w.Mix.Get, func() error { return c.dynamic(w.Routes.Get, workload.Get) }},
		{w.Mix.CGI, func() error { return c.dynamic(w.Routes.CGI, workload.CGI) }},
		{w.Mix.CAD, func() error { return c.cad(w.Routes.CAD, tables) }},
		{w.Mix.Post, func() error { return c.post(w.Routes.Post) }},
		{w.Mix.Post, func() error { return c.emptyPost(w.Routes.Post) }},
	} {
		if s.share == 0 {
			continue // a target need not have what the workload does not ask for
		}
		if err := s.ask(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// UsesPages tells whether a workload has dynamic operations.
func UsesPages(w *workload.Workload) bool { return w.Mix.Static < 1 }

// ResetFor is the Reset of a load. Expiries lie around the present, so that the rotation meets both kinds of ads.
func ResetFor(w *workload.Workload, load int) web99.Reset {
	exp := [2]int64{}
	for i := range min(len(w.Ads.Exp), 2) {
		exp[i] = int64(w.Ads.Exp[i])
	}
	return web99.Reset{
		MaxLoad: int64(w.UserCount(load)), PointTime: time.Now().Unix(), MaxThread: 1,
		ExpA: exp[0], ExpB: exp[1], URLRoot: []byte("/file_set/"),
	}
}

type checker struct {
	ctx   context.Context
	probe *Client
	v     *Validation
	seed  uint64
}

func (c *checker) wrong(format string, a ...any) error {
	c.v.Broke = append(c.v.Broke, fmt.Sprintf(format, a...))
	return nil
}

// file reports whether body is the content of f, and says what is wrong.
func (c *checker) file(what string, f fileset.File, body []byte) error {
	if int64(len(body)) != f.Size() {
		return c.wrong("%s: %d bytes of content instead of %d", what, len(body), f.Size())
	}
	var content fileset.Content
	content.Init(f, c.seed)
	if i := content.Check(body, 0); i >= 0 {
		return c.wrong("%s: byte %d is not the file's (was the file set made with another seed?)", what, i)
	}
	return nil
}

func (c *checker) static(f fileset.File) error {
	path := string(f.AppendPath(nil))
	a, err := c.probe.do(c.ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	if c.v.Server == "" {
		c.v.Server = a.header.Get("Server")
	}
	if a.status != http.StatusOK {
		return fault.Hint(fault.New(fault.Target, "GET %s: status %d", path, a.status),
			"the target must serve the file set at /file_set/ (tidemark fileset create makes it)")
	}
	c.v.Overhead[workload.Static] = float64(min(a.head, countedHead))
	return c.file("GET "+path, f, a.body)
}

// page asks for a dynamic page about f and checks the wrapper; content is what stands in it.
func (c *checker) page(kind workload.Kind, method, route, query, cookie string, body []byte) (content []byte, a *answer, err error) {
	target := route + "?" + query
	a, err = c.probe.do(c.ctx, method, target, cookie, body)
	if err != nil {
		return nil, nil, err
	}
	what := method + " " + target
	if a.status != http.StatusOK {
		return nil, nil, c.wrong("%s: status %d", what, a.status)
	}
	content, why := unwrap(a.body)
	if why != "" {
		return nil, nil, c.wrong("%s: %s", what, why)
	}
	var w web99.Wrapper
	web99.ParseHead(a.body, &w)
	if !web99.Holds(w.Script, []byte(route)) || !web99.Holds(w.Query, []byte(query)) {
		return nil, nil, c.wrong("%s: the page names script %q and query %q", what, w.Script, w.Query)
	}
	c.v.Overhead[kind] = float64(min(a.head, countedHead) + len(a.body) - len(content))
	return content, a, nil
}

func (c *checker) dynamic(route string, kind workload.Kind) error {
	f := fileset.File{Class: 1, Num: 4}
	path := string(f.AppendPath(nil))
	content, _, err := c.page(kind, http.MethodGet, route, path, "", nil)
	if err != nil || content == nil {
		return err
	}
	return c.file("GET "+route+"?"+path, f, content)
}

func (c *checker) cad(route string, tables *web99.Tables) error {
	f := fileset.File{Class: 2, Num: 2}
	path := string(f.AppendPath(nil))
	user, lastAd := int32(3), int32(17)
	cookie := web99.AppendCookie(nil, web99.Cookie{User: user + web99.UserOffset, LastAd: lastAd})
	content, a, err := c.page(workload.CAD, http.MethodGet, route, path, string(cookie), nil)
	if err != nil || content == nil {
		return err
	}
	what := "GET " + route + "?" + path
	got, ok := web99.ParseFound([]byte(a.header.Get("Set-Cookie")))
	if !ok {
		return c.wrong("%s: no found_cookie in the answer", what)
	}
	want := tables.Select(user, lastAd, time.Now().Unix())
	if got.Ad != want.Ad || got.Weight != want.Weight {
		return c.wrong("%s: ad %d of weight %d was chosen, the tables say ad %d of weight %d", what, got.Ad, got.Weight, want.Ad, want.Weight)
	}
	var law fileset.Content
	law.Init(f, c.seed)
	plain := make([]byte, f.Size())
	law.Fill(plain, 0)
	if expect := web99.Rewrite(nil, plain, web99.AppendAdFile(nil, want.Ad)); !bytes.Equal(content, expect) {
		return c.wrong("%s: the content is not the file with ad %d put in", what, want.Ad)
	}
	return nil
}

func (c *checker) post(route string) error {
	f := fileset.File{Class: 1, Num: 1}
	user := int32(5 + web99.UserOffset)
	cookie := web99.AppendCookie(nil, web99.Cookie{User: user, LastAd: 1})
	body := web99.AppendPost(nil, &web99.Post{URLRoot: []byte("/file_set/"), Dir: f.Dir, Class: f.Class, Num: f.Num, Client: 424242})
	content, a, err := c.page(workload.Post, http.MethodPost, route, "", string(cookie), body)
	if err != nil || content == nil {
		return err
	}
	if u, ok := web99.ParseUserCookie([]byte(a.header.Get("Set-Cookie"))); !ok || u != user {
		return c.wrong("POST %s: the cookie in the answer is %q", route, a.header.Get("Set-Cookie"))
	}
	if err := c.file("POST "+route, f, content); err != nil || len(c.v.Broke) > 0 {
		return err
	}
	log, err := c.probe.Fetch(c.ctx, 1)
	if err != nil {
		return err
	}
	found, err := parsePostLog(log)
	if err != nil {
		return c.wrong("%v", err)
	}
	if n := found[postKey{f.Dir, f.Class, f.Num, int64(user), 424242}]; n != 1 {
		return c.wrong("POST %s: the post log holds its record %d times", route, n)
	}
	return nil
}

// emptyPost sends what must be refused: a POST without a body gets the error page and the cookie without an ad.
func (c *checker) emptyPost(route string) error {
	a, err := c.probe.do(c.ctx, http.MethodPost, route+"?", "", nil)
	if err != nil {
		return err
	}
	if f, ok := web99.ParseFound([]byte(a.header.Get("Set-Cookie"))); !ok || f.Ad != -1 {
		return c.wrong("POST %s without a body: not answered by the error page", route)
	}
	return nil
}

// MeanBits is the law's mean of HTTP-layer bits per operation with this target's headers and wrappers.
func (o Overhead) MeanBits(s *workload.Sampler) float64 {
	extra := 0.0
	for k, share := range s.KindShare() {
		bytes := o[k]
		if bytes == 0 {
			bytes = o[workload.Static]
		}
		extra += share * bytes * 8
	}
	return s.MeanBits(0) + extra
}
