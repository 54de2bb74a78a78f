package httpwire

import (
	"encoding/binary"
	"math/bits"
)

// class holds the classes of every byte, as bits. It is a constant string and
// not an array, so that nothing can write to it.
const class = "" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + // 00
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" + // 10
	"\x04\x07\x04\x05\x07\x01\x07\x07\x06\x06\x07\x07\x04\x07\x07\x00" + // 20
	"\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x04\x06\x04\x06\x04\x04" + // 30
	"\x04\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07" + // 40
	"\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x04\x00\x04\x05\x07" + // 50
	"\x05\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07" + // 60
	"\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x04\x05\x04\x07\x00" + // 70
	"\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04" + // 80
	"\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04" + // 90
	"\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04" + // A0
	"\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04" + // B0
	"\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04" + // C0
	"\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04" + // D0
	"\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04" + // E0
	"\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04\x04" // F0

const (
	inToken = 1 << iota // tchar, RFC 9110 section 5.6.2
	inHost              // reg-name, RFC 3986 section 3.2.2, less the comma and escapes: one name, one spelling
	inPath              // copied unread by CleanPath: no control, '%', '/' or backslash
)

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// The scans below look at eight bytes at a time. Each mask sets bit 7 of the
// bytes that match; the subtraction may borrow into bytes after a match, so only
// the lowest mark of a mask is exact, and only that one is used.

// controls marks bytes below 0x20 and DEL.
func controls(w uint64) uint64 {
	del := w ^ lows*0x7f
	return ((w-lows*0x20)&^w | (del-lows)&^del) & highs
}

// unprintable marks everything but 0x21 to 0x7e.
func unprintable(w uint64) uint64 {
	return ((w-lows*0x21)&^w | (w&^highs + lows) | w) & highs
}

// valueEnd returns the index of the first byte at or after b[i] that ends a
// field value, legally or not: a control other than TAB. len(b) if there is none.
func valueEnd(b []byte, i int) int {
	for i < len(b) {
		if i+8 <= len(b) {
			m := controls(binary.LittleEndian.Uint64(b[i:]))
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		}
		if c := b[i]; c < ' ' && c != '\t' || c == 0x7f {
			return i
		}
		i++
	}
	return i
}

// printable reports whether b holds only 0x21 to 0x7e.
func printable(b []byte) bool {
	for len(b) >= 8 {
		if unprintable(binary.LittleEndian.Uint64(b)) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c <= ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// all reports whether every byte of b is in one of the classes.
func all(b []byte, classes byte) bool {
	for _, c := range b {
		if class[c]&classes == 0 {
			return false
		}
	}
	return true
}

// folded reports whether b equals lower without regard to case. lower holds
// lower-case letters, digits and '-'; b has no control bytes.
func folded(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c|0x20 != lower[i] {
			return false
		}
	}
	return true
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

func digit(c byte) bool { return c-'0' < 10 }

// unhex returns the value of a hexadecimal digit, or 16.
func unhex(c byte) byte {
	switch {
	case digit(c):
		return c - '0'
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10
	}
	return 16
}

// trim removes blanks at both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && blank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && blank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// decimal reads 1 to 19 digits that fit an int64.
func decimal(b []byte) (v int64, ok bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	for _, c := range b {
		if !digit(c) {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, v >= 0 // 19 digits stay below 2^64: an overflow shows as the sign
}

// element cuts the first element off a comma-separated list; rest is nil after
// the last one.
func element(list []byte) (first, rest []byte) {
	for i, c := range list {
		if c == ',' {
			return trim(list[:i]), list[i+1:]
		}
	}
	return trim(list), nil
}
