package target

import (
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/fault"
)

// Namespace puts the program path in the place of this process, in a network namespace of its own; it returns only if
// that fails. In the namespace the congestion control can be set for server and drivers alike without touching the
// host, and no connection of an earlier run is left in TIME_WAIT. The program has to call [EnterNamespace] first.
// Needs root. Number, terminal and signals of the process stay what they are.
func Namespace(path string, args, env []string) error {
	runtime.LockOSThread() // the thread's namespace becomes the new program's
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fault.Wrap(fault.Config, err, "network namespace")
	}
	return fault.Wrap(fault.Config, syscall.Exec(path, append([]string{path}, args...), env), "network namespace")
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
