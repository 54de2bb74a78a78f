package binlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened makes files reproducible.
var opened = time.Unix(1700000000, 5)

// diff compares records by value; empty: they are equal.
func diff(want, got []Record) string {
	type plain struct {
		Numbers [6]int64
		Remote  string
		Text    [6]string
	}
	of := func(list []Record) []plain {
		out := make([]plain, len(list))
		for i, r := range list {
			out[i] = plain{
				[6]int64{r.Time, int64(r.Duration), int64(r.Status), int64(r.Loop), r.Bytes, r.BodyBytes},
				r.Remote.String(),
				[6]string{string(r.Method), string(r.Target), string(r.Proto), string(r.Host), string(r.Referer), string(r.Agent)},
			}
		}
		return out
	}
	w, g := of(want), of(got)
	if slices.Equal(w, g) {
		return ""
	}
	return "(-want +got)\n" + cmp.Diff(w, g)
}

// clone copies the views of a record.
func clone(r Record) Record {
	for _, s := range []*[]byte{&r.Method, &r.Target, &r.Proto, &r.Host, &r.Referer, &r.Agent} {
		*s = bytes.Clone(*s)
	}
	return r
}

// read returns all records of a log and what was lost.
func read(t testing.TB, b []byte) ([]Record, Loss) {
	t.Helper()
	r := NewReader(bytes.NewReader(b))
	var all []Record
	for {
		var rec Record
		switch err := r.Next(&rec); err {
		case nil:
			all = append(all, clone(rec))
		case io.EOF:
			return all, r.Loss()
		default:
			t.Fatal(err)
		}
	}
}

// write returns the log of some records.
func write(t testing.TB, o Options, records []Record) []byte {
	t.Helper()
	var b bytes.Buffer
	o.Opened = opened
	w := NewWriter(&b, o)
	for i := range records {
		w.Append(&records[i])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// numbered returns n records whose Bytes say which they are. Every fifth is large.
func numbered(n int) []Record {
	list := make([]Record, n)
	for i := range list {
		list[i] = Record{
			Time: 1700000000e9 + int64(i)*1000, Duration: 80 * time.Microsecond,
			Remote: netip.MustParseAddr("192.0.2.7"), Status: 200, Bytes: int64(i), BodyBytes: 102,
			Method: []byte("GET"), Target: []byte("/file_set/dir00000/class0_1"), Proto: []byte("HTTP/1.1"), Host: []byte("www.example"),
		}
		if i%5 == 4 {
			list[i].Target = bytes.Repeat([]byte("/x"), 100)
		}
	}
	return list
}

var anyRecord = rapid.Custom(func(t *rapid.T) Record {
	text := func(label string) []byte {
		return []byte(rapid.OneOf(rapid.SampledFrom([]string{"", "GET", "/"}), rapid.StringN(0, 40, 80)).Draw(t, label))
	}
	number := func(label string) int64 {
		return rapid.Int64().Draw(t, label) >> uint(rapid.IntRange(0, 63).Draw(t, label+" shift"))
	}
	r := Record{
		Time: number("time"), Duration: time.Duration(number("duration")),
		Status: rapid.Uint16().Draw(t, "status"), Loop: rapid.Uint16().Draw(t, "loop"),
		Bytes: number("bytes"), BodyBytes: number("body"),
		Method: text("method"), Target: text("target"), Proto: text("proto"),
		Host: text("host"), Referer: text("referer"), Agent: text("agent"),
	}
	switch rapid.IntRange(0, 2).Draw(t, "family") {
	case 1:
		r.Remote = netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "v4")))
	case 2:
		r.Remote = netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "v6")))
	}
	return r
})

func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		records := rapid.SliceOfN(anyRecord, 0, 60).Draw(rt, "records")
		got, loss := read(t, write(t, Options{BlockBytes: 1024, Blocks: 2}, records))
		if d := diff(records, got); d != "" {
			rt.Fatal(d)
		}
		if loss != (Loss{}) {
			rt.Fatalf("lost %+v of an intact file", loss)
		}
	})
}

func TestARecordLargerThanABlockGetsItsOwn(t *testing.T) {
	records := numbered(3)
	records[1].Agent = bytes.Repeat([]byte("a"), 5000)
	b := write(t, Options{BlockBytes: 1024, Blocks: 2}, records)
	got, _ := read(t, b)
	if d := diff(records, got); d != "" {
		t.Error(d)
	}
}

