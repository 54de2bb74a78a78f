package binlog

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"tidemark.dev/internal/ground/clock"
)

// Options of a Writer. The zero value is good.
type Options struct {
	// BlockBytes is the size of a block: what one write puts into the file. Default
	// 64 KiB, from 1 KiB to 512 KiB. A record that does not fit gets a block of its own.
	BlockBytes int
	// Blocks is the number of blocks in memory, at least 2, default 4: what a loop may
	// be ahead of the disk before Append waits.
	Blocks int
	// Every is how long a record may stay in memory. Default 500 ms: with a write that
	// takes its time it is in the file within a second.
	Every time.Duration
	// Software is noted in the file, e.g. "tidemark 1.0". No line ends.
	Software string
	// Opened is noted in the file; the zero time means now.
	Opened time.Time
}

func (o Options) withDefaults() Options {
	if o.BlockBytes == 0 {
		o.BlockBytes = 64 << 10
	}
	if o.Blocks == 0 {
		o.Blocks = 4
	}
	if o.Every == 0 {
		o.Every = 500 * time.Millisecond
	}
	if o.Opened.IsZero() {
		o.Opened = time.Now()
	}
	return o
}

// Validate reports an option out of its range.
func (o Options) Validate() error {
	o = o.withDefaults()
	switch {
	case o.BlockBytes < 1<<10 || o.BlockBytes > MaxPayload/2:
		return fmt.Errorf("log block of %d bytes: must be 1 KiB to 512 KiB", o.BlockBytes)
	case o.Blocks < 2:
		return fmt.Errorf("%d log blocks: must be at least 2", o.Blocks)
	case o.Every < 0:
		return fmt.Errorf("log flush interval %v: must be positive", o.Every)
	case strings.ContainsAny(o.Software, "\r\n"):
		return errors.New("log software name contains a line end")
	}
	return nil
}

// Stats counts what a Writer did since it was made.
type Stats struct {
	Records int64         // appended
	Blocks  int64         // written
	Bytes   int64         // written, frame heads included
	Waits   int64         // Appends that found every block waiting for the disk
	Waited  time.Duration // by these
	Errors  int64         // failed writes
	Lost    int64         // records in failed writes or appended after Close
	Cut     int64         // fields longer than MaxField
}

// Writer appends records to a file.
//
// The owner fills one block while a goroutine of the Writer writes the full ones:
// blocks travel from free to cur to full and back. The goroutine also takes cur away
// when the interval has passed, which is the only reason for the lock; it is held for
// the encoding of one record and for moving a pointer, never during input or output.
type Writer struct {
	free chan *block
	full chan *block // has room for every block: sending never waits
	ctl  chan order
	done chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	cur    *block // nil: none, or taken away
	closed bool
	stats  Stats

	// Of the goroutine.
	to     io.Writer
	head   []byte // the header frame
	headed bool   // to has it
	failed error  // of writes since the last report
}

// order is a request to the goroutine; all blocks full when it is sent come first.
type order struct {
	to   io.Writer // not nil: continue there
	stop bool
	done chan error
}

// NewWriter starts a Writer on w and panics if o is not valid. Every block is one
// call of Write, so several Writers may share a file opened for appending (see
// [Open]). The Writer does not close w.
func NewWriter(w io.Writer, o Options) *Writer {
	if err := o.Validate(); err != nil {
		panic("binlog: " + err.Error())
	}
	o = o.withDefaults()
	l := &Writer{
		free: make(chan *block, o.Blocks),
		full: make(chan *block, o.Blocks),
		ctl:  make(chan order),
		done: make(chan struct{}),
		to:   w,
		head: header(&o),
	}
	for range o.Blocks {
		l.free <- newBlock(o.BlockBytes)
	}
	go l.run(o.Every)
	return l
}

// header builds the frame every Writer begins with.
func header(o *Options) []byte {
	b := append(make([]byte, headSize), "software="+o.Software+"\n"...)
	f := frame{
		kind: kindHeader, version: version, length: uint32(len(b) - headSize),
		base: o.Opened.UnixNano(), payloadSum: sum(b[headSize:]),
	}
	f.put(b)
	return b
}

