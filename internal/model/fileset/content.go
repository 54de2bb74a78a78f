package fileset

import (
	"encoding/binary"
	"math/bits"
)

// The content law, version 1. It is ours: the retired benchmark's generator is
// not public, and only the first line, the width of the lines and the tag are
// known (from a sample document). docs/formats/fileset.md states it byte by byte.
const (
	// Law names the file set and content law in workloads and manifests.
	Law = "web99"
	// LawVersion counts the versions of the content law.
	LawVersion = 1

	// HeaderLen is the length in bytes of the first line of every file.
	HeaderLen = 9 + 1 + (PathLen - 1) + 1
	// LineLen is the length in bytes of every line after the first, newline included.
	LineLen = 64

	// Tag is the ad tag with its placeholder, as it stands in the files. Source:
	// the sample document of the Waterloo userver.
	Tag = `<!WEB99CAD><IMG SRC="/file_set/dirNNNNN/classX_Y"><!/WEB99CAD>`
	// PlaceholderLen is the length in bytes of "dirNNNNN/classX_Y".
	PlaceholderLen = 17

	tagEvery       = 64                                                 // lines between two tags
	tagLine        = 4                                                  // line of a block that carries it, from 0
	tagColumn      = 1                                                  // after one filler byte
	placeholderCol = tagColumn + len(`<!WEB99CAD><IMG SRC="/file_set/`) // column of the placeholder
	tagFirst       = HeaderLen + tagLine*LineLen
	tagStride      = tagEvery * LineLen

	wordsPerLine = LineLen / 8
)

// golden is the increment of splitmix64 (2^64 / phi, odd).
const golden = 0x9E3779B97F4A7C15

// mix is the output function of splitmix64 (Steele, Lea, Flood 2014; constants
// of Stafford's variant 13).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return z ^ z>>31
}

// printable maps eight random bytes to eight of the 64 characters '?' to '~',
// none of which is special in HTML ('<', '>' and '&' lie below).
func printable(x uint64) uint64 {
	return x&0x3F3F3F3F3F3F3F3F + 0x3F3F3F3F3F3F3F3F
}

// newlined replaces the last of eight bytes by a newline.
func newlined(w uint64) uint64 { return w&(1<<56-1) | '\n'<<56 }

// Content generates and checks the bytes of one file without storing them. It
// is a plain value of under 100 bytes; Init may be called again for another file.
//
// The bytes are a pure function of file and seed, addressable at any offset:
// word w (eight bytes) of the text after the first line is output number w of
// the splitmix64 stream whose start is output number Index() of the stream of
// the seed. Two multiplications per eight bytes keep Fill and Check above
// 2 GB/s per core, so neither writing a set nor sampling responses waits for them.
type Content struct {
	key    uint64
	size   int64
	file   File
	tagged bool
	head   [HeaderLen]byte
}

// Init selects the file, which must be valid, and the seed of the set.
//
// Any goroutine. No allocation. Never blocks.
func (c *Content) Init(f File, seed uint64) {
	c.file = f
	c.size = f.Size()
	c.tagged = f.Class == 1 || f.Class == 2
	c.key = mix(seed + golden*uint64(f.Index()+1))

	h := c.head[:]
	copy(h, "         ")
	for i, v := 8, c.size; v > 0; i, v = i-1, v/10 {
		h[i] = byte('0' + v%10)
	}
	var path [PathLen]byte
	f.AppendPath(path[:0])
	h[9] = ' '
	copy(h[10:], path[1:])
	h[HeaderLen-1] = '\n'
}

// File returns the file selected by Init.
func (c *Content) File() File { return c.file }

// Size returns the length of the file in bytes.
func (c *Content) Size() int64 { return c.size }

// line writes line i after the first one as if the file had no end.
func (c *Content) line(dst *[LineLen]byte, i int64) {
	if c.tagged && i%tagEvery == tagLine && HeaderLen+(i+1)*LineLen <= c.size {
		c.plain(dst, i)
		copy(dst[tagColumn:], Tag)
		return
	}
	c.plain(dst, i)
}

// plain writes line i without a tag.
func (c *Content) plain(dst *[LineLen]byte, i int64) {
	z := c.key + golden*(uint64(i)*wordsPerLine+1)
	for w := 0; w < LineLen-8; w += 8 {
		binary.LittleEndian.PutUint64(dst[w:w+8], printable(mix(z)))
		z += golden
	}
	binary.LittleEndian.PutUint64(dst[LineLen-8:], newlined(printable(mix(z))))
}

