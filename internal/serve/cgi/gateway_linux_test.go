package cgi

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"tidemark.dev/page"
)

// TestMain turns the test binary into a CGI program when asked to: arguments -script, mode, and a file
// for the process number; or into a spawner.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) == 4 && os.Args[1] == "-script":
		script(os.Args[2], os.Args[3])
		os.Exit(0)
	case len(os.Args) == 2 && os.Args[1] == "spawner":
		signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM)
		if err := Spawn(os.NewFile(3, "server")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(bothWays{m})
}

// bothWays runs the tests twice: with programs that are children of this process, and of a spawner.
type bothWays struct{ m *testing.M }

// spawner is that of the second pass.
var spawner *Spawner

func (b bothWays) Run() int {
	code := b.m.Run()
	fmt.Println("and once more by a spawner")
	lost := false
	spawner = NewSpawner(SpawnerOptions{Command: []string{os.Args[0], "spawner"}, Stderr: os.Stderr, Lost: func(err error) {
		fmt.Println(err)
		lost = true
	}})
	code = max(code, b.m.Run())
	spawner.Close()
	if lost {
		code = max(code, 1)
	}
	return code
}

const plain = "Content-Type: text/plain\n\n"

// script is a CGI program that misbehaves as asked. forever is longer than any test waits.
func script(mode, pidFile string) {
	forever := func() {
		for {
			time.Sleep(time.Hour)
		}
	}
	announce := func() {
		if pidFile != "" {
			_ = os.WriteFile(pidFile+"~", []byte(strconv.Itoa(os.Getpid())), 0o644)
			_ = os.Rename(pidFile+"~", pidFile)
		}
	}
	child := func(setsid bool) {
		cmd := exec.Command(os.Args[0], "-script", "sleep", pidFile)
		cmd.Stdout = os.Stdout // holds the pipe open
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: setsid}
		if err := cmd.Start(); err != nil {
			os.Exit(9)
		}
		for {
			if _, err := os.Stat(pidFile); err == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	switch mode {
	case "parent":
		fmt.Print(plain, os.Getppid())
	case "env":
		fmt.Print(plain, strings.Join(os.Environ(), "\n"), "\n")
		dir, _ := os.Getwd()
		fmt.Printf("DIR %s ARGS %q\n", dir, os.Args[2:])
	case "echo":
		fmt.Print(plain)
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "deaf":
		fmt.Print(plain, "did not read")
	case "status":
		fmt.Print("Status: 404 Not Found\r\nContent-Type: text/css\r\nSet-Cookie: a=b\r\nConnection: close\r\n\r\nnone")
	case "big":
		fmt.Print("Content-Type: text/plain\nContent-Length: 3000000\n\n")
		_, _ = os.Stdout.Write(bytes.Repeat([]byte("0123456789"), 300000))
	case "short":
		fmt.Print("Content-Type: text/plain\nContent-Length: 10\n\nfour")
	case "hang":
		announce()
		forever()
	case "mover": // into the group of its parent
		group, err := syscall.Getpgid(os.Getppid())
		if err != nil || syscall.Setpgid(0, group) != nil {
			os.Exit(9)
		}
		announce()
		forever()
	case "hangafter":
		announce()
		fmt.Print(plain, "beginning")
		forever()
	case "hangclosed":
		announce()
		fmt.Print(plain, "all of it")
		_ = os.Stdout.Close()
		forever()
	case "sleep":
		announce()
		forever()
	case "clan": // a family that stays
		child(false)
		forever()
	case "server": // one that has a clan to look after
		s := NewSpawner(SpawnerOptions{Command: []string{os.Args[0], "spawner"}, Stderr: os.Stderr})
		_ = os.WriteFile(pidFile+".spawner", []byte(strconv.Itoa(s.link.process.Pid)), 0o644)
		g, err := New(Options{Program: os.Args[0], Args: []string{"-script", "clan", pidFile}, Spawner: s})
		if err != nil || g.Open(&page.Context{}) != nil {
			os.Exit(9)
		}
		g.Serve(get(), new(page.Response))
	case "fails": // as a spawner
		f, err := os.OpenFile(pidFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			os.Exit(9)
		}
		_, _ = f.WriteString("x")
		os.Exit(3)
	case "stranger": // as a spawner of another version
		_, _ = os.Stdout.Write(answer{what: isReady, value: version + 1}.append(nil))
		_, _ = os.NewFile(3, "server").Read(make([]byte, 1))
	case "dies":
		fmt.Print(plain, "half an ans")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		forever()
	case "exit":
		fmt.Print(plain, "looks good")
		os.Exit(3)
	case "garbage":
		fmt.Print("<html>no header</html>\n\n")
	case "nothing":
	case "half":
		fmt.Print("Content-Type: text/pl")
	case "flood":
		announce()
		fmt.Print(plain)
		for {
			if _, err := os.Stdout.Write(make([]byte, 64<<10)); err != nil {
				os.Exit(1)
			}
		}
	case "floodheader":
		announce()
		for {
			if _, err := os.Stdout.WriteString("X-More: of this\n"); err != nil {
				os.Exit(1)
			}
		}
	case "family":
		child(false)
		fmt.Print(plain, "parent is done")
	case "escapee":
		child(true)
		fmt.Print(plain, "parent is done")
	case "wait":
		announce()
		for {
			if _, err := os.Stat(pidFile + ".go"); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Print(plain, "went on")
	}
}

type harness struct {
	*Gateway
	pidFile string
}

func start(t *testing.T, mode string, change func(*Options)) harness {
	t.Helper()
	pidFile := filepath.Join(t.TempDir(), "pid")
	o := Options{
		Program: os.Args[0], Args: []string{"-script", mode, pidFile}, Spawner: spawner,
		Env: []string{"GORACE=atexit_sleep_ms=0"}, // under the race detector every end takes a second otherwise
	}
	if change != nil {
		change(&o)
	}
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Open(&page.Context{Software: "Test/1"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return harness{g, pidFile}
}

func get() *page.Request {
	return &page.Request{Method: []byte("GET"), Proto: "HTTP/1.1", Path: []byte("/cgi"), Script: []byte("/cgi"), Remote: netip.MustParseAddr("192.0.2.7")}
}

func (h harness) serve(t *testing.T, rq *page.Request) (page.View, string) {
	t.Helper()
	var rs page.Response
	h.Serve(rq, &rs)
	v := rs.View()
	if v.Length != int64(len(v.Head)) {
		t.Errorf("length %d, head %d", v.Length, len(v.Head))
	}
	return v, string(v.Head)
}

// gone reports that the announced process ends; waiting for it is waiting for the kernel, not for luck.
func (h harness) gone(t *testing.T) {
	t.Helper()
	pid := h.pid(t)
	for deadline := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; runtime.Gosched() {
		if b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); bytes.Contains(b, []byte(") Z ")) {
			return // killed; its parent is init now and has yet to reap it
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d is still there", pid)
		}
	}
}

func (h harness) pid(t *testing.T) int {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		if b, err := os.ReadFile(h.pidFile); err == nil {
			pid, err := strconv.Atoi(string(b))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		if time.Now().After(deadline) {
			t.Fatal("the program did not announce itself")
		}
	}
}

func TestAnswers(t *testing.T) {
	h := start(t, "status", nil)
	v, body := h.serve(t, get())
	if v.Status != 404 || v.Type != "text/css" || string(v.Fields) != "Set-Cookie: a=b\r\n" || body != "none" {
		t.Errorf("%+v %q", v, body)
	}
	h = start(t, "big", nil)
	if v, body = h.serve(t, get()); v.Status != 200 || body != strings.Repeat("0123456789", 300000) {
		t.Errorf("%d, %d bytes, %.80q", v.Status, len(body), body)
	}
	if c := h.Counts(); c != (Counts{Served: 1}) {
		t.Errorf("%+v", c)
	}
}

func TestBodyReachesTheProgram(t *testing.T) {
	rq := get()
	rq.Method, rq.Body = []byte("POST"), bytes.Repeat([]byte("abcdefgh"), 100000)
	if v, body := start(t, "echo", nil).serve(t, rq); v.Status != 200 || body != string(rq.Body) {
		t.Errorf("%d, %d bytes", v.Status, len(body))
	}
	if v, body := start(t, "deaf", nil).serve(t, rq); v.Status != 200 || body != "did not read" {
		t.Errorf("a program that does not read: %d %q", v.Status, body)
	}
	if v, body := start(t, "echo", nil).serve(t, get()); v.Status != 200 || body != "" {
		t.Errorf("without a body: %d %q", v.Status, body)
	}
}

func TestEnvironmentOfARealProgram(t *testing.T) {
	dir := t.TempDir()
	h := start(t, "env", func(o *Options) {
		o.Env = []string{"DOCUMENT_ROOT=/srv", "REMOTE_ADDR=forged", "PATH=/mine"}
		o.Dir = dir
	})
	t.Setenv("INHERITED", "no")
	rq := get()
	rq.Query, rq.Host, rq.Local = []byte("a=1&b"), []byte("www.example.org:8080"), netip.MustParseAddrPort("[::1]:81")
	rq.Fields = []byte("Host: www.example.org:8080\r\nCookie: a=b\r\nCookie: c=d\r\nProxy: x\r\nX_Y: z\r\nAccept: a\r\nACCEPT: b\r\nAuthorization: s\r\n")
	_, body := h.serve(t, rq)
	lines := strings.Split(body, "\n")
	count := map[string]int{}
	for _, l := range lines {
		name, _, _ := strings.Cut(l, "=")
		count[name]++
	}
	for _, want := range []string{
		"GATEWAY_INTERFACE=CGI/1.1", "REQUEST_METHOD=GET", "SCRIPT_NAME=/cgi", "QUERY_STRING=a=1&b", "SERVER_SOFTWARE=Test/1",
		"SERVER_PROTOCOL=HTTP/1.1", "SERVER_NAME=www.example.org", "SERVER_PORT=81", "REMOTE_ADDR=192.0.2.7", "DOCUMENT_ROOT=/srv",
		"HTTP_HOST=www.example.org:8080", "HTTP_COOKIE=a=b; c=d", "HTTP_ACCEPT=a, b", "PATH=/mine", "SCRIPT_FILENAME=" + os.Args[0],
	} {
		name, _, _ := strings.Cut(want, "=")
		if !strings.Contains("\n"+body, "\n"+want+"\n") || count[name] != 1 {
			t.Errorf("no single %s in\n%s", want, body)
		}
	}
	for _, name := range []string{"INHERITED", "HTTP_PROXY", "HTTP_X_Y", "HTTP_AUTHORIZATION", "CONTENT_LENGTH", "CONTENT_TYPE", "PATH_INFO", "HTTPS"} {
		if count[name] != 0 {
			t.Errorf("%s is there:\n%s", name, body)
		}
	}
	if !strings.Contains(body, "DIR "+dir+" ARGS [\"env\"") {
		t.Errorf("working directory or arguments:\n%s", body)
	}
}

func TestFailingProgramsAnswerNothing(t *testing.T) {
	for mode, want := range map[string]string{
		"short": "not as long as Content-Length", "dies": "killed", "exit": "exit status 3", "garbage": "not a header field",
		"nothing": "ends before the header", "half": "ends before the header",
	} {
		h := start(t, mode, nil)
		v, body := h.serve(t, get())
		if v.Status != 502 || !strings.Contains(body, want) || len(v.Fields) != 0 {
			t.Errorf("%s: %d %q, want %q", mode, v.Status, body, want)
		}
		if c := h.Counts(); c != (Counts{Failed: 1}) {
			t.Errorf("%s: %+v", mode, c)
		}
	}
}

func TestFloodsAreCut(t *testing.T) {
	for mode, want := range map[string]string{"flood": "too much output", "floodheader": "too long"} {
		h := start(t, mode, func(o *Options) { o.MaxOutput = 1 << 20 })
		if v, body := h.serve(t, get()); v.Status != 502 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %q", mode, v.Status, body)
		}
		h.gone(t)
	}
}

func TestHangingProgramsAreKilled(t *testing.T) {
	for _, mode := range []string{"hang", "hangafter", "hangclosed", "mover"} {
		h := start(t, mode, nil)
		env, _ := environment(&h.o, "", get())
		timeout := make(chan time.Time)
		var rs page.Response
		var wg sync.WaitGroup
		wg.Go(func() { h.Gateway.serve(get(), &rs, env, timeout) })
		h.pid(t) // it runs; now its time is up
		timeout <- time.Time{}
		wg.Wait()
		if v := rs.View(); v.Status != 504 {
			t.Errorf("%s: %d %q", mode, v.Status, v.Head)
		}
		h.gone(t)
		if c := h.Counts(); c != (Counts{Expired: 1}) {
			t.Errorf("%s: %+v", mode, c)
		}
	}
}

func TestTimeoutIsKept(t *testing.T) {
	h := start(t, "hang", func(o *Options) { o.Timeout = time.Millisecond })
	if v, body := h.serve(t, get()); v.Status != 504 && v.Status != 503 {
		t.Errorf("%d %q", v.Status, body)
	}
}

func TestCancelledRequestsKillTheProgram(t *testing.T) {
	h := start(t, "hang", nil)
	done := make(chan struct{})
	rq := get()
	rq.Done = done
	var v page.View
	var wg sync.WaitGroup
	wg.Go(func() { v, _ = h.serve(t, rq) })
	h.pid(t)
	close(done)
	wg.Wait()
	if v.Status != 503 {
		t.Errorf("%d", v.Status)
	}
	h.gone(t)
}

func TestCloseKillsTheProgram(t *testing.T) {
	h := start(t, "hang", nil)
	var v page.View
	var wg sync.WaitGroup
	wg.Go(func() { v, _ = h.serve(t, get()) })
	h.pid(t)
	if err := h.Gateway.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if v.Status != 503 {
		t.Errorf("%d", v.Status)
	}
	h.gone(t)
	if v, _ := h.serve(t, get()); v.Status != 503 {
		t.Errorf("after Close: %d", v.Status)
	}
}

func TestWhatAProgramLeavesBehindIsKilled(t *testing.T) {
	h := start(t, "family", nil)
	if v, body := h.serve(t, get()); v.Status != 200 || body != "parent is done" {
		t.Errorf("%d %q", v.Status, body)
	}
	h.gone(t)
}

func TestAnEscapeeDoesNotHoldTheAnswer(t *testing.T) {
	h := start(t, "escapee", nil)
	v, body := h.serve(t, get())
	if err := syscall.Kill(h.pid(t), syscall.SIGKILL); err != nil {
		t.Error("the escapee was expected to live:", err)
	}
	if v.Status != 200 || body != "parent is done" {
		t.Errorf("%d %q", v.Status, body)
	}
	h.gone(t)
}

func TestProcessesAreLimited(t *testing.T) {
	h := start(t, "wait", func(o *Options) { o.MaxProcesses = 1; o.Timeout = 20 * time.Second })
	var first page.View
	var wg sync.WaitGroup
	wg.Go(func() { first, _ = h.serve(t, get()) })
	h.pid(t)
	gone := make(chan struct{})
	close(gone)
	rq := get()
	rq.Done = gone
	if v, body := h.serve(t, rq); v.Status != 503 || body != "cancelled\n" {
		t.Errorf("%d %q", v.Status, body)
	}
	if err := os.WriteFile(h.pidFile+".go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if v, body := h.serve(t, get()); first.Status != 200 || v.Status != 200 || body != "went on" {
		t.Errorf("%d, then %d %q", first.Status, v.Status, body)
	}
}

func TestWaitingForAPlaceTimesOut(t *testing.T) {
	h := start(t, "hang", func(o *Options) { o.MaxProcesses = 1; o.Timeout = time.Millisecond })
	h.places <- struct{}{}
	if v, body := h.serve(t, get()); v.Status != 503 || body != "too many CGI programs\n" {
		t.Errorf("%d %q", v.Status, body)
	}
	<-h.places
}

func TestManyAtOnce(t *testing.T) {
	h := start(t, "echo", func(o *Options) { o.MaxProcesses = 4 })
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			rq := get()
			rq.Body = fmt.Appendf(nil, "body %d", i)
			if v, body := h.serve(t, rq); v.Status != 200 || body != string(rq.Body) {
				t.Errorf("%d %q", v.Status, body)
			}
		})
	}
	wg.Wait()
	if c := h.Counts(); c != (Counts{Served: 16}) {
		t.Errorf("%+v", c)
	}
}

