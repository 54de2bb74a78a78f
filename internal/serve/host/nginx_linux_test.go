package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tidemark.dev/internal/serve/cgi"
	"tidemark.dev/page"
)

// asProgram is what the test binary does as a CGI program.
func asProgram() {
	body, _ := io.ReadAll(os.Stdin)
	fmt.Printf("Content-Type: text/plain\n\n%s %s %s %s", os.Getenv("REQUEST_METHOD"), os.Getenv("SCRIPT_NAME"), os.Getenv("QUERY_STRING"), body)
}

// TestBehindNginx drives the responder through a real web server, over unix sockets only.
func TestBehindNginx(t *testing.T) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		nginx, err = exec.LookPath("/usr/sbin/nginx")
	}
	if err != nil {
		t.Skip("nginx is not installed")
	}
	program, err := cgi.New(cgi.Options{Program: os.Args[0], Args: []string{"-cgi"}})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "tm") // a unix socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.WriteFile(filepath.Join(dir, "big"), bytes.Repeat([]byte("x"), bigText), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Open(append(routes(filepath.Join(dir, "big")), Route{"/cgi", program}), &page.Context{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f := s.FastCGI(FastCGIOptions{})
	l, err := net.Listen("unix", filepath.Join(dir, "fcgi"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.Serve(l) }()
	t.Cleanup(func() {
		f.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	config := fmt.Sprintf(`
daemon off; master_process off; worker_processes 1; pid %[1]s/pid; error_log stderr;
events { worker_connections 64; }
http {
	access_log off; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
	upstream pages { server unix:%[1]s/fcgi; keepalive 4; }
	server {
		listen unix:%[1]s/http;
		location / {
			fastcgi_pass pages; fastcgi_keep_conn on;
			fastcgi_param REQUEST_METHOD $request_method; fastcgi_param SCRIPT_NAME $fastcgi_script_name;
			fastcgi_param QUERY_STRING $query_string; fastcgi_param SERVER_PROTOCOL $server_protocol;
			fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
		}
	}
}`, dir)
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	cmd := exec.Command(nginx, "-p", dir, "-c", filepath.Join(dir, "conf"))
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		if c, err := net.Dial("unix", filepath.Join(dir, "http")); err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nginx does not answer")
		}
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, "http"))
	}}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	do := func(method, path, body string) (int, http.Header, string) {
		t.Helper()
		rq, err := http.NewRequest(method, "http://host"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Do(rq)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, r.Header, string(b)
	}
	for range 3 { // the second time over kept connections
		if code, h, body := do("GET", "/all", ""); code != 404 || body != "head file tail" || fmt.Sprint(h["Set-Cookie"]) != "[a=b c=d]" {
			t.Errorf("/all: %d %v %q", code, h, body)
		}
		if code, _, body := do("GET", "/big", ""); code != 200 || body != "head "+strings.Repeat("x", bigText)+" tail" {
			t.Errorf("/big: %d, %d bytes", code, len(body))
		}
		sent := strings.Repeat("abc", 50000)
		if code, _, body := do("POST", "/show?q=1", sent); code != 200 || !strings.Contains(body, sent) || !strings.HasPrefix(body, "POST /show /show q=1 ") {
			t.Errorf("/show: %d, %.100q", code, body)
		}
		if code, _, body := do("POST", "/cgi?a=b", "hello"); code != 200 || body != "POST /cgi a=b hello" {
			t.Errorf("/cgi: %d %q", code, body)
		}
	}
}
