package cgi

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/page"
)

// watch is a spawner of a test, with a clock that the test moves.
type watch struct {
	*Spawner
	lost  chan error
	moved atomic.Int64 // seconds
}

// patient waits longer than any test does.
var patient = patience{start: time.Hour, do: time.Hour}

// newWatch starts a spawner. Its clock stands still.
func newWatch(t *testing.T, p patience, command ...string) *watch {
	t.Helper()
	if spawner != nil {
		t.Skip("the first pass was the same")
	}
	w := &watch{lost: make(chan error, 16)}
	began := time.Now()
	w.Spawner = newSpawner(SpawnerOptions{Command: command, Stderr: os.Stderr, Lost: func(err error) { w.lost <- err }}, p,
		func() time.Time { return began.Add(time.Duration(w.moved.Load()) * time.Second) })
	t.Cleanup(w.Close)
	return w
}

// own is a spawner that works, for one test.
func own(t *testing.T) *Spawner {
	t.Helper()
	return newWatch(t, patient, os.Args[0], "spawner").Spawner
}

// current is the process number, or 0 while there is none that answers.
func (w *watch) current() int {
	w.mu.Lock()
	l := w.link
	w.mu.Unlock()
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.open {
		return 0
	}
	return l.process.Pid
}

// signal sends a signal to the process and returns its number.
func (w *watch) signal(t *testing.T, s syscall.Signal) int {
	t.Helper()
	pid := w.current()
	if pid == 0 {
		t.Fatal("there is no process")
	}
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
	return pid
}

// stop stops the process and waits until it stands.
func (w *watch) stop(t *testing.T) int {
	t.Helper()
	pid := w.signal(t, syscall.SIGSTOP)
	eventually(t, "that all of it stands", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, path := range threads {
			if b, err := os.ReadFile(path); err == nil && !bytes.Contains(b, []byte(") T ")) {
				return false
			}
		}
		return len(threads) > 0
	})
	return pid
}

// eventually polls for what must come.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !so(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// ended polls for the end of a process.
func ended(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("the end of process %d", pid), func() bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return syscall.Kill(pid, 0) != nil || bytes.Contains(b, []byte(") Z "))
	})
}

func (w *watch) told(t *testing.T, words string) {
	t.Helper()
	select {
	case err := <-w.lost:
		if !strings.Contains(err.Error(), words) {
			t.Errorf("told %q, not %q", err, words)
		}
	default:
		t.Errorf("not told: %s", words)
	}
	if len(w.lost) > 0 {
		t.Errorf("told too much: %v", <-w.lost)
	}
}

// parent asks who starts programs.
func parent(t *testing.T, s *Spawner) int {
	t.Helper()
	v, body := start(t, "parent", func(o *Options) { o.Spawner = s }).serve(t, get())
	pid, err := strconv.Atoi(body)
	if v.Status != 200 || err != nil {
		t.Fatalf("%d %q", v.Status, body)
	}
	return pid
}

func TestKilledSpawner(t *testing.T) {
	w := newWatch(t, patient, os.Args[0], "spawner")
	h := start(t, "hang", func(o *Options) { o.Spawner = w.Spawner })
	var v page.View
	var body string
	var wg sync.WaitGroup
	wg.Go(func() { v, body = h.serve(t, get()) })
	h.pid(t)
	first := w.signal(t, syscall.SIGKILL)
	wg.Wait()
	if v.Status != 502 || !strings.Contains(body, "lost") {
		t.Errorf("%d %q", v.Status, body)
	}
	h.gone(t)
	eventually(t, "that the loss is told", func() bool { return len(w.lost) > 0 })
	w.told(t, "killed")
	for range 3 { // no second one in the same second
		if p := parent(t, w.Spawner); p != os.Getpid() {
			t.Errorf("started by %d", p)
		}
	}
	w.moved.Add(1)
	if p := parent(t, w.Spawner); p != os.Getpid() { // who asks for the new one does not wait for it
		t.Errorf("started by %d", p)
	}
	eventually(t, "another spawner", func() bool { return w.current() != 0 })
	if p := parent(t, w.Spawner); p != w.current() || p == first {
		t.Errorf("started by %d, not by %d", p, w.current())
	}
}

// A spawner that cannot be started is told about once and tried again once in a second at most.
func TestSpawnerThatFails(t *testing.T) {
	tries := filepath.Join(t.TempDir(), "tries")
	count := func() int {
		b, _ := os.ReadFile(tries)
		return len(b)
	}
	w := newWatch(t, patient, os.Args[0], "-script", "fails", tries)
	w.told(t, "exit status 3")
	for try := 1; try < 4; try++ {
		for range 3 {
			if p := parent(t, w.Spawner); p != os.Getpid() {
				t.Fatalf("started by %d", p)
			}
		}
		if n := count(); n != try {
			t.Errorf("tried %d times, want %d", n, try)
		}
		w.moved.Add(1)
		parent(t, w.Spawner)
		eventually(t, "another try", func() bool { return count() > try })
		eventually(t, "its end", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.link == nil && !w.starting
		})
	}
	if len(w.lost) > 0 {
		t.Errorf("told again: %v", <-w.lost)
	}
}