func TestRefusals(t *testing.T) {
	for _, o := range []Options{{}, {Program: "relative"}, {Program: "/none/there"}, {Program: os.Args[0], Timeout: -1}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v accepted", o)
		}
	}
	rq := get()
	rq.Query = []byte("a\x00b")
	if v, _ := start(t, "env", nil).serve(t, rq); v.Status != 400 {
		t.Errorf("NUL in the query: %d", v.Status)
	}
	gone := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(gone, []byte("#!/none/there\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if v, body := start(t, "", func(o *Options) { o.Program = gone }).serve(t, get()); v.Status != 502 || !strings.Contains(body, "did not start") {
		t.Errorf("%d %q", v.Status, body)
	}
}

func TestServerNames(t *testing.T) {
	local := netip.MustParseAddrPort("192.0.2.1:8080")
	for host, want := range map[string]string{
		"": "192.0.2.1", "a.example": "a.example", "a.example:99": "a.example", "[::1]:8080": "[::1]", "[::1]": "[::1]",
		"<x>": "192.0.2.1", "a b": "192.0.2.1", "[x]": "192.0.2.1", "[::1": "192.0.2.1",
	} {
		if name, port := server(&page.Request{Host: []byte(host), Local: local}); name != want || port != "8080" {
			t.Errorf("%q: %s %s", host, name, port)
		}
	}
	if name, port := server(&page.Request{Secure: true}); name != "" || port != "443" {
		t.Errorf("%q %q", name, port)
	}
}

