//go:build linux

package loop

import (
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"tidemark.dev/internal/ground/clock"
)

// flow is one direction of a connection: what its sender sends, in which pieces, and
// how its receiver asks for it.
type flow struct {
	from, to ID
	sends    []piece
	asks     []ask
	want     []byte // all pieces
	got      []byte
	next     int // piece to send
	asked    int
	ended    bool
}

type piece struct {
	head, body, tail int
	file             bool
}

type ask struct {
	max   int
	where int // 0: inside Received, 1: from a posted function, 2: from a timer
}

// TestEveryByteArrivesInOrder sends both ways over one connection, both ends on one
// loop, whatever the sizes, places and limits.
func TestEveryByteArrivesInOrder(t *testing.T) { onEach(t, testEveryByteArrivesInOrder) }

func testEveryByteArrivesInOrder(t *testing.T, o Options) {
	content := noise(1<<20, 4)
	f := file(t, content)
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 3000), rapid.IntRange(0, 120<<10))
		pieces := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) piece {
			return piece{size.Draw(rt, "head"), size.Draw(rt, "body"), size.Draw(rt, "tail"), rapid.Bool().Draw(rt, "file")}
		}), 1, 6)
		asks := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) ask {
			// At least 500: a megabyte in single bytes shows nothing more.
			return ask{rapid.IntRange(500, 70<<10).Draw(rt, "max"), rapid.IntRange(0, 2).Draw(rt, "where")}
		}), 1, 6)
		o := o
		o.RecvBuffer, o.CPU = rapid.SampledFrom([]int{1 << 10, 5000, 64 << 10}).Draw(rt, "buffer"), -1
		lo := ListenOptions{
			NoDelay: true,
			SndBuf:  rapid.SampledFrom([]int{0, 256 << 10}).Draw(rt, "send buffer"),
			RcvBuf:  rapid.SampledFrom([]int{0, 256 << 10}).Draw(rt, "receive buffer"),
		}
		flows := []*flow{
			{sends: pieces.Draw(rt, "there"), asks: asks.Draw(rt, "asks")},
			{sends: pieces.Draw(rt, "back"), asks: asks.Draw(rt, "asks back")},
		}
		exchange(rt, content, f, o, lo, flows)
	})
}

