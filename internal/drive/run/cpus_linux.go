package run

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// availableCPUs lists the CPUs this process may run on.
func availableCPUs() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return []int{0}
	}
	var out []int
	for c := 0; len(out) < set.Count(); c++ {
		if set.IsSet(c) {
			out = append(out, c)
		}
	}
	return out
}

// descriptorLimit is the hard limit of open descriptors of a process here.
func descriptorLimit() uint64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 1024
	}
	return r.Max
}
