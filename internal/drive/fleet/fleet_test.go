package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
)

func open(t *testing.T) *Prime {
	t.Helper()
	p, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// join starts an agent in this process and returns its end.
func join(t *testing.T, p *Prime, name string, verbs map[string]Verb) (context.CancelFunc, <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	end := make(chan error, 1)
	go func() {
		end <- Join(ctx, JoinOptions{URL: p.URL(), Token: p.Token(), Run: p.Run(), Info: Info{Agent: name}, Verbs: verbs})
	}()
	return cancel, end
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestCallReachesEveryAgent(t *testing.T) {
	p := open(t)
	double := func(_ context.Context, body json.RawMessage) (any, error) {
		var n int
		err := json.Unmarshal(body, &n)
		return 2 * n, err
	}
	join(t, p, "a", map[string]Verb{"double": double})
	join(t, p, "b", map[string]Verb{"double": double})
	ctx := deadline(t)
	agents, err := p.Await(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	if len(agents) != 2 || agents[0].Agent != "a" || agents[1].Agent != "b" {
		t.Fatalf("agents %+v", agents)
	}
	err = p.Each(agents, func(i Info) error {
		var got int
		if err := p.Call(ctx, i.Agent, "double", 21, &got); err != nil {
			return err
		}
		if got != 42 {
			t.Errorf("%s doubled 21 to %d", i.Agent, got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestLargeRepliesTravelWhole(t *testing.T) {
	p := open(t)
	want := strings.Repeat("0123456789abcdef", 200_000) // 3.2 MB, several parts
	join(t, p, "a", map[string]Verb{"blob": func(context.Context, json.RawMessage) (any, error) { return want, nil }})
	ctx := deadline(t)
	if _, err := p.Await(ctx, 1); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := p.Call(ctx, "a", "blob", nil, &got); err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Fatalf("got %d bytes of %d, or other ones", len(got), len(want))
	}
}

func TestErrorsKeepOriginAndHints(t *testing.T) {
	p := open(t)
	join(t, p, "a", map[string]Verb{"fail": func(context.Context, json.RawMessage) (any, error) {
		return nil, fault.Hint(fault.New(fault.Target, "connection refused"), "is it running?")
	}})
	ctx := deadline(t)
	if _, err := p.Await(ctx, 1); err != nil {
		t.Fatal(err)
	}
	err := p.Call(ctx, "a", "fail", nil, nil)
	if fault.OriginOf(err) != fault.Target || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error %v of origin %v", err, fault.OriginOf(err))
	}
	if hints := fault.Hints(err); len(hints) != 1 || hints[0] != "is it running?" {
		t.Errorf("hints %q", hints)
	}
	if err := p.Call(ctx, "a", "nonsense", nil, nil); err == nil {
		t.Error("an unknown command was answered without an error")
	}
}

func TestForgottenAgentFailsItsCallsAtOnce(t *testing.T) {
	p := open(t)
	started := make(chan struct{})
	join(t, p, "a", map[string]Verb{"hang": func(ctx context.Context, _ json.RawMessage) (any, error) {
		close(started)
		<-ctx.Done()
		return nil, nil
	}})
	ctx := deadline(t)
	if _, err := p.Await(ctx, 1); err != nil {
		t.Fatal(err)
	}
	end := make(chan error, 1)
	go func() { end <- p.Call(ctx, "a", "hang", nil, nil) }()
	<-started
	p.Forget("a", errors.New("its process ended"))
	if err := <-end; fault.OriginOf(err) != fault.Driver {
		t.Errorf("call ended with %v", err)
	}
	if err := <-p.Lost(); !strings.Contains(err.Error(), "its process ended") {
		t.Errorf("lost: %v", err)
	}
	if left := p.Agents(); len(left) != 0 {
		t.Errorf("agents left: %v", left)
	}
}

func TestWrongTokenIsRefused(t *testing.T) {
	p := open(t)
	err := Join(deadline(t), JoinOptions{URL: p.URL(), Token: "guess", Run: p.Run(), Info: Info{Agent: "x"}})
	if err == nil {
		t.Fatal("a wrong token was let in")
	}
}

func TestAgentsLeaveWithThePrime(t *testing.T) {
	p := open(t)
	_, end := join(t, p, "a", nil)
	if _, err := p.Await(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if err := <-end; err != nil {
		t.Errorf("agent left with %v", err)
	}
}

func TestClocksOfOneHostAgree(t *testing.T) {
	p := open(t)
	join(t, p, "a", nil)
	agents, err := p.Await(deadline(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	i := agents[0]
	if off := time.Duration(i.OffsetNS).Abs(); off > time.Duration(i.RoundTripNS) {
		t.Errorf("offset %v is larger than the round trip %v it was taken from", off, time.Duration(i.RoundTripNS))
	}
	now := clock.Now()
	if i.ToPrime(i.ToAgent(now)) != now {
		t.Error("mapping an instant there and back changes it")
	}
}
