package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"tidemark.dev/page"
)

// TestMain turns the test binary into a CGI program when asked to.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "-cgi" {
		asProgram()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// show answers with what it was asked; options change the answer.
type show struct {
	detached bool
	answer   func(*page.Request, *page.Response)
	opened   *[]string
	name     string
	failOpen error
}

func (s *show) note(what string) {
	if s.opened != nil {
		*s.opened = append(*s.opened, what+" "+s.name)
	}
}
func (s *show) Open(*page.Context) error    { s.note("open"); return s.failOpen }
func (s *show) Close() error                { s.note("close"); return nil }
func (s *show) Detached(*page.Request) bool { return s.detached }
func (s *show) Serve(rq *page.Request, rs *page.Response) {
	if s.answer != nil {
		s.answer(rq, rs)
		return
	}
	rs.Type("text/plain")
	fmt.Fprintf(rs, "%s %s %s %s %q %s %s %v %s %s %s\n%s", rq.Method, rq.Path, rq.Script, rq.Query, rq.Body, rq.Proto, rq.Remote, rq.Secure, rq.Host, rq.Cookie, rq.ContentType, rq.Fields)
}

// big answers with a file that says it is more bytes longer than it is.
func big(rs *page.Response, path string, more int64) {
	h, err := os.Open(path)
	if err != nil {
		rs.Status(500)
		return
	}
	f, err := page.FromOS(h)
	if err != nil {
		rs.Status(500)
		return
	}
	f.Size += more
	rs.Append("head ")
	rs.SetFile(f)
	rs.Tail([]byte(" tail"))
}

// routes of the carriers' tests; file is a large file on disk.
func routes(file string) []Route {
	return []Route{
		{"/show", &show{}},
		{"/all", &show{answer: func(_ *page.Request, rs *page.Response) {
			rs.Status(404)
			rs.Type("")
			rs.Cookie([]byte("a=b"))
			rs.Cookie([]byte("c=d"))
			rs.Field("X-One", "1")
			rs.Append("head ")
			rs.SetFile(page.File{Bytes: []byte("file "), Size: 5})
			rs.Tail([]byte("tail"))
		}}},
		{"/big", &show{answer: func(_ *page.Request, rs *page.Response) { big(rs, file, 0) }}},
		{"/memory", &show{detached: true, answer: func(_ *page.Request, rs *page.Response) {
			rs.SetFile(page.File{Bytes: bytes.Repeat([]byte("0123456789"), 30000), Size: 300000})
		}}},
		{"/shrunk", &show{answer: func(_ *page.Request, rs *page.Response) {
			big(rs, file, 1)
		}}},
		{"/panic", &show{detached: true, answer: func(_ *page.Request, rs *page.Response) {
			rs.Append("half an ans")
			panic("because")
		}}},
		{"/wait", &show{detached: true, answer: func(rq *page.Request, rs *page.Response) {
			<-rq.Done
			rs.Append("told")
		}}},
	}
}

const bigText = 700_000

func openSet(t testing.TB) *Set {
	t.Helper()
	file := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(file, bytes.Repeat([]byte("x"), bigText), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Open(routes(file), &page.Context{Software: "Test/1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestOpenAndCloseInOrder(t *testing.T) {
	var did []string
	a, b, c := &show{name: "a", opened: &did}, &show{name: "b", opened: &did}, &show{name: "c", opened: &did}
	s, err := Open([]Route{{"/a", a}, {"/b", b}}, &page.Context{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(did, ", "), "open a, open b, close b, close a"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for name, second := range map[string]Route{"twice": {"/a", b}, "relative": {"b", b}, "empty": {"", b}} {
		did = nil
		if _, err := Open([]Route{{"/a", a}, second, {"/c", c}}, &page.Context{}); err == nil {
			t.Errorf("%s: opened", name)
		}
		if got := strings.Join(did, ", "); got != "open a, close a" {
			t.Errorf("%s: %s", name, got)
		}
	}
	did = nil
	b.failOpen = errors.New("because")
	if _, err := Open([]Route{{"/a", a}, {"/b", b}}, &page.Context{}); err == nil || err.Error() != `route "/b": because` {
		t.Error(err)
	}
	if got := strings.Join(did, ", "); got != "open a, open b, close a" {
		t.Error(got)
	}
}

func TestHandlerRequest(t *testing.T) {
	h := openSet(t).Handler()
	rq := httptest.NewRequest("POST", "http://h:1/show?a=b", strings.NewReader("the body"))
	rq.Header = http.Header{"Cookie": {"a=b", "c=d"}, "Content-Type": {"text/x"}, "X-One": {"1", "2"}}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, rq)
	want := "POST /show /show a=b \"the body\" HTTP/1.1 192.0.2.1 false h:1 a=b; c=d text/x\n" +
		"Host: h:1\r\nContent-Type: text/x\r\nCookie: a=b\r\nCookie: c=d\r\nX-One: 1\r\nX-One: 2\r\n"
	if got := rec.Body.String(); got != want || rec.Code != 200 {
		t.Errorf("%d\ngot  %q\nwant %q", rec.Code, got, want)
	}
}

func TestHandlerAnswers(t *testing.T) {
	server := httptest.NewServer(openSet(t).Handler())
	defer server.Close()
	get := func(method, path string, body io.Reader) (*http.Response, string, error) {
		t.Helper()
		rq, err := http.NewRequest(method, server.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := server.Client().Do(rq)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		return r, string(b), err
	}
	r, body, err := get("GET", "/all", nil)
	if err != nil || r.StatusCode != 404 || body != "head file tail" || r.ContentLength != 14 || fmt.Sprint(r.Header["Set-Cookie"]) != "[a=b c=d]" || r.Header.Get("X-One") != "1" || r.Header["Content-Type"] != nil {
		t.Errorf("%v %+v %q", err, r, body)
	}
	if r, body, err := get("HEAD", "/all", nil); err != nil || r.StatusCode != 404 || body != "" || r.ContentLength != 14 {
		t.Errorf("HEAD: %v %+v %q", err, r, body)
	}
	if r, body, err := get("GET", "/big", nil); err != nil || body != "head "+strings.Repeat("x", bigText)+" tail" || r.ContentLength != bigText+10 {
		t.Errorf("%v, %d bytes", err, len(body))
	}
	if _, body, err := get("GET", "/memory", nil); err != nil || body != strings.Repeat("0123456789", 30000) {
		t.Errorf("%v, %d bytes", err, len(body))
	}
	if _, body, err := get("GET", "/shrunk", nil); err == nil {
		t.Errorf("a file that shrank passes for whole: %d bytes", len(body))
	}
	if r, body, _ := get("GET", "/panic", nil); r.StatusCode != 500 || body != "internal error\n" {
		t.Errorf("panic: %d %q", r.StatusCode, body)
	}
	if r, _, _ := get("GET", "/none", nil); r.StatusCode != 404 {
		t.Errorf("no such page: %d", r.StatusCode)
	}
	if r, _, _ := get("POST", "/show", bytes.NewReader(make([]byte, MaxBody+1))); r.StatusCode != 413 {
		t.Errorf("large body: %d", r.StatusCode)
	}
	if _, body, _ := get("POST", "/show", bytes.NewReader(make([]byte, MaxBody))); len(body) < MaxBody {
		t.Errorf("largest body: %d bytes", len(body))
	}
}
