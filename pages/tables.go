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
// another one than then. Every request asks for that with one system call, so that a Reset by any process
// is seen by the next request of every other: Reset puts a new file into the old one's place, which changes
// the old one, and that is held open. Once a second, for folders that are moved, the path is looked up.
type store struct {
	users watched
	ads   string

	now    atomic.Pointer[loaded]
	looked atomic.Int64 // second of the last look at the path
	mu     sync.Mutex   // held while reading
}

// loaded is one reading of both tables; immutable.
type loaded struct {
	*web99.Tables
	users, ads []byte // the files, byte for byte
	file       *os.File
	fd         uintptr // of file; once that is closed, of nothing or of a file with another identity
	of         identity
	modTime    int64
}

// identity tells one state of a file from another. Where the kernel does not say how many links a file has
// and when it was changed (written, linked, renamed), those are 0.
type identity struct {
	device, inode, links   uint64
	size, modTime, changed int64
}

// same reports whether o is of the same file, changed or not.
func (i identity) same(o identity) bool { return i.device == o.device && i.inode == o.inode }

func newStore(dir string) *store {
	return &store{
		users: watch(filepath.Join(dir, web99.PersonalityName)),
		ads:   filepath.Join(dir, web99.AdsName),
	}
}

// fresh returns the tables as they are on disk; second is the present one, of any clock. Any goroutine. No
// allocation and one system call, another one once a second, unless the files changed.
func (s *store) fresh(second int64) (*loaded, error) {
	if t := s.now.Load(); t != nil && s.looked.Load() == second {
		if id, ok := identifyOpen(t.fd); ok && id == t.of {
			return t, nil
		}
	}
	t, err := s.look()
	if err == nil {
		s.looked.Store(second)
	}
	return t, err
}

// look is fresh by the path.
func (s *store) look() (*loaded, error) {
	id, err := s.users.identify()
	if err != nil {
		return nil, err
	}
	if t := s.now.Load(); t != nil && t.of == id {
		return t, nil
	}
	return s.replace(id)
}

// replace reads the tables unless another goroutine has just done so for id.
func (s *store) replace(id identity) (*loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.now.Load()
	if old != nil && old.of == id {
		return old, nil
	}
	t, err := s.read()
	if err != nil {
		return nil, err
	}
	s.now.Store(t)
	_ = old.close() // it was only read
	return t, nil
}

func (s *store) close() error { return s.now.Load().close() }

func (t *loaded) close() error {
	if t == nil {
		return nil
	}
	return t.file.Close()
}

// read reads the personality file first. Reset renames it into place last, so whoever got the new one
// here gets the new ads too; whoever got the old one sees another identity next time.
func (s *store) read() (*loaded, error) {
	f, err := os.Open(s.users.name)
	if err != nil {
		return nil, err
	}
	t := &loaded{file: f, fd: f.Fd()}
	if err := t.fill(s.ads); err != nil {
		_ = f.Close()
		return nil, err
	}
	return t, nil
}

func (t *loaded) fill(ads string) error {
	info, err := t.file.Stat()
	if err != nil {
		return err
	}
	t.of, t.modTime = identityOf(info), info.ModTime().UnixNano()
	if t.users, err = io.ReadAll(t.file); err != nil {
		return err
	}
	if t.ads, err = os.ReadFile(ads); err != nil {
		return err
	}
	t.Tables, err = web99.ParseTables(t.users, t.ads)
	return err
}
