package cache

import (
	"os"
	"sync/atomic"

	"tidemark.dev/page"
)

// Entry is one version of one file, in memory or as a descriptor. What it holds never changes; whoever
// has a hold on it may use all of it.
type Entry struct {
	Meta
	Size    int64 // bytes of content
	ModTime int64 // Unix ns

	cache *Cache
	key   string
	name  []byte // relative to the root, with a NUL at the end
	id    identity
	once  bool // never in the table: serves one answer

	block []byte // header block; the content behind it if in memory
	head  int    // length of the header block
	span  span
	file  *os.File
	fd    int // -1: in memory

	refs    atomic.Int64
	checked atomic.Int64 // when it was last compared with the disk, clock.Instant
	used    atomic.Bool  // since the CLOCK's hand passed
	dead    atomic.Bool  // found changed, or dropped
	racy    bool         // read too soon after its last change to trust a comparison

	charge  int64  // bytes of memory, or 1 descriptor
	at      int    // in its ring; guarded by cache.mu
	holders uint64 // locals that may know it, by index mod 64; guarded by cache.mu
	left    bool   // its charge is in cache.leaving
}

// InMemory says whether the content is in memory; otherwise FD has it.
func (e *Entry) InMemory() bool { return e.fd < 0 }

// Head is the header block.
func (e *Entry) Head() []byte { return e.block[:e.head:e.head] }

// Block is the header block and behind it the content; only for entries in memory.
func (e *Entry) Block() []byte { return e.block }

// Body is the content; nil if not in memory.
func (e *Entry) Body() []byte {
	if e.fd >= 0 {
		return nil
	}
	return e.block[e.head:]
}

// FD is the descriptor to read the content from, at offsets given explicitly; -1 if in memory.
func (e *Entry) FD() int { return e.fd }

// File is the entry as pages see it. It takes over one hold of the caller.
func (e *Entry) File() page.File {
	return page.File{Bytes: e.Body(), Handle: e.file, Size: e.Size, ModTime: e.ModTime, Owner: e}
}

// Retain takes another hold. The caller must have one, or be a loop whose Local has one.
// Any goroutine. No allocation.
func (e *Entry) Retain() { e.refs.Add(1) }

// Release ends a hold. Any goroutine. No allocation.
func (e *Entry) Release() {
	if n := e.refs.Add(-1); n > 0 {
		return
	} else if n < 0 {
		panic("cache: entry released more often than held")
	}
	c := e.cache
	if e.file != nil {
		_ = e.file.Close()
		return
	}
	if e.left {
		c.leaving.Add(-e.charge)
	}
	e.block = nil
	c.arena.release(e.span)
}
