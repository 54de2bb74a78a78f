//go:build !linux

package kit

func descriptorLimit() uint64 { return 1024 }
