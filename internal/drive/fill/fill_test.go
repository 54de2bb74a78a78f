package fill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const seed = 42

// create makes a set that must succeed.
func create(t *testing.T, dir string, plan Plan) Created {
	t.Helper()
	plan.Seed = seed
	c, err := Create(t.Context(), dir, plan, nil)
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if c.Set.State != Complete || c.Set.Done != nil || c.Set.Wanted != 0 {
		t.Fatalf("create left %+v", c.Set)
	}
	return c
}

// faults verifies a set and returns what is wrong, one line each.
func faults(t *testing.T, dir string) string {
	t.Helper()
	r, err := Verify(t.Context(), dir, Check{}, nil)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	if want := int64(r.Set.Dirs) * fileset.FilesPerDir; r.Files != want {
		t.Errorf("verified %d files, want %d", r.Files, want)
	}
	if r.OK() != (len(r.Faults) == 0 && r.Set.State == Complete) {
		t.Error("OK disagrees with the faults")
	}
	var lines []string
	for _, f := range r.Faults {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// tree lists everything below dir, directories with a slash.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && p != dir {
			rel, _ := filepath.Rel(dir, p)
			if rel = filepath.ToSlash(rel); e.IsDir() {
				rel += "/"
			}
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// wantTree is what a set of so many directories looks like.
func wantTree(dirs int) []string {
	all := []string{ManifestName, "file_set/"}
	for d := range dirs {
		all = append(all, dirPath(d)+"/")
		for i := range int64(fileset.FilesPerDir) {
			all = append(all, fileset.FileAt(int64(d)*fileset.FilesPerDir + i).String()[1:])
		}
	}
	slices.Sort(all)
	return all
}

func sameTree(t *testing.T, dir string, dirs int, more ...string) {
	t.Helper()
	got, want := tree(t, dir), append(wantTree(dirs), more...)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %d entries, want %d", dir, len(got), len(want))
		for _, n := range got {
			if !slices.Contains(want, n) {
				t.Errorf("  unexpected %s", n)
			}
		}
		for _, n := range want {
			if !slices.Contains(got, n) {
				t.Errorf("  absent %s", n)
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestCreate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "set")
	var last Progress
	calls := 0
	c, err := Create(t.Context(), dir, Plan{Dirs: 2, Seed: seed}, func(p Progress) { last, calls = p, calls+1 })
	if err != nil {
		t.Fatal(err)
	}
	if c.Dirs != 2 || c.Bytes != 2*fileset.DirBytes || c.Set.Dirs != 2 || !c.Set.MadeRoot {
		t.Errorf("created %+v", c)
	}
	if calls == 0 || last.FilesDone != 72 || last.Files != 72 || last.BytesDone != last.Bytes || last.Bytes != 2*fileset.DirBytes {
		t.Errorf("after %d calls: last progress %+v", calls, last)
	}
	sameTree(t, dir, 2)
	if got := faults(t, dir); got != "" {
		t.Errorf("faults:\n%s", got)
	}
	b, err := os.ReadFile(filepath.Join(dir, "file_set/dir00001/class2_8"))
	if err != nil {
		t.Fatal(err)
	}
	var content fileset.Content
	content.Init(fileset.File{Dir: 1, Class: 2, Num: 8}, seed)
	if int64(len(b)) != content.Size() || content.Check(b, 0) != -1 {
		t.Error("a file does not hold what the law says")
	}
	if m, err := Read(dir); err != nil || fmt.Sprint(m) != fmt.Sprint(c.Set) {
		t.Errorf("manifest %+v, %v", m, err)
	}
	// Nothing is written again, and a smaller plan is satisfied by a larger set.
	for _, dirs := range []int{2, 1} {
		if again := create(t, dir, Plan{Dirs: dirs}); again.Dirs != 0 || again.Bytes != 0 || again.Set.Dirs != 2 {
			t.Errorf("%d directories again: %+v", dirs, again)
		}
	}
}

func TestGrow(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, Plan{Dirs: 1})
	kept := filepath.Join(dir, "file_set/dir00000/class0_0")
	before, err := os.Stat(kept)
	if err != nil {
		t.Fatal(err)
	}
	if c := create(t, dir, Plan{Dirs: 3, Workers: 1}); c.Dirs != 2 || c.Set.Dirs != 3 || c.Set.MadeRoot {
		t.Errorf("grown: %+v", c)
	}
	after, err := os.Stat(kept)
	if err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("growing wrote an old file again: %v", err)
	}
	sameTree(t, dir, 3)
	if got := faults(t, dir); got != "" {
		t.Errorf("faults:\n%s", got)
	}
}

// interrupt runs Create and cancels it after n directories.
func interrupt(t *testing.T, dir string, dirs, n, workers int) Created {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wrote atomic.Int32
	c, err := Create(ctx, dir, Plan{Dirs: dirs, Seed: seed, Workers: workers, wrote: func(int) {
		if wrote.Add(1) == int32(n) {
			cancel()
		}
	}}, nil)
	if !errors.Is(err, context.Canceled) || len(fault.Hints(err)) == 0 {
		t.Fatalf("interrupted: %v", err)
	}
	if c.Dirs < n || c.Dirs >= dirs || c.Set.State != Writing || c.Set.Wanted != dirs {
		t.Fatalf("interrupted after %d: %+v", n, c)
	}
	return c
}

func TestResume(t *testing.T) {
	dir := t.TempDir()
	first := interrupt(t, dir, 4, 2, 1)
	if r, err := Verify(t.Context(), dir, Check{}, nil); err != nil || r.OK() || len(r.Faults) != 0 {
		t.Errorf("an interrupted set: %+v, %v", r, err)
	}
	second := create(t, dir, Plan{Dirs: 4})
	if runtime.GOOS == "linux" && first.Dirs+second.Dirs != 4 {
		t.Errorf("wrote %d, then %d directories of 4", first.Dirs, second.Dirs)
	}
	sameTree(t, dir, 4)
	if got := faults(t, dir); got != "" {
		t.Errorf("faults:\n%s", got)
	}
}

// After a crash of the host, directories that were written but never
// synchronised are not believed, whatever their files look like.
func TestResumeAfterReboot(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, Plan{Dirs: 1})
	interrupt(t, dir, 4, 2, 1)
	zero := filepath.Join(dir, "file_set/dir00001/class3_0")
	if err := os.WriteFile(zero, make([]byte, 102400), 0o644); err != nil { // what a lost page looks like
		t.Fatal(err)
	}
	m, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.Dirs != 1 {
		t.Fatalf("only the first directory is certain: %+v", m)
	}
	m.Boot = "another"
	b, _ := json.Marshal(m)
	write(t, filepath.Join(dir, ManifestName), string(b))
	if c := create(t, dir, Plan{Dirs: 4}); c.Dirs != 3 {
		t.Errorf("wrote %d directories, want 3", c.Dirs)
	}
	if got := faults(t, dir); got != "" {
		t.Errorf("faults:\n%s", got)
	}
}

