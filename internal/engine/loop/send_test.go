//go:build linux

package loop

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// slowly reads c to its end in small pieces while the loop turns, and starts only now:
// whatever the kernel did not take before has to wait.
func (r *turning) slowly(c *net.TCPConn, piece int, done func() bool) []byte {
	r.t.Helper()
	all := make(chan []byte, 1)
	go func() {
		var got []byte
		b := make([]byte, piece)
		for {
			n, err := c.Read(b)
			got = append(got, b[:n]...)
			if err != nil {
				if err != io.EOF {
					r.t.Error(err)
				}
				all <- got
				return
			}
		}
	}()
	r.until(done)
	return await(r.t, all)
}

func TestSendContinuesForASlowReader(t *testing.T) { onEach(t, testSendContinuesForASlowReader) }

func testSendContinuesForASlowReader(t *testing.T, o Options) {
	const mb = 1 << 20
	for _, size := range []struct{ head, body, tail int }{
		{100, 5 * mb, 100}, {5 * mb, 0, 0}, {0, 5 * mb, 0}, {0, 0, 5 * mb}, {3 * mb, 3 * mb, 3 * mb}, {1, 4*mb - 1, 0},
	} {
		s := &script{}
		r := turn(t, made(t, o, s))
		id, c := r.peer(s, ListenOptions{SndBuf: 512 << 10})
		sent := false
		s.sent = func(i ID, err error) {
			if i != id || err != nil {
				t.Errorf("Sent(%d, %v)", i, err)
			}
			sent = true
		}
		head, body, tail := noise(size.head, 1), noise(size.body, 2), noise(size.tail, 3)
		want := slices.Concat(head, body, tail)
		if r.l.Send(id, head, body, tail) {
			t.Fatal("the kernel took megabytes into a small buffer")
		}
		clear(head) // promised: head is consumed
		r.l.CloseWrite(id)
		got := r.slowly(c, 61<<10, func() bool { return sent })
		same(t, got, want)
		if st := r.l.Stats(); st.SendBytes != uint64(len(want)) || st.PartialSends != 1 {
			t.Errorf("stats: %+v", st)
		}
	}
}

func TestSendThatFitsCompletesAtOnce(t *testing.T) { onEach(t, testSendThatFitsCompletesAtOnce) }

func testSendThatFitsCompletesAtOnce(t *testing.T, o Options) {
	if o.Batch {
		t.Skip("a batch sends with the turn")
	}
	s := &script{sent: func(id ID, err error) { t.Errorf("Sent(%d, %v) after done", id, err) }}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	parts := [][3]string{{"", "", ""}, {"a", "", ""}, {"", "b", ""}, {"", "", "c"}, {"d", "e", ""}, {"f", "", "g"}, {"h", "i", "j"}}
	for _, p := range parts {
		if !r.l.Send(id, []byte(p[0]), []byte(p[1]), []byte(p[2])) {
			t.Fatalf("%q: not done", p)
		}
	}
	r.l.Close(id)
	got, err := io.ReadAll(c)
	if string(got) != "abcdefghij" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// file makes a file with the given content.
func file(t testing.TB, content []byte) *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestSendFileSendsHeadRangeAndTail(t *testing.T) { onEach(t, testSendFileSendsHeadRangeAndTail) }

func testSendFileSendsHeadRangeAndTail(t *testing.T, o Options) {
	content := noise(6<<20, 9)
	f := file(t, content)
	for _, part := range []struct {
		head   int
		off, n int
		tail   int
	}{
		{200, 0, len(content), 300}, {0, 4097, 5<<20 + 1, 0}, {200, 10, 0, 20}, {200, 1, 1, 0},
		{2 << 20, 7, 3 << 20, 2 << 20}, {0, 0, 1 << 20, 0}, {1, 0, 1<<20 - 1, 1},
	} {
		s := &script{}
		r := turn(t, made(t, o, s))
		id, c := r.peer(s, ListenOptions{SndBuf: 512 << 10, NoDelay: true})
		head, tail := noise(part.head, 1), noise(part.tail, 2)
		want := slices.Concat(head, content[part.off:part.off+part.n], tail)
		var sent bool
		s.sent = func(_ ID, err error) {
			if err != nil {
				t.Error(err)
			}
			sent = true
		}
		sent = r.l.SendFile(id, head, int(f.Fd()), int64(part.off), int64(part.n), tail)
		clear(head)
		r.l.CloseWrite(id)
		same(t, r.slowly(c, 61<<10, func() bool { return sent }), want)
		if at, _ := f.Seek(0, io.SeekCurrent); at != 0 {
			t.Errorf("SendFile moved the file position to %d", at)
		}
	}
}

func TestSendFileReportsAFileThatBecameShorter(t *testing.T) {
	onEach(t, testSendFileReportsAFileThatBecameShorter)
}

func testSendFileReportsAFileThatBecameShorter(t *testing.T, o Options) {
	f := file(t, noise(100, 1))
	var err error
	s := &script{sent: func(_ ID, e error) { err = e }}
	r := turn(t, made(t, o, s))
	id, _ := r.peer(s, ListenOptions{})
	if r.l.SendFile(id, []byte("head"), int(f.Fd()), 50, 51, nil) {
		t.Fatal("done with less than promised")
	}
	if err != nil {
		t.Fatal("Sent inside the call")
	}
	r.until(func() bool { return err != nil })
	if err != syscall.EIO {
		t.Errorf("error %v, want EIO", err)
	}
}

func TestSendErrorComesAsSentAndStaysForRecv(t *testing.T) {
	onEach(t, testSendErrorComesAsSentAndStaysForRecv)
}

func testSendErrorComesAsSentAndStaysForRecv(t *testing.T, o Options) {
	var sent, received error
	s := &script{
		sent:     func(_ ID, err error) { sent = err },
		received: func(_ ID, b []byte, err error) { received = err },
	}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	c.SetLinger(0)
	c.Close()
	// The reset is in our socket already: loopback delivers within close.
	if r.l.Send(id, []byte("x"), nil, nil) {
		t.Fatal("done on a connection that was reset")
	}
	if sent != nil {
		t.Fatal("Sent inside the call")
	}
	r.until(func() bool { return sent != nil })
	if sent != syscall.ECONNRESET {
		t.Fatalf("Sent error %v, want ECONNRESET", sent)
	}
	// The kernel has told its error to the send; a bare recv would report an end.
	r.l.Recv(id, 10)
	r.until(func() bool { return received != nil })
	if received != syscall.ECONNRESET {
		t.Errorf("Received error %v, want ECONNRESET", received)
	}
	if r.l.Send(id, []byte("x"), nil, nil) {
		t.Fatal("done on a connection that was reset")
	}
	sent = nil
	r.until(func() bool { return sent != nil })
	if sent != syscall.EPIPE {
		t.Errorf("second error %v, want EPIPE", sent)
	}
}

func TestUnfinishedSendEndsWithTheReset(t *testing.T) { onEach(t, testUnfinishedSendEndsWithTheReset) }

func testUnfinishedSendEndsWithTheReset(t *testing.T, o Options) {
	var sent error
	s := &script{sent: func(_ ID, err error) { sent = err }}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	if r.l.Send(id, nil, make([]byte, 16<<20), nil) {
		t.Fatal("the kernel took 16 MiB")
	}
	c.SetLinger(0)
	c.Close()
	r.until(func() bool { return sent != nil })
	if !errors.Is(sent, syscall.ECONNRESET) && !errors.Is(sent, syscall.EPIPE) {
		t.Errorf("error %v", sent)
	}
	if len(common(r.l).out.free) != 1 {
		t.Error("the store of unfinished sends leaks")
	}
}

func TestTwoSendsAtOncePanic(t *testing.T) { onEach(t, testTwoSendsAtOncePanic) }

func testTwoSendsAtOncePanic(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, _ := r.peer(s, ListenOptions{})
	if r.l.Send(id, nil, make([]byte, 16<<20), nil) {
		t.Fatal("the kernel took 16 MiB")
	}
	for name, f := range map[string]func(){
		"Send":     func() { r.l.Send(id, []byte("x"), nil, nil) },
		"SendFile": func() { r.l.SendFile(id, nil, 0, 0, 1, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s during a send did not panic", name)
				}
			}()
			f()
		}()
	}
}

