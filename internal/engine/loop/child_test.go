//go:build linux

package loop

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/clock"
)

const childVar = "LOOP_TEST_CHILD"

// child runs in a re-executed test binary instead of the tests: limits belong to the
// process. It prints what it saw.
func child() bool {
	if os.Getenv(childVar) == "" {
		return false
	}
	if err := starve(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ok")
	return true
}

// starve runs a loop out of descriptors and back.
func starve() error {
	s := &script{}
	l, err := New(Options{CPU: -1}, s)
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
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"=1")
	watch := time.AfterFunc(2*patience, func() { cmd.Process.Signal(unix.SIGKILL) })
	defer watch.Stop()
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
