package record

import (
	"math"
	"math/rand/v2"
	"time"

	"tidemark.dev/disclosure"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/ground/tally"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/workload"
)

// sim is a target under the web99 law that grows slower with load, and a driver that records it.
type sim struct {
	rng *rand.Rand
	// capacity is the load at which overhead runs away, base the overhead (seconds) of an idle target.
	capacity, base float64
	// late is the driver's lateness as a share of op time.
	late float64
	// stall, if set, makes the target stand still for so many seconds in the middle of the window.
	stall float64
}

var (
	kindNames  = [...]string{"static", "get", "cgi", "cad", "post"}
	kindShares = [...]float64{0.70, 0.1245, 0.0015, 0.126, 0.048}
	kindSlow   = [...]float64{1, 1.25, 9, 1.6, 1.5}
)

// window is what a driver hands over about one window.
type window struct {
	it      conform.Iteration
	whole   [5]tally.Histogram
	first   [5]tally.Histogram
	seconds []disclosure.Second
}

const lineBps = 400_000.0

func (s *sim) bits(kind int) float64 {
	u, class := s.rng.Float64(), 0
	for _, c := range [3]float64{0.35, 0.85, 0.99} {
		if u >= c {
			class++
		}
	}
	order := [9]int{4, 3, 5, 2, 6, 1, 7, 8, 0}
	h, u := 2.828968254, s.rng.Float64()
	rank := 0
	for sum := 1 / h; rank < 8 && u >= sum; sum += 1 / (float64(rank+1) * h) {
		rank++
	}
	size := math.Floor(102.4*math.Pow10(class)*float64(order[rank]+1)) + 240
	if kind > 0 {
		size += 200
	}
	return 8 * size
}

func (s *sim) kind() int {
	u := s.rng.Float64()
	for k, share := range kindShares {
		if u -= share; u < 0 {
			return k
		}
	}
	return 0
}

// run simulates a window of so many slots.
func (s *sim) run(slots int, length time.Duration) *window {
	w := &window{seconds: make([]disclosure.Second, int(length.Seconds()))}
	seconds := length.Seconds()
	over := s.base / max(0.02, 1-float64(slots)/s.capacity)
	it := &w.it
	it.Requested, it.Window = slots, length
	var issued [5]uint64
	for slot := range slots {
		r := conform.Record{Slot: uint32(slot), OpTime: length, Late: time.Duration(s.late * float64(length) * s.rng.Float64() * 2)}
		var credited float64
		left := 0
		for t := -30 * (1 + s.rng.Float64()); t < seconds; {
			k := s.kind()
			bits := s.bits(k)
			wait := s.rng.ExpFloat64()*over*kindSlow[k]/1.12 + 0.0003
			if s.stall > 0 && t < seconds/2 && t+wait > seconds/2 {
				wait += s.stall
			}
			from := t + wait
			end := from + bits/lineBps
			if left == 0 {
				if left = 1; s.rng.Float64() > 0.811 {
					left = 5 + s.rng.IntN(11)
				}
				if t >= 0 {
					r.Connects++
				}
			}
			left--
			if t >= 0 {
				r.Begun++
				issued[k]++
			}
			if end >= 0 && end < seconds {
				r.Ops++
				r.Response += time.Duration((end - t) * 1e9)
				r.FirstByte += time.Duration(wait * 1e9)
				w.whole[k].Record(int64((end - t) * 1e9))
				w.first[k].Record(int64(wait * 1e9))
				w.seconds[int(end)].Ops++
			}
			for sec := max(0, int(from)); sec < len(w.seconds) && float64(sec) < end; sec++ {
				part := lineBps * max(0, min(end, float64(sec+1))-max(from, float64(sec)))
				w.seconds[sec].Bits += int64(part)
			}
			credited += lineBps * max(0, min(end, seconds)-max(from, 0))
			t = end
		}
		r.CreditedBits = int64(credited)
		r.WireBytes = r.CreditedBits/8 + int64(r.Ops)*40
		it.Records = append(it.Records, r)
	}
	for i := range w.seconds {
		w.seconds[i].Second = i
		w.seconds[i].Open = slots
		w.seconds[i].Connects = w.seconds[i].Ops * 37 / 100
		w.seconds[i].Late = int64(s.late * 1e9 * float64(slots) * (0.6 + 0.8*s.rng.Float64()))
	}
	posts := issued[4]
	it.Posts = conform.PostCheck{Checked: true, Acked: posts, Found: posts}
	it.Errors = map[string]conform.ErrorCount{}
	a := &it.Audit
	a.Agents, a.Reported, a.Attempted = 2, 2, slots
	for k, n := range issued {
		a.Plan = append(a.Plan, conform.PlanCount{Kind: kindNames[k], Issued: n, Planned: n})
	}
	_, p := workload.ChiSquare(issued[:], kindShares[:])
	a.ChiSquareP = map[string]float64{"kind": p, "class": 0.38, "file": 0.71, "directory": 0.16}
	a.ClockOffset = 40 * time.Microsecond
	a.RunQueue, a.Steal = 0.006, 0.001
	a.WorstLate = 2300 * time.Microsecond
	a.Congestion = []string{"cubic"}
	return w
}

// disclose makes the document's form of a judged window.
func (w *window) disclose(number int, kind string, started time.Time, j *conform.Judgement, rule conform.Rule) disclosure.Iteration {
	d := FromIteration(&w.it, j, rule)
	d.Number, d.Kind, d.Attempt = number, kind, 1
	d.StartedAt = started.UTC().Format(time.RFC3339)
	add := func(set *[]disclosure.Latency, name string, hs ...*tally.Histogram) {
		*set = append(*set, disclosure.NewLatency(name, func(yield func(low, high, count int64)) {
			for _, h := range hs {
				h.Buckets(yield)
			}
		}, 0))
	}
	var all, allFirst []*tally.Histogram
	for k := range w.whole {
		all, allFirst = append(all, &w.whole[k]), append(allFirst, &w.first[k])
		add(&d.Latency, kindNames[k], &w.whole[k])
		add(&d.TTFB, kindNames[k], &w.first[k])
	}
	add(&d.Latency, "all", all...)
	add(&d.TTFB, "all", allFirst...)
	d.Traffic.VerifiedBytes = d.Traffic.WireBytes / 16
	d.Traffic.VerifiedOps = d.Ops / 16
	busy := 0.12 + 0.8*float64(w.it.Requested)/1600
	d.CPU = []disclosure.CPU{
		{Name: "target", User: busy * d.Window * 0.3, System: busy * d.Window * 0.7, Cores: busy, Available: 1, MaxRSS: 152 << 20},
		{Name: "agent-1", User: busy * d.Window * 0.2, System: busy * d.Window * 0.25, Cores: busy * 0.45, Available: 1, MaxRSS: 61 << 20},
	}
	points := 240
	d.Overview = disclosure.NewOverview(w.seconds, w.it.Requested, points)
	d.Slots, d.Seconds = disclosure.SlotsFile, disclosure.SecondsFile
	for i := range w.seconds {
		w.seconds[i].Iteration = number
	}
	return d
}

func broke(it *conform.Iteration) {
	it.Posts.Found -= 3
	it.Posts.Missing = 3
	it.Errors[conform.ClassBytes] = conform.ErrorCount{Count: 2, Origin: fault.Target, Example: "/file_set/dir00007/class1_4 differs at byte 2,113"}
}
