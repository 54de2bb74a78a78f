package page

import "strconv"

// Room is the number of bytes a Response keeps free in front of its head for a carrier's own header.
const Room = 512

// keepHead is the largest head buffer a Response keeps for reuse, in bytes.
const keepHead = 256 << 10

// Response collects the answer to one request. Its body is head, file and tail, in that order; each may
// be empty. The zero value is ready: status 200, type "text/html", no body. A Response belongs to one
// goroutine at a time.
type Response struct {
	status int
	ctype  string
	typed  bool   // Type was called
	fields []byte // "Name: value\r\n"...
	head   []byte // Room free bytes, then the head
	file   File
	tail   []byte
	spare  []byte
}

// Scratch returns an empty slice with room for at least n bytes, for what a page puts together while it
// serves, such as a path. It is valid until the next Scratch or Reset.
func (rs *Response) Scratch(n int) []byte {
	if cap(rs.spare) < n {
		rs.spare = make([]byte, 0, max(n, 256))
	}
	return rs.spare[:0]
}

// Status sets the status code; 200 is the default.
func (rs *Response) Status(code int) { rs.status = code }

// Type sets the Content-Type; "text/html" is the default, "" sends none.
func (rs *Response) Type(t string) { rs.ctype, rs.typed = t, true }

// Cookie adds a Set-Cookie field with the given value.
func (rs *Response) Cookie(value []byte) {
	b, _ := beginField(rs.fields, "Set-Cookie")
	rs.fields = endField(append(b, value...), len(b))
}

// Field adds a header field. Dropped are names that are not tokens, and those that are the carrier's:
// Content-Type (see Type), Content-Length, Date, Server, and what concerns the connection. Control bytes
// in the value become blanks, so that data from a request cannot forge a header.
func (rs *Response) Field(name, value string) {
	if reserved(name) {
		return
	}
	if b, ok := beginField(rs.fields, name); ok {
		rs.fields = endField(append(b, value...), len(b))
	}
}

// Append appends to the body's head.
func (rs *Response) Append(s string) *Response {
	rs.head = append(rs.room(), s...)
	return rs
}

// Write appends to the body's head; it is io.Writer and never fails.
func (rs *Response) Write(b []byte) (int, error) {
	rs.head = append(rs.room(), b...)
	return len(b), nil
}

// AppendInt appends a decimal number to the body's head.
func (rs *Response) AppendInt(n int64) *Response {
	rs.head = strconv.AppendInt(rs.room(), n, 10)
	return rs
}

// Extend hands the head's buffer to f, a function in the style of append, and keeps what it returns. f
// must only append.
func (rs *Response) Extend(f func(b []byte) []byte) { rs.head = f(rs.room()) }

// SetFile makes f the middle part of the body and takes over its release. An earlier file is released.
func (rs *Response) SetFile(f File) {
	rs.file.Release()
	rs.file = f
}

// Tail sets the last part of the body. b is not copied: it must stay unchanged until the response is
// sent, so give a constant.
func (rs *Response) Tail(b []byte) { rs.tail = b }

// Clear drops everything set so far, for a page that finds an error half-way. The file is released.
func (rs *Response) Clear() { rs.Reset() }

// View is a finished response as carriers see it. The slices are valid until the next Reset.
type View struct {
	Status int
	Type   string
	Fields []byte // header lines with CRLF, without those the carrier writes itself
	Head   []byte
	File   File // released by Response.Reset, after sending
	Tail   []byte
	Length int64 // of the whole body, in bytes
}

// View returns the finished response. For carriers.
func (rs *Response) View() View {
	v := View{Status: rs.status, Type: rs.ctype, Fields: rs.fields, File: rs.file, Tail: rs.tail}
	if v.Status == 0 {
		v.Status = 200
	}
	if !rs.typed {
		v.Type = "text/html"
	}
	if len(rs.head) > Room {
		v.Head = rs.head[Room:]
	}
	v.Length = int64(len(v.Head)) + v.File.Size + int64(len(v.Tail))
	return v
}

// Prepend returns header followed by the body's head in one slice. A header of at most Room bytes is
// copied into the space in front of the head. Call it once. For carriers.
func (rs *Response) Prepend(header []byte) []byte {
	b := rs.room()
	if len(header) <= Room {
		at := Room - len(header)
		copy(b[at:], header)
		return b[at:]
	}
	return append(append(make([]byte, 0, len(header)+len(b)-Room), header...), b[Room:]...)
}

// Reset makes the response empty for the next request, releases its file and keeps its buffers.
func (rs *Response) Reset() {
	rs.file.Release()
	rs.file = File{}
	rs.status, rs.ctype, rs.typed, rs.tail = 0, "", false, nil
	rs.fields = rs.fields[:0]
	if cap(rs.head) > keepHead {
		rs.head = nil
	} else if rs.head != nil {
		rs.head = rs.head[:Room]
	}
}

func (rs *Response) room() []byte {
	if rs.head == nil {
		rs.head = make([]byte, Room, Room+2048)
	}
	return rs.head
}

// reserved reports whether a field is written by carriers only.
func reserved(name string) bool {
	for _, own := range [...]string{
		"content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "trailer", "te", "content-type", "date", "server",
	} {
		if len(name) == len(own) && equalFold(own, name) {
			return true
		}
	}
	return false
}

// beginField appends a field's name; on false the name is not a token and nothing was appended.
func beginField(b []byte, name string) ([]byte, bool) {
	if !token(name) {
		return b, false
	}
	return append(append(b, name...), ": "...), true
}

// endField makes the value from at on harmless and ends the line.
func endField(b []byte, at int) []byte {
	for i, c := range b[at:] {
		if c < ' ' && c != '\t' || c == 0x7f {
			b[at+i] = ' '
		}
	}
	return append(b, "\r\n"...)
}

func token(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '_', c == '.', c == '!', c == '#', c == '$', c == '%', c == '&', c == '\'', c == '*', c == '+', c == '^', c == '`', c == '|', c == '~':
		default:
			return false
		}
	}
	return s != ""
}
