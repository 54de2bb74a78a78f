package source

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
)

func sources(n int) (list []netip.Addr) {
	a := netip.MustParseAddr("127.0.0.2")
	for range n {
		list = append(list, a)
		a = a.Next()
	}
	return list
}

// TestPortsRest opens connections at the planned rate for minutes, holds each for a while, and looks for pairs that
// come back before they have rested.
func TestPortsRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.IntRange(50, 4000).Draw(t, "rate")
		hold := time.Duration(rapid.IntRange(0, 20_000).Draw(t, "hold_ms")) * time.Millisecond
		loops := rapid.IntRange(1, 3).Draw(t, "loops")
		addrs := sources(Needed(float64(rate*loops), 1))
		p := New(addrs, 1024, 65535, rapid.IntRange(0, loops-1).Draw(t, "loop"), loops, 77)
		// The loop's addresses carry rate connections/s; fewer where they are not dealt evenly.
		rate = min(rate, len(p.addrs)*pairRate)
		if len(addrs) < loops {
			rate = min(rate, len(addrs)*sourceRate/loops)
		}
		step := clock.Instant(1e9) / clock.Instant(rate)
		closed := map[netip.AddrPort]clock.Instant{}
		type open struct {
			r     Pair
			until clock.Instant
		}
		var queue []open
		now := clock.Instant(rapid.Int64Range(0, 1e15).Draw(t, "now"))
		for range min(rate*150, 30_000) {
			now += step
			for len(queue) > 0 && queue[0].until <= now {
				closed[p.Address(queue[0].r)] = queue[0].until
				p.Give(queue[0].r, queue[0].until)
				queue = queue[1:]
			}
			r, found := p.Take(now)
			if !found {
				t.Fatal("no pair left")
			}
			at := p.Address(r)
			if last, used := closed[at]; used && now.Sub(last) < 60*time.Second {
				t.Fatalf("%v used again after %v", at, now.Sub(last))
			}
			for _, o := range queue[max(0, len(queue)-3):] {
				if o.r == r {
					t.Fatalf("%v handed out twice", at)
				}
			}
			queue = append(queue, open{r, now.Add(hold)})
		}
		if p.Reuse != 0 {
			t.Fatalf("%d early reuses counted, none made", p.Reuse)
		}
	})
}

// TestPortsCountReuse exhausts a small range: held pairs never come twice, early ones are counted, and when all are
// held there is none.
func TestPortsCountReuse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "ports")
		p := New(sources(rapid.IntRange(1, 3).Draw(t, "addresses")), 5000, uint16(5000+n-1), 0, 1, 1e12)
		all := n * len(p.addrs)
		held := map[Pair]bool{}
		closed := map[Pair]clock.Instant{}
		now := clock.Instant(1e12)
		early := uint64(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			if rapid.Bool().Draw(t, "give") {
				for r := range held {
					p.Give(r, now)
					delete(held, r)
					closed[r] = now
					break
				}
				continue
			}
			r, found := p.Take(now)
			if found != (len(held) < all) {
				t.Fatalf("found %v with %d of %d held", found, len(held), all)
			}
			if !found {
				continue
			}
			if held[r] || r.Port < 5000 || int(r.Port) >= 5000+n {
				t.Fatalf("%v handed out twice or out of range", r)
			}
			if last, used := closed[r]; used && now.Sub(last) <= 60*time.Second {
				early++
			}
			held[r] = true
		}
		// Rest is counted in tenths of a second, so the count may be a little strict.
		if p.Reuse < early {
			t.Fatalf("%d early reuses, %d counted", early, p.Reuse)
		}
	})
}

// TestPortsOfLoopsAreDisjoint deals addresses, or ports where addresses are few.
func TestPortsOfLoopsAreDisjoint(t *testing.T) {
	for _, c := range []struct{ addrs, loops int }{{1, 3}, {2, 3}, {3, 3}, {7, 3}, {4, 1}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			seen := map[netip.AddrPort]bool{}
			for k := range c.loops {
				p := New(sources(c.addrs), 2000, 2099, k, c.loops, 1e15)
				for {
					r, found := p.Take(1e9)
					if !found {
						break
					}
					if a := p.Address(r); seen[a] {
						t.Fatalf("%v belongs to two loops", a)
					} else {
						seen[a] = true
					}
				}
			}
			if len(seen) != c.addrs*100 {
				t.Errorf("%d pairs, want %d", len(seen), c.addrs*100)
			}
		})
	}
}

func TestNeeded(t *testing.T) {
	for _, c := range []struct {
		rate    float64
		targets int
		want    int
	}{{0, 1, 1}, {400, 1, 1}, {401, 1, 2}, {5900, 1, 15}, {5900, 2, 8}, {5900, 100, 6}} {
		if got := Needed(c.rate, c.targets); got != c.want {
			t.Errorf("%v connections/s to %d targets need %d sources, want %d", c.rate, c.targets, got, c.want)
		}
	}
}

func TestLocal(t *testing.T) {
	seen := map[netip.Addr]bool{}
	target := netip.MustParseAddr("127.0.0.3")
	for agent := range 300 {
		list, err := Local(target, agent, 2)
		if err != nil || len(list) != 2 {
			t.Fatal(list, err)
		}
		for _, a := range list {
			if seen[a] || a == target || !a.IsLoopback() || a == netip.MustParseAddr("127.0.0.1") {
				t.Fatalf("agent %d gets %v", agent, a)
			}
			seen[a] = true
		}
	}
	if list, err := Local(target, 16_000_000, 2); err == nil {
		t.Errorf("addresses behind the end: %v", list)
	} else if fault.OriginOf(err) != fault.Driver {
		t.Error(err)
	}
	if list, err := Local(netip.IPv6Loopback(), 0, 5); err != nil || list != nil {
		t.Errorf("::1 gives %v, %v", list, err)
	}
	if list, err := Local(target, 0, 0); err != nil || list != nil {
		t.Errorf("none wanted gives %v, %v", list, err)
	}
}