func TestSpawnersThatAreNone(t *testing.T) {
	for words, command := range map[string][]string{
		"no such file": {"/none/there"}, "no command": nil, "replaced": {os.Args[0], "-script", "stranger", ""},
		"not answer": {os.Args[0], "-script", "hang", ""},
	} {
		p := patient
		if words == "not answer" {
			p.start = time.Millisecond
		}
		w := newWatch(t, p, command...)
		w.told(t, words)
		if p := parent(t, w.Spawner); p != os.Getpid() {
			t.Errorf("%s: started by %d", words, p)
		}
		if w.link != nil {
			t.Errorf("%s: is kept", words)
		}
	}
	for _, name := range []string{os.DevNull, "/none/there"} {
		f, _ := os.Open(name)
		if err := Spawn(f); err == nil {
			t.Errorf("%s was taken for a server", name)
		}
		f.Close()
	}
}

// Who does not do as it is told is killed, and with it what it was asked for.
func TestStuckSpawner(t *testing.T) {
	soon := patience{start: time.Hour, do: time.Millisecond}
	w := newWatch(t, soon, os.Args[0], "spawner")
	h := start(t, "hang", func(o *Options) { o.Spawner = w.Spawner })
	done := make(chan struct{})
	rq := get()
	rq.Done = done
	var v page.View
	var wg sync.WaitGroup
	wg.Go(func() { v, _ = h.serve(t, rq) })
	h.pid(t)
	w.stop(t)
	close(done)
	wg.Wait()
	if v.Status != 503 {
		t.Errorf("%d", v.Status)
	}
	h.gone(t)
	if p := parent(t, w.Spawner); p != os.Getpid() {
		t.Errorf("started by %d", p)
	}

	w = newWatch(t, soon, os.Args[0], "spawner")
	w.stop(t)
	var err error
	for packet := make([]byte, 10<<10); err == nil; {
		err = unix.Sendto(int(w.link.socket.Fd()), packet, unix.MSG_DONTWAIT, nil)
	}
	if p := parent(t, w.Spawner); err != unix.EAGAIN || p != os.Getpid() { // what was not taken is not lost
		t.Errorf("%v, started by %d", err, p)
	}

	w = newWatch(t, soon, os.Args[0], "spawner")
	pid := w.stop(t)
	w.Close()
	ended(t, pid)
}

// Interrupts from a terminal reach every process of the foreground group.
func TestSpawnerIgnoresInterrupts(t *testing.T) {
	w := newWatch(t, patient, os.Args[0], "spawner")
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM} {
		w.signal(t, s)
	}
	if p := parent(t, w.Spawner); p != w.current() {
		t.Errorf("started by %d", p)
	}
}

// Close ends programs, what they left in their group, and the process.
func TestClosedSpawner(t *testing.T) {
	w := newWatch(t, patient, os.Args[0], "spawner")
	process := w.current()
	h := start(t, "clan", func(o *Options) { o.Spawner = w.Spawner })
	var v page.View
	var body string
	var wg sync.WaitGroup
	wg.Go(func() { v, body = h.serve(t, get()) })
	h.pid(t)
	w.Close()
	wg.Wait()
	if v.Status != 502 || !strings.Contains(body, "lost") {
		t.Errorf("%d %q", v.Status, body)
	}
	h.gone(t)
	if syscall.Kill(process, 0) == nil {
		t.Error("the process is still there")
	}
	if len(w.lost) > 0 {
		t.Errorf("told %v", <-w.lost)
	}
	w.moved.Add(10)
	if p := parent(t, w.Spawner); p != os.Getpid() {
		t.Errorf("started by %d after Close", p)
	}
	if w.link != nil {
		t.Error("another process was started after Close")
	}
}

// A server that is killed leaves neither its spawner nor programs nor what those started.
func TestKilledServer(t *testing.T) {
	h := harness{pidFile: filepath.Join(t.TempDir(), "pid")}
	server := exec.Command(os.Args[0], "-script", "server", h.pidFile)
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	h.pid(t)
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	h.gone(t)
	b, err := os.ReadFile(h.pidFile + ".spawner")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(b))
	if err != nil {
		t.Fatal(err)
	}
	ended(t, pid)
}

