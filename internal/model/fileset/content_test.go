package fileset

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"testing"

	"pgregory.net/rapid"
)

// whole returns all bytes of a file.
func whole(f File, seed uint64) []byte {
	var c Content
	c.Init(f, seed)
	b := make([]byte, c.Size())
	if n := c.Fill(b, 0); n != len(b) {
		panic("short fill")
	}
	return b
}

// TestLaw builds every line the slow way, from the text of
// docs/formats/fileset.md, and compares.
func TestLaw(t *testing.T) {
	const seed = 0xC0FFEE
	for _, f := range []File{{0, 0, 0}, {7, 0, 8}, {12, 1, 0}, {12, 1, 4}, {99999, 2, 8}, {3, 3, 1}} {
		stream := func(start uint64) func(n uint64) uint64 { // output n, from 0, of splitmix64
			return func(n uint64) uint64 {
				z := start + (n+1)*0x9E3779B97F4A7C15
				z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
				z = (z ^ (z >> 27)) * 0x94D049BB133111EB
				return z ^ (z >> 31)
			}
		}
		word := stream(stream(seed)(uint64(f.Dir)*36 + uint64(f.Class)*9 + uint64(f.Num)))
		var want bytes.Buffer
		fmt.Fprintf(&want, "%9d file_set/dir%05d/class%d_%d\n", f.Size(), f.Dir, f.Class, f.Num)
		for line := uint64(0); int64(want.Len()) < f.Size(); line++ {
			var l [64]byte
			for j := range l {
				l[j] = '?' + byte(word(line*8+uint64(j)/8)>>(j%8*8))&63
			}
			l[63] = '\n'
			fits := int64(want.Len())+64 <= f.Size()
			if (f.Class == 1 || f.Class == 2) && line%64 == 4 && fits {
				copy(l[1:], Tag)
			}
			want.Write(l[:])
		}
		want.Truncate(int(f.Size()))
		if got := whole(f, seed); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%v: content differs from the law", f)
		}
	}
}

// TestVectors pins the law: a change of these sums is a new LawVersion.
func TestVectors(t *testing.T) {
	if LawVersion != 1 {
		t.Fatal("new law: new vectors")
	}
	for _, v := range []struct {
		f    File
		seed uint64
		sum  string
	}{
		{File{0, 0, 0}, 0, "f8436a2034b4bc48"},
		{File{0, 1, 4}, 0, "d58edef21cd097a1"},
		{File{351, 2, 8}, 1, "03878efc60d1ef83"},
		{File{99999, 3, 8}, 1<<64 - 1, "ac34756744a1b0c8"},
	} {
		h := fnv.New64a()
		h.Write(whole(v.f, v.seed))
		if got := fmt.Sprintf("%016x", h.Sum64()); got != v.sum {
			t.Errorf("%v seed %d: fnv1a64 %s, want %s", v.f, v.seed, got, v.sum)
		}
	}
}

func anyFile(t *rapid.T) File {
	return File{
		Dir:   rapid.Int32Range(0, MaxDirs-1).Draw(t, "dir"),
		Class: uint8(rapid.IntRange(0, Classes-1).Draw(t, "class")),
		Num:   uint8(rapid.IntRange(0, FilesPerClass-1).Draw(t, "num")),
	}
}

// Any window of a file equals the same window of the whole, and nothing outside
// the window is written.
func TestFillWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFile(t)
		f.Class %= 3
		seed := rapid.Uint64().Draw(t, "seed")
		all := whole(f, seed)
		off := rapid.IntRange(0, len(all)+10).Draw(t, "off")
		n := rapid.IntRange(0, 300).Draw(t, "n")
		var c Content
		c.Init(f, seed)
		got := bytes.Repeat([]byte{0xEE}, n+1)
		k := c.Fill(got[:n], int64(off))
		want := []byte{}
		if off < len(all) {
			want = all[off:min(len(all), off+n)]
		}
		if !bytes.Equal(got[:k], want) {
			t.Fatalf("%v: window %d+%d differs", f, off, n)
		}
		for _, x := range got[k:] {
			if x != 0xEE {
				t.Fatalf("%v: wrote beyond the end", f)
			}
		}
		if x := c.Check(got[:k], int64(off)); x != -1 {
			t.Fatalf("%v: check of what fill wrote: %d", f, x)
		}
	})
}

