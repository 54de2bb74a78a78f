// Package fault gives errors an origin, hints and positions.
//
// A measurement must know whose failure it saw: the target's, the network's,
// our own driver's, or that of whoever wrote the configuration. Start with
// [New] where an error is born and [OriginOf] where it is judged; [Problems]
// collects every mistake of a configuration file in one error.
//
// It does not log, does not choose exit codes and does not classify system
// errors by itself: the caller who made the system call knows whose it was.
package fault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Origin names the party an error is charged to.
type Origin uint8

// The origins. An error without one counts as ours, so that a forgotten
// classification voids a measurement instead of flattering it.
const (
	Unknown Origin = iota // not classified: judged like Driver
	Target                // the server under test answered wrongly, late or not at all
	Network               // the path between driver and target
	Driver                // our own process or host: descriptors, ports, memory, bugs
	Config                // a file, flag or argument given by the user
)

// String returns the lower-case word used in results and messages.
func (o Origin) String() string {
	switch o {
	case Target:
		return "target"
	case Network:
		return "network"
	case Driver:
		return "driver"
	case Config:
		return "config"
	}
	return "unknown"
}

// originer is what carries an origin in an error chain.
type originer interface{ Origin() Origin }

// fault is an error with an origin around another one.
type fault struct {
	origin Origin
	what   string // prefix; empty: the text of err alone
	err    error
}

func (f *fault) Origin() Origin { return f.origin }
func (f *fault) Unwrap() error  { return f.err }

func (f *fault) Error() string {
	if f.what == "" {
		return f.err.Error()
	}
	return f.what + ": " + f.err.Error()
}

// New returns an error of origin o. The format is that of [fmt.Errorf], %w included.
func New(o Origin, format string, a ...any) error {
	return &fault{origin: o, err: fmt.Errorf(format, a...)}
}

// Wrap returns err charged to o with the text "what: err", or just "err" when
// what is empty. Wrap of nil is nil, so a call can end in return fault.Wrap(...).
func Wrap(o Origin, err error, what string) error {
	if err == nil {
		return nil
	}
	return &fault{origin: o, what: what, err: err}
}

// OriginOf returns the first origin other than Unknown in err's tree, outermost
// first, depth first through joined errors; Unknown if there is none or err is nil.
func OriginOf(err error) Origin {
	o := Unknown
	walk(err, func(e error) bool {
		if c, ok := e.(originer); ok {
			o = c.Origin()
		}
		return o == Unknown
	})
	return o
}

// hinted is an error with advice for the person who reads it.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// Hint attaches advice to err without changing its text: what to do about it,
// as one sentence. Hint of nil is nil; an empty hint changes nothing.
func Hint(err error, hint string) error {
	if err == nil || hint == "" {
		return err
	}
	return &hinted{err: err, hint: hint}
}

// Hints returns the hints of err's tree, outermost first, each text once.
func Hints(err error) []string {
	var list []string
	walk(err, func(e error) bool {
		if h, ok := e.(*hinted); ok {
			for _, s := range list {
				if s == h.hint {
					return true
				}
			}
			list = append(list, h.hint)
		}
		return true
	})
	return list
}

// walk visits err's tree in pre-order until visit returns false.
func walk(err error, visit func(error) bool) bool {
	for err != nil {
		if !visit(err) {
			return false
		}
		switch u := err.(type) {
		case interface{ Unwrap() error }:
			err = u.Unwrap()
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				if !walk(e, visit) {
					return false
				}
			}
			return true
		default:
			return true
		}
	}
	return true
}

// Problem is one mistake at one place of a configuration.
type Problem struct {
	File   string // as the user named it; may be empty
	Line   int    // from 1; 0: unknown
	Column int    // from 1, in bytes; 0: unknown
	Field  string // dotted path of the setting; may be empty
	Text   string // what is wrong with it
}

// String returns "file:line:column: field: text" without the parts that are unknown.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		if b.Len() == 0 {
			b.WriteString("line ")
		} else {
			b.WriteByte(':')
		}
		b.WriteString(strconv.Itoa(p.Line))
		if p.Column > 0 {
			b.WriteByte(':')
			b.WriteString(strconv.Itoa(p.Column))
		}
	}
	for _, s := range [...]string{p.Field, p.Text} {
		if s == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(s)
	}
	return b.String()
}

// Problems is every mistake found, in the order found. It is an error of origin
// Config; an empty list is no error, so return it through Err.
type Problems []Problem

// Add appends a problem; the text is formatted like [fmt.Sprintf].
func (p *Problems) Add(at Problem, format string, a ...any) {
	at.Text = fmt.Sprintf(format, a...)
	*p = append(*p, at)
}

// Err returns p as an error, or nil when it is empty.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// Error returns all problems, one per line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// Origin returns Config.
func (p Problems) Origin() Origin { return Config }

// AsProblems returns the problems in err's chain, or one without a position that
// carries err's text; nil for nil.
func AsProblems(err error) Problems {
	if err == nil {
		return nil
	}
	var p Problems
	if errors.As(err, &p) {
		return p
	}
	return Problems{{Text: err.Error()}}
}
