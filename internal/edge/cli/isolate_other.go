//go:build !linux

package cli

import "tidemark.dev/internal/ground/fault"

func (t *tool) isolate(string) (inside bool, err error) {
	return false, fault.New(fault.Config, "--congestion needs Linux")
}
