// Package kit writes complete configurations that put a given server under
// test: its processes, its configuration files, its log. Every server is a kit,
// ours first, so a measurement has one path for all.
//
// [Write] makes the configuration of a named kit in a directory; package target
// runs it. Kits hold no secret tuning: what they write is saved with the result.
package kit

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"syscall"
	"text/template"
	"time"

	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/ground/fault"
)

// Spec is what a kit needs to know.
type Spec struct {
	Root string // document root: holds file_set/ and the tables
	Dir  string // where configuration, logs and sockets go; must exist
	Host string // address to listen on, "127.0.0.1" if empty
	CPUs []int  // CPUs of the server; also sets the number of workers
	Self string // the tidemark executable
	CGI  string // the CGI program; empty: Self does it
	// Connections the server must be able to hold.
	Connections int
	// Extra is put at the end of the server's own configuration (nginx: of its
	// server block). It exists for experiments and shows in the result.
	Extra string
}

// Kit is a written configuration, ready to run.
type Kit struct {
	Name     string
	Version  string // as the server itself says
	Address  netip.AddrPort
	Commands []target.Command
	// Effective configuration files, for the result.
	Files []File
	// Log is the access log and the function that totals it; nil Total means
	// that this kit's log cannot be compared with the drivers' count.
	Log   string
	Total func(path string) (ops, bytes int64, err error)
	// Scratch is a directory outside of Spec.Dir that is to be removed after
	// the run, empty for none.
	Scratch string
	// API, Cache and LogMode are the words of the published result pages.
	API, Cache, LogMode string
}

// File is one configuration file.
type File struct{ Name, Text string }

//go:embed *.tmpl
var templates embed.FS

// Names of the kits, in the order of the documentation.
func Names() []string { return []string{"tidemark", "nginx"} }

// Known returns an error for a name that no kit has.
func Known(name string) error {
	if slices.Contains(Names(), name) {
		return nil
	}
	return fault.New(fault.Config, "no kit is called %q (there are: %s)", name, strings.Join(Names(), ", "))
}

// Write writes the configuration of the named kit below s.Dir.
func Write(ctx context.Context, name string, s Spec) (*Kit, error) {
	if s.Host == "" {
		s.Host = "127.0.0.1"
	}
	if err := Known(name); err != nil {
		return nil, err
	}
	address, err := freeAddress(s.Host)
	if err != nil {
		return nil, err
	}
	v := values{Spec: s, Address: address, Workers: max(1, len(s.CPUs))}
	if v.Connections < 1024 {
		v.Connections = 1024
	}
	// Connections that are just closing still hold a descriptor, and so do log,
	// listeners and cached files.
	v.Descriptors = descriptorLimit()
	if name == "nginx" {
		return nginx(ctx, v)
	}
	return tidemark(ctx, v)
}

// values is what the templates see.
type values struct {
	Spec
	Address     netip.AddrPort
	Workers     int
	Descriptors uint64
	User        string
	Socket      string
	Log         string
}

// Path of a file of the kit.
func (v values) Path(name string) string { return filepath.Join(v.Dir, name) }

