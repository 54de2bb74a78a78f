package fleet

import (
	"context"
	"encoding/json"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
)

// Verb answers one command. It runs on a goroutine of its own and may block;
// ctx ends when the agent leaves.
type Verb func(ctx context.Context, body json.RawMessage) (any, error)

// JoinOptions of an agent.
type JoinOptions struct {
	URL, Token, Credentials string
	Run                     string
	Info                    Info // Agent must be set
	// Verbs by name. "clock" is answered by the package.
	Verbs map[string]Verb
	// Beat returns the body of the next sign of life; nil sends an empty one.
	Beat func() any
}

// Join connects to the run and serves commands until the prime closes, the
// connection is lost for good, or ctx ends.
func Join(ctx context.Context, o JoinOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	opts := []nats.Option{
		nats.Name("tidemark agent " + o.Info.Agent), nats.MaxReconnects(10), nats.ReconnectWait(200 * time.Millisecond),
		nats.ClosedHandler(func(*nats.Conn) { cancel(fault.New(fault.Driver, "fleet %s: connection lost", o.URL)) }),
		// A dead prime must not leave its agents behind: two missed pings end the connection.
		nats.PingInterval(2 * time.Second), nats.MaxPingsOutstanding(2),
	}
	if o.Token != "" {
		opts = append(opts, nats.Token(o.Token))
	}
	if o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(o.Credentials))
	}
	conn, err := nats.Connect(o.URL, opts...)
	if err != nil {
		return fault.Wrap(fault.Driver, err, "fleet "+o.URL)
	}
	defer conn.Close()

	name := o.Info.Agent
	if _, err := conn.Subscribe(subjectCall(o.Run, name), func(m *nats.Msg) {
		go serve(ctx, conn, m, o.Verbs)
	}); err != nil {
		return fault.Wrap(fault.Driver, err, "fleet subscribe")
	}
	leave := make(chan struct{}, 1)
	if _, err := conn.Subscribe(subjectLeave(o.Run, name), func(*nats.Msg) {
		select {
		case leave <- struct{}{}:
		default:
		}
	}); err != nil {
		return fault.Wrap(fault.Driver, err, "fleet subscribe")
	}
	o.Info.Version = Version
	if err := greet(ctx, conn, o); err != nil {
		return err
	}
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); err != nil && err != context.Canceled {
				return err
			}
			return ctx.Err()
		case <-leave:
			return nil
		case <-tick.C:
			beat := nats.NewMsg(subjectBeat(o.Run))
			beat.Header.Set("Tidemark-Agent", name)
			if o.Beat != nil {
				if body, err := json.Marshal(o.Beat()); err == nil {
					beat.Data = body
				}
			}
			_ = conn.PublishMsg(beat) // a missed beat is noticed by the prime
		}
	}
}

// greet says hello until a prime answers, so agents may start first.
func greet(ctx context.Context, conn *nats.Conn, o JoinOptions) error {
	hello, err := json.Marshal(o.Info)
	if err != nil {
		return fault.Wrap(fault.Driver, err, "hello")
	}
	for {
		m, err := conn.RequestWithContext(ctx, subjectHello(o.Run), hello)
		if err == nil {
			var r reply
			if err := json.Unmarshal(m.Data, &r); err != nil {
				return fault.Wrap(fault.Driver, err, "hello")
			}
			return r.err(o.Info.Agent, "hello")
		}
		if ctx.Err() != nil {
			return fault.Wrap(fault.Driver, context.Cause(ctx), "hello")
		}
		select {
		case <-ctx.Done():
			return fault.Wrap(fault.Driver, context.Cause(ctx), "hello")
		case <-time.After(helloEvery):
		}
	}
}

// serve answers one command, in parts when the answer is large.
func serve(ctx context.Context, conn *nats.Conn, m *nats.Msg, verbs map[string]Verb) {
	raw, err := json.Marshal(answer(ctx, m.Data, verbs))
	if err != nil {
		return // cannot happen: reply is plain data
	}
	for {
		part := nats.NewMsg(m.Reply)
		part.Data = raw
		if len(raw) > partBytes {
			part.Data, raw = raw[:partBytes], raw[partBytes:]
			part.Header.Set("Tidemark-More", "1")
			if conn.PublishMsg(part) != nil {
				return // the prime notices: its call runs into the lost agent
			}
			continue
		}
		_ = conn.PublishMsg(part)
		return
	}
}

func answer(ctx context.Context, data []byte, verbs map[string]Verb) reply {
	var c call
	if err := json.Unmarshal(data, &c); err != nil {
		return replyOf(nil, fault.Wrap(fault.Driver, err, "call"))
	}
	if c.Verb == "clock" {
		return replyOf(clock.Now(), nil)
	}
	f := verbs[c.Verb]
	if f == nil {
		return replyOf(nil, fault.New(fault.Driver, "unknown command"))
	}
	return replyOf(f(ctx, c.Body))
}

func splitListen(listen string) (host string, port int, err error) {
	if listen == "" {
		return "127.0.0.1", -1, nil // -1 asks nats-server for a free port
	}
	host, p, err := net.SplitHostPort(listen)
	if err != nil {
		return "", 0, fault.New(fault.Config, "fleet address %q: %v", listen, err)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fault.New(fault.Config, "fleet address %q: bad port", listen)
	}
	if port == 0 {
		port = -1
	}
	return host, port, nil
}
