package cache

import (
	"io/fs"
	"syscall"
	"time"

	"tidemark.dev/internal/ground/clock"
)

// want says what a caller can use.
type want uint8

const (
	forCarrier want = iota // memory below Inline, else a descriptor
	forPage                // memory up to FileMax, else a descriptor
	forReading             // what is there; never waits for content: a descriptor if need be
)

// rereads bounds how often a file is read again because it changed meanwhile.
const rereads = 3

// acquire returns the current entry of a key with one hold for the caller.
func (c *Cache) acquire(key []byte, w want, quick bool) (*Entry, error) {
	now := clock.Now()
	if e := c.lookup(key, w); e != nil {
		if c.current(e, now) {
			return e, nil
		}
		e.Release()
	}
	e, err := c.load(string(key), w, quick)
	if err != nil {
		return nil, err
	}
	return c.settle(e), nil
}

// lookup finds an entry that fits and takes a hold on it for the caller.
func (c *Cache) lookup(key []byte, w want) *Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.files[string(key)]
	if w == forPage && (e == nil || e.fd >= 0 && e.Size <= c.o.FileMax) {
		e = c.copies[string(key)]
	}
	if e == nil {
		return nil
	}
	c.stats.Hits++
	if !e.used.Load() {
		e.used.Store(true)
	}
	e.refs.Add(1)
	return e
}

// current reports whether e may be used now, after a comparison if one is due; else it is dropped.
func (c *Cache) current(e *Entry, now clock.Instant) bool {
	old := e.checked.Load()
	if int64(now)-old <= c.valid {
		return !e.dead.Load()
	}
	if !e.checked.CompareAndSwap(old, int64(now)) {
		return !e.dead.Load() // somebody else is comparing
	}
	var id identity
	same := c.root.stat(e.name, &id) == 0 && id == e.id && !e.racy
	if same {
		return true
	}
	e.dead.Store(true)
	c.mu.Lock()
	c.stats.Changed++
	c.drop(e)
	c.mu.Unlock()
	return false
}

// settle puts a fresh entry into the table, with a hold for the caller, unless it is to be passed on
// without being kept. Of two that read the same file at once, the second takes the first one's.
func (c *Cache) settle(e *Entry) *Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Loads++
	if e.once {
		c.stats.Passed++
		return e
	}
	if old := c.table(e)[e.key]; old != nil {
		if old.id == e.id && !old.dead.Load() {
			e.Release()
			e = old
			e.refs.Add(1)
			return e
		}
		old.dead.Store(true)
		c.drop(old)
	}
	if !c.admit(e) {
		e.once = true
		c.stats.Passed++
	}
	return e
}

// load opens the file of a key and makes an entry with one hold. It may wait for the disk unless quick.
func (c *Cache) load(key string, w want, quick bool) (*Entry, error) {
	if c.o.Refuse != nil && c.o.Refuse(key) {
		return nil, fs.ErrNotExist
	}
	e := &Entry{cache: c, key: key, fd: -1}
	e.refs.Store(1)
	e.name = append(append(make([]byte, 0, len(key)+2), key[1:]...), 0)
	if len(key) == 1 {
		e.name = append(e.name[:0], '.', 0)
	}
	for try := 0; ; try++ {
		again, err := c.read(e, w, quick, try == rereads)
		if err != nil {
			return nil, err
		}
		if !again {
			return e, nil
		}
	}
}

// read fills e from the disk. again: the file changed meanwhile. With last it is taken as it is, for
// this one answer.
func (c *Cache) read(e *Entry, w want, quick, last bool) (again bool, err error) {
	fd, errno := c.root.open(e.name, quick)
	if errno != 0 {
		return false, openError(errno)
	}
	keep := false
	defer func() {
		if !keep {
			closeFD(fd)
		}
	}()
	if err := statOf(fd, &e.id); err != nil {
		return false, err
	}
	switch {
	case e.id.directory():
		return false, ErrDirectory
	case !e.id.regular():
		return false, fs.ErrPermission
	case e.key[len(e.key)-1] == '/':
		return false, fs.ErrNotExist
	}
	now := time.Now()
	e.checked.Store(int64(clock.Now()))
	e.racy = !e.id.settled(now)
	e.Size, e.ModTime = e.id.size, e.id.mtime
	e.once = c.o.Cooling > 0 && now.UnixNano()-e.ModTime < int64(c.o.Cooling)
	head, meta := c.o.Describe(nil, e.key, e.Size, e.ModTime)
	e.Meta, e.head = meta, len(head)

	inMemory := e.Size <= c.o.FileMax && (w != forCarrier || e.Size < c.o.Inline) && w != forReading
	if inMemory && e.charged() <= c.o.Bytes {
		again, err = c.fill(e, fd, head, quick, last)
		return again, err
	}
	e.once = e.once || w == forReading && e.Size < c.o.Inline
	if quick && e.Size > 0 {
		var b [1]byte
		if _, err := readQuick(fd, b[:], 0); err != nil {
			return false, ErrCold
		}
	} else {
		willNeed(fd, min(e.Size, readAhead))
	}
	e.block, e.charge = head, 1
	e.fd, e.file = fd, handleOf(fd, e.key)
	keep = true
	return false, nil
}

// charged is what e takes of the memory bound.
func (e *Entry) charged() int64 { return chargeOf(e.head+int(e.Size)) + overhead }

// fill reads the content into memory behind its header block.
func (c *Cache) fill(e *Entry, fd int, head []byte, quick, last bool) (again bool, err error) {
	s, err := c.arena.alloc(len(head) + int(e.Size))
	if err != nil {
		return false, err
	}
	defer func() {
		if again || err != nil {
			c.arena.release(s)
		}
	}()
	copy(s.mem, head)
	body := s.mem[len(head):]
	var n int
	if quick {
		n, err = readQuick(fd, body, 0)
		if err == nil && n < len(body) || err == syscall.EAGAIN {
			return false, ErrCold
		}
	} else {
		n, err = read(fd, body, 0)
	}
	if err != nil {
		return false, err
	}
	var after identity
	if err := statOf(fd, &after); err != nil {
		return false, err
	}
	if after != e.id || n < len(body) {
		if !last {
			return true, nil
		}
		if n < len(body) {
			return false, fs.ErrNotExist // it shrinks faster than it can be read
		}
		e.once = true
	}
	e.span, e.block, e.charge = s, s.mem, e.charged()
	if e.head+len(body) == 0 {
		e.block = []byte{}
	}
	return false, nil
}

// openError turns an errno of opening into what callers tell apart.
func openError(errno syscall.Errno) error {
	switch errno {
	case syscall.EAGAIN:
		return ErrCold
	case syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EXDEV, syscall.ENXIO, syscall.EINVAL:
		// No such name, a name no file can have, a link that leads nowhere or out of the root, a
		// socket: all of them are nothing that could be served.
		return fs.ErrNotExist
	}
	return errno
}