// exchange runs the two flows to their ends and compares.
func exchange(t *rapid.T, content []byte, f *os.File, o Options, lo ListenOptions, flows []*flow) {
	s := &script{}
	l, err := New(o, s)
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread() // a ring belongs to a thread
	defer runtime.UnlockOSThread()
	defer func() {
		l.Stop()
		if err := l.Run(); err != nil {
			t.Fatal(err)
		}
	}()
	_, addr, err := l.Listen(loopback, lo)
	if err != nil {
		t.Fatal(err)
	}
	there, back := flows[0], flows[1]
	of := func(id ID) (out, in *flow) {
		if id == there.from {
			return there, back
		}
		return back, there
	}
	var send func(fl *flow)
	send = func(fl *flow) {
		for fl.next < len(fl.sends) {
			p := fl.sends[fl.next]
			fl.next++
			head, tail := content[:p.head], content[len(content)-p.tail:]
			off := len(fl.want) % 1000
			body := content[off : off+p.body]
			fl.want = append(append(append(fl.want, head...), body...), tail...)
			mine := append([]byte(nil), head...)
			var done bool
			if p.file {
				done = l.SendFile(fl.from, mine, int(f.Fd()), int64(off), int64(p.body), tail)
			} else {
				done = l.Send(fl.from, mine, body, tail)
			}
			clear(mine)
			if !done {
				return
			}
		}
		l.CloseWrite(fl.from)
	}
	arm := func(fl *flow) {
		a := fl.asks[fl.asked%len(fl.asks)]
		fl.asked++
		do := func() { l.Recv(fl.to, a.max) }
		switch a.where {
		case 0:
			do()
		case 1:
			l.Post(do)
		case 2:
			s.expired = func(key uint32, _ clock.Instant) {
				out := flows[key]
				l.Recv(out.to, out.asks[(out.asked-1)%len(out.asks)].max)
			}
			key := uint32(0)
			if fl == back {
				key = 1
			}
			l.SetTimer(key, l.Now())
		}
	}
	ready := 0
	begin := func() {
		if ready++; ready == 2 {
			for _, fl := range flows {
				arm(fl)
				send(fl)
			}
		}
	}
	s.accepted = func(id ID, _ int, _ netip.AddrPort) {
		back.from, there.to = id, id
		begin()
	}
	s.connected = func(id ID, err error) {
		if err != nil {
			t.Fatal(err)
		}
		begin()
	}
	s.sent = func(id ID, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out, _ := of(id)
		send(out)
	}
	s.received = func(id ID, b []byte, err error) {
		_, in := of(id)
		a := in.asks[(in.asked-1)%len(in.asks)]
		if err != nil || len(b) > a.max || len(b) > o.RecvBuffer {
			t.Fatalf("%d bytes of %d, %v", len(b), a.max, err)
		}
		in.got = append(in.got, b...)
		if in.ended = len(b) == 0; !in.ended {
			arm(in)
		}
	}
	id, err := l.Connect(&ConnectOptions{Remote: addr, NoDelay: true})
	if err != nil {
		t.Fatal(err)
	}
	there.from, back.to = id, id
	for end := clock.Now().Add(patience); !there.ended || !back.ended; {
		if id, what := forgotten(l); what != "" {
			t.Fatalf("connection %d: the loop may sleep on %s", id, what)
		}
		if _, err := l.turn(); err != nil {
			t.Fatal(err)
		}
		if clock.Now().After(end) {
			t.Fatal("the streams do not end")
		}
	}
	for i, fl := range flows {
		if string(fl.got) != string(fl.want) {
			t.Fatalf("flow %d: %d bytes differ from the %d sent", i, len(fl.got), len(fl.want))
		}
	}
}

// forgotten looks for an operation that could go on although neither the kernel nor
// the loop has a note of it: the edge was lost. It asks the sockets themselves.
func forgotten(l *Loop) (id ID, what string) {
	e, ok := l.be.(*epoll)
	if !ok {
		return forgottenInRing(l)
	}
	l.table.each(func(c *conn) {
		if c.flags&(queued|connecting) != 0 {
			return
		}
		if c.flags&(armed|readable) == armed|readable {
			id, what = c.id, "input it knows of"
			return
		}
		fds := []unix.PollFd{{Fd: c.fd}, {Fd: int32(e.fd), Events: unix.POLLIN}}
		if c.flags&armed != 0 {
			fds[0].Events |= unix.POLLIN
		}
		if c.flags&sending != 0 {
			fds[0].Events |= unix.POLLOUT
		}
		// The epoll set is asked second: an edge that comes in between is seen.
		unix.Poll(fds[:1], 0)
		if fds[0].Revents&fds[0].Events == 0 {
			return
		}
		if n, _ := unix.Poll(fds[1:], 0); n == 0 {
			id, what = c.id, fmt.Sprintf("poll events %#x of %#x", fds[0].Revents, fds[0].Events)
		}
	})
	return id, what
}

// forgottenInRing looks for an operation that neither the ring nor the loop knows of.
func forgottenInRing(l *Loop) (id ID, what string) {
	l.table.each(func(c *conn) {
		switch {
		case c.flags&queued != 0:
		case c.flags&connecting != 0 && c.flags&polling == 0:
			id, what = c.id, "a handshake"
		case c.flags&armed != 0 && c.flags&taking == 0:
			id, what = c.id, "a receive"
		case c.flags&sending != 0 && c.flags&(giving|polling|resume) == 0:
			id, what = c.id, "a send"
		}
	})
	return id, what
}
