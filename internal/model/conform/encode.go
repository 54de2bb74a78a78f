package conform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// recordVersion is the first byte of every record block.
const recordVersion = 1

// recordFields is the number of integers of a record, recordMin the fewest bytes they take.
const (
	recordFields = 12
	recordMin    = recordFields
)

// ErrRecords is what every error of ParseRecords is.
var ErrRecords = errors.New("slot records")

func (r *Record) fields() [recordFields]int64 {
	return [recordFields]int64{
		int64(r.Slot), int64(r.Ops), int64(r.Failed), int64(r.Begun), int64(r.Connects), int64(r.Resets),
		r.CreditedBits, r.WireBytes, int64(r.OpTime), int64(r.Late), int64(r.FirstByte), int64(r.Response),
	}
}

func (r *Record) setFields(f *[recordFields]int64) bool {
	for _, v := range f[:6] {
		if v < 0 || v > math.MaxUint32 {
			return false
		}
	}
	*r = Record{
		Slot: uint32(f[0]), Ops: uint32(f[1]), Failed: uint32(f[2]), Begun: uint32(f[3]),
		Connects: uint32(f[4]), Resets: uint32(f[5]), CreditedBits: f[6], WireBytes: f[7],
		OpTime: time.Duration(f[8]), Late: time.Duration(f[9]),
		FirstByte: time.Duration(f[10]), Response: time.Duration(f[11]),
	}
	return true
}

// AppendRecords appends the binary form of rs to b: a version byte, the count, and the fields of each record in the
// order of the struct, all as variable-length integers (about 40 bytes a record). ParseRecords restores it exactly.
func AppendRecords(b []byte, rs []Record) []byte {
	b = append(slices.Grow(b, 16+44*len(rs)), recordVersion)
	b = binary.AppendUvarint(b, uint64(len(rs)))
	for i := range rs {
		for _, v := range rs[i].fields() {
			b = binary.AppendVarint(b, v)
		}
	}
	return b
}

// ParseRecords reads what AppendRecords wrote and returns the bytes behind it. Its errors wrap ErrRecords.
func ParseRecords(b []byte) (rs []Record, rest []byte, err error) {
	if len(b) == 0 {
		return nil, b, fmt.Errorf("%w: empty", ErrRecords)
	}
	if b[0] != recordVersion {
		return nil, b, fmt.Errorf("%w: version %d, not %d", ErrRecords, b[0], recordVersion)
	}
	rest = b[1:]
	count, n := binary.Uvarint(rest)
	if n <= 0 || count > uint64(len(rest)-n)/recordMin {
		return nil, b, fmt.Errorf("%w: count does not fit %d bytes", ErrRecords, len(b))
	}
	rest = rest[n:]
	rs = make([]Record, count)
	for i := range rs {
		var f [recordFields]int64
		for j := range f {
			if f[j], n = binary.Varint(rest); n <= 0 {
				return nil, b, fmt.Errorf("%w: record %d of %d is cut off", ErrRecords, i, count)
			}
			rest = rest[n:]
		}
		if !rs[i].setFields(&f) {
			return nil, b, fmt.Errorf("%w: record %d has a count out of range", ErrRecords, i)
		}
	}
	return rs, rest, nil
}
