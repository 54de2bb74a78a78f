package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/clock"
)

// open makes a cache over a new directory that compares before every use, unless told otherwise.
func open(t *testing.T, o Options) (*Cache, string) {
	t.Helper()
	dir := t.TempDir()
	o.Root = dir
	if o.Valid == 0 {
		o.Valid = -1
	}
	if o.Describe == nil {
		o.Describe = func(b []byte, path string, size, _ int64) ([]byte, Meta) {
			return fmt.Appendf(b, "Length: %d\r\n\r\n", size), Meta{Type: "test", ETag: path}
		}
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if s := c.Stats(); s.Bytes != 0 || s.Entries != 0 || s.Opened != 0 {
			t.Errorf("after Close the cache holds %+v", s)
		}
	})
	return c, dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// age sets the time stamps of a file back, so that it does not count as changed just now.
func age(t *testing.T, dir, name string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
		t.Fatal(err)
	}
}

// find looks a path up as a carrier does and returns what it would send.
func find(t *testing.T, l *Local, path string) (string, error) {
	t.Helper()
	e, owned, err := l.Find([]byte(path), nil, clock.Now(), false)
	if err != nil {
		return "", err
	}
	if owned {
		defer e.Release()
	}
	return content(t, e), nil
}

func content(t *testing.T, e *Entry) string {
	t.Helper()
	if head := string(e.Head()); head != fmt.Sprintf("Length: %d\r\n\r\n", e.Size) {
		t.Errorf("header block %q for %d bytes", head, e.Size)
	}
	if e.InMemory() {
		if string(e.Block()) != string(e.Head())+string(e.Body()) {
			t.Error("content is not behind its header block")
		}
		return string(e.Body())
	}
	b := make([]byte, e.Size)
	if n, err := unix.Pread(e.FD(), b, 0); err != nil || int64(n) != e.Size {
		t.Errorf("pread: %d of %d bytes, %v", n, e.Size, err)
	}
	return string(b)
}

func TestServesWhatIsOnDisk(t *testing.T) {
	c, dir := open(t, Options{Inline: 100, FileMax: 200})
	l := c.Local(nil)
	for _, size := range []int{0, 1, 99, 100, 101, 200, 201, 70000} {
		name := fmt.Sprintf("/f%d", size)
		text := strings.Repeat("x", size)
		write(t, dir, name, text)
		for range 2 {
			if got, err := find(t, l, name); err != nil || got != text {
				t.Errorf("%s: %d bytes, %v", name, len(got), err)
			}
		}
		e := l.table[name]
		if e == nil {
			t.Fatalf("%s: not in the loop's table", name)
		}
		if e.InMemory() != (size < 100) {
			t.Errorf("%s: in memory: %v", name, e.InMemory())
		}
		f, err := c.Open([]byte(name))
		if err != nil {
			t.Fatal(err)
		}
		if f.InMemory() != (size <= 200) {
			t.Errorf("%s: page gets memory: %v", name, f.InMemory())
		}
		if got, err := f.AppendTo(nil); err != nil || string(got) != text {
			t.Errorf("%s: page reads %d bytes, %v", name, len(got), err)
		}
		f.Release()
	}
}