// A smaller plan after an interrupted larger one leaves exactly the smaller set.
func TestSmallerPlanAfterInterruption(t *testing.T) {
	dir := t.TempDir()
	interrupt(t, dir, 5, 3, 2)
	if c := create(t, dir, Plan{Dirs: 2}); c.Set.Dirs != 2 {
		t.Errorf("set %+v", c.Set)
	}
	sameTree(t, dir, 2)
	if got := faults(t, dir); got != "" {
		t.Errorf("faults:\n%s", got)
	}
}

// A failure in the middle is an error that leaves a state to resume, too.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, Plan{Dirs: 1})
	obstacle := filepath.Join(dir, "file_set/dir00002")
	write(t, obstacle, "a file where a directory has to be")
	c, err := Create(t.Context(), dir, Plan{Dirs: 4, Seed: seed}, nil)
	if err == nil || fault.OriginOf(err) != fault.Driver {
		t.Fatalf("created %+v, %v", c, err)
	}
	if m, err := Read(dir); err != nil || m.State != Writing || m.Dirs != 1 {
		t.Fatalf("left %+v, %v", m, err)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	create(t, dir, Plan{Dirs: 4})
	if got := faults(t, dir); got != "" {
		t.Errorf("faults:\n%s", got)
	}
}

// The disk is given the set while it is written. What it refuses is not believed later, for the kernel reports a failed
// write once and then has forgotten the content.
func TestDiskFails(t *testing.T) {
	for _, failing := range []int32{0, 1, 3, 12} {
		dir := t.TempDir()
		create(t, dir, Plan{Dirs: 1})
		var flushes atomic.Int32
		plan := Plan{Dirs: 3, Seed: seed, Workers: 1, lot: 1 << 20, sync: func(f *os.File) error {
			if flushes.Add(1) == failing {
				return syscall.EIO
			}
			return syncDisk(f)
		}}
		c, err := Create(t.Context(), dir, plan, nil)
		n := flushes.Load()
		if failing == 0 || failing > n { // one for each lot at most, and one at the end
			if err != nil || n < 2 || n > 11 {
				t.Errorf("%d flushes, %v", n, err)
			}
			continue
		}
		if !errors.Is(err, syscall.EIO) || fault.OriginOf(err) != fault.Driver || c.Set.State != Writing || n != failing {
			t.Errorf("flush %d of %d fails: %+v, %v", failing, n, c.Set, err)
		}
		if again := create(t, dir, Plan{Dirs: 3}); runtime.GOOS == "linux" && again.Dirs != 2 {
			t.Errorf("after flush %d failed %d directories were written again, want 2", failing, again.Dirs)
		}
		if got := faults(t, dir); got != "" {
			t.Errorf("faults:\n%s", got)
		}
	}
}

