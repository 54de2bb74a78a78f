package httpwire

// Limits of a chunked body, used where a field of [Chunks] is zero. Nobody is
// known to send extensions; they have served as a way to send without end.
const (
	DefaultExtension = 4 << 10
	DefaultTrailer   = 8 << 10
)

// Chunks decodes a body in the chunked coding (RFC 9112 section 7.1). The zero
// value is ready for one body; Reset makes it ready for the next. It takes CRLF
// line ends only, no blank around a size, and sizes of at most 16 digits.
// Extensions and trailer fields are checked and dropped.
type Chunks struct {
	MaxExtension int // bytes of extensions in the whole body
	MaxTrailer   int // bytes of the trailer section

	state     chunkState
	digits    uint8 // of the size so far
	left      int64 // of the size so far, then of the chunk's data
	extension int   // bytes so far
	trailer   int
}

type chunkState uint8

const (
	atSize chunkState = iota
	atExtension
	inExtension
	atSizeLF
	inData
	atDataCR
	atDataLF
	atTrailer // start of a trailer line
	inTrailerName
	inTrailerValue
	atTrailerLF
	atEndLF
	atEnd
	broken
)

// Reset makes c ready for another body; the limits stay.
func (c *Chunks) Reset() {
	*c = Chunks{MaxExtension: c.MaxExtension, MaxTrailer: c.MaxTrailer}
}

// Decode appends the data found in src to dst. consumed < len(src) only if done
// (the rest is not of this body) or on an error, which is a *ParseError and
// final.
//
// Any goroutine. No allocation if dst has len(src) bytes of room, but for an
// error. Never blocks. Keeps neither slice.
func (c *Chunks) Decode(dst, src []byte) (out []byte, consumed int, done bool, err error) {
	for consumed < len(src) && !done && err == nil {
		data, n, end, e := c.Next(src[consumed:])
		dst = append(dst, data...)
		consumed, done, err = consumed+n, end, e
	}
	return dst, consumed, done || c.state == atEnd, err
}

// Next is Decode without the copy: it returns the next piece of data as a view
// into src, empty if src held only framing, and the bytes of src used up to the
// end of that piece. Call it until src is used up or done.
//
// Any goroutine. No allocation, but for an error. Never blocks. data aliases src.
func (c *Chunks) Next(src []byte) (data []byte, consumed int, done bool, err error) {
	for i := 0; i < len(src); i++ {
		if c.state == inData {
			n := int(min(c.left, int64(len(src)-i)))
			c.left -= int64(n)
			if c.left == 0 {
				c.state = atDataCR
			}
			return src[i : i+n], i + n, false, nil
		}
		if c.state == atEnd {
			return nil, i, true, nil
		}
		if reason := c.step(src[i]); reason != "" {
			c.state = broken
			return nil, i, false, refuse(reason)
		}
	}
	return nil, len(src), c.state == atEnd, nil
}

// step takes one byte of framing. It returns why the byte is refused, "" if not.
func (c *Chunks) step(b byte) (reason string) {
	switch c.state {
	case atSize:
		return c.size(b)
	case atExtension, inExtension:
		return c.extend(b)
	case atSizeLF:
		if b != '\n' {
			return "chunk size: CR without LF"
		}
		c.digits = 0
		if c.state = inData; c.left == 0 {
			c.state = atTrailer
		}
	case atDataCR:
		if b != '\r' {
			return "chunk data longer than its size"
		}
		c.state = atDataLF
	case atDataLF:
		if b != '\n' {
			return "chunk data: CR without LF"
		}
		c.state = atSize
	case atEndLF:
		if b != '\n' {
			return "end of chunks: CR without LF"
		}
		c.state = atEnd
	case broken:
		return "chunks broken before"
	default:
		return c.trail(b)
	}
	return ""
}

func (c *Chunks) size(b byte) (reason string) {
	if v := unhex(b); v < 16 {
		if c.digits == 16 || c.left > (1<<63-1)>>4 {
			return "chunk size too large"
		}
		c.digits++
		c.left = c.left<<4 | int64(v)
		return ""
	}
	if c.digits == 0 {
		return "chunk size missing"
	}
	switch b {
	case '\r':
		c.state = atSizeLF
	case ';':
		c.state = atExtension
	default:
		return "chunk size: unexpected byte"
	}
	return ""
}

// extend takes a byte after the ';' of an extension: blanks and one byte of a
// name first, then anything but controls.
func (c *Chunks) extend(b byte) (reason string) {
	c.extension++
	if c.extension > orDefault(c.MaxExtension, DefaultExtension) {
		return "chunk extensions too large"
	}
	switch {
	case c.state == inExtension && b == '\r':
		c.state = atSizeLF
	case c.state == atExtension && class[b]&inToken != 0:
		c.state = inExtension
	case b == '\t' || b >= ' ' && b != 0x7f && (c.state == inExtension || b == ' '):
	default:
		return "chunk extension: unexpected byte"
	}
	return ""
}

// trail takes a byte of the trailer section: field lines up to an empty line.
func (c *Chunks) trail(b byte) (reason string) {
	c.trailer++
	if c.trailer > orDefault(c.MaxTrailer, DefaultTrailer) {
		return "trailer too large"
	}
	switch {
	case c.state == atTrailer && b == '\r':
		c.state = atEndLF
	case (c.state == atTrailer || c.state == inTrailerName) && class[b]&inToken != 0:
		c.state = inTrailerName
	case c.state == inTrailerName && b == ':':
		c.state = inTrailerValue
	case c.state == inTrailerValue && b == '\r':
		c.state = atTrailerLF
	case c.state == inTrailerValue && (b == '\t' || b >= ' ' && b != 0x7f):
	case c.state == atTrailerLF && b == '\n':
		c.state = atTrailer
	default:
		return "trailer: unexpected byte"
	}
	return ""
}
