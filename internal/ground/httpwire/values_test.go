package httpwire

import (
	"bytes"
	"net/http"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCleanPathVectors(t *testing.T) {
	for _, v := range vectors(t, "path.json") {
		var want text
		refuse := false
		v.wants(t, "path", &want)
		v.wants(t, "refuse", &refuse)
		v.finish(t)
		out, ok := CleanPath([]byte("keep"), v.In)
		if ok == refuse || string(out) != "keep"+string(want) {
			t.Errorf("%q: got %q, %v; want %q", v.In, out, ok, want)
		}
	}
}

func TestParseRangeVectors(t *testing.T) {
	for _, v := range vectors(t, "range.json") {
		var want [][2]int64
		var unsatisfiable, ignore bool
		v.wants(t, "spans", &want)
		v.wants(t, "unsatisfiable", &unsatisfiable)
		v.wants(t, "ignore", &ignore)
		v.finish(t)
		spans, ok, satisfiable := ParseRange(v.In, v.Size, make([]Span, 0, 4))
		if ok == ignore || satisfiable != (!ignore && !unsatisfiable) || len(spans) != len(want) {
			t.Errorf("%s: got %v, %v, %v", v.Name, spans, ok, satisfiable)
			continue
		}
		for i, w := range want {
			if spans[i] != (Span{w[0], w[1]}) {
				t.Errorf("%s: got %v, want %v", v.Name, spans, want)
			}
		}
	}
}

func TestParseDateVectors(t *testing.T) {
	for _, v := range vectors(t, "date.json") {
		var want int64
		refuse := false
		v.wants(t, "unix", &want)
		v.wants(t, "refuse", &refuse)
		v.finish(t)
		if got, ok := ParseDate(v.In); ok == refuse || ok && got != want {
			t.Errorf("%q: got %d, %v; want %d", v.In, got, ok, want)
		}
	}
}

func TestDatesAgreeWithTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unix := rapid.Int64Range(firstDate, lastDate).Draw(t, "unix")
		at := time.Unix(unix, 0).UTC()
		if got, want := string(AppendDate(nil, unix)), at.Format(http.TimeFormat); got != want {
			t.Fatalf("%d: got %q, want %q", unix, got, want)
		}
		forms := []string{http.TimeFormat, time.ANSIC}
		if at.Year() >= 1970 && at.Year() < 2069 {
			forms = append(forms, "Monday, 02-Jan-06 15:04:05 GMT")
		}
		for _, form := range forms {
			if got, ok := ParseDate([]byte(at.Format(form))); !ok || got != unix {
				t.Fatalf("%q: got %d, %v; want %d", at.Format(form), got, ok, unix)
			}
		}
	})
}

func TestAppendDateEveryDay(t *testing.T) {
	b := make([]byte, 0, 29)
	for unix := int64(-86400 * 366); unix < 86400*366*500; unix += 86400 {
		b = AppendDate(b[:0], unix)
		if want := time.Unix(unix, 0).UTC().AppendFormat(nil, http.TimeFormat); !bytes.Equal(b, want) {
			t.Fatalf("%d: got %q, want %q", unix, b, want)
		}
	}
}

func TestAppendDateOutside(t *testing.T) {
	for unix, want := range map[int64]string{
		-1 << 63:      "Sat, 01 Jan 0000 00:00:00 GMT",
		1<<63 - 1:     "Fri, 31 Dec 9999 23:59:59 GMT",
		lastDate + 1:  "Fri, 31 Dec 9999 23:59:59 GMT",
		firstDate - 1: "Sat, 01 Jan 0000 00:00:00 GMT",
	} {
		if got := string(AppendDate(nil, unix)); got != want {
			t.Errorf("%d: got %q, want %q", unix, got, want)
		}
	}
}

// RFC 9110 renamed three statuses; net/http keeps the old names and one of its own.
func TestStatusText(t *testing.T) {
	ours := map[int]string{413: "Content Too Large", 414: "URI Too Long", 416: "Range Not Satisfiable", 418: "", 422: "Unprocessable Content", 510: ""}
	for status := 100; status < 1000; status++ {
		want := http.StatusText(status)
		if w, different := ours[status]; different {
			want = w
		}
		if got := StatusText(status); got != want {
			t.Errorf("%d: got %q, want %q", status, got, want)
		}
	}
}