func TestForeignFolderRefused(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "index.html"), "hello")
	_, err := Create(t.Context(), dir, Plan{Dirs: 1, Seed: seed}, nil)
	if err == nil || fault.OriginOf(err) != fault.Config || !strings.Contains(err.Error(), "index.html") {
		t.Errorf("create: %v", err)
	}
	if _, err := Clean(t.Context(), dir); !errors.Is(err, fs.ErrNotExist) || fault.OriginOf(err) != fault.Config {
		t.Errorf("clean: %v", err)
	}
	if _, err := Verify(t.Context(), dir, Check{}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("verify: %v", err)
	}
	if got := tree(t, dir); !slices.Equal(got, []string{"index.html"}) {
		t.Errorf("left %v", got)
	}
	// A file set without a manifest is somebody else's, too.
	other := t.TempDir()
	write(t, filepath.Join(other, "file_set/dir00000/class0_0"), "x")
	if _, err := Create(t.Context(), other, Plan{Dirs: 1, Seed: seed}, nil); err == nil {
		t.Error("took over a file set without a manifest")
	}
	if _, err := Create(t.Context(), filepath.Join(dir, "index.html"), Plan{Dirs: 1}, nil); fault.OriginOf(err) != fault.Config {
		t.Errorf("a file as folder: %v", err)
	}
}

// A folder of an own file system is empty but for lost+found.
func TestLostAndFound(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o755); err != nil {
		t.Fatal(err)
	}
	create(t, dir, Plan{Dirs: 1})
	done, err := Clean(t.Context(), dir)
	if err != nil || done.Files != 36 || !slices.Equal(done.Left, []string{"lost+found"}) {
		t.Errorf("cleaned %+v, %v", done, err)
	}
}

func TestOtherSeedRefused(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, Plan{Dirs: 1})
	_, err := Create(t.Context(), dir, Plan{Dirs: 1, Seed: seed + 1}, nil)
	if fault.OriginOf(err) != fault.Config || !strings.Contains(fmt.Sprint(err), "seed 42") {
		t.Errorf("other seed: %v", err)
	}
	if got := faults(t, dir); got != "" {
		t.Errorf("faults:\n%s", got)
	}
}

