package httpwire

// fault says what is wrong with a head. more is not a fault but a wish.
type fault int8

const (
	more       fault = -iota
	badName          // empty, not a token, blank before the colon, or a folded line
	badValue         // a control byte other than TAB
	badEnding        // CR without LF, or LF without CR where that is refused
	tooMany          // more fields than the limit
	badLength        // Content-Length: not a number, or several
	badCoding        // Transfer-Encoding: not a list, or chunked not once and last
	newCoding        // Transfer-Encoding: a coding other than chunked
	twoLengths       // Content-Length beside Transfer-Encoding
	oldCoding        // Transfer-Encoding in HTTP/1.0
	badHost          // Host: not host[:port], or several
	noHost           // Host missing in HTTP/1.1
)

// scanFields appends the field lines from b[i] up to the empty line to fields.
// next is the index after the empty line, or a fault. bareLF also takes LF alone
// as a line end.
func scanFields(fields []Field, b []byte, i, limit int, bareLF bool) (_ []Field, next int) {
	for i < len(b) && b[i] != '\r' && (b[i] != '\n' || !bareLF) {
		start := i
		for i < len(b) && class[b[i]]&inToken != 0 {
			i++
		}
		if i == len(b) {
			return fields, int(more)
		}
		if i == start || b[i] != ':' {
			return fields, int(badName)
		}
		name := b[start:i]
		i++
		for i < len(b) && blank(b[i]) {
			i++
		}
		start = i
		end := valueEnd(b, i)
		i = lineEnd(b, end, bareLF)
		if i <= 0 {
			return fields, i
		}
		for end > start && blank(b[end-1]) {
			end--
		}
		if len(fields) == limit {
			return fields, int(tooMany)
		}
		// Filled in place: a Field built first and then copied costs 3 ns more, since
		// the wide loads of the copy wait for the narrow stores before them.
		fields = append(fields, Field{})
		f := &fields[len(fields)-1]
		f.Name, f.Value = name, b[start:end]
	}
	return fields, lineEnd(b, i, bareLF)
}

// lineEnd returns the index after the line end at b[i], or a fault.
func lineEnd(b []byte, i int, bareLF bool) int {
	switch {
	case i == len(b):
		return int(more)
	case b[i] == '\n' && bareLF:
		return i + 1
	case b[i] == '\n':
		return int(badEnding)
	case b[i] != '\r':
		return int(badValue)
	case i+1 == len(b):
		return int(more)
	case b[i+1] != '\n':
		return int(badEnding)
	}
	return i + 2
}

// framing gathers the fields that delimit a body and decide about the
// connection.
type framing struct {
	length         int64 // -1: none seen
	coded          bool  // Transfer-Encoding seen
	close, persist bool  // options seen in Connection
}

// contentLength takes one Content-Length value. RFC 9112 section 6.3 leaves it
// open whether equal values count as one; who sends two cannot be trusted.
func (f *framing) contentLength(v []byte) fault {
	n, ok := decimal(v)
	if !ok || f.length >= 0 {
		return badLength
	}
	f.length = n
	return more
}

// transferEncoding takes one Transfer-Encoding value. Only a single "chunked" is
// understood; the rest is told apart for the sake of the answer.
func (f *framing) transferEncoding(v []byte) fault {
	if f.coded {
		return badCoding
	}
	f.coded = true
	if folded(v, "chunked") {
		return more
	}
	for v != nil {
		var e []byte
		e, v = element(v)
		if len(e) == 0 || !all(e, inToken) || folded(e, "chunked") && v != nil {
			return badCoding
		}
	}
	return newCoding
}

// connection takes one Connection value.
func (f *framing) connection(v []byte) {
	if folded(v, "keep-alive") {
		f.persist = true
		return
	}
	for v != nil {
		var e []byte
		e, v = element(v)
		f.close = f.close || folded(e, "close")
		f.persist = f.persist || folded(e, "keep-alive")
	}
}

// finish judges the fields together, once the head is whole.
func (f *framing) finish(proto uint8) fault {
	switch {
	case !f.coded:
		return more
	case f.length >= 0:
		return twoLengths
	case proto < 11:
		return oldCoding
	}
	return more
}

// keepAlive applies RFC 9112 section 9.3.
func (f *framing) keepAlive(proto uint8) bool {
	return !f.close && (proto >= 11 || f.persist)
}

// first keeps the first value of a repeated field.
func first(view *[]byte, value []byte) {
	if *view == nil {
		*view = value
	}
}

// single keeps a value, or an empty one from the second on.
func single(view *[]byte, value []byte) {
	if *view != nil {
		value = value[:0]
	}
	*view = value
}

// splitHost splits host[:port] and checks its bytes; both may be empty. An
// address in brackets keeps them.
func splitHost(v []byte) (host, port []byte, ok bool) {
	end := 0
	if len(v) > 0 && v[0] == '[' {
		for end++; end < len(v) && (unhex(v[end]) < 16 || v[end] == ':' || v[end] == '.'); end++ {
		}
		if end == len(v) || v[end] != ']' || end < 3 {
			return nil, nil, false
		}
		end++
	} else {
		for end < len(v) && class[v[end]]&inHost != 0 {
			end++
		}
	}
	host, port = v[:end], v[end:]
	if len(port) == 0 {
		return host, nil, true
	}
	if port[0] != ':' || len(port) > 6 {
		return nil, nil, false
	}
	port = port[1:]
	for _, c := range port {
		if !digit(c) {
			return nil, nil, false
		}
	}
	return host, port, true
}

// Find returns the value of the first field called name, which is given in
// lower case. No allocation.
func Find(fields []Field, name string) (value []byte, ok bool) {
	for i := range fields {
		if folded(fields[i].Name, name) {
			return fields[i].Value, true
		}
	}
	return nil, false
}
