// Package files holds what HTTP and this server's policy say about static files: content types, entity
// tags, conditional requests, ranges, and which names are served at all.
//
// [Decide] turns the conditional fields of a request and the validators of a file into a status and the
// parts to send; [Types.Of] names a file's content type. Both are pure functions of their arguments, so
// every carrier gives the same answers.
//
// It opens nothing and sends nothing: package cache holds the contents, carriers write the answers.
package files

import (
	"bytes"
	"strconv"
	"strings"

	"tidemark.dev/internal/ground/httpwire"
)

// Validators are the facts about a file that conditional requests compare.
type Validators struct {
	// ETag is the strong entity tag, with its quotes.
	ETag string
	// ModTime is the modification time in Unix nanoseconds; conditions see whole seconds of it.
	ModTime int64
	// Size is the length in bytes.
	Size int64
}

// Conditions are the field values of a request that make it conditional or partial; empty if absent.
type Conditions struct {
	IfMatch, IfNoneMatch, IfModifiedSince, IfUnmodifiedSince, Range, IfRange []byte
}

// Of returns the conditions of a parsed request.
func Of(r *httpwire.Request) Conditions {
	return Conditions{r.IfMatch, r.IfNoneMatch, r.IfModifiedSince, r.IfUnmodifiedSince, r.Range, r.IfRange}
}

// MaxRanges is the greatest number of parts in one answer. A request for more gets the whole file:
// RFC 9110 section 14.2 lets a server ignore such a Range. Apache's MaxRanges defaults to 200, but real
// clients (readers of PDF, resumed downloads) ask for a handful.
const MaxRanges = 16

// Decide evaluates c in the order of RFC 9110 section 13.2.2 for a GET or HEAD of a file that exists.
//
// The status is 200 (all of it), 206 (the spans, in the order asked for, at most cap(dst) of them), 304,
// 412 or 416. Ranges are honoured only for GET, the only method they are defined for. A Range that is
// malformed, has too many parts, or whose parts together are longer than the file is ignored.
//
// Any goroutine. No allocation. Does not block. The spans live in dst.
func Decide(c *Conditions, v *Validators, get bool, dst []httpwire.Span) (status int, spans []httpwire.Span) {
	seconds := floorSeconds(v.ModTime)
	if len(c.IfMatch) > 0 {
		if !match(c.IfMatch, v.ETag, true) {
			return 412, nil
		}
	} else if len(c.IfUnmodifiedSince) > 0 {
		if t, ok := httpwire.ParseDate(c.IfUnmodifiedSince); ok && seconds > t {
			return 412, nil
		}
	}
	if len(c.IfNoneMatch) > 0 {
		if match(c.IfNoneMatch, v.ETag, false) {
			return 304, nil
		}
	} else if len(c.IfModifiedSince) > 0 {
		if t, ok := httpwire.ParseDate(c.IfModifiedSince); ok && seconds <= t {
			return 304, nil
		}
	}
	if !get || len(c.Range) == 0 || len(c.IfRange) > 0 && !c.unchanged(v, seconds) {
		return 200, nil
	}
	spans, ok, satisfiable := httpwire.ParseRange(c.Range, v.Size, dst[:0])
	switch {
	case !ok:
		return 200, nil
	case !satisfiable:
		return 416, nil
	}
	var sum int64
	for _, s := range spans {
		sum += s.Len
	}
	if sum > v.Size || len(spans) == 0 {
		return 200, nil
	}
	return 206, spans
}

// unchanged evaluates If-Range: a strong tag, or the exact date that was sent as Last-Modified.
func (c *Conditions) unchanged(v *Validators, seconds int64) bool {
	if b := c.IfRange; b[0] == '"' || bytes.HasPrefix(b, weak) {
		return string(b) == v.ETag
	}
	t, ok := httpwire.ParseDate(c.IfRange)
	return ok && t == seconds
}

var weak = []byte("W/")

// match reports whether tag is in a list of entity tags, or the list is "*". Strong comparison finds no
// weak tag equal. A malformed list matches as far as it can be read.
func match(list []byte, tag string, strong bool) bool {
	for {
		list = bytes.TrimLeft(list, " \t,")
		if len(list) == 0 {
			return false
		}
		if list[0] == '*' {
			return true
		}
		isWeak := bytes.HasPrefix(list, weak)
		if isWeak {
			list = list[2:]
		}
		if len(list) == 0 || list[0] != '"' {
			return false
		}
		end := bytes.IndexByte(list[1:], '"')
		if end < 0 {
			return false
		}
		if string(list[:end+2]) == tag && !(strong && isWeak) {
			return true
		}
		list = list[end+2:]
	}
}

// AppendETag appends the strong entity tag of a file: its modification time in nanoseconds and its
// size, in hexadecimal.
func AppendETag(b []byte, modTime, size int64) []byte {
	b = append(b, '"')
	b = strconv.AppendUint(b, uint64(modTime), 16)
	b = append(b, '-')
	b = strconv.AppendUint(b, uint64(size), 16)
	return append(b, '"')
}

// AppendModified appends a modification time as an HTTP date. A time in the future is sent as now
// (RFC 9110 section 8.8.2.1 forbids a Last-Modified later than Date).
func AppendModified(b []byte, modTime, now int64) []byte {
	return httpwire.AppendDate(b, floorSeconds(min(modTime, now)))
}

func floorSeconds(ns int64) int64 {
	s := ns / 1e9
	if ns%1e9 < 0 {
		s--
	}
	return s
}

// AppendContentRange appends the value of Content-Range for one part.
func AppendContentRange(b []byte, s httpwire.Span, size int64) []byte {
	b = append(b, "bytes "...)
	b = httpwire.AppendInt(b, s.Off)
	b = append(b, '-')
	b = httpwire.AppendInt(b, s.Off+s.Len-1)
	b = append(b, '/')
	return httpwire.AppendInt(b, size)
}

// AppendPart appends what stands before one part of a multipart/byteranges body.
func AppendPart(b []byte, first bool, boundary, ctype string, s httpwire.Span, size int64) []byte {
	if !first {
		b = append(b, "\r\n"...)
	}
	b = append(b, "--"...)
	b = append(b, boundary...)
	b = append(b, "\r\nContent-Range: "...)
	b = AppendContentRange(b, s, size)
	b = append(b, "\r\nContent-Type: "...)
	b = append(b, ctype...)
	return append(b, "\r\n\r\n"...)
}

// AppendPartsEnd appends what ends a multipart/byteranges body.
func AppendPartsEnd(b []byte, boundary string) []byte {
	b = append(b, "\r\n--"...)
	b = append(b, boundary...)
	return append(b, "--\r\n"...)
}

// Hidden reports whether a clean path names something that begins with a dot, or lies below such a
// directory. /.well-known/ (RFC 8615) is not hidden, what is hidden in it is.
//
// Any goroutine. No allocation.
func Hidden(path string) bool {
	if strings.HasPrefix(path, wellKnown) {
		path = path[len(wellKnown)-1:]
	}
	return strings.Contains(path, "/.")
}

const wellKnown = "/.well-known/"
