//go:build linux

package loop

import (
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tidemark.dev/internal/ground/clock"
)

func TestRecvNeverExceedsMax(t *testing.T) { onEach(t, testRecvNeverExceedsMax) }

func testRecvNeverExceedsMax(t *testing.T, o Options) {
	s := &script{}
	o.RecvBuffer = 4 << 10
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	want := noise(300<<10, 1)
	go func() {
		c.Write(want)
		c.CloseWrite()
	}()
	// Bigger than the buffer, nonsense, and small ones.
	limits := []int{1, 1000, 7, 1 << 20, 0, -5, 1460, 4 << 10, 4<<10 + 1}
	var got []byte
	var ended bool
	k, limit := 0, 0
	arm := func() {
		limit = limits[k%len(limits)]
		k++
		r.l.Recv(id, limit)
		limit = min(max(limit, 1), 4<<10)
	}
	s.received = func(_ ID, b []byte, err error) {
		if len(b) > limit || cap(b) != len(b) || err != nil {
			t.Errorf("%d bytes (capacity %d), error %v, of at most %d", len(b), cap(b), err, limit)
		}
		got = append(got, b...)
		if ended = len(b) == 0; !ended {
			arm()
		}
	}
	arm()
	r.until(func() bool { return ended })
	same(t, got, want)
}

func TestSkipTakesBytesAway(t *testing.T) { onEach(t, testSkipTakesBytesAway) }

// testSkipTakesBytesAway receives every third piece and skips the others, across the
// end; the limit goes up and down while a skip is open.
func testSkipTakesBytesAway(t *testing.T, o Options) {
	s := &script{}
	o.RecvBuffer = 4 << 10
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	want := noise(100<<10, 1)
	go func() {
		c.Write(want)
		c.CloseWrite()
	}()
	at, k, ended := 0, 0, false
	arm := func() {
		if k++; k%3 == 0 {
			r.l.Recv(id, 1000+k)
			return
		}
		r.l.Skip(id, 1)
		r.l.Skip(id, 4<<10)
		r.l.Skip(id, 100+k)
	}
	s.received = func(_ ID, b []byte, err error) {
		most := 100 + k
		if k%3 == 0 {
			most = 1000 + k
			same(t, b, want[at:at+len(b)])
		}
		if len(b) > most || err != nil {
			t.Errorf("%d bytes, error %v, of at most %d", len(b), err, most)
		}
		at += len(b)
		if ended = len(b) == 0; !ended {
			arm()
		}
	}
	arm()
	r.until(func() bool { return ended })
	if at != len(want) || k < 100 {
		t.Errorf("%d of %d bytes in %d pieces", at, len(want), k)
	}
	if n := r.l.Stats().RecvBytes; n != uint64(at) {
		t.Errorf("%d bytes counted", n)
	}
}

// TestAFullReceiveIsFollowedByOneProbe: a receive that got all it asked for proves
// nothing, the next one finds the queue empty, and then the loop waits for an edge.
func TestAFullReceiveIsFollowedByOneProbe(t *testing.T) {
	s := &script{}
	r := turn(t, made(t, Options{}, s))
	id, c := r.peer(s, ListenOptions{})
	var got []byte
	s.received = func(_ ID, b []byte, err error) {
		got = append(got, b...)
		r.l.Recv(id, 10)
	}
	r.l.Recv(id, 10)
	for _, text := range []string{"0123456789", "abcdefghij", "short"} {
		c.Write([]byte(text))
		r.once()
		if r.l.table.lookup(id).flags&readable != 0 {
			t.Error("the loop believes in input that is not there")
		}
	}
	if string(got) != "0123456789abcdefghijshort" {
		t.Errorf("got %q", got)
	}
	if st := r.l.Stats(); st.RecvEmpty != 2 || st.Recvs != 3 {
		t.Errorf("stats %+v", st)
	}
}

// TestRecvArmedLateCompletesInTheSameTurn arms on a connection whose input has been
// announced before, by the only edge there will be, from each place a handler has.
func TestRecvArmedLateCompletesInTheSameTurn(t *testing.T) {
	onEach(t, testRecvArmedLateCompletesInTheSameTurn)
}

