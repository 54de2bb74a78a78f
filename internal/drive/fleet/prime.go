package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
)

// Options of a prime.
type Options struct {
	// URL of a NATS server or cluster; empty means an embedded server.
	URL string
	// Listen is the address of the embedded server, "127.0.0.1:0" if empty.
	Listen string
	// Run is the identity of the run, part of every subject. Empty draws one.
	Run string
	// Token is the secret of the embedded server. Empty draws one.
	Token string
	// Credentials is a NATS credentials file for URL.
	Credentials string
}

// Prime is the commanding process of a run.
type Prime struct {
	run, url, token string

	server *server.Server // nil when URL names one
	conn   *nats.Conn

	mu     sync.Mutex
	agents map[string]*seen
	joined chan struct{} // pulsed on every change of agents
	lost   chan error
	onBeat func(agent string, body []byte)
	done   chan struct{}
	once   sync.Once
}

type seen struct {
	info Info
	beat time.Time
	gone bool
	left chan struct{} // closed when the agent is lost, so that calls fail at once
	why  error         // set before that
}

// Open starts or reaches the NATS server and begins to listen for agents.
func Open(o Options) (*Prime, error) {
	p := &Prime{
		run: o.Run, token: o.Token, url: o.URL,
		agents: map[string]*seen{}, joined: make(chan struct{}, 1),
		lost: make(chan error, 16), done: make(chan struct{}),
	}
	if p.run == "" {
		p.run = secret(6)
	}
	if p.token == "" && o.URL == "" {
		p.token = secret(16)
	}
	if o.URL == "" {
		if err := p.embed(o.Listen); err != nil {
			return nil, err
		}
	}
	opts := []nats.Option{nats.Name("tidemark prime"), nats.MaxReconnects(10), nats.ReconnectWait(200 * time.Millisecond)}
	if p.token != "" {
		opts = append(opts, nats.Token(p.token))
	}
	if o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(o.Credentials))
	}
	var err error
	if p.conn, err = nats.Connect(p.url, opts...); err != nil {
		p.Close()
		return nil, fault.Wrap(fault.Driver, err, "fleet "+p.url)
	}
	if _, err = p.conn.Subscribe(subjectHello(p.run), p.hello); err == nil {
		_, err = p.conn.Subscribe(subjectBeat(p.run), p.beat)
	}
	if err == nil {
		err = p.conn.Flush()
	}
	if err != nil {
		p.Close()
		return nil, fault.Wrap(fault.Driver, err, "fleet subscribe")
	}
	go p.watch()
	return p, nil
}

// embed starts a NATS server that only holders of the token may use.
func (p *Prime) embed(listen string) error {
	host, port, err := splitListen(listen)
	if err != nil {
		return err
	}
	if port > 0 { // the server itself only logs that its port is taken, and goes on
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return fault.Wrap(fault.Config, err, "fleet address")
		}
		_ = l.Close()
	}
	s, err := server.NewServer(&server.Options{
		ServerName: "tidemark-" + p.run, Host: host, Port: port,
		Authorization: p.token, NoLog: true, NoSigs: true, MaxPayload: 8 << 20,
	})
	if err != nil {
		return fault.Wrap(fault.Driver, err, "embedded fleet server")
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		s.Shutdown()
		return fault.New(fault.Driver, "embedded fleet server on %s:%d did not get ready", host, port)
	}
	p.server, p.url = s, s.ClientURL()
	return nil
}

// URL of the NATS server the agents have to reach.
func (p *Prime) URL() string { return p.url }

// Token is the secret an agent needs, empty when the server's own credentials rule.
func (p *Prime) Token() string { return p.token }

// Run is the identity of the run.
func (p *Prime) Run() string { return p.run }

// Lost yields an error for every agent that stopped beating. The error's
// origin is the driver: a load without one of its agents is another load.
func (p *Prime) Lost() <-chan error { return p.lost }

// OnBeat sets the function that gets the body of every beat. It is called on
// the connection's goroutine and must not block.
func (p *Prime) OnBeat(f func(agent string, body []byte)) {
	p.mu.Lock()
	p.onBeat = f
	p.mu.Unlock()
}

// Close tells the agents to leave and shuts the embedded server down.
func (p *Prime) Close() {
	p.once.Do(func() {
		close(p.done)
		if p.conn != nil {
			for _, a := range p.Agents() {
				_ = p.conn.Publish(subjectLeave(p.run, a.Agent), nil)
			}
			_ = p.conn.FlushTimeout(time.Second)
			p.conn.Close()
		}
		if p.server != nil {
			p.server.Shutdown()
			p.server.WaitForShutdown()
		}
	})
}

// Agents lists the agents that are present, ordered by name.
func (p *Prime) Agents() []Info {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []Info
	for _, s := range p.agents {
		if !s.gone {
			out = append(out, s.info)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Agent < out[j].Agent })
	return out
}

// Await blocks until n agents have joined and their clocks are compared.
func (p *Prime) Await(ctx context.Context, n int) ([]Info, error) {
	for {
		if got := p.Agents(); len(got) >= n {
			for i := range got {
				if err := p.compare(ctx, &got[i]); err != nil {
					return nil, err
				}
			}
			return got, nil
		}
		select {
		case <-ctx.Done():
			return nil, fault.New(fault.Driver, "waiting for %d agents, %d joined: %w", n, len(p.Agents()), ctx.Err())
		case err := <-p.lost:
			return nil, err
		case <-p.joined:
		}
	}
}

