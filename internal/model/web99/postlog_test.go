package web99

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func sampleRecord(n int64) Record {
	return Record{n, 1700000000, 4321, 12, 1, 3, 10018, []byte("/file_set/dir00012/class1_3"), 4321, 10018}
}

func TestRecordIsGolden(t *testing.T) {
	r := sampleRecord(1)
	got, ok := AppendRecord(nil, &r)
	want := "         1 1700000000       4321    12  1  3      10018 /file_set/dir00012/class1_3                                        4321      10018\n"
	if !ok || string(got) != want || len(got) != RecordSize {
		t.Fatalf("%d bytes %v\ngot  %q\nwant %q", len(got), ok, got, want)
	}
	count, ok := AppendCount(nil, 17)
	if !ok || string(count) != "        17\n" || len(count) != CountSize {
		t.Errorf("count line %q", count)
	}
}

func TestRecordsOfTheLogRoundTrip(t *testing.T) {
	ten := rapid.Int64Range(0, 9_999_999_999)
	rapid.Check(t, func(t *rapid.T) {
		r := Record{
			ten.Draw(t, "number"), ten.Draw(t, "time"), ten.Draw(t, "pid"), rapid.Int32Range(0, 99999).Draw(t, "dir"),
			rapid.Uint8Range(0, 99).Draw(t, "class"), rapid.Uint8Range(0, 99).Draw(t, "num"), ten.Draw(t, "client"),
			[]byte(rapid.StringMatching(`[!-~]{0,70}`).Draw(t, "file")), ten.Draw(t, "thread"), ten.Draw(t, "user"),
		}
		b, ok := AppendRecord(nil, &r)
		var got Record
		if !ok || len(b) != RecordSize || !ParseRecord(b, &got) {
			t.Fatalf("%+v -> %q", r, b)
		}
		r.File = r.File[:min(60, len(r.File))]
		if diff := cmp.Diff(got, r); diff != "" {
			t.Fatal(diff)
		}
		n := ten.Draw(t, "count")
		b, ok = AppendCount(nil, n)
		if back, ok2 := ParseCount(b); !ok || !ok2 || back != n {
			t.Fatalf("%d -> %q -> %d", n, b, back)
		}
		if back, rest := LogCount(LogSize(n)); back != n || rest != 0 {
			t.Fatalf("%d records -> %d records, %d bytes", n, back, rest)
		}
	})
}

func TestAppendRecordRefuses(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"number":  func(r *Record) { r.Number = 10_000_000_000 },
		"time":    func(r *Record) { r.Time = -1 },
		"dir":     func(r *Record) { r.Dir = 100000 },
		"class":   func(r *Record) { r.Class = 100 },
		"blank":   func(r *Record) { r.File = []byte("a b") },
		"newline": func(r *Record) { r.File = []byte("a\n") },
		"user":    func(r *Record) { r.User = 1 << 40 },
	} {
		r := sampleRecord(1)
		change(&r)
		if b, ok := AppendRecord([]byte("kept"), &r); ok || string(b) != "kept" {
			t.Errorf("%s: %q", name, b)
		}
	}
	if b, ok := AppendCount([]byte("kept"), 10_000_000_000); ok || string(b) != "kept" {
		t.Errorf("count: %q", b)
	}
}

func TestParseRecordSeesEveryBrokenSeparator(t *testing.T) {
	r := sampleRecord(1)
	good, _ := AppendRecord(nil, &r)
	for _, at := range []int{10, 21, 32, 38, 41, 44, 55, 116, 127, 138} {
		b := bytes.Clone(good)
		b[at] = '7'
		if ParseRecord(b, &r) {
			t.Errorf("byte %d: %q accepted", at, b)
		}
	}
	for _, n := range []int{0, 138, 140} {
		if ParseRecord(append(bytes.Clone(good), '\n')[:n], &r) {
			t.Errorf("%d bytes accepted", n)
		}
	}
}

func TestLogCount(t *testing.T) {
	for size, want := range map[int64][2]int64{0: {0, 0}, 10: {0, 10}, 11: {0, 0}, 12: {0, 1}, 149: {0, 138}, 150: {1, 0}, 151: {1, 1}, 289: {2, 0}} {
		if n, rest := LogCount(size); n != want[0] || rest != want[1] {
			t.Errorf("%d bytes: %d records, %d left", size, n, rest)
		}
	}
}
