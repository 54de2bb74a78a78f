package httpwire

// Request is a parsed request head. All slices are views into the parsed
// buffer, so the request is valid as long as those bytes are. The zero value is
// ready; reuse one value to keep the capacity of Fields.
type Request struct {
	Method         Method
	MethodName     []byte
	Target         []byte // as received
	Path           []byte // of the target, still percent-encoded; "*" for OPTIONS *, empty for CONNECT
	Query          []byte // after the first '?', without it
	HasQuery       bool
	Proto          uint8 // 10 or 11
	Fields         []Field
	HasHost        bool
	Host           []byte // of an absolute target, else of the Host field
	ContentLength  int64  // -1: absent
	Chunked        bool   // body in the chunked coding
	KeepAlive      bool   // the client expects the connection to stay open
	ExpectContinue bool   // HTTP/1.1, Expect: 100-continue, and a body follows

	Cookie, ContentType, IfModifiedSince, IfNoneMatch, IfMatch []byte
	IfUnmodifiedSince, Range, IfRange                          []byte
}

// ParseRequest parses one request head at the start of b.
func ParseRequest(b []byte, r *Request, lim *Limits) (n, status int) { return 0, 501 }

// CanAdvance reports whether parsing b again can end differently, when
// ParseRequest or ParseResponse wanted more than b[:old].
func CanAdvance(b []byte, old int, lim *Limits) bool { return true }
