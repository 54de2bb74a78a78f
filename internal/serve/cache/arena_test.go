package cache

import (
	"runtime"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

func TestSizeClasses(t *testing.T) {
	lastClass, lastSize := 0, slotMin
	for n := 1; n <= largeMin; n++ {
		c, size := classOf(n)
		if size < n || size%64 != 0 || c != lastClass && c != lastClass+1 || size < lastSize || n > slotMin && size > n*5/4+64 {
			t.Fatalf("%d bytes: class %d of %d bytes after class %d of %d", n, c, size, lastClass, lastSize)
		}
		lastClass, lastSize = c, size
	}
	if lastClass != classCount-1 {
		t.Errorf("the last class is %d", lastClass)
	}
}

// Allocations never overlap, keep what is written to them, and leave nothing behind.
func TestArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a arena
		type piece struct {
			span
			mark byte
		}
		var held []piece
		check := func(p piece) {
			for _, i := range []int{0, len(p.mem) / 2, len(p.mem) - 1} {
				if p.mem[i] != p.mark {
					t.Fatalf("%d bytes at %d: overwritten", len(p.mem), i)
				}
			}
		}
		steps := rapid.SliceOfN(rapid.IntRange(-1000, 400_000), 1, 200).Draw(t, "steps")
		for i, n := range steps {
			if n > 0 {
				if n%3 > 0 {
					n = n%40_000 + 1
				}
				s, err := a.alloc(n)
				if err != nil {
					t.Fatal(err)
				}
				if len(s.mem) != n || s.size < int64(n) {
					t.Fatalf("asked for %d, got %d (%d)", n, len(s.mem), s.size)
				}
				p := piece{s, byte(i)}
				for j := range s.mem {
					s.mem[j] = p.mark
				}
				held = append(held, p)
			} else if len(held) > 0 {
				k := -n % len(held)
				check(held[k])
				a.release(held[k].span)
				held[k] = held[len(held)-1]
				held = held[:len(held)-1]
			}
		}
		for _, p := range held {
			check(p)
			a.release(p.span)
		}
		if a.mapped != int64(len(a.regions))*regionSize {
			t.Fatalf("%d bytes mapped, %d regions", a.mapped, len(a.regions))
		}
		for i := range a.classes {
			open := a.classes[i].open
			if len(open) > 1 {
				t.Fatalf("class %d keeps %d empty chunks", i, len(open))
			}
			for j, ch := range open {
				if ch.used != 0 || ch.at != j {
					t.Fatalf("chunk %d of class %d: used %d, at %d", j, i, ch.used, ch.at)
				}
				a.paste(ch)
			}
		}
		if a.mapped != 0 || len(a.regions) > 0 {
			t.Fatalf("%d bytes in %d regions are left", a.mapped, len(a.regions))
		}
	})
}

// Regions lie where a huge page can.
func TestRegionsAreAligned(t *testing.T) {
	for range 8 {
		mem, err := mapRegion()
		if err != nil {
			t.Fatal(err)
		}
		defer unmapRegion(mem)
		if len(mem) != regionSize || runtime.GOOS == "linux" && uintptr(unsafe.Pointer(&mem[0]))%regionSize != 0 {
			t.Errorf("%d bytes at %p", len(mem), &mem[0])
		}
		mem[0], mem[regionSize-1] = 1, 1
	}
}
