package web99

import "strconv"

const blanks = "                                                            " // 60

// appendRight appends n right-justified in width columns, padded with blanks; ok is false if n is
// negative or too wide.
func appendRight(b []byte, n int64, width, base int) (out []byte, ok bool) {
	if n < 0 {
		return b, false
	}
	var digits [20]byte
	d := strconv.AppendInt(digits[:0], n, base)
	if len(d) > width {
		return b, false
	}
	b = append(b, blanks[:width-len(d)]...)
	at := len(b)
	b = append(b, d...)
	for i := at; i < len(b); i++ {
		if b[i] >= 'a' {
			b[i] -= 'a' - 'A'
		}
	}
	return b, true
}

// appendPadded appends n in at least width digits, padded with zeros.
func appendPadded(b []byte, n int32, width int) []byte {
	var digits [12]byte
	d := strconv.AppendInt(digits[:0], int64(n), 10)
	for i := len(d); i < width; i++ {
		b = append(b, '0')
	}
	return append(b, d...)
}

// parseRight reads a whole column: blanks, then at least one digit. At most 15 digits.
func parseRight(b []byte, base uint64) (n int64, ok bool) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	return parseDigits(b, base)
}

// parseDigits reads b as digits only, 1 to 15 of them.
func parseDigits(b []byte, base uint64) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 15 {
		return 0, false
	}
	var u uint64
	for _, c := range b {
		d := uint64(c - '0')
		if c |= 0x20; c >= 'a' && c <= 'f' {
			d = uint64(c-'a') + 10
		} else if d > 9 {
			return 0, false
		}
		if d >= base {
			return 0, false
		}
		u = u*base + d
	}
	return int64(u), true
}

// parseInt32 is parseDigits for decimal numbers that fit an int32.
func parseInt32(b []byte) (n int32, ok bool) {
	v, ok := parseDigits(b, 10)
	if !ok || v > 1<<31-1 {
		return 0, false
	}
	return int32(v), true
}

// printable reports whether all bytes are visible ASCII.
func printable(b []byte) bool {
	for _, c := range b {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}
