package workload

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"tidemark.dev/internal/model/fileset"
)

func web99(t testing.TB) *Workload {
	t.Helper()
	w, err := Preset("web99")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// The shares printed with the benchmark's distributions, three digits.
func TestZipfShares(t *testing.T) {
	s := web99(t).Sampler(352, 1)
	want := [9]float64{0.039, 0.059, 0.088, 0.177, 0.353, 0.118, 0.071, 0.050, 0.044}
	got := s.FileShare()
	for num := range want {
		if math.Abs(got[num]-want[num]) > 0.0006 {
			t.Errorf("file %d: share %.4f, published %.3f", num, got[num], want[num])
		}
	}
	cumulative, sum := [9]float64{.039, .098, .186, .363, .716, .834, .905, .955, 1}, 0.0
	for num, p := range got {
		if sum += p; math.Abs(sum-cumulative[num]) > 0.0012 {
			t.Errorf("up to file %d: %.4f, published %.3f", num, sum, cumulative[num])
		}
	}
	for _, v := range []struct {
		load int
		top  float64
	}{{500, 0.155}, {5510, 0.114}} {
		w := web99(t)
		if got := w.Sampler(w.Dirs(v.load), 1).DirShare()[0]; math.Abs(got-v.top) > 0.0005 {
			t.Errorf("load %d: top directory %.4f, published %.3f", v.load, got, v.top)
		}
	}
	for i, want := range []float64{0.35, 0.5, 0.14, 0.01} {
		if got := s.ClassShare()[i]; math.Abs(got-want) > 1e-12 {
			t.Errorf("class %d: %v", i, got)
		}
	}
	for _, shares := range [][]float64{s.ClassShare(), s.FileShare(), s.DirShare(), s.KindShare()} {
		sum := 0.0
		for _, p := range shares {
			sum += p
		}
		if math.Abs(sum-1) > 1e-12 {
			t.Errorf("shares sum to %v", sum)
		}
	}
}

func TestMeans(t *testing.T) {
	s := web99(t).Sampler(25, 1)
	if got := math.Round(s.MeanFileBytes()); got != 14727 {
		t.Errorf("mean file %v bytes, want 14727", got)
	}
	if got := s.MeanBits(0); math.Abs(got-117_814) > 50 { // "117.8 kbit"
		t.Errorf("mean bits %v", got)
	}
	if got := s.MeanBits(2000) - s.MeanBits(0); got != 2000 {
		t.Errorf("header bits count as %v", got)
	}
	var share [4]float64 // bytes by class: 1.2, 17.0, 47.7, 34.1 %
	for i, p := range s.fileShare {
		share[i/9] += p * float64(fileset.FileAt(int64(i)).Size()) / s.MeanFileBytes()
	}
	for class, want := range []float64{0.012, 0.170, 0.477, 0.341} {
		if math.Abs(share[class]-want) > 0.0006 {
			t.Errorf("class %d carries %.4f of the bytes, want %.3f", class, share[class], want)
		}
	}
}

// drawn counts what ops drew.
type drawn struct {
	file     [36]uint64
	num      [9]uint64
	class    [4]uint64
	dir      []uint64
	kind     [Kinds]uint64
	user, ad []uint64
	sessions uint64
	http10   uint64
	ops      uint64
}

func count(s *Sampler, slots, ops, dirs, users int, seed uint64) *drawn {
	d := &drawn{dir: make([]uint64, dirs), user: make([]uint64, users), ad: make([]uint64, MaxAds)}
	var op Op
	for slot := range slots {
		c := Cursor{Seed: seed, Slot: uint32(slot)}
		for range ops {
			s.Next(&c, &op)
			d.ops++
			d.file[9*op.File.Class+op.File.Num]++
			d.class[op.File.Class]++
			d.num[op.File.Num]++
			d.dir[op.File.Dir]++
			d.kind[op.Kind]++
			if op.User >= 0 {
				d.user[op.User]++
			}
			if op.LastAd >= 0 {
				d.ad[op.LastAd]++
			}
			if op.First {
				d.sessions++
			}
			if op.HTTP10 {
				d.http10++
			}
		}
	}
	return d
}

func uniform(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// Ten million operations follow the law, and a bias of 2 % in one of the shares
// would not have passed.
func TestDrawsFollowTheLaw(t *testing.T) {
	const dirs, users = 685, 1008
	w := web99(t)
	slots := 10_000
	if testing.Short() {
		slots = 1_000
	}
	s := w.Sampler(dirs, users)
	d := count(s, slots, 1000, dirs, users, 0x7469646d)
	for _, v := range []struct {
		name     string
		observed []uint64
		expected []float64
	}{
		{"class", d.class[:], s.ClassShare()},
		{"file of a directory", d.file[:], s.fileShare},
		{"file", d.num[:], s.FileShare()},
		{"directory", d.dir, s.DirShare()},
		{"kind", d.kind[:], s.KindShare()},
		{"user", d.user, uniform(users)},
		{"last ad", d.ad, uniform(MaxAds)},
	} {
		if stat, p := ChiSquare(v.observed, v.expected); !(p > 1e-6) {
			t.Errorf("%s: chi-square %.1f, p %.3g", v.name, stat, p)
		}
		if v.name == "user" || v.name == "last ad" || testing.Short() {
			continue
		}
		planted := slices.Clone(v.expected)
		most := slices.Index(planted, slices.Max(planted))
		planted[most] *= 1.02
		if _, p := ChiSquare(v.observed, planted); p > 1e-6 {
			t.Errorf("%s: a planted bias of 2 %% passes with p %.3g", v.name, p)
		}
	}
	if got := float64(d.ops) / float64(d.sessions); math.Abs(got-1/0.37) > 0.02 {
		t.Errorf("%.3f requests per connection, want %.3f", got, 1/0.37)
	}
	// Only single-request connections speak HTTP/1.0: 30 % of the requests.
	if got := float64(d.http10) / float64(d.ops); math.Abs(got-0.3) > 0.003 {
		t.Errorf("%.4f of the requests are HTTP/1.0, want 0.3", got)
	}
}

// Consecutive operations and neighbouring slots are independent: pairs of
// classes follow the product of the shares.
func TestDrawsAreIndependent(t *testing.T) {
	s := web99(t).Sampler(25, 10)
	class := s.ClassShare()
	pairs := make([]float64, 16)
	for i := range pairs {
		pairs[i] = class[i/4] * class[i%4]
	}
	const n = 200_000
	serial, across := make([]uint64, 16), make([]uint64, 16)
	kindClass := make([]uint64, 4*Kinds)
	joint := make([]float64, 4*Kinds)
	for i := range joint {
		joint[i] = s.KindShare()[i/4] * class[i%4]
	}
	var op Op
	a := Cursor{Seed: 3, Slot: 0}
	last := -1
	for range n {
		s.Next(&a, &op)
		if last >= 0 && op.Index%2 == 1 {
			serial[4*last+int(op.File.Class)]++
		}
		last = int(op.File.Class)
		kindClass[4*int(op.Kind)+last]++
	}
	for slot := uint32(0); slot < 2*n; slot += 2 {
		var one, two Op
		s.Next(&Cursor{Seed: 3, Slot: slot}, &one)
		s.Next(&Cursor{Seed: 3, Slot: slot + 1}, &two)
		across[4*one.File.Class+two.File.Class]++
	}
	for name, v := range map[string]struct {
		observed []uint64
		expected []float64
	}{"serial": {serial, pairs}, "across slots": {across, pairs}, "kind and class": {kindClass, joint}} {
		if stat, p := ChiSquare(v.observed, v.expected); !(p > 1e-6) {
			t.Errorf("%s: chi-square %.1f, p %.3g", name, stat, p)
		}
	}
}

func TestSessions(t *testing.T) {
	for _, v := range []struct {
		name string
		edit func(*Sessions)
		mean float64
	}{
		{"requests", func(*Sessions) {}, 1 / 0.37},
		{"connections", func(s *Sessions) { s.Of = OfConnections }, 7.3},
		{"none kept", func(s *Sessions) { s.KeepaliveShare = 0 }, 1},
		{"all kept", func(s *Sessions) { s.KeepaliveShare = 1 }, 10},
		{"longest", func(s *Sessions) { s.KeepaliveShare, s.Shortest, s.Longest = 1, 255, 255 }, 255},
	} {
		w := *web99(t)
		v.edit(&w.Sessions)
		if got := w.RequestsPerConnection(); math.Abs(got-v.mean) > 1e-12 {
			t.Errorf("%s: law says %v requests per connection, want %v", v.name, got, v.mean)
		}
		s := w.Sampler(25, 10)
		lengths := make([]uint64, 256)
		var op Op
		c := Cursor{Seed: 1}
		run, ops, sessions := 0, 0, 0
		for sessions < 100_000 && ops < 2_000_000 {
			s.Next(&c, &op)
			ops++
			if op.First != (run == 0) {
				t.Fatalf("%s: op %d: First = %v after %d requests", v.name, ops, op.First, run)
			}
			run++
			if op.Last != (c.Left() == 0) {
				t.Fatalf("%s: op %d: Last = %v with %d left", v.name, ops, op.Last, c.Left())
			}
			if op.Last {
				lengths[run]++
				run = 0
				sessions++
			}
		}
		want := make([]float64, 256)
		want[1] = w.Sessions.single()
		for k := w.Sessions.Shortest; k <= w.Sessions.Longest; k++ {
			want[k] += (1 - w.Sessions.single()) / float64(w.Sessions.Longest-w.Sessions.Shortest+1)
		}
		if stat, p := ChiSquare(lengths, want); !(p > 1e-6) {
			t.Errorf("%s: session lengths: chi-square %.1f, p %.3g", v.name, stat, p)
		}
	}
}

// The protocol holds for a whole session and follows the shares.
func TestProtocol(t *testing.T) {
	w := *web99(t)
	w.Sessions.HTTP10Single, w.Sessions.HTTP10Keepalive = 0.25, 0.5
	s := w.Sampler(25, 10)
	var op Op
	var counts [2][2]uint64 // keep-alive, HTTP/1.0
	c := Cursor{Seed: 8}
	proto := false
	for range 300_000 {
		s.Next(&c, &op)
		switch {
		case op.First:
			proto = op.HTTP10
			keep, old := 0, 0
			if !op.Last {
				keep = 1
			}
			if proto {
				old = 1
			}
			counts[keep][old]++
		case op.HTTP10 != proto:
			t.Fatal("the protocol changed within a session")
		}
	}
	if _, p := ChiSquare(counts[0][:], []float64{0.75, 0.25}); p < 1e-6 {
		t.Errorf("single: %v", counts[0])
	}
	if _, p := ChiSquare(counts[1][:], []float64{0.5, 0.5}); p < 1e-6 {
		t.Errorf("keep-alive: %v", counts[1])
	}
}

// The sequence of a slot depends on seed and slot alone: not on the sampler's
// instance, nor on which slots an agent drives beside it, nor in which order.
func TestPureFunction(t *testing.T) {
	w := web99(t)
	one, two := w.Sampler(100, 50), web99(t).Sampler(100, 50)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		slot := rapid.Uint32().Draw(t, "slot")
		n := rapid.IntRange(1, 200).Draw(t, "n")
		a, b, other := Cursor{Seed: seed, Slot: slot}, Cursor{Seed: seed, Slot: slot}, Cursor{Seed: seed, Slot: slot + 1}
		same := 0
		for i := range n {
			var x, y, z Op
			one.Next(&a, &x)
			two.Next(&other, &z)
			saved := b // a cursor is a value: a copy draws the same
			two.Next(&saved, &y)
			two.Next(&b, &y)
			if x != y || saved != b {
				t.Fatalf("op %d differs: %+v, %+v", i, x, y)
			}
			if x.Index != uint64(i) {
				t.Fatalf("op %d says it is %d", i, x.Index)
			}
			if x.File == z.File {
				same++
			}
		}
		if n > 100 && same > n/2 {
			t.Fatalf("slots %d and %d draw alike", slot, slot+1)
		}
	})
}