func TestTheLargestRecordsFit(t *testing.T) {
	huge := bytes.Repeat([]byte("h"), MaxField)
	r := Record{
		Time: math.MinInt64, Duration: math.MinInt64, Bytes: math.MinInt64, BodyBytes: math.MinInt64,
		Status: math.MaxUint16, Loop: math.MaxUint16, Remote: netip.MustParseAddr("ff02::1"),
		Method: huge, Target: huge[1:], Proto: huge, Host: huge[1:], Referer: huge, Agent: huge[1:],
	}
	records := []Record{{Time: math.MaxInt64}, r, {Time: math.MaxInt64, Agent: huge}, r}
	got, loss := read(t, write(t, Options{}, records))
	if d := diff(records, got); d != "" || loss != (Loss{}) {
		t.Errorf("lost %+v; %.300s", loss, d)
	}
}

func TestAFieldBeyondTheLimitIsCutAndCounted(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, Options{})
	w.Append(&Record{Agent: bytes.Repeat([]byte("a"), MaxField+1), Target: []byte("/")})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := w.Stats().Cut; got != 1 {
		t.Errorf("%d cut, want 1", got)
	}
	got, _ := read(t, b.Bytes())
	if len(got) != 1 || len(got[0].Agent) != MaxField || string(got[0].Target) != "/" {
		t.Error("the rest of the record is not there")
	}
}

func TestATypicalRecordIsSmall(t *testing.T) {
	records := numbered(1000)
	for i := range records {
		records[i].Agent = []byte("Mozilla/5.0 (X11; Linux x86_64)")
		records[i].Target = []byte("/file_set/dir00000/class0_" + string(rune('0'+i%9)))
	}
	b := write(t, Options{}, records)
	if per := len(b) / len(records); per > 50 {
		t.Errorf("%d bytes a record", per)
	}
}

// frames returns the offset at which each frame ends.
func frames(t *testing.T, b []byte) (ends []int) {
	t.Helper()
	for at := 0; at < len(b); {
		var f frame
		if !f.get(b[at:]) {
			t.Fatalf("no frame at %d", at)
		}
		at += headSize + int(f.length)
		ends = append(ends, at)
	}
	return ends
}

func TestATornTailCostsOnlyTheTornBlock(t *testing.T) {
	whole := write(t, Options{BlockBytes: 1024}, numbered(35))
	ends := frames(t, whole)
	if len(ends) < 3 {
		t.Fatalf("only %d frames", len(ends))
	}
	until := map[int][]Record{} // by end of frame
	for cut := range len(whole) {
		intact := 0
		for _, e := range ends {
			if e <= cut {
				intact = e
			}
		}
		if _, ok := until[intact]; !ok {
			until[intact], _ = read(t, whole[:intact])
		}
		want := until[intact]
		got, loss := read(t, whole[:cut])
		if len(got) != len(want) || len(want) > 0 && got[len(got)-1].Bytes != want[len(want)-1].Bytes {
			t.Fatalf("cut at %d: %d records, want %d", cut, len(got), len(want))
		}
		torn := int64(cut - intact)
		wantLoss := Loss{Bytes: torn, Tail: torn}
		if torn > 0 {
			wantLoss.Gaps = 1
		}
		if loss != wantLoss {
			t.Fatalf("cut at %d: lost %+v, want %+v", cut, loss, wantLoss)
		}
	}
}

func TestAppendingAfterATornTailLosesNothingNew(t *testing.T) {
	records := numbered(60)
	one := write(t, Options{BlockBytes: 1024}, records[:20])
	two := write(t, Options{BlockBytes: 1024}, records[20:])
	ends := frames(t, one)
	last := ends[len(ends)-2]
	kept, _ := read(t, one[:last])
	for cut := last; cut <= len(one); cut += 7 {
		got, loss := read(t, append(bytes.Clone(one[:cut]), two...))
		want := append(slices.Clone(kept), records[20:]...)
		if d := diff(want, got); d != "" {
			t.Fatalf("cut at %d: %s", cut, d)
		}
		if loss.Bytes != int64(cut-last) || loss.Tail != 0 {
			t.Fatalf("cut at %d: lost %+v", cut, loss)
		}
	}
}

