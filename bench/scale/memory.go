package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidemark.dev/bench/peers"
	"tidemark.dev/bench/suite"
)

// memory is the anonymous resident memory of something at two numbers of connections.
type memory struct {
	Of    string  `json:"of"`
	Few   int64   `json:"few_connections"`
	Many  int64   `json:"many_connections"`
	Less  int64   `json:"few_anonymous_bytes"`
	More  int64   `json:"many_anonymous_bytes"`
	Each  float64 `json:"bytes_per_connection"`
	Fault string  `json:"fault,omitempty"` // why it does not count
}

// each divides the difference.
func (m *memory) each() { m.Each = float64(m.More-m.Less) / float64(m.Many-m.Few) }

const slots = "a rated slot of the driver"

// memory measures what a connection at rest costs servers and a slot the driver.
func (s *scaling) memory(ctx context.Context, m *suite.Suite, r *result) error {
	var failed error
	servers := []string{"tidemark", "nginx", "lighttpd", "h2o"}
	given := map[string]bool{} // up
	for range m.Rounds {
		for _, name := range servers {
			if given[name] {
				continue
			}
			x, err := s.atRest(ctx, m, name)
			if err != nil {
				given[name] = true
				r.Notes = append(r.Notes, fmt.Sprintf("memory of %s: %v", name, err))
				if !errors.Is(err, peers.ErrMissing) {
					failed = errors.Join(failed, err)
				}
				continue
			}
			r.Memory = append(r.Memory, x)
			m.Say("memory       %-12s %.0f bytes for each idle connection", name, x.Each)
		}
		x, err := s.ofSlots(ctx, m)
		if err != nil {
			return errors.Join(failed, err)
		}
		r.Memory = append(r.Memory, x)
		m.Say("memory       driver       %.0f bytes for each slot %s", x.Each, x.Fault)
	}
	t := suite.Table{
		Title: "User memory of a connection", Columns: []string{"of", "connections", "bytes each", "n"},
		Note: "Anonymous resident memory of the processes, the difference between few and many over their number. Connections at rest have had one answer of 100 bytes.\n" +
			"Those of a driver are under way at line speed; sockets are the kernel's and in neither.",
	}
	for _, of := range append(servers, slots) {
		var each []float64
		var few, many int64
		for _, x := range r.Memory {
			if x.Of == of && x.Fault == "" {
				each, few, many = append(each, x.Each), x.Few, x.Many
			}
		}
		v := suite.Median(each)
		switch of {
		case "tidemark":
			r.Bounds = append(r.Bounds, suite.Reached{Measure: "user memory of an idle server connection", Unit: "bytes", Must: 1024, Aim: 1024}.Judge(v))
		case slots:
			r.Bounds = append(r.Bounds, suite.Reached{Measure: "user memory of a rated slot", Unit: "bytes", Must: 2048, Aim: 2048}.Judge(v))
		}
		if v.N > 0 {
			t.Rows = append(t.Rows, []string{of, fmt.Sprintf("%d and %d", few, many), v.Words(0), fmt.Sprint(v.N)})
		}
	}
	r.tables = append(r.tables, t)
	return failed
}

// atRest measures a server.
func (s *scaling) atRest(ctx context.Context, m *suite.Suite, name string) (x *memory, err error) {
	place := m.Place
	place.Connections = room(s.idle)
	server, err := m.Start(ctx, place, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Stop(3*time.Second)) }()
	x = &memory{Of: name, Few: s.idle / 10, Many: s.idle}
	for _, at := range []struct {
		n  int64
		to *int64
	}{{x.Few, &x.Less}, {x.Many, &x.More}} {
		err := m.Idle(ctx, server, "100", int(at.n), func() error {
			for _, p := range server.Processes() {
				*at.to += suite.Anonymous(p.Pid, false)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	x.each()
	return x, nil
}

// ofSlots measures the drivers of two runs of the product against a C limit.
func (s *scaling) ofSlots(ctx context.Context, m *suite.Suite) (x *memory, err error) {
	place, err := m.ProductPlace(ctx)
	if err != nil {
		return nil, err
	}
	path, err := m.Workload("memory", suite.StaticOnly+suite.StayOpen)
	if err != nil {
		return nil, err
	}
	server, err := m.Start(ctx, place, "C epoll")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Stop(3*time.Second)) }()
	x = &memory{Of: slots, Few: s.idle / 10, Many: s.idle}
	for _, at := range []struct {
		n  int64
		to *int64
	}{{x.Few, &x.Less}, {x.Many, &x.More}} {
		r, err := m.Product(ctx, suite.Product{
			Name: "memory", Peer: server, Workload: path, Load: int(at.n), Window: 2 * time.Second, Limit: 10 * time.Minute,
			Look: func(pid int) { *at.to = max(*at.to, suite.Anonymous(pid, true)) },
		})
		if err != nil {
			return nil, err
		}
		reached := false
		for _, w := range r.Iterations {
			reached = reached || int64(w.Load) == at.n && w.Ops > 0
		}
		if !reached {
			x.Fault = "the load was never reached: " + r.Why()
		}
	}
	x.each()
	return x, nil
}
