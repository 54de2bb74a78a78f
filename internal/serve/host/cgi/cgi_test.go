package cgi

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tidemark.dev/page"
)

// show is a page that shows its request and answers as told.
type show struct {
	got    page.Request
	answer func(*page.Response)
}

func (s *show) Open(*page.Context) error { return nil }
func (s *show) Close() error             { return nil }
func (s *show) Serve(rq *page.Request, rs *page.Response) {
	s.got = *rq
	if s.answer != nil {
		s.answer(rs)
	}
}

func run(t *testing.T, p *show, stdin string, env ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := Run(append([]string{"REQUEST_METHOD=GET", "SCRIPT_NAME=/s", "=odd", "odd"}, env...), strings.NewReader(stdin), &out, p)
	return out.String(), err
}

func TestRequestIsWhatTheEnvironmentSays(t *testing.T) {
	p := &show{}
	if _, err := run(t, p, "12345678", "PATH_INFO=/more", "QUERY_STRING=a=b=c", "SERVER_PROTOCOL=HTTP/1.1", "REMOTE_ADDR=192.0.2.7", "REMOTE_PORT=99",
		"SERVER_ADDR=192.0.2.1", "SERVER_PORT=8080", "HTTPS=on", "CONTENT_TYPE=text/x", "CONTENT_LENGTH=5", "HTTP_HOST=h:1",
		"HTTP_COOKIE=c=d", "HTTP_X_ONE_TWO=3", "HTTP_BAD=a\nb", "HTTP_="); err != nil {
		t.Fatal(err)
	}
	g := &p.got
	got := fmt.Sprintf("%s %s %s %s %q %s %s %d %s %v %s %s %s %q", g.Method, g.Path, g.Script, g.Query, g.Body, g.Proto, g.Remote, g.RemotePort, g.Local, g.Secure, g.ContentType, g.Host, g.Cookie, g.Fields)
	want := `GET /s/more /s a=b=c "12345" HTTP/1.1 192.0.2.7 99 192.0.2.1:8080 true text/x h:1 c=d "Host: h:1\r\nCookie: c=d\r\nX-One-Two: 3\r\n"`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRequestsThatAreNone(t *testing.T) {
	for _, env := range [][]string{
		{"REQUEST_METHOD="}, {"CONTENT_LENGTH=x"}, {"CONTENT_LENGTH=-1"}, {"CONTENT_LENGTH=1048577"}, {"CONTENT_LENGTH=6"},
	} {
		if out, err := run(t, &show{}, "12345", env...); err == nil || out != "" {
			t.Errorf("%q: %q", env, out)
		}
	}
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(*page.Response)
		want   string
	}{
		"nothing": {nil, "Content-Type: text/html\r\nContent-Length: 0\r\n\r\n"},
		"all": {func(rs *page.Response) {
			rs.Status(404)
			rs.Type("text/plain")
			rs.Cookie([]byte("a=b"))
			rs.Append("head ")
			rs.SetFile(page.File{Bytes: []byte("file "), Size: 5})
			rs.Tail([]byte("tail"))
		}, "Status: 404\r\nContent-Type: text/plain\r\nSet-Cookie: a=b\r\nContent-Length: 14\r\n\r\nhead file tail"},
		"no type": {func(rs *page.Response) { rs.Type("") }, "Status: 200\r\nContent-Length: 0\r\n\r\n"},
	} {
		got, err := run(t, &show{answer: c.answer}, "")
		if err != nil || got != c.want {
			t.Errorf("%s: %v\ngot  %q\nwant %q", name, err, got, c.want)
		}
		got, err = run(t, &show{answer: c.answer}, "", "REQUEST_METHOD=HEAD")
		if end := strings.Index(c.want, "\r\n\r\n") + 4; err != nil || got != c.want[:end] {
			t.Errorf("%s: HEAD: %v %q", name, err, got)
		}
	}
}

func TestLargeFilesAreWrittenInParts(t *testing.T) {
	text := strings.Repeat("0123456789", 50000)
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	p := &show{answer: func(rs *page.Response) {
		f, _ := page.FromOS(h)
		rs.Append("head ")
		rs.SetFile(f)
		rs.Tail([]byte(" tail"))
	}}
	got, err := run(t, p, "")
	if want := "Content-Type: text/html\r\nContent-Length: 500010\r\n\r\nhead " + text + " tail"; err != nil || got != want {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := h.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the file was not released: %v", err)
	}
}

func TestAFileThatShrankIsAnError(t *testing.T) {
	h, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, size := range []int64{10, 1 << 20} {
		if _, err := run(t, &show{answer: func(rs *page.Response) { rs.SetFile(page.File{Handle: h, Size: size}) }}, ""); err == nil {
			t.Errorf("%d bytes of nothing", size)
		}
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteErrorsAreReported(t *testing.T) {
	for _, size := range []int64{10, 1 << 20} {
		p := &show{answer: func(rs *page.Response) { rs.SetFile(page.File{Bytes: make([]byte, size), Size: size}) }}
		if err := Run([]string{"REQUEST_METHOD=GET"}, strings.NewReader(""), closed{}, p); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}
