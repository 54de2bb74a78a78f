// Package cache keeps the files below a document root ready to send: small ones in memory with their
// header block in front of them, large ones as open descriptors.
//
// [New] opens a root. A loop takes a [Local] of it, whose Get answers from the loop's own table without
// lock or allocation, and whose Find reads what Get does not know. Everyone else, pages first of all,
// uses the cache itself: it is a page.Files.
//
// # Coherence
//
// A cached file is compared with the disk (one fstatat) before its first use after Options.Valid has
// passed. Device, inode, size, modification and change time must all be the same. So a change shows
// after at most Valid, and a file that is never asked for costs nothing. A file read within a clock tick
// of its last change is read again at its first comparison, for a second change in that tick would not
// show. A content is always one that the file had: a file that changes while it is read is read again.
//
// # Memory
//
// Contents lie in an arena outside the Go heap. An entry is counted: the table holds it once, every
// Local that knows it once, and every answer under way once; its memory is used again when the last of
// them has let go. Above the bound the least recently used leave first (CLOCK). Local tables learn by
// mail that an entry left, so dropping it costs nothing where nobody asks.
//
// # Disk
//
// Find with quick set never waits for a disk: it opens with RESOLVE_CACHED and reads with RWF_NOWAIT,
// and says [ErrCold] when that is not enough; the caller then does the same without quick where waiting
// is allowed. Sending a descriptor's content may wait for the disk, for that is sendfile's nature.
//
// # Which names
//
// Names are resolved below the root by the kernel (openat2, RESOLVE_BENEATH and NO_MAGICLINKS). Relative
// symbolic links that stay below the root are followed; absolute ones, and those that lead out, do not
// exist. Only regular files are opened. Hidden names and index files are the caller's policy.
package cache

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"tidemark.dev/internal/engine/sysinfo"
	"tidemark.dev/page"
)

// Defaults of Options.
const (
	DefaultFileMax = 128 << 10      // pages that rewrite a file want it in memory, larger ones are downloads
	DefaultInline  = 40 << 10       // measured: one send of memory is cheaper below, sendfile above
	DefaultValid   = time.Second    // as long as a person takes to press reload
	maxDefault     = int64(1) << 30 // of Bytes
	readAhead      = 4 << 20        // of a cold file that goes out by sendfile
	overhead       = 512            // bytes charged for an entry's own structures
)

// Options of a Cache. Zero means the default named with the field.
type Options struct {
	// Root is the directory.
	Root string
	// Bytes bounds the memory of contents; a quarter of the memory this process may use, at most 1 GiB.
	Bytes int64
	// FileMax is the largest file kept in memory, in bytes; DefaultFileMax. It is cut to Bytes/4.
	FileMax int64
	// Inline is the size in bytes from which Local.Find gives a descriptor, not memory; DefaultInline.
	// It is cut to FileMax+1.
	Inline int64
	// Files bounds the kept descriptors; a quarter of the descriptor limit.
	Files int
	// Valid is how long an entry is used without a comparison; DefaultValid; below 0: not at all.
	Valid time.Duration
	// Cooling keeps files out until they have been unchanged for that long.
	Cooling time.Duration
	// Refuse hides files from everybody by their path; they do not exist. Nil hides none.
	Refuse func(path string) bool
	// Describe names the header values of a file and returns its header block, up to and with the
	// empty line, appended to b. Nil: no header block.
	Describe func(b []byte, path string, size, modTime int64) (block []byte, m Meta)
}

// Meta is what answers say about a file besides its content.
type Meta struct {
	Type     string // Content-Type
	ETag     string // with its quotes
	Modified string // Last-Modified
}

// Errors besides those that match fs.ErrNotExist and fs.ErrPermission.
var (
	// ErrDirectory says that the path names a directory.
	ErrDirectory = errors.New("is a directory")
	// ErrCold says that the answer needs the disk.
	ErrCold = errors.New("not in memory")
)

// Cache is a set of files. All methods may be called from any goroutine.
type Cache struct {
	o     Options
	valid int64 // ns
	root  *root
	arena arena

	mu     sync.Mutex
	files  map[string]*Entry // what Local.Find gives
	copies map[string]*Entry // memory for pages of what Find gives as a descriptor
	memory ring
	kept   ring // descriptors
	locals []*Local
	stats  Stats

	leaving atomic.Int64 // bytes of entries dropped but still in use
}

// Stats counts what a cache did, and what it holds.
type Stats struct {
	Hits    int64 // lookups answered without the disk; what Local.Get answers is counted there
	Loads   int64 // files read or opened
	Changed int64 // files found changed or gone
	Evicted int64 // entries that left for want of room
	Passed  int64 // files opened without being kept: cooling, or no room
	Bytes   int64 // memory of the entries, dropped ones still in use included
	Mapped  int64 // memory taken from the system
	Entries int64 // in memory
	Opened  int64 // kept descriptors
}

// New opens a cache over o.Root.
func New(o Options) (*Cache, error) {
	if o.Bytes == 0 {
		o.Bytes = maxDefault
		if all := sysinfo.UsableMemory(sysinfo.Live()); all > 0 {
			o.Bytes = min(all/4, maxDefault)
		}
	}
	if o.FileMax == 0 {
		o.FileMax = DefaultFileMax
	}
	if o.Inline == 0 {
		o.Inline = DefaultInline
	}
	if o.Files == 0 {
		o.Files = int(descriptorLimit() / 4)
	}
	if o.Valid == 0 {
		o.Valid = DefaultValid
	}
	if o.Bytes < 0 || o.FileMax < 0 || o.Inline < 0 || o.Files < 0 || o.Cooling < 0 {
		return nil, errors.New("file cache: negative bound")
	}
	o.FileMax = min(o.FileMax, o.Bytes/4) // no file empties the cache
	o.Inline = min(o.Inline, o.FileMax+1)
	if o.Describe == nil {
		o.Describe = func(b []byte, _ string, _, _ int64) ([]byte, Meta) { return b, Meta{} }
	}
	r, err := newRoot(o.Root)
	if err != nil {
		return nil, err
	}
	return &Cache{
		o: o, valid: int64(o.Valid), root: r,
		files: map[string]*Entry{}, copies: map[string]*Entry{},
		memory: ring{limit: o.Bytes}, kept: ring{limit: int64(o.Files)},
	}, nil
}

