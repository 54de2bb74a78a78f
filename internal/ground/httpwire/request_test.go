package httpwire

import (
	"bytes"
	"testing"
)

func TestParseRequestVectors(t *testing.T) {
	for _, v := range vectors(t, "request.json") {
		t.Run(v.Name, func(t *testing.T) {
			var r Request
			n, status := ParseRequest(v.In, &r, nil)
			want, refuse, more := len(v.In), 0, false
			v.wants(t, "bytes", &want)
			v.wants(t, "refuse", &refuse)
			v.wants(t, "more", &more)
			if refuse != 0 || more {
				want = 0
			}
			if n != want || status != refuse {
				t.Fatalf("got %d bytes, status %d; want %d, %d", n, status, want, refuse)
			}
			checkPrefixes(t, v.In, lengths(len(v.In)), n, status, func(b []byte) (int, int) {
				return ParseRequest(b, &r, nil)
			})
			if n > 0 {
				ParseRequest(v.In, &r, nil)
				expectRequest(t, &v, &r)
			}
			v.finish(t)
		})
	}
}

func expectRequest(t *testing.T, v *vector, r *Request) {
	expect(t, v, "method", r.Method.String())
	expect(t, v, "proto", r.Proto)
	expect(t, v, "length", r.ContentLength)
	expect(t, v, "chunked", r.Chunked)
	expect(t, v, "keep_alive", r.KeepAlive)
	expect(t, v, "expect_continue", r.ExpectContinue)
	expect(t, v, "has_host", r.HasHost)
	expectText(t, v, "method_name", r.MethodName)
	expectText(t, v, "target", r.Target)
	expectText(t, v, "path", append([]byte{}, r.Path...))
	expectText(t, v, "host", append([]byte{}, r.Host...))
	expectText(t, v, "query", r.Query)
	expectText(t, v, "cookie", r.Cookie)
	expectText(t, v, "content_type", r.ContentType)
	expectText(t, v, "if_match", r.IfMatch)
	expectText(t, v, "if_none_match", r.IfNoneMatch)
	expectText(t, v, "if_modified_since", r.IfModifiedSince)
	expectText(t, v, "if_unmodified_since", r.IfUnmodifiedSince)
	expectText(t, v, "range", r.Range)
	expectText(t, v, "if_range", r.IfRange)
	expectFields(t, v, r.Fields)
}

// checkPrefixes checks that a beginning of b never ends otherwise than b does,
// except in a wish for more.
func checkPrefixes(t testing.TB, b []byte, cuts []int, n, status int, parse func([]byte) (int, int)) {
	t.Helper()
	for _, cut := range cuts {
		gotN, gotStatus := parse(b[:cut])
		switch {
		case n > 0 && cut >= n && gotN == n && gotStatus == 0:
		case n > 0 && cut < n && gotN == 0 && gotStatus == 0:
		case n == 0 && gotN == 0 && (gotStatus == 0 || gotStatus == status):
		default:
			t.Fatalf("first %d of %d bytes: got %d, status %d; all of them: %d, %d", cut, len(b), gotN, gotStatus, n, status)
		}
	}
}

func TestRequestReuse(t *testing.T) {
	var r, fresh Request
	first := []byte("POST /p?q HTTP/1.0\r\nHost: h\r\nCookie: c\r\nRange: r\r\nIf-Range: i\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\n")
	second := []byte("OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n")
	for _, in := range [][]byte{first, second} {
		if n, status := ParseRequest(in, &r, nil); n != len(in) || status != 0 {
			t.Fatal(n, status)
		}
	}
	ParseRequest(second, &fresh, nil)
	if r.Cookie != nil || r.Range != nil || r.IfRange != nil || r.HasQuery || r.Query != nil ||
		r.ContentLength != fresh.ContentLength || !r.KeepAlive || len(r.Fields) != 1 || r.Proto != 11 {
		t.Fatalf("a second parse keeps parts of the first: %+v", r)
	}
}

func TestRequestLimits(t *testing.T) {
	in := []byte("GET /abcdef HTTP/1.1\r\nHost: a\r\nA: b\r\n\r\n")
	for _, c := range []struct {
		lim    Limits
		status int
	}{
		{Limits{}, 0},
		{Limits{Line: 20, Fields: 2, Bytes: len(in)}, 0},
		{Limits{Line: 19}, 414},
		{Limits{Fields: 1}, 431},
		{Limits{Bytes: len(in) - 1}, 431},
		{Limits{Bytes: 10}, 431},
		{Limits{Line: 5, Fields: 1, Bytes: 30}, 414},
	} {
		var r Request
		n, status := ParseRequest(in, &r, &c.lim)
		if status != c.status || (n > 0) != (status == 0) {
			t.Errorf("%+v: got %d, status %d; want %d", c.lim, n, status, c.status)
		}
		checkPrefixes(t, in, lengths(len(in)), n, status, func(b []byte) (int, int) {
			return ParseRequest(b, &r, &c.lim)
		})
	}
}

// A sender of one byte at a time costs one parse per line, not per byte, with the
// help of CanAdvance, and loses nothing by it.
func TestCanAdvanceBoundsTheParses(t *testing.T) {
	for _, v := range vectors(t, "request.json") {
		var r Request
		wantN, wantStatus := ParseRequest(v.In, &r, nil)
		old, parses, n, status := 0, 0, 0, 0
		for i := 1; i <= len(v.In) && n == 0 && status == 0; i++ {
			if i < len(v.In) && !CanAdvance(v.In[:i], old, nil) {
				continue
			}
			parses++
			n, status = ParseRequest(v.In[:i], &r, nil)
			old = i
		}
		if n != wantN || status != wantStatus {
			t.Errorf("%s: byte by byte %d, %d; at once %d, %d", v.Name, n, status, wantN, wantStatus)
		}
		if most := 8 + bytes.Count(v.In, []byte("\n")); parses > most {
			t.Errorf("%s: %d parses for %d bytes, want at most %d", v.Name, parses, len(v.In), most)
		}
	}
}

func TestParseRequestDoesNotAllocate(t *testing.T) {
	var r Request
	for _, in := range []string{request150, requestBrowser, "GET / HTTP/1.1\r\nHo", "GET / HTTP/1.1\r\n\r\n", "GET /\x00 HTTP/1.1\r\n"} {
		b := []byte(in)
		if n := testing.AllocsPerRun(100, func() { ParseRequest(b, &r, nil) }); n != 0 {
			t.Errorf("%.20q: %v allocations", in, n)
		}
	}
}
