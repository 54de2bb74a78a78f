//go:build linux

package loop

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/clock"
)

const childVar = "LOOP_TEST_CHILD"

// child runs in a re-executed test binary instead of the tests: limits belong to the
// process. It prints what it saw.
func child() bool {
	what := starve
	switch os.Getenv(childVar) {
	case "":
		return false
	case "refused":
		what = refused
	}
	if err := what(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ok")
	return true
}

// refused is what a container's seccomp profile does: io_uring_setup fails with EPERM.
func refused() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_IO_URING_SETUP},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, e := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog))); e != 0 {
		return e
	}
	l, err := New(Options{Backend: "io_uring", CPU: -1}, &script{})
	if err == nil || !errors.Is(err, syscall.EPERM) || !strings.Contains(err.Error(), "kernel.io_uring_disabled") {
		return fmt.Errorf("io_uring: %v", err)
	}
	if l, err = New(Options{Batch: true, CPU: -1}, &script{}); err != nil {
		return err
	}
	if name, why := l.Backend(); name != "epoll" || !strings.Contains(why, "kernel.io_uring_disabled") {
		return fmt.Errorf("auto is %s: %q", name, why)
	}
	l.Stop()
	return l.Run()
}

func TestARefusedRingIsAnErrorOrEpoll(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"=refused")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// starve runs a loop out of descriptors and back.
func starve() error {
	s := &script{}
	runtime.LockOSThread() // a ring belongs to a thread
	defer runtime.UnlockOSThread()
	l, err := New(Options{Backend: os.Getenv(childVar), CPU: -1}, s)
	if err != nil {
		return err
	}
	_, addr, err := l.Listen(loopback, ListenOptions{})
	if err != nil {
		return err
	}
	var ids []ID
	s.accepted = func(id ID, _ int, _ netip.AddrPort) { ids = append(ids, id) }
	// Warm up what the net package wants to open for itself.
	const clients = 10
	var peers []net.Conn
	for range clients {
		c, err := net.Dial("tcp", addr.String())
		if err != nil {
			return err
		}
		peers = append(peers, c)
	}
	// Leave room for three more.
	probe, err := syscall.Open("/dev/null", syscall.O_RDONLY, 0)
	if err != nil {
		return err
	}
	syscall.Close(probe)
	limit := syscall.Rlimit{Cur: uint64(probe) + 3, Max: uint64(probe) + 100}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	turnUntil := func(done func() bool) error {
		for end := clock.Now().Add(patience); !done(); {
			if _, err := l.turn(); err != nil {
				return err
			}
			if clock.Now().After(end) {
				return fmt.Errorf("nothing came; %+v", l.Stats())
			}
		}
		return nil
	}
	if err := turnUntil(func() bool { return l.Stats().Descriptors > 2 }); err != nil {
		return err
	}
	st := l.Stats()
	if len(ids) != 3 {
		return fmt.Errorf("%d accepted with three descriptors left", len(ids))
	}
	// Three attempts, and a sleep before each but the first: no busy loop.
	if st.Turns > 10 || st.Sleeps < 2 {
		return fmt.Errorf("%d turns, %d sleeps for %d attempts", st.Turns, st.Sleeps, st.Descriptors)
	}
	if _, err := l.Connect(&ConnectOptions{Remote: addr}); !errors.Is(err, syscall.EMFILE) {
		return fmt.Errorf("Connect: %v, want EMFILE", err)
	}
	// Closed connections make room, and the next attempt finds it.
	for _, id := range ids {
		l.Close(id)
	}
	if err := turnUntil(func() bool { return len(ids) == 6 }); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if err := turnUntil(func() bool { return len(ids) == clients }); err != nil {
		return err
	}
	if d := l.patience(); d >= 0 {
		return fmt.Errorf("the accept timer is still running: %v", d)
	}
	l.Stop()
	return l.Run()
}

func TestRunningOutOfDescriptorsIsCountedAndPasses(t *testing.T) {
	onEach(t, testRunningOutOfDescriptorsIsCountedAndPasses)
}

func testRunningOutOfDescriptorsIsCountedAndPasses(t *testing.T, o Options) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"="+o.Backend)
	watch := time.AfterFunc(2*patience, func() { cmd.Process.Signal(unix.SIGKILL) })
	defer watch.Stop()
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
