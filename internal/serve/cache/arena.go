package cache

import (
	"math/bits"
	"slices"
	"sync"
)

// The arena keeps file contents in mapped memory that the garbage collector does not see: a collector
// that need not scan gigabytes stays invisible, and regions given back really go back to the system.
//
// Memory comes in chunks; a chunk holds slots of one size. Sizes step by a quarter of a power of two, so
// at most a fifth of a slot is wasted, and web content, where many files share few sizes, wastes little.
// Above largeMin an allocation is a mapping of its own.
//
// Chunks are cut from regions that the system can back with one huge page each: where page faults are
// dear, filling a cold cache would cost more in faults than in reading (measured on a virtual machine:
// 19 us for each 4 KiB, 0.3 us in a huge page). Chunks of small slots are small, so that a site of few
// files does not make many regions resident.
const (
	slotMin    = 256
	largeMin   = 256 << 10
	regionSize = 2 << 20 // a huge page
	unitSize   = regionSize / 8
	smallSlot  = 32 << 10 // up to here a chunk is one unit, above four
	pageSize   = 4096
)

// chunkSize is the size of chunks with slots of so many bytes.
func chunkSize(slot int) int {
	if slot <= smallSlot {
		return unitSize
	}
	return 4 * unitSize
}

// span is one allocation. The zero span is no memory.
type span struct {
	mem   []byte // of the size asked for, aligned to 64 bytes
	size  int64  // taken from the system
	chunk *chunk // nil for a mapping of its own
	slot  int32
}

// region is what chunks are cut from.
type region struct {
	mem  []byte
	used uint8 // a bit for each unit
}

type chunk struct {
	mem   []byte
	home  *region
	units uint8 // its own of home
	class int
	free  []int32 // free slots
	used  int
	at    int // index in class.open while there are free slots, else -1
}

type arena struct {
	mu      sync.Mutex
	classes [classCount]class
	regions []*region
	mapped  int64 // bytes taken from the system
}

type class struct{ open []*chunk } // chunks with free slots

const classCount = 4*10 + 1 // 256 B .. 256 KiB

// classOf returns the class whose slots hold n bytes, and their size. n is in (0, largeMin].
func classOf(n int) (int, int) {
	if n <= slotMin {
		return 0, slotMin
	}
	// n-1 lies in [base, 2*base); steps of base/4.
	shift := bits.Len(uint(n-1)) - 1
	step := 1 << (shift - 2)
	k := (n-1-1<<shift)/step + 1
	return 4*(shift-8) + k, 1<<shift + k*step
}

// chargeOf returns the bytes that an allocation of n takes.
func chargeOf(n int) int64 {
	if n <= 0 {
		return 0
	}
	if n > largeMin {
		return int64(n+pageSize-1) &^ (pageSize - 1)
	}
	_, size := classOf(n)
	return int64(size)
}

// alloc returns n bytes, not cleared. Any goroutine.
func (a *arena) alloc(n int) (span, error) {
	if n <= 0 {
		return span{}, nil
	}
	if n > largeMin {
		size := chargeOf(n)
		mem, err := mapMemory(int(size))
		if err != nil {
			return span{}, err
		}
		a.mu.Lock()
		a.mapped += size
		a.mu.Unlock()
		return span{mem: mem[:n], size: size}, nil
	}
	c, size := classOf(n)
	a.mu.Lock()
	defer a.mu.Unlock()
	cl := &a.classes[c]
	if len(cl.open) == 0 {
		ch, err := a.cut(chunkSize(size))
		if err != nil {
			return span{}, err
		}
		ch.class, ch.at = c, len(cl.open)
		for i := len(ch.mem)/size - 1; i >= 0; i-- {
			ch.free = append(ch.free, int32(i))
		}
		cl.open = append(cl.open, ch)
	}
	ch := cl.open[len(cl.open)-1]
	slot := ch.free[len(ch.free)-1]
	ch.free = ch.free[:len(ch.free)-1]
	ch.used++
	if len(ch.free) == 0 {
		cl.open = cl.open[:len(cl.open)-1]
		ch.at = -1
	}
	at := int(slot) * size
	return span{mem: ch.mem[at : at+n : at+size], size: int64(size), chunk: ch, slot: slot}, nil
}

// release gives memory back. Nobody may use s.mem any more. Any goroutine.
func (a *arena) release(s span) {
	if s.size == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	ch := s.chunk
	if ch == nil {
		a.mapped -= s.size
		unmapMemory(s.mem[:s.size])
		return
	}
	cl := &a.classes[ch.class]
	ch.free = append(ch.free, s.slot)
	ch.used--
	if ch.at < 0 {
		ch.at = len(cl.open)
		cl.open = append(cl.open, ch)
	}
	if ch.used > 0 || len(cl.open) == 1 {
		return // one empty chunk stays, so that a lone entry does not map and unmap
	}
	last := len(cl.open) - 1
	cl.open[ch.at] = cl.open[last]
	cl.open[ch.at].at = ch.at
	cl.open = cl.open[:last]
	a.paste(ch)
}

// cut takes a chunk of n bytes, one unit or four, from a region with room. a.mu is held.
func (a *arena) cut(n int) (*chunk, error) {
	for _, r := range a.regions {
		if ch := r.cut(n); ch != nil {
			return ch, nil
		}
	}
	mem, err := mapRegion()
	if err != nil {
		return nil, err
	}
	a.mapped += regionSize
	r := &region{mem: mem}
	a.regions = append(a.regions, r)
	return r.cut(n), nil
}

func (r *region) cut(n int) *chunk {
	units := n / unitSize
	for at := 0; at < 8; at += units {
		if mask := uint8(1<<units-1) << at; r.used&mask == 0 {
			r.used |= mask
			from := at * unitSize
			return &chunk{mem: r.mem[from : from+n : from+n], home: r, units: mask}
		}
	}
	return nil
}

// paste gives a chunk back, and its region to the system if it was the last. a.mu is held.
func (a *arena) paste(ch *chunk) {
	r := ch.home
	if r.used &^= ch.units; r.used != 0 {
		return
	}
	a.regions = slices.DeleteFunc(a.regions, func(x *region) bool { return x == r })
	a.mapped -= regionSize
	unmapRegion(r.mem)
}