// The parent of a program is who should have started it.
func TestWhoStartsPrograms(t *testing.T) {
	want := os.Getpid()
	if spawner != nil {
		want = spawner.link.process.Pid
	}
	if v, body := start(t, "parent", nil).serve(t, get()); v.Status != 200 || body != strconv.Itoa(want) {
		t.Errorf("%d %q, want the child of %d", v.Status, body, want)
	}
}

func TestLargeEnvironments(t *testing.T) {
	h := start(t, "env", nil)
	rq := get()
	for i := range 250 {
		rq.Fields = fmt.Appendf(rq.Fields, "X-%d: %s\r\n", i, strings.Repeat(string(rune('a'+i%26)), 1000))
	}
	v, body := h.serve(t, rq)
	for i := range 250 {
		if want := fmt.Sprintf("\nHTTP_X_%d=%s\n", i, strings.Repeat(string(rune('a'+i%26)), 1000)); v.Status != 200 || !strings.Contains(body, want) {
			t.Fatalf("%d, %d bytes, field %d is not as it was", v.Status, len(body), i)
		}
	}
	rq = get()
	rq.Fields = append(bytes.Repeat([]byte("c"), 200<<10), "\r\n"...) // a kernel takes 128 KiB for one variable
	copy(rq.Fields, "Cookie: ")
	if v, body := h.serve(t, rq); v.Status != 502 || !strings.Contains(body, "too large") {
		t.Errorf("%d %q", v.Status, body)
	}
}

