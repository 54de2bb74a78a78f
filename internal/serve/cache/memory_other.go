//go:build !linux

package cache

func mapMemory(n int) ([]byte, error) { return make([]byte, n), nil }

func unmapMemory([]byte) {}

func mapRegion() ([]byte, error) { return make([]byte, regionSize), nil }

func unmapRegion([]byte) {}