// Close drops every entry and closes the root. No Local may be used any more; files handed out stay
// valid until they are released.
func (c *Cache) Close() {
	c.mu.Lock()
	for _, m := range []map[string]*Entry{c.files, c.copies} {
		for _, e := range m {
			c.drop(e)
		}
	}
	locals := c.locals
	c.locals = nil
	c.mu.Unlock()
	for _, l := range locals {
		l.Sweep()
	}
	c.root.close()
}

// Stats returns the counters.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	s := c.stats
	s.Bytes = c.memory.sum + c.leaving.Load()
	s.Entries, s.Opened = int64(len(c.memory.entries)), int64(len(c.kept.entries))
	c.mu.Unlock()
	c.arena.mu.Lock()
	s.Mapped = c.arena.mapped
	c.arena.mu.Unlock()
	return s
}

// Open implements page.Files: memory for files up to FileMax, a descriptor above, or when the content
// would have to be waited for.
func (c *Cache) Open(path []byte) (page.File, error) {
	key, ok := keyOf(path)
	if !ok {
		return page.File{}, fs.ErrInvalid
	}
	e, err := c.acquire(key, forPage, true)
	if err == ErrCold {
		e, err = c.acquire(key, forReading, false)
	}
	if err == ErrDirectory {
		err = fs.ErrInvalid
	}
	if err != nil {
		return page.File{}, err
	}
	return e.File(), nil
}

// Acquire is Local.Find for those who have no Local: the caller owns one hold and releases it.
func (c *Cache) Acquire(path []byte, quick bool) (*Entry, error) {
	key, ok := keyOf(path)
	if !ok {
		return nil, fs.ErrInvalid
	}
	return c.acquire(key, forCarrier, quick)
}

// keyOf brings a path into the form of the tables: one leading slash, no empty or dot segments. Paths
// that carriers have cleaned pass without a copy of any kind.
func keyOf(path []byte) ([]byte, bool) {
	for len(path) > 1 && path[0] == '/' && path[1] == '/' {
		path = path[1:]
	}
	if len(path) == 0 {
		return nil, false
	}
	if path[0] != '/' {
		path = append([]byte{'/'}, path...)
	}
	start := 1
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			if path[i] == 0 {
				return nil, false
			}
			continue
		}
		switch segment := path[start:i]; {
		case string(segment) == ".", string(segment) == "..":
			return nil, false
		case len(segment) == 0 && i < len(path):
			return nil, false
		}
		start = i + 1
	}
	return path, true
}

// ring is the CLOCK: entries in a circle, and a hand that takes the first one it finds unused since it
// last came by.
type ring struct {
	entries []*Entry
	hand    int
	sum     int64 // of the entries' charges
	limit   int64
}

func (r *ring) add(e *Entry) {
	e.at = len(r.entries)
	r.entries = append(r.entries, e)
	r.sum += e.charge
}

func (r *ring) remove(e *Entry) {
	last := len(r.entries) - 1
	r.entries[e.at] = r.entries[last]
	r.entries[e.at].at = e.at
	r.entries[last] = nil
	r.entries = r.entries[:last]
	r.sum -= e.charge
}

// victim returns the entry to leave next.
func (r *ring) victim() *Entry {
	for {
		if r.hand >= len(r.entries) {
			r.hand = 0
		}
		e := r.entries[r.hand]
		if !e.used.CompareAndSwap(true, false) {
			return e
		}
		r.hand++
	}
}

// ringOf returns the ring that an entry is charged to.
func (c *Cache) ringOf(e *Entry) *ring {
	if e.fd >= 0 {
		return &c.kept
	}
	return &c.memory
}

// admit makes room for e and puts it into the table. It reports false when there is no room: e then
// serves one answer. c.mu is held.
func (c *Cache) admit(e *Entry) bool {
	r := c.ringOf(e)
	if e.charge > r.limit {
		return false
	}
	for r.sum+e.charge > r.limit {
		c.stats.Evicted++
		c.drop(r.victim())
	}
	// What left may still be in use by slow readers; an eighth more than the bound, not all of it again.
	if r == &c.memory && r.sum+e.charge+c.leaving.Load() > r.limit+r.limit/8 {
		return false
	}
	c.table(e)[e.key] = e
	e.refs.Add(1)
	r.add(e)
	return true
}

// table returns the table that e belongs to.
func (c *Cache) table(e *Entry) map[string]*Entry {
	if e.fd < 0 && e.Size >= c.o.Inline {
		return c.copies
	}
	return c.files
}

// drop takes e out of the table and tells the locals. c.mu is held.
func (c *Cache) drop(e *Entry) {
	m := c.table(e)
	if m[e.key] != e {
		return
	}
	delete(m, e.key)
	r := c.ringOf(e)
	r.remove(e)
	if r == &c.memory {
		c.leaving.Add(e.charge)
		e.left = true
	}
	for i, l := range c.locals {
		if e.holders&(1<<(i&63)) != 0 {
			l.tell(e)
		}
	}
	e.Release()
}

var _ page.Files = (*Cache)(nil)
