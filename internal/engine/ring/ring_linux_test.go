package ring

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// opened is a ring on this test's thread, not enabled.
func opened(t *testing.T, entries int) *Ring {
	t.Helper()
	r, err := New(Options{Entries: entries, Buffers: 32, BufferSize: 64})
	if err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	t.Cleanup(func() {
		r.Close()
		runtime.UnlockOSThread()
	})
	return r
}

func enable(t *testing.T, r *Ring) {
	t.Helper()
	if err := r.Enable(); err != nil {
		t.Fatal(err)
	}
}

// one enters until something has completed, and takes it.
func one(t *testing.T, r *Ring) CQE {
	t.Helper()
	if err := r.Enter(); err != nil {
		t.Fatal(err)
	}
	for r.Ready() == 0 {
		if err := r.Wait(-1); err != nil {
			t.Fatal(err)
		}
	}
	c := *r.At(0)
	r.Advance(1)
	return c
}

func pair(t *testing.T) (a, b int) {
	t.Helper()
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

// receive asks for at most n bytes.
func receive(r *Ring, fd int, n uint32) {
	s, _ := r.Next()
	s.Op, s.FD, s.Flags, s.Len = OpRecv, int32(fd), SelectBuffer, n
}

// TestEntriesBeyondTheQueueWaitAndKeepTheirOrder fills in five times the queue before
// the kernel may see anything.
func TestEntriesBeyondTheQueueWaitAndKeepTheirOrder(t *testing.T) {
	r := opened(t, 4)
	for i := range 20 {
		s, at := r.Next()
		s.UserData = uint64(i)
		if r.Held(at) == nil || r.Held(at).UserData != uint64(i) || at != uint32(i) {
			t.Fatalf("entry %d is not held", i)
		}
	}
	if !r.Pending() || r.Held(20) != nil {
		t.Error("entries are not counted")
	}
	r.Held(17).UserData = 99
	enable(t, r)
	for i := range 20 {
		want := uint64(i)
		if i == 17 {
			want = 99
		}
		if c := one(t, r); c.UserData != want || c.Res != 0 {
			t.Errorf("completion %d: %+v", i, c)
		}
		if r.Held(uint32(i)) != nil {
			t.Errorf("entry %d is still held", i)
		}
	}
	if r.Pending() || r.Ready() != 0 {
		t.Error("something is left")
	}
	for i := range 9 { // a full queue is handed over by the way
		s, _ := r.Next()
		s.UserData = uint64(i)
	}
	if r.Held(20) != nil || r.Held(28) == nil {
		t.Error("the full queue was not handed over")
	}
	for i := range 9 {
		if c := one(t, r); c.UserData != uint64(i) {
			t.Errorf("completion %d: %+v", i, c)
		}
	}
}

func TestAReceiveTakesWhatItAskedForAndSaysThereIsMore(t *testing.T) {
	r := opened(t, 4)
	enable(t, r)
	a, b := pair(t)
	unix.Write(b, []byte("0123456789"))
	receive(r, a, 4)
	c := one(t, r)
	id, ok := c.Buffer()
	if !ok || c.Res != 4 || string(r.Buffer(id)[:4]) != "0123" || c.Flags&NonEmpty == 0 {
		t.Fatalf("%+v", c)
	}
	r.Return(id)
	receive(r, a, 64)
	c = one(t, r)
	if id, ok = c.Buffer(); !ok || c.Res != 6 || string(r.Buffer(id)[:6]) != "456789" || c.Flags&NonEmpty != 0 {
		t.Fatalf("%+v", c)
	}
}

func TestAnEmptyPoolFailsReceivesUntilItGrows(t *testing.T) {
	r := opened(t, 4)
	enable(t, r)
	a, b := pair(t)
	unix.Write(b, make([]byte, 200))
	used := map[uint16]bool{}
	for range firstBuffers {
		receive(r, a, 1)
		c := one(t, r)
		id, ok := c.Buffer()
		if !ok || used[id] {
			t.Fatalf("%+v: buffer %d of %v", c, id, used)
		}
		used[id] = true
	}
	receive(r, a, 1)
	if c := one(t, r); c.Res != -int32(unix.ENOBUFS) {
		t.Fatalf("%+v from an empty pool", c)
	}
	for range 100 { // no further than it may
		r.Grow()
	}
	for range 16 {
		receive(r, a, 1)
		c := one(t, r)
		id, ok := c.Buffer()
		if !ok || used[id] {
			t.Fatalf("%+v: buffer %d of %v", c, id, used)
		}
		used[id] = true
	}
	receive(r, a, 1)
	if c := one(t, r); c.Res != -int32(unix.ENOBUFS) {
		t.Fatalf("%+v from an empty pool", c)
	}
	r.Return(5)
	receive(r, a, 1)
	if c := one(t, r); c.Res != 1 || uint16(c.Flags>>16) != 5 {
		t.Fatalf("%+v with buffer 5 back", c)
	}
}

// TestWaitEndsByItself crosses the border between the raw and the ordinary part. Only a
// signal may end it early, and not for ever.
func TestWaitEndsByItself(t *testing.T) {
	r := opened(t, 4)
	enable(t, r)
	for _, d := range []time.Duration{0, time.Millisecond, rawWait, rawWait + 5*time.Millisecond} {
		for end := time.Now().Add(d); ; {
			left := time.Until(end)
			if left < 0 {
				break
			}
			if err := r.Wait(left); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestWorkThatComesInIsAnnounced: the flag that saves an enter goes up by itself.
func TestWorkThatComesInIsAnnounced(t *testing.T) {
	r := opened(t, 4)
	enable(t, r)
	a, b := pair(t)
	receive(r, a, 8)
	if err := r.Enter(); err != nil || r.Pending() || r.Ready() != 0 {
		t.Fatalf("%v, pending %v, %d ready", err, r.Pending(), r.Ready())
	}
	unix.Write(b, []byte("x"))
	if !r.Pending() || r.Ready() != 0 {
		t.Errorf("pending %v, %d ready", r.Pending(), r.Ready())
	}
	if c := one(t, r); c.Res != 1 {
		t.Errorf("%+v", c)
	}
}
