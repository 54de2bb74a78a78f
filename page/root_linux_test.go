package page

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOldKernels runs the way without openat2 over the same cases that matter.
func TestOldKernels(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	now, err := Root(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]RootFiles{"package os": {root: root}, "as the kernel allows": now} {
		f, err := r.Open([]byte("/f"))
		if b, e := f.AppendTo(nil); err != nil || e != nil || string(b) != "text" {
			t.Errorf("%s: %q %v %v", name, b, err, e)
		}
		f.Release()
		for _, path := range []string{"/out", "/fifo", "/none", "/f/x"} {
			if f, err := r.Open([]byte(path)); err == nil {
				f.Release()
				t.Errorf("%s: %s opened", name, path)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