// The spawner holds nothing of the server's, nor of the requests that are over.
func TestDescriptorsOfTheSpawner(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	given, err := unix.Dup(int(log.Fd())) // as from a parent that does not care: it goes to every process
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(given)
	w := newWatch(t, patient, os.Args[0], "spawner")
	dir := fmt.Sprintf("/proc/%d/fd/", w.current())
	look := func() {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range entries {
			to, _ := os.Readlink(dir + e.Name())
			if e.Name() != strconv.Itoa(i) || i > 3 || i == 0 && to != os.DevNull || i == 1 && !strings.HasPrefix(to, "pipe:") || i == 3 && !strings.HasPrefix(to, "socket:") {
				t.Errorf("descriptor %s is %s", e.Name(), to)
			}
		}
	}
	look()
	for _, mode := range []string{"echo", "exit", "family"} {
		rq := get()
		rq.Body = []byte("some")
		start(t, mode, func(o *Options) { o.Spawner, o.Stderr = w.Spawner, log }).serve(t, rq)
	}
	refused := start(t, "", func(o *Options) { o.Program, o.Spawner, o.Dir = "/bin/sh", w.Spawner, "/none/there" })
	if v, body := refused.serve(t, get()); v.Status != 502 || !strings.Contains(body, "did not start") {
		t.Errorf("%d %q", v.Status, body)
	}
	look()
}

// A spawner out of descriptors refuses one request after the other and goes on when there are some.
func TestSpawnerWithoutDescriptors(t *testing.T) {
	w := newWatch(t, patient, os.Args[0], "spawner")
	h := start(t, "echo", func(o *Options) { o.Spawner = w.Spawner })
	var before unix.Rlimit
	rq := get()
	rq.Body = []byte("some")
	for _, most := range []uint64{4, 5, 6, 7, 8} { // two for the pipes, two to learn whether it started, one to wait for it
		if err := unix.Prlimit(w.current(), unix.RLIMIT_NOFILE, nil, &before); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prlimit(w.current(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: before.Max}, nil); err != nil {
			t.Fatal(err)
		}
		if v, body := h.serve(t, rq); v.Status != 502 || !strings.Contains(body, "did not start") {
			t.Errorf("%d descriptors: %d %q", most, v.Status, body)
		}
		if err := unix.Prlimit(w.current(), unix.RLIMIT_NOFILE, &before, nil); err != nil {
			t.Fatal(err)
		}
		if v, body := h.serve(t, rq); v.Status != 200 || body != "some" {
			t.Errorf("then: %d %q", v.Status, body)
		}
	}
	if len(w.lost) > 0 {
		t.Errorf("lost: %v", <-w.lost)
	}
}

// What does not fit into a packet, or not into the socket of this system, is refused and not cut.
func TestRequestsThatDoNotFit(t *testing.T) {
	h := start(t, "env", func(o *Options) { o.Spawner = own(t) })
	rq := get()
	for i := range 310 {
		rq.Fields = fmt.Appendf(rq.Fields, "X-%d: %s\r\n", i, strings.Repeat("x", 1000))
	}
	if v, body := h.serve(t, rq); v.Status != 502 || !strings.Contains(body, "too large") {
		t.Errorf("%d %q", v.Status, body)
	}
	h.o.Spawner.link.mu.Lock()
	left := len(h.o.Spawner.link.running)
	h.o.Spawner.link.mu.Unlock()
	if left != 0 {
		t.Errorf("%d requests are not forgotten", left)
	}
	if err := unix.SetsockoptInt(int(h.o.Spawner.link.socket.Fd()), unix.SOL_SOCKET, unix.SO_SNDBUF, 4096); err != nil {
		t.Fatal(err)
	}
	rq.Fields = append(bytes.Repeat([]byte("c"), 20000), "\r\n"...)
	copy(rq.Fields, "Cookie: ")
	if v, body := h.serve(t, rq); v.Status != 502 || !strings.Contains(body, "too large") {
		t.Errorf("%d %q", v.Status, body)
	}
	if v, _ := h.serve(t, get()); v.Status != 200 {
		t.Errorf("then: %d", v.Status)
	}
}

func TestManySpawnedAtOnce(t *testing.T) {
	h := start(t, "echo", func(o *Options) { o.Spawner, o.MaxProcesses = own(t), 32 })
	var wg sync.WaitGroup
	for i := range 48 {
		wg.Go(func() {
			rq := get()
			rq.Body = fmt.Appendf(nil, "body %d", i)
			rq.Fields = append(bytes.Repeat([]byte("c"), 30000), "\r\n"...) // more than the socket takes at once
			copy(rq.Fields, "Cookie: ")
			if v, body := h.serve(t, rq); v.Status != 200 || body != string(rq.Body) {
				t.Errorf("%d %q", v.Status, body)
			}
		})
	}
	wg.Wait()
	if c := h.Counts(); c != (Counts{Served: 48}) {
		t.Errorf("%+v", c)
	}
}