func TestAChangedByteCostsOnlyItsBlock(t *testing.T) {
	records := numbered(35)
	whole := write(t, Options{BlockBytes: 1024}, records)
	ends := frames(t, whole)
	content := map[int][]Record{0: nil} // until the end of each frame
	for _, e := range ends {
		content[e], _ = read(t, whole[:e])
	}
	for at := range whole {
		b := bytes.Clone(whole)
		b[at] ^= 0x10
		if at < len(magic) {
			if err := NewReader(bytes.NewReader(b)).Next(&Record{}); err != ErrFormat {
				t.Fatalf("byte %d changed: %v", at, err)
			}
			continue
		}
		begin, end := 0, 0
		for _, e := range ends {
			begin, end = end, e
			if e > at {
				break
			}
		}
		before, gone := content[begin], content[end][len(content[begin]):]
		got, loss := read(t, b)
		if len(got) != len(records)-len(gone) {
			t.Fatalf("byte %d changed: %d records, want all but %d", at, len(got), len(gone))
		}
		if want := (Loss{Gaps: 1, Bytes: int64(end - begin)}); loss.Gaps != 1 || loss.Bytes != want.Bytes {
			t.Fatalf("byte %d changed: lost %+v, want %+v", at, loss, want)
		}
		if len(got) > len(before) && len(gone) > 0 && got[len(before)].Bytes != int64(len(before)+len(gone)) {
			t.Fatalf("byte %d changed: goes on with record %d", at, got[len(before)].Bytes)
		}
	}
}

func TestAFrameOfAnotherKindIsSteppedOver(t *testing.T) {
	b := write(t, Options{}, numbered(2))
	f := frame{kind: 9, version: version, length: 0}
	head := make([]byte, headSize)
	f.put(head)
	r := NewReader(bytes.NewReader(append(head, b...)))
	for range 2 {
		if err := r.Next(&Record{}); err != nil {
			t.Fatal(err)
		}
	}
	if r.Skipped() != 1 || r.Loss() != (Loss{}) {
		t.Errorf("skipped %d, lost %+v", r.Skipped(), r.Loss())
	}
}

