package page_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"tidemark.dev/page"
)

func body(t testing.TB, rs *page.Response) string {
	t.Helper()
	v := rs.View()
	b := append([]byte(nil), v.Head...)
	b, err := v.File.AppendTo(b)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, v.Tail...)
	if int64(len(b)) != v.Length {
		t.Errorf("%d bytes, length says %d", len(b), v.Length)
	}
	return string(b)
}

func TestZeroResponseIsEmptyHTML(t *testing.T) {
	var rs page.Response
	if v := rs.View(); v.Status != 200 || v.Type != "text/html" || v.Length != 0 || len(v.Fields) != 0 {
		t.Errorf("%+v", v)
	}
}

func TestBodyIsHeadFileTail(t *testing.T) {
	var rs page.Response
	rs.Append("he").AppendInt(-12).Append("ad ")
	rs.Extend(func(b []byte) []byte { return append(b, "more "...) })
	fmt.Fprintf(&rs, "%d ", 7)
	rs.SetFile(page.File{Bytes: []byte("file "), Size: 5})
	rs.Tail([]byte("tail"))
	rs.Status(404)
	rs.Type("text/plain")
	if got := body(t, &rs); got != "he-12ad more 7 file tail" {
		t.Errorf("%q", got)
	}
	if v := rs.View(); v.Status != 404 || v.Type != "text/plain" {
		t.Errorf("%+v", v)
	}
	rs.Reset()
	if v := rs.View(); v.Status != 200 || v.Type != "text/html" || v.Length != 0 || v.Tail != nil || v.File.Bytes != nil {
		t.Errorf("after Reset: %+v", v)
	}
	rs.Type("")
	if v := rs.View(); v.Type != "" {
		t.Errorf("no type asked for, got %q", v.Type)
	}
}

func TestFieldsCannotForgeAHeader(t *testing.T) {
	var rs page.Response
	rs.Cookie([]byte("a=b\r\nX: y"))
	rs.Field("X-Two", "1\x002\t3\x7f")
	rs.Field("Bad Name", "x")
	rs.Field("Bad\r\nName", "x")
	rs.Field("", "x")
	for _, own := range []string{"Content-Length", "CONTENT-TYPE", "transfer-encoding", "Connection", "Date", "Server", "Upgrade"} {
		rs.Field(own, "x")
	}
	if got, want := string(rs.View().Fields), "Set-Cookie: a=b  X: y\r\nX-Two: 1 2\t3 \r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestPrepend(t *testing.T) {
	for _, size := range []int{0, 1, page.Room, page.Room + 1, 5000} {
		var rs page.Response
		header := bytes.Repeat([]byte("h"), size)
		rs.Append("body")
		if got := string(rs.Prepend(header)); got != string(header)+"body" {
			t.Errorf("header of %d bytes: %d bytes", size, len(got))
		}
		rs.Reset()
		if got := string(rs.Prepend(header)); got != string(header) {
			t.Errorf("header of %d bytes without a head: %d bytes", size, len(got))
		}
	}
}

type holds int

func (h *holds) Release() { *h++ }

func TestScratch(t *testing.T) {
	var rs page.Response
	for _, n := range []int{0, 10, 5000, 20} {
		if b := rs.Scratch(n); len(b) != 0 || cap(b) < n {
			t.Errorf("asked for %d, got %d of %d", n, len(b), cap(b))
		}
	}
}

func TestFilesAreReleasedOnce(t *testing.T) {
	var first, second, third holds
	var rs page.Response
	rs.SetFile(page.File{Owner: &first})
	rs.SetFile(page.File{Owner: &second})
	if first != 1 || second != 0 {
		t.Errorf("after a second file: %d %d", first, second)
	}
	rs.Clear()
	rs.Reset()
	if first != 1 || second != 1 {
		t.Errorf("after Clear and Reset: %d %d", first, second)
	}
	rs.SetFile(page.File{Owner: &third})
	if rs.View(); third != 0 {
		t.Errorf("released by View")
	}
}

func TestLargeHeadsAreNotKept(t *testing.T) {
	var rs page.Response
	rs.Write(make([]byte, 1<<20))
	rs.Reset()
	if v := rs.View(); cap(v.Head) > 512<<10 {
		t.Errorf("kept %d bytes", cap(v.Head))
	}
	rs.Append("x")
	if got := body(t, &rs); got != "x" {
		t.Errorf("%q", got)
	}
}

