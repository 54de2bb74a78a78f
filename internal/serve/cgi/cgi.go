// Package cgi runs CGI programs for a server: one process per request, RFC 3875.
//
// A Gateway is a page.Page, so it is routed like any other: make it with New, hand it to a carrier. All
// its requests are detached.
//
// The program gets a clean environment, an empty or whole standard input, and a process group of its
// own. When it ends, or its time is up, or nobody waits for the answer, the whole group is killed before
// the process is reaped, so that nothing it started stays behind; only a process that left the group by
// setsid can. What the program wrote counts only if it wrote a correct header, kept the limits, and
// exited with status 0: half an answer is a 502, not a 200.
//
// A process with many descriptors starts programs dearly: the kernel copies the table and closes what was
// copied. So a server with many connections has a [Spawner], a process of its own with few, in which
// [Spawn] starts, kills and reaps the programs. Without one, and while it is lost, a Gateway starts them
// itself. The rules above hold both ways.
//
// The package does not stream (the answer's length is known when the page is done), does not turn a
// query into program arguments (the cause of CVE-2012-1823), and does not follow local redirects: the
// client gets them as a 302.
package cgi

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"tidemark.dev/page"
)

// Options of a Gateway.
type Options struct {
	// Program is the absolute path of the program; Args are its arguments.
	Program string
	Args    []string
	// Dir is the working directory; empty means the program's own.
	Dir string
	// Env holds variables as "NAME=value", such as DOCUMENT_ROOT. Nothing is inherited from the server;
	// PATH has a default. Where the request sets a variable of the same name, the request wins.
	Env []string
	// Stderr gets what programs write to their standard error; nil discards it.
	Stderr *os.File
	// Timeout limits one request, waiting for a place included; 0 means 30 s.
	Timeout time.Duration
	// MaxOutput limits the body a program may write, in bytes; 0 means 16 MiB.
	MaxOutput int64
	// MaxProcesses limits the processes that run at once; 0 means 64. More requests wait.
	MaxProcesses int
	// Spawner starts the programs; nil: this process does. It must be closed after the Gateway.
	Spawner *Spawner
}

// SpawnerOptions of a Spawner.
type SpawnerOptions struct {
	// Command is what to run: the path of an executable and arguments that make it call [Spawn] with
	// descriptor 3. It should catch interrupts from a terminal, which reach it as well, and do nothing.
	Command []string
	// Stderr gets its last words, should it crash; nil discards them.
	Stderr *os.File
	// Lost is told when the process has ended, or did not start, and programs are started directly until
	// there is another one; nothing more until then. It must not call the Spawner. nil: nobody is told.
	Lost func(error)
}

const (
	defaultTimeout   = 30 * time.Second
	defaultOutput    = 16 << 20
	defaultProcesses = 64
	defaultPath      = "PATH=/usr/local/bin:/usr/bin:/bin"
)

// Check reports what is wrong with o.
func (o *Options) Check() error {
	switch {
	case o.Program == "":
		return errors.New("cgi: no program")
	case !filepath.IsAbs(o.Program):
		return errors.New("cgi: program " + o.Program + " is not an absolute path")
	case o.Timeout < 0 || o.MaxOutput < 0 || o.MaxProcesses < 0:
		return errors.New("cgi: negative limit for " + o.Program)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Dir == "" {
		o.Dir = filepath.Dir(o.Program)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxOutput == 0 {
		o.MaxOutput = defaultOutput
	}
	if o.MaxProcesses == 0 {
		o.MaxProcesses = defaultProcesses
	}
	return o
}

// Detached implements page.Detacher.
func (g *Gateway) Detached(*page.Request) bool { return true }

// Counts says how the requests of a Gateway ended.
type Counts struct {
	Served  int64 // answered as the program wanted
	Failed  int64 // 502: bad header, too much output, non-zero exit, no start
	Expired int64 // 504: out of time while running
	Refused int64 // 503: no place in time, or closing; 400: not fit for an environment
}

// refuse answers for the gateway itself.
func refuse(rs *page.Response, status int, why string) {
	rs.Clear()
	rs.Status(status)
	rs.Type("text/plain; charset=utf-8")
	rs.Append(why).Append("\n")
}
