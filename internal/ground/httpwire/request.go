package httpwire

import "bytes"

// Request is a parsed request head. Its slices are views into the parsed buffer
// and valid as long as those bytes are. The zero value is ready; reuse one value
// to keep the capacity of Fields.
type Request struct {
	Method     Method
	Proto      uint8  // 10 or 11
	MethodName []byte // as received
	Target     []byte // as received

	// Path is the path of the target, percent-encoded and not cleaned: "/" for
	// an absolute target without one, "*" for OPTIONS *, empty for CONNECT.
	Path     []byte
	Query    []byte // after the first '?'
	HasQuery bool   // the target has a '?'

	Host    []byte // of an absolute or CONNECT target, else of the Host field
	HasHost bool   // a Host field was sent, perhaps empty

	Fields []Field // all of them, in order

	ContentLength  int64 // -1: absent
	Chunked        bool  // the body is in the chunked coding
	KeepAlive      bool  // the client leaves the connection open for more requests
	ExpectContinue bool  // HTTP/1.1, Expect: 100-continue, and a body follows

	// The first field of each name, nil when absent.
	Cookie, ContentType, IfMatch, IfNoneMatch []byte

	// The same, but empty when sent twice: such fields are to be ignored, and
	// an empty one is neither a date nor a range (RFC 9110 sections 13 and 14).
	IfModifiedSince, IfUnmodifiedSince, Range, IfRange []byte
}

// maxMethod bounds a method name; longer ones answer 501 as RFC 9112 section 3
// recommends. The longest registered one (UPDATEREDIRECTREF) has 17 bytes.
const maxMethod = 31

// ParseRequest parses one request head at the start of b.
//
//	n > 0, status 0    a whole head of n bytes; the body starts at b[n]
//	0, 0               b is the beginning of a head: call again with more
//	0, status >= 400   refused: 400, 414, 431, 501 or 505; close after answering
//
// On a refusal or a wish for more, r holds nothing to rely on. What is refused
// at all is refused for every longer b too, with the same status.
//
// Every call starts afresh, so a head that arrives byte by byte costs quadratic
// time up to lim.Bytes (about 10 us for the longest head by default). [CanAdvance] says
// cheaply when a call is useless and bounds the calls by the number of lines.
//
// It is stricter than RFC 9112 demands: line ends are CRLF, one blank separates
// the parts of the request line, versions other than 1.0 and 1.1 are refused,
// and so is every request whose body two implementations could delimit
// differently. One empty line before the request is skipped.
//
// Any goroutine. No allocation once r.Fields has grown. Never blocks. r aliases b.
func ParseRequest(b []byte, r *Request, lim *Limits) (n, status int) {
	l := lim.orDefaults()
	n, status = r.parse(b[:min(len(b), l.Bytes)], l)
	if n == 0 && status == 0 && len(b) >= l.Bytes {
		return 0, 431
	}
	return n, status
}

func (r *Request) parse(b []byte, l Limits) (n, status int) {
	*r = Request{Fields: r.Fields[:0]}
	i := 0
	if len(b) > 0 && b[0] == '\r' {
		i = lineEnd(b, 0, false)
		if i <= 0 {
			return 0, fault(i).status()
		}
	}
	i, status = r.parseLine(b, i, l.Line)
	if i == 0 || status != 0 {
		return 0, status
	}
	r.Fields, n = scanFields(r.Fields, b, i, l.Fields, false)
	if n <= 0 {
		return 0, fault(n).status()
	}
	if bad := r.settle(); bad != more {
		return 0, bad.status()
	}
	return n, 0
}

// parseLine reads the request line at b[i] and returns the index after it.
func (r *Request) parseLine(b []byte, i, limit int) (next, status int) {
	start := i
	for i < len(b) && class[b[i]]&inToken != 0 {
		i++
	}
	switch {
	case i-start > maxMethod:
		return 0, 501
	case i == len(b):
		return 0, 0
	case i == start || b[i] != ' ':
		return 0, 400
	}
	r.MethodName = b[start:i]
	r.Method = methodOf(r.MethodName)
	i++

	lf := bytes.IndexByte(b[i:], '\n')
	if lf < 0 {
		if len(b)-start-1 > limit { // the last byte may be a CR
			return 0, 414
		}
		return 0, 0
	}
	next = i + lf + 1
	end := next - 2
	if b[end] != '\r' {
		end++
	}
	if end-start > limit {
		return 0, 414
	}
	if end != next-2 {
		return 0, 400
	}
	return next, r.parseRest(b[i:end])
}

// parseRest reads the request line from the target on.
func (r *Request) parseRest(rest []byte) (status int) {
	const size = len(" HTTP/1.1")
	end := len(rest) - size
	if end < 0 {
		return r.refuseVersion(rest)
	}
	switch string(rest[end:]) {
	case " HTTP/1.1":
		r.Proto = 11
	case " HTTP/1.0":
		r.Proto = 10
	default:
		return r.refuseVersion(rest)
	}
	if !r.parseTarget(rest[:end]) {
		return 400
	}
	return 0
}

