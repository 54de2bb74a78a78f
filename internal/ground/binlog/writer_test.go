package binlog

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sink collects what is written, at will slowly, partly or not at all.
type sink struct {
	mu     sync.Mutex
	b      bytes.Buffer
	writes int
	gate   chan struct{} // not nil: each write waits for it
	errs   []error       // for each write in turn
	cut    int           // bytes of a failing write that go through
}

func (s *sink) Write(b []byte) (int, error) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if len(s.errs) > 0 {
		err := s.errs[0]
		s.errs = s.errs[1:]
		if err != nil {
			n := min(s.cut, len(b))
			s.b.Write(b[:n])
			if err == io.ErrShortWrite {
				err = nil // a writer that is short without saying why
			}
			return n, err
		}
	}
	return s.b.Write(b)
}

func (s *sink) content() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.b.Bytes())
}

func TestARecordIsInTheFileWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		w := NewWriter(&s, Options{})
		records := numbered(3)
		for i := range records {
			time.Sleep(time.Duration(i) * 333 * time.Millisecond)
			w.Append(&records[i])
			time.Sleep(time.Second)
			synctest.Wait()
			if got, _ := read(t, s.content()); len(got) != i+1 {
				t.Errorf("a second after record %d there are %d", i, len(got))
			}
		}
		writes := s.writes
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.writes != writes {
			t.Errorf("%d writes while idle", s.writes-writes)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAWriterWithoutRequestsLeavesAValidFile(t *testing.T) {
	b := write(t, Options{Software: "s"}, nil)
	r := NewReader(bytes.NewReader(b))
	if err := r.Next(&Record{}); err != io.EOF || r.Loss() != (Loss{}) {
		t.Errorf("%v, %+v", err, r.Loss())
	}
	if want := (Origin{"s", opened.UnixNano()}); r.Origin() != want {
		t.Errorf("origin %+v", r.Origin())
	}
}

func TestAppendWaitsForASlowDiskAndLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sink{gate: make(chan struct{})}
		w := NewWriter(&s, Options{BlockBytes: 1024, Blocks: 2})
		records := numbered(200)
		appended := make(chan struct{})
		go func() {
			defer close(appended)
			for i := range records {
				w.Append(&records[i])
			}
		}()
		synctest.Wait() // all stand: the disk, and therefore the owner
		select {
		case <-appended:
			t.Fatal("Append does not wait")
		default:
		}
		before := w.Stats().Records
		time.Sleep(10 * time.Second) // flush intervals pass without a deadlock
		if after := w.Stats().Records; after != before {
			t.Errorf("%d records entered full blocks", after-before)
		}
		close(s.gate)
		<-appended
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		st := w.Stats()
		if st.Waits == 0 || st.Waited < 0 || st.Lost != 0 || st.Records != 200 {
			t.Errorf("%+v", st)
		}
		got, _ := read(t, s.content())
		if len(got) != len(records) {
			t.Fatalf("%d of %d records", len(got), len(records))
		}
		for i := range got {
			if got[i].Bytes != int64(i) {
				t.Fatalf("record %d is number %d", i, got[i].Bytes)
			}
		}
	})
}

func TestAFailingDiskIsReportedCountedAndSurvived(t *testing.T) {
	full := errors.New("no space left")
	for _, tt := range []struct {
		name  string
		errs  []error // header, then a block of one record each
		lost  int64
		fails int64
		want  []int64
	}{
		{"a block", []error{nil, full, nil}, 1, 1, []int64{1}},
		{"a short write", []error{nil, io.ErrShortWrite, nil}, 1, 1, []int64{1}},
		{"header at first", []error{full, nil, nil, nil}, 0, 1, []int64{0, 1}},
		{"header again", []error{full, full, nil, nil}, 1, 2, []int64{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sink{errs: tt.errs, cut: 11}
			w := NewWriter(&s, Options{BlockBytes: 1024})
			records := numbered(2)
			var failed []error
			for i := range records {
				w.Append(&records[i])
				failed = append(failed, w.Flush())
			}
			failed = append(failed, w.Close())
			count := 0
			for _, err := range failed {
				if err == nil {
					continue
				}
				count++
				if !errors.Is(err, full) && !errors.Is(err, io.ErrShortWrite) {
					t.Error(err)
				}
			}
			if count != 1 {
				t.Errorf("reported %d times: %v", count, failed)
			}
			st := w.Stats()
			if st.Lost != tt.lost || st.Errors != tt.fails || st.Records != 2 || st.Blocks != int64(len(tt.want)) {
				t.Errorf("%+v", st)
			}
			if st.Bytes != int64(s.b.Len()) {
				t.Errorf("%d bytes counted, %d written", st.Bytes, s.b.Len())
			}
			got, _ := read(t, s.content())
			if len(got) != len(tt.want) {
				t.Fatalf("%d records, want %v", len(got), tt.want)
			}
			for i := range got {
				if got[i].Bytes != tt.want[i] {
					t.Errorf("record %d is number %d, want %d", i, got[i].Bytes, tt.want[i])
				}
			}
		})
	}
}

