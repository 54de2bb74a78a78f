// Command fileset measures how fast file sets are written, beside parallel dd on the
// same disk, and verified from the page cache. See bench/README.md.
//
// From the root of the tree: go run ./bench/fileset --quick
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tidemark.dev/bench/suite"
	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/edge/proc"
	"tidemark.dev/internal/model/fileset"
)

func main() {
	p, release := proc.Real()
	f := files{dirs: 200}
	code := suite.Command(p, suite.Job{Name: "fileset", Rounds: 5, Option: f.option, Usage: usage, Run: f.run})
	release()
	p.Exit(code)
}

const usage = `
  --dirs=200         directories of the set, 5 MB each
`

type files struct {
	dirs int
	*suite.Suite
	data data
}

// data is everything that was measured.
type data struct {
	Bytes    int64     `json:"set_bytes"`
	Block    int       `json:"block_bytes"` // of dd, and the largest write of ours
	Parallel int       `json:"parallel_count"`
	Writes   []work    `json:"writes"`
	Verifies []work    `json:"verifies"`
	Ratios   []float64 `json:"create_over_dd_ratio"`
}

// work is one way over the whole set.
type work struct {
	What    string  `json:"what"` // "dd", "create", "verify"
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu_seconds"`
	Rate    float64 `json:"gigabytes_per_second"`
	PerCore float64 `json:"gigabytes_per_cpu_second"`
}

func (f *files) option(name, value string) (known bool, err error) {
	if name != "dirs" {
		return false, nil
	}
	if f.dirs, err = strconv.Atoi(value); err == nil && f.dirs < 1 {
		err = errors.New("one directory is the least")
	}
	return true, err
}

func (f *files) run(ctx context.Context, s *suite.Suite) (suite.Result, error) {
	f.Suite = s
	if s.Smoke {
		f.dirs = 4
	}
	f.data = data{Bytes: int64(f.dirs) * fileset.DirBytes, Block: fileset.MaxSize, Parallel: len(cores(s))}
	r := &suite.Report{}
	var err error
	if r.Head, err = s.Head(ctx, "Suite fileset"); err != nil {
		return nil, err
	}
	r.Method = fmt.Sprintf(`A set of %d directories, %.0f MB, in %s. Writing: as many dd as there are workers, %d, each its part of the same bytes in blocks of %d
(the largest file and so the largest write of ours), synchronised at the end as ours is; each into a folder of its own, removed when all is measured; each
create stands between two of dd and is divided by the mean of their rates. Verifying: one process on core %d, the set in the page cache; the figure is
bytes over processor time. Cells give **median** [lowest-highest].`,
		f.dirs, float64(f.data.Bytes)/1e6, s.Work, f.data.Parallel, f.data.Block, s.ClientCPU)
	err = f.measure(ctx)
	r.Data = &f.data
	if len(f.data.Writes) == 0 {
		return nil, err
	}
	var rate []float64
	for _, w := range f.data.Verifies {
		rate = append(rate, w.PerCore)
	}
	r.Goals = []suite.Reached{
		suite.Reached{Measure: "create vs parallel dd", Unit: "ratio of rates", Must: 0.8, Aim: 0.8, More: true}.Judge(suite.Median(f.data.Ratios)),
		suite.Reached{Measure: "verify from the page cache", Unit: "GB/s of a core", Must: 2, Aim: 2, More: true}.Judge(suite.Median(rate)),
	}
	t := suite.Table{Title: "All ways over the set, in order", Columns: []string{"", "seconds", "processor seconds", "GB/s", "GB of a processor second"}}
	for _, list := range [][]work{f.data.Writes, f.data.Verifies} {
		for _, w := range list {
			t.Rows = append(t.Rows, []string{
				w.What, fmt.Sprintf("%.3f", w.Seconds), fmt.Sprintf("%.3f", w.CPU), fmt.Sprintf("%.2f", w.Rate), fmt.Sprintf("%.2f", w.PerCore),
			})
		}
	}
	r.Tables = []suite.Table{t}
	return r, err
}

func (f *files) measure(ctx context.Context) error {
	all := filepath.Join(f.Work, "written")
	if err := os.RemoveAll(all); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(all) }() // what is left is in the way of nothing but the disk
	for i := range 2*f.Rounds + 1 {
		dir := filepath.Join(all, strconv.Itoa(i))
		what, take := "dd", f.dd
		if i%2 == 1 {
			what, take = "create", f.create
		}
		w, err := f.fresh(ctx, dir, what, take)
		if err != nil {
			return err
		}
		f.data.Writes = append(f.data.Writes, w)
	}
	f.data.Ratios = ratios(f.data.Writes)
	dir := filepath.Join(all, "verified")
	if _, err := f.fresh(ctx, dir, "create", f.create); err != nil {
		return err
	}
	for i := range f.Rounds + 1 {
		w, err := f.timed(ctx, "verify", []target.Command{f.command("verify", []int{f.ClientCPU}, "fileset", "verify", dir)})
		if err != nil {
			return err
		}
		if i > 0 { // the first fills the page cache
			f.data.Verifies = append(f.data.Verifies, w)
		}
	}
	return nil
}

