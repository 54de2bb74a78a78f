package cache

import (
	"strings"
	"sync"
	"sync/atomic"

	"tidemark.dev/internal/ground/clock"
)

// Local is one loop's view of a cache: a table of its own, so that the loops share nothing while they
// answer from memory. It belongs to the loop goroutine.
//
// What makes Get cheap is that a Local has one hold on every entry in its table and gives it back only
// in Sweep: an entry that Get or Find returned is valid until the next call of a method of the Local,
// without being counted. Whoever keeps it longer takes a hold with Retain.
type Local struct {
	cache *Cache
	index int
	table map[string]*Entry
	also  map[*Entry]string // second path of an entry
	wake  func()
	hits  int64

	mail atomic.Bool // gone is not empty
	mu   sync.Mutex
	gone []*Entry // dropped by the cache; perhaps in the table
}

// Local returns a view for one loop. wake is called, on any goroutine, when Sweep has something to do
// and the loop may be asleep; it must not block, and has Sweep called on the loop. Nil: Sweep waits for
// the next Get.
func (c *Cache) Local(wake func()) *Local {
	l := &Local{cache: c, table: map[string]*Entry{}, also: map[*Entry]string{}, wake: wake}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.index = len(c.locals)
	c.locals = append(c.locals, l)
	return l
}

// Hits is the number of times that Get found an entry. Loop goroutine.
func (l *Local) Hits() int64 { return l.hits }

// Get returns the entry that Find gave for this path earlier, if it may still be used at now; else nil.
//
// The path is the one of the request: its bytes are looked up as they are, before any decoding. Only
// paths that mean themselves are in the table: Find keeps none with a percent sign.
//
// Loop goroutine. No allocation. Blocks only for the comparison with the disk after Options.Valid. The
// entry is valid until the next call.
func (l *Local) Get(path []byte, now clock.Instant) *Entry {
	if l.mail.Load() {
		l.Sweep()
	}
	e := l.table[string(path)]
	if e == nil {
		return nil
	}
	if int64(now)-e.checked.Load() > l.cache.valid && !l.cache.current(e, now) {
		l.Sweep()
		return nil
	}
	if !e.used.Load() {
		e.used.Store(true)
	}
	l.hits++
	return e
}

// Find returns the entry of a clean path, reading the file if need be. owned: the caller has a hold on
// the entry and releases it after use; otherwise the entry is as from Get. Errors match fs.ErrNotExist,
// fs.ErrPermission, ErrDirectory, ErrCold if quick, or are the system's.
//
// also is a second path for the same file, such as the directory of an index file, or empty.
//
// Loop goroutine. Allocates. Blocks for the disk, unless quick.
func (l *Local) Find(path, also []byte, now clock.Instant, quick bool) (e *Entry, owned bool, err error) {
	if e := l.Get(path, now); e != nil {
		l.alias(e, also)
		return e, false, nil
	}
	c := l.cache
	if e = c.lookup(path, forCarrier); e != nil && !c.current(e, now) {
		e.Release()
		e = nil
	}
	if e == nil {
		if e, err = c.load(string(path), forCarrier, quick); err != nil {
			return nil, false, err
		}
		e = c.settle(e)
	}
	return e, l.Adopt(e, also), nil
}

// Adopt moves the caller's hold on an entry into the table, where Get finds it by its own path and by
// also. owned: that was not possible, and the hold is still the caller's. Loop goroutine. Allocates.
func (l *Local) Adopt(e *Entry, also []byte) (owned bool) {
	c := l.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.once || c.table(e)[e.key] != e || strings.IndexByte(e.key, '%') >= 0 {
		return true
	}
	// e is the current one and c.mu is held: a letter about whatever the table knows under this key
	// has been sent, and one about e has not.
	l.Sweep()
	e.holders |= 1 << (l.index & 63)
	if l.table[e.key] == e {
		e.Release()
	} else {
		l.table[e.key] = e
	}
	l.alias(e, also)
	return false
}

// alias makes e known under a second path.
func (l *Local) alias(e *Entry, path []byte) {
	if len(path) == 0 || l.table[string(path)] == e {
		return
	}
	key := string(path)
	l.table[key] = e
	l.also[e] = key
}

// tell says that e was dropped. Any goroutine. Does not block.
func (l *Local) tell(e *Entry) {
	l.mu.Lock()
	l.gone = append(l.gone, e)
	first := !l.mail.Swap(true)
	l.mu.Unlock()
	if first && l.wake != nil {
		l.wake()
	}
}

// Sweep forgets what the cache has dropped. Entries returned by Get are no longer valid. Loop goroutine.
func (l *Local) Sweep() {
	l.mu.Lock()
	gone := l.gone
	l.gone = nil
	l.mail.Store(false)
	l.mu.Unlock()
	for _, e := range gone {
		if l.table[e.key] != e {
			continue // told, but never learnt
		}
		delete(l.table, e.key)
		if key, ok := l.also[e]; ok {
			delete(l.also, e)
			if l.table[key] == e {
				delete(l.table, key)
			}
		}
		e.Release()
	}
}
