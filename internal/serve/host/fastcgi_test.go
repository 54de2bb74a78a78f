package host

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// responder starts one on a unix or TCP socket and returns how to reach it.
func responder(t testing.TB, s *Set, network string, o FastCGIOptions) (f *FastCGI, dial func() *client) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = t.TempDir() + "/s"
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	f = s.FastCGI(o)
	served := make(chan error, 1)
	go func() { served <- f.Serve(l) }()
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return f, func() *client {
		t.Helper()
		c, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return &client{t: t, c: c, in: bufio.NewReader(c)}
	}
}

// client is the web server's side of a connection.
type client struct {
	t      testing.TB
	c      net.Conn
	in     *bufio.Reader
	record [1 << 16]byte
	out    []byte
}

func begin(id uint16, role, flags byte) []byte {
	return append(appendRecordHeader(nil, fcgiBegin, id, 8), 0, role, flags, 0, 0, 0, 0, 0)
}

// stream is b as records of at most n bytes, and the empty record that ends it.
func stream(kind uint8, id uint16, b []byte, n int) (out []byte) {
	for len(b) > 0 {
		k := min(n, len(b))
		out = append(appendRecordHeader(out, kind, id, k), b[:k]...)
		b = b[k:]
	}
	return appendRecordHeader(out, kind, id, 0)
}

func params(pairs ...string) (b []byte) {
	for _, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		b = appendPair(b, name, value)
	}
	return b
}

func request(id uint16, keep bool, path string, body string, more ...string) []byte {
	flags := byte(0)
	if keep {
		flags = fcgiKeepConn
	}
	p := params(append([]string{"REQUEST_METHOD=GET", "SCRIPT_NAME=" + path, "REMOTE_ADDR=192.0.2.7", "SERVER_PROTOCOL=HTTP/1.1"}, more...)...)
	if body != "" {
		p = append(p, params(fmt.Sprintf("CONTENT_LENGTH=%d", len(body)))...)
	}
	b := append(begin(id, fcgiResponder, flags), stream(fcgiParams, id, p, 100)...)
	return append(b, stream(fcgiStdin, id, []byte(body), 30000)...)
}

