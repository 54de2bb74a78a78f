package conform

import (
	"strings"
	"testing"
	"time"

	"tidemark.dev/internal/ground/fault"
)

// Every rule: what breaks it, and what the verdict then is.
func TestRules(t *testing.T) {
	const n, window = 200, 1200 * time.Second
	each := func(f func(i int, r *Record)) func(*Iteration) {
		return func(it *Iteration) {
			for i := range it.Records {
				f(i, &it.Records[i])
			}
		}
	}
	slow := func(count int) func(*Iteration) {
		return each(func(i int, r *Record) {
			if i < count {
				r.CreditedBits = int64(319_999 * window.Seconds())
			}
		})
	}
	const none = Effect(255)
	tests := []struct {
		name   string
		change func(*Iteration)
		effect Effect
		code   string
		text   string // part of the reason
		origin fault.Origin
	}{
		{"nothing wrong", func(*Iteration) {}, none, "", "", 0},
		{"floor is met exactly", each(func(_ int, r *Record) { r.CreditedBits = int64(320_000 * window.Seconds()) }), none, "", "", 0},
		{"99 percent is enough", slow(2), none, "", "", 0},
		{"a slot more is not", slow(3), NotPassing, "too_few_conform", "197 of 200 connections conform (98.5 %); 99 % must", fault.Target},
		{"one in a hundred operations of a slot", each(func(i int, r *Record) {
			if i < 3 {
				r.Ops, r.Failed = 99*36, 36
			}
		}), NotPassing, "too_few_conform", "", fault.Target},
		{"just fewer", each(func(i int, r *Record) {
			if i < 3 {
				r.Ops, r.Failed = 99*36+1, 36
			}
		}), none, "", "", 0},
		{"one in a hundred operations of all", each(func(i int, r *Record) { r.Ops, r.Failed = 3564, 36 }), NotPassing, "too_many_errors", "7,200", fault.Target},
		{"a refused connection is the target's", func(it *Iteration) {
			it.Errors = map[string]ErrorCount{ClassRefused: {Count: 9, Origin: fault.Target}}
		}, none, "", "", 0},

		{"no slots", func(it *Iteration) { it.Requested = 0 }, Invalid, "nothing_measured", "", fault.Driver},
		{"no window", func(it *Iteration) { it.Window = 0 }, Invalid, "nothing_measured", "", fault.Driver},
		{"missing record", func(it *Iteration) { it.Records = append(it.Records[:7], it.Records[8:]...) }, Invalid, "records_missing", "1 slot of 200 left no record (slot 7)", fault.Driver},
		{"doubled record", func(it *Iteration) { it.Records = append(it.Records, it.Records[3]) }, Invalid, "records_surplus", "1 for slots that have one", fault.Driver},
		{"foreign record", func(it *Iteration) { it.Records = append(it.Records, Record{Slot: n}) }, Invalid, "records_surplus", "1 for slots not requested", fault.Driver},
		{"agent silent", func(it *Iteration) { it.Audit.Agents = 2 }, Invalid, "agents_missing", "1 of 2 agents reported", fault.Driver},
		{"no agent", func(it *Iteration) { it.Audit.Agents, it.Audit.Reported = 0, 0 }, Invalid, "agents_missing", "", fault.Driver},
		{"slot not attempted", func(it *Iteration) { it.Audit.Attempted-- }, Invalid, "slots_unattempted", "199 of 200 slots", fault.Driver},
		{"one response catches up in the window", each(func(i int, r *Record) {
			if i == 5 {
				r.CreditedBits = int64(400_000*window.Seconds()) + 7_000_000
			}
		}), none, "", "", 0},
		{"more credit than a response can have", each(func(i int, r *Record) {
			if i == 5 {
				r.CreditedBits = int64(400_000*window.Seconds()) + 9_000_000
			}
		}), Invalid, "records_impossible", "(slot 5); the first has", fault.Driver},
		{"all slots catch up", each(func(i int, r *Record) {
			r.CreditedBits = int64(401_000 * window.Seconds())
		}), Invalid, "credit_impossible", "401.00 kbit/s were credited to each connection; its line carries 400", fault.Driver},
		{"more lateness than time", each(func(i int, r *Record) { r.Late = r.OpTime + 1 }), Invalid, "records_impossible", "(slots 0, 1, 2, 3, 4 ...); the first has lateness of", fault.Driver},
		{"out of descriptors", func(it *Iteration) {
			it.Errors = map[string]ErrorCount{ClassFiles: {Count: 2, Origin: fault.Driver}}
		}, Invalid, "own_failures", "2 failures of the driver itself: no-descriptors 2", fault.Driver},
		{"origin follows from the class", func(it *Iteration) {
			it.Errors = map[string]ErrorCount{ClassPorts: {Count: 1}}
		}, Invalid, "own_failures", "no-ports 1", fault.Driver},
		{"own failure outside operations", func(it *Iteration) {
			it.Audit.DriverFailures = map[string]uint64{"lost-message": 1}
		}, Invalid, "own_failures", "lost-message 1", fault.Driver},
		{"own failure listed twice counts once", func(it *Iteration) {
			it.Audit.DriverFailures = map[string]uint64{ClassFiles: 3}
			it.Errors = map[string]ErrorCount{ClassFiles: {Count: 2}}
		}, Invalid, "own_failures", "3 failures of the driver itself: no-descriptors 3", fault.Driver},
		{"unknown origin counts as ours", func(it *Iteration) {
			it.Errors = map[string]ErrorCount{"gremlin": {Count: 1}}
		}, Invalid, "unclassified_failures", "gremlin 1", fault.Unknown},
		{"operation time lost", each(func(i int, r *Record) { r.OpTime -= r.OpTime / 500 }), Invalid, "identity", "-0.200 % off", fault.Driver},
		{"operation time within a tenth of a percent", each(func(i int, r *Record) { r.OpTime -= r.OpTime / 1100 }), none, "", "", 0},
		{"late share", each(func(i int, r *Record) { r.Late = r.OpTime / 90 }), Invalid, "late_share", "1.11 %", fault.Driver},
		{"lateness decides two slots in a hundred", each(func(i int, r *Record) {
			if i < 2 {
				r.CreditedBits = int64(319_999 * window.Seconds())
			}
		}), Invalid, "late_slots", "2 slots (1.00 %)", fault.Driver},
		{"lateness decides slots of an iteration that fails anyway", each(func(i int, r *Record) {
			switch {
			case i < 2:
				r.CreditedBits = int64(319_999 * window.Seconds())
			case i < 10:
				r.CreditedBits = int64(300_000 * window.Seconds())
			}
		}), NotPassing, "too_few_conform", "190 of 200", fault.Target},
		{"lateness decides one slot of a hundred", func(it *Iteration) {
			it.Requested, it.Audit.Attempted, it.Records = 100, 100, it.Records[:100]
			it.Records[0].CreditedBits, it.Records[0].Late = int64(319_999*window.Seconds()), window/2000
		}, none, "", "", 0},
		{"lateness decides the iteration", slow(3), Invalid, "late_verdict", "98.50 % of the slots conform as measured, 100.00 % with it taken away", fault.Driver},
		{"plan not compared", func(it *Iteration) { it.Audit.Plan = nil }, Invalid, "plan_unchecked", "", fault.Driver},
		{"plan differs", func(it *Iteration) { it.Audit.Plan[1].Issued++ }, Invalid, "plan_differs", "for get: 1001 issued, 1000 planned", fault.Driver},
		{"mix not tested", func(it *Iteration) { it.Audit.ChiSquareP = nil }, Invalid, "mix_unchecked", "", fault.Driver},
		{"mix unlikely", func(it *Iteration) { it.Audit.ChiSquareP["class"] = 1e-7 }, Invalid, "mix_unlikely", "distribution of class", fault.Driver},
		{"clocks apart", func(it *Iteration) { it.Audit.ClockOffset = -101 * time.Millisecond }, Invalid, "clock_offset", "101.0 ms apart", fault.Driver},
		{"histogram overflow", func(it *Iteration) { it.Audit.Overflow = 1 }, Invalid, "histogram_overflow", "1 measured time", fault.Driver},
		{"memory pressure", func(it *Iteration) { it.Audit.MemoryPressure = 2 }, Invalid, "memory_pressure", "2 times", fault.Driver},

		{"wrong bytes", func(it *Iteration) {
			it.Errors = map[string]ErrorCount{ClassBytes: {Count: 1, Origin: fault.Target, Example: "/file_set/dir00000/class0_1 at byte 7"}}
		}, BrokeRules, "broke_wrong_bytes", "1 operation answered with the wrong bytes; the first: /file_set", fault.Target},
		{"stale table", func(it *Iteration) {
			it.Errors = map[string]ErrorCount{ClassTable: {Count: 1}}
		}, BrokeRules, "broke_stale_table", "a stale table", fault.Target},
		{"post lost", func(it *Iteration) { it.Posts.Found, it.Posts.Missing = 39, 1 }, BrokeRules, "posts_missing", "1 of 40 acknowledged POST records", fault.Target},
		{"post doubled", func(it *Iteration) { it.Posts.Doubled = 2 }, BrokeRules, "posts_doubled", "2 POST records", fault.Target},
		{"post nobody sent", func(it *Iteration) { it.Posts.Foreign = 1 }, BrokeRules, "posts_foreign", "1 POST record", fault.Target},
		{"post unfinished", func(it *Iteration) { it.Posts.Uncertain = 5 }, none, "", "", 0},
		{"other rule", func(it *Iteration) { it.Broke = []string{"the Date header stood still"} }, BrokeRules, "broke_rule", "Date header", fault.Target},

		{"run queue", func(it *Iteration) { it.Audit.RunQueue = 0.021 }, Incomparable, "run_queue", "2.1 %", fault.Driver},
		{"steal", func(it *Iteration) { it.Audit.Steal = 0.5 }, Incomparable, "steal", "50.0 %", fault.Driver},
		{"port reuse", func(it *Iteration) { it.Audit.PortReuse = 1 }, Incomparable, "port_reuse", "1 connection reused", fault.Driver},
		{"time wait overflow", func(it *Iteration) { it.Audit.TimeWaitOverflow = 1 }, Incomparable, "time_wait_overflow", "once", fault.Driver},
		{"congestion mixed", func(it *Iteration) { it.Audit.Congestion = []string{"cubic", "bbr"} }, Incomparable, "congestion_mixed", "bbr, cubic", fault.Driver},
		{"posts unchecked", func(it *Iteration) { it.Posts = PostCheck{} }, Incomparable, "posts_unchecked", "", fault.Driver},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			it := sound(n, window)
			if tt.effect != Invalid || !strings.HasPrefix(tt.code, "late_") {
				for i := range it.Records {
					it.Records[i].Late = 0
				}
			}
			tt.change(it)
			j := Judge(DefaultRule(), it)
			if tt.effect == none {
				if len(j.Reasons) != 0 || !j.Valid || !j.Passing || !j.Comparable || j.Broke {
					t.Fatalf("not sound: %+v", j.Reasons)
				}
				return
			}
			var found *Reason
			for i := range j.Reasons {
				if j.Reasons[i].Code == tt.code {
					found = &j.Reasons[i]
				}
			}
			if found == nil {
				t.Fatalf("no reason %q in %+v", tt.code, j.Reasons)
			}
			if found.Effect != tt.effect || found.Origin != tt.origin || !strings.Contains(found.Text, tt.text) {
				t.Errorf("reason %+v, want effect %v, origin %v, text with %q", *found, tt.effect, tt.origin, tt.text)
			}
			if want := tt.effect != Invalid; j.Valid != want {
				t.Errorf("valid %v: %+v", j.Valid, j.Reasons)
			}
			if want := tt.effect == Incomparable; j.Passing != want {
				t.Errorf("passing %v: %+v", j.Passing, j.Reasons)
			}
			if want := tt.effect == NotPassing; j.Comparable != want { // a fail is as comparable as a pass
				t.Errorf("comparable %v: %+v", j.Comparable, j.Reasons)
			}
			if want := tt.effect == BrokeRules; j.Broke != want {
				t.Errorf("broke %v: %+v", j.Broke, j.Reasons)
			}
		})
	}
}

