package httpwire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// This file compares with net/http. Where both accept, they must agree on method,
// target, framing and persistence. Where only one accepts, the input must fall
// under one of the differences listed here; TestDifferences holds an example of
// each.

// difference is something that one side accepts and the other refuses.
type difference struct {
	why     string
	applies func(h head) bool
	example string
}

// head is a message head taken apart crudely.
type head struct {
	raw    string
	line   string // first line
	method string
	target string
	proto  string
	fields [][2]string // names in lower case
}

func takeApart(b []byte) (h head) {
	h.raw = string(b)
	if i := strings.Index(h.raw, "\n\r\n"); i >= 0 {
		h.raw = h.raw[:i+3]
	}
	if i := strings.Index(h.raw, "\n\n"); i >= 0 {
		h.raw = h.raw[:i+2]
	}
	lines := strings.Split(h.raw, "\n")
	h.line = strings.TrimSuffix(lines[0], "\r")
	h.method, h.target, _ = strings.Cut(h.line, " ")
	if i := strings.LastIndexByte(h.target, ' '); i >= 0 {
		h.target, h.proto = h.target[:i], h.target[i+1:]
	}
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(strings.TrimSuffix(l, "\r"), ":")
		if name != "" {
			h.fields = append(h.fields, [2]string{strings.ToLower(name), strings.Trim(value, " \t")})
		}
	}
	return h
}

func (h head) values(name string) (all []string) {
	for _, f := range h.fields {
		if f[0] == name {
			all = append(all, f[1])
		}
	}
	return all
}

func beyondLimits(h head) bool {
	return len(h.raw) > DefaultBytes || len(h.line) > DefaultLine || len(h.fields) > DefaultFields
}

func control(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }

// The framing differences are common to requests and responses.
var stricterFraming = []difference{
	{"folded lines are refused", func(h head) bool {
		return strings.Contains(h.raw, "\n ") || strings.Contains(h.raw, "\n\t")
	}, "A: b\r\n c\r\n"},
	{"names have no blanks", func(h head) bool {
		for _, f := range h.fields {
			if strings.Contains(f[0], " ") {
				return true
			}
		}
		return false
	}, "Content-Length : 5\r\n"},
	{"transfer codings are refused in HTTP/1.0", func(h head) bool {
		return h.values("transfer-encoding") != nil && (h.proto == "HTTP/1.0" || h.method == "HTTP/1.0")
	}, ""},
	{"Transfer-Encoding is refused beside Content-Length", func(h head) bool {
		return h.values("transfer-encoding") != nil && h.values("content-length") != nil
	}, "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"},
	{"Content-Length is sent once", func(h head) bool {
		return len(h.values("content-length")) > 1
	}, "Content-Length: 5\r\nContent-Length: 5\r\n"},
	{"lengths have at most 19 digits", func(h head) bool {
		for _, v := range h.values("content-length") {
			if len(v) > 19 {
				return true
			}
		}
		return false
	}, "Content-Length: 00000000000000000005\r\n"},
}

// stricterRequest lists what ParseRequest refuses and net/http.ReadRequest accepts.
var stricterRequest = append([]difference{
	{"line ends are CRLF", func(h head) bool {
		return strings.Contains(strings.ReplaceAll(h.raw, "\r\n", ""), "\n")
	}, "GET / HTTP/1.1\nHost: a\r\n\r\n"},
	{"versions are 1.0 and 1.1", func(h head) bool {
		return h.proto != "HTTP/1.0" && h.proto != "HTTP/1.1"
	}, "GET / HTTP/1.2\r\nHost: a\r\n\r\n"},
	{"methods have at most 31 bytes", func(h head) bool {
		return len(h.method) > maxMethod
	}, "MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM / HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"1.1 needs a Host", func(h head) bool {
		return h.proto == "HTTP/1.1" && h.values("host") == nil
	}, "GET / HTTP/1.1\r\n\r\n"},
	{"a Host is host[:port]", func(h head) bool {
		host := h.values("host")
		if host == nil {
			return false
		}
		_, _, ok := splitHost([]byte(host[0]))
		return !ok
	}, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"},
	{"targets are printable ASCII without a fragment", func(h head) bool {
		return strings.ContainsFunc(h.target, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' })
	}, "GET /\xfc HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"asterisk is for OPTIONS only", func(h head) bool {
		return strings.HasPrefix(h.target, "*")
	}, "GET * HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"CONNECT takes host:port only", func(h head) bool {
		return h.method == "CONNECT"
	}, "CONNECT /a HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"absolute targets are http or https, with a plain host", func(h head) bool {
		return !strings.HasPrefix(h.target, "/")
	}, "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"a head is limited", beyondLimits, "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("A: b\r\n", 100) + "\r\n"},
}, stricterFraming...)