func TestPackets(t *testing.T) {
	for _, c := range []command{
		{program: "/p", dir: "/", args: []string{"-a", "", "b c"}, env: []string{"A=b", "C="}, files: [3]int{-1, 7, -1}},
		{program: "/p", files: [3]int{1, 2, 3}},
	} {
		b, ok := appendStart([]byte("before"), &c, 1<<40)
		b = b[len("before"):]
		p, err := parsePacket(b)
		if !ok || err != nil || p.kind != toStart || p.id != 1<<40 {
			t.Fatalf("%+v, %v", p, err)
		}
		got := p.command()
		for i, fd := range c.files {
			if (fd >= 0) != (p.files&(1<<i) != 0) {
				t.Errorf("files %b of %v", p.files, c.files)
			}
		}
		got.files = c.files
		if len(c.args) == 0 {
			got.args, got.env = nil, nil
		}
		if !reflect.DeepEqual(got, c) {
			t.Errorf("%+v became %+v", c, got)
		}
	}
	b := appendKill(nil, 99)
	if p, err := parsePacket(b); err != nil || p.kind != toKill || p.id != 99 {
		t.Errorf("%+v, %v", p, err)
	}
	whole, _ := appendStart(nil, &command{program: "/p", dir: "/", args: []string{"a", "b"}}, 1)
	for n := range len(whole) {
		if p, err := parsePacket(whole[:n]); err == nil {
			t.Errorf("%d bytes of %d: %+v", n, len(whole), p)
		}
	}
	for _, b := range [][]byte{append(appendKill(nil, 1), 'x'), append([]byte{9}, whole[1:]...), append([]byte{toStart, 8}, whole[2:]...)} {
		if p, err := parsePacket(b); err == nil {
			t.Errorf("%q: %+v", b, p)
		}
	}
	big := command{program: "/p", env: []string{strings.Repeat("x", maxPacket-packetHead-len("/p")-3)}}
	if b, ok := appendStart(nil, &big, 1); !ok || len(b) != maxPacket {
		t.Errorf("%v, %d bytes", ok, len(b))
	}
	big.env[0] += "x"
	if _, ok := appendStart(nil, &big, 1); ok {
		t.Error("larger than the largest")
	}
	a := answer{1 << 50, hasEnded, 1 << 31}
	if got := parseAnswer(a.append(nil)); got != a {
		t.Errorf("%+v became %+v", a, got)
	}
}

// BenchmarkStart is the start and end of a program that does nothing, with few and with many sockets open. cpu-us/op is
// the processor time of all that took part.
func BenchmarkStart(b *testing.B) {
	if spawner != nil {
		b.Skip("the first pass was the same")
	}
	for _, many := range []int{10, 10_000} {
		for _, by := range []string{"direct", "spawner"} {
			b.Run(fmt.Sprintf("%s/descriptors=%d", by, many), func(b *testing.B) { benchmarkStart(b, by == "spawner", many) })
		}
	}
}

func benchmarkStart(b *testing.B, spawned bool, many int) {
	var s *Spawner
	var before time.Duration
	if spawned { // before there are many, as a server does
		s = NewSpawner(SpawnerOptions{Command: []string{os.Args[0], "spawner"}, Stderr: os.Stderr, Lost: func(err error) { b.Error(err) }})
		defer s.Close()
		var own unix.Timespec
		if err := unix.ClockGettime(int32(^s.link.process.Pid<<3|2), &own); err != nil { // its processor time
			b.Fatal(err)
		}
		before = time.Duration(own.Nano())
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	for range many {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if errors.Is(err, unix.EMFILE) {
			b.Skip("the limit of descriptors is too low")
		}
		if err != nil {
			b.Fatal(err)
		}
		defer unix.Close(fd)
	}
	before += spent(b)
	c := command{program: "/bin/true", dir: "/", files: [3]int{-1, -1, -1}}
	ends := make(chan result, 1)
	n := 0
	for b.Loop() {
		if spawned {
			_, err = s.start(&c, func(how result) { ends <- how })
		} else {
			_, err = startDirect(&c, int(null.Fd()), func(how result) { ends <- how })
		}
		if err != nil {
			b.Fatal(err)
		}
		if how := <-ends; how.err != nil || how.status != 0 {
			b.Fatal(how)
		}
		n++
	}
	if spawned {
		s.Close()
	}
	b.ReportMetric(float64((spent(b)-before).Microseconds())/float64(n), "cpu-us/op")
}

// spent is the processor time of this process and of the children it has reaped.
func spent(b *testing.B) (sum time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}
