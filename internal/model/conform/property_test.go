package conform

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidemark.dev/internal/ground/fault"
)

func drawRecord(t *rapid.T, slot int, window time.Duration) Record {
	u := func(name string, most uint32) uint32 { return rapid.Uint32Range(0, most).Draw(t, name) }
	d := func(name string) time.Duration {
		return time.Duration(rapid.Int64Range(0, int64(window)).Draw(t, name))
	}
	return Record{
		Slot: uint32(slot), Ops: u("ops", 4000), Failed: u("failed", 50), Begun: u("begun", 4000),
		Connects: u("connects", 2000), Resets: u("resets", 9),
		CreditedBits: rapid.Int64Range(0, int64(400_000*window.Seconds())).Draw(t, "credited"),
		WireBytes:    rapid.Int64Range(0, 1<<40).Draw(t, "wire"),
		OpTime:       d("op"), Late: d("late"), FirstByte: d("first"), Response: d("response"),
	}
}

// drawIteration makes iterations of every condition, sound and broken.
func drawIteration(t *rapid.T) *Iteration {
	n := rapid.IntRange(1, 40).Draw(t, "slots")
	it := sound(n, rapid.SampledFrom([]time.Duration{5 * time.Second, 60 * time.Second, 1200 * time.Second}).Draw(t, "window"))
	for i := range it.Records {
		if rapid.Bool().Draw(t, "odd") {
			it.Records[i] = drawRecord(t, i, it.Window)
		}
	}
	if rapid.IntRange(0, 4).Draw(t, "drop") == 0 {
		it.Records = it.Records[1:]
	}
	if rapid.IntRange(0, 4).Draw(t, "double") == 0 {
		it.Records = append(it.Records, drawRecord(t, rapid.IntRange(0, n).Draw(t, "again"), it.Window))
	}
	it.Errors = map[string]ErrorCount{}
	for _, class := range []string{ClassReset, ClassBytes, ClassFiles, "odd"} {
		if rapid.IntRange(0, 3).Draw(t, class) == 0 {
			it.Errors[class] = ErrorCount{Count: rapid.Uint64Range(1, 9).Draw(t, "count"), Example: rapid.StringN(0, 5, -1).Draw(t, "example")}
		}
	}
	it.Audit.PortReuse = rapid.Uint64Range(0, 1).Draw(t, "reuse")
	it.Broke = rapid.SliceOfN(rapid.StringN(1, 4, -1), 0, 2).Draw(t, "broke")
	it.Broke = union(nil, it.Broke)
	return it
}

var sameFloats = cmp.Comparer(func(a, b float64) bool { return a == b || (math.IsNaN(a) && math.IsNaN(b)) })

func TestOrderOfRecordsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := drawIteration(t)
		want := Judge(DefaultRule(), it)
		shuffled := *it
		shuffled.Records = slices.Clone(it.Records)
		seed := rapid.Uint64().Draw(t, "seed")
		rand.New(rand.NewPCG(seed, 2)).Shuffle(len(shuffled.Records), func(i, j int) {
			shuffled.Records[i], shuffled.Records[j] = shuffled.Records[j], shuffled.Records[i]
		})
		if diff := cmp.Diff(want, Judge(DefaultRule(), &shuffled), sameFloats); diff != "" {
			t.Fatal(diff)
		}
	})
}