// Append adds r to the log. It copies what it needs.
//
// Owner's goroutine. No allocation, but for a record larger than a block. Waits for
// the disk when all blocks are full, counted in Stats. r is free on return.
func (w *Writer) Append(r *Record) {
	need := bound(r)
	w.mu.Lock()
	if k := w.cur; k == nil || len(k.b)+need > cap(k.b) {
		w.turn(need)
	}
	if w.closed {
		w.stats.Lost++
	} else {
		w.stats.Cut += w.cur.add(r)
	}
	w.stats.Records++
	w.mu.Unlock()
}

// turn gives the current block away and gets another one with room for need bytes.
// The lock is held on entry and return, not while waiting.
func (w *Writer) turn(need int) {
	w.give()
	if w.closed {
		return
	}
	var k *block
	select {
	case k = <-w.free:
	default:
		w.mu.Unlock()
		begin := clock.Now()
		k = <-w.free
		waited := clock.Now().Sub(begin)
		w.mu.Lock()
		w.stats.Waits++
		w.stats.Waited += waited
	}
	if headSize+need > cap(k.b) {
		k.b = make([]byte, headSize, headSize+need)
	}
	w.cur = k
}

// give sends the current block to be written, if it has records. The lock is held.
func (w *Writer) give() {
	if w.cur != nil && w.cur.count > 0 {
		w.full <- w.cur
		w.cur = nil
	}
}

// Flush writes out everything appended before and returns the errors of all writes
// since the last report. Any goroutine. Waits for the disk.
func (w *Writer) Flush() error { return w.order(order{}) }

// Redirect continues the log in another file, as for log rotation: everything
// appended before is written to the old one, everything after to the new one. The
// old file is free on return. Any goroutine. Waits for the disk.
func (w *Writer) Redirect(to io.Writer) error { return w.order(order{to: to}) }

// Close writes out everything and ends the Writer; a record appended later is counted
// as lost. The second Close does nothing. Any goroutine. Waits for the disk.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.give()
	w.closed = true
	w.mu.Unlock()
	return w.order(order{stop: true})
}

// order hands the current block over, then asks the goroutine for o.
func (w *Writer) order(o order) error {
	w.mu.Lock()
	w.give()
	w.mu.Unlock()
	o.done = make(chan error, 1)
	select {
	case w.ctl <- o:
		return <-o.done
	case <-w.done:
		return nil
	}
}

// Stats returns the counters. Any goroutine.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats
}

// run is the goroutine.
func (w *Writer) run(every time.Duration) {
	defer close(w.done)
	w.begin()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case k := <-w.full:
			w.write(k)
		case <-tick.C:
			w.mu.Lock()
			w.give()
			w.mu.Unlock()
		case o := <-w.ctl:
			w.drain()
			if o.to != nil {
				w.to, w.headed = o.to, false
				w.begin()
			}
			o.done <- w.failed
			w.failed = nil
			if o.stop {
				return
			}
		}
	}
}

// drain writes the blocks that are full now.
func (w *Writer) drain() {
	for {
		select {
		case k := <-w.full:
			w.write(k)
		default:
			return
		}
	}
}

// begin writes the header frame, once per file.
func (w *Writer) begin() bool {
	if !w.headed {
		w.headed = w.put(w.head, 0)
	}
	return w.headed
}

// write completes k, writes it and returns it to the free ones. After a failure it
// goes on with the next block: the disk may have room again, and a reader steps over
// a block that was cut.
func (w *Writer) write(k *block) {
	if w.begin() {
		f := frame{
			kind: kindRecords, version: version, length: uint32(len(k.b) - headSize), count: k.count,
			base: k.base, payloadSum: sum(k.b[headSize:]),
		}
		f.put(k.b)
		w.put(k.b, int64(k.count))
	} else {
		w.mu.Lock()
		w.stats.Lost += int64(k.count)
		w.mu.Unlock()
	}
	k.reset()
	w.free <- k
}

// put writes one frame of so many records.
func (w *Writer) put(b []byte, records int64) bool {
	n, err := w.to.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Bytes += int64(n)
	if err != nil {
		w.stats.Errors++
		w.stats.Lost += records
		if w.failed == nil {
			w.failed = fmt.Errorf("access log: %w", err)
		}
		return false
	}
	if records > 0 {
		w.stats.Blocks++
	}
	return true
}
