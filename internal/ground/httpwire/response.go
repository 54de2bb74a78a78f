package httpwire

// Response is a parsed response head. All slices are views into the parsed
// buffer. The zero value is ready; reuse one value to keep the capacity of
// Fields.
type Response struct {
	Proto         uint8 // 10 or 11
	Status        int   // 100 to 999
	Reason        []byte
	Fields        []Field
	ContentLength int64 // -1: absent
	Chunked       bool
	KeepAlive     bool // the server keeps the connection open, if the body does not end with it
	Close         bool // the server said Connection: close

	ContentType, SetCookie, Date, Location, Server []byte // first of each
}

// ParseError says why bytes are not an HTTP/1 message.
type ParseError struct{ Reason string }

// Error implements error.
func (e *ParseError) Error() string { return e.Reason }

// ParseResponse parses one response head at the start of b.
func ParseResponse(b []byte, r *Response, lim *Limits) (n int, err error) {
	return 0, &ParseError{"not written yet"}
}

// BodyLength returns the length of the body that follows.
func (r *Response) BodyLength(head bool) (length int64, toEOF bool) { return -1, true }

// AppendStatusLine appends "HTTP/1.1 200 OK" and CRLF.
func AppendStatusLine(b []byte, proto uint8, status int) []byte { return b }

// StatusText returns the reason phrase of RFC 9110, "" for an unknown status.
func StatusText(status int) string { return "" }

// AppendField appends "name: value" and CRLF.
func AppendField[V string | []byte](b []byte, name string, value V) []byte { return b }

// AppendInt appends v in decimal.
func AppendInt(b []byte, v int64) []byte { return b }

// Find returns the value of the first field of that name (lower case).
func Find(fields []Field, name string) (value []byte, ok bool) { return nil, false }
