package binlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"time"
)

// The text fields of a record in the order of the file. The address is one of them:
// 0, 4 or 16 bytes.
const (
	fieldRemote = iota
	fieldMethod
	fieldTarget
	fieldProto
	fieldHost
	fieldReferer
	fieldAgent
	fields
)

// numbersSize bounds the bytes of a record's numbers: four signed of up to 10 bytes,
// two of 16 bits in up to 3.
const numbersSize = 4*binary.MaxVarintLen64 + 2*binary.MaxVarintLen16

// block is a frame of records being filled: room for the head, then the payload. A
// field equal to that of the record before is written as one byte, so a block depends
// on nothing outside it and a typical record takes 30 to 40 bytes.
type block struct {
	b     []byte
	count uint32
	base  int64 // time of the first record
	last  int64 // time of the latest
	prev  [fields]struct{ from, to uint32 }
}

func newBlock(size int) *block { return &block{b: make([]byte, headSize, size)} }

// reset empties the block, keeping its memory.
func (k *block) reset() { *k = block{b: k.b[:headSize]} }

// bound returns the most bytes r can take.
func bound(r *Record) int {
	n := numbersSize + fields*binary.MaxVarintLen32 + 16
	for _, s := range [...][]byte{r.Method, r.Target, r.Proto, r.Host, r.Referer, r.Agent} {
		n += min(len(s), MaxField)
	}
	return n
}

// add appends r, for which there must be room, and returns how many fields were cut.
func (k *block) add(r *Record) (cut int64) {
	if k.count == 0 {
		k.base, k.last = r.Time, r.Time
	}
	b := k.b
	b = binary.AppendVarint(b, r.Time-k.last) // wraps around for absurd times, and back in the reader
	b = binary.AppendVarint(b, int64(r.Duration))
	b = binary.AppendVarint(b, r.Bytes)
	b = binary.AppendVarint(b, r.BodyBytes)
	b = binary.AppendUvarint(b, uint64(r.Status))
	b = binary.AppendUvarint(b, uint64(r.Loop))
	k.b = b
	k.last = r.Time
	k.count++
	switch {
	case r.Remote.Is4():
		a := r.Remote.As4()
		k.text(fieldRemote, a[:])
	case r.Remote.Is6():
		a := r.Remote.As16()
		k.text(fieldRemote, a[:])
	default:
		k.text(fieldRemote, nil)
	}
	for i, s := range [...][]byte{r.Method, r.Target, r.Proto, r.Host, r.Referer, r.Agent} {
		if len(s) > MaxField {
			s = s[:MaxField]
			cut++
		}
		k.text(fieldMethod+i, s)
	}
	return cut
}

// text appends one field: 0 for that of the record before, else its length plus one
// and its bytes.
func (k *block) text(i int, s []byte) {
	p := &k.prev[i]
	if bytes.Equal(k.b[p.from:p.to], s) {
		k.b = append(k.b, 0)
		return
	}
	k.b = binary.AppendUvarint(k.b, uint64(len(s))+1)
	p.from = uint32(len(k.b))
	k.b = append(k.b, s...)
	p.to = uint32(len(k.b))
}

// cursor reads the records of a payload.
type cursor struct {
	b    []byte // what is left
	left uint32 // records in it
	last int64
	prev [fields][]byte
}

var errPayload = errors.New("payload does not follow the format")

// next reads one record. The record's fields are views into the payload.
func (c *cursor) next(r *Record) error {
	ok := true
	signed := func() int64 {
		v, n := binary.Varint(c.b)
		if n <= 0 {
			ok = false
			return 0
		}
		c.b = c.b[n:]
		return v
	}
	unsigned := func(limit uint64) uint64 {
		v, n := binary.Uvarint(c.b)
		if n <= 0 || v > limit {
			ok = false
			return 0
		}
		c.b = c.b[n:]
		return v
	}
	c.last += signed()
	r.Time = c.last
	r.Duration = time.Duration(signed())
	r.Bytes = signed()
	r.BodyBytes = signed()
	r.Status = uint16(unsigned(1<<16 - 1))
	r.Loop = uint16(unsigned(1<<16 - 1))
	for i := range c.prev {
		n := unsigned(MaxField + 1)
		if !ok || n > uint64(len(c.b))+1 {
			return errPayload
		}
		if n > 0 {
			c.prev[i], c.b = c.b[:n-1:n-1], c.b[n-1:]
		}
	}
	switch a := c.prev[fieldRemote]; len(a) {
	case 0:
		r.Remote = netip.Addr{}
	case 4:
		r.Remote = netip.AddrFrom4([4]byte(a))
	case 16:
		r.Remote = netip.AddrFrom16([16]byte(a))
	default:
		return errPayload
	}
	r.Method, r.Target, r.Proto = c.prev[fieldMethod], c.prev[fieldTarget], c.prev[fieldProto]
	r.Host, r.Referer, r.Agent = c.prev[fieldHost], c.prev[fieldReferer], c.prev[fieldAgent]
	c.left--
	if c.left == 0 && len(c.b) > 0 {
		return errPayload
	}
	return nil
}
