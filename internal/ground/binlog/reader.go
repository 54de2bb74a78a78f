package binlog

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Loss is what a Reader had to step over: places where a write was cut short, by a
// crash or a full disk, or where bytes were changed.
type Loss struct {
	Gaps  int   // damaged places
	Bytes int64 // in all of them
	Tail  int64 // of these, at the very end of the file: a torn tail
}

// Origin is what a file says about its writer.
type Origin struct {
	Software string // empty if not known
	Opened   int64  // unix nanoseconds
}

// Reader reads a log from any stream, one pass, whatever its state. It reports only
// what keeps it from going on as an error; damage is stepped over and counted.
type Reader struct {
	src     io.Reader
	err     error // of src, io.EOF included
	buf     []byte
	from    int   // first byte not yet consumed
	read    int64 // bytes consumed
	records cursor
	size    int64 // of the frame being read
	loss    Loss
	gap     int64 // bytes of the damaged place we are in
	skipped int
	origin  Origin
}

// NewReader returns a Reader of src.
func NewReader(src io.Reader) *Reader { return &Reader{src: src} }

// Next reads the next record into rec, whose fields are valid until the next call.
// At the end it returns io.EOF; then see Loss. Any other error is final: one of the
// stream, [ErrFormat], or a version this program does not know.
//
// Caller's goroutine. No allocation per record. Blocks as the stream does.
func (r *Reader) Next(rec *Record) error {
	for {
		if r.records.left > 0 {
			// The checksum was right, so this only fails on a writer's mistake. Then
			// the whole frame is charged, whatever part of it was readable.
			if err := r.records.next(rec); err == nil {
				return nil
			}
			r.records.left = 0
			r.loss.Gaps++
			r.loss.Bytes += r.size
		}
		if err := r.frame(); err != nil {
			return err
		}
	}
}

// Loss returns what was stepped over so far.
func (r *Reader) Loss() Loss {
	l := r.loss
	if r.gap > 0 {
		l.Gaps++
		l.Bytes += r.gap
		if r.err == io.EOF && r.from == len(r.buf) {
			l.Tail = r.gap
		}
	}
	return l
}

// Origin returns what the file said about its writer last. It is known after the
// first call of Next.
func (r *Reader) Origin() Origin { return r.origin }

// Skipped returns the number of intact frames of a kind this program does not know.
func (r *Reader) Skipped() int { return r.skipped }

// frame finds the next intact frame and prepares its records.
func (r *Reader) frame() error {
	for {
		if err := r.fill(headSize); err != nil {
			return err
		}
		b := r.buf[r.from:]
		if r.read == 0 && string(b[:min(len(b), len(magic))]) != magic[:min(len(b), len(magic))] {
			return ErrFormat
		}
		if len(b) == 0 {
			return io.EOF
		}
		var f frame
		if len(b) < headSize || !f.get(b) || f.length > MaxPayload {
			r.drop()
			continue
		}
		if f.version != version {
			return fmt.Errorf("access log of version %d, this program reads %d", f.version, version)
		}
		size := headSize + int(f.length)
		if err := r.fill(size); err != nil {
			return err
		}
		b = r.buf[r.from:]
		if len(b) < size || sum(b[headSize:size]) != f.payloadSum {
			r.drop()
			continue
		}
		if r.gap > 0 {
			r.loss.Gaps++
			r.loss.Bytes += r.gap
			r.gap = 0
		}
		r.consume(size)
		r.size = int64(size)
		switch f.kind {
		case kindRecords:
			r.records = cursor{b: b[headSize:size:size], left: f.count, last: f.base}
			return nil
		case kindHeader:
			r.origin = origin(&f, b[headSize:size])
		default:
			r.skipped++
		}
	}
}

// origin reads a header frame; keys not known are left out.
func origin(f *frame, payload []byte) Origin {
	o := Origin{Opened: f.base}
	for line := range strings.Lines(string(payload)) {
		if v, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "software="); ok {
			o.Software = v
		}
	}
	return o
}

// drop steps over one byte that does not begin a frame, and on to the next that may.
func (r *Reader) drop() {
	b := r.buf[r.from:]
	n := len(b)
	if i := bytes.IndexByte(b[1:], magic[0]); i >= 0 {
		n = i + 1
	}
	r.gap += int64(n)
	r.consume(n)
}

func (r *Reader) consume(n int) {
	r.from += n
	r.read += int64(n)
}

// fill reads until n bytes are there or the stream has ended, which is no error here.
func (r *Reader) fill(n int) error {
	const chunk = 128 << 10
	if len(r.buf)-r.from >= n {
		return nil
	}
	if cap(r.buf)-r.from < n {
		old := r.buf[r.from:]
		if cap(r.buf) < n {
			r.buf = make([]byte, len(old), max(n, chunk))
		}
		r.buf = r.buf[:copy(r.buf[:cap(r.buf)], old)]
		r.from = 0
	}
	for idle := 0; len(r.buf)-r.from < n && r.err == nil; {
		k, err := r.src.Read(r.buf[len(r.buf):cap(r.buf)])
		r.buf = r.buf[:len(r.buf)+k]
		r.err = err
		if k > 0 {
			idle = 0
		} else if idle++; idle > 100 && err == nil {
			r.err = io.ErrNoProgress
		}
	}
	if r.err != nil && r.err != io.EOF && len(r.buf)-r.from < n {
		return fmt.Errorf("access log: %w", r.err)
	}
	return nil
}
