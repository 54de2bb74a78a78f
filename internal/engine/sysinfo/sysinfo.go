// Package sysinfo reads the facts of a host that a disclosure needs.
package sysinfo
