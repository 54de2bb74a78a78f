package httpwire

// Chunks decodes a body in the chunked coding. The zero value is ready.
type Chunks struct {
	MaxExtension int // bytes of chunk extensions in the whole body; zero: 4 KiB
	MaxTrailer   int // bytes of the trailer section; zero: 8 KiB
}

// Reset makes the decoder ready for another body, limits unchanged.
func (c *Chunks) Reset() {}

// Decode appends the data of src to dst.
func (c *Chunks) Decode(dst, src []byte) (out []byte, consumed int, done bool, err error) {
	return dst, 0, false, &ParseError{"not written yet"}
}

// Next returns the next piece of data as a view into src.
func (c *Chunks) Next(src []byte) (data []byte, consumed int, done bool, err error) {
	return nil, 0, false, &ParseError{"not written yet"}
}

// LastChunk ends a chunked body without trailers.
const LastChunk = "0\r\n\r\n"

// AppendChunkHead appends the line that opens a chunk of size bytes (> 0);
// the data and a CRLF must follow.
func AppendChunkHead(b []byte, size int64) []byte { return b }
