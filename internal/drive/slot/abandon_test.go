package slot

import (
	"testing"
	"time"

	"tidemark.dev/internal/drive/slot/origin"
)

// TestAbandon gives up a drain that does not end: every slot then waits as after any drain, the window that has ended
// takes back what it credited to the operations, and the load goes on when it is told to.
func TestAbandon(t *testing.T) {
	s := simulate(t, Plan{Count: 100, RampPerSecond: 1000, VerifyEvery: -1}, 30, 100)
	healthy := s.serve
	s.load(100)
	s.run(s.now.Add(3 * time.Second))
	o := &origin.Origin{Seed: s.w.plan.FileSeed, Tables: s.tables, Routes: s.w.plan.Workload.Routes}
	s.serve = func(c *simConn, req []byte) { // from here on no request is answered to its end
		b, _ := o.Answer(req)
		c.send(10*time.Millisecond, b[:len(b)-1])
	}
	win := s.window(100*time.Millisecond, 4*time.Second)
	s.run(s.now.Add(5 * time.Second))
	credited := func() (bits int64) {
		for i := range win.records {
			bits += win.records[i].CreditedBits
		}
		return bits
	}
	idle := make(chan struct{})
	s.w.idleWait = append(s.w.idleWait, idle)
	if n := s.w.abandon(); n != 0 {
		t.Errorf("%d operations given up without a drain", n)
	}
	s.w.pause()
	s.run(s.now.Add(5 * time.Second))
	open, before, failed := s.w.running, credited(), s.w.sum.failed
	var passed int64
	for i := range s.w.slots {
		if sl := &s.w.slots[i]; sl.state >= connecting {
			passed += sl.passed
		}
	}
	if open == 0 || passed == 0 {
		t.Fatalf("%d operations open, %d bits credited to them", open, passed)
	}
	if n := s.w.abandon(); n != open || s.w.running != 0 || s.w.sum.failed != failed+uint64(open) {
		t.Errorf("%d of %d given up, %d run, %d failed", n, open, s.w.running, s.w.sum.failed-failed)
	}
	select {
	case <-idle:
	default:
		t.Error("who waits for the drain is not told")
	}
	if after := credited(); after != before-passed {
		t.Errorf("%d bits credited, %d before, %d of them to operations given up", after, before, passed)
	}
	s.serve = healthy
	s.w.resume(2)
	s.run(s.now.Add(3 * time.Second))
	if s.w.running != 100 || s.w.reached.Load() != 2 || s.w.sum.failed != failed+uint64(open) {
		t.Errorf("%d run again, %d more failures", s.w.running, s.w.sum.failed-failed-uint64(open))
	}
}
