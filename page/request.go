package page

import (
	"bytes"
	"net/netip"
)

// Request is a read-only view of one request. All slices are valid until Serve returns and must not be
// changed. The zero value is an empty request; carriers reuse values.
type Request struct {
	// Method is the method as sent, such as GET.
	Method []byte
	// Path is the decoded path of the target, Query what follows the first question mark, undecoded.
	Path, Query []byte
	// Script is the path of the route that chose the page.
	Script []byte
	// Body is the whole request body; its size is limited by the carrier.
	Body []byte
	// Proto is "HTTP/1.0", "HTTP/1.1" or "HTTP/2.0".
	Proto string
	// Remote is the client's address. RemotePort is 0 where the carrier cannot know it.
	Remote     netip.Addr
	RemotePort uint16
	// Local is the address the request arrived at; the zero value where it is unknown.
	Local netip.AddrPort
	// Secure says that the client's connection is encrypted.
	Secure bool
	// Host, Cookie and ContentType are the values of those fields; empty if absent.
	Host, Cookie, ContentType []byte
	// Fields holds all header fields as received: lines "Name: value" that end with CRLF, without the
	// request line. EachField walks them.
	Fields []byte
	// Done is closed when nobody waits for the answer any more, so that a detached page can stop early;
	// nil where the carrier cannot tell.
	Done <-chan struct{}
}

// EachField calls yield for every header field, in order, until it returns false.
func (rq *Request) EachField(yield func(name, value []byte) bool) {
	rest := rq.Fields
	for len(rest) > 0 {
		var line []byte
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			line, rest = rest, nil
		}
		name, value, ok := bytes.Cut(line, []byte{':'})
		if !ok || len(name) == 0 {
			continue
		}
		if !yield(name, bytes.TrimSpace(value)) {
			return
		}
	}
}

// Field returns the value of the first header field called name, letter case ignored; nil if absent.
func (rq *Request) Field(name string) (value []byte) {
	rq.EachField(func(n, v []byte) bool {
		if len(n) == len(name) && equalFold(n, name) {
			value = v
			return false
		}
		return true
	})
	return value
}

// equalFold compares two texts of the same length, ASCII letter case ignored.
func equalFold[T string | []byte](b T, s string) bool {
	for i := range len(b) {
		x, y := b[i], s[i]
		if x == y {
			continue
		}
		if x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z' {
			return false
		}
	}
	return true
}
