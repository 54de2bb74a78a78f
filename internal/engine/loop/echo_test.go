//go:build linux

package loop

import (
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// echo returns what it receives, each piece whole before it reads on.
type echo struct {
	script
	l     *Loop
	store map[ID][]byte
	max   int
}

func newEcho(max int) *echo {
	e := &echo{store: map[ID][]byte{}, max: max}
	e.accepted = func(id ID, _ int, _ netip.AddrPort) { e.l.Recv(id, e.max) }
	e.received = func(id ID, b []byte, err error) {
		if err != nil || len(b) == 0 {
			e.l.Close(id)
			return
		}
		e.store[id] = append(e.store[id][:0], b...)
		if e.l.Send(id, nil, e.store[id], nil) {
			e.l.Recv(id, e.max)
		}
	}
	e.sent = func(id ID, err error) {
		if err != nil {
			e.l.Close(id)
			return
		}
		e.l.Recv(id, e.max)
	}
	return e
}

func TestEchoesManyConnectionsByteForByte(t *testing.T) {
	onEach(t, testEchoesManyConnectionsByteForByte)
}

func testEchoesManyConnectionsByteForByte(t *testing.T, o Options) {
	e := newEcho(32 << 10)
	e.l = made(t, o, e)
	addr := listen(t, e.l, ListenOptions{NoDelay: true})
	start(t, e.l)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			c, err := net.Dial("tcp", addr.String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			want := noise(rng.IntN(300<<10)+1, uint64(i))
			wg.Go(func() {
				for left := want; len(left) > 0; {
					n := min(len(left), rng.IntN(50<<10)+1)
					if _, err := c.Write(left[:n]); err != nil {
						t.Error(err)
						return
					}
					left = left[n:]
				}
			})
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c, got); err != nil {
				t.Error(err)
				return
			}
			same(t, got, want)
		})
	}
	wg.Wait()
	on(t, e.l, func() {
		if s := e.l.Stats(); s.Accepts != 100 || s.SendBytes != s.RecvBytes {
			t.Errorf("stats: %+v", s)
		}
	})
}
