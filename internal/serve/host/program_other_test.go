//go:build !linux

package host

func asProgram() {}
