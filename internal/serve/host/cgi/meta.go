package cgi

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"tidemark.dev/page"
)

// Meta collects the variables by which CGI and FastCGI describe a request, RFC 3875 section 4.1, into a
// page.Request. Add every variable, then call Request. Values are not copied. Reset makes it ready for
// the next request and keeps its buffers.
type Meta struct {
	rq             page.Request
	info           []byte
	length         []byte
	addr, port     []byte
	fields, joined []byte
}

// Reset forgets the request.
func (m *Meta) Reset() {
	*m = Meta{fields: m.fields[:0], joined: m.joined[:0]}
}

// Add takes one variable. Of two with the same name the last counts, except for header fields.
func (m *Meta) Add(name, value []byte) {
	rq := &m.rq
	switch string(name) {
	case "REQUEST_METHOD":
		rq.Method = value
	case "SCRIPT_NAME":
		rq.Script = value
	case "PATH_INFO":
		m.info = value
	case "QUERY_STRING":
		rq.Query = value
	case "SERVER_PROTOCOL":
		rq.Proto = protocol(value)
	case "REMOTE_ADDR":
		rq.Remote, _ = netip.ParseAddr(string(value)) // may be a name; then there is no address
	case "REMOTE_PORT":
		port, _ := strconv.ParseUint(string(value), 10, 16)
		rq.RemotePort = uint16(port)
	case "SERVER_ADDR":
		m.addr = value
	case "SERVER_PORT":
		m.port = value
	case "HTTPS":
		rq.Secure = len(value) > 0 && string(value) != "off"
	case "CONTENT_TYPE":
		rq.ContentType = value
	case "CONTENT_LENGTH":
		m.length = value
	case "HTTP_HOST":
		rq.Host = value
		m.field(name, value)
	case "HTTP_COOKIE":
		rq.Cookie = value
		m.field(name, value)
	default:
		m.field(name, value)
	}
}

// Request returns the request, valid until Reset, and the length of its body, which the caller reads.
func (m *Meta) Request() (rq *page.Request, length int64, err error) {
	rq = &m.rq
	if len(rq.Method) == 0 {
		return nil, 0, errors.New("no CGI request: no REQUEST_METHOD")
	}
	if len(m.length) > 0 {
		n, err := strconv.ParseUint(string(m.length), 10, 63)
		if err != nil {
			return nil, 0, fmt.Errorf("CONTENT_LENGTH %q is not a number", m.length)
		}
		length = int64(n)
	}
	rq.Path, rq.Fields = rq.Script, m.fields
	if len(m.info) > 0 {
		m.joined = append(append(m.joined[:0], rq.Script...), m.info...)
		rq.Path = m.joined
	}
	if addr, err := netip.ParseAddr(string(m.addr)); err == nil {
		port, _ := strconv.ParseUint(string(m.port), 10, 16)
		rq.Local = netip.AddrPortFrom(addr, uint16(port))
	}
	return rq, length, nil
}

// field turns an HTTP_ variable back into a header field.
func (m *Meta) field(name, value []byte) {
	const prefix = "HTTP_"
	if len(name) <= len(prefix) || string(name[:len(prefix)]) != prefix || bytes.ContainsAny(value, "\r\n") {
		return
	}
	first := true
	for _, c := range name[len(prefix):] {
		switch {
		case c == '_':
			c = '-'
		case !first && c >= 'A' && c <= 'Z':
			c |= 0x20
		}
		m.fields = append(m.fields, c)
		first = c == '-'
	}
	m.fields = append(m.fields, ": "...)
	m.fields = append(m.fields, value...)
	m.fields = append(m.fields, "\r\n"...)
}

// protocol avoids an allocation for the versions there are.
func protocol(b []byte) string {
	switch string(b) {
	case "HTTP/1.1":
		return "HTTP/1.1"
	case "HTTP/1.0":
		return "HTTP/1.0"
	case "HTTP/2.0":
		return "HTTP/2.0"
	}
	return string(b)
}