// differs returns the index of the first byte of got that is not line i, or -1.
func (c *Content) differs(got *[LineLen]byte, i int64) int {
	if !c.tagged || i%tagEvery != tagLine { // all are compared before one is looked for
		z := c.key + golden*(uint64(i)*wordsPerLine+1)
		var all uint64
		for w := 0; w < LineLen-8; w += 8 {
			all |= binary.LittleEndian.Uint64(got[w:w+8]) ^ printable(mix(z))
			z += golden
		}
		all |= binary.LittleEndian.Uint64(got[LineLen-8:]) ^ newlined(printable(mix(z)))
		if all == 0 {
			return -1
		}
	}
	var want [LineLen]byte
	c.line(&want, i)
	for w := 0; w < LineLen; w += 8 {
		if x := binary.LittleEndian.Uint64(got[w:]) ^ binary.LittleEndian.Uint64(want[w:]); x != 0 {
			return w + bits.TrailingZeros64(x)/8
		}
	}
	return -1
}

// Fill writes the bytes [off, off+len(dst)) of the file and returns how many of
// them lie inside it; bytes of dst beyond the end are left alone. off must not
// be negative.
//
// Any goroutine. No allocation. Never blocks. dst is not kept.
func (c *Content) Fill(dst []byte, off int64) int {
	dst = dst[:c.inside(len(dst), off)]
	n := len(dst)
	if off < HeaderLen && n > 0 {
		k := copy(dst, c.head[off:])
		dst, off = dst[k:], off+int64(k)
	}
	i, col := c.place(off)
	if col != 0 && len(dst) > 0 {
		var part [LineLen]byte
		c.line(&part, i)
		dst = dst[copy(dst, part[col:]):]
		i++
	}
	for ; len(dst) >= LineLen; i++ {
		c.line((*[LineLen]byte)(dst), i)
		dst = dst[LineLen:]
	}
	if len(dst) > 0 {
		var part [LineLen]byte
		c.line(&part, i)
		copy(dst, part[:])
	}
	return n
}

// Check compares b with the bytes of the file at off and returns the index in b
// of the first wrong byte, or -1. A byte beyond the end of the file is wrong;
// bytes that are missing are not noticed, so compare lengths as well. off must
// not be negative.
//
// Any goroutine. No allocation. Never blocks. b is not kept.
func (c *Content) Check(b []byte, off int64) int {
	all := len(b)
	b = b[:c.inside(all, off)]
	n := len(b)
	if off < HeaderLen && n > 0 {
		k := min(n, HeaderLen-int(off))
		if x := mismatch(b[:k], c.head[off:]); x >= 0 {
			return x
		}
		b, off = b[k:], off+int64(k)
	}
	i, col := c.place(off)
	if col != 0 && len(b) > 0 {
		var part [LineLen]byte
		c.line(&part, i)
		k := min(len(b), LineLen-col)
		if x := mismatch(b[:k], part[col:]); x >= 0 {
			return n - len(b) + x
		}
		b = b[k:]
		i++
	}
	for ; len(b) >= LineLen; i++ {
		if x := c.differs((*[LineLen]byte)(b), i); x >= 0 {
			return n - len(b) + x
		}
		b = b[LineLen:]
	}
	if len(b) > 0 {
		var part [LineLen]byte
		c.line(&part, i)
		if x := mismatch(b, part[:]); x >= 0 {
			return n - len(b) + x
		}
	}
	if n < all {
		return n
	}
	return -1
}

// inside returns how many of n bytes at off lie in the file.
func (c *Content) inside(n int, off int64) int {
	return int(max(0, min(int64(n), c.size-off)))
}

// place returns the line that holds offset off, counted after the first line,
// and the column in it. off is at least HeaderLen, or the answer is not used.
func (c *Content) place(off int64) (line int64, col int) {
	off -= HeaderLen
	return off / LineLen, int(off % LineLen)
}

// mismatch returns the first index at which a differs from b, which is at least
// as long, or -1.
func mismatch(a, b []byte) int {
	for i, x := range a {
		if x != b[i] {
			return i
		}
	}
	return -1
}

// Tags yields the offset of each 17-byte placeholder "dirNNNNN/classX_Y", in
// ascending order. Only files of classes 1 and 2 have any: one per 4,096 bytes.
func (c *Content) Tags(yield func(off int64)) {
	if !c.tagged {
		return
	}
	for off := int64(tagFirst); off+LineLen <= c.size; off += tagStride {
		yield(off + int64(placeholderCol))
	}
}
