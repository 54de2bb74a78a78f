//go:build linux

package loop

func child() bool { return false }
