//go:build linux

package loop

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPostsRunOnceInOrderFromManyGoroutines posts while the loop sleeps and wakes, and
// stops it in the middle: exactly the posts that were taken run.
func TestPostsRunOnceInOrderFromManyGoroutines(t *testing.T) {
	onEach(t, testPostsRunOnceInOrderFromManyGoroutines)
}

func testPostsRunOnceInOrderFromManyGoroutines(t *testing.T, o Options) {
	const senders, each = 8, 5000
	l := made(t, o, &script{})
	done := make(chan error, 1)
	go func() { done <- l.Run() }()
	var last [senders]int // touched on the loop goroutine only
	var ran int
	var taken, refused atomic.Int64
	var wg sync.WaitGroup
	for s := range senders {
		wg.Go(func() {
			for i := 1; i <= each; i++ {
				ok := l.Post(func() {
					if last[s] >= i {
						t.Errorf("sender %d: %d after %d", s, i, last[s])
					}
					last[s] = i
					ran++
				})
				if ok {
					taken.Add(1)
				} else {
					refused.Add(1)
				}
				if i%16 == 0 {
					runtime.Gosched() // lets the loop fall asleep now and then
				}
				if s == 0 && i == each/2 {
					l.Stop()
					if l.Post(func() {}) {
						t.Error("a post is taken after Stop")
					}
				}
			}
		})
	}
	wg.Wait()
	if err := await(t, done); err != nil {
		t.Error(err)
	}
	if int64(ran) != taken.Load() || refused.Load() < each/2-1 {
		t.Errorf("%d ran, %d taken, %d refused", ran, taken.Load(), refused.Load())
	}
}

// TestEveryPostWakesASleepingLoop goes back and forth, so the loop sleeps each time.
func TestEveryPostWakesASleepingLoop(t *testing.T) { onEach(t, testEveryPostWakesASleepingLoop) }

func testEveryPostWakesASleepingLoop(t *testing.T, o Options) {
	l := made(t, o, &script{})
	start(t, l)
	c := make(chan int)
	for i := range 2000 {
		if !l.Post(func() { c <- i }) {
			t.Fatal("refused")
		}
		if got := await(t, c); got != i {
			t.Fatalf("got %d, want %d", got, i)
		}
	}
	on(t, l, func() {
		if s := l.Stats(); s.Sleeps == 0 || s.Posts != 2001 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestPostsOfAPostRunInALaterTurnWithoutSleep(t *testing.T) {
	onEach(t, testPostsOfAPostRunInALaterTurnWithoutSleep)
}

func testPostsOfAPostRunInALaterTurnWithoutSleep(t *testing.T, o Options) {
	r := turn(t, made(t, o, &script{}))
	n := 0
	var again func()
	again = func() {
		if n++; n < 5 {
			r.l.Post(again)
		}
	}
	r.l.Post(again)
	for i := 1; i <= 5; i++ {
		r.once()
		if n != i {
			t.Fatalf("%d ran after turn %d", n, i)
		}
	}
	if s := r.l.Stats(); s.Sleeps != 0 {
		t.Errorf("slept %d times", s.Sleeps)
	}
}

func TestStopBeforeRunReleasesTheLoop(t *testing.T) { onEach(t, testStopBeforeRunReleasesTheLoop) }

func testStopBeforeRunReleasesTheLoop(t *testing.T, o Options) {
	before := descriptors(t)
	l := made(t, o, &script{})
	ran := false
	l.Post(func() { ran = true })
	l.Stop()
	if err := l.Run(); err != nil || !ran {
		t.Errorf("run %v, %v", ran, err)
	}
	if n := descriptors(t); n != before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
}

// TestThreadIsBoundWhileRunningAndFreeAfter looks at the loop's thread, at the thread
// of Run's caller afterwards, and at the threads of other goroutines.
func TestThreadIsBoundWhileRunningAndFreeAfter(t *testing.T) {
	affinity := func() (s unix.CPUSet) {
		if err := unix.SchedGetaffinity(0, &s); err != nil {
			t.Error(err)
		}
		return s
	}
	all := affinity()
	cpu := 0
	for !all.IsSet(cpu) {
		cpu++
	}
	l, err := New(Options{CPU: cpu}, &script{})
	if err != nil {
		t.Fatal(err)
	}
	type end struct {
		err      error
		affinity unix.CPUSet
	}
	done := make(chan end, 1)
	go func() {
		runtime.LockOSThread() // stay where Run leaves us
		defer runtime.UnlockOSThread()
		err := l.Run()
		done <- end{err, affinity()}
	}()
	on(t, l, func() {
		if s := affinity(); s.Count() != 1 || !s.IsSet(cpu) {
			t.Errorf("the loop runs on %d processors", s.Count())
		}
	})
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for range 20 {
		wg.Go(func() {
			runtime.LockOSThread() // each on a thread of its own, most of them new
			<-gate
			if s := affinity(); s != all {
				t.Errorf("another goroutine has %d processors of %d", s.Count(), all.Count())
			}
		})
	}
	close(gate)
	wg.Wait()
	l.Stop()
	e := await(t, done)
	if e.err != nil || e.affinity != all {
		t.Errorf("after Run: %v, %d processors of %d", e.err, e.affinity.Count(), all.Count())
	}
}
