package exchange

import (
	"errors"
	"syscall"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/conform"
)

// Class is a class of failed operations, dense from 0 so that counts stand in an array.
type Class uint8

const (
	None Class = iota
	Refused
	Reset
	Closed
	Timeout
	Network
	Malformed
	Status
	Length
	Bytes
	Wrapper
	Cookie
	Ad
	Table
	Descriptors
	Ports
	Memory
	Unknown // counts as ours
	Classes // number of classes
)

// names gives the name of each class in results.
var names = [Classes]string{
	Refused: conform.ClassRefused, Reset: conform.ClassReset, Closed: conform.ClassClosed,
	Timeout: conform.ClassTimeout, Network: conform.ClassNetwork, Malformed: conform.ClassMalformed,
	Status: conform.ClassStatus, Length: conform.ClassLength, Bytes: conform.ClassBytes,
	Wrapper: conform.ClassWrapper, Cookie: conform.ClassCookie, Ad: conform.ClassAd,
	Table: conform.ClassTable, Descriptors: conform.ClassFiles, Ports: conform.ClassPorts,
	Memory: conform.ClassMemory, Unknown: "unclassified",
}

// String returns the name in results, "" for None.
func (f Class) String() string { return names[f] }

// Origin returns whose fault f is.
func (f Class) Origin() fault.Origin {
	switch f {
	case None, Unknown:
		return fault.Unknown
	case Network:
		return fault.Network
	case Descriptors, Ports, Memory:
		return fault.Driver
	}
	return fault.Target
}

// Ours reports whether f is the driver's own failure.
func (f Class) Ours() bool { o := f.Origin(); return o == fault.Driver || o == fault.Unknown }

// ClassOf classifies an error of the kernel; everything that is none is Unknown.
func ClassOf(err error) Class {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return Unknown
	}
	switch e {
	case syscall.ECONNREFUSED:
		return Refused
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return Reset
	case syscall.ETIMEDOUT:
		return Timeout
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN, syscall.ENETRESET:
		return Network
	case syscall.EMFILE, syscall.ENFILE:
		return Descriptors
	case syscall.EADDRNOTAVAIL, syscall.EADDRINUSE:
		return Ports
	case syscall.ENOMEM, syscall.ENOBUFS:
		return Memory
	}
	return Unknown
}
