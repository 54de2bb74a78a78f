package server

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"tidemark.dev/page"
)

// Each row is sent as it is; then the server must give these statuses, and keep or close the connection.
func TestProtocolVectors(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.Pages = []Route{{Path: "/post", Page: &script{serve: func(rq *page.Request, rs *page.Response) { rs.Write(rq.Body) }}}}
		o.BodyMax = 1000
	})
	s.write("f", "file")
	long := strings.Repeat("x", 9000)
	for _, c := range []struct {
		send   string
		status string // several by blanks; "close" at the end: and then the end
	}{
		{"GET /f HTTP/1.1\r\nHost: a\r\n\r\n", "200"},
		{"\r\nGET /f HTTP/1.1\r\nHost: a\r\n\r\n", "200"},
		{"GET /f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "200 close"},
		{"GET /f HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Close\r\n\r\n", "200 close"},
		{"GET /f HTTP/1.0\r\n\r\n", "200 close"},
		{"GET /f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "200"},
		{"GET http://a/f HTTP/1.1\r\nHost: b\r\n\r\n", "200"},
		{"GET /f HTTP/1.1\r\n\r\n", "400 close"},
		{"GET /f HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 close"},
		{"GET /f HTTP/1.1\r\nHost: a b\r\n\r\n", "400 close"},
		{"GET /f HTTP/1.1\r\nHost : a\r\n\r\n", "400 close"},
		{"GET /f HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", "400 close"},
		{"GET /f HTTP/1.1\nHost: a\n\n", "400 close"},
		{"GET  /f HTTP/1.1\r\nHost: a\r\n\r\n", "400 close"},
		{"GET /f  HTTP/1.1\r\nHost: a\r\n\r\n", "400 close"},
		{"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", "400 close"},
		{"GET /f\r\n\r\n", "505 close"},
		{"GET /f HTTP/2.0\r\nHost: a\r\n\r\n", "505 close"},
		{"GET /f HTTP/0.9\r\nHost: a\r\n\r\n", "505 close"},
		{"GET /f FTP/1.1\r\nHost: a\r\n\r\n", "400 close"},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 close"},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400 close"}, // a TLS client
		{"G\x00T /f HTTP/1.1\r\nHost: a\r\n\r\n", "400 close"},
		{"GET f HTTP/1.1\r\nHost: a\r\n\r\n", "400 close"},
		{"GET /" + long + " HTTP/1.1\r\nHost: a\r\n\r\n", "414 close"},
		{"GET /f HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: "+long+"\r\n", 4) + "\r\n", "431 close"},
		{"GET /f HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 101) + "\r\n", "431 close"},
		{strings.Repeat("A", 100) + " /f HTTP/1.1\r\nHost: a\r\n\r\n", "501 close"},
		// Methods.
		{"HEAD /f HTTP/1.1\r\nHost: a\r\n\r\n", "200"},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "204"},
		{"OPTIONS /f HTTP/1.1\r\nHost: a\r\n\r\n", "204"},
		{"TRACE /f HTTP/1.1\r\nHost: a\r\n\r\n", "405"},
		{"TRACE /post HTTP/1.1\r\nHost: a\r\n\r\n", "405"},
		{"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", "405"},
		{"PUT /f HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "405"},
		{"POST /f HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "405"},
		{"DELETE /none HTTP/1.1\r\nHost: a\r\n\r\n", "405"},
		{"BREW /f HTTP/1.1\r\nHost: a\r\n\r\n", "501"},
		{"get /f HTTP/1.1\r\nHost: a\r\n\r\n", "501"},
		{"GET /none HTTP/1.1\r\nHost: a\r\n\r\n", "404"},
		{"GET /%2e%2e/x HTTP/1.1\r\nHost: a\r\n\r\n", "400"},
		// Bodies.
		{"GET /f HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "200"},
		{"GET /f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200"},
		{"POST /post HTTP/1.1\r\nHost: a\r\n\r\n", "200"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET /f HTTP/1.1\r\nHost: a\r\n\r\n", "200 200"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: x\r\n\r\nGET /f HTTP/1.1\r\nHost: a\r\n\r\n", "200 200"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n", "200"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc", "400 close"},
		{"POST /post HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX0\r\n\r\n", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000003\r\nabc\r\n0\r\n\r\n", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", "413 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", "400 close"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + strings.Repeat("x", 1001) + "\r\n0\r\n\r\n", "413 close"},
		{"PUT /f HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nno more", "405 close"},
		{"BREW /f HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nno more", "501 close"},
		{"POST /%2e%2e/ HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nno more", "400 close"},
		// Expectations.
		{"POST /post HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "200"},
		{"POST /post HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1001\r\n\r\n", "413 close"},
		{"PUT /f HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 900\r\n\r\n", "405 close"},
		{"GET /f HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n", "417"},
		{"POST /post HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "200 close"},
		{"GET /f HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n", "200"},
		// After the end nothing is answered.
		{"GET /f HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /f HTTP/1.1\r\nHost: a\r\n\r\n", "200 close"},
		{"GET /f HTTP/1.1\r\nHost: a\r\n\r\nbad\r\n\r\nGET /f HTTP/1.1\r\nHost: a\r\n\r\n", "200 400 close"},
	} {
		for _, pieces := range []bool{false, true} {
			method, _, _ := strings.Cut(strings.TrimLeft(c.send, "\r\n"), " ")
			w := s.dial()
			w.SetNoDelay(true)
			if pieces {
				go func() { // one byte at a time, so that every state is cut everywhere
					for i := range c.send {
						if _, err := io.WriteString(w.TCPConn, c.send[i:i+1]); err != nil {
							return
						}
					}
				}()
			} else if _, err := io.WriteString(w.TCPConn, c.send); err != nil {
				t.Fatal(err)
			}
			var got []string
			ends := strings.HasSuffix(c.status, "close")
			for range strings.Fields(strings.TrimSuffix(c.status, " close")) {
				a, err := w.try(method)
				for err == nil && a.StatusCode == 100 {
					a, err = w.try(method)
				}
				if err != nil {
					t.Errorf("%.80q in pieces: %v: %v", c.send, pieces, err)
					break
				}
				got = append(got, fmt.Sprint(a.StatusCode))
				if a.StatusCode == 405 && a.Header.Get("Allow") == "" {
					t.Errorf("%.80q: 405 without Allow", c.send)
				}
				if a.Close && ends {
					got = append(got, "close")
				} else if a.Close {
					t.Errorf("%.80q: wants to close", c.send)
				}
				method = "GET"
			}
			if strings.Join(got, " ") != c.status {
				t.Errorf("%.80q in pieces: %v: %v, want %s", c.send, pieces, got, c.status)
			} else if ends && pieces && strings.Contains(c.send, "close\r\n\r\nGET") {
				// Who says close and goes on sending later than the answer may meet a reset.
			} else if ends {
				w.closed()
			} else {
				w.send("GET /f HTTP/1.1\r\nHost: a\r\n\r\n")
				if a, err := w.try("GET"); err != nil || a.body != "file" {
					t.Errorf("%.80q: the connection is spoilt: %v", c.send, err)
				}
			}
			w.Close()
		}
	}
}

func TestContinue(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.Pages = []Route{{Path: "/post", Page: &script{serve: func(rq *page.Request, rs *page.Response) { rs.Write(rq.Body) }}}}
	})
	for _, c := range [][2]string{{"Content-Length: 5", "12345"}, {"Transfer-Encoding: chunked", "5\r\n12345\r\n0\r\n\r\n"}} {
		w := s.dial()
		for range 2 {
			w.send(request("POST", "/post", "Expect: 100-continue", c[0]))
			if a := w.next("POST"); a.StatusCode != 100 {
				t.Fatalf("%d", a.StatusCode)
			}
			w.send(c[1])
			if a := w.next("POST"); a.StatusCode != 200 || a.body != "12345" {
				t.Fatalf("%d %q", a.StatusCode, a.body)
			}
		}
	}
	// Who sends the body at once is not told to.
	w := s.dial()
	w.send(request("POST", "/post", "Expect: 100-continue", "Content-Length: 5") + "12345")
	if a := w.next("POST"); a.StatusCode != 200 {
		t.Errorf("%d", a.StatusCode)
	}
}

// Many requests at once are answered in order, whatever answers them and however large.
func TestPipeliningOfMixedSizes(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.SendfileMin, o.SendBuffer = 20_000, 128<<10
		o.Pages = []Route{{Path: "/p", Page: &script{serve: hello}}, {Path: "/d", Page: &script{serve: hello, detached: true}},
			{Path: "/r", Page: &reader{}}, {Path: "/post", Page: &script{serve: func(rq *page.Request, rs *page.Response) { rs.Write(rq.Body) }}}}
	})
	sizes := []int{0, 1, 100, 5000, 9000, 19_999, 20_000, 300_000}
	for _, n := range sizes {
		s.write(fmt.Sprintf("f%d", n), pattern(n))
	}
	type ask struct{ text, body string }
	var all []ask
	seed := uint32(1)
	random := func(n int) int {
		seed = seed*1664525 + 1013904223
		return int(seed>>8) % n
	}
	for i := range 600 {
		n := sizes[random(len(sizes))]
		switch random(9) {
		default:
			all = append(all, ask{request("GET", fmt.Sprintf("/f%d", n)), pattern(n)})
		case 1:
			all = append(all, ask{request("GET", fmt.Sprintf("/p?%d", i)), fmt.Sprintf("hello %d", i)})
		case 2:
			all = append(all, ask{request("GET", fmt.Sprintf("/d?%d", i)), fmt.Sprintf("hello %d", i)})
		case 3:
			all = append(all, ask{request("GET", fmt.Sprintf("/r?/f%d", n), "Cookie: x"), "<head>" + pattern(n) + "<tail>"})
		case 4:
			all = append(all, ask{request("GET", "/none"), "404 Not Found\n"})
		case 5:
			all = append(all, ask{request("POST", "/post", fmt.Sprintf("Content-Length: %d", n)) + pattern(n), pattern(n)})
		case 6:
			all = append(all, ask{request("POST", "/post", "Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", n+1, pattern(n+1)), pattern(n + 1)})
		}
	}
	w := s.dial()
	go func() { // in pieces that know nothing of requests
		var text strings.Builder
		for _, a := range all {
			text.WriteString(a.text)
		}
		rest := text.String()
		for n := 1; len(rest) > 0; n = n*7%90_001 + 1 {
			k := min(n, len(rest))
			if _, err := io.WriteString(w.TCPConn, rest[:k]); err != nil {
				return
			}
			rest = rest[k:]
		}
	}()
	for i, a := range all {
		got, err := w.try("GET")
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if got.body != a.body {
			t.Fatalf("answer %d to %.40q: %d bytes, want %d", i, a.text, len(got.body), len(a.body))
		}
	}
	w.CloseWrite()
	w.closed()
	s.end()
	if n := s.Stats().Loops[0].Sends; n >= uint64(len(all)) {
		t.Errorf("%d sends for %d answers: none were joined", n, len(all))
	}
	var sum int64
	for _, r := range s.records() {
		sum += r.Bytes
	}
	if sum != w.read {
		t.Errorf("the log has %d bytes, the client %d", sum, w.read)
	}
}

