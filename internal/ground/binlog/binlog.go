// Package binlog is the binary access log: a compact, checksummed file of requests
// answered.
//
// Each serving loop makes a [Writer] with [NewWriter] and calls [Writer.Append] once
// per request; all of them may write to the one file that [Open] returns. A tool
// reads the file back with a [Reader].
//
// It does not sort (records of several loops come block by block), rotate, compress or
// know the text formats; docs/formats/access-log.md describes the bytes.
package binlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"os"
	"time"
)

// Record is one request and its answer.
type Record struct {
	Time      int64         // when the answer was complete: unix nanoseconds
	Duration  time.Duration // from the first byte of the request to the last of the answer
	Remote    netip.Addr    // the peer; a zone is not kept
	Status    uint16        // HTTP status
	Loop      uint16        // number of the loop that answered
	Bytes     int64         // sent on the wire, head included
	BodyBytes int64         // of these, the body
	Method    []byte
	Target    []byte // as received: path and query
	Proto     []byte // "HTTP/1.1"
	Host      []byte // fields of the request, empty when absent
	Referer   []byte
	Agent     []byte
}

// The layout of a file: frames one after the other, each a head of fixed size and a
// payload. See docs/formats/access-log.md.
const (
	magic    = "\xf5TDL"
	version  = 1
	headSize = 32

	kindHeader  = 1 // key=value lines about the writer
	kindRecords = 2 // records

	// MaxPayload is the largest payload of a frame a reader accepts, in bytes.
	MaxPayload = 1 << 20
	// MaxField is the longest text kept of a field, in bytes. A request head is
	// smaller than this, so nothing is cut in practice; what is, is counted.
	MaxField = 1<<16 - 1
)

// sum is CRC-32C. The table of this polynomial is shared and finding it is cheap.
func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// frame is the head of a frame.
type frame struct {
	kind, version byte
	length, count uint32 // of the payload: bytes, records
	base          int64  // unix nanoseconds
	payloadSum    uint32 // CRC-32C of the payload
}

// put writes the head into the first headSize bytes of b.
func (f *frame) put(b []byte) {
	copy(b, magic)
	b[4], b[5], b[6], b[7] = f.kind, f.version, 0, 0
	binary.LittleEndian.PutUint32(b[8:], f.length)
	binary.LittleEndian.PutUint32(b[12:], f.count)
	binary.LittleEndian.PutUint64(b[16:], uint64(f.base))
	binary.LittleEndian.PutUint32(b[24:], f.payloadSum)
	binary.LittleEndian.PutUint32(b[28:], sum(b[:28]))
}

// get reads a head of headSize bytes; false: these bytes are not one.
func (f *frame) get(b []byte) bool {
	if string(b[:4]) != magic || binary.LittleEndian.Uint32(b[28:]) != sum(b[:28]) {
		return false
	}
	f.kind, f.version = b[4], b[5]
	f.length = binary.LittleEndian.Uint32(b[8:])
	f.count = binary.LittleEndian.Uint32(b[12:])
	f.base = int64(binary.LittleEndian.Uint64(b[16:]))
	f.payloadSum = binary.LittleEndian.Uint32(b[24:])
	return true
}

// ErrFormat is reported for a file that is not a binary access log.
var ErrFormat = errors.New("not a binary access log")

// Open opens path for appending and creates it, with mode 0644, if need be. An
// existing file must be a binary access log or empty; otherwise the error wraps
// [ErrFormat]. A damaged end is no obstacle: readers step over it.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	var b [len(magic)]byte
	n, err := f.ReadAt(b[:], 0)
	if err == io.EOF {
		err = nil
	}
	if err == nil && string(b[:n]) != magic[:n] {
		err = fmt.Errorf("open %s: %w", path, ErrFormat)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
