package files

import (
	"testing"
	"time"

	"tidemark.dev/internal/ground/httpwire"
)

// The full matrix against net/http is tested where there is a server; here are the finer points.
func TestDecide(t *testing.T) {
	stamp := time.Date(2024, 2, 29, 12, 0, 0, 500, time.UTC)
	v := &Validators{ETag: `"a,b"`, ModTime: stamp.UnixNano(), Size: 100}
	const at, before, after = "Thu, 29 Feb 2024 12:00:00 GMT", "Thu, 29 Feb 2024 11:59:59 GMT", "Thu, 29 Feb 2024 12:00:01 GMT"
	for _, c := range []struct {
		c      Conditions
		head   bool
		status int
		parts  int
	}{
		{status: 200},
		// Lists: commas inside tags, empty elements, weak tags, things that are no tags.
		{c: Conditions{IfNoneMatch: []byte(`"x", "a,b"`)}, status: 304},
		{c: Conditions{IfNoneMatch: []byte(`, ,W/"a,b"`)}, status: 304},
		{c: Conditions{IfNoneMatch: []byte(`"a", "b"`)}, status: 200},
		{c: Conditions{IfNoneMatch: []byte(`a,b`)}, status: 200},
		{c: Conditions{IfNoneMatch: []byte(`"a,b`)}, status: 200},
		{c: Conditions{IfNoneMatch: []byte(`W/`)}, status: 200},
		{c: Conditions{IfNoneMatch: []byte(`*`)}, status: 304},
		{c: Conditions{IfMatch: []byte(`*`)}, status: 200},
		{c: Conditions{IfMatch: []byte(`W/"a,b"`)}, status: 412},
		{c: Conditions{IfMatch: []byte(`W/"a,b", "a,b"`)}, status: 200},
		{c: Conditions{IfMatch: []byte(`junk`)}, status: 412},
		// Whole seconds; a tag hides the date of its kind; both kinds are looked at in order.
		{c: Conditions{IfModifiedSince: []byte(at)}, status: 304},
		{c: Conditions{IfModifiedSince: []byte(before)}, status: 200},
		{c: Conditions{IfModifiedSince: []byte(after)}, status: 304},
		{c: Conditions{IfModifiedSince: []byte(at), IfNoneMatch: []byte(`"x"`)}, status: 200},
		{c: Conditions{IfUnmodifiedSince: []byte(before), IfMatch: []byte(`*`)}, status: 200},
		{c: Conditions{IfUnmodifiedSince: []byte(before), IfNoneMatch: []byte(`*`)}, status: 412},
		{c: Conditions{IfUnmodifiedSince: []byte(at), IfModifiedSince: []byte(at)}, status: 304},
		// Ranges.
		{c: Conditions{Range: []byte("bytes=0-9")}, status: 206, parts: 1},
		{c: Conditions{Range: []byte("bytes=0-9")}, head: true, status: 200},
		{c: Conditions{Range: []byte("bytes=0-9,20-29")}, status: 206, parts: 2},
		{c: Conditions{Range: []byte("bytes=0-,1-")}, status: 200},
		{c: Conditions{Range: []byte("bytes=0-9,200-")}, status: 206, parts: 1},
		{c: Conditions{Range: []byte("bytes=100-")}, status: 416},
		{c: Conditions{Range: []byte("bytes=0-9"), IfRange: []byte(`"a,b"`)}, status: 206, parts: 1},
		{c: Conditions{Range: []byte("bytes=0-9"), IfRange: []byte(`W/"a,b"`)}, status: 200},
		{c: Conditions{Range: []byte("bytes=0-9"), IfRange: []byte(at)}, status: 206, parts: 1},
		{c: Conditions{Range: []byte("bytes=0-9"), IfRange: []byte(after)}, status: 200},
		{c: Conditions{Range: []byte("bytes=0-9"), IfRange: []byte("junk")}, status: 200},
		{c: Conditions{Range: []byte("bytes=100-"), IfRange: []byte(`"x"`)}, status: 200},
		{c: Conditions{Range: []byte("bytes=0-9"), IfNoneMatch: []byte(`"a,b"`)}, status: 304},
	} {
		dst := make([]httpwire.Span, 0, MaxRanges)
		status, spans := Decide(&c.c, v, !c.head, dst)
		if status != c.status || len(spans) != c.parts {
			t.Errorf("%q head %v: %d with %v, want %d with %d parts", c.c, c.head, status, spans, c.status, c.parts)
		}
	}
	c := Conditions{IfNoneMatch: []byte(`"x", "y"`), IfModifiedSince: []byte(at), Range: []byte("bytes=1-2,4-5")}
	dst := make([]httpwire.Span, 0, MaxRanges)
	if n := testing.AllocsPerRun(100, func() { Decide(&c, v, true, dst) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTimesBeforeTheEpochAndAfterNow(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	for ns, want := range map[int64]string{
		-1:       "Wed, 31 Dec 1969 23:59:59 GMT",
		0:        "Thu, 01 Jan 1970 00:00:00 GMT",
		now + 10: "Thu, 01 Jan 2026 00:00:00 GMT",
		1e18 + 5: "Sun, 09 Sep 2001 01:46:40 GMT",
		now - 1:  "Wed, 31 Dec 2025 23:59:59 GMT",
	} {
		if got := string(AppendModified(nil, ns, now)); got != want {
			t.Errorf("%d: %s, want %s", ns, got, want)
		}
	}
}

func TestHidden(t *testing.T) {
	for path, want := range map[string]bool{
		"/": false, "/a.b": false, "/a./b": false, "/.a": true, "/a/.b": true, "/.a/b": true, "/a/.b/c": true, "/..a": true,
		"/.well-known/": false, "/.well-known/acme-challenge/x.y": false, "/.well-known/.x": true, "/.well-known/a/.x": true,
		"/.well-known": true, "/.well-knownx/a": true, "/a/.well-known/b": true,
	} {
		if got := Hidden(path); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}

func TestTypes(t *testing.T) {
	plain := NewTypes(nil)
	over := NewTypes(map[string]string{"html": "x/html", "": "x/none", "*": "x/unknown"})
	for path, want := range map[string][2]string{
		"/a.html":    {"text/html; charset=utf-8", "x/html"},
		"/A.Html":    {"text/html; charset=utf-8", "x/html"},
		"/a.b.js":    {"text/javascript; charset=utf-8", "text/javascript; charset=utf-8"},
		"/a":         {"text/plain; charset=utf-8", "x/none"},
		"/d.html/a":  {"text/plain; charset=utf-8", "x/none"},
		"/.html":     {"text/plain; charset=utf-8", "x/none"},
		"/a.":        {"text/plain; charset=utf-8", "x/none"},
		"/a.unheard": {"application/octet-stream", "x/unknown"},
	} {
		if a, b := plain.Of(path), over.Of(path); a != want[0] || b != want[1] {
			t.Errorf("%s: %s, %s", path, a, b)
		}
	}
}

func TestETagsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, mtime := range []int64{-1, 0, 1, 1e18, 1e18 + 1} {
		for _, size := range []int64{0, 1, 16, 1 << 40} {
			tag := string(AppendETag(nil, mtime, size))
			if seen[tag] || tag[0] != '"' || tag[len(tag)-1] != '"' {
				t.Errorf("%d, %d: %s", mtime, size, tag)
			}
			seen[tag] = true
		}
	}
}
