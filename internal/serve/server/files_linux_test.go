package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Our answers to conditional and partial requests are those of net/http's file server, for every kind of
// file and every combination of fields.
func TestConditionsAgainstNetHTTP(t *testing.T) {
	s := serve(t, func(o *Options) { o.SendfileMin = 1000 })
	stamp := time.Date(2020, 5, 17, 10, 11, 12, 0, time.UTC)
	names := map[string]int{"empty.txt": 0, "small.txt": 999, "large.txt": 1000, "larger.bin": 20_000}
	for name, size := range names {
		s.write(name, pattern(size))
		if err := os.Chtimes(filepath.Join(s.root, name), stamp, stamp); err != nil {
			t.Fatal(err)
		}
	}
	at := func(d time.Duration) string { return stamp.Add(d).Format(http.TimeFormat) }
	variants := map[string][]string{
		"If-Match":            {"", "*", "TAG", `"other"`, `"other", TAG`, "W/TAG", `TAG, "x"`},
		"If-None-Match":       {"", "*", "TAG", "W/TAG", `"other"`, `"other",TAG`, "garbage"},
		"If-Modified-Since":   {"", at(0), at(-time.Second), at(time.Hour), "yesterday"},
		"If-Unmodified-Since": {"", at(0), at(-time.Second), at(time.Hour), "never"},
		"Range": {"", "bytes=0-0", "bytes=0-", "bytes=-1", "bytes=5-2", "bytes=100-199", "bytes=998-2000", "bytes=999-",
			"bytes=1000-", "bytes=-100000000", "bytes=0-1,3-4", "bytes=0-1, 500-600 ,-3", "bytes=0-,0-", "bytes=5-6,9999999-",
			"bytes=9999999-,9999998-", "lines=1-2", "bytes=", "bytes=a-b", "bytes=-0"},
		"If-Range": {"", "TAG", `"other"`, "W/TAG", at(0), at(-time.Second), at(time.Second)},
	}
	var oracle http.Handler = http.FileServer(http.Dir(s.root))
	w := s.dial()
	ask := func(method, name string, fields map[string]string) {
		t.Helper()
		path := filepath.Join(s.root, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		tag := fmt.Sprintf(`"%x-%x"`, info.ModTime().UnixNano(), info.Size())
		text := method + " /" + name + " HTTP/1.1\r\nHost: test\r\n"
		rq := httptest.NewRequest(method, "/"+name, nil)
		for k, v := range fields {
			if v == "" {
				continue
			}
			v = strings.ReplaceAll(v, "TAG", tag)
			rq.Header.Set(k, v)
			text += k + ": " + v + "\r\n"
		}
		rec := httptest.NewRecorder()
		rec.Header().Set("ETag", tag) // which net/http then works with
		oracle.ServeHTTP(rec, rq)
		want := rec.Result()
		wantBody, _ := io.ReadAll(want.Body)

		w.send(text + "\r\n")
		got := w.next(method)
		why := fmt.Sprintf("%s %s %v", method, name, fields)
		wantStatus := want.StatusCode
		ranged := wantStatus == 206 || wantStatus == 416
		if ranged && fields["Range"] == "bytes=-0" && method == "GET" && names[name] > 0 {
			wantStatus = 416 // the last 0 bytes do not exist
			want.Header.Set("Content-Range", fmt.Sprintf("bytes */%d", names[name]))
		}
		if ranged && (names[name] == 0 || fields["Range"] == "bytes=5-2" || wantStatus == 416 && want.Header.Get("Content-Range") == "") {
			// An empty file has no parts, and a Range that makes no sense is to be ignored (RFC 9110
			// section 14.2); net/http finds something to refuse.
			if got.StatusCode != 200 || method == "GET" && got.body != pattern(names[name]) {
				t.Errorf("%s: %d with %d bytes", why, got.StatusCode, len(got.body))
			}
			return
		}
		if method == "HEAD" && (wantStatus == 206 || wantStatus == 416) {
			wantStatus = 200 // RFC 9110 section 14.2: ranges are defined for GET only
		}
		if got.StatusCode != wantStatus {
			t.Errorf("%s: %d, net/http says %d", why, got.StatusCode, wantStatus)
			return
		}
		if wantStatus != want.StatusCode {
			return
		}
		switch got.StatusCode {
		case 200, 206, 304:
			for _, k := range []string{"ETag", "Last-Modified"} {
				if k == "Last-Modified" && got.StatusCode == 304 {
					continue // net/http leaves it out beside an ETag
				}
				if g, w := got.Header.Get(k), want.Header.Get(k); g != w {
					t.Errorf("%s: %s %q, want %q", why, k, g, w)
				}
			}
		}
		if got.StatusCode == 416 && got.Header.Get("Content-Range") != want.Header.Get("Content-Range") {
			t.Errorf("%s: Content-Range %q", why, got.Header.Get("Content-Range"))
		}
		if got.StatusCode != 200 && got.StatusCode != 206 || method == "HEAD" {
			return
		}
		wt := want.Header.Get("Content-Type")
		_, wb, multi := strings.Cut(wt, "boundary=")
		_, gb, _ := strings.Cut(got.Header.Get("Content-Type"), "boundary=")
		wantText := string(wantBody)
		if multi {
			wantText = strings.ReplaceAll(wantText, wb, gb)
		} else if got.Header.Get("Content-Range") != want.Header.Get("Content-Range") {
			t.Errorf("%s: Content-Range %q, want %q", why, got.Header.Get("Content-Range"), want.Header.Get("Content-Range"))
		}
		if got.body != wantText {
			t.Errorf("%s: other body: %d bytes %.60q, want %d bytes %.60q", why, len(got.body), got.body, len(wantText), wantText)
		}
	}
	for name := range names {
		for _, method := range []string{"GET", "HEAD"} {
			for _, m := range variants["If-Match"] {
				for _, us := range variants["If-Unmodified-Since"] {
					for _, nm := range variants["If-None-Match"] {
						for _, ms := range variants["If-Modified-Since"] {
							ask(method, name, map[string]string{"If-Match": m, "If-Unmodified-Since": us, "If-None-Match": nm, "If-Modified-Since": ms})
						}
					}
				}
			}
			for _, r := range variants["Range"] {
				for _, ir := range variants["If-Range"] {
					ask(method, name, map[string]string{"Range": r, "If-Range": ir})
				}
				for _, nm := range variants["If-None-Match"] {
					ask(method, name, map[string]string{"Range": r, "If-None-Match": nm})
				}
				for _, m := range variants["If-Match"] {
					ask(method, name, map[string]string{"Range": r, "If-Match": m})
				}
			}
		}
	}
}

func TestTooManyRangesGetTheWholeFile(t *testing.T) {
	s := serve(t, nil)
	s.write("f.txt", pattern(5000))
	ranges := "bytes="
	for i := range 17 {
		ranges += fmt.Sprintf("%d-%d,", i*10, i*10)
	}
	if a := s.get("/f.txt", "Range: "+ranges); a.StatusCode != 200 || a.body != pattern(5000) {
		t.Errorf("%d with %d bytes", a.StatusCode, len(a.body))
	}
}

// HEAD says what GET says, without the body, for everything.
func TestHeadIsGetWithoutBody(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.Pages = []Route{{Path: "/page", Page: &script{serve: hello}}, {Path: "/late", Page: &script{serve: hello, detached: true}}}
	})
	s.write("small.html", "small")
	s.write("large.bin", pattern(100_000))
	s.write("dir/index.html", "index")
	w := s.dial()
	for _, path := range []string{"/small.html", "/large.bin", "/dir/", "/dir", "/page", "/late", "/none", "/%", "/dir/none"} {
		var heads [2]http.Header
		var status [2]int
		for i, method := range []string{"GET", "HEAD"} {
			w.send(request(method, path))
			a := w.next(method)
			if a.Header.Get("Date") == "" || a.Header.Get("Server") != "Tidemark" {
				t.Errorf("%s %s: %v", method, path, a.Header)
			}
			if method == "GET" && a.ContentLength != int64(len(a.body)) {
				t.Errorf("%s: length %d for %d bytes", path, a.ContentLength, len(a.body))
			}
			a.Header.Del("Date")
			heads[i], status[i] = a.Header, a.StatusCode
		}
		if status[0] != status[1] || fmt.Sprint(heads[0]) != fmt.Sprint(heads[1]) {
			t.Errorf("%s:\nGET  %d %v\nHEAD %d %v", path, status[0], heads[0], status[1], heads[1])
		}
	}
}

