package cache

import "golang.org/x/sys/unix"

func mapMemory(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

// unmapMemory takes a whole mapping. Unmapping what mapMemory returned cannot fail.
func unmapMemory(b []byte) { _ = unix.Munmap(b[:len(b):len(b)]) }