func testRecvArmedLateCompletesInTheSameTurn(t *testing.T, o Options) {
	for _, from := range []string{"timer", "post", "received of another", "outside"} {
		t.Run(from, func(t *testing.T) {
			s := &script{}
			r := turn(t, made(t, o, s))
			other, oc := r.peer(s, ListenOptions{})
			id, c := r.peer(s, ListenOptions{})
			c.Write([]byte("hello"))
			r.input(id)
			var armed, done uint64
			var inside bool
			arm := func() {
				inside = true
				r.l.Recv(id, 3)
				inside = false
				armed = r.l.stats.Turns
			}
			s.received = func(i ID, b []byte, err error) {
				switch {
				case inside:
					t.Error("Received inside Recv")
				case i == other:
					arm()
				case string(b) != "hel" || err != nil:
					t.Errorf("got %q, %v", b, err)
				default:
					done = r.l.stats.Turns
				}
			}
			s.expired = func(uint32, clock.Instant) { arm() }
			switch from {
			case "timer":
				r.l.SetTimer(1, clock.Now().Add(3*time.Millisecond))
			case "post":
				r.l.Post(arm)
			case "received of another":
				r.l.Recv(other, 10)
				oc.Write([]byte("x"))
			case "outside": // served in the next turn, which must not sleep
				arm()
				armed++
			}
			r.until(func() bool { return done != 0 })
			// With io_uring the end of the turn asks, and the next one does not sleep.
			if d := done - armed; d > 0 && (d > 1 || isEpoll(r.l)) {
				t.Errorf("armed in turn %d, completed in turn %d", armed, done)
			}
		})
	}
}

func TestEndComesAfterTheDataAndAgain(t *testing.T) { onEach(t, testEndComesAfterTheDataAndAgain) }

func testEndComesAfterTheDataAndAgain(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	c.Write([]byte("last words"))
	c.Close()
	var got []string
	s.received = func(i ID, b []byte, err error) {
		if err != nil {
			t.Error(err)
		}
		got = append(got, string(b))
		if len(got) < 4 {
			r.l.Recv(i, 100)
		}
	}
	r.l.Recv(id, 100)
	r.until(func() bool { return len(got) == 4 })
	for i, want := range []string{"last words", "", "", ""} {
		if got[i] != want {
			t.Errorf("receive %d: %q, want %q", i, got[i], want)
		}
	}
}

// TestEndBehindAShortReceiveIsNotLost takes the bytes in one turn, after the edge that
// also announced the end, and asks for the end much later.
func TestEndBehindAShortReceiveIsNotLost(t *testing.T) {
	onEach(t, testEndBehindAShortReceiveIsNotLost)
}

func testEndBehindAShortReceiveIsNotLost(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	c.Write([]byte("abc"))
	c.CloseWrite()
	if isEpoll(r.l) {
		r.until(func() bool { return r.l.table.lookup(id).flags&probing != 0 })
	}
	var got [][]byte
	s.received = func(_ ID, b []byte, err error) { got = append(got, append([]byte{}, b...)) }
	r.l.Recv(id, 100)
	r.until(func() bool { return len(got) == 1 })
	if string(got[0]) != "abc" {
		t.Fatalf("got %q", got)
	}
	r.again()
	r.l.Recv(id, 100)
	r.until(func() bool { return len(got) == 2 })
	if len(got[1]) != 0 {
		t.Fatalf("got %q, the end did not come", got)
	}
}

func TestResetComesAfterTheData(t *testing.T) { onEach(t, testResetComesAfterTheData) }

func testResetComesAfterTheData(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	var data []byte
	var end error
	s.received = func(i ID, b []byte, err error) {
		if err == nil && len(b) == 0 {
			t.Error("a reset looks like an end")
		}
		data, end = append(data, b...), err
		if err == nil {
			r.l.Recv(i, 100)
		}
	}
	r.l.Recv(id, 100)
	c.Write([]byte("abc"))
	c.SetLinger(0)
	c.Close()
	r.until(func() bool { return end != nil })
	if string(data) != "abc" || end != syscall.ECONNRESET {
		t.Errorf("got %q, %v", data, end)
	}
}

// TestUrgentDataDoesNotStallTheStream: a receive stops short at the urgent mark while
// more is queued behind it, and no edge follows.
func TestUrgentDataDoesNotStallTheStream(t *testing.T) {
	onEach(t, testUrgentDataDoesNotStallTheStream)
}

