package web99

import (
	"errors"
	"fmt"
)

// LogScanner reads the body of a Fetch as it arrives: wrapper, count line, records, wrapper. The zero
// value is ready. Give it the body's bytes in order with Feed, then call Close.
type LogScanner struct {
	carry []byte // an incomplete item
	part  uint8  // what comes next
	count int64  // from the count line
	seen  int64  // records so far
}

const (
	partHead = iota
	partCount
	partRecord
	partTail
)

// Feed reads more of the body and yields every whole record; the record and its File are valid during
// the call only. After an error the scanner is of no use.
func (s *LogScanner) Feed(b []byte, yield func(*Record)) error {
	for len(s.carry) > 0 && len(b) > 0 {
		// Complete the item that the last call left, byte-exact, then go on in b itself.
		old := len(s.carry)
		take := min(len(b), max(1, s.want()-old))
		s.carry = append(s.carry, b[:take]...)
		n, err := s.scan(s.carry, yield)
		if err != nil {
			return err
		}
		if n > 0 {
			b = b[n-old:]
			s.carry = s.carry[:0]
		} else {
			b = b[take:]
		}
	}
	for len(b) > 0 {
		n, err := s.scan(b, yield)
		if err != nil {
			return err
		}
		if n == 0 {
			s.carry = append(s.carry, b...)
			return nil
		}
		b = b[n:]
	}
	return nil
}

// Close reports whether the body was whole, and the number of records.
func (s *LogScanner) Close() (records int64, err error) {
	if s.part != partTail || string(s.carry) != TailText {
		return s.seen, errors.New("fetched post log: cut short")
	}
	return s.seen, nil
}

// want is how many bytes the next item has; 0 if that shows only while reading.
func (s *LogScanner) want() int {
	switch s.part {
	case partCount:
		return CountSize
	case partRecord:
		return RecordSize
	case partTail:
		return len(TailText)
	}
	return 0
}

// scan reads one item from the front of b; 0 bytes mean that b is too short.
func (s *LogScanner) scan(b []byte, yield func(*Record)) (n int, err error) {
	if len(b) < s.want() {
		return 0, nil
	}
	switch s.part {
	case partHead:
		var w Wrapper
		if n = ParseHead(b, &w); n < 0 {
			return 0, errors.New("fetched post log: no page around it")
		} else if n > 0 {
			s.part = partCount
		}
		return n, nil
	case partCount:
		var ok bool
		if s.count, ok = ParseCount(b); !ok {
			return 0, fmt.Errorf("fetched post log: bad count line %q", b[:CountSize])
		}
		n = CountSize
	case partRecord:
		var r Record
		if !ParseRecord(b[:RecordSize], &r) {
			return 0, fmt.Errorf("fetched post log: record %d is malformed: %q", s.seen+1, b[:RecordSize])
		}
		if s.seen++; r.Number != s.seen {
			return 0, fmt.Errorf("fetched post log: record %d is numbered %d", s.seen, r.Number)
		}
		yield(&r)
		n = RecordSize
	case partTail:
		// Kept in carry until Close, so that bytes after the tail show.
		if len(b) > len(TailText) {
			return 0, errors.New("fetched post log: more bytes than records")
		}
		return 0, nil
	}
	s.part = partRecord
	if s.seen == s.count {
		s.part = partTail
	}
	return n, nil
}