// In an op-bounded run any split of the slots performs the same multiset.
func TestSplitKeepsMultiset(t *testing.T) {
	s := web99(t).Sampler(40, 30)
	const slots, ops = 60, 50
	perform := func(shares ...int) map[Op]int {
		all, first := map[Op]int{}, 0
		for _, n := range shares {
			cursors := make([]Cursor, n)
			for i := range cursors {
				cursors[i] = Cursor{Seed: 11, Slot: uint32(first + i)}
			}
			for left := n * ops; left > 0; { // an agent's slots advance interleaved, unevenly
				for i := range cursors {
					for range 1 + (i+left)%3 {
						if cursors[i].Index < ops {
							var op Op
							s.Next(&cursors[i], &op)
							all[op]++
							left--
						}
					}
				}
			}
			first += n
		}
		return all
	}
	whole := perform(slots)
	for _, split := range [][]int{{30, 30}, {1, 59}, {20, 19, 21}, slices.Repeat([]int{1}, slots)} {
		part := perform(split...)
		if len(part) != len(whole) {
			t.Errorf("split %v: %d distinct operations, want %d", split, len(part), len(whole))
		}
		for op, n := range whole {
			if part[op] != n {
				t.Fatalf("split %v: %+v performed %d times, want %d", split, op, part[op], n)
			}
		}
	}
}