func TestRedirectSplitsTheLogInTwoWholeFiles(t *testing.T) {
	var one, two bytes.Buffer
	w := NewWriter(&one, Options{Software: "s"})
	records := numbered(5)
	for i := range records {
		if i == 3 {
			if err := w.Redirect(&two); err != nil {
				t.Fatal(err)
			}
		}
		w.Append(&records[i])
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, _ := read(t, one.Bytes())
	b, _ := read(t, two.Bytes())
	if len(a) != 3 || len(b) != 2 || b[0].Bytes != 3 {
		t.Errorf("%d and %d records", len(a), len(b))
	}
	for _, file := range []*bytes.Buffer{&one, &two} {
		r := NewReader(file)
		if err := r.Next(&Record{}); err != nil || r.Origin().Software != "s" {
			t.Errorf("%v, header %+v", err, r.Origin())
		}
	}
}

func TestAfterCloseRecordsAreCountedAsLost(t *testing.T) {
	var s sink
	w := NewWriter(&s, Options{BlockBytes: 1024})
	records := numbered(40)
	for i := range records {
		if i == 30 {
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
		}
		w.Append(&records[i])
	}
	if err := errors.Join(w.Close(), w.Flush(), w.Redirect(&s)); err != nil {
		t.Errorf("after Close: %v", err)
	}
	if st := w.Stats(); st.Lost != 10 || st.Records != 40 {
		t.Errorf("%+v", st)
	}
	if got, _ := read(t, s.content()); len(got) != 30 {
		t.Errorf("%d records", len(got))
	}
}

func TestSeveralWritersShareAFile(t *testing.T) {
	const loops, each = 4, 3000
	path := filepath.Join(t.TempDir(), "access.log")
	var wg sync.WaitGroup
	for loop := range loops {
		f, err := Open(path) // each its own descriptor: harder than sharing one
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w := NewWriter(f, Options{BlockBytes: 2048, Every: time.Millisecond})
		wg.Go(func() {
			records := numbered(each)
			for i := range records {
				records[i].Loop = uint16(loop)
				w.Append(&records[i])
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			if st := w.Stats(); st.Records != each || st.Lost != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
	wg.Wait()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, loss := read(t, b)
	if loss != (Loss{}) || len(got) != loops*each {
		t.Fatalf("%d records, lost %+v", len(got), loss)
	}
	var next [loops]int64
	for _, r := range got {
		if r.Bytes != next[r.Loop] {
			t.Fatalf("loop %d: record %d where %d is due", r.Loop, r.Bytes, next[r.Loop])
		}
		next[r.Loop]++
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for _, o := range []Options{{BlockBytes: 1}, {BlockBytes: 1 << 20}, {Blocks: 1}, {Blocks: -1}, {Every: -1}, {Software: "a\nb"}} {
		if o.Validate() == nil {
			t.Errorf("%+v is accepted", o)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a writer with %+v", o)
				}
			}()
			NewWriter(io.Discard, o).Close()
		}()
	}
	if err := (Options{}).Validate(); err != nil {
		t.Error(err)
	}
}

func TestAppendDoesNotAllocate(t *testing.T) {
	w := NewWriter(io.Discard, Options{})
	defer w.Close()
	records := numbered(7)
	i := 0
	if n := testing.AllocsPerRun(20000, func() {
		w.Append(&records[i%len(records)])
		i++
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppend(b *testing.B) {
	w := NewWriter(io.Discard, Options{})
	defer w.Close()
	records := numbered(50)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		w.Append(&records[i%len(records)])
		i++
	}
	b.SetBytes(w.Stats().Bytes / int64(i))
}
