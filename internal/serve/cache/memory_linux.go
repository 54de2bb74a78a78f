package cache

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	readWrite = unix.PROT_READ | unix.PROT_WRITE
	anonymous = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
)

func mapMemory(n int) ([]byte, error) { return unix.Mmap(-1, 0, n, readWrite, anonymous) }

// unmapMemory takes a whole mapping. Unmapping what mapMemory returned cannot fail.
func unmapMemory(b []byte) { _ = unix.Munmap(b[:len(b):len(b)]) }

// mapRegion maps a region at a multiple of its size and asks for a huge page behind it; where
// the kernel has none to give, it is as good as any memory.
func mapRegion() ([]byte, error) {
	p, err := unix.MmapPtr(-1, 0, nil, 2*regionSize, readWrite, anonymous)
	if err != nil {
		return nil, err
	}
	// The upper of the places, so that the next mapping, which comes below, joins this one.
	before := regionSize - uintptr(p)&(regionSize-1)
	mem := unsafe.Slice((*byte)(unsafe.Add(p, before)), regionSize)
	_ = unix.MunmapPtr(p, before) // parts of what was just mapped
	if before < regionSize {
		_ = unix.MunmapPtr(unsafe.Add(p, before+regionSize), regionSize-before)
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // see above
	return mem, nil
}

// unmapRegion cannot fail, as unmapMemory.
func unmapRegion(b []byte) { _ = unix.MunmapPtr(unsafe.Pointer(&b[0]), regionSize) }
