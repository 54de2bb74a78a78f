package slot

import (
	"math/rand/v2"
	"testing"
	"time"

	"tidemark.dev/internal/drive/slot/exchange"
	"tidemark.dev/internal/drive/slot/origin"
	"tidemark.dev/internal/ground/clock"
)

func TestTimesTileTheWindow(t *testing.T) {
	for name, lag := range map[string]time.Duration{"prompt": 0, "late": 700 * time.Microsecond} {
		t.Run(name, func(t *testing.T) {
			const slots = 60
			r := rand.New(rand.NewPCG(7, 7))
			s := simulate(t, Plan{Count: slots, Seed: 5, FileSeed: 9}, 30, 100)
			if lag > 0 {
				s.lag = func() time.Duration { return time.Duration(r.Int64N(int64(lag))) }
			}
			o := &origin.Origin{Seed: 9, Tables: s.tables, Routes: s.w.plan.Workload.Routes}
			s.serve = func(c *simConn, req []byte) {
				if r.IntN(200) == 0 { // some fail
					c.rst(time.Millisecond)
					return
				}
				b, last := o.Answer(req)
				d := time.Duration(r.ExpFloat64() * float64(40*time.Millisecond))
				c.send(d, b)
				if last {
					c.fin(d + time.Duration(r.IntN(40)/39)*time.Second/2)
				}
			}
			s.load(slots)
			win := s.window(2*time.Second, 22*time.Second)

			if win.opTime != slots*20*time.Second {
				t.Errorf("operations took %v of the window, want %v", win.opTime, slots*20*time.Second)
			}
			var ops, failed, begun uint32
			var late, first time.Duration
			var credited int64
			for _, rec := range win.records {
				if rec.OpTime != 20*time.Second {
					t.Errorf("slot %d: operations took %v of 20s", rec.Slot, rec.OpTime)
				}
				if limit := int64(400_000 * 20); rec.CreditedBits > limit || rec.CreditedBits < limit/2 {
					t.Errorf("slot %d: %d bits credited, the line carries %d", rec.Slot, rec.CreditedBits, limit)
				}
				ops, failed, begun = ops+rec.Ops, failed+rec.Failed, begun+rec.Begun
				late += rec.Late
				first += rec.FirstByte
				credited += rec.CreditedBits
			}
			if ops < slots*30 || failed == 0 {
				t.Errorf("%d operations, %d failed: not much of a run", ops, failed)
			}
			if d := int(begun) - int(ops+failed); d < -slots || d > slots {
				t.Errorf("%d begun, %d ended", begun, ops+failed)
			}
			if mean := first / time.Duration(ops); mean < 25*time.Millisecond || mean > 80*time.Millisecond {
				t.Errorf("first byte after %v on average, the network takes 40ms and some connects", mean)
			}
			if lag == 0 && late > time.Duration(ops)*time.Millisecond || late == 0 {
				t.Errorf("lateness %v over %d operations", late, ops)
			}
			for i := range win.records {
				win.recount(i)
			}
			if win.planned.distance(&win.issued) != 0 {
				t.Errorf("issued %v, planned %v", win.issued, win.planned)
			}
			var sec Second
			for i := range win.series {
				sec.add(&win.series[i])
			}
			if sec.Ops != ops || sec.Failed != failed {
				t.Errorf("series has %d and %d, records %d and %d", sec.Ops, sec.Failed, ops, failed)
			}
			if sec.Bits < credited*9/10 || sec.Bits > credited*11/10 {
				t.Errorf("series has %d bits, %d were credited", sec.Bits, credited)
			}
			if win.trip.count[exchange.Reset] != uint64(failed) {
				t.Errorf("%d resets of %d failures", win.trip.count[exchange.Reset], failed)
			}
			var recorded int64
			for k := range win.kinds {
				recorded += win.kinds[k].whole.Count()
			}
			if recorded != int64(ops) {
				t.Errorf("histograms hold %d of %d operations", recorded, ops)
			}
		})
	}
}

// TestLatenessIsSplitAtEdges stalls the loop, now and then for most of a window, so that delays lie across its edges: no
// record may hold more lateness than time, and all of a stall inside a window is in it.
func TestLatenessIsSplitAtEdges(t *testing.T) {
	const slots, length = 40, 2 * time.Second
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 11))
		s := simulate(t, Plan{Count: slots, Seed: seed, FileSeed: 9}, 30, 100)
		s.load(slots)
		// One stall, from before the window, inside it, or until after it.
		from := time.Duration(r.Int64N(int64(3500*time.Millisecond))) + 500*time.Millisecond
		stall := time.Duration(r.Int64N(int64(2500 * time.Millisecond)))
		first, last := s.now.Add(time.Second), s.now.Add(time.Second+length)
		begin := s.now.Add(from)
		var stalled [2]clock.Instant
		s.lag = func() time.Duration {
			if s.now < begin || stalled[0] != 0 {
				return 0
			}
			stalled = [2]clock.Instant{s.now, s.now.Add(stall)}
			return stall
		}
		win := newWindow(first, last, slots, 100)
		s.w.setWindow(win)
		s.run(last.Add(3 * time.Second))
		inside := max(0, min(stalled[1], last).Sub(max(stalled[0], first)))
		var late time.Duration
		for _, rec := range win.records {
			late += rec.Late
			if rec.Late > rec.OpTime || rec.OpTime != length {
				t.Errorf("seed %d, stall of %v at %v: slot %d late for %v of %v", seed, stall, from, rec.Slot, rec.Late, rec.OpTime)
			}
			if rec.Late > inside+20*time.Millisecond {
				t.Errorf("seed %d, stall of %v at %v: slot %d late for %v, %v of it in the window", seed, stall, from, rec.Slot, rec.Late, inside)
			}
		}
		// A slot is held up from when something is due for it, and delayed reads count only if they delay the end.
		if inside > time.Second && late < slots*inside/4 {
			t.Errorf("seed %d, stall of %v at %v: each late for %v of %v", seed, stall, from, late/slots, inside)
		}
	}
}