// ratios divides the rate of each create by the mean of the two dd beside it.
func ratios(all []work) (out []float64) {
	for i := 1; i+1 < len(all); i += 2 {
		out = append(out, all[i].Rate/((all[i-1].Rate+all[i+1].Rate)/2))
	}
	return out
}

// fresh writes into a new folder, with nothing left to be written from before. Nothing is removed meanwhile: for
// some time ext4 passes over inodes that were removed, one by one for each file that is made, and the pages of what was
// removed are at hand for whoever writes next, which a host that takes free memory back makes worth a multiple.
func (f *files) fresh(ctx context.Context, dir, what string, take func(dir string) []target.Command) (work, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return work{}, err
	}
	if _, err := f.timed(ctx, "sync", []target.Command{{Name: "sync", Path: "sync"}}); err != nil {
		return work{}, err
	}
	if err := f.Quiet(ctx); err != nil {
		return work{}, err
	}
	w, err := f.timed(ctx, what, take(dir))
	if err == nil && what == "dd" {
		if n, sizeErr := sizes(dir); sizeErr != nil || n != f.data.Bytes {
			err = errors.Join(sizeErr, fmt.Errorf("dd wrote %d bytes of %d", n, f.data.Bytes))
		}
	}
	return w, err
}

func (f *files) command(name string, cpus []int, args ...string) target.Command {
	return target.Command{Name: name, Path: f.Built["tidemark"], Args: append(args, "--quiet"), CPUs: cpus}
}

func (f *files) create(dir string) []target.Command {
	return []target.Command{f.command("create", cores(f.Suite), "fileset", "create", "--dirs", strconv.Itoa(f.dirs), dir)}
}

func (f *files) dd(dir string) (list []target.Command) {
	for i, n := range shares(f.data.Bytes, f.data.Parallel) {
		list = append(list, target.Command{
			Name: "dd", Path: "dd", CPUs: cores(f.Suite), Args: []string{
				"if=/dev/zero", "of=" + filepath.Join(dir, "part"+strconv.Itoa(i)), "bs=" + strconv.Itoa(f.data.Block),
				"count=" + strconv.FormatInt(n, 10), "iflag=count_bytes", "conv=fsync", "status=none",
			},
		})
	}
	return list
}

// shares deals bytes to n workers.
func shares(bytes int64, n int) (out []int64) {
	for i := range int64(n) {
		out = append(out, bytes*(i+1)/int64(n)-bytes*i/int64(n))
	}
	return out
}

// cores are the two that the suites use: a worker on each.
func cores(s *suite.Suite) []int { return []int{s.ServerCPU, s.ClientCPU} }

// success is what a command says when it has done all of its work.
func (f *files) success(what string) string {
	switch what {
	case "create":
		return fmt.Sprintf("(%d written now", f.dirs)
	case "verify":
		return fmt.Sprintf("%d files, 0 wrong", f.dirs*fileset.FilesPerDir)
	}
	return "" // dd's files are measured
}

// sizes adds up the files of a folder.
func sizes(dir string) (sum int64, err error) {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		info, infoErr := e.Info()
		if err = errors.Join(err, infoErr); infoErr == nil {
			sum += info.Size()
		}
	}
	return sum, err
}

// timed runs commands at the same time and waits for the last of them.
func (f *files) timed(ctx context.Context, what string, commands []target.Command) (w work, err error) {
	w.What = what
	begun := time.Now()
	var running []*target.Process
	for i, c := range commands {
		c.Log = filepath.Join(f.Work, fmt.Sprintf("%s-%d.log", what, i))
		if err = os.RemoveAll(c.Log); err != nil {
			break
		}
		var p *target.Process
		if p, err = f.Place.Keeper.Spawn(c); err != nil {
			break
		}
		p.Expect()
		running = append(running, p)
	}
	for _, p := range running {
		if err == nil {
			select {
			case <-p.Done():
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			err = errors.Join(err, p.Stop(time.Second))
		}
	}
	w.Seconds = time.Since(begun).Seconds()
	for i, p := range running {
		user, system := p.CPU()
		w.CPU += (user + system).Seconds()
		if says := f.success(what); err == nil && says != "" {
			text, readErr := os.ReadFile(filepath.Join(f.Work, fmt.Sprintf("%s-%d.log", what, i)))
			if err = readErr; err == nil && !strings.Contains(string(text), says) {
				err = fmt.Errorf("%s: %s", what, text)
			}
		}
	}
	w.Rate, w.PerCore = float64(f.data.Bytes)/1e9/w.Seconds, float64(f.data.Bytes)/1e9/max(w.CPU, 1e-6)
	if err == nil && what != "sync" {
		f.Say("%-7s %.2f GB/s, %.2f GB of a processor second", what, w.Rate, w.PerCore)
	}
	return w, err
}