// Below MinOps the error share is that of the pool, so that one failure in a short window does not cost a slot, and
// many failures cost all.
func TestErrorsArePooledInShortWindows(t *testing.T) {
	rule := DefaultRule()
	it := sound(100, 5*time.Second) // 15 operations a slot, 1,500 in all
	for i := range 14 {
		it.Records[i].Failed, it.Records[i].Ops = 1, it.Records[i].Ops-1
	}
	if j := Judge(rule, it); j.Conforming != 100 || j.Erring != 0 || !j.Passing {
		t.Errorf("14 of 1,500 failed: %d conform, %d erring: %v", j.Conforming, j.Erring, j.Reasons)
	}
	it.Records[14].Failed, it.Records[14].Ops = 1, it.Records[14].Ops-1
	if j := Judge(rule, it); j.Conforming != 0 || j.Erring != 100 || j.Passing {
		t.Errorf("15 of 1,500 failed: %d conform, %d erring", j.Conforming, j.Erring)
	}
}

// A slot in the middle of one large file completes nothing in a short window and yet keeps its line speed; a slot
// that stalls does not.
func TestSlotWithoutCompletedOperation(t *testing.T) {
	rule := DefaultRule()
	it := sound(100, 5*time.Second)
	it.Records[0] = Record{Slot: 0, CreditedBits: 2_000_000, OpTime: 5 * time.Second}
	it.Records[1] = Record{Slot: 1, CreditedBits: 0, OpTime: 5 * time.Second}
	j := Judge(rule, it)
	if !j.Conforms[0] || j.Conforms[1] || j.Slow != 1 {
		t.Errorf("conforms %v %v, slow %d", j.Conforms[0], j.Conforms[1], j.Slow)
	}
	if j.AdjustedRates[0] != 400_000 {
		t.Errorf("adjusted rate %.0f, want the line speed", j.AdjustedRates[0])
	}
}