func (c *client) send(b []byte) {
	c.t.Helper()
	if _, err := c.c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one request's output and its end.
func (c *client) answer(id uint16) (header, body string, status byte, err error) {
	out := c.out[:0]
	ended := false
	for {
		rec, err := readRecord(c.in, &c.record)
		if err != nil {
			return "", string(out), 0, err
		}
		switch {
		case rec.id != id:
			return "", "", 0, fmt.Errorf("record %d for request %d", rec.kind, rec.id)
		case rec.kind == fcgiStdout && !ended:
			ended = len(rec.content) == 0
			out = append(out, rec.content...)
		case rec.kind == fcgiEnd && len(rec.content) == 8:
			c.out = out
			header, body, _ = strings.Cut(string(out), "\r\n\r\n")
			return header, body, rec.content[4], nil
		default:
			return "", "", 0, fmt.Errorf("record %d out of place", rec.kind)
		}
	}
}

func (c *client) closed() bool {
	_, err := c.in.ReadByte()
	return err == io.EOF
}

func TestFastCGIAnswers(t *testing.T) {
	s := openSet(t)
	for _, network := range []string{"unix", "tcp"} {
		_, dial := responder(t, s, network, FastCGIOptions{})
		c := dial()
		for i, q := range []struct{ path, header, body string }{
			{"/all", "Status: 404\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nX-One: 1\r\nContent-Length: 14", "head file tail"},
			{"/big", "Content-Type: text/html\r\nContent-Length: 700010", "head " + strings.Repeat("x", bigText) + " tail"},
			{"/memory", "Content-Type: text/html\r\nContent-Length: 300000", strings.Repeat("0123456789", 30000)},
			{"/panic", "Status: 500\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 15", "internal error\n"},
			{"/none", "Status: 404\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 13", "no such page\n"},
		} {
			id := uint16(i + 1)
			c.send(request(id, true, q.path, ""))
			header, body, status, err := c.answer(id)
			if err != nil || header != q.header || body != q.body || status != fcgiComplete {
				t.Errorf("%s %s: %v %d\ngot  %q\nwant %q\nbody of %d bytes", network, q.path, err, status, header, q.header, len(body))
			}
		}
		c.send(request(9, false, "/all", "", "REQUEST_METHOD=HEAD"))
		if header, body, _, err := c.answer(9); err != nil || body != "" || !strings.Contains(header, "Content-Length: 14") {
			t.Errorf("HEAD: %v %q %q", err, header, body)
		}
		if !c.closed() {
			t.Error("the connection was not closed as asked")
		}
	}
}

func TestFastCGIRequest(t *testing.T) {
	_, dial := responder(t, openSet(t), "unix", FastCGIOptions{})
	c := dial()
	body, long := strings.Repeat("b", 100000), strings.Repeat("v", 300)
	c.send(request(1, true, "/show", body, "REQUEST_METHOD=POST", "QUERY_STRING=a=b", "HTTPS=on", "HTTP_HOST=h:1", "HTTP_COOKIE=c=d", "CONTENT_TYPE=t/x", "HTTP_X_LONG="+long))
	_, got, _, err := c.answer(1)
	want := fmt.Sprintf("POST /show /show a=b %q HTTP/1.1 192.0.2.7 true h:1 c=d t/x\nHost: h:1\r\nCookie: c=d\r\nX-Long: %s\r\n", body, long)
	if err != nil || got != want {
		t.Errorf("%v\ngot  %.300q\nwant %.300q", err, got, want)
	}
	for _, split := range []int{1, 7, 8, 9} { // bytes arrive as they please
		b := request(2, true, "/show", "xyz")
		go func() {
			for len(b) > 0 {
				n := min(split, len(b))
				if _, err := c.c.Write(b[:n]); err != nil {
					return
				}
				b = b[n:]
			}
		}()
		if _, got, _, err := c.answer(2); err != nil || !strings.Contains(got, `"xyz"`) {
			t.Errorf("in parts of %d: %v %q", split, err, got)
		}
	}
}

func TestFastCGIRefusals(t *testing.T) {
	_, dial := responder(t, openSet(t), "unix", FastCGIOptions{MaxBody: 1000, MaxConns: 7})
	c := dial()
	c.send(request(1, true, "/show", strings.Repeat("b", 1001)))
	if header, _, _, err := c.answer(1); err != nil || !strings.HasPrefix(header, "Status: 413\r\n") {
		t.Errorf("%v %q", err, header)
	}
	c.send(request(2, true, "/show", "", "CONTENT_LENGTH=5"))
	if header, _, _, err := c.answer(2); err != nil || !strings.HasPrefix(header, "Status: 400\r\n") {
		t.Errorf("body too short: %v %q", err, header)
	}
	c.send(append(begin(3, fcgiResponder, fcgiKeepConn), append(stream(fcgiParams, 3, nil, 1), stream(fcgiStdin, 3, nil, 1)...)...))
	if header, _, _, err := c.answer(3); err != nil || !strings.HasPrefix(header, "Status: 400\r\n") {
		t.Errorf("no method: %v %q", err, header)
	}
	c.send(begin(4, 2, fcgiKeepConn))
	if _, _, status, err := c.answer(4); err != nil || status != fcgiNoSuchRole {
		t.Errorf("authorizer: %v %d", err, status)
	}
	c.send(append(begin(5, fcgiResponder, fcgiKeepConn), begin(6, fcgiResponder, fcgiKeepConn)...))
	if _, _, status, err := c.answer(6); err != nil || status != fcgiNoMultiple {
		t.Errorf("second request: %v %d", err, status)
	}
	c.send(appendRecordHeader(nil, fcgiAbort, 5, 0))
	if _, _, status, err := c.answer(5); err != nil || status != fcgiComplete {
		t.Errorf("abort: %v %d", err, status)
	}
	c.send(append(appendRecordHeader(nil, 77, 0, 3), "abc"...))
	if rec, err := readRecord(c.in, new([1 << 16]byte)); err != nil || rec.kind != fcgiUnknown || rec.content[0] != 77 {
		t.Errorf("unknown type: %v %+v", err, rec)
	}
	asked := params("FCGI_MPXS_CONNS=", "FCGI_MAX_CONNS=", "OTHER=")
	c.send(append(appendRecordHeader(nil, fcgiGetValues, 0, len(asked)), asked...))
	rec, err := readRecord(c.in, new([1 << 16]byte))
	if want := params("FCGI_MPXS_CONNS=0", "FCGI_MAX_CONNS=7"); err != nil || rec.kind != fcgiValues || !bytes.Equal(rec.content, want) {
		t.Errorf("values: %v %+v", err, rec)
	}
	c.send(request(8, true, "/show", ""))
	if _, body, _, err := c.answer(8); err != nil || !strings.HasPrefix(body, "GET /show") {
		t.Errorf("after all that: %v %q", err, body)
	}
}

func TestFastCGIProtocolErrorsClose(t *testing.T) {
	_, dial := responder(t, openSet(t), "unix", FastCGIOptions{})
	for name, b := range map[string][]byte{
		"version":      append([]byte{2}, begin(1, fcgiResponder, 0)[1:]...),
		"short begin":  appendRecordHeader(nil, fcgiBegin, 1, 0),
		"early stdin":  append(begin(1, fcgiResponder, fcgiKeepConn), appendRecordHeader(nil, fcgiStdin, 1, 0)...),
		"late params":  append(begin(1, fcgiResponder, fcgiKeepConn), append(stream(fcgiParams, 1, nil, 1), stream(fcgiParams, 1, nil, 1)...)...),
		"pairs":        append(begin(1, fcgiResponder, fcgiKeepConn), append(stream(fcgiParams, 1, []byte{200}, 1), stream(fcgiStdin, 1, nil, 1)...)...),
		"huge params":  append(begin(1, fcgiResponder, fcgiKeepConn), stream(fcgiParams, 1, make([]byte, maxParams+1), 60000)...),
		"output to us": append(begin(1, fcgiResponder, fcgiKeepConn), appendRecordHeader(nil, fcgiStdout, 1, 0)...),
		"bad values":   append(appendRecordHeader(nil, fcgiGetValues, 0, 1), 5),
	} {
		c := dial()
		c.send(b)
		if _, err := io.Copy(io.Discard, c.in); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFastCGIFileThatShrankClosesTheConnection(t *testing.T) {
	_, dial := responder(t, openSet(t), "unix", FastCGIOptions{})
	c := dial()
	c.send(request(1, true, "/shrunk", ""))
	if _, body, _, err := c.answer(1); err == nil {
		t.Errorf("it passes for whole: %d bytes", len(body))
	}
}

func TestFastCGIDetachedPagesLearnOfAnAbort(t *testing.T) {
	f, dial := responder(t, openSet(t), "unix", FastCGIOptions{})
	c := dial()
	c.send(request(1, true, "/wait", ""))
	c.send(appendRecordHeader(nil, fcgiAbort, 1, 0))
	if _, body, _, err := c.answer(1); err != nil || body != "told" {
		t.Errorf("%v %q", err, body)
	}
	c.send(request(2, true, "/memory", "")) // the connection is still in step
	if _, body, _, err := c.answer(2); err != nil || len(body) != 300000 {
		t.Errorf("%v, %d bytes", err, len(body))
	}
	c.send(request(3, true, "/wait", ""))
	c.c.Close()
	c = dial()
	c.send(request(4, true, "/wait", ""))
	// Close waits for both pages: one lost its client, the other is told now.
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestFastCGIIdleConnectionsAreClosed(t *testing.T) {
	_, dial := responder(t, openSet(t), "unix", FastCGIOptions{Idle: time.Millisecond})
	if c := dial(); !c.closed() {
		t.Error("still open")
	}
}

func TestFastCGIServeAfterClose(t *testing.T) {
	f := openSet(t).FastCGI(FastCGIOptions{})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Serve(l); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err == nil {
		t.Error("the listener was left open")
	}
}

// memory is a net.Conn whose other side has said everything already.
type memory struct {
	net.Conn
	in  bytes.Reader
	out bytes.Buffer
}

func (m *memory) Read(b []byte) (int, error)      { return m.in.Read(b) }
func (m *memory) Write(b []byte) (int, error)     { return m.out.Write(b) }
func (m *memory) SetReadDeadline(time.Time) error { return nil }

// FuzzFastCGI: whatever a connection says, what we say is well-formed records.
func FuzzFastCGI(f *testing.F) {
	f.Add(request(1, true, "/show", "body", "REQUEST_METHOD=POST"))
	f.Add(append(request(1, true, "/all", ""), request(2, false, "/none", "x")...))
	f.Add(append(begin(1, 2, 1), appendRecordHeader(nil, 77, 0, 0)...))
	asked := params("FCGI_MPXS_CONNS=")
	f.Add(append(appendRecordHeader(nil, fcgiGetValues, 0, len(asked)), asked...))
	s, err := Open([]Route{{"/show", &show{}}, {"/all", &show{}}}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &memory{}
		m.in.Reset(b)
		newConn(s.FastCGI(FastCGIOptions{MaxBody: 100}), m).serve()
		out := bufio.NewReader(&m.out)
		for {
			rec, err := readRecord(out, new([1 << 16]byte))
			if err == io.EOF {
				return
			}
			if err != nil || rec.kind != fcgiStdout && rec.kind != fcgiEnd && rec.kind != fcgiValues && rec.kind != fcgiUnknown {
				t.Fatalf("we said record %d, %v", rec.kind, err)
			}
		}
	})
}

func BenchmarkFastCGI(b *testing.B) {
	_, dial := responder(b, openSet(b), "unix", FastCGIOptions{})
	c := dial()
	rq := request(1, true, "/all", "", "HTTP_HOST=www.example.org", "QUERY_STRING=/file_set/dir00000/class0_0")
	b.ReportAllocs()
	for b.Loop() {
		c.send(rq)
		if _, _, _, err := c.answer(1); err != nil {
			b.Fatal(err)
		}
	}
}
