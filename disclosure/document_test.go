package disclosure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

func fixture(t *testing.T, name string) *Document {
	t.Helper()
	d, err := Load(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReadRefuses(t *testing.T) {
	tests := []struct{ name, src, text string }{
		{"newer major version", `{"schema": "tidemark.result/2.0", "verdict": 7}`, `"tidemark.result/2.0" is newer than this program, which reads tidemark.result/1.x`},
		{"older major version", `{"schema": "tidemark.result/0.9"}`, "older than anything"},
		{"other document", `{"schema": "tidemark.slots/1.0"}`, "is not tidemark.result"},
		{"no version", `{"schema": "tidemark.result/1"}`, "has no version"},
		{"odd version", `{"schema": "tidemark.result/1.x"}`, "has no version"},
		{"no schema", `{"state": "complete"}`, "not a result document"},
		{"not JSON", "{\n  \"schema\": tidemark\n}", "line 2, column 14"},
		{"cut off", `{"schema": "tidemark.result/1.0", "state":`, "unexpected end"},
		{"wrong type", "{\"schema\": \"tidemark.result/1.0\",\n\"iterations\": 7}", "line 2, column"},
		{"something behind", `{"schema": "tidemark.result/1.0"} {}`, "invalid character"},
		{"empty", ``, "unexpected end"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(tt.src))
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %q", err, tt.text)
			}
			if strings.Contains(tt.name, "version") && !errors.Is(err, ErrSchema) {
				t.Errorf("%v does not wrap ErrSchema", err)
			}
		})
	}
}

