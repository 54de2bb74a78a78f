package httpwire

// Response is a parsed response head. Its slices are views into the parsed
// buffer. The zero value is ready; reuse one value to keep the capacity of
// Fields.
type Response struct {
	Proto  uint8  // 10 or 11
	Status int    // 100 to 999
	Reason []byte // often empty

	Fields []Field // all of them, in order

	ContentLength int64 // -1: absent
	Chunked       bool  // the body is in the chunked coding
	KeepAlive     bool  // the connection stays open, unless the body ends with it: see BodyLength
	Close         bool  // the server said Connection: close

	// The first field of each name, nil when absent.
	ContentType, SetCookie, Date, Location, Server []byte
}

// ParseError says why bytes are not an HTTP/1 message.
type ParseError struct{ Reason string }

// Error returns the reason.
func (e *ParseError) Error() string { return e.Reason }

func refuse(reason string) error { return &ParseError{reason} }

// ParseResponse parses one response head at the start of b, interim (1xx)
// responses like others.
//
//	n > 0, nil   a whole head of n bytes; the body starts at b[n]
//	0, nil       b is the beginning of a head: call again with more
//	0, err       not an HTTP/1 response; err is a *ParseError
//
// It takes LF alone as a line end and a status without a reason, as real servers
// send them; it refuses folded lines and every head whose body cannot be
// delimited with certainty.
//
// Any goroutine. No allocation once r.Fields has grown, but for an error. Never
// blocks. r aliases b.
func ParseResponse(b []byte, r *Response, lim *Limits) (n int, err error) {
	l := lim.orDefaults()
	n, err = r.parse(b[:min(len(b), l.Bytes)], l)
	if n == 0 && err == nil && len(b) >= l.Bytes {
		return 0, refuse("head too large")
	}
	return n, err
}

func (r *Response) parse(b []byte, l Limits) (n int, err error) {
	*r = Response{Fields: r.Fields[:0]}
	i, err := r.parseLine(b, l.Line)
	if i == 0 {
		return 0, err
	}
	r.Fields, n = scanFields(r.Fields, b, i, l.Fields, true)
	if n <= 0 {
		return 0, fault(n).err()
	}
	if bad := r.settle(); bad != more {
		return 0, bad.err()
	}
	return n, nil
}

// settle decides what the fields mean, one by one and together.
func (r *Response) settle() fault {
	f := framing{length: -1}
	for i := range r.Fields {
		if bad := r.note(r.Fields[i].Name, r.Fields[i].Value, &f); bad != more {
			return bad
		}
	}
	r.ContentLength = f.length
	r.Chunked = f.coded
	r.KeepAlive = f.keepAlive(r.Proto)
	r.Close = f.close
	return f.finish(r.Proto)
}

// parseLine reads the status line and returns the index after it.
func (r *Response) parseLine(b []byte, limit int) (next int, err error) {
	const form = "HTTP/1.x NNN"
	for i, c := range b[:min(len(b), len(form))] {
		ok := c == form[i]
		switch form[i] {
		case 'x':
			ok = c == '0' || c == '1'
		case 'N':
			ok = digit(c)
		}
		if !ok {
			return 0, refuseLine(i)
		}
	}
	if len(b) <= len(form) {
		return 0, nil
	}
	r.Proto = 10 + b[7] - '0'
	r.Status = int(b[9]-'0')*100 + int(b[10]-'0')*10 + int(b[11]-'0')
	if r.Status < 100 {
		return 0, refuse("status below 100")
	}
	i := len(form)
	if b[i] == ' ' {
		i++
	} else if b[i] != '\r' && b[i] != '\n' {
		return 0, refuse("status line: no blank after the status")
	}
	end := valueEnd(b, i)
	if end > limit {
		return 0, refuse("status line too long")
	}
	r.Reason = b[i:end]
	next = lineEnd(b, end, true)
	if next <= 0 {
		return 0, fault(next).err()
	}
	return next, nil
}

// refuseLine words a status line that goes wrong at byte i.
func refuseLine(i int) error {
	switch {
	case i < 5:
		return refuse("not HTTP/1")
	case i < 8:
		return refuse("unknown HTTP version")
	}
	return refuse("status line: no status of three digits")
}

func (r *Response) note(name, value []byte, f *framing) fault {
	switch len(name) {
	case 4:
		if folded(name, "date") {
			first(&r.Date, value)
		}
	case 6:
		if folded(name, "server") {
			first(&r.Server, value)
		}
	case 8:
		if folded(name, "location") {
			first(&r.Location, value)
		}
	case 10:
		if folded(name, "connection") {
			f.connection(value)
		} else if folded(name, "set-cookie") {
			first(&r.SetCookie, value)
		}
	case 12:
		if folded(name, "content-type") {
			first(&r.ContentType, value)
		}
	case 14:
		if folded(name, "content-length") {
			return f.contentLength(value)
		}
	case 17:
		if folded(name, "transfer-encoding") {
			return f.transferEncoding(value)
		}
	}
	return more
}

// err words a fault of a response; nil for more.
func (f fault) err() error {
	switch f {
	case more:
		return nil
	case badName:
		return refuse("field name is not a token followed by a colon")
	case badValue:
		return refuse("control byte in a line")
	case badEnding:
		return refuse("CR without LF")
	case tooMany:
		return refuse("too many fields")
	case badLength:
		return refuse("Content-Length is not one number")
	case badCoding:
		return refuse("Transfer-Encoding is not a list that ends in chunked")
	case newCoding:
		return refuse("Transfer-Encoding is not chunked")
	case twoLengths:
		return refuse("both Content-Length and Transfer-Encoding")
	case oldCoding:
		return refuse("Transfer-Encoding in HTTP/1.0")
	}
	return refuse("malformed head")
}

// BodyLength returns the length of the body that follows, given whether the
// request was a HEAD: 0 also for the statuses that have none; -1 for a chunked
// body, or with toEOF for one that ends with the connection. RFC 9112 section 6.3.
func (r *Response) BodyLength(head bool) (length int64, toEOF bool) {
	switch {
	case head || r.Status < 200 || r.Status == 204 || r.Status == 304:
		return 0, false
	case r.Chunked:
		return -1, false
	}
	return r.ContentLength, r.ContentLength < 0
}
