package clock

import (
	"testing"
	"time"
)

// slack is far above the error of the mapping (well under a microsecond) and far
// below any mix-up of clocks.
const slack = time.Millisecond

func TestNowIsTheHostsMonotonicClock(t *testing.T) {
	for range 100 {
		before := hostNow()
		now := Now()
		after := hostNow()
		if now.Before(before.Add(-slack)) || now.After(after.Add(slack)) {
			t.Fatalf("host clock %d to %d, Now %d", before, after, now)
		}
	}
}

func TestNowNeverStepsBack(t *testing.T) {
	last := Now()
	for range 10000 {
		now := Now()
		if now.Before(last) {
			t.Fatalf("%d after %d", now, last)
		}
		last = now
	}
}

func TestWallAndOfAreInverse(t *testing.T) {
	i := Now().Add(90 * time.Minute)
	w := Wall(i)
	if d := time.Until(w) - 90*time.Minute; d < -time.Second || d > time.Second {
		t.Errorf("Wall is %v off", d)
	}
	if d := Of(w).Sub(i); d < -slack || d > slack {
		t.Errorf("Of(Wall(i)) is %v off", d)
	}
	before := Now()
	at := Of(time.Now())
	if at.Before(before) || Now().Before(at) {
		t.Errorf("Of(now) = %d is outside its bracket from %d", at, before)
	}
}

func TestArithmetic(t *testing.T) {
	i := Instant(1000)
	if got := i.Add(time.Microsecond); got != 2000 {
		t.Errorf("Add: %d", got)
	}
	if got := i.Sub(400); got != 600*time.Nanosecond {
		t.Errorf("Sub: %v", got)
	}
	if !i.Before(1001) || i.Before(1000) || i.After(1000) || !i.After(999) {
		t.Error("order is wrong")
	}
}

func TestManualMovesOnlyWhenTold(t *testing.T) {
	var m Manual
	var c Clock = &m
	if c.Now() != 0 {
		t.Errorf("starts at %d", c.Now())
	}
	if got := m.Advance(time.Second); got != Instant(time.Second) || c.Now() != got {
		t.Errorf("after a second: %d, %d", got, c.Now())
	}
	m.Set(Instant(time.Minute))
	if c.Now() != Instant(time.Minute) {
		t.Errorf("after Set: %d", c.Now())
	}
	for name, f := range map[string]func(){
		"Advance": func() { m.Advance(-1) },
		"Set":     func() { m.Set(1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s moved the clock back", name)
				}
			}()
			f()
		}()
	}
}

func TestNowDoesNotAllocate(t *testing.T) {
	var c Clock = Real{}
	if n := testing.AllocsPerRun(100, func() { c.Now() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
