package httpwire

import (
	"bytes"
	"testing"
)

func TestChunksVectors(t *testing.T) {
	for _, v := range vectors(t, "chunks.json") {
		t.Run(v.Name, func(t *testing.T) {
			used, refuse, more := len(v.In), false, false
			var data text
			v.wants(t, "bytes", &used)
			v.wants(t, "refuse", &refuse)
			v.wants(t, "more", &more)
			v.wants(t, "data", &data)
			v.finish(t)
			for piece := range len(v.In) + 1 {
				if piece > 20 && piece < len(v.In)-20 {
					continue
				}
				var c Chunks
				out, consumed, done, err := decodeIn(&c, v.In, max(piece, 1))
				if (err != nil) != refuse || done != (!refuse && !more) || !bytes.Equal(out, data) {
					t.Fatalf("pieces of %d: got %q, done %v, %v", piece, out, done, err)
				}
				if !refuse && consumed != used {
					t.Fatalf("pieces of %d: consumed %d, want %d", piece, consumed, used)
				}
			}
		})
	}
}

// decodeIn decodes src in pieces.
func decodeIn(c *Chunks, src []byte, piece int) (out []byte, consumed int, done bool, err error) {
	for consumed < len(src) && !done && err == nil {
		var n int
		end := min(consumed+piece, len(src))
		out, n, done, err = c.Decode(out, src[consumed:end])
		consumed += n
		if !done && err == nil && consumed != end {
			panic("bytes left although neither done nor refused")
		}
	}
	return out, consumed, done, err
}

func TestChunksAfterTheEnd(t *testing.T) {
	var c Chunks
	if _, n, done, err := c.Decode(nil, []byte("0\r\n\r\n")); n != 5 || !done || err != nil {
		t.Fatal(n, done, err)
	}
	if data, n, done, err := c.Decode(nil, []byte("5\r\n")); len(data) != 0 || n != 0 || !done || err != nil {
		t.Error("a finished body takes more bytes:", n, done, err)
	}
	c.Reset()
	if _, _, _, err := c.Decode(nil, []byte("x")); err == nil {
		t.Error("x is no size")
	}
	if _, n, done, err := c.Decode(nil, []byte("0\r\n\r\n")); n != 0 || done || err == nil {
		t.Error("an error is not final:", n, done, err)
	}
	c.Reset()
	if _, _, done, err := c.Decode(nil, []byte("0\r\n\r\n")); !done || err != nil {
		t.Error("Reset does not reset:", done, err)
	}
}

func TestChunksLimits(t *testing.T) {
	for _, in := range []string{"1;abc\r\na\r\n0\r\n\r\n", "0\r\na: b\r\n\r\n"} {
		for limit, refuse := range map[int]bool{3: true, 100: false} {
			c := Chunks{MaxExtension: limit, MaxTrailer: limit}
			if _, _, _, err := c.Decode(nil, []byte(in)); (err != nil) != refuse {
				t.Errorf("%q under %d: %v", in, limit, err)
			}
			c.Reset()
			if c.MaxExtension != limit || c.MaxTrailer != limit {
				t.Error("Reset forgets the limits")
			}
		}
	}
}

func TestChunksRoundTrip(t *testing.T) {
	var in, want []byte
	for size := int64(1); size < 5000; size = size*3 + 1 {
		in = AppendChunkHead(in, size)
		part := bytes.Repeat([]byte{byte(size), '\r', '\n'}, int(size))[:size]
		in = append(append(in, part...), "\r\n"...)
		want = append(want, part...)
	}
	in = append(in, LastChunk...)
	var c Chunks
	if out, n, done, err := decodeIn(&c, in, 7); !bytes.Equal(out, want) || n != len(in) || !done || err != nil {
		t.Error(len(out), n, done, err)
	}
}

func TestChunksDoNotAllocate(t *testing.T) {
	in := []byte("5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n")
	dst := make([]byte, 0, len(in))
	if n := testing.AllocsPerRun(100, func() {
		var c Chunks
		c.Decode(dst, in)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