// A later minor version may add keys: they are passed over.
func TestReadToleratesKeysOfLaterMinorVersions(t *testing.T) {
	b, err := os.ReadFile("testdata/quick.json")
	if err != nil {
		t.Fatal(err)
	}
	s := strings.Replace(string(b), `"schema": "tidemark.result/1.0"`, `"schema": "tidemark.result/1.7", "moon_phase_percent": 99`, 1)
	s = strings.Replace(s, `"requested_connections":`, `"smell": [1, {"a": null}], "requested_connections":`, 1)
	d, err := Read(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	want := fixture(t, "quick")
	want.Schema = "tidemark.result/1.7"
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
	if faults := Check(d); faults != nil {
		t.Error(faults)
	}
}

// Every version ever written stays readable: testdata holds a document of each.
func TestOldVersionsStayReadable(t *testing.T) {
	for _, file := range fixtureFiles(t) {
		d, err := Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if faults := Check(d); faults != nil {
			t.Errorf("%s: %q", file, faults)
		}
	}
}

func TestWriteRefusesWhatJSONCannotHold(t *testing.T) {
	d := fixture(t, "slow")
	d.Iterations[0].Percent = math.NaN()
	if err := Write(&bytes.Buffer{}, d); err == nil {
		t.Error("NaN was written")
	}
}

// A reader meets the old document or the new one, never half of one; what a crash leaves behind does not disturb.
func TestSaveReplacesWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "result")
	first, second := fixture(t, "partial"), fixture(t, "slow")
	for _, d := range []*Document{first, second} {
		if err := Save(dir, d); err != nil {
			t.Fatal(err)
		}
		got, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, got); diff != "" {
			t.Fatal(diff)
		}
	}
	second.Iterations[0].Percent = math.Inf(1) // cannot be written
	if err := Save(dir, second); err == nil {
		t.Fatal("saved infinity")
	}
	if _, err := Load(filepath.Join(dir, ResultFile)); err != nil {
		t.Errorf("the document before is gone: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestCheckFindsFaults(t *testing.T) {
	tests := []struct {
		name, text string
		edit       func(d *Document)
	}{
		{"schema", "is not tidemark.result", func(d *Document) { d.Schema = "x/1.0" }},
		{"state", "none of the four", func(d *Document) { d.State = "done" }},
		{"identity", "id is missing", func(d *Document) { d.Run.ID = "" }},
		{"topology", "neither local nor remote", func(d *Document) { d.Run.Topology = "" }},
		{"time", "no RFC 3339 time", func(d *Document) { d.Run.StartedAt = "yesterday" }},
		{"finish", "run.finished_at", func(d *Document) { d.Run.FinishedAt = "" }},
		{"comparable", "comparable and yet", func(d *Document) { d.Run.Comparable = true }},
		{"word", "unknown word", func(d *Document) { d.Verdict.Word = "great" }},
		{"exit code", "unknown exit code", func(d *Document) { d.Verdict.ExitCode = 9 }},
		{"score without passing", "without passing", func(d *Document) { d.Verdict.Word = DoesNotPass }},
		{"score", "but iteration", func(d *Document) { d.Verdict.Score-- }},
		{"median", "is not there", func(d *Document) { d.Verdict.MedianIteration = 77 }},
		{"scored", "does not", func(d *Document) { d.Scored()[0].Passing = false }},
		{"order", "follows", func(d *Document) { d.Iterations[1].Number = 1 }},
		{"window", "window of", func(d *Document) { d.Iterations[0].Window = 0 }},
		{"conforming", "conform of", func(d *Document) { d.Iterations[0].Conforming = d.Iterations[0].Requested + 1 }},
		{"percent", "percent conform", func(d *Document) { d.Iterations[0].Percent = 101 }},
		{"bins", "bins hold", func(d *Document) { d.Iterations[0].Raw.Counts[3]++ }},
		{"percentiles", "do not ascend", func(d *Document) { d.Iterations[0].Latency[0].P99 = 1e9 }},
		{"series", "different lengths", func(d *Document) { d.Iterations[0].Overview.Open = nil }},
		{"invalid without reason", "no reason", func(d *Document) { d.Iterations[0].Valid, d.Iterations[0].Passing = false, false }},
		{"step", "is not there", func(d *Document) { d.Search.Steps[0].Iteration = 50 }},
		{"fact", "holds 0 values", func(d *Document) { d.Hosts[0].Facts[0].Text = nil }},
	}
	for _, tt := range tests {
		d := fixture(t, "quick")
		if faults := Check(d); faults != nil {
			t.Fatal(faults)
		}
		tt.edit(d)
		if faults := strings.Join(Check(d), "\n"); !strings.Contains(faults, tt.text) {
			t.Errorf("%s: found %q, want %q", tt.name, faults, tt.text)
		}
	}
}

func TestRecordFiles(t *testing.T) {
	dir := t.TempDir()
	var slots []SlotRecord
	var seconds []Second
	for it := 1; it <= 3; it++ {
		var ss []SlotRecord
		var secs []Second
		for i := range 50 {
			ss = append(ss, SlotRecord{Iteration: it, Slot: uint32(i), Ops: uint32(it * i), CreditedBits: int64(i) << 33, OpTime: int64(time.Hour)})
			secs = append(secs, Second{Iteration: it, Second: i, Ops: uint64(i), Bits: 1 << 40, Open: 50})
		}
		if err := AppendSlots(dir, ss); err != nil {
			t.Fatal(err)
		}
		if err := AppendSeconds(dir, secs); err != nil {
			t.Fatal(err)
		}
		slots, seconds = append(slots, ss...), append(seconds, secs...)
	}
	gotSlots, err := LoadSlots(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	gotSeconds, err := LoadSeconds(dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slots, gotSlots); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(seconds[50:100], gotSeconds); diff != "" {
		t.Error(diff)
	}

	// Killed while the last block was written: what was complete is read, and the tear is told.
	whole, err := os.ReadFile(filepath.Join(dir, SlotsFile))
	if err != nil {
		t.Fatal(err)
	}
	torn, err := ReadSlots(bytes.NewReader(whole[:len(whole)-9]), 0)
	if !errors.Is(err, ErrTorn) {
		t.Errorf("error %v, want ErrTorn", err)
	}
	if len(torn) < 100 || !slices.Equal(torn[:100], slots[:100]) {
		t.Errorf("%d records read from a torn file, want the first 100", len(torn))
	}
	if _, err := ReadSeconds(bytes.NewReader(whole), 0); !errors.Is(err, ErrSchema) {
		t.Errorf("slots read as seconds: %v", err)
	}
	if _, err := ReadSlots(bytes.NewReader(nil), 0); !errors.Is(err, ErrTorn) {
		t.Errorf("empty file: %v", err)
	}
}

func FuzzReadSlots(f *testing.F) {
	dir := f.TempDir()
	if err := AppendSlots(dir, []SlotRecord{{Iteration: 1, Slot: 2}}); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, SlotsFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		if rs, err := ReadSlots(bytes.NewReader(b), 0); err != nil && errors.Is(err, ErrSchema) && len(rs) > 0 {
			t.Error("records of an unknown schema")
		}
	})
}

