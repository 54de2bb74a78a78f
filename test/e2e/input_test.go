//go:build e2e && linux

package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/disclosure"
)

// quickly is how long a run that cannot begin may take to say so. The longest wait inside is 10 s for the first word of
// a target.
const quickly = 15 * time.Second

// refused ends a command that cannot do its work: exit code 1 and the words expected on standard error, in good time.
func refused(t *testing.T, c *command, words ...string) {
	t.Helper()
	c.end(1)
	if c.took > quickly {
		t.Errorf("%s: took %v", c.name(), c.took)
	}
	if c.stderr.String() == "" {
		t.Errorf("%s: no words", c.name())
	}
	for _, w := range words {
		if !strings.Contains(c.stderr.String(), w) {
			t.Errorf("%s: %q is missing in:\n%s", c.name(), w, c.stderr.String())
		}
	}
	if lines := strings.Count(c.stderr.String(), "\n"); lines > 12 {
		t.Errorf("%s: %d lines of complaint:\n%s", c.name(), lines, c.stderr.String())
	}
}

// TestTargets puts things under test that are no target.
func TestTargets(t *testing.T) {
	for _, x := range []struct {
		name  string
		talk  func(net.Conn) // nil: nobody listens
		words []string
	}{
		{"unreachable", nil, []string{"tidemark: target: ", "connection refused"}},
		{"closes at once", func(net.Conn) {}, []string{"tidemark: target: GET /file_set/dir00000/class0_0: "}},
		{"says nothing", func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, []string{"tidemark: target: ", "no answer within 10s"}},
		{"is no web server", func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_10.0\r\n"); read(c) },
			[]string{"tidemark: target: ", "malformed HTTP", "SSH-2.0"}},
		{"is cut off", func(c net.Conn) {
			read(c)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 102\r\n\r\nshort")
		},
			[]string{"tidemark: target: ", "unexpected EOF"}},
		{"has no files", func(c net.Conn) {
			read(c)
			_, _ = io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}, []string{"tidemark: target: ", "status 404", "hint: ", "/file_set/", "fileset create"}},
		{"forbids", func(c net.Conn) {
			read(c)
			_, _ = io.WriteString(c, "HTTP/1.1 301 Moved Permanently\r\nLocation: https://127.0.0.1:1/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		}, []string{"tidemark: target: ", "status 301"}},
	} {
		t.Run(x.name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			if x.talk == nil {
				l.Close()
			} else {
				defer l.Close()
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						go func() { x.talk(c); c.Close() }()
					}
				}()
			}
			c := bench(t, "--target", "http://"+l.Addr().String(), "--load", "100")
			refused(t, c, x.words...)
			if d := c.document(); d.State != disclosure.Failed || d.Verdict.Word != disclosure.NoVerdict {
				t.Errorf("state %q, %+v", d.State, d.Verdict)
			}
		})
	}
	t.Run("has no pages", func(t *testing.T) {
		s := start(t, "serve", "--root", suite.root, "--listen", "127.0.0.1:0", "--access-log", "off")
		s.says("http://127.0.0.1:")
		_, at, _ := strings.Cut(s.stderr.String(), "http://")
		at, _, _ = strings.Cut(at, "/")
		refused(t, bench(t, "--target", at, "--load", "100"), "tidemark: target: ", "/web99/command", "status 404", "hint: ", "tidemark kit")
	})
	t.Run("is somebody else's", func(t *testing.T) {
		refused(t, bench(t, "--target", "http://192.0.2.1/", "--load", "100"), "192.0.2.1", "hint: ", "--i-own-this-target")
	})
	t.Run("has other files", func(t *testing.T) {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(make([]byte, 102)) })
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go http.Serve(l, handler)
		defer l.Close()
		c := bench(t, "--target", l.Addr().String(), "--load", "100")
		c.end(3)
		because(t, c.document(), "validation", "broke_rules", "target", "GET /file_set/dir00000/class0_0: byte 0 is not the file's")
	})
}

// read reads a request's head.
func read(c net.Conn) {
	b := bufio.NewReader(c)
	for {
		if line, err := b.ReadString('\n'); err != nil || len(line) <= 2 {
			return
		}
	}
}