func TestPlanOutOfRange(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	for _, dirs := range []int{0, -1, fileset.MaxDirs + 1} {
		if _, err := Create(t.Context(), dir, Plan{Dirs: dirs}, nil); fault.OriginOf(err) != fault.Config {
			t.Errorf("%d directories: %v", dirs, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a refused plan made the folder")
	}
}

func TestNoSpace(t *testing.T) {
	need := 3*diskBytes(4096) + spare
	for _, v := range []struct {
		name string
		room room
		err  error
		ok   bool
	}{
		{"just enough", room{need, 4096, 3 * 37}, nil, true},
		{"one byte short", room{need - 1, 4096, -1}, nil, false},
		{"larger blocks", room{need, 65536, -1}, nil, false},
		{"no inodes", room{1 << 40, 4096, 3*37 - 1}, nil, false},
		{"unlimited inodes", room{1 << 40, 4096, -1}, nil, true},
		{"unknown", room{}, errors.ErrUnsupported, true},
		{"no answer", room{}, syscall.EIO, false},
	} {
		dir := filepath.Join(t.TempDir(), "a", "b")
		asked := ""
		_, err := Create(t.Context(), dir, Plan{Dirs: 3, Seed: seed, room: func(d string) (room, error) {
			asked = d
			return v.room, v.err
		}}, nil)
		if (err == nil) != v.ok {
			t.Errorf("%s: %v", v.name, err)
		}
		if _, err := os.Stat(filepath.Dir(dir)); !v.ok && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a refused plan made a folder", v.name)
		}
		if st, err := os.Stat(asked); err != nil || !st.IsDir() {
			t.Errorf("%s: asked about %s", v.name, asked)
		}
	}
}

// Only what is to be added counts against the free space.
func TestNoSpaceToGrow(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, Plan{Dirs: 2})
	ask := func(string) (room, error) { return room{diskBytes(4096) + spare, 4096, 37}, nil }
	if _, err := Create(t.Context(), dir, Plan{Dirs: 4, Seed: seed, room: ask}, nil); fault.OriginOf(err) != fault.Config || len(fault.Hints(err)) == 0 {
		t.Errorf("two more directories: %v", err)
	}
	if m, err := Read(dir); err != nil || m.State != Complete || m.Dirs != 2 {
		t.Errorf("the refusal changed the set: %+v, %v", m, err)
	}
	create(t, dir, Plan{Dirs: 3, room: ask})
}

func TestVerifyInterrupted(t *testing.T) {
	dir := t.TempDir()
	create(t, dir, Plan{Dirs: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Verify(ctx, dir, Check{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("verify: %v", err)
	}
	if _, err := Clean(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("clean: %v", err)
	}
	// What an interrupted Clean left is no complete set, and Create makes it one.
	if m, err := Read(dir); err != nil || m.State != Writing {
		t.Errorf("%+v, %v", m, err)
	}
	create(t, dir, Plan{Dirs: 1})
	if got := faults(t, dir); got != "" {
		t.Errorf("faults:\n%s", got)
	}
}

func TestCleanLeavesOthersAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "set")
	create(t, dir, Plan{Dirs: 2})
	foreign := []string{"file_set/dir00001/notes.txt", "file_set/dir00007x/class0_0", "index.html", "sub/page.html"}
	for _, name := range foreign {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), "mine")
	}
	done, err := Clean(t.Context(), dir)
	if err != nil || done.Files != 72 {
		t.Fatalf("%+v, %v", done, err)
	}
	want := []string{"file_set/dir00001/notes.txt", "file_set/dir00007x/class0_0", "index.html", "sub"}
	if !slices.Equal(done.Left, want) {
		t.Errorf("says it left %v, want %v", done.Left, want)
	}
	var files []string
	for _, name := range tree(t, dir) {
		if !strings.HasSuffix(name, "/") {
			files = append(files, name)
		}
	}
	if !slices.Equal(files, foreign) {
		t.Errorf("left %v, want %v", files, foreign)
	}
	if _, err := Clean(t.Context(), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("cleaned a folder that is no longer ours: %v", err)
	}
}

// The folder goes if Create made it, and stays otherwise. A symbolic link in the
// place of a file or directory is neither followed nor removed.
func TestCleanFolder(t *testing.T) {
	parent := t.TempDir()
	made, given := filepath.Join(parent, "made"), t.TempDir()
	create(t, made, Plan{Dirs: 1})
	create(t, given, Plan{Dirs: 1})
	for _, dir := range []string{made, given} {
		if done, err := Clean(t.Context(), dir); err != nil || len(done.Left) != 0 {
			t.Errorf("%+v, %v", done, err)
		}
	}
	if got := tree(t, parent); len(got) != 0 {
		t.Errorf("left %v", got)
	}
	if got := tree(t, given); len(got) != 0 {
		t.Errorf("left %v", got)
	}

	precious := t.TempDir()
	write(t, filepath.Join(precious, "class0_0"), "precious")
	create(t, given, Plan{Dirs: 1})
	link := filepath.Join(given, "file_set/dir00001")
	if err := os.Symlink(precious, link); err != nil {
		t.Skip("no symbolic links here")
	}
	if got := faults(t, given); got != "file_set/dir00001: extra" {
		t.Errorf("faults: %s", got)
	}
	if done, err := Clean(t.Context(), given); err != nil || !slices.Equal(done.Left, []string{"file_set/dir00001"}) {
		t.Errorf("%+v, %v", done, err)
	}
	if got := tree(t, precious); !slices.Equal(got, []string{"class0_0"}) {
		t.Errorf("followed the link: %v", got)
	}
}

