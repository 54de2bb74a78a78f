package slot

import (
	"net"
	"net/netip"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
)

// Limits of connecting.
const (
	// pairRate is the highest planned rate of connections per second for one pair of source and target address.
	pairRate = 400
	// quiet is how long a local port must rest after its connection was closed: the TIME_WAIT of Linux.
	quiet = 60 * secondNS
	// sourceRate is what the ports of one source address allow when each rests for quiet: (65536-1024)/60, rounded down.
	sourceRate = 1000

	secondNS = clock.Instant(1e9)
)

// ports hands out local (address, port) pairs, the longest-rested first: addresses in turn, and the ports of each
// address in sequence, so that a port comes again only when all others of its address have been used.
//
// Reuse is judged from the close of the last connection, not from its opening, and it is counted, not refused: a
// burst may need more connections than 60 s of ports. The obvious alternative, letting the kernel choose
// (IP_BIND_ADDRESS_NO_PORT), reuses ports at random and cannot say when it reused one early.
//
// Loop goroutine. No allocation after newPorts. Never blocks.
type ports struct {
	addrs []netip.Addr
	first uint32
	next  []uint32   // per address: offset of the port to look at next
	freed [][]uint32 // per address and port: tenths of a second + 1 at the last close; 0 never used; held
	turn  int        // address whose turn it is

	reuse, busy uint64 // pairs handed out too early, pairs somebody else held
}

// held marks a pair in use.
const held = ^uint32(0)

// pair names an allocated (address, port).
type pair struct {
	addr uint16
	port uint16 // 0: none
}

// newPorts serves loop k of n with its part of the addresses, or where there are fewer addresses than loops, with
// its part of every address's ports.
//
// The sequence begins at a place that moves with the clock as fast as sourceRate uses ports up, so that a process
// that starts soon after another one on the same host goes on about where that one stopped, instead of using its
// ports again.
func newPorts(addrs []netip.Addr, first, last uint16, k, n int, now clock.Instant) *ports {
	lo, count := uint32(first), uint32(last)-uint32(first)+1
	mine := addrs
	if len(addrs) >= n {
		mine = nil
		for i := k; i < len(addrs); i += n {
			mine = append(mine, addrs[i])
		}
	} else {
		a, b := count*uint32(k)/uint32(n), count*uint32(k+1)/uint32(n)
		lo, count = lo+a, b-a
	}
	p := &ports{addrs: mine, first: lo, next: make([]uint32, len(mine)), freed: make([][]uint32, len(mine))}
	begin := uint32(int64(now) / (int64(secondNS) / sourceRate) % int64(count))
	for i := range p.freed {
		p.freed[i], p.next[i] = make([]uint32, count), begin
	}
	return p
}

func tenths(now clock.Instant) uint32 { return uint32(int64(now)/1e8&(1<<31-1)) + 1 }

// take returns a pair whose port has rested, or if there is none the first free one, counted as reuse. ok is false
// when every pair is held.
func (p *ports) take(now clock.Instant) (pair, bool) {
	early := pair{}
	for range p.addrs {
		a := p.turn
		if p.turn++; p.turn == len(p.addrs) {
			p.turn = 0
		}
		off, found := p.free(a)
		if !found {
			continue
		}
		if p.rested(p.freed[a][off], now) {
			p.hold(a, off)
			return pair{uint16(a), uint16(p.first + off)}, true
		}
		if early.port == 0 {
			early = pair{uint16(a), uint16(p.first + off)}
		}
	}
	if early.port == 0 {
		return pair{}, false
	}
	p.reuse++
	p.hold(int(early.addr), uint32(early.port)-p.first)
	return early, true
}

// free returns the next port of address a that is not held.
func (p *ports) free(a int) (off uint32, found bool) {
	table := p.freed[a]
	off = p.next[a]
	for range table {
		if table[off] != held {
			return off, true
		}
		if off++; off == uint32(len(table)) {
			off = 0
		}
	}
	return 0, false
}

func (p *ports) hold(a int, off uint32) {
	p.freed[a][off] = held
	if off++; off == uint32(len(p.freed[a])) {
		off = 0
	}
	p.next[a] = off
}

func (p *ports) rested(freed uint32, now clock.Instant) bool {
	return freed == 0 || tenths(now)-freed > uint32(quiet/1e8)
}

// give returns a pair when its connection is closed.
func (p *ports) give(r pair, now clock.Instant) {
	if r.port != 0 {
		p.freed[r.addr][uint32(r.port)-p.first] = tenths(now)
	}
}

// address returns the local address of r.
func (p *ports) address(r pair) netip.AddrPort { return netip.AddrPortFrom(p.addrs[r.addr], r.port) }

// SourcesNeeded returns how many source addresses a rate of connections per second needs: at most 400 connections/s
// for each pair of a source and one of so many target addresses, and at most 1,000 per source, because an address
// has 64,512 ports that rest for 60 s each.
func SourcesNeeded(perSecond float64, targets int) int {
	per := min(pairRate*max(1, targets), sourceRate)
	n := int(perSecond / float64(per))
	if float64(n*per) < perSecond {
		n++
	}
	return max(1, n)
}

// LocalSources lists at most n local addresses to connect to target from, for agent number agent (from 0): a part of
// 127.0.0.2 and following that no other agent gets for a target in 127/8; otherwise the addresses of the interface
// that leads to the target. Nil means that the kernel should choose, as for ::1, which is a single address.
func LocalSources(target netip.Addr, agent, n int) ([]netip.Addr, error) {
	target = target.Unmap()
	switch {
	case n <= 0:
		return nil, nil
	case target.Is4() && target.IsLoopback():
		return loopbackSources(target, agent, n)
	case target.IsLoopback():
		return nil, nil
	}
	return interfaceSources(target, n)
}

func loopbackSources(target netip.Addr, agent, n int) ([]netip.Addr, error) {
	list := make([]netip.Addr, 0, n)
	skip := agent * n
	a := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	for len(list) < n {
		a = a.Next()
		if !a.Next().IsLoopback() { // the last address is the broadcast address
			return nil, fault.New(fault.Driver, "127.0.0.0/8 has no %d source addresses for agent %d", n, agent)
		}
		if a == target {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		list = append(list, a)
	}
	return list, nil
}

// interfaceSources asks the routing table for the source address towards target (no packet is sent) and lists the
// addresses that share its interface and family.
func interfaceSources(target netip.Addr, n int) ([]netip.Addr, error) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(target, 9)))
	if err != nil {
		return nil, fault.Wrap(fault.Network, err, "route to "+target.String())
	}
	local := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	_ = c.Close() // nothing was sent on it
	all, err := net.Interfaces()
	if err != nil {
		return nil, fault.Wrap(fault.Driver, err, "interfaces")
	}
	for _, ifc := range all {
		nets, err := ifc.Addrs()
		if err != nil {
			continue // the interface vanished meanwhile
		}
		var list []netip.Addr
		mine := false
		for _, a := range nets {
			ipn, ok := a.(*net.IPNet)
			if !ok {
				continue
			}
			addr, ok := netip.AddrFromSlice(ipn.IP)
			addr = addr.Unmap()
			if !ok || addr.Is4() != target.Is4() || addr.IsLinkLocalUnicast() {
				continue
			}
			mine = mine || addr == local.WithZone("")
			if len(list) < n {
				list = append(list, addr)
			}
		}
		if mine {
			return list, nil
		}
	}
	return []netip.Addr{local}, nil
}
