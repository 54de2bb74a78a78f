package wheel

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidemark.dev/internal/ground/clock"
)

// shot is one firing.
type shot struct {
	Key uint32
	Due clock.Instant
}

// timers is what the wheel and its model have in common.
type timers interface {
	Set(uint32, clock.Instant)
	Cancel(uint32)
	Advance(clock.Instant, func(uint32, clock.Instant))
}

// naive is the model: a list in the order of Set, searched from end to end.
type naive struct {
	tick  time.Duration
	start clock.Instant
	now   int64
	seq   int
	list  []entry
}

type entry struct {
	shot
	tick  int64
	seq   int
	ready bool // was overdue when set
}

func (m *naive) Set(key uint32, due clock.Instant) {
	m.Cancel(key)
	t := int64(0)
	if due > m.start {
		t = int64((due.Sub(m.start) + m.tick - 1) / m.tick)
	}
	m.seq++
	m.list = append(m.list, entry{shot{key, due}, t, m.seq, t <= m.now})
}

func (m *naive) Cancel(key uint32) {
	m.list = slices.DeleteFunc(m.list, func(e entry) bool { return e.Key == key })
}

func (m *naive) Advance(now clock.Instant, fire func(uint32, clock.Instant)) {
	last := m.seq // what is ready now fires first; what becomes ready meanwhile waits
	for {
		i := slices.IndexFunc(m.list, func(e entry) bool { return e.ready && e.seq <= last })
		if i < 0 {
			break
		}
		m.pop(i, fire)
	}
	target := int64(0)
	if now > m.start {
		target = int64(now.Sub(m.start) / m.tick)
	}
	for {
		best := -1
		for i, e := range m.list {
			if !e.ready && e.tick <= target && (best < 0 || e.tick < m.list[best].tick) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		m.now = m.list[best].tick
		m.pop(best, fire)
	}
	m.now = max(m.now, target)
}

func (m *naive) pop(i int, fire func(uint32, clock.Instant)) {
	e := m.list[i]
	m.list = slices.Delete(m.list, i, i+1)
	fire(e.Key, e.Due)
}

// reaction is what a callback does in a property run: the n-th firing of an Advance
// does the n-th reaction, so wheel and model do the same as long as they agree.
type reaction struct {
	set    bool
	cancel bool
	key    uint32
	delay  time.Duration
}

func advance(x timers, now clock.Instant, script []reaction) []shot {
	var got []shot
	x.Advance(now, func(key uint32, due clock.Instant) {
		got = append(got, shot{key, due})
		if len(got) > len(script) {
			return
		}
		r := script[len(got)-1]
		if r.cancel {
			x.Cancel(r.key)
		}
		if r.set {
			x.Set(r.key, due.Add(r.delay))
		}
	})
	return got
}

func TestWheelAgreesWithAPlainList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tick := time.Duration(rapid.SampledFrom([]int64{1, 3, 1000, 1e6}).Draw(t, "tick"))
		start := clock.Instant(rapid.SampledFrom([]int64{0, -5e9, 12345678, 1 << 40}).Draw(t, "start"))
		w := New(tick, start)
		m := &naive{tick: tick, start: start}
		now := start
		keys := rapid.Uint32Range(0, 30)
		// Distances of every magnitude, so that every level is used, on and off ticks.
		delay := rapid.Custom(func(t *rapid.T) time.Duration {
			n := rapid.Int64Range(-2, 70).Draw(t, "n")
			shift := rapid.IntRange(0, 24).Draw(t, "shift")
			return time.Duration(n<<shift)*tick + time.Duration(rapid.Int64Range(-1, 1).Draw(t, "off"))
		})
		script := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) reaction {
			return reaction{rapid.Bool().Draw(t, "set"), rapid.Bool().Draw(t, "cancel"), keys.Draw(t, "key"), delay.Draw(t, "delay")}
		}), 0, 12)

		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				key, due := keys.Draw(t, "key"), now.Add(delay.Draw(t, "delay"))
				w.Set(key, due)
				m.Set(key, due)
				if got, ok := w.Due(key); !ok || got != due {
					t.Fatalf("Due(%d) = %d, %v after Set to %d", key, got, ok, due)
				}
			},
			"cancel": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				w.Cancel(key)
				m.Cancel(key)
			},
			"advance": func(t *rapid.T) {
				now = max(now, now.Add(delay.Draw(t, "by")))
				s := script.Draw(t, "script")
				got, want := advance(w, now, s), advance(m, now, s)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatalf("fired differently (-model +wheel):\n%s", diff)
				}
				for _, f := range got {
					if f.Due > now {
						t.Fatalf("key %d fired at %d, due %d: early", f.Key, now, f.Due)
					}
				}
			},
			"": func(t *rapid.T) {
				if w.Len() != len(m.list) {
					t.Fatalf("Len %d, want %d", w.Len(), len(m.list))
				}
				bound, any := w.Next()
				if any != (len(m.list) > 0) {
					t.Fatalf("Next says armed: %v, with %d timers", any, len(m.list))
				}
				for _, e := range m.list {
					if !w.Armed(e.Key) {
						t.Fatalf("key %d is not armed", e.Key)
					}
					at := start.Add(time.Duration(e.tick) * tick)
					if e.ready {
						at = now // at once
					}
					if bound > at {
						t.Fatalf("Next %d is after key %d fires at %d", bound, e.Key, at)
					}
				}
			},
		})
	})
}