func TestAbortResetsThePeer(t *testing.T) { onEach(t, testAbortResetsThePeer) }

func testAbortResetsThePeer(t *testing.T, o Options) {
	s := &script{}
	r := turn(t, made(t, o, s))
	id, c := r.peer(s, ListenOptions{})
	r.l.Abort(id)
	r.again() // a batch closes with the turn
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("peer reads %v, want a reset", err)
	}
}

func TestCloseWriteEndsOnlyOneDirection(t *testing.T) { onEach(t, testCloseWriteEndsOnlyOneDirection) }

func testCloseWriteEndsOnlyOneDirection(t *testing.T, o Options) {
	var got []byte
	s := &script{}
	r := turn(t, made(t, o, s))
	s.received = func(_ ID, b []byte, err error) { got = append(got, b...) }
	id, c := r.peer(s, ListenOptions{})
	r.l.CloseWrite(id)
	if b, err := io.ReadAll(c); len(b) != 0 || err != nil {
		t.Errorf("peer reads %q, %v", b, err)
	}
	c.Write([]byte("late"))
	r.l.Recv(id, 100)
	r.until(func() bool { return len(got) > 0 })
	same(t, got, []byte("late"))
}

// TestRoomIsNoticedWhileInputIsPostponed: the edge for the unfinished send comes in a
// turn that begins with the connection on the list of postponed receives.
func TestRoomIsNoticedWhileInputIsPostponed(t *testing.T) {
	s := &script{}
	r := turn(t, made(t, Options{}, s))
	id, c := r.peer(s, ListenOptions{RcvBuf: 2 << 20})
	body := noise(16<<20, 1)
	sent := false
	s.sent = func(_ ID, err error) { sent = err == nil }
	s.received = func(ID, []byte, error) { r.l.Recv(id, 64<<10) }
	if r.l.Send(id, nil, body, nil) {
		t.Fatal("the kernel took 16 MiB")
	}
	conn := r.l.table.lookup(id)
	for conn.flags&resume != 0 { // the kernel has still to be filled
		r.once()
	}
	if _, err := c.Write(make([]byte, 2*recvBudget)); err != nil {
		t.Fatal(err)
	}
	r.l.Recv(id, 64<<10)
	for conn.flags&queued == 0 || len(common(r.l).later) == 0 {
		r.once()
	}
	all := make(chan []byte, 1)
	go func() {
		got := make([]byte, len(body))
		io.ReadFull(c, got)
		all <- got
	}()
	// Wait for the edge itself, not for a turn: none may come before it.
	for fd := []unix.PollFd{{Fd: conn.fd, Events: unix.POLLOUT}}; fd[0].Revents&unix.POLLOUT == 0; {
		unix.Poll(fd, -1)
	}
	r.until(func() bool { return sent })
	same(t, await(t, all), body)
}