// compare estimates the agent's clock from the fastest of eight round trips.
func (p *Prime) compare(ctx context.Context, info *Info) error {
	best := time.Duration(1<<63 - 1)
	for range 8 {
		sent := clock.Now()
		var at clock.Instant
		if err := p.Call(ctx, info.Agent, "clock", nil, &at); err != nil {
			return err
		}
		back := clock.Now()
		if rtt := back.Sub(sent); rtt < best {
			best = rtt
			info.OffsetNS = int64(at) - int64(sent) - int64(rtt)/2
			info.RoundTripNS = int64(rtt)
		}
	}
	p.mu.Lock()
	if s := p.agents[info.Agent]; s != nil {
		s.info = *info
	}
	p.mu.Unlock()
	return nil
}

// Call sends one command to one agent and waits for the whole answer. It fails
// as soon as the agent is known to be lost.
func (p *Prime) Call(ctx context.Context, agent, verb string, in, out any) error {
	p.mu.Lock()
	s := p.agents[agent]
	p.mu.Unlock()
	if s == nil || s.gone {
		return fault.New(fault.Driver, "%s: %s: agent is not there", agent, verb)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return fault.Wrap(fault.Driver, err, verb)
	}
	message, err := json.Marshal(call{Verb: verb, Body: body})
	if err != nil {
		return fault.Wrap(fault.Driver, err, verb)
	}
	inbox := p.conn.NewRespInbox()
	parts := make(chan *nats.Msg, 64)
	sub, err := p.conn.ChanSubscribe(inbox, parts)
	if err != nil {
		return fault.Wrap(fault.Driver, err, verb)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := p.conn.PublishRequest(subjectCall(p.run, agent), inbox, message); err != nil {
		return fault.Wrap(fault.Driver, err, agent+": "+verb)
	}
	var raw []byte
	for {
		select {
		case <-ctx.Done():
			return fault.New(fault.Driver, "%s: %s: %w", agent, verb, ctx.Err())
		case <-s.left:
			return fault.New(fault.Driver, "%s: agent %s was lost: %v", verb, agent, s.why)
		case m := <-parts:
			if m.Header.Get("Status") == "503" {
				return fault.New(fault.Driver, "%s: %s: agent does not answer", agent, verb)
			}
			raw = append(raw, m.Data...)
			if m.Header.Get("Tidemark-More") != "" {
				continue
			}
			var r reply
			if err := json.Unmarshal(raw, &r); err != nil {
				return fault.New(fault.Driver, "%s: %s: reply: %v", agent, verb, err)
			}
			if err := r.err(agent, verb); err != nil {
				return err
			}
			if out == nil {
				return nil
			}
			if err := json.Unmarshal(r.Body, out); err != nil {
				return fault.New(fault.Driver, "%s: %s: reply: %v", agent, verb, err)
			}
			return nil
		}
	}
}

// Each calls f for every agent at once and returns the first error.
func (p *Prime) Each(agents []Info, f func(Info) error) error {
	errs := make(chan error, len(agents))
	for _, a := range agents {
		go func() { errs <- f(a) }()
	}
	var first error
	for range agents {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Forget marks an agent as lost at once, for example because its process ended.
func (p *Prime) Forget(agent string, why error) {
	p.mu.Lock()
	s := p.agents[agent]
	known := s != nil && !s.gone
	if known {
		s.gone, s.why = true, why
		close(s.left)
	}
	p.mu.Unlock()
	if known || why != nil {
		select {
		case p.lost <- fault.New(fault.Driver, "agent %s was lost: %v", agent, why):
		default:
		}
	}
}

func (p *Prime) hello(m *nats.Msg) {
	var info Info
	if err := json.Unmarshal(m.Data, &info); err != nil || info.Agent == "" {
		return
	}
	answer := reply{}
	if info.Version != Version {
		answer.Error = fmt.Sprintf("agent speaks fleet version %d, this prime speaks %d", info.Version, Version)
		answer.Origin = fault.Config
	} else {
		p.mu.Lock()
		if s := p.agents[info.Agent]; s == nil {
			p.agents[info.Agent] = &seen{info: info, beat: time.Now(), left: make(chan struct{})}
		}
		p.mu.Unlock()
	}
	if raw, err := json.Marshal(answer); err == nil {
		_ = m.Respond(raw)
	}
	select {
	case p.joined <- struct{}{}:
	default:
	}
}

func (p *Prime) beat(m *nats.Msg) {
	agent := m.Header.Get("Tidemark-Agent")
	p.mu.Lock()
	if s := p.agents[agent]; s != nil {
		s.beat = time.Now()
	}
	f := p.onBeat
	p.mu.Unlock()
	if f != nil && len(m.Data) > 0 {
		f(agent, m.Data)
	}
}

func (p *Prime) watch() {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.done:
			return
		case now := <-tick.C:
			var late []string
			p.mu.Lock()
			for name, s := range p.agents {
				if !s.gone && now.Sub(s.beat) > lostAfter {
					late = append(late, name)
				}
			}
			p.mu.Unlock()
			for _, name := range late {
				p.Forget(name, fmt.Errorf("no sign of life for %v", lostAfter))
			}
		}
	}
}

func secret(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
