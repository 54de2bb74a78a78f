package host

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Record types and constants of the FastCGI specification, version 1.
const (
	fcgiVersion = 1

	fcgiBegin     = 1
	fcgiAbort     = 2
	fcgiEnd       = 3
	fcgiParams    = 4
	fcgiStdin     = 5
	fcgiStdout    = 6
	fcgiData      = 8
	fcgiGetValues = 9
	fcgiValues    = 10
	fcgiUnknown   = 11

	fcgiResponder = 1
	fcgiKeepConn  = 1

	fcgiComplete   = 0
	fcgiNoMultiple = 1 // CANT_MPX_CONN
	fcgiNoSuchRole = 3 // UNKNOWN_ROLE

	fcgiHeader = 8
	// fcgiMost is the content we put into one record: the most that needs no padding to eight bytes.
	fcgiMost = 65528
)

// record is a record's header and content; the content is valid until the next read.
type record struct {
	kind    uint8
	id      uint16
	content []byte
}

// readRecord reads one record into buf, which has room for any.
func readRecord(r *bufio.Reader, buf *[1 << 16]byte) (rec record, err error) {
	var h [fcgiHeader]byte
	if _, err := io.ReadFull(r, h[:1]); err != nil {
		return rec, err // io.EOF between records is the ordinary end
	}
	if _, err := io.ReadFull(r, h[1:]); err != nil {
		return rec, short(err)
	}
	if h[0] != fcgiVersion {
		return rec, fmt.Errorf("fastcgi: version %d", h[0])
	}
	rec = record{kind: h[1], id: binary.BigEndian.Uint16(h[2:]), content: buf[:binary.BigEndian.Uint16(h[4:])]}
	if _, err := io.ReadFull(r, rec.content); err != nil {
		return rec, short(err)
	}
	_, err = r.Discard(int(h[6]))
	return rec, short(err)
}

func short(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func appendRecordHeader(b []byte, kind uint8, id uint16, length int) []byte {
	b = append(b, fcgiVersion, kind)
	b = binary.BigEndian.AppendUint16(b, id)
	b = binary.BigEndian.AppendUint16(b, uint16(length))
	return append(b, 0, 0)
}

func appendEnd(b []byte, id uint16, status uint8) []byte {
	b = appendRecordHeader(b, fcgiEnd, id, 8)
	return append(b, 0, 0, 0, 0, status, 0, 0, 0)
}

var errPairs = errors.New("fastcgi: malformed name-value pairs")

// eachPair walks name-value pairs.
func eachPair(b []byte, yield func(name, value []byte)) error {
	for len(b) > 0 {
		var n [2]uint32
		for i := range n {
			switch {
			case len(b) > 0 && b[0] < 0x80:
				n[i], b = uint32(b[0]), b[1:]
			case len(b) >= 4:
				n[i], b = binary.BigEndian.Uint32(b)&^(1<<31), b[4:]
			default:
				return errPairs
			}
		}
		if uint64(n[0])+uint64(n[1]) > uint64(len(b)) {
			return errPairs
		}
		yield(b[:n[0]], b[n[0]:n[0]+n[1]])
		b = b[n[0]+n[1]:]
	}
	return nil
}

func appendPair(b []byte, name, value string) []byte {
	for _, s := range []string{name, value} {
		if len(s) < 0x80 {
			b = append(b, byte(len(s)))
		} else {
			b = binary.BigEndian.AppendUint32(b, uint32(len(s))|1<<31)
		}
	}
	return append(append(b, name...), value...)
}
