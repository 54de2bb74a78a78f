package httpwire

// Span is a part of a representation: Len bytes (> 0) from offset Off.
type Span struct{ Off, Len int64 }

// ParseRange reads a Range value for a representation of size bytes.
func ParseRange(v []byte, size int64, dst []Span) (spans []Span, ok, satisfiable bool) {
	return nil, false, false
}
