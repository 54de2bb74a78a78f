package httpwire

// AppendDate appends an IMF-fixdate (29 bytes).
func AppendDate(b []byte, unix int64) []byte { return b }

// ParseDate reads an HTTP date in any of its three forms.
func ParseDate(v []byte) (unix int64, ok bool) { return 0, false }
