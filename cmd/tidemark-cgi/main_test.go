package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary the program when it is started without arguments.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func root(t testing.TB) string {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "file_set", "dir00000"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file_set", "dir00000", "class2_0"), bytes.Repeat([]byte("x"), 10240), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func environment(root string) []string {
	return []string{"GATEWAY_INTERFACE=CGI/1.1", "REQUEST_METHOD=GET", "SCRIPT_NAME=/web99/cgi", "QUERY_STRING=/file_set/dir00000/class2_0",
		"SERVER_SOFTWARE=Test/1", "REMOTE_ADDR=192.0.2.7", root}
}

func TestProgram(t *testing.T) {
	dir := root(t)
	for _, env := range [][]string{
		environment("TIDEMARK_ROOT=" + dir),
		environment("DOCUMENT_ROOT=" + dir),
		append(environment("TIDEMARK_ROOT="+dir), "DOCUMENT_ROOT=/none"),
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, want := range []string{"Content-Type: text/html\r\n", "<p>SERVER_SOFTWARE = Test/1</p>", "<p>REMOTE_ADDR = 192.0.2.7</p>", "<p>SCRIPT_NAME = /web99/cgi</p>", strings.Repeat("x", 10240)} {
			if !bytes.Contains(out, []byte(want)) {
				t.Errorf("no %.40q in %.400q", want, out)
			}
		}
	}
}

func TestProgramFails(t *testing.T) {
	for name, env := range map[string][]string{"no root": environment("X=y"), "not CGI": {"TIDEMARK_ROOT=" + t.TempDir()}} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "tidemark-cgi: ") {
			t.Errorf("%s: %v, %q", name, err, out)
		}
	}
}

// BenchmarkStartToExit reports the processor time of one whole run of the real program, and beside it
// that of a Go program that does nothing: the difference is ours.
func BenchmarkStartToExit(b *testing.B) {
	dir := b.TempDir()
	empty := filepath.Join(dir, "empty.go")
	if err := os.WriteFile(empty, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct{ name, source string }{{"program", "."}, {"nothing", empty}} {
		program := filepath.Join(dir, c.name)
		if out, err := exec.Command("go", "build", "-o", program, c.source).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		env := environment("TIDEMARK_ROOT=" + root(b))
		b.Run(c.name, func(b *testing.B) {
			var spent time.Duration
			n := 0
			for b.Loop() {
				cmd := exec.Command(program)
				cmd.Env = env
				if err := cmd.Run(); err != nil {
					b.Fatal(err)
				}
				spent += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				n++
			}
			b.ReportMetric(float64(spent.Microseconds())/float64(n), "cpu-us/op")
		})
	}
}
