//go:build linux

package target

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/fault"
)

// The test binary plays the processes: TARGET_ROLE says which.
func TestMain(m *testing.M) {
	switch os.Getenv("TARGET_ROLE") {
	case "":
		os.Exit(m.Run())
	case "server": // listens on the address given until it is asked to stop
		l, err := net.Listen("tcp", os.Getenv("TARGET_ADDRESS"))
		if err != nil {
			fmt.Println("cannot listen:", err)
			os.Exit(1)
		}
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	case "deaf": // does not stop when asked; says so once it listens to nothing
		signalIgnore()
		fmt.Println("deaf")
		select {}
	case "crash":
		fmt.Println("the disk is on fire")
		os.Exit(7)
	case "guard":
		Guard(os.Stdin)
	case "master": // starts a worker in its own group, tells its number, and waits
		_ = os.Setenv("TARGET_ROLE", "deaf")
		worker := exec.Command(os.Args[0])
		if err := worker.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Printf("worker %d is up\n", worker.Process.Pid)
		select {}
	case "affinity":
		var set unix.CPUSet
		_ = unix.SchedGetaffinity(0, &set)
		fmt.Println("cpus", set.Count())
	case "orphan": // starts a child by a Keeper, tells its number, and waits to be killed
		_ = os.Setenv("TARGET_ROLE", "guard") // for the guard
		k, err := NewKeeper([]string{os.Args[0]})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		p, err := k.Spawn(role("deaf", os.Getenv("TARGET_DIR")))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(p.Pid)
		select {}
	}
	os.Exit(0)
}

func signalIgnore() { signal.Ignore(syscall.SIGTERM) }

func role(name, dir string, env ...string) Command {
	return Command{
		Name: name, Path: os.Args[0], Env: append([]string{"TARGET_ROLE=" + name}, env...),
		Log: filepath.Join(dir, name+".log"), Origin: fault.Target,
	}
}

func keeper(t *testing.T) *Keeper {
	t.Helper()
	t.Setenv("TARGET_ROLE", "guard") // only the guard inherits it: commands set their own
	k, err := NewKeeper([]string{os.Args[0]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func address(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestStartAwaitsTheFirstAnswer(t *testing.T) {
	k, at := keeper(t), address(t)
	c := role("server", t.TempDir(), "TARGET_ADDRESS="+at)
	c.Ready = &Ready{Network: "tcp", Address: at}
	tg, err := Start(context.Background(), k, []Command{c})
	if err != nil {
		t.Fatal(err)
	}
	if err := tg.Failed(); err != nil {
		t.Errorf("running server: %v", err)
	}
	conn, err := net.Dial("tcp", at)
	if err != nil {
		t.Errorf("started server does not answer: %v", err)
	} else {
		conn.Close()
	}
	if err := tg.Stop(10 * time.Second); err != nil {
		t.Errorf("stop: %v", err)
	}
	if alive(tg.Processes()[0].Pid) {
		t.Error("stopped server is alive")
	}
}

func TestStartTellsTheLastWordsOfACrash(t *testing.T) {
	k := keeper(t)
	c := role("crash", t.TempDir())
	c.Ready = &Ready{Network: "tcp", Address: address(t)}
	_, err := Start(context.Background(), k, []Command{c})
	if fault.OriginOf(err) != fault.Target || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("error %v of origin %v", err, fault.OriginOf(err))
	}
	if words := strings.Join(fault.Hints(err), "\n"); !strings.Contains(words, "the disk is on fire") {
		t.Errorf("hints %q do not hold the process's words", words)
	}
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	k := keeper(t)
	dir := t.TempDir()
	p, err := k.Spawn(role("deaf", dir))
	if err != nil {
		t.Fatal(err)
	}
	awaitWords(t, filepath.Join(dir, "deaf.log"), "deaf")
	err = p.Stop(50 * time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("stop: %v", err)
	}
	if alive(p.Pid) {
		t.Error("it is still alive")
	}
}

func TestSpawnSetsAffinityOfTheChildOnly(t *testing.T) {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	one := -1
	for c := 0; c < 1024 && one < 0; c++ {
		if before.IsSet(c) {
			one = c
		}
	}
	k := keeper(t)
	dir := t.TempDir()
	c := role("affinity", dir)
	c.CPUs = []int{one}
	p, err := k.Spawn(c)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	awaitWords(t, filepath.Join(dir, "affinity.log"), "cpus 1")
	back := make(chan int, 1)
	k.work <- func() {
		var set unix.CPUSet
		_ = unix.SchedGetaffinity(0, &set)
		back <- set.Count()
	}
	if n := <-back; n != before.Count() {
		t.Errorf("the starting thread has %d CPUs afterwards, had %d", n, before.Count())
	}
}

func TestNothingOutlivesAKilledRun(t *testing.T) {
	// The orphan starts a child that is deaf to SIGTERM and is then killed itself, like a run by kill -9.
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TARGET_ROLE=orphan", "TARGET_DIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the orphan said %q: %v", line, err)
	}
	var pid int
	if _, err := fmt.Sscan(line, &pid); err != nil {
		t.Fatalf("the orphan said %q", line)
	}
	if !alive(pid) {
		t.Fatal("its child never lived")
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for range 500 {
		if !alive(pid) {
			return
		}
		time.Sleep(10 * time.Millisecond) // the kernel delivers the parent-death signal in its own time
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Error("the child outlived the killed run by five seconds")
}

func TestWorkersGoWithTheirKilledMaster(t *testing.T) {
	k, c := keeper(t), role("master", t.TempDir())
	p, err := k.Spawn(c)
	if err != nil {
		t.Fatal(err)
	}
	awaitWords(t, c.Log, "is up")
	b, err := os.ReadFile(c.Log)
	if err != nil {
		t.Fatal(err)
	}
	var worker int
	if _, err := fmt.Sscanf(string(b), "worker %d is up", &worker); err != nil || !alive(worker) {
		t.Fatalf("the master said %q: %v", b, err)
	}
	_ = syscall.Kill(p.Pid, syscall.SIGKILL)
	<-p.Done()
	if err := p.Failed(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the master's end: %v", err)
	}
	for range 500 {
		if !alive(worker) {
			return
		}
		time.Sleep(10 * time.Millisecond) // the kernel takes it down in its own time
	}
	_ = syscall.Kill(worker, syscall.SIGKILL)
	t.Error("a worker outlived its master by five seconds")
}

func TestGuardKillsTheListedGroupsOnly(t *testing.T) {
	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "TARGET_ROLE=deaf")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd
	}
	listed, ended := start(), start()
	Guard(strings.NewReader(fmt.Sprintf("%d\n%d\n-%d\n", listed.Process.Pid, ended.Process.Pid, ended.Process.Pid)))
	if err := listed.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("listed process: %v", err)
	}
	if !alive(ended.Process.Pid) {
		t.Error("a process that was said to have ended was killed")
	}
	Guard(strings.NewReader(fmt.Sprintf("%d\ndone\n", ended.Process.Pid)))
	if !alive(ended.Process.Pid) {
		t.Error("a process was killed after an orderly end")
	}
	_ = ended.Process.Kill()
	_ = ended.Wait()
}

func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(b), ") Z ")
}

// awaitWords polls a process's log for a line; the process writes it in its own time.
func awaitWords(t *testing.T, path, words string) {
	t.Helper()
	var b []byte
	for range 1000 {
		f, err := os.Open(path)
		if err == nil {
			b, _ = io.ReadAll(f)
			f.Close()
			if strings.Contains(string(b), words) {
				return
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("%s never said %q, only %q", path, words, b)
}
