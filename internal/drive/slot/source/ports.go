// Package source is where a driver's connections come from: which local addresses there are, and which port of which
// address the next connection takes, so that no pair comes back while the kernel may still remember it.
//
// Call Local for addresses and New for the ports of one loop. The package opens no connection and knows no target but
// by its address.
package source

import (
	"net/netip"
	"time"

	"tidemark.dev/internal/ground/clock"
)

// Limits of connecting.
const (
	// pairRate is the highest planned rate of connections per second for one pair of source and target address.
	pairRate = 400
	// sourceRate is what the ports of one source address allow when each rests for Quiet: (65536-1024)/60, rounded down.
	sourceRate = 1000
	// Quiet is how long a local port must rest after its connection was closed: the TIME_WAIT of Linux.
	Quiet = 60 * time.Second
)

// Ports hands out local (address, port) pairs, the longest-rested first: addresses in turn, and the ports of each
// address in sequence, so that a port comes again only when all others of its address have been used.
//
// Reuse is judged from the close of the last connection, not from its opening, and it is counted, not refused: a
// burst may need more connections than 60 s of ports. The obvious alternative, letting the kernel choose
// (IP_BIND_ADDRESS_NO_PORT), reuses ports at random and cannot say when it reused one early.
//
// Loop goroutine. No allocation after New. Never blocks.
type Ports struct {
	addrs []netip.Addr
	first uint32
	next  []uint32   // per address: offset of the port to look at next
	freed [][]uint32 // per address and port: tenths of a second + 1 at the last close; 0 never used; held
	turn  int        // address whose turn it is

	Reuse, Busy uint64 // pairs handed out too early; pairs the caller found held by somebody else
}

// held marks a pair in use.
const held = ^uint32(0)

// Pair names an allocated (address, port).
type Pair struct {
	Addr uint16
	Port uint16 // 0: none
}

// New serves loop k of n with its part of the addresses, or where there are fewer addresses than loops, with
// its part of every address's ports.
//
// The sequence begins at a place that moves with the clock as fast as sourceRate uses ports up, so that a process
// that starts soon after another one on the same host goes on about where that one stopped, instead of using its
// ports again.
func New(addrs []netip.Addr, first, last uint16, k, n int, now clock.Instant) *Ports {
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
	p := &Ports{addrs: mine, first: lo, next: make([]uint32, len(mine)), freed: make([][]uint32, len(mine))}
	begin := uint32(int64(now) / (int64(time.Second) / sourceRate) % int64(count))
	for i := range p.freed {
		p.freed[i], p.next[i] = make([]uint32, count), begin
	}
	return p
}

func tenths(now clock.Instant) uint32 { return uint32(int64(now)/1e8&(1<<31-1)) + 1 }

// Take returns a pair whose port has rested, or if there is none the first free one, counted as reuse. ok is false
// when every pair is held.
func (p *Ports) Take(now clock.Instant) (Pair, bool) {
	early := Pair{}
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
			return Pair{uint16(a), uint16(p.first + off)}, true
		}
		if early.Port == 0 {
			early = Pair{uint16(a), uint16(p.first + off)}
		}
	}
	if early.Port == 0 {
		return Pair{}, false
	}
	p.Reuse++
	p.hold(int(early.Addr), uint32(early.Port)-p.first)
	return early, true
}

// free returns the next port of address a that is not held.
func (p *Ports) free(a int) (off uint32, found bool) {
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

func (p *Ports) hold(a int, off uint32) {
	p.freed[a][off] = held
	if off++; off == uint32(len(p.freed[a])) {
		off = 0
	}
	p.next[a] = off
}

func (p *Ports) rested(freed uint32, now clock.Instant) bool {
	return freed == 0 || tenths(now)-freed > uint32(Quiet/1e8)
}

// Foreign takes a port that somebody else holds out of use, on every address: most such holders listen on all of them,
// and the addresses use their ports in step.
func (p *Ports) Foreign(r Pair) {
	p.Busy++
	for _, table := range p.freed {
		table[uint32(r.Port)-p.first] = held
	}
}

// Give returns a pair when its connection is closed.
func (p *Ports) Give(r Pair, now clock.Instant) {
	if r.Port != 0 {
		p.freed[r.Addr][uint32(r.Port)-p.first] = tenths(now)
	}
}

// Address returns the local address of r.
func (p *Ports) Address(r Pair) netip.AddrPort { return netip.AddrPortFrom(p.addrs[r.Addr], r.Port) }