func TestSeesEveryChange(t *testing.T) {
	changes := map[string]func(dir string) string{
		"rewritten in place": func(dir string) string {
			os.WriteFile(dir+"/f", []byte("new"), 0o644)
			return "new"
		},
		"same size and restored time": func(dir string) string {
			info, _ := os.Stat(dir + "/f")
			os.WriteFile(dir+"/f", []byte("OLD"), 0o644)
			os.Chtimes(dir+"/f", info.ModTime(), info.ModTime())
			return "OLD"
		},
		"replaced": func(dir string) string {
			os.WriteFile(dir+"/g", []byte("newer"), 0o644)
			os.Rename(dir+"/g", dir+"/f")
			return "newer"
		},
		"truncated": func(dir string) string {
			os.Truncate(dir+"/f", 1)
			return "o"
		},
		"became a link": func(dir string) string {
			os.WriteFile(dir+"/g", []byte("linked"), 0o644)
			os.Remove(dir + "/f")
			os.Symlink("g", dir+"/f")
			return "linked"
		},
		"removed": func(dir string) string {
			os.Remove(dir + "/f")
			return ""
		},
		"became a directory": func(dir string) string {
			os.Remove(dir + "/f")
			os.Mkdir(dir+"/f", 0o755)
			return ""
		},
	}
	for name, change := range changes {
		for _, inline := range []int64{1, 100} {
			t.Run(fmt.Sprintf("%s/%d", name, inline), func(t *testing.T) {
				c, dir := open(t, Options{Inline: inline})
				a, b := c.Local(nil), c.Local(nil)
				write(t, dir, "f", "old")
				for _, l := range []*Local{a, b} {
					if got, err := find(t, l, "/f"); err != nil || got != "old" {
						t.Fatalf("before: %q, %v", got, err)
					}
				}
				held := a.table["/f"]
				held.Retain()
				want := change(dir)
				for i, l := range []*Local{a, b} {
					got, err := find(t, l, "/f")
					if want == "" && err == nil || want != "" && (err != nil || got != want) {
						t.Errorf("loop %d: %q, %v; want %q", i, got, err, want)
					}
				}
				if held.InMemory() && string(held.Body()) != "old" {
					t.Errorf("the version under way became %q", held.Body())
				}
				held.Release()
			})
		}
	}
}

// Within Valid the answer may be old; the first look after it is not.
func TestComparesOnlyAfterValid(t *testing.T) {
	c, dir := open(t, Options{Valid: time.Minute})
	l := c.Local(nil)
	write(t, dir, "f", "old")
	if _, err := find(t, l, "/f"); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "f", "new!")
	now := clock.Now()
	if e := l.Get([]byte("/f"), now.Add(59*time.Second)); e == nil || string(e.Body()) != "old" {
		t.Fatal("compared too early")
	}
	if e := l.Get([]byte("/f"), now.Add(61*time.Second)); e != nil {
		t.Fatal("not compared after Valid")
	}
	if got, err := find(t, l, "/f"); err != nil || got != "new!" {
		t.Fatalf("%q, %v", got, err)
	}
}

// A file read just after a change is read again at its first comparison, even if nothing shows.
func TestRereadsRacyFiles(t *testing.T) {
	c, dir := open(t, Options{Valid: time.Minute})
	l := c.Local(nil)
	write(t, dir, "young", "1")
	write(t, dir, "old", "1")
	age(t, dir, "old") // but its change time is now
	for _, path := range []string{"/young", "/old"} {
		if _, err := find(t, l, path); err != nil {
			t.Fatal(err)
		}
		e := l.Get([]byte(path), clock.Now())
		if !e.racy {
			t.Errorf("%s is trusted", path)
		}
		if l.Get([]byte(path), clock.Now().Add(2*time.Minute)) != nil {
			t.Errorf("%s was not read again", path)
		}
	}
	for {
		if _, err := find(t, l, "/young"); err != nil {
			t.Fatal(err)
		}
		e := l.Get([]byte("/young"), clock.Now())
		if !e.racy {
			break // 20 ms have passed since it was written
		}
		c.mu.Lock()
		c.drop(e)
		c.mu.Unlock()
	}
	if l.Get([]byte("/young"), clock.Now().Add(2*time.Minute)) == nil {
		t.Error("a settled file was not kept after its comparison")
	}
}

