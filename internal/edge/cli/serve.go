package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tidemark.dev/internal/edge/config"
	"tidemark.dev/internal/edge/proc"
	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/serve/cgi"
	hostcgi "tidemark.dev/internal/serve/host/cgi"
	"tidemark.dev/internal/serve/server"
	"tidemark.dev/pages"
)

func (t *tool) software() string { return "Tidemark/" + Version }

func (t *tool) serve() *cobra.Command {
	var file, root, access, backend string
	var listen []string
	c := &cobra.Command{
		Use:   "serve",
		Short: "serve files and dynamic pages",
		Long: `Serve files and dynamic pages over HTTP/1.0 and HTTP/1.1.

Without a configuration file: the directory --root at --listen, with a binary
access log (tidemark log cat shows it). docs/formats/server.md lists what a
configuration file can say; flags given here override it.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := readConfig(file)
			if err != nil {
				return err
			}
			if c.Flags().Changed("root") || file == "" {
				f.Root = root
			}
			if len(listen) > 0 {
				f.Listen = listen
			}
			if access != "" {
				f.Log.Access = access
			}
			if backend != "" {
				f.Backend = backend
			}
			return t.runServe(c.Context(), f)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&file, "config", "c", "", "configuration file")
	fl.StringVar(&root, "root", ".", "document root")
	fl.StringArrayVar(&listen, "listen", nil, "address to listen on, may be repeated (default 127.0.0.1:8080)")
	fl.StringVar(&access, "access-log", "", "binary access log, or off")
	fl.StringVar(&backend, "backend", "", "event loop: "+strings.Join(loop.Backends(), ", "))
	return c
}

func readConfig(file string) (*config.File, error) {
	if file == "" {
		return config.Parse("./none", nil)
	}
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "configuration")
	}
	return config.Parse(file, src)
}

func (t *tool) runServe(ctx context.Context, f *config.File) error {
	p := config.Process{Software: t.software(), Self: t.Self}
	if f.FastCGI != "" {
		r, err := f.Responder(p)
		if err != nil {
			return err
		}
		context.AfterFunc(ctx, func() { _ = r.Close() })
		t.say("pages on %s", f.FastCGI)
		return fault.Wrap(fault.Config, r.Serve(r.Listener), "fastcgi")
	}
	o, err := f.Server(p)
	if err != nil {
		return err
	}
	o.Spawner.Lost = func(err error) {
		fmt.Fprintf(t.Stderr, "tidemark: %v; programs are started directly until there is another\n", err)
	}
	if f, ok := t.Stderr.(*os.File); ok {
		o.Spawner.Stderr = f
	}
	s, err := server.New(o)
	if err != nil {
		return err
	}
	var at []string
	for _, a := range s.Addrs() {
		at = append(at, "http://"+a.String()+"/")
	}
	t.say("serving %s at %s", o.Root, strings.Join(at, " "))
	if _, why := s.Backend(); why != "" {
		t.say("event loop epoll: %s", why)
	}
	if o.AccessLog != "" {
		t.say("access log %s (tidemark log cat shows it)", o.AccessLog)
	}
	if err := s.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	t.say("stopped")
	return nil
}

// runCGI answers the one request in the environment: what cmd/tidemark-cgi does, for builds without it.
func runCGI(p *proc.Process) int {
	if err := hostcgi.Run(p.Environment(), p.Stdin, p.Stdout, pages.NewSite(pages.Options{}).Get()); err != nil {
		fmt.Fprintln(p.Stderr, "tidemark cgi:", err)
		return exitUsage
	}
	return exitOK
}

// runSpawner starts CGI programs for a server, which began this process and gave it descriptor 3. Interrupts are
// caught and left alone: those of a terminal reach this process as well, and the server still needs it to drain.
func runSpawner(p *proc.Process) int {
	if err := cgi.Spawn(os.NewFile(3, "server")); err != nil {
		fmt.Fprintln(p.Stderr, "tidemark spawner:", err)
		return exitUsage
	}
	return exitOK
}