func TestALaterVersionIsRefusedNotLost(t *testing.T) {
	head := make([]byte, headSize)
	f := frame{kind: kindRecords, version: 2}
	f.put(head)
	err := NewReader(bytes.NewReader(head)).Next(&Record{})
	if want := "access log of version 2, this program reads 1"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestAFrameWhosePayloadLiesIsChargedWhole(t *testing.T) {
	good := write(t, Options{}, numbered(2))
	for name, payload := range map[string][]byte{
		"empty":          {},
		"cut":            {0, 0, 0, 0},
		"too long field": {0, 0, 0, 0, 0, 0, 0, 9, 'x'},
		"address of 3":   {0, 0, 0, 0, 0, 0, 4, 1, 2, 3, 0, 0, 0, 0, 0, 0},
		"large status":   {0, 0, 0, 0, 255, 255, 4, 0, 0, 0, 0, 0, 0, 0, 0},
		"bytes left":     {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7},
	} {
		b := sealed(kindRecords, 1, payload)
		got, loss := read(t, append(b, good...))
		if want := (Loss{Gaps: 1, Bytes: int64(len(b))}); loss != want || len(got) != 2 {
			t.Errorf("%s: lost %+v, want %+v; %d records", name, loss, want, len(got))
		}
	}
}

func TestALengthBeyondTheLimitIsDamageAndTakesNoMemory(t *testing.T) {
	head := make([]byte, headSize)
	f := frame{kind: kindRecords, version: version, length: 64 << 20, count: 1}
	f.put(head)
	r := NewReader(bytes.NewReader(append(head, write(t, Options{}, numbered(2))...)))
	for range 2 {
		if err := r.Next(&Record{}); err != nil {
			t.Fatal(err)
		}
	}
	if want := (Loss{Gaps: 1, Bytes: headSize}); r.Loss() != want || cap(r.buf) > 2*MaxPayload {
		t.Errorf("lost %+v, want %+v; buffer of %d bytes", r.Loss(), want, cap(r.buf))
	}
}

// sealed returns a frame with right checksums around any payload.
func sealed(kind byte, count uint32, payload []byte) []byte {
	var k block
	k.b = append(make([]byte, headSize), payload...)
	f := frame{kind: kind, version: version, length: uint32(len(payload)), count: count, payloadSum: sum(payload)}
	f.put(k.b)
	return k.b
}

func TestAnErrorOfTheStreamIsNotTheEnd(t *testing.T) {
	b := write(t, Options{}, numbered(3))
	broken := errors.New("disk on fire")
	for _, cut := range []int{0, 10, len(b) - 1} {
		r := NewReader(io.MultiReader(bytes.NewReader(b[:cut]), failing{broken}))
		var err error
		for err == nil {
			err = r.Next(&Record{})
		}
		if !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", cut, err)
		}
	}
	r := NewReader(failing{nil})
	if err := r.Next(&Record{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a stream that gives nothing: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestOtherFilesAreRefused(t *testing.T) {
	for _, s := range []string{"\n", "GET / HTTP/1.1", "\xf5TDX", "\xf5x"} {
		if err := NewReader(bytes.NewReader([]byte(s))).Next(&Record{}); err != ErrFormat {
			t.Errorf("%q: %v", s, err)
		}
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if !errors.Is(err, ErrFormat) {
			t.Errorf("Open of %q: %v", s, err)
			f.Close()
		}
		if now, _ := os.ReadFile(path); string(now) != s {
			t.Errorf("Open changed %q to %q", s, now)
		}
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("opened a directory")
	}
	if err := NewReader(bytes.NewReader(nil)).Next(&Record{}); err != io.EOF {
		t.Errorf("an empty file: %v", err)
	}
}

func TestReadingDoesNotAllocatePerRecord(t *testing.T) {
	b := write(t, Options{}, numbered(5000))
	r := NewReader(bytes.NewReader(b))
	var rec Record
	if err := r.Next(&rec); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(4000, func() {
		if err := r.Next(&rec); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestVersion1StaysReadable holds the first version against its fixture, byte for
// byte: docs/formats/access-log.md shows the same bytes.
func TestVersion1StaysReadable(t *testing.T) {
	records := []Record{
		{
			Time: 1700000000_000000000, Duration: 81 * time.Microsecond, Remote: netip.MustParseAddr("192.0.2.7"),
			Status: 200, Loop: 1, Bytes: 336, BodyBytes: 102,
			Method: []byte("GET"), Target: []byte("/a"), Proto: []byte("HTTP/1.1"), Host: []byte("h"),
		},
		{
			Time: 1700000000_000100000, Duration: 40 * time.Microsecond, Remote: netip.MustParseAddr("192.0.2.7"),
			Status: 404, Loop: 1, Bytes: 250, BodyBytes: 9,
			Method: []byte("GET"), Target: []byte("/b"), Proto: []byte("HTTP/1.1"), Host: []byte("h"), Agent: []byte("curl"),
		},
	}
	b := write(t, Options{Software: "tidemark test"}, records)
	path := filepath.Join("testdata", "v1.log")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, loss := read(t, old)
	if d := diff(records, got); d != "" || loss != (Loss{}) {
		t.Errorf("lost %+v; %s", loss, d)
	}
	if !bytes.Equal(old, b) {
		t.Errorf("version 1 is written as\n%x, was\n%x", b, old)
	}
	if doc := documented(t); !bytes.Equal(doc, old) {
		t.Errorf("the document shows\n%x, the fixture is\n%x", doc, old)
	}
	r := NewReader(bytes.NewReader(old))
	r.Next(&Record{})
	if want := (Origin{"tidemark test", opened.UnixNano()}); r.Origin() != want {
		t.Errorf("origin %+v, want %+v", r.Origin(), want)
	}
}

// documented returns the bytes of the example in the document of the format.
func documented(t *testing.T) []byte {
	text, err := os.ReadFile("../../../docs/formats/access-log.md")
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for line := range strings.Lines(string(text)) {
		var at int
		if n, _ := fmt.Sscanf(line, "%08x  ", &at); n != 1 || len(line) < 10 || line[8:10] != "  " {
			continue
		}
		if at != len(b) {
			t.Fatalf("the row %q stands at %d", line, len(b))
		}
		row := strings.TrimSpace(line[10:min(len(line), 10+3*16)])
		bytes, err := hex.DecodeString(strings.ReplaceAll(row, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, bytes...)
	}
	return b
}

func FuzzReader(f *testing.F) {
	whole := write(f, Options{BlockBytes: 1024, Software: "x"}, numbered(30))
	f.Add(whole)
	f.Add(whole[:len(whole)-9])
	f.Add(append(bytes.Clone(whole[:700]), whole...))
	f.Add([]byte("\xf5TDL"))
	f.Add(sealed(kindRecords, 2, []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Seal the rest of the input as a payload too: checksums keep a fuzzer out.
		for _, in := range [][]byte{b, sealed(kindRecords, uint32(len(b)), b), sealed(kindRecords, 1, b)} {
			r := NewReader(bytes.NewReader(in))
			var rec Record
			n := 0
			for {
				err := r.Next(&rec)
				if err != nil {
					break
				}
				if n++; n > len(in) {
					t.Fatalf("more records than bytes in %x", in)
				}
			}
			if l := r.Loss(); l.Bytes > int64(len(in)) || l.Tail > l.Bytes || (l.Gaps == 0) != (l.Bytes == 0) {
				t.Fatalf("lost %+v of %d bytes", l, len(in))
			}
		}
	})
}