// TestLineWithoutEnd reads 256 MiB of one letter, which zstd packs into a few kilobytes, with little memory.
func TestLineWithoutEnd(t *testing.T) {
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(z, "{\"schema\":%q}\n", SlotsSchema); err != nil {
		t.Fatal(err)
	}
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range 1 << 8 {
		if _, err := z.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = ReadSlots(bytes.NewReader(packed.Bytes()), 0)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "line 2: longer than") {
		t.Errorf("error %v", err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
		t.Errorf("%d bytes allocated for a line of no use", grown)
	}
}

func TestCSV(t *testing.T) {
	var b strings.Builder
	if err := WriteCSV(&b, []Second{{Iteration: 1, Second: 0, Ops: 7, Bits: 9, Late: 3, Connects: 2, Open: 5}}); err != nil {
		t.Fatal(err)
	}
	want := "iteration_number,second_number,operations_count,failed_operations_count,received_bits,late_nanoseconds,connections_opened_count,open_connections\n1,0,7,0,9,3,2,5\n"
	if b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

// The embedded histogram and the percentiles agree with the values themselves to three digits.
func TestLatency(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var values []int64
	for range 20_000 {
		values = append(values, 1_000_000+int64(rng.ExpFloat64()*30e6))
	}
	l := NewLatency("static", func(yield func(low, high, count int64)) {
		for _, v := range values {
			yield(v, v, 1)
		}
	}, 3)
	slices.Sort(values)
	if l.Count != 20_000 || l.Beyond != 3 || l.Min != float64(values[0])/1e6 || l.Max != float64(values[19_999])/1e6 {
		t.Errorf("%+v", l)
	}
	got, err := l.Percentiles(50, 90, 99, 99.9)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range []float64{50, 90, 99, 99.9} {
		want := float64(values[int(math.Ceil(p/100*20_000-1e-6))-1]) / 1e6
		if math.Abs(got[i]/want-1) > 0.002 {
			t.Errorf("p%v is %v ms, want %v", p, got[i], want)
		}
	}
	if math.Abs(l.P99-got[2]) > 1e-9 {
		t.Errorf("p99 %v in the document, %v in the histogram", l.P99, got[2])
	}
	far := NewLatency("get", func(yield func(low, high, count int64)) {
		yield(5, 10, 2)
		yield(int64(1e18), int64(1e18), 4)
		yield(7, 7, 0)
	}, 0)
	if far.Count != 2 || far.Beyond != 4 {
		t.Errorf("out of range: %+v", far)
	}
	if none := NewLatency("cgi", func(func(low, high, count int64)) {}, 0); none.HDR != "" || none.P50 != 0 {
		t.Errorf("empty: %+v", none)
	}
}

func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rates := rapid.SliceOfN(rapid.Float64Range(0, 410_000), 1, 300).Draw(t, "rates")
		s := NewSpread(rates, 320_000, 400_000)
		under, sum, slow := 0, 0, 0
		for i, n := range s.Counts {
			sum += n
			if s.From+float64(i)*s.Width < 320-1e-9 {
				under += n
			}
		}
		for _, r := range rates {
			if r < 320_000 {
				slow++
			}
		}
		if sum != len(rates) || under != slow {
			t.Fatalf("%d of %d in bins, %d below the floor, want %d", sum, len(rates), under, slow)
		}
		if !slices.IsSorted([]float64{s.Min, s.P1, s.P5, s.P25, s.P50, s.P75, s.P95, s.P99, s.Max}) {
			t.Fatalf("%+v", s)
		}
	})
	if s := NewSpread(nil, 320_000, 400_000); s.Max != 0 || len(s.Counts) != 60 {
		t.Errorf("nothing: %+v", s)
	}
}

func TestOverview(t *testing.T) {
	var seconds []Second
	for i := range 1001 {
		seconds = append(seconds, Second{Second: i, Ops: 30, Bits: 3_500_000, Late: 1e7, Open: 10})
	}
	o := NewOverview(seconds, 10, 240)
	if o.Interval != 5 || len(o.OpsPerSec) != 201 {
		t.Fatalf("%d points of %v s", len(o.OpsPerSec), o.Interval)
	}
	for i := range o.OpsPerSec {
		if o.OpsPerSec[i] != 30 || o.KbitPerSlot[i] != 350 || o.LatePercent[i] != 0.1 || o.Open[i] != 10 {
			t.Fatalf("point %d: %v %v %v %v", i, o.OpsPerSec[i], o.KbitPerSlot[i], o.LatePercent[i], o.Open[i])
		}
	}
	b, err := json.Marshal(NewOverview(nil, 0, 10))
	if err != nil || !strings.Contains(string(b), `"interval_seconds":1`) {
		t.Errorf("%s, %v", b, err)
	}
}