// What a program finds around it does not depend on who started it.
func TestSurroundings(t *testing.T) {
	program := filepath.Join(t.TempDir(), "p.sh")
	const text = `#!/bin/sh
printf 'Content-Type: text/plain\n\n'
while read -r line; do # by the shell itself and first: it blocks its signals for as long as it starts a program
	case $line in SigBlk:*|SigIgn:*|Umask:*|Uid:*|Gid:*|Groups:*|Cpus_allowed:*|NoNewPrivs:*|Seccomp:*) echo "$line";; esac
done </proc/$$/status
env | sort
pwd
cat /proc/$$/limits /proc/$$/oom_score_adj
set -- $(cat /proc/$$/stat)
[ $1 = $5 ] && echo leads its group, session $6, terminal $7, priority ${18}, nice ${19}
for fd in 0 1 2; do readlink /proc/$$/fd/$fd; done
`
	if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	var seen []string
	for _, by := range []*Spawner{nil, own(t)} {
		h := start(t, "", func(o *Options) { o.Program, o.Args, o.Spawner = program, nil, by })
		v, body := h.serve(t, get())
		if v.Status != 200 || strings.Count(body, "/dev/null\n") != 2 || strings.Count(body, "pipe:[") != 1 || strings.Count(body, "leads its group") != 1 {
			t.Errorf("%d\n%s", v.Status, body)
		}
		pipe := strings.Index(body, "pipe:[")
		seen = append(seen, body[:max(pipe, 0)]+strings.TrimLeft(body[max(pipe, 0):], "pipe:[0123456789]"))
	}
	if seen[0] != seen[1] {
		t.Errorf("directly:\n%s\nby a spawner:\n%s", seen[0], seen[1])
	}
}

// BenchmarkServe runs /bin/true-like work: a shell is not needed to see what a process costs here.
func BenchmarkServe(b *testing.B) {
	g, err := New(Options{Program: os.Args[0], Args: []string{"-script", "deaf", ""}})
	if err != nil {
		b.Fatal(err)
	}
	if err := g.Open(&page.Context{}); err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	var rs page.Response
	for b.Loop() {
		rs.Reset()
		if g.Serve(get(), &rs); rs.View().Status != 200 {
			b.Fatal(string(rs.View().Head))
		}
	}
}
