// Package suite measures servers and clients side by side and keeps the method
// honest: server and client alone on a core each, processor time of the whole process
// tree for each request, every sample between two of the reference, the order turned
// around each round, samples thrown away when anything else ran, replies checked
// before each, medians with their ranges.
//
// Call [Main] from a command with a list of [Scenario] and [Goal].
//
// It asserts nothing: a ratio that misses its goal is printed as such. It knows no
// server; package peers does.
package suite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"tidemark.dev/bench/peers"
	"tidemark.dev/internal/drive/target"
	"tidemark.dev/internal/engine/sysinfo"
)

// Lane is one server under one client.
type Lane struct {
	Server string
	Client Client
	List   string // requests, if others than the scenario's
}

// Scenario compares lanes with a reference under the same requests.
type Scenario struct {
	Name      string // one word, for --only and for results
	Title     string
	List      string // requests: Mix, one of Kinds, or the size in bytes of a single file
	Reference Lane
	Lanes     []Lane

	Dirs        int  // the list is Mix over so many directories, in a document root of its own; 0: over Dirs
	Cold        bool // before each sample servers start anew and the files are thrown out of the page cache
	Connections int  // the servers must hold; 0: 8192
}

// clients tells that it is clients that are compared, all with the same server.
func (sc *Scenario) clients() bool {
	return slices.ContainsFunc(sc.Lanes, func(l Lane) bool { return l.Client.Name != sc.Reference.Client.Name })
}

// lists tells that it is requests that are compared, all to the same server.
func (sc *Scenario) lists() bool {
	return slices.ContainsFunc(sc.Lanes, func(l Lane) bool { return l.List != "" })
}

// name is what tells the lanes apart: the server, or else the client or the requests.
func (sc *Scenario) name(l Lane) string {
	switch {
	case sc.clients():
		return l.Client.Name
	case sc.lists():
		return l.Server + ": " + sc.list(l)
	}
	return l.Server
}

// list is what a lane asks for.
func (sc *Scenario) list(l Lane) string { return cmp.Or(l.List, sc.List) }

// Options say how long and how carefully to measure.
type Options struct {
	Module    string        // root of the source tree
	Work      string        // file set, programs and what the servers write
	Out       string        // directory of results; empty: Markdown on standard output only
	ServerCPU int           // core of the servers
	ClientCPU int           // core of the clients
	Sample    time.Duration // length of one sample
	Rounds    int           // samples of each lane
	Tries     int           // of a sample and its two references before it is given up
	Limit     float64       // share of a core that others may use during a sample
	Patience  time.Duration // longest wait for a quiet machine
	Only      *regexp.Regexp
	Smoke     bool // does it work at all? nothing is thrown away, the figures mean nothing
}

// Suite is a prepared machine.
type Suite struct {
	Options
	Built    map[string]string // programs made for this run
	Place    peers.Place
	paths    map[string][]string // of each list
	name     string
	runs     int // of the product
	checks   int // replies checked, for turns
	versions map[string]string
	Say      func(format string, a ...any) // to people, while it runs
}

// Sample is one client's run against one server.
type Sample struct {
	Lane      string `json:"lane"` // what tells it apart: server, client or requests
	Server    string `json:"server"`
	Client    string `json:"client"`
	Round     int    `json:"round"`
	Reference bool   `json:"is_reference,omitempty"`
	Tally
	ServerSeconds float64 `json:"server_cpu_seconds"` // of the whole process tree, ended children included
	ClientSeconds float64 `json:"client_cpu_seconds"`
	ServerCore    Load    `json:"server_core"`
	ClientCore    Load    `json:"client_core"`
	FileBytes     int64   `json:"file_bytes,omitempty"` // of a file so long that requests are counted by its bytes
	Discarded     string  `json:"discarded,omitempty"`  // why it does not count
}

