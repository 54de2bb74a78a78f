// Package proc is the process as a value: arguments, environment, streams and
// interrupts. It is the only package besides cmd that touches the globals of
// package os, so that a whole command can be run inside a test.
package proc

import (
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Process is what a command may know of the process it runs in.
type Process struct {
	Args    []string // without the program's name
	Environ func(key string) (value string, set bool)
	// Environment is the whole of it, "NAME=value", for a CGI request.
	Environment func() []string
	Stdin       io.Reader
	Stdout      io.Writer
	Stderr      io.Writer
	// Terminal tells that Stderr is a terminal, so a live display makes sense.
	Terminal bool
	// Self is the path of the running executable, for processes that this one
	// starts; empty when unknown.
	Self string
	// Interrupts yields one value per Ctrl-C or termination signal.
	Interrupts <-chan os.Signal
	// Exit ends the process at once; only the second interrupt uses it.
	Exit func(code int)
}

// Real is the process itself. release undoes the signal handling.
func Real() (p *Process, release func()) {
	interrupts := make(chan os.Signal, 4)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	self, err := os.Executable()
	if err != nil {
		self = ""
	}
	return &Process{
		Args: os.Args[1:], Environ: os.LookupEnv, Environment: os.Environ, Exit: os.Exit,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Terminal: isTerminal(os.Stderr), Self: self, Interrupts: interrupts,
	}, sync.OnceFunc(func() { signal.Stop(interrupts) })
}

// Getenv returns the value of key, or "" when it is not set.
func (p *Process) Getenv(key string) string {
	v, _ := p.Environ(key)
	return v
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0 && isTTY(f.Fd())
}