// A flipped bit is found, at its place, whatever the window.
func TestCheckFindsFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFile(t)
		f.Class %= 3
		all := whole(f, 9)
		off := rapid.IntRange(0, len(all)-1).Draw(t, "off")
		b := all[off:min(len(all), off+rapid.IntRange(1, 5000).Draw(t, "n"))]
		at := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		later := rapid.IntRange(at, len(b)-1).Draw(t, "later")
		b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if later > at {
			b[later] ^= 0x10
		}
		var c Content
		c.Init(f, 9)
		if x := c.Check(b, int64(off)); x != at {
			t.Fatalf("%v at %d: found %d, want %d", f, off, x, at)
		}
	})
}

func TestCheckBeyondEnd(t *testing.T) {
	f := File{1, 0, 0}
	all := append(whole(f, 1), 'x')
	var c Content
	c.Init(f, 1)
	if x := c.Check(all, 0); x != int(f.Size()) {
		t.Errorf("one byte too many: found at %d, want %d", x, f.Size())
	}
	if x := c.Check([]byte{'x'}, f.Size()+5); x != 0 {
		t.Errorf("read past the end: found at %d, want 0", x)
	}
	if x := c.Check(nil, 0); x != -1 {
		t.Errorf("nothing: %d", x)
	}
}

// Tags finds what a scan for the tag finds, and the files look as documented.
func TestTags(t *testing.T) {
	counts := map[string]int{}
	for i := range int64(FilesPerDir) {
		f := FileAt(i + 5*FilesPerDir)
		b := whole(f, 77)
		var c Content
		c.Init(f, 77)
		var want, got []int64
		for at := 0; ; {
			x := bytes.Index(b[at:], []byte(Tag))
			if x < 0 {
				break
			}
			want = append(want, int64(at+x+len(`<!WEB99CAD><IMG SRC="/file_set/`)))
			at += x + len(Tag)
		}
		c.Tags(func(off int64) { got = append(got, off) })
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v: tags %v, scan finds %v", f, got, want)
		}
		for _, off := range got {
			if s := string(b[off : off+PlaceholderLen]); s != "dirNNNNN/classX_Y" {
				t.Errorf("%v: placeholder at %d is %q", f, off, s)
			}
		}
		counts[f.String()[len("/file_set/dir00005/"):]] = len(got)
		if b[HeaderLen-1] != '\n' {
			t.Errorf("%v: first line does not end at %d", f, HeaderLen)
		}
		for at := HeaderLen; at < len(b); at++ {
			newline := (at-HeaderLen)%LineLen == LineLen-1
			if (b[at] == '\n') != newline {
				t.Fatalf("%v: byte %d is %q", f, at, b[at])
			}
		}
	}
	for name, want := range map[string]int{"class0_8": 0, "class1_0": 1, "class1_3": 1, "class1_4": 2, "class2_8": 23, "class3_8": 0} {
		if counts[name] != want {
			t.Errorf("%s: %d tags, want %d", name, counts[name], want)
		}
	}
	if len(Tag) != 62 || tagColumn+len(Tag)+1 != LineLen {
		t.Error("tag line is not 64 bytes")
	}
}

// Content must not help a compressing server much: 64 symbols of 6 bits each in
// 8, so nothing below 3/4 is possible; distinct files and seeds share no line.
func TestDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, seed := range []uint64{0, 1} {
		for i := range int64(3 * FilesPerDir) {
			f := FileAt(i)
			b := whole(f, seed)
			line := string(b[HeaderLen : HeaderLen+60])
			who := fmt.Sprint(f, seed)
			if old, dup := seen[line]; dup {
				t.Errorf("%s and %s start alike", old, who)
			}
			seen[line] = who
		}
	}
}

func TestContentAllocatesNothing(t *testing.T) {
	buf := make([]byte, MaxSize)
	if n := testing.AllocsPerRun(20, func() {
		var c Content
		c.Init(File{1, 3, 0}, 4)
		c.Fill(buf[:c.Size()], 0)
		if c.Check(buf[:c.Size()], 0) != -1 {
			panic("wrong")
		}
		c.Tags(func(int64) {})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFill(b *testing.B) {
	for _, f := range []File{{1, 1, 4}, {1, 3, 8}} {
		b.Run(fmt.Sprintf("class%d", f.Class), func(b *testing.B) {
			buf := make([]byte, f.Size())
			b.SetBytes(f.Size())
			var c Content
			for b.Loop() {
				c.Init(f, 1)
				c.Fill(buf, 0)
			}
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, f := range []File{{1, 1, 4}, {1, 3, 8}} {
		b.Run(fmt.Sprintf("class%d", f.Class), func(b *testing.B) {
			buf := whole(f, 1)
			b.SetBytes(f.Size())
			var c Content
			for b.Loop() {
				c.Init(f, 1)
				if c.Check(buf, 0) != -1 {
					b.Fatal("wrong")
				}
			}
		})
	}
}
