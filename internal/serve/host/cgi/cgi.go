// Package cgi is the inside of a CGI program: it carries one request to one page and ends. Open a page,
// call Run with the process's environment and standard streams, and exit.
//
// It is kept small so that a program starts and ends in about a millisecond: no net/http, nothing that
// works at start. It does not serve a second request, and it does not look at the environment itself.
package cgi

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
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
	rq, err := request(env, stdin)
	if err != nil {
		return err
	}
	var rs page.Response
	p.Serve(rq, &rs)
	err = write(stdout, &rs, string(rq.Method) == "HEAD")
	rs.Reset()
	return err
}

// request reads RFC 3875's variables.
func request(env []string, stdin io.Reader) (*page.Request, error) {
	rq := &page.Request{}
	length, info := "", ""
	var local struct{ addr, port string }
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch name {
		case "REQUEST_METHOD":
			rq.Method = []byte(value)
		case "SCRIPT_NAME":
			rq.Script = []byte(value)
		case "PATH_INFO":
			info = value
		case "QUERY_STRING":
			rq.Query = []byte(value)
		case "SERVER_PROTOCOL":
			rq.Proto = value
		case "REMOTE_ADDR":
			rq.Remote, _ = netip.ParseAddr(value) // may be a name, then there is no address
		case "REMOTE_PORT":
			port, _ := strconv.ParseUint(value, 10, 16)
			rq.RemotePort = uint16(port)
		case "SERVER_ADDR":
			local.addr = value
		case "SERVER_PORT":
			local.port = value
		case "HTTPS":
			rq.Secure = value != "" && value != "off"
		case "CONTENT_TYPE":
			rq.ContentType = []byte(value)
		case "CONTENT_LENGTH":
			length = value
		default:
			field(rq, name, value)
		}
	}
	if len(rq.Method) == 0 {
		return nil, errors.New("not started as a CGI program: no REQUEST_METHOD")
	}
	rq.Path = append(append(rq.Path, rq.Script...), info...)
	rq.Local, _ = netip.ParseAddrPort(local.addr + ":" + local.port)
	if length == "" || length == "0" {
		return rq, nil
	}
	n, err := strconv.ParseUint(length, 10, 32)
	if err != nil || n > MaxBody {
		return nil, fmt.Errorf("CONTENT_LENGTH %q: not a number up to %d", length, MaxBody)
	}
	rq.Body = make([]byte, n)
	if got, err := io.ReadFull(stdin, rq.Body); err != nil {
		return nil, fmt.Errorf("request body: %d of %d bytes: %w", got, n, err)
	}
	return rq, nil
}

// field turns an HTTP_ variable back into a header field.
func field(rq *page.Request, name, value string) {
	name, ok := strings.CutPrefix(name, "HTTP_")
	if !ok || name == "" || strings.ContainsAny(value, "\r\n") {
		return
	}
	switch name {
	case "HOST":
		rq.Host = []byte(value)
	case "COOKIE":
		rq.Cookie = []byte(value)
	}
	at := len(rq.Fields)
	rq.Fields = append(append(rq.Fields, name...), ": "...)
	for i, first := at, true; i < at+len(name); i++ {
		switch c := rq.Fields[i]; {
		case c == '_':
			rq.Fields[i], first = '-', true
			continue
		case !first && c >= 'A' && c <= 'Z':
			rq.Fields[i] = c | 0x20
		}
		first = false
	}
	rq.Fields = append(append(rq.Fields, value...), "\r\n"...)
}

// write writes the answer as a CGI program does.
func write(w io.Writer, rs *page.Response, head bool) error {
	v := rs.View()
	h := make([]byte, 0, page.Room)
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
	h = append(h, "\r\n\r\n"...)
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