func TestAppend(t *testing.T) {
	for got, want := range map[string]string{
		string(AppendStatusLine(nil, 11, 200)):                        "HTTP/1.1 200 OK\r\n",
		string(AppendStatusLine(nil, 10, 404)):                        "HTTP/1.0 404 Not Found\r\n",
		string(AppendStatusLine(nil, 11, 299)):                        "HTTP/1.1 299 \r\n",
		string(AppendField([]byte("x"), "A", "b")):                    "xA: b\r\n",
		string(AppendField(nil, "A", []byte("b\tc"))):                 "A: b\tc\r\n",
		string(AppendField(nil, "A", "b\r\nSet-Cookie: c\x00\x7f")):   "A: b  Set-Cookie: c  \r\n",
		string(AppendField(nil, "Location", "/longer/than/8/\r\n\n")): "Location: /longer/than/8/   \r\n",
		string(AppendChunkHead(nil, 255)):                             "ff\r\n",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64().Draw(t, "v")
		if got := string(AppendInt(nil, v)); got != strconv.FormatInt(v, 10) {
			t.Fatal(got)
		}
	})
}

func TestValuesDoNotAllocate(t *testing.T) {
	b := make([]byte, 0, 256)
	spans := make([]Span, 0, 4)
	value := []byte("bytes=0-1,4-5")
	for name, f := range map[string]func(){
		"AppendStatusLine": func() { AppendStatusLine(b, 11, 503) },
		"AppendField":      func() { AppendField(AppendField(b, "A", "b"), "C", value) },
		"AppendInt":        func() { AppendInt(b, 1<<62) },
		"AppendChunkHead":  func() { AppendChunkHead(b, 1<<62) },
		"AppendDate":       func() { AppendDate(b, 784111777) },
		"ParseDate":        func() { ParseDate([]byte("Sun Nov  6 08:49:37 1994")) },
		"ParseDate 850":    func() { ParseDate([]byte("Sunday, 06-Nov-94 08:49:37 GMT")) },
		"CleanPath":        func() { CleanPath(b, []byte("/a/../%62//c")) },
		"ParseRange":       func() { ParseRange(value, 100, spans) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// The byte classes are written out in scan.go; here they are from their definitions.
func TestClass(t *testing.T) {
	if len(class) != 256 {
		t.Fatal(len(class))
	}
	const alnum = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for i := range 256 {
		c := byte(i)
		var want byte
		if bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"+alnum), c) >= 0 {
			want |= inToken
		}
		if bytes.IndexByte([]byte("-._~!$&'()*+;="+alnum), c) >= 0 {
			want |= inHost
		}
		if c >= ' ' && c != 0x7f && c != '%' && c != '/' && c != '\\' {
			want |= inPath
		}
		if class[c] != want {
			t.Errorf("%#x: got %d, want %d", c, class[c], want)
		}
	}
}

// The scans of eight bytes at a time agree with one byte at a time.
func TestScansAgree(t *testing.T) {
	b := bytes.Repeat([]byte("a\x80~!"), 8)
	for at := range len(b) {
		for i := range 256 {
			kept := b[at]
			b[at] = byte(i)
			for from := range 12 {
				if got, want := valueEnd(b, from), slowValueEnd(b, from); got != want {
					t.Fatalf("valueEnd(%q, %d): got %d, want %d", b, from, got, want)
				}
			}
			b[at] = kept
			p := bytes.Repeat([]byte("a~!"), 7)
			p[at%len(p)] = byte(i)
			if got, want := printable(p), i > ' ' && i < 0x7f; got != want {
				t.Fatalf("printable(%q): got %v", p, got)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte("\x00\t\r\n \x1f\x20\x21a\x7e\x7f\x80\xff")), 0, 30).Draw(t, "b")
		if got, want := valueEnd(b, 0), slowValueEnd(b, 0); got != want {
			t.Fatalf("valueEnd: got %d, want %d", got, want)
		}
	})
}

func slowValueEnd(b []byte, i int) int {
	for ; i < len(b); i++ {
		if b[i] < ' ' && b[i] != '\t' || b[i] == 0x7f {
			break
		}
	}
	return i
}