// laxerRequest lists what ParseRequest accepts and net/http.ReadRequest refuses.
// None of it touches framing.
var laxerRequest = []difference{
	{"an empty line before the request is skipped", func(h head) bool {
		return strings.HasPrefix(h.raw, "\r\n")
	}, "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"escapes of the target are left to CleanPath, hosts to the caller", func(h head) bool {
		t := h.target
		if h.method == "CONNECT" {
			t = "http://" + t
		}
		_, err := url.ParseRequestURI(t)
		return err != nil
	}, "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n"},
	{"Trailer is not looked at", func(h head) bool {
		return h.values("trailer") != nil
	}, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n"},
}

// stricterResponse lists what ParseResponse refuses and net/http.ReadResponse accepts.
var stricterResponse = append([]difference{
	{"versions are 1.0 and 1.1", func(h head) bool {
		return h.method != "HTTP/1.0" && h.method != "HTTP/1.1"
	}, "HTTP/2.0 200 OK\r\n\r\n"},
	{"one blank follows the version, and the status is 100 to 999", func(h head) bool {
		return len(h.line) < 12 || h.line[9] < '1' || h.line[9] > '9'
	}, "HTTP/1.1  200 OK\r\n\r\n"},
	{"controls in the reason are refused", func(h head) bool {
		return strings.ContainsFunc(h.line, control)
	}, "HTTP/1.1 200 O\x01\r\n\r\n"},
	{"a head is limited", beyondLimits, "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 101) + "\r\n"},
}, stricterFraming...)

// laxerResponse lists what ParseResponse accepts and net/http.ReadResponse refuses.
var laxerResponse = []difference{
	{"Trailer is not looked at", func(h head) bool {
		return h.values("trailer") != nil
	}, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n"},
}

// unlisted returns whether no difference explains h.
func unlisted(h head, list []difference) bool {
	for _, d := range list {
		if d.applies(h) {
			return false
		}
	}
	return true
}

func readRequest(b []byte) (*http.Request, error) {
	return http.ReadRequest(bufio.NewReader(bytes.NewReader(b)))
}

// differRequest compares an accepted head.
func differRequest(t testing.TB, b []byte, r *Request) {
	t.Helper()
	h := takeApart(b)
	want, err := readRequest(b)
	if err != nil {
		if unlisted(h, laxerRequest) {
			t.Fatalf("accepted; net/http: %v", err)
		}
		if !strings.HasPrefix(h.raw, "\r\n") {
			return
		}
		if want, err = readRequest(b[2:]); err != nil {
			return
		}
	}
	chunked := len(want.TransferEncoding) == 1 && want.TransferEncoding[0] == "chunked"
	length := want.ContentLength
	if chunked || length == 0 && r.ContentLength < 0 {
		length = -1
	}
	switch {
	case string(r.MethodName) != want.Method:
		t.Fatalf("method %q; net/http %q", r.MethodName, want.Method)
	case r.Method != Other && r.Method.String() != want.Method:
		t.Fatalf("method %v; net/http %q", r.Method, want.Method)
	case string(r.Target) != want.RequestURI:
		t.Fatalf("target %q; net/http %q", r.Target, want.RequestURI)
	case int(r.Proto) != want.ProtoMajor*10+want.ProtoMinor:
		t.Fatalf("version %d; net/http %s", r.Proto, want.Proto)
	case string(r.Host) != want.Host:
		t.Fatalf("host %q; net/http %q", r.Host, want.Host)
	case r.Chunked != chunked || r.ContentLength != length:
		t.Fatalf("chunked %v, length %d; net/http %v, %d", r.Chunked, r.ContentLength, chunked, length)
	case r.KeepAlive == want.Close:
		t.Fatalf("keep-alive %v; net/http close %v", r.KeepAlive, want.Close)
	case string(r.Query) != want.URL.RawQuery && r.Method != CONNECT:
		t.Fatalf("query %q; net/http %q", r.Query, want.URL.RawQuery)
	}
	if path := want.URL.EscapedPath(); string(r.Path) != path && r.Method != CONNECT && path != "" && want.URL.RawPath == "" {
		if plain, err := url.PathUnescape(string(r.Path)); err != nil || plain != want.URL.Path {
			t.Fatalf("path %q; net/http %q", r.Path, path)
		}
	}
}

// differRefusedRequest checks that whatever net/http accepts and we do not is
// refused for a listed reason.
func differRefusedRequest(t testing.TB, b []byte) {
	t.Helper()
	var r Request
	n, status := ParseRequest(b, &r, nil)
	if n > 0 {
		return
	}
	if _, err := readRequest(b); err == nil && unlisted(takeApart(b), stricterRequest) {
		t.Fatalf("refused with %d; net/http accepts", status)
	}
}

func readResponse(b []byte) (*http.Response, error) {
	return http.ReadResponse(bufio.NewReader(bytes.NewReader(b)), &http.Request{Method: "GET"})
}

func differResponse(t testing.TB, b []byte, r *Response) {
	t.Helper()
	want, err := readResponse(b)
	if err != nil {
		if unlisted(takeApart(b), laxerResponse) {
			t.Fatalf("accepted; net/http: %v", err)
		}
		return
	}
	length, toEOF := r.BodyLength(false)
	chunked := len(want.TransferEncoding) == 1 && want.TransferEncoding[0] == "chunked"
	wantLength := want.ContentLength
	if length == 0 && !toEOF && want.Body == http.NoBody {
		wantLength = 0
	}
	switch {
	case r.Status != want.StatusCode || int(r.Proto) != want.ProtoMajor*10+want.ProtoMinor:
		t.Fatalf("status %d of version %d; net/http %d of %s", r.Status, r.Proto, want.StatusCode, want.Proto)
	case length != wantLength || r.Chunked != chunked:
		t.Fatalf("length %d, chunked %v; net/http %d, %v", length, r.Chunked, wantLength, chunked)
	case (!r.KeepAlive || toEOF) != want.Close:
		t.Fatalf("keep-alive %v, to EOF %v; net/http close %v", r.KeepAlive, toEOF, want.Close)
	case string(r.ContentType) != want.Header.Get("Content-Type"):
		t.Fatalf("type %q; net/http %q", r.ContentType, want.Header.Get("Content-Type"))
	}
}

func differRefusedResponse(t testing.TB, b []byte) {
	t.Helper()
	var r Response
	n, why := ParseResponse(b, &r, nil)
	if n > 0 {
		return
	}
	if _, err := readResponse(b); err == nil && unlisted(takeApart(b), stricterResponse) {
		t.Fatalf("refused, %v; net/http accepts", why)
	}
}

// stricterChunks lists for which reasons Chunks may refuse what net/http accepts.
var stricterChunks = map[string]bool{
	"chunk size: unexpected byte":      true, // a blank after the size
	"chunk extension: unexpected byte": true, // net/http skips extensions unread
	"chunk extensions too large":       true, // net/http limits each line
	"trailer: unexpected byte":         true, // folded lines, controls
	"trailer too large":                true,
}

func differChunks(t testing.TB, b, out []byte, n int, done bool, why error) {
	t.Helper()
	in := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + string(b)
	rest := bufio.NewReaderSize(strings.NewReader(in), 4096+len(in)) // net/http wants the trailer in one buffer
	req, err := http.ReadRequest(rest)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(req.Body)
	switch {
	case done && err == nil:
		left, _ := io.ReadAll(rest)
		if !bytes.Equal(data, out) || len(left) != len(b)-n {
			t.Fatalf("%q, %d left; net/http %q, %d left", out, len(b)-n, data, len(left))
		}
	case done && strings.Contains(err.Error(), "too much non-data"): // many small chunks
	case done && strings.Contains(err.Error(), "header line too long"): // extensions of 4 KiB
	case done:
		t.Fatalf("accepted; net/http: %v", err)
	case err == nil:
		var why2 *ParseError
		if !errors.As(why, &why2) || !stricterChunks[why2.Reason] {
			t.Fatalf("refused, %v; net/http accepts", why)
		}
	}
}

func TestDifferences(t *testing.T) {
	full := func(line, example string) string {
		if strings.Contains(example, "\n\r\n") {
			return example
		}
		return line + example + "\r\n"
	}
	request := func(in string) (ours, theirs bool) {
		var r Request
		n, _ := ParseRequest([]byte(in), &r, nil)
		_, err := readRequest([]byte(in))
		return n > 0, err == nil
	}
	response := func(in string) (ours, theirs bool) {
		var r Response
		n, _ := ParseResponse([]byte(in), &r, nil)
		_, err := readResponse([]byte(in))
		return n > 0, err == nil
	}
	for _, c := range []struct {
		list  []difference
		line  string
		parse func(string) (ours, theirs bool)
		ours  bool
	}{
		{stricterRequest, "POST / HTTP/1.1\r\nHost: a\r\n", request, false},
		{laxerRequest, "", request, true},
		{stricterResponse, "HTTP/1.1 200 OK\r\n", response, false},
		{laxerResponse, "", response, true},
	} {
		for _, d := range c.list {
			in := full(c.line, d.example)
			if d.example == "" { // the one that needs HTTP/1.0
				in = strings.Replace(full(c.line, "Transfer-Encoding: chunked\r\n"), "1.1", "1.0", 1)
			}
			ours, theirs := c.parse(in)
			if ours != c.ours || theirs == c.ours {
				t.Errorf("%s: %q: we accept: %v, net/http: %v", d.why, in, ours, theirs)
			}
			if !d.applies(takeApart([]byte(in))) {
				t.Errorf("%s: does not apply to its example %q", d.why, in)
			}
		}
	}
}