// However slots and counts are dealt out to agents, and in whatever order the agents report, the verdict is that of
// one agent.
func TestSplitAmongAgentsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := drawIteration(t)
		agents := rapid.IntRange(1, 5).Draw(t, "agents")
		it.Audit.Agents, it.Audit.Reported = agents, agents
		want := Judge(DefaultRule(), it)

		parts := make([]Iteration, agents)
		for a := range parts {
			parts[a].Window = it.Window
			parts[a].Audit.Agents, parts[a].Audit.Reported = 1, 1
			parts[a].Audit.ChiSquareP = it.Audit.ChiSquareP
			parts[a].Audit.Congestion = it.Audit.Congestion
			parts[a].Errors = map[string]ErrorCount{}
		}
		some := func(name string) *Iteration { return &parts[rapid.IntRange(0, agents-1).Draw(t, name)] }
		for range it.Requested {
			p := some("slot")
			p.Requested++
			p.Audit.Attempted++
		}
		for _, r := range it.Records {
			p := some("record")
			p.Records = append(p.Records, r)
		}
		for class, e := range it.Errors {
			for range e.Count {
				p := some("error")
				p.Errors[class] = p.Errors[class].add(ErrorCount{Count: 1, Origin: e.Origin, Example: e.Example})
			}
		}
		for _, pc := range it.Audit.Plan {
			for range pc.Issued / 100 {
				p := some("plan")
				p.Audit.Merge(&Audit{Plan: []PlanCount{{Kind: pc.Kind, Issued: 100, Planned: 100}}})
			}
		}
		some("reuse").Audit.PortReuse += it.Audit.PortReuse
		some("posts").Posts = it.Posts
		for _, b := range it.Broke {
			p := some("broke")
			p.Broke = append(p.Broke, b)
		}
		var merged Iteration
		for _, a := range rapid.Permutation(slices.Collect(upTo(agents))).Draw(t, "order") {
			merged.Merge(&parts[a])
		}
		if diff := cmp.Diff(want, Judge(DefaultRule(), &merged), sameFloats); diff != "" {
			t.Fatal(diff)
		}
	})
}

func upTo(n int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// More credit never costs a slot its conformance, and judging changes nothing.
func TestMoreCreditNeverHurts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := drawIteration(t)
		before := AppendRecords(nil, it.Records)
		j := Judge(DefaultRule(), it)
		if !bytes.Equal(before, AppendRecords(nil, it.Records)) {
			t.Fatal("judging changed the records")
		}
		if j.Conforming+max(j.Slow, j.Erring) > it.Requested || j.Conforming+j.Slow+j.Erring < it.Requested {
			t.Fatalf("%d conforming, %d slow, %d erring of %d", j.Conforming, j.Slow, j.Erring, it.Requested)
		}
		for i := range it.Records {
			it.Records[i].CreditedBits += rapid.Int64Range(0, 1000).Draw(t, "more")
		}
		if more := Judge(DefaultRule(), it); more.Conforming < j.Conforming {
			t.Fatalf("%d conform, %d with more credit", j.Conforming, more.Conforming)
		}
	})
}

func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rs []Record
		for i := range rapid.IntRange(0, 20).Draw(t, "n") {
			r := drawRecord(t, i, 1200*time.Second)
			r.Slot = rapid.Uint32().Draw(t, "slot")
			r.CreditedBits = rapid.Int64().Draw(t, "bits")
			rs = append(rs, r)
		}
		b := AppendRecords([]byte("front"), rs)
		got, rest, err := ParseRecords(append(b, "behind"...)[5:])
		if err != nil || string(rest) != "behind" {
			t.Fatalf("rest %q, error %v", rest, err)
		}
		if !slices.Equal(rs, got) {
			t.Fatal(cmp.Diff(rs, got))
		}
	})
}

func FuzzParseRecords(f *testing.F) {
	f.Add(AppendRecords(nil, nil))
	f.Add(AppendRecords(nil, sound(3, time.Minute).Records))
	f.Add([]byte{recordVersion, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{recordVersion + 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		rs, rest, err := ParseRecords(b)
		if err != nil {
			return
		}
		// What parses is restored by its own encoding.
		again, behind, err := ParseRecords(AppendRecords(nil, rs))
		if err != nil || len(behind) != 0 || !slices.Equal(rs, again) {
			t.Fatalf("%v, %d bytes behind, %d and %d records", err, len(behind), len(rs), len(again))
		}
		if len(rest) > len(b) {
			t.Fatal("rest grew")
		}
	})
}

func TestRecordSize(t *testing.T) {
	b := AppendRecords(nil, sound(1000, 1200*time.Second).Records)
	if per := len(b) / 1000; per > 64 {
		t.Errorf("a record takes %d bytes", per)
	}
}

func TestClasses(t *testing.T) {
	for _, class := range []string{ClassRefused, ClassReset, ClassClosed, ClassTimeout, ClassNetwork, ClassTLS,
		ClassMalformed, ClassStatus, ClassLength, ClassBytes, ClassWrapper, ClassCookie, ClassAd, ClassTable,
		ClassFiles, ClassPorts, ClassMemory} {
		o := OriginOf(class)
		if o == fault.Unknown {
			t.Errorf("%s has no origin", class)
		}
		if Breaks(class) && o != fault.Target {
			t.Errorf("%s breaks the rules and is of origin %v", class, o)
		}
	}
}
