package fileset

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSizes(t *testing.T) {
	var sum int64
	for i := range int64(FilesPerDir) {
		sum += FileAt(i).Size()
	}
	if sum != DirBytes {
		t.Errorf("a directory holds %d bytes, want %d", sum, DirBytes)
	}
	for n := range FilesPerClass {
		for class, want := range []int64{int64(1024*(n+1)) / 10, int64(1024 * (n + 1)), int64(10240 * (n + 1)), int64(102400 * (n + 1))} {
			if got := (File{Class: uint8(class), Num: uint8(n)}).Size(); got != want {
				t.Errorf("class%d_%d: %d bytes, want %d", class, n, got, want)
			}
		}
	}
	if got := (File{Class: Classes - 1, Num: FilesPerClass - 1}).Size(); got != MaxSize {
		t.Errorf("longest file: %d", got)
	}
}

// The five published configurations.
func TestDirs(t *testing.T) {
	for _, v := range []struct {
		load, dirs int
		mb         float64
	}{
		{500, 352, 1717.76}, {1008, 685, 3342.8}, {1445, 972, 4743.36}, {2110, 1408, 6871.04}, {5510, 3638, 17753.44},
		{0, 25, 122}, {-5, 25, 122}, {1, 25, 122}, {2, 26, 126.88},
		{61, 65, 317.2}, // an exact multiple: 25 + 40
		{152463, MaxDirs, 488000}, {152464, MaxDirs + 1, 488004.88},
	} {
		if got := Dirs(v.load); got != v.dirs {
			t.Errorf("load %d: %d directories, want %d", v.load, got, v.dirs)
		}
		if got := ReportedMB(v.dirs); got != v.mb {
			t.Errorf("%d directories: %v MB, want %v", v.dirs, got, v.mb)
		}
	}
}

func TestPath(t *testing.T) {
	f := File{Dir: 42, Class: 2, Num: 7}
	if got := f.String(); got != "/file_set/dir00042/class2_7" || len(got) != PathLen {
		t.Errorf("path %q", got)
	}
	if got := string(f.AppendPath([]byte("GET "))); got != "GET /file_set/dir00042/class2_7" {
		t.Errorf("append: %q", got)
	}
	for _, bad := range []string{
		"", "/", "/file_set", "/file_set/dir00042", "/file_set/dir00042/", "/file_set/dir00042/class2_9",
		"/file_set/dir00042/class4_0", "/file_set/dir0004x/class2_7", "/file_set/dir000042/class2_7",
		"/file_set/dir00042/class2_77", "/file_set/dir00042/class2-7", "/file_set/dir00042/clasS2_7",
		"/File_set/dir00042/class2_7", "//ile_set/dir00042/class2_7", "/file_set/dir00042/class2_7\n",
		"xfile_set/dir00042/class2_7", "/file_set/dir00042/class/_7", "/file_set/dir-0042/class2_7",
	} {
		if got, ok := Parse([]byte(bad)); ok {
			t.Errorf("%q parsed as %v", bad, got)
		}
	}
}

func TestPathRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFile(t)
		if got, ok := Parse([]byte(f.String())); !ok || got != f {
			t.Fatalf("%v parsed as %v, %v", f, got, ok)
		}
		if got, ok := Parse([]byte(strings.TrimPrefix(f.String(), "/"))); !ok || got != f {
			t.Fatalf("%v without slash parsed as %v, %v", f, got, ok)
		}
		if got := FileAt(f.Index()); got != f {
			t.Fatalf("index of %v leads to %v", f, got)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("/file_set/dir00042/class2_7"))
	f.Add([]byte("file_set/dir99999/class0_0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := Parse(b)
		if ok && strings.TrimPrefix(got.String(), "/") != strings.TrimPrefix(string(b), "/") {
			t.Fatalf("%q parsed as %v", b, got)
		}
	})
}

func TestPathAllocatesNothing(t *testing.T) {
	b := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := Parse(File{1, 2, 3}.AppendPath(b)); !ok {
			panic("path")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
