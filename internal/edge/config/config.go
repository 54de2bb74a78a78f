// Package config reads the server's configuration file and composes the options of its parts from it.
//
// Call [Parse] for a text and [File.Server] or [File.Responder] for what it describes. Every mistake comes back at
// once, each with file, line and column; nothing is corrected silently. docs/formats/server.md lists the keys.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/fault"
)

// File is the configuration file as written. Durations are Go's ("10s"), sizes take KiB, MiB and GiB.
type File struct {
	// Listen holds the addresses of the web server, "127.0.0.1:8080". Default "127.0.0.1:8080".
	Listen []string `toml:"listen"`
	// FastCGI makes a FastCGI responder of the pages instead: "unix:/path" or "tcp:127.0.0.1:9000".
	FastCGI string `toml:"fastcgi"`
	// Root is the document root; relative to the file's own directory.
	Root string `toml:"root"`
	// CPUs names the CPU of each loop; -1 for one that is not pinned. Default: a loop for each CPU.
	CPUs []int `toml:"cpus"`
	// Backend of the loops: auto, epoll, io_uring. Default auto: io_uring where the kernel allows it.
	Backend string `toml:"backend"`
	// Backlog is the queue of connections not yet accepted. Default 4096.
	Backlog int `toml:"backlog"`
	// SendBuffer and ReceiveBuffer are the sockets' buffers; the kernel tunes them if they are not set, and cuts them
	// at net.core.wmem_max and rmem_max.
	SendBuffer    Size `toml:"send_buffer"`
	ReceiveBuffer Size `toml:"receive_buffer"`
	// Connections bounds the open connections. Default: what the descriptor limit allows.
	Connections int `toml:"connections"`
	// Software is the Server header field and what pages call the server.
	Software string `toml:"software"`
	// Index names the files looked for in a directory.
	Index []string `toml:"index"`
	// Hidden serves names that begin with a dot.
	Hidden bool `toml:"hidden"`
	// Types maps extensions to content types.
	Types map[string]string `toml:"types"`

	Cache     Cache     `toml:"cache"`
	KeepAlive KeepAlive `toml:"keepalive"`
	Timeout   Timeout   `toml:"timeout"`
	Log       Log       `toml:"log"`
	CGI       CGI       `toml:"cgi"`
	Page      []Page    `toml:"page"`

	dir  string // of the file
	name string
}

// Cache of file contents.
type Cache struct {
	Bytes    Size     `toml:"bytes"`     // memory for contents; default a quarter of what the process may use, at most 1 GiB
	FileMax  Size     `toml:"file_max"`  // largest file kept in memory; default 128KiB
	Sendfile Size     `toml:"sendfile"`  // files from this size on go by sendfile; default 40KiB
	Valid    Duration `toml:"valid"`     // how long metadata is trusted; default 1s
	Cooling  Duration `toml:"cooling"`   // how long a file must be unchanged to be cached; default 0s
	Files    int      `toml:"max_files"` // kept descriptors; default a quarter of the limit
}

// KeepAlive of connections.
type KeepAlive struct {
	On       *bool    `toml:"on"`       // default true
	Timeout  Duration `toml:"timeout"`  // default 75s
	Requests int      `toml:"requests"` // requests of one connection; default no bound
}

// Timeout bounds waiting.
type Timeout struct {
	Header Duration `toml:"header"` // default 10s
	Body   Duration `toml:"body"`   // default 20s
	Write  Duration `toml:"write"`  // default 60s
}

// Log of requests.
type Log struct {
	// Access is the binary access log, "off" for none. Default access.tml beside the file.
	Access string `toml:"access"`
}

// CGI programs.
type CGI struct {
	Program string   `toml:"program"` // default: this executable
	Timeout Duration `toml:"timeout"` // default 30s
	Env     []string `toml:"env"`     // "NAME=value" each
}

// Page binds a path to a dynamic page.
type Page struct {
	Path     string            `toml:"path"`
	Use      string            `toml:"use"` // name of a page, or "cgi"
	Dir      string            `toml:"dir"` // directory of its data; default the root
	Settings map[string]string `toml:"settings"`
}

// Size is a number of bytes with an optional unit: 4096, "40KiB", "1MiB", "2GiB".
type Size int64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(b []byte) error {
	n, err := ParseSize(string(b))
	*s = Size(n)
	return err
}

// ParseSize reads a number of bytes with an optional unit (KiB, MiB, GiB, or kB, MB, GB of 1000).
func ParseSize(text string) (int64, error) {
	unit := int64(1)
	digits := strings.TrimSpace(text)
	for _, u := range []struct {
		name string
		n    int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}} {
		if rest, ok := strings.CutSuffix(digits, u.name); ok {
			digits, unit = strings.TrimSpace(rest), u.n
			break
		}
	}
	var n int64
	if _, err := fmt.Sscanf(digits+"\n", "%d\n", &n); err != nil || n < 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("%q is no size (4096, 40KiB, 1GiB)", text)
	}
	return n * unit, nil
}

// Duration is a time span, "10s".
type Duration time.Duration

// UnmarshalText reads a duration.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil || v < 0 {
		return fmt.Errorf("%q is no duration (500ms, 10s, 5m)", b)
	}
	*d = Duration(v)
	return nil
}