func TestSleepingUntilNextReachesTheTimerInAStepPerLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := clock.Instant(rapid.Int64Range(0, 1<<50).Draw(t, "start"))
		now := start.Add(time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "skip")))
		due := now.Add(time.Duration(rapid.Int64Range(1, 1<<60).Draw(t, "delay")))
		w := New(time.Millisecond, start)
		w.Advance(now, nil)
		w.Set(0, due)
		for step := 0; w.Len() > 0; step++ {
			if step > levels {
				t.Fatalf("still armed after %d sleeps", step)
			}
			now, _ = w.Next()
			w.Advance(now, func(uint32, clock.Instant) {})
		}
		if late := now.Sub(due); late < 0 || late >= time.Millisecond {
			t.Fatalf("fired %v after it was due", late)
		}
	})
}

func TestTimersOfOneTickFireInTheOrderOfSet(t *testing.T) {
	// All due in tick 5000, set from different distances, so that they travel through
	// different levels before they meet.
	w := New(1, 0)
	var want []uint32
	key := uint32(100)
	for _, now := range []clock.Instant{0, 1, 63, 64, 900, 4095, 4096, 4990, 4999} {
		w.Advance(now, nil)
		for range 3 {
			key--
			want = append(want, key)
			w.Set(key, 5000)
		}
	}
	var got []uint32
	w.Advance(5000, func(key uint32, _ clock.Instant) { got = append(got, key) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSettingAgainMovesToTheEndOfTheTick(t *testing.T) {
	w := New(10, 0)
	w.Set(1, 95)
	w.Set(2, 95)
	w.Set(1, 91) // same tick, now behind 2
	got := advance(w, 100, nil)
	if diff := cmp.Diff([]shot{{2, 95}, {1, 91}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestDueIsRoundedUpToATick(t *testing.T) {
	for _, tt := range []struct{ due, fires clock.Instant }{{1, 10}, {9, 10}, {10, 10}, {11, 20}, {641, 650}} {
		w := New(10, 0)
		w.Set(0, tt.due)
		if got := advance(w, tt.fires-1, nil); got != nil {
			t.Errorf("due %d: fired before %d", tt.due, tt.fires)
		}
		if got := advance(w, tt.fires, nil); len(got) != 1 || got[0].Due != tt.due {
			t.Errorf("due %d: at %d fired %v", tt.due, tt.fires, got)
		}
	}
}

func TestAnOverdueTimerSetWhileFiringWaitsForTheNextAdvance(t *testing.T) {
	w := New(10, 0)
	n := 0
	again := func(key uint32, due clock.Instant) {
		n++
		w.Set(key, due)
	}
	w.Set(7, 50)
	for want := 1; want <= 3; want++ {
		w.Advance(1000, again)
		if n != want || w.Len() != 1 {
			t.Fatalf("after Advance %d: fired %d times, %d armed", want, n, w.Len())
		}
		if at, ok := w.Next(); !ok || at > 1000 {
			t.Fatalf("Next is %d, %v with an overdue timer", at, ok)
		}
	}
}

func TestAnAdvanceIntoThePastFiresOnlyWhatWasSetOverdue(t *testing.T) {
	w := New(10, 0)
	w.Advance(100, nil)
	w.Set(0, 150)
	if got := advance(w, 50, nil); got != nil {
		t.Errorf("fired %v", got)
	}
	w.Set(1, 90)
	if diff := cmp.Diff([]shot{{1, 90}}, advance(w, 60, nil)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]shot{{0, 150}}, advance(w, 150, nil)); diff != "" {
		t.Error(diff)
	}
}

func TestATimerIsDisarmedWhileItFires(t *testing.T) {
	w := New(1, 0)
	w.Set(3, 5)
	w.Set(4, 5)
	var fired []uint32
	w.Advance(5, func(key uint32, _ clock.Instant) {
		fired = append(fired, key)
		if w.Armed(key) {
			t.Errorf("key %d is armed while it fires", key)
		}
		w.Cancel(key) // of no effect
		w.Cancel(4)
	})
	if diff := cmp.Diff([]uint32{3}, fired); diff != "" || w.Len() != 0 {
		t.Errorf("%d left; %s", w.Len(), diff)
	}
}

func TestAPanicInACallbackLosesOnlyItsOwnTimer(t *testing.T) {
	w := New(1, 0)
	w.Advance(10, nil)
	for key := range uint32(3) {
		w.Set(key, 5)
		w.Set(key+10, 20)
	}
	func() {
		defer func() { recover() }()
		w.Advance(20, func(uint32, clock.Instant) { panic("handler") })
	}()
	w.Set(9, 1)
	got := advance(w, 20, nil)
	if diff := cmp.Diff([]shot{{1, 5}, {2, 5}, {9, 1}, {10, 20}, {11, 20}, {12, 20}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheEndsOfTimeAreInReach(t *testing.T) {
	for _, start := range []clock.Instant{math.MinInt64, -1, 0, math.MaxInt64 - 5} {
		for _, tick := range []time.Duration{1, 7, time.Millisecond, math.MaxInt64} {
			w := New(tick, start)
			w.Set(0, math.MaxInt64)
			w.Set(1, math.MinInt64)
			if got := advance(w, start, nil); !slices.Contains(got, shot{1, math.MinInt64}) {
				t.Errorf("start %d, tick %d: the past did not fire", start, tick)
			}
			if at, ok := w.Next(); ok && at < start {
				t.Errorf("start %d, tick %d: Next is %d", start, tick, at)
			}
			// The last tick may lie beyond the last instant; then the timer never fires early.
			for _, f := range advance(w, math.MaxInt64-1, nil) {
				if f.Due > math.MaxInt64-1 {
					t.Errorf("start %d, tick %d: early", start, tick)
				}
			}
		}
	}
}

func TestMisuseIsRefused(t *testing.T) {
	for name, f := range map[string]func(){
		"zero tick": func() { New(0, 0) },
		"huge key":  func() { New(1, 0).Set(1<<31, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			f()
		})
	}
	w := New(1, 0)
	w.Cancel(12) // a key never seen is no mistake
	if _, ok := w.Due(12); ok || w.Armed(12) {
		t.Error("a key never set is armed")
	}
}

func TestNoAllocationAfterGrowth(t *testing.T) {
	w := New(time.Millisecond, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	now := clock.Instant(0)
	fire := func(key uint32, due clock.Instant) { w.Set(key, due.Add(time.Duration(key+1)*time.Millisecond)) }
	w.Set(4095, 1)
	if n := testing.AllocsPerRun(2000, func() {
		now = now.Add(3 * time.Millisecond)
		key := rng.Uint32N(4096)
		w.Set(key, now.Add(time.Duration(rng.Int64N(int64(time.Minute)))))
		w.Cancel(rng.Uint32N(4096))
		w.Next()
		w.Advance(now, fire)
	}); n != 0 {
		t.Errorf("%v allocations per turn", n)
	}
}

// BenchmarkRearm is a loop's use of the wheel: each of 10,000 connections has a
// timer some milliseconds away that is replaced many times before it fires.
func BenchmarkRearm(b *testing.B) {
	w := New(time.Millisecond, 0)
	rng := rand.New(rand.NewPCG(1, 2))
	now := clock.Instant(0)
	fired := func(uint32, clock.Instant) {}
	for b.Loop() {
		now += 2000
		w.Set(rng.Uint32N(10000), now.Add(time.Duration(rng.Int64N(int64(100*time.Millisecond)))))
		w.Advance(now, fired)
	}
}