// TestUsedPort asks for ports that somebody has.
func TestUsedPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	at := l.Addr().String()
	refused(t, start(t, "serve", "--root", suite.root, "--listen", at, "--access-log", "off"), at, "address already in use")
	refused(t, bench(t, "--load", "100", "--agents", "1", "--fleet-listen", at), at, "address already in use")
}

// TestFlags gives values and combinations that make no sense. None is corrected silently.
func TestFlags(t *testing.T) {
	for _, x := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--window", "-5s"}, []string{"--window", "at least 1s"}},
		{[]string{"--window", "0s"}, []string{"--window", "at least 1s"}},
		{[]string{"--driver-cpus", "4095"}, []string{"no CPU 4095"}},
		{[]string{"--target-cpus", "4095"}, []string{"no CPU 4095"}},
		{[]string{"--backend", "nonsense"}, []string{"nonsense"}},
		{[]string{"--server-config", "nonsense = 1"}, []string{"nonsense", "no such key"}},
		{[]string{"--target", "http://127.0.0.1:1/", "--server-config", "x"}, []string{"--server-config", "--target"}},
		{[]string{"--target", "http://127.0.0.1:1/", "--server", "nginx"}, []string{"--target", "--server"}},
		{[]string{"--target", "https://127.0.0.1:1/"}, []string{"http only"}},
		{[]string{"--congestion", "nonsense"}, []string{"nonsense"}},
		{[]string{"--load", "-1"}, []string{"-1", "no count"}},
		{[]string{"--profile", "nonsense"}, []string{"nonsense", "quick, standard, full"}},
	} {
		refused(t, bench(t, append([]string{"--load", "100"}, x.args...)...), x.words...)
	}
}

// TestFolders gives folders that cannot be used.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, start(t, "bench", "--load", "100", "--root", suite.root, "--out", filepath.Join(file, "out")), "result folder", "not a directory")
	refused(t, start(t, "bench", "--load", "100", "--root", suite.root, "--out", "/proc/tidemark/out"), "result folder", "/proc/tidemark")

	foreign := filepath.Join(dir, "foreign")
	precious := filepath.Join(foreign, "precious")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(precious, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, bench(t, "--load", "100", "--root", foreign), foreign)
	if names, err := filepath.Glob(filepath.Join(foreign, "*")); err != nil || len(names) != 1 {
		t.Errorf("in the folder that is somebody else's: %v %v", names, err)
	}
	refused(t, bench(t, "--load", "100", "--root", file), file)

	first := bench(t, "--load", "100", "--window", "2s")
	first.says("proof: ")
	refused(t, bench(t, "--load", "100"), suite.root+": another process is at work on it", "hint: ", "--root")
	_ = syscall.Kill(first.pid(), syscall.SIGINT)
	first.end(130)
	refused(t, start(t, "bench", "--load", "100", "--root", suite.root, "--out", first.out), first.out+" holds a result already", "hint: ")
}

// TestFullDisk has the result folder on a disk of 192 KiB: room for the first documents of a run, not for all.
func TestFullDisk(t *testing.T) {
	for _, server := range []string{"tidemark", "nginx"} {
		t.Run(server, func(t *testing.T) {
			if server == "nginx" {
				have(t, "nginx")
			}
			disk := t.TempDir()
			if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=192k"); err != nil {
				t.Skipf("cannot mount a small disk: %v", err)
			}
			t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
			c := start(t, "bench", "--load", "100", "--window", "2s", "--root", suite.root, "--server", server, "--out", filepath.Join(disk, "out"))
			c.out = filepath.Join(disk, "out")
			c.end(1, 2)
			if !strings.Contains(c.stderr.String(), "no space left on device") {
				t.Errorf("standard error:\n%s", c.stderr.String())
			}
			// What was saved last is whole.
			if d, err := disclosure.Load(c.out); err != nil || d.Verdict.Word == disclosure.Passes {
				t.Errorf("%v %+v", err, d)
			}
		})
	}
}

