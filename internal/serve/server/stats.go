package server

import (
	"sync"
	"time"

	"tidemark.dev/internal/engine/loop"
	"tidemark.dev/internal/ground/binlog"
	"tidemark.dev/internal/serve/cache"
	"tidemark.dev/internal/serve/h1"
)

// Stats are the counters of all loops together, and of what they share.
type Stats struct {
	HTTP  h1.Stats
	Loops []loop.Stats // one by one: connections spread unevenly
	Cache cache.Stats
	Log   binlog.Stats
}

// Stats returns the counters. Any goroutine; waits for the turns that the loops are in.
func (s *Server) Stats() Stats {
	select {
	case <-s.closed:
		return s.last
	default:
	}
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	if !running {
		return s.sum()
	}
	out := Stats{Loops: make([]loop.Stats, len(s.units))}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, u := range s.units {
		wg.Add(1)
		take := func() {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			out.add(i, u)
		}
		if !u.loop.Post(take) { // it has just ended, and release will follow
			wg.Done()
		}
	}
	wg.Wait()
	s.shared(&out)
	return out
}

// sum adds up what nobody changes any more, or yet.
func (s *Server) sum() Stats {
	out := Stats{Loops: make([]loop.Stats, len(s.units))}
	for i, u := range s.units {
		if u.loop != nil {
			out.add(i, u)
		}
	}
	s.shared(&out)
	return out
}

func (s *Server) shared(out *Stats) {
	if s.cache != nil {
		out.Cache = s.cache.Stats()
	}
}

func (out *Stats) add(i int, u *unit) {
	out.Loops[i] = u.loop.Stats()
	a, b := &out.HTTP, u.carrier.Stats()
	a.Accepted += b.Accepted
	a.Open += b.Open
	a.Requests += b.Requests
	a.Responses += b.Responses
	a.Bytes += b.Bytes
	a.Refused += b.Refused
	a.Aborted += b.Aborted
	a.Timeouts += b.Timeouts
	a.Panics += b.Panics
	a.Hits += b.Hits
	if u.log != nil {
		c, d := &out.Log, u.log.Stats()
		c.Records += d.Records
		c.Blocks += d.Blocks
		c.Bytes += d.Bytes
		c.Waits += d.Waits
		c.Waited += time.Duration(d.Waited)
		c.Errors += d.Errors
		c.Lost += d.Lost
		c.Cut += d.Cut
	}
}