// micros is the processor time of one request in microseconds: the server's, or where
// clients are compared the client's.
func (o *Outcome) micros(s *Sample) float64 {
	if o.Client == "" {
		return s.ClientSeconds / s.answered() * 1e6
	}
	return s.ServerSeconds / s.answered() * 1e6
}

// answered is the number of requests. Of long files few end within a sample, so there
// the bytes are counted, those of unfinished ones too.
func (s *Sample) answered() float64 {
	if s.FileBytes > 0 {
		return float64(s.Bytes) / float64(s.FileBytes)
	}
	return float64(s.Requests)
}

// Rate is the number of requests in a second.
func (s *Sample) Rate() float64 { return s.answered() / s.Seconds }

// Pair is a sample over the mean of the reference samples before and after it.
type Pair struct {
	Round int     `json:"round"`
	CPU   float64 `json:"cpu_ratio"`  // processor time for each request, of what is compared
	Rate  float64 `json:"rate_ratio"` // requests in a second
}

// Outcome is what a scenario gave.
type Outcome struct {
	Name      string            `json:"name"`
	Title     string            `json:"title"`
	Client    string            `json:"client,omitempty"` // of all lanes, where servers are compared
	Server    string            `json:"server,omitempty"` // of all lanes, where clients are compared
	Reference string            `json:"reference"`
	Lanes     []string          `json:"lanes"`
	Pairs     map[string][]Pair `json:"pairs"`
	Samples   []Sample          `json:"samples"` // all that were taken, in order
	Notes     []string          `json:"notes,omitempty"`
}

// measure runs one scenario. Lanes whose server is missing or does not start are
// noted and left out; without the reference there is no scenario.
func (s *Suite) measure(ctx context.Context, sc Scenario) (out *Outcome, err error) {
	out = &Outcome{Name: sc.Name, Title: sc.Title, Reference: sc.name(sc.Reference), Pairs: map[string][]Pair{}}
	if sc.clients() {
		out.Server = sc.Reference.Server
	} else {
		out.Client = sc.Reference.Client.Name
	}
	place, err := s.ready(ctx, &sc)
	if err != nil {
		return out, err
	}
	running := map[string]*peers.Peer{}
	defer func() {
		for _, p := range running {
			_ = p.Stop(3 * time.Second) // measured already; one that hangs was killed
		}
	}()
	var lanes []Lane
	for i, l := range append([]Lane{sc.Reference}, sc.Lanes...) {
		if running[l.Server] == nil {
			p, err := s.Start(ctx, place, l.Server)
			if err != nil && i == 0 {
				return out, err
			} else if err != nil {
				out.Notes = append(out.Notes, err.Error())
				continue
			}
			running[l.Server] = p
			if sc.lists() {
				if err := s.tables(ctx, p); err != nil {
					return out, err
				}
			}
		}
		warm, err := s.sample(ctx, sc, place, running, l, s.warmth(&sc))
		if err == nil && warm.Fault != "" {
			err = errors.New(warm.Fault)
		}
		if err != nil && i == 0 {
			return out, err
		} else if err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: %v", sc.name(l), err))
			s.Say("%s: left out: %s: %v", sc.Name, sc.name(l), err)
			continue
		}
		if i > 0 {
			lanes = append(lanes, l)
			out.Lanes = append(out.Lanes, sc.name(l))
		}
	}
	for round := range s.Rounds {
		var before *Sample // the reference sample before the next lane
		for _, l := range slices.Clone(lanes) {
			before, err = s.triple(ctx, sc, place, out, running, round, l, before)
			if ctx.Err() != nil || errors.Is(err, errNotQuiet) {
				return out, err
			} else if err != nil { // one broken server must not cost the others their figures
				out.Notes = append(out.Notes, fmt.Sprintf("round %d, left out from here on: %v", round+1, err))
				lanes = slices.DeleteFunc(lanes, func(other Lane) bool { return sc.name(other) == sc.name(l) })
			}
		}
		slices.Reverse(lanes)
	}
	return out, nil
}

