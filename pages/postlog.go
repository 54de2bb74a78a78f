package pages

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"tidemark.dev/internal/model/web99"
	"tidemark.dev/page"
)

// postLog appends to the post log of a directory. Any number of goroutines and processes may do so at
// once: a mutex orders the goroutines of a process, an flock on the file orders the processes.
//
// The number of records is the file's size, never its count line; the line is only written, and lags
// behind until Fetch, Reset or the end of a writer: a second write for each POST would cost as much as the
// record. Order of writes: the record, then the answer to the client. A process that dies in between
// leaves a record without an answer, which is allowed. Bytes after the last whole record are of an append
// that never was answered; the next holder of the lock cuts them off.
type postLog struct {
	path watched

	mu   sync.Mutex
	file *os.File // opened at first use, again when path names another file
	of   identity // of file; only device and inode
	buf  [web99.RecordSize]byte
}

func newPostLog(dir string) *postLog {
	return &postLog{path: watch(filepath.Join(dir, web99.PostLogName))}
}

func (l *postLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.settle()
	if e := l.file.Close(); err == nil {
		err = e
	}
	l.file = nil
	return err
}

// settle brings the count line up to date, unless the log has been moved away.
func (l *postLog) settle() error {
	if err := flock(l.file); err != nil {
		return err
	}
	defer l.unlock()
	id, err := l.path.identify()
	if err != nil || !l.of.same(id) {
		return nil
	}
	n, err := l.mend(id.size)
	if err == nil {
		err = l.writeCount(n)
	}
	return err
}

// append gives r its number and writes it. No allocation.
func (l *postLog) append(r *web99.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.lock()
	if err != nil {
		return err
	}
	defer l.unlock()
	r.Number = n + 1
	b, ok := web99.AppendRecord(l.buf[:0], r)
	if !ok {
		return errors.New("a value does not fit its column")
	}
	if _, err = l.file.WriteAt(b, web99.LogSize(n)); err != nil {
		// Take the record back: its POST is answered with an error. If even that fails, the record may
		// stay, as for a client that never saw its answer.
		_ = l.file.Truncate(web99.LogSize(n))
	}
	return err
}

// fetch refreshes the count line and returns the n records, without that line, as a file of its own.
// What is appended later does not show in it.
func (l *postLog) fetch() (f page.File, n int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, err = l.lock(); err != nil {
		return f, 0, err
	}
	defer l.unlock()
	if err = l.writeCount(n); err != nil {
		return f, 0, err
	}
	h, err := os.Open(l.path.name)
	if err != nil {
		return f, 0, err
	}
	if f, err = page.FromOS(h); err != nil {
		_ = h.Close()
		return f, 0, err
	}
	f.Offset, f.Size = web99.CountSize, web99.LogSize(n)-web99.CountSize
	return f, n, nil
}

// reset empties the log after do, both under the lock.
func (l *postLog) reset(do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.lock(); err != nil {
		return err
	}
	defer l.unlock()
	if err := do(); err != nil {
		return err
	}
	if err := l.file.Truncate(web99.CountSize); err != nil {
		return err
	}
	return l.writeCount(0)
}

// lock takes the flock on the file that path names, made if there is none, cuts off a torn record and
// returns the number of whole ones. l.mu is held.
func (l *postLog) lock() (n int64, err error) {
	for {
		if l.file == nil {
			if err := l.open(); err != nil {
				return 0, err
			}
		}
		if err := flock(l.file); err != nil {
			return 0, err
		}
		id, err := l.path.identify()
		if err == nil && l.of.same(id) {
			if n, err = l.mend(id.size); err != nil {
				l.unlock()
			}
			return n, err
		}
		l.unlock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		// The file was moved away or replaced since it was opened.
		_ = l.file.Close()
		l.file = nil
	}
}

func (l *postLog) unlock() { funlock(l.file) }

func (l *postLog) open() error {
	f, err := os.OpenFile(l.path.name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	l.file, l.of = f, identityOf(info)
	return nil
}

// mend makes a file of size bytes one of whole records. The flock is held.
func (l *postLog) mend(size int64) (n int64, err error) {
	n, rest := web99.LogCount(size)
	if rest == 0 && size > 0 {
		return n, nil
	}
	if err := l.file.Truncate(web99.LogSize(n)); err != nil {
		return 0, err
	}
	return n, l.writeCount(n)
}

func (l *postLog) writeCount(n int64) error {
	b, ok := web99.AppendCount(l.buf[:0], n)
	if !ok {
		return errors.New("too many records for the count line")
	}
	_, err := l.file.WriteAt(b, 0)
	return err
}
