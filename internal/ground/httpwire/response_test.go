package httpwire

import (
	"errors"
	"testing"
)

func TestParseResponseVectors(t *testing.T) {
	for _, v := range vectors(t, "response.json") {
		t.Run(v.Name, func(t *testing.T) {
			var r Response
			n, err := ParseResponse(v.In, &r, nil)
			want, refuse, more, head := len(v.In), false, false, false
			v.wants(t, "bytes", &want)
			v.wants(t, "refuse", &refuse)
			v.wants(t, "more", &more)
			v.wants(t, "head", &head)
			if refuse || more {
				want = 0
			}
			var why *ParseError
			if n != want || errors.As(err, &why) != refuse || refuse && why.Error() == "" {
				t.Fatalf("got %d, %v; want %d, refuse %v", n, err, want, refuse)
			}
			checkPrefixes(t, v.In, lengths(len(v.In)), n, statusOf(err), func(b []byte) (int, int) {
				n, err := ParseResponse(b, &r, nil)
				return n, statusOf(err)
			})
			if n > 0 {
				ParseResponse(v.In, &r, nil)
				length, toEOF := r.BodyLength(head)
				expect(t, &v, "body", length)
				expect(t, &v, "to_eof", toEOF)
				expect(t, &v, "proto", r.Proto)
				expect(t, &v, "status", r.Status)
				expect(t, &v, "length", r.ContentLength)
				expect(t, &v, "chunked", r.Chunked)
				expect(t, &v, "keep_alive", r.KeepAlive)
				expect(t, &v, "close", r.Close)
				expectText(t, &v, "reason", r.Reason)
				expectText(t, &v, "content_type", r.ContentType)
				expectText(t, &v, "set_cookie", r.SetCookie)
				expectText(t, &v, "date", r.Date)
				expectText(t, &v, "location", r.Location)
				expectText(t, &v, "server", r.Server)
				expectFields(t, &v, r.Fields)
			}
			v.finish(t)
		})
	}
}

// statusOf gives every reason a number, for checkPrefixes.
func statusOf(err error) int {
	if err == nil {
		return 0
	}
	sum := 1
	for _, c := range []byte(err.Error()) {
		sum = sum*31 + int(c)
	}
	return sum
}

func TestParseResponseDoesNotAllocate(t *testing.T) {
	var r Response
	b := []byte(response150)
	if n := testing.AllocsPerRun(100, func() { ParseResponse(b, &r, nil) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestFind(t *testing.T) {
	fields := []Field{{[]byte("ETag"), []byte("1")}, {[]byte("etag"), []byte("2")}, {[]byte("Empty"), []byte{}}}
	for _, c := range []struct {
		name, value string
		ok          bool
	}{{"etag", "1", true}, {"empty", "", true}, {"eta", "", false}, {"x-none", "", false}} {
		if v, ok := Find(fields, c.name); string(v) != c.value || ok != c.ok {
			t.Errorf("%s: got %q, %v", c.name, v, ok)
		}
	}
}

func TestCanAdvanceLosesNoResponse(t *testing.T) {
	for _, v := range vectors(t, "response.json") {
		var r Response
		wantN, wantErr := ParseResponse(v.In, &r, nil)
		old, n, err := 0, 0, error(nil)
		for i := 1; i <= len(v.In) && n == 0 && err == nil; i++ {
			if i == len(v.In) || CanAdvance(v.In[:i], old, nil) {
				n, err = ParseResponse(v.In[:i], &r, nil)
				old = i
			}
		}
		if n != wantN || statusOf(err) != statusOf(wantErr) {
			t.Errorf("%s: byte by byte %d, %v; at once %d, %v", v.Name, n, err, wantN, wantErr)
		}
	}
}

// The reasons are for people: each refused vector has one that says more than
// "malformed".
func TestParseErrorsAreSpecific(t *testing.T) {
	for _, v := range vectors(t, "response.json") {
		var r Response
		if _, err := ParseResponse(v.In, &r, nil); err != nil && err.Error() == "malformed head" {
			t.Errorf("%s: %v", v.Name, err)
		}
	}
}
