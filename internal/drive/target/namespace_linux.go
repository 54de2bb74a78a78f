package target

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/fault"
)

// Namespace runs cmd in a network namespace of its own and returns its exit code. There the congestion control can
// be set for server and drivers alike without touching the host, and no connection of an earlier run is left in
// TIME_WAIT. The process inside has to call [EnterNamespace] first. Needs root.
func Namespace(cmd *exec.Cmd) (code int, err error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	err = cmd.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode(), nil
	}
	return 0, fault.Wrap(fault.Config, err, "network namespace")
}

// EnterNamespace brings the new namespace's loopback up and sets its congestion control.
func EnterNamespace(congestion string) error {
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
		return fault.Hint(fault.New(fault.Config, "congestion control %q: %v", congestion, err), "this kernel has: "+strings.TrimSpace(string(known)))
	}
	return nil
}