// Only kinds that send a cookie have a user, only custom ads a last ad.
func TestCookies(t *testing.T) {
	s := web99(t).Sampler(25, 7)
	c := Cursor{Seed: 5}
	var op Op
	for range 50_000 {
		s.Next(&c, &op)
		user, ad := op.Kind == CAD || op.Kind == Post, op.Kind == CAD
		if (op.User >= 0) != user || op.User >= 7 || (op.LastAd >= 0) != ad || op.LastAd >= MaxAds || op.Start {
			t.Fatalf("%+v", op)
		}
	}
}

// First is what an observer sees who looks at random instants.
func TestFirstIsStationary(t *testing.T) {
	w := web99(t)
	s := w.Sampler(25, 10)
	const n = 400_000
	files := make([]uint64, 36)
	left := make([]uint64, 16)
	kind := make([]uint64, Kinds)
	var tenths [10]uint64
	for slot := range uint32(n) {
		c := Cursor{Seed: 21, Slot: slot, Index: 17, left: 3}
		var op Op
		done := s.First(&c, &op)
		if done < 0 || done >= 1 || !op.Start || !op.First || op.Index != 17 || c.Index != 18 || op.Last != (c.left == 0) {
			t.Fatalf("%+v, done %v, %+v", op, done, c)
		}
		tenths[int(done*10)]++
		files[9*op.File.Class+op.File.Num]++
		left[c.left]++
		kind[op.Kind]++
	}
	heavy := slices.Clone(s.fileShare)
	for i := range heavy {
		heavy[i] *= float64(fileset.FileAt(int64(i)).Size() + typicalHead)
	}
	// By simulation: all requests of an endless sequence, each once.
	caught := make([]float64, 16)
	var op Op
	for c, i := (Cursor{Seed: 99}), 0; i < 2_000_000; i++ {
		s.Next(&c, &op)
		caught[c.left]++
	}
	for name, v := range map[string]struct {
		observed []uint64
		expected []float64
	}{
		"files": {files, heavy}, "kinds": {kind, s.KindShare()}, "done": {tenths[:], uniform(10)},
	} {
		if stat, p := ChiSquare(v.observed, v.expected); !(p > 1e-6) {
			t.Errorf("%s: chi-square %.1f, p %.3g", name, stat, p)
		}
	}
	for j, want := range caught {
		if got := float64(left[j]) / n; math.Abs(got-want/2_000_000) > 0.005 {
			t.Errorf("%d left: %.4f of the slots, want %.4f", j, got, want/2_000_000)
		}
	}
	var next Op
	c := Cursor{Seed: 21, Slot: 1}
	s.First(&c, &op)
	s.Next(&c, &next)
	if next.First != op.Last {
		t.Error("the op after First does not go on with its session")
	}
}