func (v values) write(tmpl string, into string) (File, error) {
	t, err := template.New(tmpl).Funcs(template.FuncMap{"quote": quote, "word": word}).ParseFS(templates, tmpl)
	if err != nil {
		return File{}, fault.Wrap(fault.Driver, err, "kit template")
	}
	var b bytes.Buffer
	if err := t.Execute(&b, v); err != nil {
		return File{}, fault.Wrap(fault.Driver, err, "kit template")
	}
	if err := os.WriteFile(v.Path(into), b.Bytes(), 0o644); err != nil {
		return File{}, fault.Wrap(fault.Config, err, "kit configuration")
	}
	return File{Name: into, Text: b.String()}, nil
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// word writes s as one word of an nginx configuration.
func word(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

func tidemark(_ context.Context, v values) (*Kit, error) {
	v.Log = v.Path("access.tml")
	f, err := v.write("tidemark.toml.tmpl", "server.toml")
	if err != nil {
		return nil, err
	}
	return &Kit{
		Name: "tidemark", Version: "built in", Address: v.Address, Files: []File{f},
		Commands: []target.Command{{
			Name: "tidemark", Path: v.Self, Args: []string{"serve", "--quiet", "-c", v.Path("server.toml")},
			CPUs: v.CPUs, Log: v.Path("tidemark.log"), Origin: fault.Target,
			Ready: &target.Ready{Network: "tcp", Address: v.Address.String()},
		}},
		Log: v.Log, Total: totalBinary,
		API: "tidemark page", Cache: "in memory, ready to write", LogMode: "binary",
	}, nil
}

func nginx(ctx context.Context, v values) (*Kit, error) {
	path, err := exec.LookPath("nginx")
	if err != nil {
		for _, p := range []string{"/usr/sbin/nginx", "/usr/local/sbin/nginx"} {
			if path, err = exec.LookPath(p); err == nil {
				break
			}
		}
	}
	if err != nil {
		return nil, fault.Hint(fault.New(fault.Config, "nginx is not installed"), "Debian: apt-get install nginx")
	}
	if s := v.Root + v.Dir; strings.Contains(s, "$") { // begins a variable even in quotes, and nothing escapes it
		return nil, fault.New(fault.Config, "nginx cannot use paths with a dollar sign: %s, %s", v.Root, v.Dir)
	}
	version, err := exec.CommandContext(ctx, path, "-v").CombinedOutput()
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "nginx -v")
	}
	if u, err := user.Current(); err == nil {
		v.User = u.Username
	}
	scratch := ""
	v.Socket, v.Log = v.Path("pages.sock"), v.Path("access.log")
	if len(v.Socket) > 100 { // sun_path holds 108 bytes
		if scratch, err = os.MkdirTemp("", "tidemark-"); err != nil {
			return nil, fault.Wrap(fault.Config, err, "socket directory")
		}
		v.Socket = filepath.Join(scratch, "pages.sock")
	}
	var pages, conf File
	if pages, err = v.write("pages.toml.tmpl", "pages.toml"); err == nil {
		conf, err = v.write("nginx.conf.tmpl", "nginx.conf")
	}
	if err != nil {
		_ = os.RemoveAll(scratch) // err says more
		return nil, err
	}
	return &Kit{
		Name: "nginx", Version: strings.TrimSpace(string(version)), Address: v.Address, Files: []File{conf, pages},
		Commands: []target.Command{
			{
				Name: "pages", Path: v.Self, Args: []string{"serve", "--quiet", "-c", v.Path("pages.toml")},
				CPUs: v.CPUs, Log: v.Path("pages.log"), Origin: fault.Target,
				Ready: &target.Ready{Network: "unix", Address: v.Socket},
			},
			{
				Name: "nginx", Path: path, Args: []string{"-p", v.Dir + "/", "-e", v.Path("error.log"), "-c", v.Path("nginx.conf")},
				CPUs: v.CPUs, Log: v.Path("nginx.log"), Origin: fault.Target, Stop: syscall.SIGQUIT,
				Ready: &target.Ready{Network: "tcp", Address: v.Address.String()},
			},
		},
		Log: v.Log, Total: totalText, Scratch: scratch,
		API: "FastCGI", Cache: "open files and page cache", LogMode: "text, buffered",
	}, nil
}

// totalText totals a log whose lines end in "status bytes".
func totalText(path string) (ops, n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, fault.Wrap(fault.Target, err, "access log")
	}
	defer f.Close()
	lines := bufio.NewReaderSize(f, 256<<10)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			if line != "" {
				return ops, n, fault.New(fault.Target, "access log %s: torn last line", path)
			}
			return ops, n, nil
		}
		if err != nil {
			return ops, n, fault.Wrap(fault.Target, err, "access log")
		}
		fields := strings.Fields(line)
		var bytes int64
		if len(fields) < 2 {
			return ops, n, fault.New(fault.Target, "access log %s: line %d has no byte count", path, ops+1)
		}
		if _, err := fmt.Sscan(fields[len(fields)-1], &bytes); err != nil {
			return ops, n, fault.New(fault.Target, "access log %s: line %d: %v", path, ops+1, err)
		}
		ops++
		n += bytes
	}
}

// freeAddress asks the kernel for a port nobody uses. Between this and the
// server's own bind another process may take it; the start then fails loudly.
func freeAddress(host string) (netip.AddrPort, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return netip.AddrPort{}, fault.Wrap(fault.Config, err, "address for the server")
	}
	defer l.Close()
	a, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return netip.AddrPort{}, fault.Wrap(fault.Config, err, "address for the server")
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()), nil
}

// CGIProgram finds or makes the small program that answers the CGI page: beside
// the executable, or built with the Go toolchain when the module's source is at
// hand (as under "go run"), or none: the executable then does it itself, at a
// higher cost per start that the result mentions.
func CGIProgram(ctx context.Context, self, dir string) (path, note string) {
	if self != "" {
		beside := filepath.Join(filepath.Dir(self), "tidemark-cgi")
		if st, err := os.Stat(beside); err == nil && st.Mode()&0o111 != 0 {
			return beside, "beside the executable"
		}
	}
	out := filepath.Join(dir, "tidemark-cgi")
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	if tool, err := exec.LookPath("go"); err == nil {
		build := exec.CommandContext(ctx, tool, append(CGIBuild(), "-o", out, "tidemark.dev/cmd/tidemark-cgi")...)
		if err := build.Run(); err == nil {
			return out, "built from source"
		}
	}
	return "", "the main executable (a heavier start)"
}

// CGIBuild returns the arguments of the go command that build cmd/tidemark-cgi
// with its quick start, where it has one.
func CGIBuild() []string {
	if runtime.GOOS == "linux" && runtime.GOARCH == "amd64" {
		return []string{"build", "-ldflags=-E=tidemark.dev/pages/quick.start"}
	}
	return []string{"build"}
}

// SortedFiles orders configuration files by name, for stable documents.
func SortedFiles(files []File) []File {
	out := append([]File(nil), files...)
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