// TestNoNginx hides the folder that nginx is in.
func TestNoNginx(t *testing.T) {
	if unix.Geteuid() != 0 {
		t.Skip("needs root to hide a folder")
	}
	empty, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	args := []string{"bench", "--server", "nginx", "--load", "100", "--root", suite.root, "--out", out}
	script := `mount --bind "$0" /usr/sbin && PATH="$0" && exec "$@"`
	if err := exec.Command("unshare", "-m", "true").Run(); err != nil {
		t.Skipf("no mount namespaces: %v", err)
	}
	cmd := exec.Command("unshare", append([]string{"-m", "sh", "-c", script, empty, suite.tidemark}, args...)...)
	c := launch(t, cmd, args)
	c.out = out
	refused(t, c, "tidemark: nginx is not installed", "hint: ")
}

// TestBrokenServer gives lines that nginx does not understand: its own words must reach the user.
func TestBrokenServer(t *testing.T) {
	have(t, "nginx")
	refused(t, bench(t, "--server", "nginx", "--server-config", "nonsense on;", "--load", "100"), "tidemark: target: nginx (pid ", "hint: ", `unknown directive "nonsense"`)
}

// TestKit runs what the kit verb prints through a shell, paths with a blank included.
func TestKit(t *testing.T) {
	have(t, "nginx")
	dir := filepath.Join(t.TempDir(), "the kit")
	printed, _ := tidemark(t, 0, "kit", "nginx", "--root", suite.root, "--dir", dir)
	_, lines, _ := strings.Cut(printed, "start:\n")
	commands := strings.Split(lines, "\n")
	pages := launch(t, exec.Command("sh", "-c", "exec "+commands[0]), nil)
	launch(t, exec.Command("sh", "-c", "exec "+commands[1]), nil)
	_, at, _ := strings.Cut(lines, "--target ")
	pages.until(10*time.Second, "nginx", func() bool {
		rs, err := http.Get(strings.TrimSpace(at) + "web99/get?/file_set/dir00000/class0_0")
		if err != nil {
			return false
		}
		defer rs.Body.Close()
		b, _ := io.ReadAll(rs.Body)
		return rs.StatusCode == http.StatusOK && strings.Contains(string(b), "file_set/dir00000/class0_0")
	})
}

// TestWorkloads gives workloads that are none.
func TestWorkloads(t *testing.T) {
	text, _ := tidemark(t, 0, "workload", "show", "web99")
	name := filepath.Join(t.TempDir(), "broken.toml")
	for _, x := range []struct {
		name, old, new string
		words          []string
	}{
		{"syntax", "[mix]", "[mix", []string{"broken.toml:"}},
		{"unknown key", "backoff =", "bakcoff =", []string{"broken.toml:", "bakcoff"}},
		{"sum", "static = 0.70", "static = 0.71", []string{"broken.toml:", "mix"}},
		{"two mistakes", "line_bps = 400000", "line_bps = -1\nrecv = 1", []string{"broken.toml:", "recv"}},
	} {
		if !strings.Contains(text, x.old) {
			t.Fatalf("the workload has no %q", x.old)
		}
		if err := os.WriteFile(name, []byte(strings.Replace(text, x.old, x.new, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
		refused(t, bench(t, "--load", "100", "--workload", name), x.words...)
	}
	refused(t, bench(t, "--load", "100", "--workload", "/nonexistent.toml"), "/nonexistent.toml", "hint: ", "web99")
}

// TestOtherVerbs gives the other commands what they cannot use.
func TestOtherVerbs(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk")
	if err := os.WriteFile(junk, []byte(strings.Repeat("junk\n", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range [][]string{
		{"report", "check", dir},
		{"report", "render", junk},
		{"report", "render", "--format", "pdf", dir},
		{"log", "cat", junk},
		{"log", "cat", filepath.Join(dir, "nothing")},
		{"serve", "--root", filepath.Join(dir, "nothing"), "--listen", "127.0.0.1:0"},
		{"serve", "-c", junk},
		{"agent", "--fleet", "nats://127.0.0.1:1", "--run", "x"},
	} {
		refused(t, start(t, x...))
	}
}
