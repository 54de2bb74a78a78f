//go:build e2e && linux

package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// serve starts the embedded server with the web99 pages over the shared file set, on a port of the kernel's choice,
// and returns its URL. change edits the configuration the kit wrote.
func serve(t *testing.T, change func(text string) string) *url.URL {
	t.Helper()
	dir := t.TempDir()
	tidemark(t, 0, "kit", "tidemark", "--root", suite.root, "--dir", dir)
	file := filepath.Join(dir, "server.toml")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		b = []byte(change(string(b)))
		if err := os.WriteFile(file, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := start(t, "serve", "-c", file, "--listen", "127.0.0.1:0")
	c.says("http://127.0.0.1:")
	_, at, _ := strings.Cut(c.stderr.String(), "http://")
	at, _, _ = strings.Cut(at, "/")
	return &url.URL{Scheme: "http", Host: at}
}

// front is a reverse proxy with a fault. The fault begins when it is armed: validation and warm-up, where that is
// not wanted, pass it in good order.
type front struct {
	url   string
	armed atomic.Bool
	seen  atomic.Int64 // of what its fault counts, since it was armed
}

// every counts what a fault is made for and tells whether this one is the nth, the 2nth and so on.
func (f *front) every(n int64) bool { return f.armed.Load() && f.seen.Add(1)%n == 0 }

// proxy passes requests on to a server.
func proxy(to *url.URL) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			// A body is read at once: the standard library's server closes it when the answer begins, which its
			// client, looking for an end that must come now, may take for an error in the middle of the answer.
			if b, err := io.ReadAll(r.In.Body); err == nil && len(b) > 0 {
				r.Out.Body = io.NopCloser(bytes.NewReader(b))
			}
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway) // the client has gone, mostly
		},
	}
}

// listen starts a front. handle gets the front and the way to the real server, and returns what is to be served;
// wrap may change the listener.
func listen(t *testing.T, to *url.URL, handle func(*front, *httputil.ReverseProxy) http.Handler, wrap func(*front, net.Listener) net.Listener) *front {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{url: "http://" + l.Addr().String() + "/"}
	if wrap != nil {
		l = wrap(f, l)
	}
	var h http.Handler = proxy(to)
	if handle != nil {
		h = handle(f, proxy(to))
	}
	s := &http.Server{Handler: h}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return f
}

// stalling delays every nth answer.
func stalling(n int64, d time.Duration) func(*front, *httputil.ReverseProxy) http.Handler {
	return func(f *front, next *httputil.ReverseProxy) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f.every(n) {
				timer := time.NewTimer(d)
				defer timer.Stop()
				select {
				case <-timer.C:
				case <-r.Context().Done():
					return
				}
			}
			next.ServeHTTP(w, r)
		})
	}
}

// hanging answers nothing any more.
func hanging(f *front, next *httputil.ReverseProxy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.armed.Load() {
			<-r.Context().Done()
			return
		}
		next.ServeHTTP(w, r)
	})
}

// corrupting flips a bit of the last byte of every nth static file.
func corrupting(n int64) func(*front, *httputil.ReverseProxy) http.Handler {
	return func(f *front, next *httputil.ReverseProxy) http.Handler {
		next.ModifyResponse = func(rs *http.Response) error {
			if !strings.HasPrefix(rs.Request.URL.Path, "/file_set/") || !f.every(n) {
				return nil
			}
			b, err := io.ReadAll(rs.Body)
			if err != nil {
				return err
			}
			b[len(b)-1] ^= 1
			rs.Body = io.NopCloser(bytes.NewReader(b))
			return nil
		}
		return next
	}
}

// losing answers every nth POST with the page of another server, whose post log nobody asks for, and passes the one
// after it on twice.
func losing(n int64, other *url.URL) func(*front, *httputil.ReverseProxy) http.Handler {
	elsewhere := proxy(other)
	return func(f *front, next *httputil.ReverseProxy) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || !f.armed.Load() {
				next.ServeHTTP(w, r)
				return
			}
			switch f.seen.Add(1) % n {
			case 0:
				elsewhere.ServeHTTP(w, r)
			case 1:
				b, err := io.ReadAll(r.Body)
				if err != nil {
					return // the client has gone
				}
				for _, to := range []http.ResponseWriter{httptest.NewRecorder(), w} {
					r.Body = io.NopCloser(bytes.NewReader(b))
					next.ServeHTTP(to, r)
				}
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

// caching answers custom-ad pages from a copy by URL, whoever asks.
func caching(f *front, next *httputil.ReverseProxy) http.Handler {
	type page struct {
		header http.Header
		body   []byte
	}
	var mu sync.Mutex
	pages := map[string]page{}
	next.ModifyResponse = func(rs *http.Response) error {
		if rs.Request.URL.Path != "/web99/cad" || !f.armed.Load() {
			return nil
		}
		b, err := io.ReadAll(rs.Body)
		if err != nil {
			return err
		}
		mu.Lock()
		pages[rs.Request.URL.RawQuery] = page{rs.Header.Clone(), b}
		mu.Unlock()
		rs.Body = io.NopCloser(bytes.NewReader(b))
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		p, found := pages[r.URL.RawQuery]
		mu.Unlock()
		if r.URL.Path != "/web99/cad" || !found || !f.armed.Load() {
			next.ServeHTTP(w, r)
			return
		}
		f.seen.Add(1)
		for k, v := range p.header {
			w.Header()[k] = v
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(p.body)))
		w.Write(p.body)
	})
}

// resetting resets every nth connection as soon as it is there.
func resetting(n int64) func(*front, net.Listener) net.Listener {
	return func(f *front, l net.Listener) net.Listener { return &resetter{l, f, n} }
}

type resetter struct {
	net.Listener
	f *front
	n int64
}

func (r *resetter) Accept() (net.Conn, error) {
	for {
		c, err := r.Listener.Accept()
		if err != nil || !r.f.every(r.n) {
			return c, err
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}