// refuseVersion picks the status for a request line that does not end in a
// version we speak: 505 for another version or, after GET, for none (that is
// HTTP/0.9); else 400.
func (r *Request) refuseVersion(rest []byte) (status int) {
	sp := bytes.LastIndexByte(rest, ' ')
	v := rest[sp+1:]
	switch {
	case sp < 0 && r.Method == GET && len(rest) > 0 && rest[0] == '/' && printable(rest):
		return 505
	case sp > 0 && len(v) == 8 && string(v[:5]) == "HTTP/" && digit(v[5]) && v[6] == '.' && digit(v[7]):
		return 505
	}
	return 400
}

// parseTarget splits the request target as RFC 9112 section 3.2 has it.
func (r *Request) parseTarget(t []byte) bool {
	if len(t) == 0 || !printable(t) || bytes.IndexByte(t, '#') >= 0 {
		return false
	}
	r.Target = t
	switch {
	case r.Method == CONNECT:
		host, port, ok := splitHost(t)
		r.Host = t
		return ok && len(host) > 0 && len(port) > 0
	case t[0] == '/':
		r.splitQuery(t)
		return true
	case t[0] == '*':
		r.Path = t
		return len(t) == 1 && r.Method == OPTIONS
	}
	colon := bytes.IndexByte(t, ':')
	if colon < 0 || !folded(t[:colon], "http") && !folded(t[:colon], "https") {
		return false
	}
	rest := t[colon:]
	if len(rest) < 3 || string(rest[:3]) != "://" {
		return false
	}
	rest = rest[3:]
	end := 0
	for end < len(rest) && rest[end] != '/' && rest[end] != '?' {
		end++
	}
	r.Host = rest[:end]
	r.splitQuery(rest[end:])
	if len(r.Path) == 0 {
		r.Path = t[colon+1 : colon+2] // a slash, inside the buffer
	}
	host, _, ok := splitHost(r.Host)
	return ok && len(host) > 0
}

func (r *Request) splitQuery(t []byte) {
	r.Path = t
	if q := bytes.IndexByte(t, '?'); q >= 0 {
		r.Path, r.Query, r.HasQuery = t[:q], t[q+1:], true
	}
}

// settle decides what the fields mean, one by one and together.
func (r *Request) settle() fault {
	f := framing{length: -1}
	for i := range r.Fields {
		if bad := r.note(r.Fields[i].Name, r.Fields[i].Value, &f); bad != more {
			return bad
		}
	}
	if r.Proto >= 11 && !r.HasHost {
		return noHost
	}
	r.ContentLength = f.length
	r.Chunked = f.coded
	r.KeepAlive = f.keepAlive(r.Proto)
	r.ExpectContinue = r.ExpectContinue && r.Proto >= 11 && (f.coded || f.length > 0)
	return f.finish(r.Proto)
}

// note keeps what the server acts on. The switch on the length leaves at most
// three names to compare.
func (r *Request) note(name, value []byte, f *framing) fault {
	switch len(name) {
	case 4:
		if folded(name, "host") {
			return r.noteHost(value)
		}
	case 5:
		if folded(name, "range") {
			single(&r.Range, value)
		}
	case 6:
		if folded(name, "cookie") {
			first(&r.Cookie, value)
		} else if folded(name, "expect") {
			r.ExpectContinue = r.ExpectContinue || folded(value, "100-continue")
		}
	case 8:
		if folded(name, "if-match") {
			first(&r.IfMatch, value)
		} else if folded(name, "if-range") {
			single(&r.IfRange, value)
		}
	case 10:
		if folded(name, "connection") {
			f.connection(value)
		}
	case 12:
		if folded(name, "content-type") {
			first(&r.ContentType, value)
		}
	case 13:
		if folded(name, "if-none-match") {
			first(&r.IfNoneMatch, value)
		}
	case 14:
		if folded(name, "content-length") {
			return f.contentLength(value)
		}
	case 17:
		if folded(name, "transfer-encoding") {
			return f.transferEncoding(value)
		} else if folded(name, "if-modified-since") {
			single(&r.IfModifiedSince, value)
		}
	case 19:
		if folded(name, "if-unmodified-since") {
			single(&r.IfUnmodifiedSince, value)
		}
	}
	return more
}

func (r *Request) noteHost(v []byte) fault {
	if _, _, ok := splitHost(v); !ok || r.HasHost {
		return badHost
	}
	r.HasHost = true
	if r.Host == nil { // else the target named it: RFC 9112 section 3.2.2
		r.Host = v
	}
	return more
}

// status maps a fault of a request to the answer; 0 for more.
func (f fault) status() int {
	switch f {
	case more:
		return 0
	case tooMany:
		return 431
	case newCoding:
		return 501
	}
	return 400
}

func methodOf(name []byte) Method {
	switch string(name) {
	case "GET":
		return GET
	case "HEAD":
		return HEAD
	case "POST":
		return POST
	case "PUT":
		return PUT
	case "DELETE":
		return DELETE
	case "OPTIONS":
		return OPTIONS
	case "TRACE":
		return TRACE
	case "CONNECT":
		return CONNECT
	case "PATCH":
		return PATCH
	}
	return Other
}