func TestDirectories(t *testing.T) {
	s := serve(t, func(o *Options) { o.Index = []string{"index.html", "index.txt"} })
	s.write("index.html", "top")
	s.write("sub/index.txt", "sub")
	s.write("empty/other", "x")
	s.write("a b/index.html", "blank")
	s.write("odd/index.html/x", "x")
	for _, c := range []struct {
		path   string
		status int
		want   string // body, or location
	}{
		{"/", 200, "top"}, {"/?q", 200, "top"}, {"/index.html", 200, "top"}, {"/sub/", 200, "sub"}, {"/sub", 301, "/sub/"},
		{"/sub?a=b&c", 301, "/sub/?a=b&c"}, {"/empty/", 404, ""}, {"/empty", 301, "/empty/"}, {"/a%20b", 301, "/a%20b/"},
		{"/a%20b/", 200, "blank"}, {"//sub", 301, "/sub/"}, {"/x/..//sub", 301, "/sub/"}, {"/odd/", 404, ""},
		{"/sub/index.txt/", 404, ""}, {"/index.html/", 404, ""}, {"/index.htm", 404, ""},
	} {
		for range 2 { // the second time from the loop's table
			a := s.get(c.path)
			got := a.body
			if c.status == 301 {
				got = a.Header.Get("Location")
			}
			if a.StatusCode != c.status || c.want != "" && got != c.want {
				t.Errorf("%s: %d %q, want %d %q", c.path, a.StatusCode, got, c.status, c.want)
			}
		}
	}
	// A better index comes into being, and goes again.
	s.write("sub/index.html", "better")
	if a := s.get("/sub/"); a.body != "better" {
		t.Errorf("a new index is not seen: %q", a.body)
	}
	os.Remove(filepath.Join(s.root, "sub/index.html"))
	if a := s.get("/sub/"); a.body != "sub" {
		t.Errorf("a removed index is still there: %q", a.body)
	}
}