// Parse reads a configuration file. name is used in messages, and its directory for relative paths.
func Parse(name string, src []byte) (*File, error) {
	f := &File{name: name, dir: filepath.Dir(name)}
	d := toml.NewDecoder(bytes.NewReader(src)).DisallowUnknownFields()
	if err := d.Decode(f); err != nil {
		return nil, f.problems(err)
	}
	if ps := f.check(src); len(ps) > 0 {
		return nil, ps
	}
	return f, nil
}

// problems turns the decoder's errors into positions.
func (f *File) problems(err error) error {
	var strict *toml.StrictMissingError
	if errors.As(err, &strict) {
		var ps fault.Problems
		for i := range strict.Errors {
			e := &strict.Errors[i]
			row, col := e.Position()
			ps = append(ps, fault.Problem{File: f.name, Line: row, Column: col, Field: strings.Join(e.Key(), "."), Text: "no such key"})
		}
		return ps
	}
	var e *toml.DecodeError
	if errors.As(err, &e) {
		row, col := e.Position()
		return fault.Problems{{File: f.name, Line: row, Column: col, Field: strings.Join(e.Key(), "."), Text: strings.TrimPrefix(e.Error(), "toml: ")}}
	}
	return fault.Wrap(fault.Config, err, f.name)
}

// check looks at values; it changes nothing.
func (f *File) check(src []byte) fault.Problems {
	var ps fault.Problems
	nth := 1 // which of several tables of one name a field is in
	bad := func(field, format string, a ...any) {
		line, col := locate(src, field, nth)
		ps = append(ps, fault.Problem{File: f.name, Line: line, Column: col, Field: field, Text: fmt.Sprintf(format, a...)})
	}
	if f.FastCGI != "" && len(f.Listen) > 0 {
		bad("fastcgi", "a responder does not listen for HTTP as well: use fastcgi or listen")
	}
	if f.FastCGI != "" {
		if network, address, ok := strings.Cut(f.FastCGI, ":"); !ok || address == "" || network != "unix" && network != "tcp" {
			bad("fastcgi", "%q is not unix:PATH or tcp:HOST:PORT", f.FastCGI)
		}
	}
	for _, l := range f.Listen {
		if _, err := ParseListen(l); err != nil {
			bad("listen", "%v", err)
		}
	}
	if f.Backend != "" && !slices.Contains(loop.Backends(), f.Backend) {
		bad("backend", "%q is none of %s", f.Backend, strings.Join(loop.Backends(), ", "))
	}
	for _, e := range f.CGI.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" || strings.ContainsRune(e, 0) {
			bad("cgi.env", "%q is not NAME=value", e)
		}
	}
	for _, c := range f.CPUs {
		if c < -1 {
			bad("cpus", "%d is no CPU (-1: not pinned)", c)
		}
	}
	for _, n := range []struct {
		field string
		value int
	}{{"backlog", f.Backlog}, {"connections", f.Connections}, {"keepalive.requests", f.KeepAlive.Requests}, {"cache.max_files", f.Cache.Files}} {
		if n.value < 0 {
			bad(n.field, "%d is negative", n.value)
		}
	}
	seen := map[string]bool{}
	for i, p := range f.Page {
		nth = i + 1
		switch {
		case !strings.HasPrefix(p.Path, "/"):
			bad("page.path", "%q does not begin with /", p.Path)
		case seen[p.Path]:
			bad("page.path", "%q is bound twice", p.Path)
		}
		if p.Use != "cgi" && pageNamed(p.Use) == nil {
			bad("page.use", "no page is called %q (there are: %s, cgi)", p.Use, strings.Join(PageNames(), ", "))
		}
		seen[p.Path] = true
	}
	sort.SliceStable(ps, func(i, j int) bool { return ps[i].Line < ps[j].Line })
	return ps
}

// locate finds a key for a message about its value: its last part in the nth table that the rest of it names. A key
// that is not written out gives the place of its table, or of the file.
func locate(src []byte, field string, nth int) (line, column int) {
	table, key := "", field
	if i := strings.LastIndexByte(field, '.'); i >= 0 {
		table, key = field[:i], field[i+1:]
	}
	line, column = 1, 1
	current, seen := "", 0
	for i, l := range strings.Split(string(src), "\n") {
		t := strings.TrimSpace(l)
		if strings.HasPrefix(t, "[") {
			if current = strings.Trim(t, "[] "); current == table {
				seen++
				if seen == nth {
					line, column = i+1, strings.Index(l, "[")+1
				}
			}
			continue
		}
		name, _, ok := strings.Cut(t, "=")
		if ok && current == table && (table == "" || seen == nth) && strings.TrimSpace(name) == key {
			return i + 1, strings.Index(l, key) + 1
		}
	}
	return line, column
}

// ParseListen reads an address to listen on: "127.0.0.1:8080", "[::1]:8080", ":8080" for every address.
func ParseListen(s string) (netip.AddrPort, error) {
	if strings.HasPrefix(s, ":") {
		s = "[::]" + s
	}
	a, err := netip.ParseAddrPort(s)
	if err == nil {
		return a, nil
	}
	if host, port, splitErr := net.SplitHostPort(s); splitErr == nil && host == "localhost" {
		return netip.ParseAddrPort("127.0.0.1:" + port)
	}
	return a, fmt.Errorf("%q is no address to listen on (127.0.0.1:8080, [::1]:8080, :8080)", s)
}
