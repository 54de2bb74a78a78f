package slot

import (
	"errors"
	"fmt"

	"tidemark.dev/internal/drive/slot/exchange"
	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/model/conform"
)

// classOf classifies an error of the loop.
func classOf(err error) exchange.Class {
	if errors.Is(err, loop.ErrFull) {
		return exchange.Descriptors
	}
	return exchange.ClassOf(err)
}

// tripwire counts failures by class and keeps the text of the first of each.
type tripwire struct {
	count   [exchange.Classes]uint64
	example [exchange.Classes]string
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
			m[exchange.Class(f).String()] = conform.ErrorCount{Count: n, Origin: exchange.Class(f).Origin(), Example: t.example[f]}
		}
	}
	return m
}

// driver returns the counts of our own failures.
func (t *tripwire) driver() map[string]uint64 {
	var m map[string]uint64
	for f, n := range t.count {
		if n > 0 && exchange.Class(f).Ours() {
			if m == nil {
				m = map[string]uint64{}
			}
			m[exchange.Class(f).String()] = n
		}
	}
	return m
}

// trip notes one failure. It allocates only for the first of its class.
func (w *worker) trip(t *tripwire, s *slot, f exchange.Class, detail string) {
	if t.count[f]++; t.count[f] > 1 {
		return
	}
	at := "connect"
	if s.state != connecting {
		at = string(s.op.File.AppendPath(append([]byte(s.op.Kind.String()), ' ')))
	}
	from := "any address"
	if s.from.Port != 0 {
		from = w.ports.Address(s.from).String()
	}
	text := fmt.Sprintf("%s at %s from %s, %d bytes into the response", at, w.remote(s), from, s.wire)
	if detail != "" {
		text += ": " + detail
	}
	t.example[f] = text
}