// triple takes a sample of a lane between two of the reference, the first of which may
// be there already, and again until all three count. It returns the last of them.
func (s *Suite) triple(ctx context.Context, sc Scenario, place peers.Place, out *Outcome, running map[string]*peers.Peer, round int, l Lane, before *Sample) (*Sample, error) {
	take := func(l Lane, reference bool) (*Sample, error) {
		x, err := s.sample(ctx, sc, place, running, l, s.Sample)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sc.name(l), err)
		}
		x.Round, x.Reference = round, reference
		out.Samples = append(out.Samples, *x)
		if x.Discarded != "" {
			s.Say("%s: %s: discarded: %s", sc.Name, sc.name(l), x.Discarded)
			return nil, nil
		}
		return x, nil
	}
	for range s.Tries {
		var x, after *Sample
		var err error
		if before == nil {
			before, err = take(sc.Reference, true)
		}
		if err == nil && before != nil {
			x, err = take(l, false)
		}
		if err == nil && x != nil {
			after, err = take(sc.Reference, true)
		}
		if err != nil {
			return nil, err
		}
		if after != nil {
			p := Pair{
				Round: round,
				CPU:   out.micros(x) / ((out.micros(before) + out.micros(after)) / 2),
				Rate:  x.Rate() / ((before.Rate() + after.Rate()) / 2),
			}
			name := sc.name(l)
			out.Pairs[name] = append(out.Pairs[name], p)
			s.Say("%-12s round %d  %-22s %7.2f us  %8.0f/s  %.3f of %s", sc.Name, round+1, name, out.micros(x), x.Rate(), p.CPU, out.Reference)
			return after, nil
		}
		before = nil // what was measured before the disturbance is no neighbour of what comes after
		if err := s.Quiet(ctx); err != nil {
			return nil, err
		}
	}
	out.Notes = append(out.Notes, fmt.Sprintf("%s: round %d given up after %d tries", sc.name(l), round+1, s.Tries))
	return nil, nil
}

// Start starts a server at place and notes its version.
func (s *Suite) Start(ctx context.Context, place peers.Place, name string) (*peers.Peer, error) {
	p, err := place.Start(ctx, name)
	if err == nil && p.Version != "" {
		s.versions[name] = p.Version
	}
	return p, err
}

// Quiet waits until both cores were left alone for a second, by all but servers that
// stay at work without requests.
func (s *Suite) Quiet(ctx context.Context, busy ...*peers.Peer) error {
	if s.Smoke {
		return nil
	}
	own := func() (sum time.Duration) {
		for _, p := range busy {
			user, system := p.CPU()
			sum += user + system
		}
		return sum
	}
	var said time.Time
	return quiet(ctx, [2]int{s.ServerCPU, s.ClientCPU}, s.Limit, s.Patience, own, func(why string) {
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			s.Say("waiting for a quiet machine: %s", why)
		}
	})
}

