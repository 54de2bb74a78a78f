// Package httpwire reads and writes HTTP/1 messages on byte slices: no
// connection, no buffer of its own, no allocation.
//
// Call [ParseRequest] (serving side) or [ParseResponse] (driving side) first;
// both may be called again with more bytes until the head is whole. [Chunks]
// then undoes the chunked coding of a body.
//
// The package does no I/O, joins no repeated fields, keeps no trailers and
// knows no routes: what a message means is the caller's business.
package httpwire

import "bytes"

// Default limits of a message head, used where a field of [Limits] is zero.
// 8 KiB is the next power of two above the 8,000 bytes that RFC 9112 section 3
// asks every server to support; the other two are nginx's and Apache's order.
const (
	DefaultLine   = 8 << 10
	DefaultFields = 100
	DefaultBytes  = 32 << 10
)

// Limits bounds a message head. A zero field means its default; a nil *Limits
// means all defaults.
type Limits struct {
	Line   int // bytes of the request or status line, without its line end
	Fields int // field lines
	Bytes  int // bytes of the whole head, the empty line included
}

func (l *Limits) orDefaults() Limits {
	if l == nil {
		return Limits{DefaultLine, DefaultFields, DefaultBytes}
	}
	return Limits{
		orDefault(l.Line, DefaultLine),
		orDefault(l.Fields, DefaultFields),
		orDefault(l.Bytes, DefaultBytes),
	}
}

func orDefault(v, byDefault int) int {
	if v > 0 {
		return v
	}
	return byDefault
}

// CanAdvance reports whether parsing b may succeed, after [ParseRequest] or
// [ParseResponse] wanted more than b[:old]. A head grows by whole lines, so
// without a line feed among the new bytes the answer stays the same, unless a
// limit is reached. The limits must be those of the parse. (A refusal may be
// noticed later than by parsing every time, a whole head never.)
//
// Any goroutine. No allocation. Never blocks.
func CanAdvance(b []byte, old int, lim *Limits) bool {
	l := lim.orDefaults()
	return bytes.IndexByte(b[old:], '\n') >= 0 || len(b) >= l.Bytes ||
		len(b) > l.Line && old <= l.Line+3 // later than that the first line is known to be whole
}

// Field is one field line: views into the parsed buffer, the value without
// surrounding blanks.
type Field struct{ Name, Value []byte }

// Method is a request method. Method names are case-sensitive.
type Method uint8

// The methods of RFC 9110 and RFC 5789; Other is every other token.
const (
	Other Method = iota
	GET
	HEAD
	POST
	PUT
	DELETE
	OPTIONS
	TRACE
	CONNECT
	PATCH
)

// String returns the name sent on the wire, "other" for Other.
func (m Method) String() string {
	switch m {
	case GET:
		return "GET"
	case HEAD:
		return "HEAD"
	case POST:
		return "POST"
	case PUT:
		return "PUT"
	case DELETE:
		return "DELETE"
	case OPTIONS:
		return "OPTIONS"
	case TRACE:
		return "TRACE"
	case CONNECT:
		return "CONNECT"
	case PATCH:
		return "PATCH"
	}
	return "other"
}
