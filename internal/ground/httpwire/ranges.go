package httpwire

// Span is a part of a representation: Len bytes (> 0) from offset Off.
type Span struct{ Off, Len int64 }

// ParseRange reads the value of a Range field (RFC 9110 section 14.1.2) for a
// representation of size bytes. It fills dst up to its capacity, in the order
// asked; overlapping parts stay as they are.
//
//	ok, satisfiable       send spans (206); parts beyond the end are left out
//	ok, not satisfiable   no part exists (416)
//	not ok                ignore the field (200)
//
// Not ok are: another unit than bytes, a malformed list, more parts than cap(dst)
// (a guard against requests that multiply the answer), and an empty
// representation, which is sent whole rather than refused.
//
// Any goroutine. No allocation. Never blocks. Keeps neither slice.
func ParseRange(v []byte, size int64, dst []Span) (spans []Span, ok, satisfiable bool) {
	const unit = len("bytes=")
	if len(v) < unit || !folded(v[:unit-1], "bytes") || v[unit-1] != '=' || size <= 0 {
		return nil, false, false
	}
	spans = dst[:0]
	parts := 0
	for v = v[unit:]; v != nil; {
		var e []byte
		e, v = element(v)
		if len(e) == 0 {
			continue // RFC 9110 section 5.6.1.2 has recipients accept empty elements
		}
		if parts++; parts > cap(dst) {
			return nil, false, false
		}
		s, valid := parseSpan(e, size)
		if !valid {
			return nil, false, false
		}
		if s.Len > 0 {
			spans = append(spans, s)
		}
	}
	return spans, parts > 0, len(spans) > 0
}

// parseSpan reads "first-last", "first-" or "-length"; Len is 0 if the part does
// not exist.
func parseSpan(e []byte, size int64) (s Span, valid bool) {
	dash := 0
	for dash < len(e) && e[dash] != '-' {
		dash++
	}
	if dash == len(e) {
		return s, false
	}
	left, right := e[:dash], e[dash+1:]
	if len(left) == 0 {
		n, valid := saturated(right)
		n = min(n, size)
		return Span{size - n, n}, valid
	}
	first, valid := saturated(left)
	last := int64(1<<63 - 1)
	if len(right) > 0 && valid {
		last, valid = saturated(right)
	}
	if !valid || last < first {
		return s, false
	}
	if first >= size {
		return s, true
	}
	return Span{first, min(last, size-1) - first + 1}, true
}

// saturated reads digits; a number about to leave int64 becomes the largest one.
func saturated(b []byte) (v int64, ok bool) {
	const largest = 1<<63 - 1
	for _, c := range b {
		if !digit(c) {
			return 0, false
		}
		if d := int64(c - '0'); v <= (largest-d)/10 {
			v = v*10 + d
		} else {
			v = largest
		}
	}
	return v, len(b) > 0
}