func testUrgentDataDoesNotStallTheStream(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	c.Write([]byte("before"))
	raw.Write(func(fd uintptr) bool {
		if _, errno := sendto(int32(fd), []byte("!"), unix.MSG_OOB); errno != 0 {
			t.Error(errno)
		}
		return true
	})
	c.Write([]byte("after"))
	var got []byte
	s.received = func(i ID, b []byte, err error) {
		got = append(got, b...)
		r.l.Recv(i, 100)
	}
	r.input(id)
	r.l.Recv(id, 100)
	r.until(func() bool { return len(got) >= len("beforeafter") })
	same(t, got, []byte("beforeafter"))
}

// TestOneBusyConnectionDoesNotStarveTheRest gives one connection more input than the
// loop may take in a turn, and shows it to be served in every turn, beside another.
func TestOneBusyConnectionDoesNotStarveTheRest(t *testing.T) {
	onEach(t, testOneBusyConnectionDoesNotStarveTheRest)
}

func testOneBusyConnectionDoesNotStarveTheRest(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	hog, hc := r.peer(s, ListenOptions{RcvBuf: 4 << 20})
	calm, cc := r.peer(s, ListenOptions{})
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b := make([]byte, 1<<20)
		for {
			select {
			case <-stop:
				return
			default:
			}
			hc.SetWriteDeadline(time.Now().Add(patience))
			if _, err := hc.Write(b); err != nil {
				return
			}
		}
	}()
	var inTurn, most, total, answers int
	s.received = func(i ID, b []byte, err error) {
		if i == hog {
			inTurn += len(b)
			total += len(b)
		} else {
			answers++
		}
		r.l.Recv(i, 1<<20)
	}
	r.l.Recv(hog, 1<<20)
	r.l.Recv(calm, 1<<20)
	for total < 32<<20 {
		before := answers
		cc.Write([]byte("x"))
		inTurn = 0
		r.once()
		most = max(most, inTurn)
		if answers == before && inTurn > 0 {
			// Its byte may have come after this turn's wait; the next has it.
			r.once()
			if answers == before {
				t.Fatal("the calm connection waited for more than a turn")
			}
		}
	}
	if most > recvBudget+defaultBuffer {
		t.Errorf("%d bytes in one turn, budget %d", most, recvBudget)
	}
	if isEpoll(r.l) && r.l.Stats().Deferred == 0 {
		t.Error("the busy connection was never put off: the test shows nothing")
	}
	close(stop)
	r.l.Abort(hog)
	r.again() // a ring closes with the turn
	await(t, ended)
}

// TestTinyReceivesEnd: a handler that takes a byte at a time pays a least charge each.
func TestTinyReceivesEnd(t *testing.T) { onEach(t, testTinyReceivesEnd) }

func testTinyReceivesEnd(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	c.Write(make([]byte, 1000))
	n := 0
	s.received = func(i ID, b []byte, err error) {
		n += len(b)
		r.l.Recv(i, 1)
	}
	r.input(id)
	r.l.Recv(id, 1)
	for turns := 1; n < 1000; turns++ {
		r.once()
		if n > turns*recvBudget/recvCharge {
			t.Fatalf("%d receives in %d turns", n, turns)
		}
	}
}

// TestASpentTurnServesTheRestFirstInTheNext opens more ready connections than one turn
// may serve and checks that none is served twice before all were served once.
func TestASpentTurnServesTheRestFirstInTheNext(t *testing.T) {
	onEach(t, testASpentTurnServesTheRestFirstInTheNext)
}

func testASpentTurnServesTheRestFirstInTheNext(t *testing.T, o Options) {
	const conns = 100
	s := &script{}
	r := turn(t, made(t, o, s))
	count := map[ID]int{}
	var ids []ID
	peers := map[ID]*net.TCPConn{}
	for range conns {
		id, c := r.peer(s, ListenOptions{RcvBuf: 512 << 10})
		ids = append(ids, id)
		peers[id] = c
	}
	for _, id := range ids {
		peers[id].Write(make([]byte, 256<<10))
		r.input(id)
	}
	served := 0
	s.received = func(i ID, b []byte, err error) {
		count[i]++
		served++
		r.l.Recv(i, 64<<10)
	}
	// All are asked for within one turn, so all wait on the ready list.
	r.l.Post(func() {
		for _, id := range ids {
			r.l.Recv(id, 64<<10)
		}
	})
	r.once()
	if isEpoll(r.l) && (served == 0 || served >= conns) {
		t.Fatalf("%d receives in the first turn: the budget does not end it", served)
	}
	for len(count) < conns {
		for _, n := range count {
			if n > 1 {
				t.Fatal("one connection was served twice while another waited")
			}
		}
		r.once()
	}
}