// With pacing at line speed the population started by First keeps its mean rate
// from the first instant on: sampled over 0.1 s steps, the bits still to come of
// the ops in progress do not drift.
func TestFirstHasNoTransient(t *testing.T) {
	s := web99(t).Sampler(25, 10)
	const slots = 20_000
	var early, late float64 // ops ended in [0, 2) and [30, 32) seconds
	for slot := range uint32(slots) {
		c := Cursor{Seed: 4, Slot: slot}
		var op Op
		size := func() float64 { return float64(op.File.Size()+typicalHead) * 8 / 400_000 }
		at := (1 - s.First(&c, &op)) * size()
		for at < 32 {
			if at < 2 {
				early++
			} else if at >= 30 {
				late++
			}
			s.Next(&c, &op)
			at += size()
		}
	}
	if ratio := early / late; math.Abs(ratio-1) > 0.02 {
		t.Errorf("%.0f ops ended in the first two seconds, %.0f two seconds later on: ratio %.3f", early, late, ratio)
	}
}

func TestAliasIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1), rapid.Float64Range(0, 1e6)), 1, 300).Draw(t, "weights")
		sum := 0.0
		for _, w := range weights {
			sum += w
		}
		if sum == 0 {
			t.Skip("nothing to draw")
		}
		table := newAlias(weights)
		got := make([]float64, len(weights))
		for i, c := range table {
			own := float64(c.cut) / (1 << 32)
			got[i] += own
			got[c.other] += 1 - own
		}
		for i, w := range weights {
			want := w / sum * float64(len(weights))
			if math.Abs(got[i]-want) > 1e-9*float64(len(weights)) {
				t.Fatalf("number %d has weight %v of %v, want %v", i, got[i], len(weights), want)
			}
			if w == 0 && got[i] > 1e-6 {
				t.Fatalf("number %d of weight 0 is drawn", i)
			}
		}
	})
}

func TestSamplerRefusesNonsense(t *testing.T) {
	w := web99(t)
	for _, v := range [][2]int{{0, 1}, {1, 0}, {fileset.MaxDirs + 1, 1}, {1, MaxUsers + 1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v: no panic", v)
				}
			}()
			w.Sampler(v[0], v[1])
		}()
	}
	w.Sampler(1, 1)
}

func TestNextAllocatesNothing(t *testing.T) {
	s := web99(t).Sampler(3638, 5510)
	c := Cursor{Seed: 1}
	var op Op
	if n := testing.AllocsPerRun(1000, func() {
		s.Next(&c, &op)
		s.First(&c, &op)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := unsafe.Sizeof(c); n > 32 {
		t.Errorf("a cursor takes %d bytes", n)
	}
}

func BenchmarkNext(b *testing.B) {
	s := web99(b).Sampler(3638, 5510)
	c := Cursor{Seed: 1}
	var op Op
	for b.Loop() {
		s.Next(&c, &op)
	}
}
