//go:build !linux

package page

import (
	"io/fs"
	"os"
)

// RootFiles is a Files over a directory of the operating system, without a cache: every Open opens a
// descriptor. For programs that answer one request, and for tests. Symbolic links are followed as long
// as they stay below the directory.
type RootFiles struct{ root *os.Root }

// Root opens a directory as RootFiles.
func Root(dir string) (RootFiles, error) {
	r, err := os.OpenRoot(dir)
	return RootFiles{r}, err
}

// Open opens a file below the root; see Files.
func (r RootFiles) Open(path []byte) (File, error) {
	name, ok := clean(path)
	if !ok {
		return File{}, &fs.PathError{Op: "open", Path: string(path), Err: fs.ErrInvalid}
	}
	return openRooted(r.root, string(name))
}

// Close closes the root. Open files stay open.
func (r RootFiles) Close() error { return r.root.Close() }
