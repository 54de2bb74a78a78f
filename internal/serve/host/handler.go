package host

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tidemark.dev/page"
)

// Handler serves the set over net/http.
func (s *Set) Handler() http.Handler { return &handler{s: s} }

type handler struct {
	s     *Set
	spare sync.Pool // of *exchange
}

// exchange is what one request needs.
type exchange struct {
	rq   page.Request
	rs   page.Response
	text []byte // what rq points into
	body []byte
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, _ := h.spare.Get().(*exchange)
	if x == nil {
		x = &exchange{}
	}
	defer h.spare.Put(x)
	defer x.rs.Reset() // releases the file, whatever happens
	switch err := x.read(w, r); {
	case err == nil:
		h.s.serve(&x.rq, &x.rs)
	case errors.As(err, new(*http.MaxBytesError)):
		refuse(&x.rs, http.StatusRequestEntityTooLarge, "request body too large")
	default:
		refuse(&x.rs, http.StatusBadRequest, "request body incomplete")
	}
	x.write(w, r.Method == http.MethodHead)
}

// read makes x.rq from r.
func (x *exchange) read(w http.ResponseWriter, r *http.Request) error {
	x.rq = page.Request{Proto: r.Proto, Secure: r.TLS != nil, Done: r.Context().Done()}
	x.text, x.body = x.text[:0], x.body[:0]
	type view struct {
		to   *[]byte
		from string
	}
	fields := make([]string, 0, len(r.Header))
	for name := range r.Header {
		fields = append(fields, name)
	}
	slices.Sort(fields)
	var b strings.Builder
	if r.Host != "" {
		b.WriteString("Host: " + r.Host + "\r\n")
	}
	for _, name := range fields {
		for _, value := range r.Header[name] {
			b.WriteString(name + ": " + value + "\r\n")
		}
	}
	views := [...]view{
		{&x.rq.Method, r.Method}, {&x.rq.Path, r.URL.Path}, {&x.rq.Query, r.URL.RawQuery}, {&x.rq.Host, r.Host},
		{&x.rq.Cookie, strings.Join(r.Header["Cookie"], "; ")}, {&x.rq.ContentType, r.Header.Get("Content-Type")}, {&x.rq.Fields, b.String()},
	}
	for _, v := range views {
		x.text = append(x.text, v.from...)
	}
	at := 0
	for _, v := range views { // only now: text does not move any more
		*v.to = x.text[at : at+len(v.from)]
		at += len(v.from)
	}
	x.rq.Script = x.rq.Path
	if remote, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		x.rq.Remote, x.rq.RemotePort = remote.Addr(), remote.Port()
	}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok {
		x.rq.Local = local.AddrPort()
	}
	if r.Body == nil || r.ContentLength == 0 {
		return nil
	}
	body := http.MaxBytesReader(w, r.Body, MaxBody)
	for {
		if len(x.body) == cap(x.body) {
			x.body = append(x.body, 0)[:len(x.body)]
		}
		n, err := body.Read(x.body[len(x.body):cap(x.body)])
		x.body = x.body[:len(x.body)+n]
		if err == io.EOF {
			x.rq.Body = x.body
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// write writes x.rs. An error is the client's going away, or a file that shrank; net/http then sees a
// body that is too short and closes the connection.
func (x *exchange) write(w http.ResponseWriter, head bool) {
	v := x.rs.View()
	out := w.Header()
	for name, value := range eachField(v.Fields) {
		out.Add(name, value)
	}
	out["Content-Type"] = nil // no guessing
	if v.Type != "" {
		out.Set("Content-Type", v.Type)
	}
	if v.Status >= 200 && v.Status != http.StatusNoContent && v.Status != http.StatusNotModified {
		out.Set("Content-Length", strconv.FormatInt(v.Length, 10))
	}
	w.WriteHeader(v.Status)
	if head {
		return
	}
	if _, err := w.Write(v.Head); err != nil {
		return
	}
	if v.File.Size > 0 {
		n, err := io.Copy(w, io.NewSectionReader(v.File, 0, v.File.Size))
		if err != nil || n != v.File.Size {
			return
		}
	}
	_, _ = w.Write(v.Tail)
}

// eachField walks header lines.
func eachField(lines []byte) func(yield func(name, value string) bool) {
	return func(yield func(name, value string) bool) {
		(&page.Request{Fields: lines}).EachField(func(n, v []byte) bool { return yield(string(n), string(v)) })
	}
}
