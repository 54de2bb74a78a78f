package conform

import "time"

// sound is an iteration with nothing wrong: every slot at 360 kbit/s, three operations a second.
func sound(requested int, window time.Duration) *Iteration {
	it := &Iteration{
		Requested: requested, Window: window,
		Records: make([]Record, requested),
		Audit: Audit{
			Agents: 1, Reported: 1, Attempted: requested,
			Plan:       []PlanCount{{Kind: "static", Issued: 700, Planned: 700}, {Kind: "get", Issued: 300, Planned: 300}},
			ChiSquareP: map[string]float64{"kind": 0.4, "class": 0.7},
			Congestion: []string{"cubic"},
		},
		Posts: PostCheck{Checked: true, Acked: 40, Found: 40},
	}
	seconds := window.Seconds()
	for i := range it.Records {
		ops := uint32(3 * seconds)
		it.Records[i] = Record{
			Slot: uint32(i), Ops: ops, Begun: ops, Connects: 1 + ops/3,
			CreditedBits: int64(360_000 * seconds), WireBytes: int64(46_000 * seconds),
			OpTime: window, Late: window / 2000, FirstByte: time.Duration(ops) * 30 * time.Millisecond,
			Response: window,
		}
	}
	return it
}
