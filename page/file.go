package page

import (
	"io"
	"io/fs"
	"os"
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

// FromOS makes a File of an open file, from its current size and time. Release closes it.
func FromOS(f *os.File) (File, error) {
	info, err := f.Stat()
	if err != nil {
		return File{}, err
	}
	if !info.Mode().IsRegular() {
		return File{}, fs.ErrInvalid
	}
	return File{Handle: f, Size: info.Size(), ModTime: info.ModTime().UnixNano(), Owner: closer{f}}, nil
}

type closer struct{ f *os.File }

func (c closer) Release() { _ = c.f.Close() }

// RootFiles is the Files that Root returns.
type RootFiles struct{ root *os.Root }

func openRoot(dir string) (RootFiles, error) {
	r, err := os.OpenRoot(dir)
	return RootFiles{r}, err
}

// Open opens a file below the root; see Files.
func (r RootFiles) Open(path []byte) (File, error) {
	for len(path) > 0 && path[0] == '/' {
		path = path[1:]
	}
	name := string(path)
	if !fs.ValidPath(name) {
		return File{}, fs.ErrInvalid
	}
	f, err := r.root.Open(name)
	if err != nil {
		return File{}, err
	}
	out, err := FromOS(f)
	if err != nil {
		_ = f.Close()
	}
	return out, err
}

// Close closes the root. Open files stay open.
func (r RootFiles) Close() error { return r.root.Close() }
