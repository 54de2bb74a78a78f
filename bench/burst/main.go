// Command burst is our own driver as a client of the suites: an unpaced closed loop
// over the web99 workload that checks what it receives. Its result is one line of JSON.
//
//	burst ADDRESS CONNECTIONS DURATION DIRECTORIES SEED VERIFY FULL CORE
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"tidemark.dev/internal/drive/probe"
	"tidemark.dev/internal/drive/slot"
	"tidemark.dev/internal/edge/proc"
	"tidemark.dev/internal/model/workload"
)

func main() {
	p, release := proc.Real()
	result, err := burst(context.Background(), p.Args)
	release()
	if err != nil {
		fmt.Fprintln(p.Stderr, err)
		p.Exit(1)
	}
	if err := json.NewEncoder(p.Stdout).Encode(result); err != nil {
		p.Exit(1)
	}
}

type result struct {
	Requests uint64  `json:"requests"`
	Seconds  float64 `json:"seconds"`
	Bytes    int64   `json:"bytes"`
	Fault    string  `json:"fault,omitempty"`
}

func burst(ctx context.Context, args []string) (*result, error) {
	if len(args) != 8 {
		return nil, fmt.Errorf("eight arguments are needed, not %d", len(args))
	}
	var numbers [5]int // connections, directories, seed, verify, core
	var err error
	for i, place := range []int{1, 3, 4, 5, 7} {
		if numbers[i], err = strconv.Atoi(args[place]); err != nil {
			return nil, err
		}
	}
	connections, dirs, seed, verify, core := numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
	address, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return nil, err
	}
	duration, err := time.ParseDuration(args[2])
	if err != nil {
		return nil, err
	}
	full, err := strconv.ParseBool(args[6])
	if err != nil {
		return nil, err
	}
	w, err := workload.Preset("web99")
	if err != nil {
		return nil, err
	}
	if !full { // as other clients do: connections stay, as long as a workload can say
		w.Sessions.KeepaliveShare, w.Sessions.Shortest, w.Sessions.Longest = 1, 255, 255
	}
	// Raw throughput over the kernel's own sockets, as other clients have them; the line is for rated loads.
	w.Pacing.RecvBufferBytes, w.Pacing.SegmentBytes = 0, 0
	sources, err := slot.LocalSources(address.Addr(), 0, 16)
	if err != nil {
		return nil, err
	}
	runtime.GOMAXPROCS(2) // the collector beside the loop's thread
	e, err := slot.New(slot.Plan{
		Targets: []netip.AddrPort{address}, Workload: w, Seed: uint64(seed), FileSeed: uint64(seed),
		Count: connections, Sources: sources, Loops: []int{core}, VerifyEvery: verify,
	})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if full {
		reset := probe.ResetFor(w, connections)
		users, ads, err := probe.New(address, address.String(), w.Routes, w.Pacing.Timeout).Reset(ctx, reset)
		if err != nil {
			return nil, err
		}
		if err := e.SetTables(users, ads); err != nil {
			return nil, err
		}
	}
	b, err := e.BurstWith(ctx, slot.BurstOptions{Duration: duration, Conns: connections, Static: !full, Dirs: dirs, Users: w.UserCount(connections)})
	if err != nil {
		return nil, err
	}
	r := &result{Requests: b.Ops, Seconds: b.Duration.Seconds(), Bytes: b.Bits / 8}
	for class, e := range b.Errors {
		r.Fault = fmt.Sprintf("%d of %d failed, %s: %s", b.Failed, b.Ops, class, e.Example)
	}
	return r, nil
}