func TestRootFilesStayBelowTheRoot(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "root")
	if err := os.MkdirAll(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"secret": "s", "root/f": "0123456789", "root/a/g": "g", "root/empty": ""} {
		if err := os.WriteFile(filepath.Join(top, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(dir, "link")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	if err := os.Symlink("../f", filepath.Join(dir, "a", "inner")); err != nil {
		t.Fatal(err)
	}
	files, err := page.Root(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	for path, want := range map[string]string{"/f": "0123456789", "f": "0123456789", "//a/g": "g", "/empty": "", "/a/inner": "0123456789"} {
		f, err := files.Open([]byte(path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if got, err := f.AppendTo(nil); string(got) != want || err != nil || f.Size != int64(len(want)) || f.ModTime == 0 {
			t.Errorf("%s: %q %v %+v", path, got, err, f)
		}
		f.Release()
	}
	for path, want := range map[string]error{
		"/none": fs.ErrNotExist, "/f/g": fs.ErrNotExist, "/a": fs.ErrInvalid, "": fs.ErrInvalid, "/": fs.ErrInvalid, "../secret": fs.ErrInvalid,
		"a/../f": fs.ErrInvalid, "./f": fs.ErrInvalid, "a//g": fs.ErrInvalid, "f\x00": fs.ErrInvalid, "/link": fs.ErrInvalid, `a\g`: fs.ErrInvalid,
	} {
		if f, err := files.Open([]byte(path)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", path, err, want)
			f.Release()
		}
	}
	if _, err := page.Root(filepath.Join(dir, "f")); err == nil {
		t.Error("a file as root")
	}
}

func TestMemory(t *testing.T) {
	m := page.Memory{"a/b": []byte("text")}
	f, err := m.Open([]byte("/a/b"))
	if err != nil || string(f.Bytes) != "text" || !f.InMemory() {
		t.Errorf("%+v %v", f, err)
	}
	if _, err := m.Open([]byte("/a")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := m.Open([]byte("/../a")); !errors.Is(err, fs.ErrInvalid) {
		t.Error(err)
	}
}

func TestFileIsAReaderAt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	text := strings.Repeat("0123456789", 100)
	if err := os.WriteFile(name, []byte("skip"+text+"more"), 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for name, f := range map[string]page.File{
		"memory": {Bytes: []byte(text), Size: 1000},
		"range":  {Handle: h, Offset: 4, Size: 1000},
	} {
		if err := iotest.TestReader(io.NewSectionReader(f, 0, f.Size), []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var p [20]byte
		if n, err := f.ReadAt(p[:], 990); n != 10 || err != io.EOF {
			t.Errorf("%s: over the end: %d %v", name, n, err)
		}
		if n, err := f.ReadAt(p[:], -1); n != 0 || err == nil {
			t.Errorf("%s: before the start: %d %v", name, n, err)
		}
	}
	short := page.File{Handle: h, Size: 5000}
	if b, err := short.AppendTo([]byte("kept")); err == nil || string(b) != "kept" {
		t.Errorf("a file that shrank: %d bytes, %v", len(b), err)
	}
}

func request() page.Request {
	return page.Request{
		Method: []byte("GET"), Path: []byte("/p"), Query: []byte("q"), Script: []byte("/p"), Body: []byte("body"), Proto: "HTTP/1.1",
		Remote: netip.MustParseAddr("192.0.2.1"), Host: []byte("h"), Cookie: []byte("c=d"), ContentType: []byte("t"),
		Fields: []byte("Host: h\r\nX-One:  1 \r\nbroken\r\n: none\r\nx-two:2\r\nX-Two: 3\r\n"),
	}
}

func TestFields(t *testing.T) {
	rq := request()
	var got []string
	rq.EachField(func(n, v []byte) bool {
		got = append(got, string(n)+"="+string(v))
		return len(got) < 3
	})
	if want := "Host=h X-One=1 x-two=2"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	for name, want := range map[string]string{"HOST": "h", "x-one": "1", "X-TWO": "2", "x-thr": "", "x": ""} {
		if v := rq.Field(name); string(v) != want {
			t.Errorf("%s: %q", name, v)
		}
	}
}

type hello struct{ name string }

func (h *hello) Open(ctx *page.Context) error { h.name = ctx.Options["name"]; return nil }
func (h *hello) Close() error                 { return nil }
func (h *hello) Serve(rq *page.Request, rs *page.Response) {
	rs.Type("text/plain; charset=utf-8")
	rs.Append("hello, ").Append(h.name).Append("\n")
}

func Example() {
	h := &hello{}
	if err := h.Open(&page.Context{Options: map[string]string{"name": "world"}}); err != nil {
		panic(err)
	}
	var rq page.Request
	var rs page.Response
	h.Serve(&rq, &rs)
	fmt.Print(string(rs.View().Head))
	// Output: hello, world
}

func TestServingDoesNotAllocate(t *testing.T) {
	rq := request()
	files := page.Memory{"f": []byte("content")}
	path, cookie, tail, header := []byte("/f"), []byte("a=b"), []byte("tail"), make([]byte, 200)
	var rs page.Response
	sum := 0
	serve := func() {
		rs.Reset()
		rs.Status(200)
		rs.Type("text/plain")
		rs.Cookie(cookie)
		rs.Append("head").AppendInt(5)
		rs.Extend(func(b []byte) []byte { return append(b, rq.Query...) })
		f, err := files.Open(path)
		if err != nil {
			sum = -1
		}
		rs.SetFile(f)
		rs.Tail(tail)
		v := rs.View()
		sum += len(rs.Prepend(header)) + int(v.Length) + len(rq.Field("x-one"))
	}
	serve()
	if n := testing.AllocsPerRun(100, serve); n != 0 || sum <= 0 {
		t.Errorf("%v allocations", n)
	}
}
