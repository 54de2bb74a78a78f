//go:build !linux

package run

import "runtime"

func availableCPUs() []int {
	out := make([]int, runtime.NumCPU())
	for i := range out {
		out[i] = i
	}
	return out
}

func descriptorLimit() uint64 { return 1024 }
