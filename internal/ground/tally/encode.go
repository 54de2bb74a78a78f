package tally

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
)

// The encoding, version 1. All numbers are varints of [encoding/binary], signed ones
// in its zigzag form, each in its shortest form:
//
//	version   1 byte: 1
//	under     unsigned
//	over      unsigned
//	buckets   unsigned: number of non-empty buckets
//	  gap     unsigned: empty buckets since the previous one, or since the first
//	  count   unsigned, at least 1
//	min, max  signed  \
//	sum high  signed   } only if anything was counted
//	sum low   unsigned/
//
// Equal histograms have equal encodings, and the other way round.
const version = 1

// MarshalBinary encodes h. The error is always nil.
func (h *Histogram) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// AppendBinary appends the encoding of h to b. The error is always nil.
func (h *Histogram) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, version)
	b = binary.AppendUvarint(b, uint64(h.under))
	b = binary.AppendUvarint(b, uint64(h.over))
	used := 0
	for _, n := range &h.counts {
		if n > 0 {
			used++
		}
	}
	b = binary.AppendUvarint(b, uint64(used))
	next := 0
	for i, n := range &h.counts {
		if n > 0 {
			b = binary.AppendUvarint(b, uint64(i-next))
			b = binary.AppendUvarint(b, uint64(n))
			next = i + 1
		}
	}
	if h.count > 0 {
		b = binary.AppendVarint(b, h.min)
		b = binary.AppendVarint(b, h.max)
		b = binary.AppendVarint(b, h.sumHi)
		b = binary.AppendUvarint(b, h.sumLo)
	}
	return b, nil
}

// UnmarshalBinary replaces h by the histogram encoded in b. It accepts only what
// MarshalBinary could have produced; on an error h is empty.
func (h *Histogram) UnmarshalBinary(b []byte) error {
	h.Reset()
	if len(b) == 0 {
		return errors.New("histogram: empty encoding")
	}
	if b[0] != version {
		return fmt.Errorf("histogram: version %d, this program reads %d", b[0], version)
	}
	d := decoder{b: b[1:]}
	if err := h.decode(&d); err != nil {
		h.Reset()
		return fmt.Errorf("histogram: byte %d: %w", len(b)-len(d.b), err)
	}
	return nil
}

func (h *Histogram) decode(d *decoder) error {
	h.under = h.counted(d)
	h.over = h.counted(d)
	used := d.unsigned()
	if used > size {
		return errors.New("too many buckets")
	}
	next := uint64(0)
	first, last := -1, -1
	for range used {
		gap, n := d.unsigned(), h.counted(d)
		if d.err != nil {
			return d.err
		}
		if gap >= size-next {
			return errors.New("bucket above the range")
		}
		if n == 0 {
			return errors.New("empty bucket")
		}
		last = int(next + gap)
		if first < 0 {
			first = last
		}
		h.counts[last] = n
		next = uint64(last) + 1
	}
	if h.count > 0 {
		h.min, h.max = d.signed(), d.signed()
		h.sumHi, h.sumLo = d.signed(), d.unsigned()
	}
	switch {
	case d.err != nil:
		return d.err
	case len(d.b) > 0:
		return errors.New("bytes after the end")
	case h.count > 0:
		return h.check(first, last)
	}
	return nil
}

// counted reads a number of values and adds it to the total.
func (h *Histogram) counted(d *decoder) int64 {
	n := d.unsigned()
	if n > uint64(math.MaxInt64-h.count) {
		d.fail("count overflows")
		return 0
	}
	h.count += int64(n)
	return int64(n)
}

// check compares minimum, maximum and sum with the buckets from first to last.
func (h *Histogram) check(first, last int) error {
	// The bounds of the smallest value, then of the largest.
	lowMin, highMin := int64(Highest+1), int64(math.MaxInt64)
	lowMax, highMax := int64(math.MinInt64), int64(Lowest-1)
	if first >= 0 {
		lowMin, highMin = bounds(first)
		lowMax, highMax = bounds(last)
	}
	if h.under > 0 {
		lowMin, highMin = math.MinInt64, Lowest-1
	}
	if h.over > 0 {
		lowMax, highMax = Highest+1, math.MaxInt64
	}
	if h.min < lowMin || h.min > highMin || h.max < lowMax || h.max > highMax || h.min > h.max {
		return errors.New("extremes contradict the buckets")
	}
	n := big.NewInt(h.count)
	sum := new(big.Int).Lsh(big.NewInt(h.sumHi), 64)
	sum.Add(sum, new(big.Int).SetUint64(h.sumLo))
	least := new(big.Int).Mul(n, big.NewInt(h.min))
	most := new(big.Int).Mul(n, big.NewInt(h.max))
	if sum.Cmp(least) < 0 || sum.Cmp(most) > 0 {
		return errors.New("sum contradicts the extremes")
	}
	return nil
}

// decoder reads varints and remembers the first error.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(text string) {
	if d.err == nil {
		d.err = errors.New(text)
	}
}

func (d *decoder) unsigned() uint64 {
	v, n := binary.Uvarint(d.b)
	switch {
	case d.err != nil:
		return 0
	case n == 0:
		d.fail("cut short")
		return 0
	case n < 0:
		d.fail("number above 64 bits")
		return 0
	case n != max(1, (bits.Len64(v)+6)/7):
		d.fail("number not in its shortest form")
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) signed() int64 {
	v := d.unsigned()
	return int64(v>>1) ^ -int64(v&1)
}
