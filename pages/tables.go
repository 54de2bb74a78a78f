package pages

import (
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"tidemark.dev/internal/model/web99"
)

// store keeps the two tables as they were last read, and reads them again when the personality file is
// another one than then: another inode, size or modification time. That is looked up for every request,
// one system call, so that a Reset by any process is seen by the next request of every other.
type store struct {
	users watched
	ads   string

	now atomic.Pointer[loaded]
	mu  sync.Mutex // held while reading
}

// loaded is one reading of both tables; immutable.
type loaded struct {
	*web99.Tables
	users, ads []byte // the files, byte for byte
	of         identity
	modTime    int64
}

// identity tells one state of a file from another.
type identity struct {
	device, inode uint64
	size, modTime int64
}

// same reports whether o is of the same file, changed or not.
func (i identity) same(o identity) bool { return i.device == o.device && i.inode == o.inode }

func newStore(dir string) *store {
	return &store{
		users: watch(filepath.Join(dir, web99.PersonalityName)),
		ads:   filepath.Join(dir, web99.AdsName),
	}
}

// fresh returns the tables as they are on disk now. Any goroutine. No allocation and one system call,
// unless the files changed.
func (s *store) fresh() (*loaded, error) {
	id, err := s.users.identify()
	if err != nil {
		return nil, err
	}
	if t := s.now.Load(); t != nil && t.of == id {
		return t, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.now.Load(); t != nil && t.of == id {
		return t, nil
	}
	t, err := s.read()
	if err == nil {
		s.now.Store(t)
	}
	return t, err
}

// read reads the personality file first. Reset renames it into place last, so whoever got the new one
// here gets the new ads too; whoever got the old one sees another identity next time.
func (s *store) read() (*loaded, error) {
	f, err := os.Open(s.users.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	t := &loaded{of: identityOf(info), modTime: info.ModTime().UnixNano()}
	if t.users, err = io.ReadAll(f); err != nil {
		return nil, err
	}
	if t.ads, err = os.ReadFile(s.ads); err != nil {
		return nil, err
	}
	t.Tables, err = web99.ParseTables(t.users, t.ads)
	return t, err
}
