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

// TestPortsRest opens connections for minutes at the rate the ports of a small range allow, holds each for a while,
// and looks for pairs that come back before they have rested, over several rounds of the range.
func TestPortsRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.IntRange(1, 15).Draw(t, "rate_per_address")
		hold := rapid.IntRange(0, 5).Draw(t, "hold_seconds")
		loops := rapid.IntRange(1, 3).Draw(t, "loops")
		addrs := sources(rapid.IntRange(1, 6).Draw(t, "addresses"))
		if len(addrs) < loops {
			rate = max(loops, rate/loops*loops) // shared among the loops
		}
		ports := (rate + 1) * (60 + hold + 1)
		now := clock.Instant(rapid.Int64Range(0, 1e15).Draw(t, "now"))
		p := New(addrs, 1024, uint16(1024+ports-1), rapid.IntRange(0, loops-1).Draw(t, "loop"), loops, now)
		if len(addrs) < loops {
			rate /= loops
		}
		rate *= len(p.addrs)
		closed := map[netip.AddrPort]clock.Instant{}
		type open struct {
			at    netip.AddrPort
			r     Pair
			until clock.Instant
		}
		var queue []open
		held := map[netip.AddrPort]bool{}
		for range rate * 250 {
			now += clock.Instant(1e9) / clock.Instant(rate)
			for len(queue) > 0 && queue[0].until <= now {
				o := queue[0]
				queue = queue[1:]
				closed[o.at] = o.until
				delete(held, o.at)
				p.Give(o.r, o.until)
			}
			r, found := p.Take(now)
			if !found {
				t.Fatal("no pair left")
			}
			at := p.Address(r)
			if last, used := closed[at]; used && now.Sub(last) < Quiet {
				t.Fatalf("%v used again after %v", at, now.Sub(last))
			}
			if held[at] {
				t.Fatalf("%v handed out twice", at)
			}
			held[at] = true
			queue = append(queue, open{at, r, now.Add(time.Duration(hold) * time.Second)})
		}
		if p.Reuse != 0 {
			t.Fatalf("%d early reuses counted, none made", p.Reuse)
		}
	})
}

// TestNextProcessGoesOn starts a second process while the first one's connections are remembered.
func TestNextProcessGoesOn(t *testing.T) {
	used := map[netip.AddrPort]bool{}
	now := clock.Instant(987e9)
	for process := range 3 {
		p := New(sources(2), 1024, 65535, 0, 1, now)
		for range 20 * 2 * pairRate { // 20 s at the planned rate
			now += 1e9 / (2 * pairRate)
			r, _ := p.Take(now)
			if at := p.Address(r); used[at] {
				t.Fatalf("process %d uses %v again", process, at)
			} else {
				used[at] = true
			}
		}
	}
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

// TestForeignPortIsLeftAlone meets a listener on all addresses: the addresses come to its port one after the other, and
// one look at it must do for all.
func TestForeignPortIsLeftAlone(t *testing.T) {
	now := clock.Instant(1e15)
	p := New(sources(50), 1024, 1033, 0, 1, now)
	for range 20 * 50 {
		r, found := p.Take(now)
		if !found {
			t.Fatal("no port")
		}
		if r.Port == 1029 {
			p.Foreign(r)
			continue
		}
		p.Give(r, now)
	}
	if p.Busy != 1 {
		t.Errorf("the port of somebody else was tried %d times", p.Busy)
	}
}
