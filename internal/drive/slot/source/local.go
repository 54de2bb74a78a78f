package source

import (
	"net"
	"net/netip"

	"tidemark.dev/internal/ground/fault"
)

// Needed returns how many source addresses a rate of connections per second needs: at most 400 connections/s
// for each pair of a source and one of so many target addresses, and at most 1,000 per source, because an address
// has 64,512 ports that rest for 60 s each.
func Needed(perSecond float64, targets int) int {
	per := min(pairRate*max(1, targets), sourceRate)
	n := int(perSecond / float64(per))
	if float64(n*per) < perSecond {
		n++
	}
	return max(1, n)
}

// Local lists at most n local addresses to connect to target from, for agent number agent (from 0): a part of
// 127.0.0.2 and following that no other agent gets for a target in 127/8; otherwise the addresses of the interface
// that leads to the target. Nil means that the kernel should choose, as for ::1, which is a single address.
func Local(target netip.Addr, agent, n int) ([]netip.Addr, error) {
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
