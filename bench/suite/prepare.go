package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"tidemark.dev/bench/peers"
	"tidemark.dev/internal/drive/fill"
	"tidemark.dev/internal/drive/kit"
	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/workload"
)

const (
	// Mix is the list of the static requests of the web99 workload.
	Mix = "mix"
	// Dirs is the number of directories that Mix draws over: 102 MB.
	Dirs = 20
	// Seed of the draws and of the files' contents.
	Seed = 1
	// entries of Mix before it begins again.
	entries = 20000
)

// Sizes are the lengths in bytes of the single files, /size/LENGTH.
func Sizes() []int { return []int{100, 1 << 10, 10 << 10, 100 << 10, 1 << 20} }

// newSuite makes files, lists and programs.
func newSuite(ctx context.Context, o Options, caddy bool, keeper *target.Keeper, say func(string, ...any)) (*Suite, error) {
	s := &Suite{Options: o, Built: map[string]string{}, paths: map[string][]string{}, versions: map[string]string{}, Say: say}
	root := filepath.Join(o.Work, "root")
	for _, dir := range []string{root, s.list(""), filepath.Join(o.Work, "bin"), filepath.Join(o.Work, "servers")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	say("file set and programs in %s", o.Work)
	if err := s.files(ctx, root); err != nil {
		return nil, fmt.Errorf("file set: %w", err)
	}
	if err := s.build(ctx, caddy); err != nil {
		return nil, err
	}
	s.Place = peers.Place{
		Source: s.path("peers"), Work: filepath.Join(o.Work, "servers"), Root: root, Dirs: Dirs, CPU: o.ServerCPU,
		Built: s.Built, Keeper: keeper,
	}
	return s, nil
}

// files makes the document root and the lists of requests.
func (s *Suite) files(ctx context.Context, root string) error {
	if _, err := fill.Create(ctx, root, fill.Plan{Dirs: Dirs, Seed: Seed}, nil); err != nil {
		return err
	}
	w, err := workload.Preset("web99")
	if err != nil {
		return err
	}
	if err := s.law(w, Mix, Dirs, entries); err != nil {
		return err
	}
	for _, kind := range Kinds() {
		if err := s.pages(w, kind); err != nil {
			return err
		}
	}
	return nil
}

// law writes a list of files by the law of the workload.
func (s *Suite) law(w *workload.Workload, name string, dirs, entries int) error {
	var paths []string
	var sizes []int64
	for i := range int64(dirs * fileset.FilesPerDir) {
		f := fileset.FileAt(i)
		paths, sizes = append(paths, f.String()), append(sizes, f.Size())
	}
	var sequence []int
	for op := range draws(w, dirs, entries) {
		sequence = append(sequence, int(op.File.Index()))
	}
	return s.write(name, paths, sizes, sequence)
}

// draws are the static operations of one slot.
func draws(w *workload.Workload, dirs, n int) iter.Seq[workload.Op] {
	return func(yield func(workload.Op) bool) {
		sampler, cursor, op := w.Sampler(dirs, w.Users.Min), workload.Cursor{Seed: Seed}, workload.Op{}
		for n > 0 {
			if sampler.Next(&cursor, &op); op.Kind != workload.Static {
				continue
			}
			if n--; !yield(op) {
				return
			}
		}
	}
}

// write writes a list in the form climit/light.c reads, and for h2load as plain paths.
func (s *Suite) write(name string, paths []string, sizes []int64, sequence []int) error {
	s.paths[name] = paths
	var list, plain strings.Builder
	fmt.Fprintln(&list, len(paths), len(sequence))
	for i, p := range paths {
		fmt.Fprintln(&list, p, sizes[i])
	}
	for _, i := range sequence {
		fmt.Fprintln(&list, i)
		fmt.Fprintln(&plain, paths[i])
	}
	return errors.Join(
		os.WriteFile(s.list(name), []byte(list.String()), 0o644),
		os.WriteFile(s.list(name)+".paths", []byte(plain.String()), 0o644))
}

// build makes our own programs from this tree, the C ones with gcc, and Caddy, which
// Debian does not have in a present version, in a module of its own. Without network
// and cache there is no Caddy; the scenarios then say so.
func (s *Suite) build(ctx context.Context, caddy bool) error {
	program := func(name, dir string, command ...string) error {
		out := filepath.Join(s.Work, "bin", name)
		for i, a := range command {
			command[i] = strings.ReplaceAll(a, "OUT", out)
		}
		c := exec.CommandContext(ctx, command[0], command[1:]...)
		c.Dir = dir
		if b, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, bytes.TrimSpace(b))
		}
		s.Built[name] = out
		return nil
	}
	for _, b := range [][2]string{{"tidemark", "./cmd/tidemark"}, {"burst", "./bench/burst"}} {
		if err := program(b[0], s.Module, "go", "build", "-o", "OUT", b[1]); err != nil {
			return err
		}
	}
	if err := program("tidemark-cgi", s.Module, append(append([]string{"go"}, kit.CGIBuild()...), "-o", "OUT", "./cmd/tidemark-cgi")...); err != nil {
		return err
	}
	for name, source := range map[string]string{"light": "light.c", "limit-epoll": "epoll.c", "limit-uring": "uring.c", "cached": "cached.c"} {
		if err := program(name, s.path("climit"), "gcc", "-O2", "-Wall", "-o", "OUT", source); err != nil {
			return err
		}
	}
	if !caddy {
		return nil
	}
	if err := program("caddy", s.path("peers/caddy"), "go", "build", "-o", "OUT", "github.com/caddyserver/caddy/v2/cmd/caddy"); err != nil {
		s.Say("%v", err)
	}
	return nil
}
