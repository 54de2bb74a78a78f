// Package peers starts the servers that are measured side by side, each alone on one
// core and configured as its experts would: the configurations lie beside this file.
//
// Fill a [Place] and call [Place.Start] with one of [Names]. The package measures
// nothing and installs nothing; a server that is not there is [ErrMissing].
package peers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"tidemark.dev/internal/drive/kit"
	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/ground/fault"
)

// ErrMissing says that a server is not installed on this machine.
var ErrMissing = errors.New("not installed")

// Place is where peers run.
type Place struct {
	Source string // directory of the configurations
	Work   string // directory for what they write; one directory below it for each peer
	Root   string // document root, absolute
	Dirs   int    // directories of the file set in it
	CPU    int    // the core they run on

	Connections int // they must hold, 0 for 8192

	Built  map[string]string // paths of programs built for this run: tidemark, tidemark-cgi, caddy, limit-epoll, limit-uring
	Keeper *target.Keeper
}

// Peer is a running server.
type Peer struct {
	Name    string
	Version string // as it says itself; empty for our own
	Address netip.AddrPort
	Files   []kit.File // effective configuration
	*target.Target
}

// values is what the configurations see, and the arguments.
type values struct {
	Place
	Dir     string // of this peer's own files
	Config  string // path of the effective configuration
	Port    uint16
	Origin  uint16 // port of the server behind, for one that has such
	Backend string
	Modules string // of Apache
	Super   bool   // running as root
}

// descriptors is the limit of one process; OpenFiles is what connections leave of it.
const descriptors = 20_000

// OpenFiles is how many open files a cache may keep.
func (v values) OpenFiles() int { return max(1000, descriptors-v.Connections-500) }

// Descriptors is the limit of one process.
func (v values) Descriptors() int { return descriptors }

// kind is how one server is started.
type kind struct {
	program string   // name, looked for in Place.Built first
	version []string // arguments that make it say its version
	config  string   // file beside this one
	args    []string // templates
	origin  string   // peer behind it
	backend string
}

func kinds() map[string]kind {
	tidemark := func(backend string) kind {
		return kind{program: "tidemark", config: "tidemark.toml", args: []string{"serve", "--quiet", "-c", "{{.Config}}"}, backend: backend}
	}
	limit := []string{"{{.Port}}", "{{.Root}}", "{{.Dirs}}"}
	return map[string]kind{
		"tidemark":          tidemark("auto"),
		"tidemark epoll":    tidemark("epoll"),
		"tidemark io_uring": tidemark("io_uring"),
		"C epoll":           {program: "limit-epoll", args: limit},
		"C io_uring":        {program: "limit-uring", args: limit},
		"C io_uring polled": {program: "limit-uring", args: append([]string{"-c", "cubic", "-n", "100"}, limit...)}, // see bench/README.md, "At line speed"
		"nginx":             {program: "nginx", version: []string{"-v"}, config: "nginx.conf", args: []string{"-p", "{{.Dir}}/", "-e", "{{.Dir}}/error.log", "-c", "{{.Config}}"}},
		"lighttpd":          {program: "lighttpd", version: []string{"-v"}, config: "lighttpd.conf", args: []string{"-D", "-f", "{{.Config}}"}},
		"h2o":               {program: "h2o", version: []string{"-v"}, config: "h2o.conf", args: []string{"-m", "worker", "-c", "{{.Config}}"}},
		"Apache":            {program: "apache2", version: []string{"-v"}, config: "apache.conf", args: []string{"-DFOREGROUND", "-f", "{{.Config}}"}},
		"HAProxy":           {program: "haproxy", version: []string{"-v"}, config: "haproxy.cfg", args: []string{"-db", "-f", "{{.Config}}"}, origin: "nginx"},
		"Caddy":             {program: "caddy", version: []string{"build-info"}, config: "Caddyfile", args: []string{"run", "--adapter", "caddyfile", "--config", "{{.Config}}"}},
	}
}

// kits are whole servers with the dynamic pages, by the kit that configures them.
func kits() map[string]string {
	return map[string]string{"tidemark pages": "tidemark", "nginx FastCGI": "nginx"}
}

// Start starts the named peer and waits until it accepts connections.
func (p Place) Start(ctx context.Context, name string) (*Peer, error) {
	peer, commands, err := p.prepare(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	peer.Target, err = target.Start(ctx, p.Keeper, commands)
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", name, err, hints(err))
	}
	return peer, nil
}

