// Package cgi is the inside of a CGI program: it carries one request to one page and ends. Open a page,
// call Run with the process's environment and standard streams, and exit.
//
// It is kept small so that a program starts and ends in about a millisecond: no net/http, nothing that
// works at start. It does not serve a second request, and it does not look at the environment itself.
package cgi

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"tidemark.dev/page"
)

// MaxBody is the largest request body Run reads, in bytes.
const MaxBody = 1 << 20

// oneWrite is the largest answer that is put together in memory and written at once, in bytes.
const oneWrite = 128 << 10

// Run serves the one request described by env (as os.Environ gives it) and stdin, and writes the CGI
// response to stdout. p must be open. An error means that no whole answer was written.
func Run(env []string, stdin io.Reader, stdout io.Writer, p page.Page) error {
	var m Meta
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok {
			m.Add([]byte(name), []byte(value))
		}
	}
	rq, length, err := m.Request()
	if err != nil {
		return err
	}
	if length > MaxBody {
		return fmt.Errorf("request body of %d bytes, at most %d", length, MaxBody)
	}
	rq.Body = make([]byte, length)
	if got, err := io.ReadFull(stdin, rq.Body); err != nil {
		return fmt.Errorf("request body: %d of %d bytes: %w", got, length, err)
	}
	var rs page.Response
	p.Serve(rq, &rs)
	err = write(stdout, &rs, string(rq.Method) == "HEAD")
	rs.Reset()
	return err
}

// write writes the answer as a CGI program does.
func write(w io.Writer, rs *page.Response, head bool) error {
	v := rs.View()
	h := AppendHeader(make([]byte, 0, page.Room), &v)
	if head {
		_, err := w.Write(h)
		return err
	}
	if v.Length <= oneWrite {
		var err error
		rs.Extend(func(b []byte) []byte {
			if b, err = v.File.AppendTo(b); err == nil {
				b = append(b, v.Tail...)
			}
			return b
		})
		if err == nil {
			_, err = w.Write(rs.Prepend(h))
		}
		return err
	}
	if _, err := w.Write(rs.Prepend(h)); err != nil {
		return err
	}
	n, err := io.Copy(w, io.NewSectionReader(v.File, 0, v.File.Size))
	if err == nil && n != v.File.Size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		_, err = w.Write(v.Tail)
	}
	return err
}

// AppendHeader appends the header block of a response as a CGI program writes it, with the empty line.
func AppendHeader(h []byte, v *page.View) []byte {
	if v.Status != 200 {
		h = strconv.AppendInt(append(h, "Status: "...), int64(v.Status), 10)
		h = append(h, "\r\n"...)
	}
	if v.Type != "" {
		h = append(append(append(h, "Content-Type: "...), v.Type...), "\r\n"...)
	} else if v.Status == 200 {
		h = append(h, "Status: 200\r\n"...) // one of the CGI fields has to be there
	}
	h = append(h, v.Fields...)
	h = strconv.AppendInt(append(h, "Content-Length: "...), v.Length, 10)
	return append(h, "\r\n\r\n"...)
}
