package run

import (
	"net"
	"net/netip"
)

// LocalTarget tells whether an address is one of this machine.
func LocalTarget(a netip.Addr) bool {
	a = a.Unmap()
	if a.IsLoopback() {
		return true
	}
	for _, p := range interfaces() {
		if p.addr == a {
			return true
		}
	}
	return false
}

type local struct {
	addr netip.Addr
	net  netip.Prefix
	mtu  int
}

// interfaces lists this machine's addresses. A machine that will not say has none.
func interfaces() []local {
	var out []local
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				out = append(out, local{addr: p.Addr().Unmap(), net: p.Masked(), mtu: i.MTU})
			}
		}
	}
	return out
}

// pathMTU is the MTU of the interface that leads to the target, 0 where that is not known: a target on no local
// network lies behind a router.
func pathMTU(target netip.AddrPort) int {
	for _, l := range interfaces() {
		if l.net.Contains(target.Addr().Unmap()) {
			return l.mtu
		}
	}
	return 0
}