// prepare writes the configuration of a peer and returns it, not yet running, with
// the commands that run it: those of a server behind it first.
func (p Place) prepare(ctx context.Context, name string) (*Peer, []target.Command, error) {
	p.Connections = cmp.Or(p.Connections, 8192)
	dir := filepath.Join(p.Work, strings.ReplaceAll(strings.ToLower(name), " ", "-"))
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, nil, err
	}
	if k, ok := kits()[name]; ok {
		return p.kit(ctx, name, k, dir)
	}
	k, ok := kinds()[name]
	if !ok {
		return nil, nil, errors.New("no server is called that")
	}
	program, err := p.find(k.program)
	if err != nil {
		return nil, nil, err
	}
	peer := &Peer{Name: name}
	v := values{Place: p, Dir: dir, Backend: k.backend, Modules: "/usr/lib/apache2/modules", Super: os.Geteuid() == 0}
	if len(k.version) > 0 {
		out, err := exec.CommandContext(ctx, program, k.version...).CombinedOutput()
		if err != nil {
			return nil, nil, fmt.Errorf("%s %s: %w", program, k.version[0], err)
		}
		peer.Version = versionIn(string(out))
	}
	var commands []target.Command
	if k.origin != "" {
		own := p
		own.Work = dir
		behind, first, err := own.prepare(ctx, k.origin)
		if err != nil {
			return nil, nil, err
		}
		commands, v.Origin = first, behind.Address.Port()
		peer.Files = behind.Files
	}
	if peer.Address, err = free(); err != nil {
		return nil, nil, err
	}
	v.Port = peer.Address.Port()
	if k.config != "" {
		source, err := os.ReadFile(filepath.Join(p.Source, k.config))
		if err != nil {
			return nil, nil, err
		}
		v.Config = filepath.Join(dir, k.config)
		text, err := v.fill(string(source))
		if err == nil {
			err = os.WriteFile(v.Config, []byte(text), 0o644)
		}
		if err != nil {
			return nil, nil, err
		}
		peer.Files = append(peer.Files, kit.File{Name: k.config, Text: text})
	}
	c := target.Command{
		Name: name, Path: program, CPUs: []int{p.CPU}, Log: filepath.Join(dir, "output.log"),
		Ready: &target.Ready{Network: "tcp", Address: peer.Address.String()},
	}
	for _, a := range k.args {
		text, err := v.fill(a)
		if err != nil {
			return nil, nil, err
		}
		c.Args = append(c.Args, text)
	}
	return peer, append(commands, c), nil
}

// kit prepares a whole server with its dynamic pages.
func (p Place) kit(ctx context.Context, name, kitName, dir string) (*Peer, []target.Command, error) {
	k, err := kit.Write(ctx, kitName, kit.Spec{
		Root: p.Root, Dir: dir, CPUs: []int{p.CPU}, Connections: p.Connections, Self: p.Built["tidemark"], CGI: p.Built["tidemark-cgi"],
	})
	if err != nil {
		return nil, nil, err
	}
	return &Peer{Name: name, Version: versionIn(k.Version), Address: k.Address, Files: k.Files}, k.Commands, nil
}

// find returns the path of a program. Debian keeps servers out of ordinary users' PATH.
func (p Place) find(program string) (string, error) {
	if path, ok := p.Built[program]; ok {
		return path, nil
	}
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// versionIn finds the version in what a server says of itself.
func versionIn(text string) string {
	if m := regexp.MustCompile(`github.com/caddyserver/caddy/v2\s+(v\S+)`).FindStringSubmatch(text); m != nil {
		return m[1]
	}
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return regexp.MustCompile(`\d+\.\d+\S*`).FindString(line)
}

func (v values) fill(text string) (string, error) {
	t, err := template.New("configuration").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, v)
	return b.String(), err
}

// free returns an address nobody listens on. Another process may take it before the
// server does; the server then fails to start, loudly.
func free() (netip.AddrPort, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, err
	}
	defer l.Close()
	return netip.ParseAddrPort(l.Addr().String())
}

// hints are the last words of a server that did not start.
func hints(err error) string {
	if h := fault.Hints(err); len(h) > 0 {
		return " (" + strings.Join(h, "; ") + ")"
	}
	return ""
}
