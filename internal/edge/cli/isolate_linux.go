package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/fault"
)

// insideKey marks the process that runs inside a namespace of its own.
const insideKey = "TIDEMARK_INSIDE_NAMESPACE"

// isolate runs this very command again in a network namespace of its own, where the congestion control can be set
// for server and drivers alike without touching the host, and where no connection of an earlier run is left in
// TIME_WAIT. inside tells the process that is already there to go on; otherwise err is the whole outcome.
func (t *tool) isolate(congestion string) (inside bool, err error) {
	if t.Getenv(insideKey) != "" {
		return true, enter(congestion)
	}
	cmd := exec.Command(t.Self, t.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.Stdin, t.Stdout, t.Stderr
	cmd.Env = append(cmd.Environ(), insideKey+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	err = cmd.Run()
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended):
		return false, exit{max(ended.ExitCode(), exitUsage)}
	case err != nil:
		return false, fault.Hint(fault.Wrap(fault.Config, err, "network namespace"), "--congestion needs root")
	}
	return false, nil
}

// enter brings the namespace's loopback up and sets its congestion control.
func enter(congestion string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fault.Wrap(fault.Config, err, "network namespace")
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fault.Wrap(fault.Config, err, "loopback")
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fault.Wrap(fault.Config, err, "loopback up")
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/tcp_congestion_control", []byte(congestion), 0o644); err != nil {
		known, readErr := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
		if readErr != nil {
			return fault.Wrap(fault.Config, err, "congestion control "+congestion)
		}
		return fault.Hint(fault.New(fault.Config, "congestion control %q: %v", congestion, err), fmt.Sprintf("this kernel has: %s", known))
	}
	return nil
}
