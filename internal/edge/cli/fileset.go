package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tidemark.dev/internal/drive/fill"
	"tidemark.dev/internal/drive/run"
	"tidemark.dev/internal/edge/live"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
)

func (t *tool) fileset() *cobra.Command {
	c := &cobra.Command{Use: "fileset", Short: "create, verify, size and remove file sets"}
	c.AddCommand(t.filesetCreate(), t.filesetVerify(), t.filesetSize(), t.filesetClean())
	return c
}

// loadFlags say how large a set is: by load or by directories.
type loadFlags struct {
	load, dirs count
}

func (l *loadFlags) add(c *cobra.Command) {
	c.Flags().Var(&l.load, "load", "connections the set is for")
	c.Flags().Var(&l.dirs, "dirs", "number of directories instead")
}

func (l *loadFlags) directories() (int, error) {
	switch {
	case l.load > 0 && l.dirs > 0:
		return 0, fault.New(fault.Config, "give --load or --dirs, not both")
	case l.load > 0:
		return fileset.Dirs(int(l.load)), nil
	case l.dirs > 0:
		return int(l.dirs), nil
	}
	return 0, fault.New(fault.Config, "give --load N, the connections the set is for")
}

func (t *tool) filesetCreate() *cobra.Command {
	var l loadFlags
	var seed uint64
	c := &cobra.Command{
		Use: "create --load N DIR", Short: "create a file set, or go on with one", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dirs, err := l.directories()
			if err != nil {
				return err
			}
			bar := live.NewBar(t.Stderr, live.Options{Terminal: t.Terminal, Quiet: t.quiet})
			made, err := fill.Create(c.Context(), args[0], fill.Plan{Dirs: dirs, Seed: seed}, func(p fill.Progress) {
				bar.Set(float64(p.BytesDone)/float64(max(p.Bytes, 1)), speed(p.BytesDone, p.Elapsed))
			})
			bar.Close()
			if err != nil {
				return err
			}
			fmt.Fprintf(t.Stdout, "%s: %d directories, %.2f MB as web99 counts (%d written now, %s)\n",
				args[0], made.Set.Dirs, fileset.ReportedMB(made.Set.Dirs), made.Dirs, speed(made.Bytes, made.Elapsed))
			return nil
		},
	}
	l.add(c)
	c.Flags().Uint64Var(&seed, "seed", run.DefaultFileSeed, "seed of the content")
	return c
}

func speed(bytes int64, d time.Duration) string {
	if d <= 0 {
		return "0 MB/s"
	}
	return fmt.Sprintf("%.0f MB/s", float64(bytes)/1e6/d.Seconds())
}

func (t *tool) filesetVerify() *cobra.Command {
	var every int
	c := &cobra.Command{
		Use: "verify DIR", Short: "check every byte of a file set", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			bar := live.NewBar(t.Stderr, live.Options{Terminal: t.Terminal, Quiet: t.quiet})
			r, err := fill.Verify(c.Context(), args[0], fill.Check{Every: every}, func(p fill.Progress) {
				bar.Set(float64(p.BytesDone)/float64(max(p.Bytes, 1)), speed(p.BytesDone, p.Elapsed))
			})
			bar.Close()
			if err != nil {
				return err
			}
			for _, f := range r.Faults {
				fmt.Fprintln(t.Stdout, f)
			}
			fmt.Fprintf(t.Stdout, "%s: %d files, %d wrong, %s\n", args[0], r.Files, len(r.Faults), speed(r.Bytes, r.Elapsed))
			if !r.OK() {
				return exit{exitFails}
			}
			return nil
		},
	}
	c.Flags().IntVar(&every, "every", 1, "check the content of one file in so many")
	return c
}

func (t *tool) filesetSize() *cobra.Command {
	var l loadFlags
	c := &cobra.Command{
		Use: "size --load N", Short: "say how large a file set is", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dirs, err := l.directories()
			if err != nil {
				return err
			}
			fmt.Fprintf(t.Stdout, "%d directories, %d files, %d bytes, reported as %s MB\n",
				dirs, dirs*fileset.FilesPerDir, int64(dirs)*fileset.DirBytes, trimmed(fileset.ReportedMB(dirs)))
			return nil
		},
	}
	l.add(c)
	return c
}

func trimmed(mb float64) string {
	s := fmt.Sprintf("%.2f", mb)
	for s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}

func (t *tool) filesetClean() *cobra.Command {
	return &cobra.Command{
		Use: "clean [DIR]", Short: "remove a file set; without DIR those that bench made", Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dirs := args
			if len(dirs) == 0 {
				for _, p := range run.ProfileNames() {
					dirs = append(dirs, t.cacheDir()+"/fileset-"+p)
				}
			}
			removed := 0
			for _, d := range dirs {
				if _, err := fill.Read(d); err != nil && len(args) == 0 {
					continue // bench made none there
				}
				done, err := fill.Clean(c.Context(), d)
				if err != nil {
					return err
				}
				fmt.Fprintf(t.Stdout, "removed %s: %d files\n", d, done.Files)
				if n := len(done.Left); n > 0 {
					fmt.Fprintf(t.Stdout, "  left alone what is not of the set: %s\n", strings.Join(done.Left[:min(n, 5)], ", "))
				}
				removed++
			}
			if removed == 0 {
				fmt.Fprintln(t.Stdout, "nothing to remove")
			}
			return nil
		},
	}
}
