package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// quickProgram builds the program with its quick entry.
func quickProgram(t testing.TB) string {
	program := filepath.Join(t.TempDir(), "quick")
	if out, err := exec.Command("go", "build", "-ldflags=-E=tidemark.dev/pages/quick.start", "-o", program, ".").CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("needs the go command")
		}
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// ran is what a run of a program shows. started: the runtime was there, which tells of itself under inittrace.
func ran(t testing.TB, program string, env []string, in io.Reader) (out string, code int, started bool) {
	var errs bytes.Buffer
	cmd := exec.Command(program)
	cmd.Env, cmd.Stdin, cmd.Stderr = append(env, "GODEBUG=inittrace=1"), in, &errs
	b, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode(), strings.Contains(errs.String(), "init ")
}

// tree makes a root with files of many sizes.
func tree(t testing.TB) string {
	dir := root(t)
	content := make([]byte, 300<<10)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	for name, size := range map[string]int{"empty": 0, "one": 1, "class0_8": 921, "class2_8": 92160, "most": 256 << 10, "more": 300 << 10, "User.Personality": 9} {
		if err := os.WriteFile(filepath.Join(dir, "file_set", "dir00000", name), content[:size], 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"inside": "dir00000/one", "outside": "/etc/passwd"} {
		if err := os.Symlink(to, filepath.Join(dir, "file_set", name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// request is an environment with changes: "NAME=value" replaces, "-NAME" removes, "+NAME=value" adds one more.
func request(dir string, changes ...string) []string {
	env := environment("TIDEMARK_ROOT=" + dir)
	for _, c := range changes {
		if more, ok := strings.CutPrefix(c, "+"); ok {
			env = append(env, more)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(c, "-"), "=")
		for i, e := range env {
			if strings.HasPrefix(e, name+"=") {
				env = append(env[:i], env[i+1:]...)
				break
			}
		}
		if c[0] != '-' {
			env = append(env, c)
		}
	}
	return env
}

// TestQuickAnswersAlike runs the program with both entries: the same output to the byte, and the quick one without a
// runtime exactly where that is due.
func TestQuickAnswersAlike(t *testing.T) {
	dir := tree(t)
	const at = "QUERY_STRING=/file_set/dir00000/"
	quick := quickProgram(t)
	for _, c := range []struct {
		quick   bool
		changes []string
	}{
		{true, nil},
		{true, []string{at + "empty"}},
		{true, []string{at + "one"}},
		{true, []string{at + "class0_8"}},
		{true, []string{at + "class2_8"}},
		{true, []string{at + "most"}},
		{true, []string{"QUERY_STRING=/file_set/inside"}},
		{true, []string{"REMOTE_ADDR=255.0.10.200"}},
		{true, []string{"SERVER_SOFTWARE=<b>&\"1\"</b> '"}},
		{true, []string{"SERVER_SOFTWARE="}},
		{true, []string{"SCRIPT_NAME=/a&b"}},
		{true, []string{"-SCRIPT_NAME"}},
		{true, []string{"+CONTENT_LENGTH=", "+HTTP_COOKIE=a=b", "+=odd", "+odd", "+Q=" + strings.Repeat("q", 100<<10)}},

		{false, []string{at + "more"}},
		{false, []string{at + "none"}},
		{false, []string{at + "User.Personality"}},
		{false, []string{at}},
		{false, []string{at + "one/x"}},
		{false, []string{at + "../dir00000/one"}},
		{false, []string{at + "%6fne"}},
		{false, []string{"QUERY_STRING=/file_set//dir00000/one"}},
		{false, []string{"QUERY_STRING=file_set/dir00000/one"}},
		{false, []string{"QUERY_STRING=/file_set/dir00000"}},
		{false, []string{"QUERY_STRING=/file_set/outside"}},
		{false, []string{"QUERY_STRING=/"}},
		{false, []string{"QUERY_STRING="}},
		{false, []string{"-QUERY_STRING"}},
		{false, []string{"REQUEST_METHOD=HEAD"}},
		{false, []string{"REQUEST_METHOD=POST"}},
		{false, []string{"-REQUEST_METHOD"}},
		{false, []string{"REMOTE_ADDR=host.example"}},
		{false, []string{"REMOTE_ADDR="}},
		{false, []string{"REMOTE_ADDR=2001:db8::7"}},
		{false, []string{"REMOTE_ADDR=1.2.3"}},
		{false, []string{"REMOTE_ADDR=1.2.3.4.5"}},
		{false, []string{"REMOTE_ADDR=1.2.3."}},
		{false, []string{"REMOTE_ADDR=1.2.3.256"}},
		{false, []string{"REMOTE_ADDR=1.2.3.04"}},
		{false, []string{"-REMOTE_ADDR"}},
		{false, []string{"+CONTENT_LENGTH=0"}},
		{false, []string{"+REQUEST_METHOD=HEAD"}},
		{false, []string{"-TIDEMARK_ROOT", "+DOCUMENT_ROOT=" + dir}},
		{false, []string{"TIDEMARK_ROOT=/none"}},
		{false, []string{"SERVER_SOFTWARE=" + strings.Repeat("&", 4<<10)}},
	} {
		env := request(dir, c.changes...)
		name := fmt.Sprintf("%.80q", c.changes)
		want, code, started := ran(t, os.Args[0], env, nil)
		if !started {
			t.Fatalf("%s: the usual entry is not one", name)
		}
		got, quickCode, started := ran(t, quick, env, nil)
		if got != want || quickCode != code {
			t.Errorf("%s: exit %d with %.300q; usually %d with %.300q", name, quickCode, got, code, want)
		}
		if started == c.quick {
			t.Errorf("%s: the runtime started: %v", name, started)
		}
	}
}

// TestQuickKeepsToAnyEnvironment feeds random environments to both.
func TestQuickKeepsToAnyEnvironment(t *testing.T) {
	dir := tree(t)
	program := quickProgram(t)
	r := rand.New(rand.NewPCG(3, 4))
	pieces := []string{"", "GET", "/file_set/dir00000/one", "/file_set/dir00000/class0_8", "=", "/", ".", "a", "<", "\xff", "192.0.2.1", "192.0.2.", "::1", dir, "1"}
	quick := 0
	for range 60 {
		env := request(dir)
		for range r.IntN(3) {
			k := r.IntN(len(env) + 1)
			piece := pieces[r.IntN(len(pieces))] + pieces[r.IntN(len(pieces))]
			if k == len(env) {
				env = append(env, piece)
			} else if name, _, _ := strings.Cut(env[k], "="); r.IntN(8) > 0 {
				env[k] = name + "=" + piece
			} else {
				env = append(env[:k], env[k+1:]...)
			}
		}
		want, code, _ := ran(t, os.Args[0], env, nil)
		got, quickCode, started := ran(t, program, env, nil)
		if got != want || quickCode != code {
			t.Fatalf("%q: exit %d with %.300q; usually %d with %.300q", env, quickCode, got, code, want)
		}
		if !started {
			quick++
		}
	}
	if quick == 0 {
		t.Error("no environment was plain")
	}
}

// TestQuickOutput: a reader that is slow, one that goes away, and a socket that does not block.
func TestQuickOutput(t *testing.T) {
	dir := tree(t)
	program := quickProgram(t)
	env := request(dir, "QUERY_STRING=/file_set/dir00000/most")
	want, _, _ := ran(t, program, env, nil)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	to, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	from, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := to.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	// The duplicate shares the original's O_NONBLOCK, and a small buffer makes it matter.
	_ = to.(*net.TCPConn).SetWriteBuffer(4 << 10)
	_ = from.(*net.TCPConn).SetReadBuffer(4 << 10)
	cmd := exec.Command(program)
	cmd.Env = env
	var started error
	if err := raw.Control(func(fd uintptr) {
		var own int
		if own, started = syscall.Dup(int(fd)); started != nil {
			return
		}
		socket := os.NewFile(uintptr(own), "socket")
		cmd.Stdout = socket
		started = cmd.Start()
		socket.Close()
	}); err != nil || started != nil {
		t.Fatal(err, started)
	}
	got := make([]byte, len(want))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
		t.Errorf("over a socket: %v, equal %v", err, string(got) == want)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd = exec.Command(program)
	cmd.Env, cmd.Stdout = env, w
	if err := cmd.Run(); err == nil {
		t.Error("nobody read the answer, and the program did not mind")
	}
	w.Close()
}

// TestQuickFallsBackClean runs both in processes that are not as they should be. What the quick entry has tried is not to
// be seen when it leaves a request to the usual one.
func TestQuickFallsBackClean(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs a shell")
	}
	dir := tree(t)
	if err := syscall.Mkfifo(filepath.Join(dir, "file_set", "dir00000", "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	quick := quickProgram(t)
	for _, setting := range []string{">&-", "<&- >&-", "<&- >&- 2>&-", "2>&-", "1</dev/null", ">/dev/full"} {
		for _, file := range []string{"one", "more", "none", "fifo"} {
			env := request(dir, "QUERY_STRING=/file_set/dir00000/"+file)
			var saw [2]string
			for i, program := range []string{os.Args[0], quick} {
				cmd := exec.Command(shell, "-c", `"$0" `+setting, program)
				cmd.Env = env
				out, err := cmd.CombinedOutput()
				saw[i] = fmt.Sprintf("%v with %.300q", err, out)
			}
			if saw[0] != saw[1] {
				t.Errorf("%s %s: %s; usually %s", file, setting, saw[1], saw[0])
			}
		}
	}
}

// TestQuickReadsTheWholeEnvironment: what decides may come late.
func TestQuickReadsTheWholeEnvironment(t *testing.T) {
	env := request(tree(t))
	for i := range 66000 {
		env = append(env, fmt.Sprint(i))
	}
	env = append(env, "CONTENT_LENGTH=x")
	_, want, _ := ran(t, os.Args[0], env, nil)
	if _, code, _ := ran(t, quickProgram(t), env, nil); code != want || want == 0 {
		t.Errorf("exit %d, usually %d", code, want)
	}
}
