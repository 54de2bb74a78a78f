package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/drive/kit"
	"tidemark.dev/internal/drive/run"
	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/workload"
)

func (t *tool) agent() *cobra.Command {
	var o run.AgentOptions
	c := &cobra.Command{
		Use: "agent --fleet URL", Short: "drive load for a run on another machine", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.URL == "" || o.Run == "" {
				return fault.New(fault.Config, "an agent needs --fleet URL and --run ID, as the run prints them")
			}
			if o.Name == "" {
				host, err := os.Hostname()
				if err != nil {
					return fault.Wrap(fault.Config, err, "agent name")
				}
				o.Name = strings.ReplaceAll(host, ".", "-")
			}
			return run.Agent(c.Context(), o)
		},
	}
	fl := c.Flags()
	fl.StringVar(&o.URL, "fleet", "", "NATS server of the run")
	fl.StringVar(&o.Token, "fleet-token", "", "secret of the run; better in TIDEMARK_FLEET_TOKEN")
	fl.StringVar(&o.Credentials, "fleet-credentials", "", "NATS credentials file")
	fl.StringVar(&o.Run, "run", "", "identity of the run")
	fl.StringVar(&o.Name, "name", "", "name of this agent (default the host's)")
	return c
}

func (t *tool) workload() *cobra.Command {
	c := &cobra.Command{Use: "workload", Short: "show and check workloads"}
	show := &cobra.Command{
		Use: "show [NAME]", Short: "print a preset, every number with its source", Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name := "web99"
			if len(args) > 0 {
				name = args[0]
			}
			_, text, err := loadWorkload(name)
			if err != nil {
				return err
			}
			fmt.Fprint(t.Stdout, text)
			return nil
		},
	}
	check := &cobra.Command{
		Use: "check FILE...", Short: "check workload files", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				w, _, err := loadWorkload(name)
				if err != nil {
					return err
				}
				s := w.Sampler(w.Dirs(1000), w.UserCount(1000))
				fmt.Fprintf(t.Stdout, "%s: sound. %s: %.1f kbit per operation before headers, %.2f requests per connection, floor %.0f of %.0f kbit/s\n",
					name, w.Name, s.MeanBits(0)/1000, w.RequestsPerConnection(), float64(w.Conformance.FloorBps)/1000, float64(w.Pacing.LineBps)/1000)
			}
			return nil
		},
	}
	list := &cobra.Command{
		Use: "list", Short: "list the presets", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(t.Stdout, strings.Join(workload.Names(), "\n"))
			return nil
		},
	}
	c.AddCommand(show, check, list)
	return c
}

func (t *tool) kit() *cobra.Command {
	var root, dir, host string
	var cpus []int
	c := &cobra.Command{
		Use: "kit NAME", Short: "write the configuration that puts a server under test",
		Long: `Write the configuration that puts a server under test, and print how to start it.
Kits: ` + strings.Join(kit.Names(), ", ") + `.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			for _, p := range []*string{&root, &dir} {
				abs, err := filepath.Abs(*p)
				if err != nil {
					return fault.Wrap(fault.Config, err, *p)
				}
				*p = abs
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fault.Wrap(fault.Config, err, "kit")
			}
			program, _ := kit.CGIProgram(c.Context(), t.Self, dir)
			k, err := kit.Write(c.Context(), args[0], kit.Spec{Root: root, Dir: dir, Host: host, CPUs: cpus, Self: t.Self, CGI: program})
			if err != nil {
				return err
			}
			for _, f := range k.Files {
				fmt.Fprintln(t.Stdout, "wrote", filepath.Join(dir, f.Name))
			}
			fmt.Fprintln(t.Stdout, "start:")
			for _, cmd := range k.Commands {
				fmt.Fprint(t.Stdout, "  ", shellWord(cmd.Path))
				for _, a := range cmd.Args {
					fmt.Fprint(t.Stdout, " ", shellWord(a))
				}
				fmt.Fprintln(t.Stdout)
			}
			fmt.Fprintf(t.Stdout, "then: tidemark bench --target http://%s/\n", k.Address)
			return nil
		},
	}
	c.Flags().StringVar(&root, "root", ".", "directory of the file set")
	c.Flags().StringVar(&dir, "dir", "tidemark-kit", "directory for configuration and logs")
	c.Flags().StringVar(&host, "host", "127.0.0.1", "address to listen on")
	c.Flags().IntSliceVar(&cpus, "cpus", nil, "CPUs of the server")
	return c
}

// shellWord writes s so that a shell takes it for one word.
func shellWord(s string) string {
	odd := func(r rune) bool {
		return !strings.ContainsRune("/._-+=:,@%", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	if s != "" && strings.IndexFunc(s, odd) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (t *tool) config() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "check server configurations"}
	c.AddCommand(&cobra.Command{
		Use: "check FILE...", Short: "say everything that is wrong with configuration files", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			for _, name := range args {
				if _, err := readConfig(name); err != nil {
					return err
				}
				fmt.Fprintf(t.Stdout, "%s: sound\n", name)
			}
			return nil
		},
	})
	return c
}

func (t *tool) inspect() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "inspect", Short: "print the facts of this host that a result discloses", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			h, err := run.Host()
			if err != nil {
				return err
			}
			facts := h.Facts
			if asJSON {
				e := json.NewEncoder(t.Stdout)
				e.SetIndent("", "  ")
				return fault.Wrap(fault.Config, e.Encode(facts), "facts")
			}
			group := ""
			for _, f := range facts {
				if f.Group != group {
					group = f.Group
					fmt.Fprintf(t.Stdout, "%s\n", group)
				}
				fmt.Fprintf(t.Stdout, "  %-28s %s\n", f.Name, factText(f))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func factText(f disclosure.Fact) string {
	switch {
	case f.Text != nil:
		return *f.Text
	case f.Flag != nil && *f.Flag:
		return "yes"
	case f.Flag != nil:
		return "no"
	case f.Number != nil:
		return strings.TrimSpace(fmt.Sprintf("%.15g %s", *f.Number, f.Unit))
	}
	return "unknown"
}

func (t *tool) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print versions of the program and its formats", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			d := describeTool()
			fmt.Fprintf(t.Stdout, "tidemark %s %s %s", d.Version, d.GoVersion, d.Platform)
			if d.Revision != "" {
				fmt.Fprintf(t.Stdout, " %s", d.Revision)
			}
			fmt.Fprintf(t.Stdout, "\nreads and writes %s\n", disclosure.Schema)
			return nil
		},
	}
}

// guard is the hidden verb that ends what a killed run leaves behind.
func (t *tool) guard() *cobra.Command {
	return &cobra.Command{
		Use: "guard", Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			target.Guard(t.Stdin)
			return nil
		},
	}
}