// sample checks a reply and then runs the lane's client once.
func (s *Suite) sample(ctx context.Context, sc Scenario, place peers.Place, running map[string]*peers.Peer, l Lane, d time.Duration) (*Sample, error) {
	if sc.Cold {
		if err := s.cool(ctx, place, running, l.Server); err != nil {
			return nil, err
		}
	}
	server := running[l.Server]
	if err := s.check(ctx, server, place.Root, sc.list(l)); err != nil {
		return nil, err
	}
	if sc.Cold {
		if err := s.cached(ctx, "drop", place.Root); err != nil {
			return nil, err
		}
	}
	c := l.Client.command(s, server.Address, s.list(sc.list(l)), d)
	c.Name, c.CPUs, c.Log = l.Client.Name, []int{s.ClientCPU}, filepath.Join(s.Work, "client.log")
	if err := os.RemoveAll(c.Log); err != nil {
		return nil, err
	}
	var before, after [2]core
	look := func(at *[2]core) (err error) {
		for i, n := range [2]int{s.ServerCPU, s.ClientCPU} {
			if at[i], err = readCore(sysinfo.Live(), n); err != nil {
				return err
			}
		}
		return nil
	}
	var user, system, userAfter, systemAfter, clientUser, clientSystem time.Duration
	begin := func(p *target.Process) error {
		user, system = server.CPU()
		if p != nil { // it has been at work already
			clientUser, clientSystem = p.CPU()
		}
		return look(&before)
	}
	end := func(p *target.Process) error {
		userAfter, systemAfter = server.CPU()
		u, k := p.CPU()
		clientUser, clientSystem = u-clientUser, k-clientSystem
		return look(&after)
	}
	var err error
	if l.Client.steady {
		err = s.steady(ctx, c, d, begin, end)
	} else if err = begin(nil); err == nil {
		var client *target.Process
		if client, err = s.run(ctx, c, d); err == nil {
			err = end(client)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := server.Failed(); err != nil {
		return nil, err
	}
	own := userAfter + systemAfter - user - system
	output, err := os.ReadFile(c.Log)
	if err != nil {
		return nil, err
	}
	x := &Sample{Lane: sc.name(l), Server: l.Server, Client: l.Client.Name, ServerSeconds: own.Seconds(), ClientSeconds: (clientUser + clientSystem).Seconds()}
	if x.Tally, err = l.Client.parse(output); err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(output))
	}
	x.ServerCore, x.ClientCore = after[0].since(before[0], own), after[1].since(before[1], clientUser+clientSystem)
	if n, err := strconv.ParseInt(sc.list(l), 10, 64); err == nil && n >= 1<<20 {
		x.FileBytes = n
	}
	switch {
	case x.Fault != "":
		x.Discarded = x.Fault
	case x.answered() == 0 || x.Seconds <= 0:
		x.Discarded = "no request was answered"
	case s.Smoke:
	default:
		if x.Discarded = x.ServerCore.dirty(s.Limit); x.Discarded == "" {
			x.Discarded = x.ClientCore.dirty(s.Limit)
		}
	}
	return x, nil
}

// run runs a client to its end.
func (s *Suite) run(ctx context.Context, c target.Command, d time.Duration) (*target.Process, error) {
	p, err := s.Place.Keeper.Spawn(c)
	if err != nil {
		return nil, err
	}
	p.Expect()
	late := time.NewTimer(d + 20*time.Second)
	defer late.Stop()
	select {
	case <-p.Done():
		return p, nil
	case <-late.C:
		return nil, errors.Join(errors.New("the client did not end"), p.Stop(time.Second))
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.Stop(time.Second))
	}
}

// check asks for one file of the list, the next one each time, and compares status,
// length and every byte. A foreign server on the port, or a broken cache, ends here.
//
// Pages are checked by the client alone: status, and that the file can be in them.
func (s *Suite) check(ctx context.Context, server *peers.Peer, root, list string) error {
	paths := s.paths[list]
	if len(paths) == 0 {
		return nil
	}
	path := paths[s.checks*271%len(paths)] // a prime, so that turns reach every class
	s.checks++
	want, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		return err
	}
	rq, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+server.Address.String()+path, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, Timeout: 10 * time.Second}
	rs, err := client.Do(rq)
	if err != nil {
		return err
	}
	defer rs.Body.Close()
	got, err := io.ReadAll(rs.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	case rs.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: status %d", path, rs.StatusCode)
	case rs.ContentLength != int64(len(want)) || !bytes.Equal(got, want):
		return fmt.Errorf("%s: %d bytes of length %d are not the file's %d", path, len(got), rs.ContentLength, len(want))
	}
	return nil
}

func (s *Suite) path(name string) string {
	return filepath.Join(s.Module, "bench", filepath.FromSlash(name))
}
func (s *Suite) list(name string) string { return filepath.Join(s.Work, "lists", name) }
