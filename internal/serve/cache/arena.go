package cache

import (
	"math/bits"
	"sync"
)

// The arena keeps file contents in mapped memory that the garbage collector does not see: a collector
// that need not scan gigabytes stays invisible, and memory given back really goes back to the system.
//
// Memory comes in chunks; a chunk holds slots of one size. Sizes step by a quarter of a power of two, so
// at most a fifth of a slot is wasted, and web content, where many files share few sizes, wastes little.
// Above largeMin an allocation is a mapping of its own.
const (
	slotMin   = 256
	largeMin  = 256 << 10
	chunkSize = 1 << 20
	pageSize  = 4096
)

// span is one allocation. The zero span is no memory.
type span struct {
	mem   []byte // of the size asked for, aligned to 64 bytes
	size  int64  // taken from the system
	chunk *chunk // nil for a mapping of its own
	slot  int32
}

type chunk struct {
	mem   []byte
	class int
	free  []int32 // free slots
	used  int
	at    int // index in class.open while there are free slots, else -1
}

type arena struct {
	mu      sync.Mutex
	classes [classCount]class
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
		mem, err := mapMemory(chunkSize)
		if err != nil {
			return span{}, err
		}
		a.mapped += chunkSize
		ch := &chunk{mem: mem, class: c, at: len(cl.open)}
		for i := chunkSize/size - 1; i >= 0; i-- {
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
	a.mapped -= chunkSize
	unmapMemory(ch.mem)
}