func TestTraversal(t *testing.T) {
	s := serve(t, nil)
	s.write("in/f.txt", "public")
	s.write(".secret", "hidden")
	s.write(".git/config", "hidden")
	s.write("in/.htpasswd", "hidden")
	s.write(".well-known/acme", "public")
	s.write(".well-known/.x", "hidden")
	outside := filepath.Dir(s.root)
	if err := os.WriteFile(outside+"/secret", []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"out": outside, "outfile": outside + "/secret", "up": "..", "upfile": "../secret", "fd": "/proc/self/fd",
		"root": "/", "in/self": "..", "good": "in/f.txt",
	} {
		if err := os.Symlink(to, filepath.Join(s.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{
		"/../secret", "/..%2fsecret", "/%2e%2e/secret", "/%2e%2e%2fsecret", "/.%2e/secret", "/%252e%252e/secret",
		"/in/../../secret", "/in/%2e%2e/%2e%2e/secret", "/in/..%5c..%5csecret", "/in/..\\..\\secret", "//../secret",
		"/./../secret", "/in/...//../../secret", "/%c0%ae%c0%ae/secret", "/%uff0e%uff0e/secret", "/in/f.txt%00", "/in/f.txt%00.html",
		"/in%00/../f.txt", "/%2e%2e", "/..", "/%", "/%2", "/%zz", "/in/%2f", "/out/secret", "/outfile", "/up/secret", "/upfile", "/fd/3",
		"/fd/0", "/root/etc/passwd", "/in/self/up/secret", "/.secret", "/%2esecret", "/.git/config", "/in/.htpasswd",
		"/.well-known/.x", "/.well-known/../.secret", "/in/self/.secret", "/in/f.txt/..%2f..%2fsecret", "/proc/self/root/etc/passwd",
		"/in/f.txt/", "/in/f.txt/.", "/in/f.txt/../../secret",
	} {
		for range 2 {
			if a := s.get(path); a.StatusCode < 400 || strings.Contains(a.body, "secret") || strings.Contains(a.body, "hidden") {
				t.Errorf("%s: %d %q", path, a.StatusCode, a.body)
			}
		}
	}
	for _, path := range []string{"/in/f.txt", "/in/../in/f.txt", "/in/./f.txt", "//in///f.txt", "/in/%66.txt", "/in/f%2Etxt",
		"/good", "/in/self/in/f.txt", "/.well-known/acme", "http://other/in/f.txt", "/in/f.txt?../../secret"} {
		if a := s.get(path); a.StatusCode != 200 || a.body != "public" {
			t.Errorf("%s: %d %q", path, a.StatusCode, a.body)
		}
	}
	// The same names must not come in by way of a page.
	opened := []string{}
	p := serve(t, func(o *Options) {
		o.Root = s.root
		o.Pages = []Route{{Path: "/read", Page: &script{}}}
		o.Pages[0].Page = &reader{}
	})
	for _, path := range []string{"/.secret", "/.git/config", "/../secret", "/upfile", "/fd/3", "/in/../.secret"} {
		if a := p.get("/read?" + path); a.StatusCode != 404 {
			t.Errorf("a page read %s: %q", path, a.body)
		}
	}
	if a := p.get("/read?/in/f.txt"); a.body != "public" {
		t.Errorf("a page: %d %q, %v", a.StatusCode, a.body, opened)
	}
}

// The cache follows the disk whatever happens to a file, small or large.
func TestFilesChangeUnderTheCache(t *testing.T) {
	s := serve(t, func(o *Options) { o.SendfileMin = 1000 })
	w := s.dial()
	tags := map[string]string{}
	get := func(path string) answer {
		w.send(request("GET", path))
		return w.next("GET")
	}
	for _, size := range []int{10, 5000} {
		name := fmt.Sprintf("f%d.txt", size)
		full := filepath.Join(s.root, name)
		for i, change := range []func(text string){
			func(text string) { os.WriteFile(full, []byte(text), 0o644) },
			func(text string) { os.WriteFile(full+"~", []byte(text), 0o644); os.Rename(full+"~", full) },
			func(text string) { os.Remove(full); os.WriteFile(full, []byte(text), 0o644) },
			func(text string) { // same size, old time
				info, _ := os.Stat(full)
				os.WriteFile(full, []byte(text), 0o644)
				os.Chtimes(full, info.ModTime(), info.ModTime())
			},
		} {
			text := strings.Repeat(fmt.Sprint(i), size)
			change(text)
			for range 2 {
				a := get("/" + name)
				if a.StatusCode != 200 || a.body != text {
					t.Fatalf("%s after change %d: %d, %.10q", name, i, a.StatusCode, a.body)
				}
				tags[a.Header.Get("ETag")] = text
			}
		}
		os.Chmod(full, 0)
		if os.Getuid() != 0 {
			if a := get("/" + name); a.StatusCode != 403 {
				t.Errorf("unreadable: %d", a.StatusCode)
			}
		}
		os.Remove(full)
		if a := get("/" + name); a.StatusCode != 404 {
			t.Errorf("removed: %d", a.StatusCode)
		}
		os.Mkdir(full, 0o755)
		if a := get("/" + name); a.StatusCode != 301 {
			t.Errorf("a directory now: %d", a.StatusCode)
		}
	}
}

// A file that shrinks while it is sent: the client is told by the broken connection, never by wrong bytes.
func TestFileTruncatedWhileSent(t *testing.T) {
	s := serve(t, func(o *Options) { o.SendBuffer = 128 << 10 })
	const size = 8 << 20
	s.write("big", pattern(size))
	w := s.dial()
	w.SetReadBuffer(16 << 10)
	w.send(request("GET", "/big"))
	rs, err := http.ReadResponse(w.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	some := make([]byte, 1000)
	if _, err := io.ReadFull(rs.Body, some); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(s.root, "big"), 2<<20); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(rs.Body)
	if err == nil {
		t.Errorf("a whole answer of %d bytes", len(rest))
	}
	if got := string(some) + string(rest); got != pattern(size)[:len(got)] {
		t.Error("wrong bytes")
	}
	s.end()
	if r := s.records(); len(r) != 1 || r[0].Bytes >= size || s.Stats().HTTP.Aborted != 1 {
		t.Errorf("log: %d records, %+v", len(r), s.Stats().HTTP)
	}
}

func TestLargeFileToSlowReader(t *testing.T) {
	s := serve(t, func(o *Options) { o.SendBuffer = 128 << 10 })
	const size = 3<<20 + 17
	text := pattern(size)
	s.write("big", text)
	w := s.dial()
	w.SetReadBuffer(128 << 10)
	for range 2 {
		w.send(request("GET", "/big"))
		rs, err := http.ReadResponse(w.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 0, size)
		for n := 1; len(b) < size; n = n*3%20011 + 1 { // pieces of all sizes
			k, err := rs.Body.Read(b[len(b):min(len(b)+n, size)])
			if b = b[:len(b)+k]; err != nil && len(b) < size {
				t.Fatalf("after %d bytes: %v", len(b), err)
			}
		}
		if string(b) != text {
			t.Fatal("wrong bytes")
		}
	}
	s.end()
	if p := s.Stats().Loops[0].PartialSends; p == 0 {
		t.Error("the reader was not slow: nothing was tested")
	}
}

func TestTypes(t *testing.T) {
	s := serve(t, func(o *Options) { o.Types = map[string]string{"foo": "x/foo", "": "text/html", "*": "x/unknown"} })
	for name, want := range map[string]string{
		"a.html": "text/html; charset=utf-8", "A.HTML": "text/html; charset=utf-8", "a.foo": "x/foo", "noext": "text/html",
		"a.bar": "x/unknown", "x.tar.gz": "application/gzip", "a.": "text/html", "d.d/noext": "text/html", "a.svg": "image/svg+xml",
	} {
		s.write(name, "x")
		if a := s.get("/" + url.PathEscape(name)); a.StatusCode == 200 && a.Header.Get("Content-Type") != want {
			t.Errorf("%s: %q, want %q", name, a.Header.Get("Content-Type"), want)
		}
	}
}

// Files that the kernel must first read from disk are read elsewhere, and the answer is the same.
func TestColdFiles(t *testing.T) {
	s := serve(t, func(o *Options) { o.SendfileMin = 5000 })
	w := s.dial()
	for _, size := range []int{100, 4000, 300_000} {
		for i := range 5 {
			name := fmt.Sprintf("/d%d/f%d", size, i)
			s.write(name, pattern(size))
			forget(t, s.root+name)
			w.send(request("GET", name))
			if a := w.next("GET"); a.StatusCode != 200 || a.body != pattern(size) {
				t.Errorf("%s: %d, %d bytes", name, a.StatusCode, len(a.body))
			}
		}
	}
	s.write("/cold/index.html", "index")
	forget(t, s.root+"/cold/index.html")
	w.send(request("GET", "/cold/") + request("GET", "/cold"))
	if a := w.next("GET"); a.body != "index" {
		t.Errorf("%d %q", a.StatusCode, a.body)
	}
	if a := w.next("GET"); a.StatusCode != 301 {
		t.Errorf("%d", a.StatusCode)
	}
}