func TestStaysBelowTheRoot(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		c, dir := open(t, Options{})
		if fallback {
			w, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			c.root.walker = w
		}
		outside := t.TempDir()
		write(t, outside, "secret", "secret")
		write(t, dir, "sub/inside", "inside")
		link := func(to, name string) {
			if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		rel, err := filepath.Rel(dir, outside)
		if err != nil {
			t.Fatal(err)
		}
		link(outside+"/secret", "absolute")
		link(outside, "absdir")
		link(rel+"/secret", "climbing")
		link(rel, "climbdir")
		link("/proc/self/fd", "fds")
		link("/proc/self/root", "rootlink")
		link("sub/inside", "good")
		link("sub", "gooddir")
		link("../sub/inside", "sub/up")
		link("loop", "loop")
		link("nowhere", "dangling")
		if err := unix.Mkfifo(dir+"/fifo", 0o644); err != nil {
			t.Fatal(err)
		}
		l := c.Local(nil)
		for _, path := range []string{"/absolute", "/absdir/secret", "/climbing", "/climbdir/secret", "/fds/0",
			"/rootlink/etc/passwd", "/loop", "/dangling", "/sub/inside/", "/sub/inside/x", "/none", "/none/x",
			"/" + strings.Repeat("n", 300), "/" + strings.Repeat("d/", 3000)} {
			if got, err := find(t, l, path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%.40s: %q, %v", path, got, err)
			}
		}
		for _, path := range []string{"/..", "/../x", "/sub/../../x", "/.", "/./sub/inside", "//..//x", "/sub//inside", "/a\x00b", ""} {
			if f, err := c.Open([]byte(path)); err == nil {
				f.Release()
				t.Errorf("page opened %q", path)
			}
		}
		for _, path := range []string{"/good", "/gooddir/inside", "/sub/up", "/sub/inside"} {
			if got, err := find(t, l, path); err != nil || got != "inside" {
				t.Errorf("%s: %q, %v", path, got, err)
			}
		}
		if f, err := c.Open([]byte("sub/inside")); err != nil {
			t.Errorf("without a slash: %v", err)
		} else {
			f.Release()
		}
		for _, path := range []string{"/", "/sub", "/sub/", "/gooddir"} {
			if _, err := find(t, l, path); err != ErrDirectory {
				t.Errorf("%s: %v", path, err)
			}
		}
		if _, err := find(t, l, "/fifo"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("fifo: %v", err)
		}
	}
}

// The link may be exchanged for one that leads out between any two requests.
func TestLinkTurnedOutside(t *testing.T) {
	c, dir := open(t, Options{})
	outside := t.TempDir()
	write(t, outside, "f", "secret")
	write(t, dir, "in/f", "public")
	link := dir + "/link"
	if err := os.Symlink("in", link); err != nil {
		t.Fatal(err)
	}
	l := c.Local(nil)
	if got, err := find(t, l, "/link/f"); err != nil || got != "public" {
		t.Fatalf("%q, %v", got, err)
	}
	os.Remove(link)
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	if got, err := find(t, l, "/link/f"); err == nil {
		t.Fatalf("served %q", got)
	}
}

func TestEvictsTheUnused(t *testing.T) {
	const size, count, room = 3000, 100, 20
	charge := chargeOf(size+len("Length: 3000\r\n\r\n")) + overhead
	c, dir := open(t, Options{Bytes: room * charge, Valid: time.Hour})
	woken := 0
	a, b := c.Local(func() { woken++ }), c.Local(nil)
	name := func(i int) string { return fmt.Sprintf("/%d", i) }
	for i := range count {
		write(t, dir, name(i), strings.Repeat(string(rune('a'+i%26)), size))
	}
	for i := range count {
		for _, l := range []*Local{a, b} {
			if got, err := find(t, l, name(i)); err != nil || got != strings.Repeat(string(rune('a'+i%26)), size) {
				t.Fatalf("%d: %v", i, err)
			}
			if _, err := find(t, l, name(0)); err != nil { // always in use
				t.Fatal(err)
			}
		}
		if s := c.Stats(); s.Bytes > room*charge*9/8 {
			t.Fatalf("%d bytes held, bound is %d", s.Bytes, room*charge)
		}
	}
	s := c.Stats()
	if s.Entries > room || s.Entries < room/2 {
		t.Errorf("%d entries, room for %d", s.Entries, room)
	}
	if s.Loads > count+5 {
		t.Errorf("%d loads of %d files: the one in use was evicted", s.Loads, count)
	}
	if woken == 0 {
		t.Error("nobody was woken")
	}
	if len(a.table) > room+5 {
		t.Errorf("the loop's table has %d entries", len(a.table))
	}
}

