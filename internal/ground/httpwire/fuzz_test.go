package httpwire

import (
	"bytes"
	"math/big"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"
	"time"
)

// The seeds of every target are the vectors; testdata/fuzz holds what fuzzing
// found. Properties that need no second implementation are checked here, the
// comparison with net/http is in differ_test.go.

func seed(f *testing.F, file string, add func(v vector)) {
	for _, v := range vectors(f, file) {
		if len(v.In) < 1000 {
			add(v)
		}
	}
}

// inside reports whether view is a part of b, which must not have been cut at its
// capacity.
func inside(b, view []byte) bool {
	at := cap(b) - cap(view)
	return view == nil || at >= 0 && at+len(view) <= len(b) && &b[:cap(b)][at] == &view[:1][0]
}

// fuzzLimits are small, so that the fuzzer meets them.
var fuzzLimits = []*Limits{nil, {Line: 40, Fields: 4, Bytes: 120}, {Line: 1000, Bytes: 60}}

func FuzzParseRequest(f *testing.F) {
	seed(f, "request.json", func(v vector) { f.Add([]byte(v.In)) })
	f.Add([]byte(requestBrowser))
	f.Fuzz(func(t *testing.T, b []byte) { tryRequest(t, b) })
}

func tryRequest(t *testing.T, b []byte) {
	defer logInput(t, b)
	b = append(make([]byte, 0, len(b)+1), b...)
	for _, lim := range fuzzLimits {
		var r Request
		n, status := ParseRequest(b, &r, lim)
		switch status {
		case 400, 414, 431, 501, 505:
			if n != 0 {
				t.Fatalf("refused with %d, but %d bytes", status, n)
			}
		case 0:
			if n < 0 || n > len(b) {
				t.Fatalf("%d bytes of %d", n, len(b))
			}
		default:
			t.Fatalf("status %d", status)
		}
		var other Request
		checkPrefixes(t, b, lengths(len(b)), n, status, func(b []byte) (int, int) {
			return ParseRequest(b, &other, lim)
		})
		if n == 0 {
			continue
		}
		checkRequest(t, b[:n:cap(b)], &r, lim.orDefaults())
		if lim == nil {
			differRequest(t, b[:n], &r)
		}
	}
	differRefusedRequest(t, b)
}

func logInput(t *testing.T, b []byte) {
	if t.Failed() {
		t.Logf("input %q", b)
	}
}

func checkRequest(t *testing.T, b []byte, r *Request, lim Limits) {
	views := [][]byte{r.MethodName, r.Target, r.Path, r.Query, r.Host, r.Cookie, r.ContentType, r.IfMatch,
		r.IfNoneMatch, r.IfModifiedSince, r.IfUnmodifiedSince, r.Range, r.IfRange}
	for _, f := range r.Fields {
		views = append(views, f.Name, f.Value)
		if len(f.Name) == 0 || !all(f.Name, inToken) || slowValueEnd(f.Value, 0) != len(f.Value) {
			t.Fatalf("field %q", f)
		}
		if len(trim(f.Value)) != len(f.Value) {
			t.Fatalf("blanks around %q", f.Value)
		}
	}
	for _, v := range views {
		if !inside(b, v) {
			t.Fatalf("%q is not a view into %q", v, b)
		}
	}
	switch {
	case len(r.Fields) > lim.Fields || len(b) > lim.Bytes || bytes.Index(b, []byte("\r\n")) > lim.Line:
		t.Fatal("beyond the limits")
	case !bytes.HasSuffix(b, []byte("\r\n\r\n")):
		t.Fatalf("a head ends in %q", b)
	case r.Chunked && r.ContentLength >= 0:
		t.Fatal("two lengths")
	case r.Proto != 10 && r.Proto != 11:
		t.Fatal("proto", r.Proto)
	case r.Method != CONNECT && (len(r.Path) == 0 || r.Path[0] != '/' && string(r.Path) != "*"):
		t.Fatalf("path %q", r.Path)
	case r.HasQuery != (r.Query != nil) || r.HasQuery != (bytes.IndexByte(r.Target, '?') >= 0):
		t.Fatalf("query %q of %q", r.Query, r.Target)
	case r.ExpectContinue && r.ContentLength <= 0 && !r.Chunked:
		t.Fatal("waits for 100 without a body")
	}
}

func FuzzParseResponse(f *testing.F) {
	seed(f, "response.json", func(v vector) { f.Add([]byte(v.In)) })
	f.Fuzz(func(t *testing.T, b []byte) { tryResponse(t, b) })
}

func tryResponse(t *testing.T, b []byte) {
	defer logInput(t, b)
	b = append(make([]byte, 0, len(b)+1), b...)
	for _, lim := range fuzzLimits {
		var r, other Response
		n, err := ParseResponse(b, &r, lim)
		if n < 0 || n > len(b) || n > 0 && err != nil {
			t.Fatal(n, err)
		}
		checkPrefixes(t, b, lengths(len(b)), n, statusOf(err), func(b []byte) (int, int) {
			n, err := ParseResponse(b, &other, lim)
			return n, statusOf(err)
		})
		if n == 0 {
			continue
		}
		views := [][]byte{r.Reason, r.ContentType, r.SetCookie, r.Date, r.Location, r.Server}
		for _, f := range r.Fields {
			views = append(views, f.Name, f.Value)
		}
		for _, v := range views {
			if !inside(b, v) {
				t.Fatalf("%q is not a view into %q", v, b)
			}
		}
		if lim == nil {
			differResponse(t, b[:n], &r)
		}
	}
	differRefusedResponse(t, b)
}

