//go:build !linux || (!amd64 && !arm64 && !riscv64)

package pages

import "os"

// watched is a path whose file is identified again and again.
type watched struct{ name string }

func watch(name string) watched { return watched{name} }

// identify looks the path up; the inode is not known here.
func (w *watched) identify() (identity, error) {
	info, err := os.Stat(w.name)
	if err != nil {
		return identity{}, err
	}
	return identityOf(info), nil
}

// identifyOpen knows nothing here: an open file does not show that another has taken its place.
func identifyOpen(uintptr) (id identity, ok bool) { return id, false }

func identityOf(info os.FileInfo) identity {
	return identity{size: info.Size(), modTime: info.ModTime().UnixNano()}
}