// A client that ends its side after asking still gets all answers.
func TestHalfClose(t *testing.T) {
	s := serve(t, func(o *Options) {
		o.Pages = []Route{{Path: "/d", Page: &script{serve: hello, detached: true}}}
		o.SendBuffer = 64 << 10
	})
	s.write("f", "file")
	s.write("big", pattern(2<<20))
	w := s.dial()
	w.send(request("GET", "/f") + request("GET", "/d?x") + request("GET", "/big") + request("GET", "/f"))
	w.CloseWrite()
	for i, want := range []string{"file", "hello x", pattern(2 << 20), "file"} {
		if a := w.next("GET"); a.body != want {
			t.Errorf("answer %d: %d bytes", i, len(a.body))
		}
	}
	w.closed()
}

func TestKeepAliveLimits(t *testing.T) {
	s := serve(t, func(o *Options) { o.KeepAliveMax = 3 })
	s.write("f", "file")
	w := s.dial()
	w.send(strings.Repeat(request("GET", "/f"), 5))
	for i := range 3 {
		if a := w.next("GET"); a.Close != (i == 2) {
			t.Errorf("answer %d: close %v", i, a.Close)
		}
	}
	w.closed() // in spite of the requests that are not answered: no reset
	off := serve(t, func(o *Options) { o.KeepAlive = false; o.Root = s.root })
	if a := off.get("/f"); !a.Close {
		t.Error("kept alive")
	}
}

