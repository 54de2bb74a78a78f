// Package accesslog turns log records into the two text forms everybody reads, and
// lines of these forms back into records.
//
// [AppendCLF] and [AppendCombined] write a line; [Parse] reads one of either form, by
// whatever server it was written.
//
// It does no input or output, knows no other form and fits no workload.
package accesslog

import (
	"strconv"
	"time"

	"tidemark.dev/internal/ground/binlog"
)

const (
	months = "JanFebMarAprMayJunJulAugSepOctNovDec"
	hex    = "0123456789abcdef"
)

// AppendCLF appends r in the Common Log Format, without a line end:
//
//	192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] "GET /a HTTP/1.1" 200 102
//
// The size is that of the body; what is not known, or 0 bytes, is "-". Times are shown
// at utcOffset from UTC, in whole minutes. A quote, a backslash or a byte that is not
// printable ASCII is written as \", \\ or \xhh, so a request cannot forge a line.
//
// Any goroutine. No allocation but for the growth of b. Does not block.
func AppendCLF(b []byte, r *binlog.Record, utcOffset time.Duration) []byte {
	if r.Remote.IsValid() {
		b = r.Remote.AppendTo(b)
	} else {
		b = append(b, '-')
	}
	b = append(b, " - - ["...)
	b = appendTime(b, r.Time, utcOffset)
	b = append(b, `] "`...)
	if len(r.Method)+len(r.Target)+len(r.Proto) == 0 {
		b = append(b, '-')
	} else {
		b = appendEscaped(b, r.Method)
		b = append(b, ' ')
		b = appendEscaped(b, r.Target)
		if len(r.Proto) > 0 {
			b = append(b, ' ')
			b = appendEscaped(b, r.Proto)
		}
	}
	b = append(b, `" `...)
	b = strconv.AppendUint(b, uint64(r.Status), 10)
	if r.BodyBytes <= 0 {
		return append(b, " -"...)
	}
	b = append(b, ' ')
	return strconv.AppendInt(b, r.BodyBytes, 10)
}

// AppendCombined appends r in the combined format: the Common Log Format followed by
// the Referer and User-Agent fields in quotes. See [AppendCLF].
//
// Any goroutine. No allocation but for the growth of b. Does not block.
func AppendCombined(b []byte, r *binlog.Record, utcOffset time.Duration) []byte {
	b = AppendCLF(b, r, utcOffset)
	b = appendQuoted(b, r.Referer)
	return appendQuoted(b, r.Agent)
}

// appendQuoted appends a space and s in quotes, "-" standing for nothing. A text that
// is itself a dash is escaped to be told from that.
func appendQuoted(b, s []byte) []byte {
	b = append(b, ` "`...)
	switch string(s) {
	case "":
		b = append(b, '-')
	case "-":
		b = append(b, `\x2d`...)
	default:
		b = appendEscaped(b, s)
	}
	return append(b, '"')
}

func appendEscaped(b, s []byte) []byte {
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}

// appendTime appends unix nanoseconds as 14/Nov/2023:22:13:20 +0000.
func appendTime(b []byte, unixNano int64, offset time.Duration) []byte {
	offset = offset.Truncate(time.Minute)
	t := time.Unix(0, unixNano).UTC().Add(offset)
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = append(digits2(b, day), '/')
	b = append(b, months[3*int(month)-3:3*int(month)]...)
	b = append(b, '/')
	b = digits2(digits2(b, year/100), year%100)
	b = digits2(append(b, ':'), hour)
	b = digits2(append(b, ':'), minute)
	b = digits2(append(b, ':'), second)
	sign := byte('+')
	if offset < 0 {
		sign, offset = '-', -offset
	}
	b = append(b, ' ', sign)
	b = digits2(b, int(offset/time.Hour))
	return digits2(b, int(offset%time.Hour/time.Minute))
}

func digits2(b []byte, n int) []byte { return append(b, byte('0'+n/10%10), byte('0'+n%10)) }