func TestRatesByHand(t *testing.T) {
	rule := DefaultRule() // mean operation 120,000 bits: 300 ms at line speed
	rec := Record{CreditedBits: 1_600_000, Begun: 10}
	raw, adjusted := rule.rates(&rec, 5*time.Second)
	// 4 s of 5 credited: 1 s over 10 operations, 100 ms each.
	if raw != 320_000 || adjusted != 300_000 {
		t.Errorf("raw %.0f, adjusted %.0f, want 320000, 300000", raw, adjusted)
	}
}

func TestSummary(t *testing.T) {
	rule := DefaultRule()
	pass := func(conforming int) Judgement {
		it := sound(200, 1200*time.Second)
		for i := range 200 - conforming {
			it.Records[i].CreditedBits = int64(300_000 * 1200)
		}
		return Judge(rule, it)
	}
	void := sound(200, 1200*time.Second)
	void.Audit.Overflow = 1
	lost := sound(200, 1200*time.Second)
	lost.Posts.Missing = 3
	full := Setting{Full: true, MTU: 1500}
	tests := []struct {
		name       string
		set        Setting
		js         []Judgement
		words      string
		exit       int
		score      int
		comparable bool
	}{
		{"passes", full, []Judgement{pass(198), pass(200), pass(199)}, "Passes: 199 of 200 connections conform (99.5 %), the median of 3 iterations.", 0, 199, true},
		{"one iteration too low", full, []Judgement{pass(198), pass(197), pass(199)}, "Does not pass at 200 connections. Iteration 2: 197 of 200 connections conform (98.5 %); 99 % must.", 3, 0, true},
		{"one invalid", full, []Judgement{pass(200), Judge(rule, void), pass(200)}, "Invalid: the instrument was not able to measure. Iteration 2: 1 measured time outside the range of every histogram.", 2, 0, false},
		{"posts lost", full, []Judgement{pass(200), pass(200), Judge(rule, lost)}, "The target broke the rules. Iteration 3: 3 of 40 acknowledged POST records are not in the target's log.", 3, 0, false},
		{"invalid before broken", full, []Judgement{Judge(rule, void), Judge(rule, lost)}, "Invalid:", 2, 0, false},
		{"two only", full, []Judgement{pass(200), pass(200)}, "Does not pass at 200 connections. A score takes 3 iterations, not 2.", 3, 0, true},
		{"two only, and not comparable", Setting{Local: true}, []Judgement{pass(200), pass(200)}, "Does not pass at 200 connections. A score takes 3", 3, 0, false},
		{"none", full, nil, "Invalid: the instrument was not able to measure. No iteration was measured.", 2, 0, false},
		{"quick", Setting{Local: true, Overrides: []string{"window=8s"}}, []Judgement{pass(200), pass(200), pass(200)}, "Passes:", 0, 200, false},
		{"jumbo frames", Setting{Full: true, MTU: 9000}, []Judgement{pass(200), pass(200), pass(200)}, "Passes:", 0, 200, false},
		{"mtu unknown", Setting{Full: true}, []Judgement{pass(200), pass(200), pass(200)}, "Passes:", 0, 200, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Summarize(tt.set, tt.js)
			if !strings.HasPrefix(s.Words, tt.words) {
				t.Errorf("words %q, want %q", s.Words, tt.words)
			}
			if s.ExitCode != tt.exit || s.Score != tt.score || s.Comparable != tt.comparable {
				t.Errorf("exit %d, score %d, comparable %v: %+v", s.ExitCode, s.Score, s.Comparable, s.Reasons)
			}
			if (s.Median >= 0) != (tt.score > 0) {
				t.Errorf("median %d with score %d", s.Median, s.Score)
			}
		})
	}
	mixed := sound(201, 1200*time.Second)
	if s := Summarize(full, []Judgement{pass(200), Judge(rule, mixed), pass(200)}); s.Valid || s.ExitCode != ExitInvalid {
		t.Errorf("iterations at different loads: %+v", s)
	}
}

func TestPercentWords(t *testing.T) {
	for p, want := range map[float64]string{98.97: "98.97 %", 99: "99 %", 99.43: "99.4 %", 99.96: "99.96 %", 100: "100 %", 0: "0 %", 98.9999: "98.9999 %"} {
		if got := percent(p); got != want {
			t.Errorf("percent(%v) = %q, want %q", p, got, want)
		}
	}
}