// Memory under way outlives its entry, and is bounded too.
func TestHeldMemoryIsNotReused(t *testing.T) {
	const size = 1000
	charge := chargeOf(size+len("Length: 1000\r\n\r\n")) + overhead
	c, dir := open(t, Options{Bytes: 16 * charge, Valid: time.Hour})
	l := c.Local(nil)
	var held []*Entry
	for i := range 50 {
		name := fmt.Sprintf("/%d", i)
		write(t, dir, name, strings.Repeat(string(rune('A'+i)), size))
		e, owned, err := l.Find([]byte(name), nil, clock.Now(), false)
		if err != nil {
			t.Fatal(err)
		}
		if !owned {
			e.Retain()
		}
		held = append(held, e)
	}
	if s := c.Stats(); s.Passed == 0 {
		t.Errorf("everything was kept: %+v", s)
	}
	for i, e := range held {
		if !bytes.Equal(e.Body(), bytes.Repeat([]byte{byte('A' + i)}, size)) {
			t.Errorf("entry %d was overwritten", i)
		}
		e.Release()
	}
}

func TestKeepsFewDescriptors(t *testing.T) {
	c, dir := open(t, Options{Inline: 1, FileMax: 1, Files: 4, Valid: time.Hour})
	l := c.Local(nil)
	for i := range 40 {
		name := fmt.Sprintf("/%d", i)
		write(t, dir, name, name)
		if got, err := find(t, l, name); err != nil || got != name {
			t.Fatalf("%s: %q, %v", name, got, err)
		}
	}
	l.Sweep()
	if s := c.Stats(); s.Opened > 4 {
		t.Errorf("%d descriptors kept", s.Opened)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	here := 0
	for _, d := range open {
		if to, err := os.Readlink("/proc/self/fd/" + d.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			here++
		}
	}
	if here > 4 {
		t.Errorf("%d descriptors open", here)
	}
}

func TestCoolingPassesYoungFiles(t *testing.T) {
	c, dir := open(t, Options{Cooling: time.Minute})
	l := c.Local(nil)
	write(t, dir, "young", "y")
	write(t, dir, "old", "o")
	age(t, dir, "old")
	for _, name := range []string{"young", "old"} {
		if got, err := find(t, l, "/"+name); err != nil || got != name[:1] {
			t.Fatalf("%q, %v", got, err)
		}
		if kept := l.table["/"+name] != nil; kept != (name == "old") {
			t.Errorf("%s kept: %v", name, kept)
		}
	}
}

func TestPercentInNames(t *testing.T) {
	c, dir := open(t, Options{})
	l := c.Local(nil)
	write(t, dir, "a%20b", "percent")
	write(t, dir, "a b", "blank")
	for path, want := range map[string]string{"/a%20b": "percent", "/a b": "blank"} {
		if got, err := find(t, l, path); err != nil || got != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if l.Get([]byte("/a%20b"), clock.Now()) != nil {
		t.Error("an undecoded path found a file by its decoded name")
	}
}

func TestAlias(t *testing.T) {
	c, dir := open(t, Options{})
	l := c.Local(nil)
	write(t, dir, "d/index", "one")
	for _, want := range []string{"one", "two2"} {
		write(t, dir, "d/index", want)
		if _, _, err := l.Find([]byte("/d/index"), []byte("/d/"), clock.Now(), false); err != nil {
			t.Fatal(err)
		}
		if e := l.table["/d/"]; e == nil || string(e.Body()) != want {
			t.Fatalf("the directory gives %v, want %s", e, want)
		}
	}
	os.Remove(dir + "/d/index")
	for _, path := range []string{"/d/", "/d/index"} {
		if l.Get([]byte(path), clock.Now()) != nil {
			t.Errorf("%s is still there", path)
		}
	}
	if len(l.table) != 0 || len(l.also) != 0 {
		t.Errorf("left over: %v %v", l.table, l.also)
	}
}

func TestRefusedNamesAreHiddenFromPages(t *testing.T) {
	c, dir := open(t, Options{Refuse: func(path string) bool { return strings.Contains(path, "/.") }})
	write(t, dir, ".git/config", "x")
	if _, err := c.Open([]byte("/.git/config")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := find(t, c.Local(nil), "/.git/config"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestColdFilesAreNotWaitedFor(t *testing.T) {
	c, dir := open(t, Options{Inline: 8 << 10, FileMax: 16 << 10})
	l := c.Local(nil)
	for _, size := range []int{4 << 10, 64 << 10} {
		name := fmt.Sprintf("f%d", size)
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		f.Write(bytes.Repeat([]byte{'c'}, size))
		defer f.Close()
		// The kernel may keep a page that is just in other hands, and a quick read that fails starts the
		// disk; so each look is tried a few times, each time after the file was forgotten anew.
		cold := func(look func() bool) bool {
			for range 50 {
				f.Sync()
				unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
				if look() {
					return true
				}
				for _, m := range []map[string]*Entry{c.files, c.copies} {
					if e := m["/"+name]; e != nil {
						c.mu.Lock()
						c.drop(e)
						c.mu.Unlock()
					}
				}
			}
			return false
		}
		if !cold(func() bool {
			var b [1]byte
			_, err := readQuick(int(f.Fd()), b[:], 0)
			return err != nil
		}) {
			t.Skip("this file system keeps everything in memory")
		}
		if !cold(func() bool {
			e, owned, err := l.Find([]byte("/"+name), nil, clock.Now(), true)
			if owned {
				e.Release()
			}
			return err == ErrCold
		}) {
			t.Errorf("%s: was waited for", name)
		}
		if !cold(func() bool { // a page gets a descriptor
			pf, err := c.Open([]byte("/" + name))
			if err != nil {
				t.Fatal(err)
			}
			defer pf.Release()
			return !pf.InMemory()
		}) {
			t.Errorf("%s: a page waited for it", name)
		}
		e, err := c.Acquire([]byte("/"+name), false)
		if err != nil {
			t.Fatal(err)
		}
		if l.Adopt(e, nil) {
			t.Fatal("not adopted")
		}
		if l.table["/"+name] != e {
			t.Error("not there after loading")
		}
	}
}

func TestGetDoesNotAllocate(t *testing.T) {
	c, dir := open(t, Options{})
	l := c.Local(nil)
	write(t, dir, "f", "x")
	path := []byte("/f")
	if _, err := find(t, l, "/f"); err != nil {
		t.Fatal(err)
	}
	for l.Get(path, clock.Now()) == nil { // until it is no longer racy
		find(t, l, "/f")
	}
	if n := testing.AllocsPerRun(1000, func() { l.Get(path, clock.Now()) }); n != 0 {
		t.Errorf("Get with a comparison allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		f, err := c.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f.Release()
	}); n != 0 {
		t.Errorf("a page's Open allocates %v times", n)
	}
}

// Loops and pages read while files are replaced and memory is short: every answer is one whole version.
func TestConcurrentUse(t *testing.T) {
	c, dir := open(t, Options{Bytes: 40 << 10, Inline: 2000, FileMax: 5000, Files: 3})
	names := make([]string, 12)
	version := func(i, n int) string { // every version of a file is one letter and tells its length
		return strings.Repeat(string(rune('a'+n%26)), 200*(i+1)+n%26)
	}
	for i := range names {
		names[i] = fmt.Sprintf("/%d", i)
		write(t, dir, names[i], version(i, 0))
	}
	check := func(b []byte) bool {
		for _, x := range b {
			if x != b[0] {
				return false
			}
		}
		return len(b) > 0 && len(b)%200 == int(b[0]-'a')
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Add(2)
		l := c.Local(nil)
		go func() {
			defer wg.Done()
			for i := range 2000 {
				e, owned, err := l.Find([]byte(names[i*7%len(names)]), nil, clock.Now(), i%2 == 0)
				if err == ErrCold {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				b := e.Body()
				if !e.InMemory() {
					b = make([]byte, e.Size)
					unix.Pread(e.FD(), b, 0)
				}
				if !check(b) {
					t.Errorf("mixed content of %d bytes", len(b))
				}
				if owned {
					e.Release()
				}
			}
		}()
		go func() {
			defer wg.Done()
			for i := range 2000 {
				f, err := c.Open([]byte(names[i*5%len(names)]))
				if err != nil {
					t.Error(err)
					return
				}
				b, err := f.AppendTo(nil)
				if err != nil || !check(b) {
					t.Errorf("page: mixed content of %d bytes, %v", len(b), err)
				}
				f.Release()
			}
		}()
	}
	for n := range 300 {
		i := n % len(names)
		write(t, dir, "tmp", version(i, n))
		if err := os.Rename(dir+"/tmp", dir+names[i]); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}