func FuzzChunks(f *testing.F) {
	seed(f, "chunks.json", func(v vector) { f.Add([]byte(v.In), 3) })
	f.Fuzz(func(t *testing.T, b []byte, piece int) {
		var whole, split Chunks
		out, n, done, err := whole.Decode(nil, b)
		out2, n2, done2, err2 := decodeIn(&split, b, max(1, piece%64))
		if !bytes.Equal(out, out2) || n != n2 || done != done2 || statusOf(err) != statusOf(err2) {
			t.Fatalf("at once %q %d %v %v, in pieces %q %d %v %v", out, n, done, err, out2, n2, done2, err2)
		}
		if n > len(b) || len(out) > n || done && err != nil {
			t.Fatal(n, len(out), done, err)
		}
		differChunks(t, b, out, n, done, err)
	})
}

func FuzzCleanPath(f *testing.F) {
	seed(f, "path.json", func(v vector) { f.Add([]byte(v.In)) })
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := CleanPath(nil, b)
		want, wantOK := slowCleanPath(string(b))
		if ok != wantOK || string(got) != want {
			t.Fatalf("%q: got %q, %v; want %q, %v", b, got, ok, want, wantOK)
		}
		if ok && bytes.IndexByte(got, '%') < 0 {
			if again, ok := CleanPath(nil, got); !ok || !bytes.Equal(again, got) {
				t.Fatalf("%q cleaned again is %q", got, again)
			}
		}
	})
}

// slowCleanPath does with the standard library, step by step, what CleanPath does
// in one pass.
func slowCleanPath(s string) (string, bool) {
	if !strings.HasPrefix(s, "/") || strings.Contains(strings.ToLower(s), "%2f") {
		return "", false
	}
	plain, err := url.PathUnescape(s)
	if err != nil {
		return "", false
	}
	depth := 0
	for _, segment := range strings.Split(plain, "/") {
		switch segment {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return "", false
			}
		default:
			depth++
		}
	}
	for _, c := range []byte(plain) {
		if c < ' ' || c == 0x7f || c == '\\' {
			return "", false
		}
	}
	clean := path.Clean(plain)
	last := plain[strings.LastIndexByte(plain, '/')+1:]
	if clean != "/" && (last == "" || last == "." || last == "..") {
		clean += "/"
	}
	return clean, true
}

func FuzzParseRange(f *testing.F) {
	seed(f, "range.json", func(v vector) { f.Add([]byte(v.In), v.Size) })
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		size &= 1<<63 - 1
		got, ok, satisfiable := ParseRange(b, size, make([]Span, 0, 4))
		want, wantOK := slowParseRange(string(b), size, 4)
		if ok != wantOK || len(got) != len(want) || satisfiable != (len(want) > 0) {
			t.Fatalf("%q of %d: got %v, %v, %v; want %v, %v", b, size, got, ok, satisfiable, want, wantOK)
		}
		for i := range got {
			if got[i] != want[i] || got[i].Len <= 0 || got[i].Off < 0 || got[i].Off > size-got[i].Len {
				t.Fatalf("%q of %d: got %v, want %v", b, size, got, want)
			}
		}
	})
}

// slowParseRange is ParseRange with big numbers, which count as the largest size
// where they exceed it.
func slowParseRange(s string, size int64, most int) (spans []Span, ok bool) {
	if len(s) < 6 || !strings.EqualFold(s[:6], "bytes=") || size == 0 {
		return nil, false
	}
	number := func(s string) *big.Int {
		if s == "" || strings.Trim(s, "0123456789") != "" {
			return nil
		}
		n, _ := new(big.Int).SetString(s, 10)
		if !n.IsInt64() {
			n.SetInt64(1<<63 - 1)
		}
		return n
	}
	total, one, parts := big.NewInt(size), big.NewInt(1), 0
	for _, e := range strings.Split(s[6:], ",") {
		e = strings.Trim(e, " \t")
		if e == "" {
			continue
		}
		parts++
		left, right, dash := strings.Cut(e, "-")
		first, last := number(left), number(right)
		switch {
		case !dash || parts > most || left != "" && first == nil || right != "" && last == nil || first == nil && last == nil:
			return nil, false
		case first == nil:
			if last.Cmp(total) > 0 {
				last = total
			}
			first, last = new(big.Int).Sub(total, last), new(big.Int).Sub(total, one)
		case last == nil:
			last = new(big.Int).Sub(total, one)
		case last.Cmp(first) < 0:
			return nil, false
		}
		if last.Cmp(total) >= 0 {
			last = new(big.Int).Sub(total, one)
		}
		if first.Cmp(total) < 0 {
			n := new(big.Int).Sub(last, first)
			spans = append(spans, Span{first.Int64(), n.Add(n, one).Int64()})
		}
	}
	return spans, parts > 0
}

func FuzzParseDate(f *testing.F) {
	seed(f, "date.json", func(v vector) { f.Add([]byte(v.In)) })
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := ParseDate(b)
		if !ok {
			return
		}
		// Differences from net/http, all of them: a leap second, and 69 as a year of
		// two digits.
		s, add := strings.Replace(string(b), ":60", ":59", 1), int64(0)
		if s != string(b) {
			add = 1
		}
		want, err := http.ParseTime(s)
		if strings.Contains(s, "-69 ") {
			want = want.AddDate(100, 0, 0)
		}
		if err != nil || want.Unix()+add != got {
			t.Fatalf("%q: got %s; net/http: %s, %v", b, time.Unix(got, 0).UTC(), want, err)
		}
		back := AppendDate(nil, got)
		if again, ok := ParseDate(back); !ok || again != got {
			t.Fatalf("%q written as %q reads as %d", b, back, again)
		}
		if len(b) == 29 && add == 0 && !bytes.Equal(back[3:], b[3:]) {
			t.Fatalf("%q is written as %q", b, back)
		}
	})
}