// Slow clients are ended by the timeout of what they are slow at.
func TestTimeouts(t *testing.T) {
	const short = 30 * time.Millisecond
	s := serve(t, func(o *Options) {
		o.HeaderTimeout, o.BodyTimeout, o.KeepAliveTimeout, o.WriteTimeout = short, short, short, short
		o.SendBuffer = 64 << 10
		o.Pages = []Route{{Path: "/post", Page: &script{serve: func(rq *page.Request, rs *page.Response) { rs.Write(rq.Body) }}}}
	})
	s.write("f", "file")
	s.write("big", pattern(8<<20))

	silent := s.dial()
	silent.closed()

	idle := s.dial()
	idle.send(request("GET", "/f"))
	idle.next("GET")
	idle.closed()

	for _, text := range []string{"GET /f HT", "\r\n", "GET /f HTTP/1.1\r\nHost: a\r\n", request("POST", "/post", "Content-Length: 10") + "x",
		request("POST", "/post", "Transfer-Encoding: chunked") + "5\r\nx"} {
		w := s.dial()
		w.send(request("GET", "/f") + text)
		w.next("GET")
		if a := w.next("GET"); a.StatusCode != 408 || !a.Close {
			t.Errorf("%q: %d", text, a.StatusCode)
		}
		w.closed()
	}

	// Slowloris: bytes keep coming, but never the end.
	w := s.dial()
	w.send("GET /f HTTP/1.1\r\nHost: a\r\n")
	stop := make(chan bool)
	go func() {
		defer close(stop)
		for {
			if _, err := io.WriteString(w.TCPConn, "X: y\r\n"); err != nil {
				return
			}
		}
	}()
	a := w.next("GET")
	if a.StatusCode != 408 && a.StatusCode != 431 {
		t.Errorf("slowloris: %d", a.StatusCode)
	}
	w.Close()
	<-stop

	// A reader that takes nothing.
	w = s.dial()
	w.send(request("GET", "/big"))
	if _, err := w.r.Peek(1); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the answer", func() bool { return s.Stats().HTTP.Aborted > 0 })
	if n, err := io.Copy(io.Discard, w.r); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("stalled reader: %d bytes, %v", n, err)
	}
	// Who reads slowly, but reads, is not cut: 8 MiB in more time than the timeout.
	w = s.dial()
	w.SetReadBuffer(64 << 10)
	w.send(request("GET", "/big"))
	begin := time.Now()
	tick := time.NewTicker(short / 3)
	defer tick.Stop()
	buf := make([]byte, 1<<20)
	for got := 0; got < 8<<20; {
		n, err := w.r.Read(buf[:min(200_000, 8<<20-got)])
		if err != nil {
			t.Fatalf("cut after %d bytes, %v: %v", got, time.Since(begin), err)
		}
		if got += n; time.Since(begin) < 4*short {
			<-tick.C
		}
	}
}

// Idle connections and half requests cost no buffer for ever: many of them at once, then all answered.
func TestManySlowConnections(t *testing.T) {
	s := serve(t, nil)
	s.write("f", "file")
	text := request("GET", "/f", "X: "+strings.Repeat("y", 3000))
	var all []*wire
	for range 200 {
		w := s.dial()
		w.send(text[:1500])
		all = append(all, w)
	}
	for _, w := range all {
		w.send(text[1500:])
	}
	for _, w := range all {
		if a := w.next("GET"); a.body != "file" {
			t.Fatalf("%q", a.body)
		}
	}
}
