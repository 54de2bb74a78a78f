package slot

import (
	"errors"
	"fmt"
	"syscall"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/conform"
)

// failure is a class of failed operations, an index into per-loop arrays.
type failure uint8

const (
	noFailure failure = iota
	failRefused
	failReset
	failClosed
	failTimeout
	failNetwork
	failMalformed
	failStatus
	failLength
	failBytes
	failWrapper
	failCookie
	failAd
	failTable
	failDescriptors
	failPorts
	failMemory
	failUnknown // counts as ours
	failures    // number of classes
)

// classes gives the name of each failure in results.
var classes = [failures]string{
	failRefused: conform.ClassRefused, failReset: conform.ClassReset, failClosed: conform.ClassClosed,
	failTimeout: conform.ClassTimeout, failNetwork: conform.ClassNetwork, failMalformed: conform.ClassMalformed,
	failStatus: conform.ClassStatus, failLength: conform.ClassLength, failBytes: conform.ClassBytes,
	failWrapper: conform.ClassWrapper, failCookie: conform.ClassCookie, failAd: conform.ClassAd,
	failTable: conform.ClassTable, failDescriptors: conform.ClassFiles, failPorts: conform.ClassPorts,
	failMemory: conform.ClassMemory, failUnknown: "unclassified",
}

// origin returns whose fault f is.
func (f failure) origin() fault.Origin {
	switch f {
	case noFailure, failUnknown:
		return fault.Unknown
	case failNetwork:
		return fault.Network
	case failDescriptors, failPorts, failMemory:
		return fault.Driver
	}
	return fault.Target
}

// ours reports whether f is the driver's own failure.
func (f failure) ours() bool { o := f.origin(); return o == fault.Driver || o == fault.Unknown }

// failureOf classifies an error of the loop or the kernel.
func failureOf(err error) failure {
	if errors.Is(err, loop.ErrFull) {
		return failDescriptors
	}
	var e syscall.Errno
	if !errors.As(err, &e) {
		return failUnknown
	}
	switch e {
	case syscall.ECONNREFUSED:
		return failRefused
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return failReset
	case syscall.ETIMEDOUT:
		return failTimeout
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.ENETDOWN, syscall.EHOSTDOWN, syscall.ENETRESET:
		return failNetwork
	case syscall.EMFILE, syscall.ENFILE:
		return failDescriptors
	case syscall.EADDRNOTAVAIL, syscall.EADDRINUSE:
		return failPorts
	case syscall.ENOMEM, syscall.ENOBUFS:
		return failMemory
	}
	return failUnknown
}

// tripwire counts failures by class and keeps the text of the first of each.
type tripwire struct {
	count   [failures]uint64
	example [failures]string
}

func (t *tripwire) add(o *tripwire) {
	for f := range t.count {
		t.count[f] += o.count[f]
		if t.example[f] == "" {
			t.example[f] = o.example[f]
		}
	}
}

// errors returns the counts in the form of results.
func (t *tripwire) errors() map[string]conform.ErrorCount {
	m := map[string]conform.ErrorCount{}
	for f, n := range t.count {
		if n > 0 {
			m[classes[f]] = conform.ErrorCount{Count: n, Origin: failure(f).origin(), Example: t.example[f]}
		}
	}
	return m
}

// driver returns the counts of our own failures.
func (t *tripwire) driver() map[string]uint64 {
	var m map[string]uint64
	for f, n := range t.count {
		if n > 0 && failure(f).ours() {
			if m == nil {
				m = map[string]uint64{}
			}
			m[classes[f]] = n
		}
	}
	return m
}

// trip notes one failure. It allocates only for the first of its class.
func (w *worker) trip(t *tripwire, s *slot, f failure, detail string) {
	if t.count[f]++; t.count[f] > 1 {
		return
	}
	at := "connect"
	if s.state != connecting {
		at = string(s.op.File.AppendPath(append([]byte(s.op.Kind.String()), ' ')))
	}
	from := "any address"
	if s.from.port != 0 {
		from = w.ports.address(s.from).String()
	}
	text := fmt.Sprintf("%s at %s from %s, %d bytes into the response", at, w.remote(s), from, s.wire)
	if detail != "" {
		text += ": " + detail
	}
	t.example[f] = text
}