func TestLocked(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs Linux")
	}
	dir := t.TempDir()
	create(t, dir, Plan{Dirs: 1})
	_, err := Create(t.Context(), dir, Plan{Dirs: 2, Seed: seed, Workers: 1, wrote: func(int) {
		for name, err := range map[string]error{
			"create": second(Create(t.Context(), dir, Plan{Dirs: 1, Seed: seed}, nil)),
			"verify": second(Verify(t.Context(), dir, Check{}, nil)),
			"clean":  second(Clean(t.Context(), dir)),
		} {
			if err == nil || !strings.Contains(err.Error(), "at work") {
				t.Errorf("%s beside create: %v", name, err)
			}
		}
	}}, nil)
	if err != nil {
		t.Error(err)
	}
	f, err := open(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer f.leave()
	if got := faults(t, dir); got != "" { // two may read at once
		t.Errorf("faults:\n%s", got)
	}
}

func second[T any](_ T, err error) error { return err }

func TestManifestRefused(t *testing.T) {
	good, err := json.Marshal(Manifest{Format: 1, Law: fileset.Law, LawVersion: fileset.LawVersion, Seed: 7, State: Complete, Dirs: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ old, new, want string }{
		{"", "", ""},
		{`"format":1`, `"format":2`, "format 2, this program knows 1"},
		{`"format":1`, `"format":2,"novel":true`, "format 2, this program knows 1"},
		{`"format":1`, `"format":1,"novel":true`, "damaged"},
		{`"law_version":1`, `"law_version":9`, "version 9"},
		{`"law":"web99"`, `"law":"web05"`, `"web05"`},
		{`"complete"`, `"perfect"`, `"perfect"`},
		{`"dirs":3`, `"dirs":100001`, "out of range"},
		{`"dirs":3`, `"dirs":-1`, "out of range"},
		{`"dirs":3`, `"dirs":3,"done":[[0,100001]]`, "out of range"},
		{`"seed":"7"`, `"seed":7`, "damaged"},
		{`"dirs":3}`, `"dirs":3`, "damaged"},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, ManifestName), strings.Replace(string(good), v.old, v.new, 1))
		_, err := Read(dir)
		if v.want == "" {
			if err != nil {
				t.Errorf("good manifest: %v", err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), v.want) || fault.OriginOf(err) != fault.Config {
			t.Errorf("%s: %v, want %q", v.new, err, v.want)
		}
		for name, err := range map[string]error{
			"create": second(Create(t.Context(), dir, Plan{Dirs: 1, Seed: 7}, nil)),
			"clean":  second(Clean(t.Context(), dir)),
		} {
			if err == nil {
				t.Errorf("%s: %s went on", v.new, name)
			}
		}
	}
}

func TestSizeOf(t *testing.T) {
	s := SizeOf(352)
	if s.Dirs != 352 || s.Files != 352*36 || s.Bytes != 352*5119484 || s.ReportedMB != 1717.76 {
		t.Errorf("%+v", s)
	}
	if over := s.DiskBytes - s.Bytes; over < 0 || over > 352*37*4096 {
		t.Errorf("%d bytes on disk for %d", s.DiskBytes, s.Bytes)
	}
}

// The manual shows a manifest with every field.
func TestManualIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../../docs/formats/fileset.md")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(Manifest{Wanted: 1, Done: [][2]int{{0, 1}}, Boot: "x", MadeRoot: true})
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	for name := range fields {
		if !bytes.Contains(text, []byte("`"+name+"`")) {
			t.Errorf("docs/formats/fileset.md does not mention `%s`", name)
		}
	}
}
