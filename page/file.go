package page

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// File is a file's content for reading: in memory, or behind a descriptor. It is a value; copies share
// one hold on the content, which ends with Release.
type File struct {
	// Bytes is the content when it is in memory. It must not be changed.
	Bytes []byte
	// Handle is the descriptor to read from when Bytes is nil; its file offset is never used.
	Handle *os.File
	// Offset is where the content starts in Handle; 0 for a whole file.
	Offset int64
	// Size is the length in bytes, of Bytes or of the range of Handle.
	Size int64
	// ModTime is the modification time in Unix nanoseconds.
	ModTime int64
	// Owner keeps the content alive; nil if nothing has to be released.
	Owner Releaser
}

// Releaser ends one hold on a file's content.
type Releaser interface{ Release() }

// Release ends the hold on the content. Call it once, unless the file went to Response.SetFile.
func (f File) Release() {
	if f.Owner != nil {
		f.Owner.Release()
	}
}

// InMemory says whether the whole content is in Bytes.
func (f File) InMemory() bool { return f.Bytes != nil || f.Size == 0 }

// ReadAt reads from the content, like io.ReaderAt.
func (f File) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= f.Size {
		return 0, io.EOF
	}
	short := int64(len(p)) > f.Size-off
	if short {
		p = p[:f.Size-off]
	}
	var n int
	var err error
	if f.InMemory() {
		n = copy(p, f.Bytes[off:])
	} else {
		n, err = f.Handle.ReadAt(p, f.Offset+off)
	}
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// AppendTo appends the whole content to b.
func (f File) AppendTo(b []byte) ([]byte, error) {
	if f.InMemory() {
		return append(b, f.Bytes...), nil
	}
	at := len(b)
	b = append(b, make([]byte, f.Size)...)
	n, err := f.ReadAt(b[at:], 0)
	if int64(n) == f.Size {
		return b, nil
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return b[:at], err
}

// FromOS makes a File of an open regular file, from its current size and time. Release closes it; after
// an error it is still open.
func FromOS(f *os.File) (File, error) {
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	if !info.Mode().IsRegular() {
		return File{}, &fs.PathError{Op: "open", Path: f.Name(), Err: fs.ErrInvalid}
	}
	return File{Handle: f, Size: info.Size(), ModTime: info.ModTime().UnixNano(), Owner: closer{f}}, nil
}

type closer struct{ f *os.File }

func (c closer) Release() { _ = c.f.Close() }

// openRooted opens a file with package os alone.
func openRooted(root *os.Root, name string) (File, error) {
	// Without O_NONBLOCK a FIFO below the root would hold the caller until somebody writes to it.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return File{}, classify(err)
	}
	return adopt(f)
}

// adopt is FromOS for a file that nobody else will close.
func adopt(f *os.File) (File, error) {
	out, err := FromOS(f)
	if err != nil {
		_ = f.Close()
	}
	return out, err
}

// Memory is a Files of contents by path, without leading slashes. For tests of pages.
type Memory map[string][]byte

// Open opens a file; see Files.
func (m Memory) Open(path []byte) (File, error) {
	name, ok := clean(path)
	if !ok {
		return File{}, &fs.PathError{Op: "open", Path: string(path), Err: fs.ErrInvalid}
	}
	b, ok := m[string(name)]
	if !ok {
		return File{}, &fs.PathError{Op: "open", Path: string(path), Err: fs.ErrNotExist}
	}
	return File{Bytes: b, Size: int64(len(b))}, nil
}

// clean cuts leading slashes and refuses what is not a plain relative path.
func clean(path []byte) (name []byte, ok bool) {
	for len(path) > 0 && path[0] == '/' {
		path = path[1:]
	}
	at := 0
	for i := 0; i <= len(path); i++ {
		switch {
		case i == len(path) || path[i] == '/':
			if part := string(path[at:i]); part == "" || part == "." || part == ".." {
				return nil, false
			}
			at = i + 1
		case path[i] == 0 || path[i] == '\\':
			return nil, false
		}
	}
	return path, true
}

// classify makes err match one of the errors that Files promises.
func classify(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrInvalid):
		return err
	case errors.Is(err, syscall.ENOTDIR):
		return &refused{fs.ErrNotExist, err}
	}
	return &refused{fs.ErrInvalid, err}
}

// refused is an error of the operating system under one of the names that Files promises.
type refused struct{ kind, err error }

func (r *refused) Error() string   { return r.err.Error() }
func (r *refused) Unwrap() []error { return []error{r.kind, r.err} }
