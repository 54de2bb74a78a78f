package sysinfo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// tree makes a file system of an archive. "a -> b" is a link named a.
func tree(a *txtar.Archive) fstest.MapFS {
	m := fstest.MapFS{}
	for _, f := range a.Files {
		if name, to, ok := strings.Cut(f.Name, " -> "); ok {
			m[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink}
		} else if !strings.HasPrefix(f.Name, "want.") {
			m[f.Name] = &fstest.MapFile{Data: f.Data}
		}
	}
	return m
}

// TestHosts reads the hosts of testdata and compares with what stands at the end of
// their files; UPDATE=1 rewrites it.
func TestHosts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no hosts", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			h, err := Read(tree(a))
			if err != nil {
				t.Fatal(err)
			}
			var doc bytes.Buffer
			enc := json.NewEncoder(&doc)
			enc.SetIndent("", "  ")
			enc.SetEscapeHTML(false)
			if err := enc.Encode(h); err != nil {
				t.Fatal(err)
			}
			var list bytes.Buffer
			for _, f := range h.Facts() {
				line := fmt.Sprintf("%s / %s: %v %s", f.Group, f.Name, f.Value, f.Unit)
				list.WriteString(strings.TrimSpace(line) + "\n")
			}
			got := []txtar.File{{Name: "want.json", Data: doc.Bytes()}, {Name: "want.facts", Data: list.Bytes()}}
			var want []txtar.File
			rest := slices.DeleteFunc(slices.Clone(a.Files), func(f txtar.File) bool {
				is := strings.HasPrefix(f.Name, "want.")
				if is {
					want = append(want, f)
				}
				return is
			})
			if os.Getenv("UPDATE") != "" {
				a.Files = append(rest, got...)
				if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for i, w := range want {
				if diff := cmp.Diff(string(w.Data), string(got[i].Data)); diff != "" {
					t.Errorf("%s: %s", w.Name, diff)
				}
			}
			if len(want) != len(got) {
				t.Errorf("nothing to compare with")
			}
		})
	}
}

func TestUsableMemory(t *testing.T) {
	const total = "MemTotal:       8388608 kB\n"
	for _, c := range []struct {
		name  string
		files []string
		want  int64
	}{
		{"nothing is known", nil, 0},
		{"no group", []string{"proc/meminfo", total}, 8 << 30},
		{"no limit", []string{"proc/meminfo", total, "proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/memory.max", "max\n"}, 8 << 30},
		{"version 2", []string{"proc/meminfo", total, "proc/self/cgroup", "0::/a\n", "sys/fs/cgroup/a/memory.max", "1073741824\n"}, 1 << 30},
		{"the group around it", []string{
			"proc/meminfo", total, "proc/self/cgroup", "0::/a/b\n", "sys/fs/cgroup/a/memory.max", "536870912\n", "sys/fs/cgroup/a/b/memory.max", "1073741824\n",
		}, 512 << 20},
		{"version 1", []string{
			"proc/meminfo", total, "proc/self/cgroup", "4:memory:/c\n", "sys/fs/cgroup/memory/c/memory.limit_in_bytes", "268435456\n",
		}, 256 << 20},
		{"larger than the host", []string{"proc/meminfo", total, "proc/self/cgroup", "0::/\n", "sys/fs/cgroup/memory.max", "17179869184\n"}, 8 << 30},
	} {
		if got := UsableMemory(dir(c.files...)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestNothingThatIdentifiesIsShown(t *testing.T) {
	a, err := txtar.ParseFile("testdata/metal.txtar")
	if err != nil {
		t.Fatal(err)
	}
	h, err := Read(tree(a))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"DO-NOT-SHOW", "UUID", "token", "secret"} {
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("shows %q", secret)
		}
	}
}

// closed is a file system with files that refuse.
type closed struct {
	fstest.MapFS
	refuse string
}

func (c closed) Open(name string) (fs.File, error) {
	if name == c.refuse {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return c.MapFS.Open(name)
}

// ReadFile hides that of MapFS, which would not refuse.
func (c closed) ReadFile(name string) ([]byte, error) {
	f, err := c.Open(name)
	if err != nil {
		return nil, err
	}
	f.Close()
	return c.MapFS.ReadFile(name)
}

func TestARefusedFileIsNamed(t *testing.T) {
	m := fstest.MapFS{"proc/cpuinfo": {}, "sys/class/dmi/id/product_name": {Data: []byte("x")}}
	h, err := Read(closed{m, "sys/class/dmi/id/product_name"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/sys/class/dmi/id/product_name"}, h.Unreadable); diff != "" {
		t.Error(diff)
	}
}

func TestWithoutProcItNeedsLinux(t *testing.T) {
	if _, err := Read(fstest.MapFS{}); err == nil || !strings.Contains(err.Error(), "needs Linux") {
		t.Errorf("got %v", err)
	}
	for name, err := range map[string]error{
		"TCP":  second(ReadTCP(fstest.MapFS{})),
		"Time": second(ReadTime(fstest.MapFS{})),
		"Tree": second(ReadTree(fstest.MapFS{}, 1)),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestLists(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []int
		ok   bool
	}{
		{"0-3,8\n", []int{0, 1, 2, 3, 8}, true},
		{"5", []int{5}, true},
		{"", nil, false},
		{"a", nil, false},
		{"3-1", nil, false},
		{"1-x", nil, false},
		{"0-99999999", nil, false},
	} {
		got, ok := ParseList(tt.in)
		if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok {
			t.Errorf("%q: %v %s", tt.in, ok, diff)
		}
	}
}
