//go:build e2e && linux

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// cgi is a server with one CGI program.
type cgi struct {
	*command
	url string
	dir string
}

// serveCGI starts a server of which "/cgi?show" answers with the parent of the program, "/cgi?wait" when somebody has
// written into the file gate, and "/cgi?hang" never.
func serveCGI(t *testing.T, timeout string) cgi {
	t.Helper()
	dir := t.TempDir()
	gate, program, file := filepath.Join(dir, "gate"), filepath.Join(dir, "program"), filepath.Join(dir, "server.toml")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	text := `#!/bin/sh
cd ` + dir + `
case $QUERY_STRING in
wait) : >waits; read -r line <gate ;;
hang) cat <gate & : >hangs; cat <gate ;;
esac
printf 'Content-Type: text/plain\n\n%s' $PPID
`
	conf := fmt.Sprintf("root = %q\n[log]\naccess = \"off\"\n[cgi]\nprogram = %q\ntimeout = %q\n[[page]]\npath = \"/cgi\"\nuse = \"cgi\"\n", suite.root, program, timeout)
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	c := start(t, "serve", "-c", file, "--listen", "127.0.0.1:0")
	c.says("http://127.0.0.1:")
	_, at, _ := strings.Cut(c.stderr.String(), "http://")
	at, _, _ = strings.Cut(at, "/")
	return cgi{c, "http://" + at + "/cgi?", dir}
}

// ask makes one request and returns the answer as text: status and body.
func (c cgi) ask(query string) string {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	rs, err := client.Get(c.url + query)
	if err != nil {
		return err.Error()
	}
	defer rs.Body.Close()
	b, err := io.ReadAll(rs.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(rs.StatusCode, " ", string(b))
}

// begin makes a request and waits until its program runs.
func (c cgi) begin(query string) (answer chan string) {
	c.t.Helper()
	answer = make(chan string, 1)
	go func() { answer <- c.ask(query) }()
	c.until(20*time.Second, "the program", func() bool {
		_, err := os.Stat(filepath.Join(c.dir, query+"s"))
		return err == nil
	})
	return answer
}

// spawner is the process that starts the programs.
func (c cgi) spawner() process {
	c.t.Helper()
	all := c.member("tidemark spawner")
	if len(all) != 1 || all[0].parent != c.pid() {
		c.t.Fatalf("spawners: %v", all)
	}
	return all[0]
}

// TestSpawner looks at the process between a server and its CGI programs.
func TestSpawner(t *testing.T) {
	c := serveCGI(t, "30s")
	for range 100 {
		conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(c.url, "http://"), "/cgi?"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	p := c.spawner()
	if got := c.ask("show"); got != fmt.Sprint("200 ", p.pid) {
		t.Errorf("%s, not by %v", got, p)
	}
	var names []string
	dir := fmt.Sprintf("/proc/%d/fd/", p.pid)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if to, _ := os.Readlink(dir + e.Name()); !strings.HasPrefix(to, "anon_inode:") { // of the Go runtime
			names = append(names, e.Name())
		}
	}
	if err != nil || strings.Join(names, " ") != "0 1 2 3" {
		t.Errorf("it has the descriptors %v, %v", names, err)
	}

	// Without it the server goes on, and says so; not long after there is another one.
	kill(t, p, syscall.SIGKILL)
	c.says("tidemark: CGI spawner: signal: killed; programs are started directly")
	c.until(20*time.Second, "another spawner", func() bool {
		got := c.ask("show")
		if !strings.HasPrefix(got, "200 ") {
			t.Fatal(got)
		}
		return got != fmt.Sprint("200 ", c.pid())
	})
	if q := c.spawner(); q.pid == p.pid || c.ask("show") != fmt.Sprint("200 ", q.pid) {
		t.Errorf("the second is %v", q)
	}

	// Ctrl-C reaches the spawner, too, and must not end it before what is open has been answered.
	answer := c.begin("wait")
	if err := syscall.Kill(-c.pid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "gate"), []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; !strings.HasPrefix(got, "200 ") {
		t.Errorf("the open request: %s", got)
	}
	c.end(0)
}

// TestTerminatedServer has a program that would not end; it does not survive the server, however that is ended.
func TestTerminatedServer(t *testing.T) {
	for _, s := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGKILL, -1}, {syscall.SIGTERM, 0}} {
		t.Run(s.signal.String(), func(t *testing.T) {
			c := serveCGI(t, "2s")
			c.spawner()
			answer := c.begin("hang")
			if got := c.member(filepath.Join(c.dir, "program")); len(got) == 0 || got[0].parent == c.pid() {
				t.Errorf("programs: %v", got)
			}
			if err := syscall.Kill(c.pid(), s.signal); err != nil {
				t.Fatal(err)
			}
			c.end(s.code)
			<-answer
		})
	}
}
