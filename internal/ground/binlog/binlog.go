// Package binlog is the binary access log.
package binlog

import (
	"io"
	"net/netip"
	"os"
	"time"
)

// Record is one answered request.
type Record struct {
	Time                                        int64         // when the answer was complete, unix ns
	Remote                                      netip.Addr    // the peer
	Status                                      uint16        // HTTP status
	Loop                                        uint16        // number of the loop that answered
	Bytes                                       int64         // as sent on the wire, head included
	BodyBytes                                   int64         // of the body alone
	Duration                                    time.Duration // from the first byte of the request to the last byte of the answer
	Method, Target, Proto, Host, Referer, Agent []byte
}

// Options of a Writer; the zero value is good.
type Options struct {
	BlockBytes int           // size of a block, default 64 KiB
	Blocks     int           // number of buffers, default 4
	Every      time.Duration // longest stay of a record in memory, default 500 ms
	Software   string        // for the header
}

// Stats counts what a Writer did.
type Stats struct {
	Records, Blocks, Bytes int64
	Waits                  int64
	Waited                 time.Duration
	Errors, Lost, Cut      int64
}

// Writer appends records to a file.
type Writer struct{}

// Open opens or creates a log file for appending.
func Open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
}

// NewWriter starts a writer.
func NewWriter(w io.Writer, o Options) *Writer { return &Writer{} }

// Append adds a record.
func (w *Writer) Append(r *Record) {}

// Flush writes out all that was appended and waits for it.
func (w *Writer) Flush() error { return nil }

// Redirect sends all later records to another file.
func (w *Writer) Redirect(to io.Writer) error { return nil }

// Stats returns the counters.
func (w *Writer) Stats() Stats { return Stats{} }

// Close flushes and stops.
func (w *Writer) Close() error { return nil }

// Reader reads a log.
type Reader struct{}

// NewReader returns a reader.
func NewReader(r io.Reader) *Reader { return &Reader{} }

// Next reads the next record.
func (r *Reader) Next(rec *Record) error { return io.EOF }

// Loss is what a Reader had to skip.
type Loss struct {
	Gaps  int   // number of damaged places
	Bytes int64 // bytes dropped in all of them
	Tail  int64 // of these, bytes at the very end: a torn tail
}

// Loss returns what was skipped so far.
func (r *Reader) Loss() Loss { return Loss{} }
