package kit

import "syscall"

// descriptorLimit is the hard limit of open descriptors of a process here.
func descriptorLimit() uint64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 1024
	}
	return r.Max
}
