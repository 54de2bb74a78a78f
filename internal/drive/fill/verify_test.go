package fill

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark.dev/internal/model/fileset"
)

func TestVerifyFindsEveryFault(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, Plan{Dirs: 3})
	at := func(name string) string { return filepath.Join(dir, "file_set", filepath.FromSlash(name)) }

	b, err := os.ReadFile(at("dir00000/class3_8"))
	if err != nil {
		t.Fatal(err)
	}
	b[654321] ^= 4
	write(t, at("dir00000/class3_8"), string(b))
	if err := os.Truncate(at("dir00001/class1_0"), 1023); err != nil {
		t.Fatal(err)
	}
	b, _ = os.ReadFile(at("dir00001/class2_2"))
	write(t, at("dir00001/class2_2"), string(append(b, 'x')))
	for _, gone := range []string{"dir00001/class0_3", "dir00001/class0_4"} {
		if err := os.Remove(at(gone)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(at("dir00001/class0_4"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, at("dir00002/class0_9"), "")
	write(t, at("dir00002/.hidden"), "")
	write(t, at("dir00003/class0_0"), "beyond the set")
	write(t, at("readme"), "")
	write(t, filepath.Join(dir, "index.html"), "beside file_set: not our business")

	want := `file_set/dir00000/class3_8: wrong content from byte 654321 on
file_set/dir00001/class0_3: missing
file_set/dir00001/class0_4: not a regular file
file_set/dir00001/class1_0: 1023 bytes, must be 1024
file_set/dir00001/class2_2: 30721 bytes, must be 30720
file_set/dir00002/.hidden: extra
file_set/dir00002/class0_9: extra
file_set/dir00003: extra
file_set/readme: extra`
	if got := faults(t, dir); got != want {
		t.Errorf("found:\n%s\nwant:\n%s", got, want)
	}

	if err := os.RemoveAll(at("dir00000")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(faults(t, dir), "file_set/dir00000/class"); got != 36 {
		t.Errorf("a missing directory counts %d missing files", got)
	}
	// Create puts a missing directory back.
	if c := create(t, dir, Plan{Dirs: 3}); c.Dirs != 1 {
		t.Errorf("rewrote %d directories", c.Dirs)
	}
	if got := faults(t, dir); strings.Contains(got, "dir00000") {
		t.Errorf("not repaired:\n%s", got)
	}
	if err := os.RemoveAll(filepath.Join(dir, "file_set")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(faults(t, dir), "missing"); got != 3*36 {
		t.Errorf("without file_set %d files are missing", got)
	}
}

// A sample looks at the length of every file and the content of some, and the
// choice is even over classes and numbers.
func TestVerifySample(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, Plan{Dirs: 2})
	r, err := Verify(t.Context(), dir, Check{Every: 4, Workers: 2}, func(Progress) {})
	if err != nil || r.Files != 72 || r.Read == 0 || r.Read >= 72 || len(r.Faults) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, every := range []int64{2, 7, 9, 36, 100} {
		const dirs = 2000
		var byFile [fileset.FilesPerDir]int
		for i := range int64(dirs * fileset.FilesPerDir) {
			if sampled(fileset.FileAt(i), every) {
				byFile[i%fileset.FilesPerDir]++
			}
		}
		for i, n := range byFile {
			if want := dirs / int(every); n < want/2-3 || n > want*2+3 {
				t.Errorf("one in %d: file %d is read %d times, want about %d", every, i, n, want)
			}
		}
	}
}
