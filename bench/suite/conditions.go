package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"tidemark.dev/bench/peers"
	"tidemark.dev/internal/drive/fill"
	"tidemark.dev/internal/drive/run"
	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/workload"
)

// ready makes what a scenario needs on disk and says where its servers run. Its list
// gets the name of what was made.
func (s *Suite) ready(ctx context.Context, sc *Scenario) (peers.Place, error) {
	place := s.Place
	place.Connections = sc.Connections
	if n, err := strconv.Atoi(sc.List); err == nil {
		return place, s.single(place.Root, n)
	}
	if sc.Dirs == 0 {
		return place, nil
	}
	place.Root, place.Dirs = filepath.Join(s.Work, "large"), sc.Dirs
	s.Say("%s: file set of %d directories", sc.Name, sc.Dirs)
	if _, err := fill.Create(ctx, place.Root, fill.Plan{Dirs: sc.Dirs, Seed: Seed}, nil); err != nil {
		return place, err
	}
	w, err := workload.Preset("web99")
	if err != nil {
		return place, err
	}
	sc.List = Mix + "-" + strconv.Itoa(sc.Dirs)
	// So many draws that the list does not keep to a part of the files.
	if err := s.law(w, sc.List, sc.Dirs, max(entries, 4*sc.Dirs*fileset.FilesPerDir)); err != nil {
		return place, err
	}
	return place, s.cached(ctx, "fill", place.Root)
}

// single makes the one file of a list that is called by its size.
func (s *Suite) single(root string, n int) error {
	name := strconv.Itoa(n)
	path := filepath.Join(root, "size", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if st, err := os.Stat(path); err != nil || st.Size() != int64(n) {
		body := bytes.Repeat([]byte("All bytes of this file are alike in number and in kind: 64.....\n"), n/64+1)[:n]
		if err := os.WriteFile(path, body, 0o644); err != nil {
			return err
		}
	}
	return s.write(name, []string{"/size/" + name}, []int64{int64(n)}, []int{0})
}

// warmth is how long a server is warmed up: with a large set longer, as it has more to
// get to know.
func (s *Suite) warmth(sc *Scenario) time.Duration {
	if sc.Dirs > 0 && !s.Smoke {
		return max(s.Sample, 3*time.Second)
	}
	return min(s.Sample, time.Second/2)
}

// cool starts a server anew, so that its own memory holds no file.
func (s *Suite) cool(ctx context.Context, place peers.Place, running map[string]*peers.Peer, name string) error {
	if err := running[name].Stop(3 * time.Second); err != nil {
		return err
	}
	p, err := s.Start(ctx, place, name)
	if err != nil {
		return err
	}
	running[name] = p
	return nil
}

// cached fills the page cache with a file set or throws it out, and insists on it: a
// set larger than memory cannot be filled in, so only the other is an error. Pages that
// a processor was just about to use stay the first time.
func (s *Suite) cached(ctx context.Context, how, root string) error {
	for try := 1; ; try++ {
		out, err := exec.CommandContext(ctx, s.Built["cached"], how, filepath.Join(root, "file_set")).Output()
		if err != nil {
			return fmt.Errorf("cached %s: %w", how, err)
		}
		var r struct {
			Bytes  int64 `json:"bytes"`
			Cached int64 `json:"cached"`
		}
		if err := json.Unmarshal(out, &r); err != nil {
			return err
		}
		share := float64(r.Cached) / float64(max(r.Bytes, 1))
		switch {
		case how == "fill" && share < 0.99:
			s.Say("%.0f %% of the file set fit in the page cache", 100*share)
			return nil
		case how == "fill" || share <= 0.01:
			return nil
		case try == 5:
			return fmt.Errorf("%.0f %% of the file set stay in the page cache: is it on a disk?", 100*share)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// steady runs a client that says when it is ready and when it has a result, and calls
// begin and end at those moments: within 2 ms of them.
func (s *Suite) steady(ctx context.Context, c target.Command, d time.Duration, begin, end func(p *target.Process) error) error {
	p, err := s.Place.Keeper.Spawn(c)
	if err != nil {
		return err
	}
	p.Expect()
	err = s.await(ctx, p, c.Log, "ready\n", time.Minute)
	if err == nil {
		err = begin(p)
	}
	if err == nil {
		err = s.await(ctx, p, c.Log, "}\n", d+20*time.Second)
	}
	if err == nil {
		err = end(p)
	}
	return errors.Join(err, p.Stop(time.Second))
}

// await waits until a client has said something.
func (s *Suite) await(ctx context.Context, p *target.Process, log, words string, patience time.Duration) error {
	t := time.NewTicker(2 * time.Millisecond)
	defer t.Stop()
	for begun := time.Now(); ; {
		b, err := os.ReadFile(log)
		switch {
		case err != nil:
			return err
		case bytes.Contains(b, []byte(words)):
			return nil
		case time.Since(begun) > patience:
			return fmt.Errorf("%s: not %q within %v: %s", p.Name, words, patience, bytes.TrimSpace(b))
		}
		select {
		case <-t.C:
		case <-p.Done():
			b, _ := os.ReadFile(log) // whatever there is
			if bytes.Contains(b, []byte(words)) {
				return nil
			}
			return fmt.Errorf("%s ended: %s", p.Name, bytes.TrimSpace(b))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Idle opens connections to a server, asks one request on each, calls look while they
// are idle and ends.
func (s *Suite) Idle(ctx context.Context, server *peers.Peer, list string, connections int, look func() error) error {
	if n, err := strconv.Atoi(list); err == nil {
		if err := s.single(s.Place.Root, n); err != nil {
			return err
		}
	}
	c := Light(connections, "-i").command(s, server.Address, s.list(list), time.Minute)
	c.Name, c.CPUs, c.Log = "light", []int{s.ClientCPU}, filepath.Join(s.Work, "client.log")
	if err := os.RemoveAll(c.Log); err != nil {
		return err
	}
	p, err := s.Place.Keeper.Spawn(c)
	if err != nil {
		return err
	}
	p.Expect()
	if err = s.await(ctx, p, c.Log, "ready\n", time.Minute); err == nil {
		err = look()
	}
	return errors.Join(err, p.Stop(time.Second), server.Failed())
}

// ProductDirs is the file set of a quick run of the product: 102 MB.
const ProductDirs = 20

// ProductPlace is a place with the contents that the product expects.
func (s *Suite) ProductPlace(ctx context.Context) (peers.Place, error) {
	place := s.Place
	place.Root, place.Dirs = filepath.Join(s.Work, "product"), ProductDirs
	_, err := fill.Create(ctx, place.Root, fill.Plan{Dirs: ProductDirs, Seed: run.DefaultFileSeed}, nil)
	return place, err
}

// Cost is the processor time of a request in microseconds in the samples of a lane
// that count, Ratio that of its pairs.
func (o *Outcome) Cost(lane string) Value {
	var v []float64
	for i := range o.Samples {
		if x := &o.Samples[i]; x.Lane == lane && x.Discarded == "" {
			v = append(v, o.micros(x))
		}
	}
	return Median(v)
}

// Ratio see Cost.
func (o *Outcome) Ratio(lane string) Value {
	var v []float64
	for _, p := range o.Pairs[lane] {
		v = append(v, p.CPU)
	}
	return Median(v)
}

// Names are those of the lanes, the reference first.
func (o *Outcome) Names() []string { return slices.Insert(slices.Clone(o.Lanes), 0, o.Reference) }
