package cgi

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"tidemark.dev/page"
)

// Limits of a program's header block.
const (
	maxHeader = 32 << 10
	maxFields = 100
)

// header is what a program said before the body.
type header struct {
	status   int // 0: not said
	ctype    string
	location string
	length   int64 // -1: not said
	others   []field
}

type field struct{ name, value string }

// parseHeader reads the header block at the front of b, RFC 3875 section 6: n is its length with the
// empty line, 0 if b is too short. Lines end with LF or CRLF. Strict: names are tokens, values have no
// control bytes, no folding, fields of CGI at most once and at least one of them there.
func parseHeader(b []byte, h *header) (n int, err error) {
	*h = header{length: -1}
	var seen [4]bool
	for fields := 0; ; fields++ {
		end := bytes.IndexByte(b[n:], '\n')
		if end < 0 {
			if len(b) >= maxHeader {
				return 0, errors.New("header block too long")
			}
			return 0, nil
		}
		line := bytes.TrimSuffix(b[n:n+end], []byte{'\r'})
		if n += end + 1; n > maxHeader || fields > maxFields {
			return 0, errors.New("header block too long")
		}
		if len(line) == 0 {
			if !seen[0] && !seen[1] && !seen[2] {
				return 0, errors.New("header block without Content-Type, Location or Status")
			}
			return n, nil
		}
		name, value, err := splitField(line)
		if err != nil {
			return 0, err
		}
		which := h.set(name, value)
		switch {
		case which == bad:
			return 0, fmt.Errorf("bad value of %s: %q", name, value)
		case which == other:
		case seen[which]:
			return 0, fmt.Errorf("%s twice", name)
		default:
			seen[which] = true
		}
	}
}

const (
	isStatus = iota
	isType
	isLocation
	isLength
	other
	bad
)

func (h *header) set(name, value string) (which int) {
	switch lower(name) {
	case "status":
		code, reason := value, ""
		if len(value) > 3 {
			code, reason = value[:3], value[3:]
		}
		n, err := strconv.Atoi(code)
		if err != nil || len(code) != 3 || n < 200 || n > 599 || reason != "" && reason[0] != ' ' {
			return bad
		}
		h.status = n
		return isStatus
	case "content-type":
		if value == "" {
			return bad
		}
		h.ctype = value
		return isType
	case "location":
		if value == "" {
			return bad
		}
		h.location = value
		return isLocation
	case "content-length":
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return bad
		}
		h.length = int64(n)
		return isLength
	case "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "date", "server":
		return other // the carrier's own
	}
	h.others = append(h.others, field{name, value})
	return other
}

func splitField(line []byte) (name, value string, err error) {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return "", "", fmt.Errorf("not a header field: %q", line[:min(len(line), 80)])
	}
	for _, c := range line[:colon] {
		if c <= ' ' || c >= 0x7f || bytes.IndexByte([]byte(`"(),/:;<=>?@[\]{}`), c) >= 0 {
			return "", "", fmt.Errorf("bad field name: %q", line[:min(colon, 80)])
		}
	}
	v := bytes.Trim(line[colon+1:], " \t")
	for _, c := range v {
		if c < ' ' && c != '\t' || c == 0x7f {
			return "", "", fmt.Errorf("control byte in the value of %s", line[:min(colon, 80)])
		}
	}
	return string(line[:colon]), string(v), nil
}

// apply puts the header into the response.
func (h *header) apply(rs *page.Response) {
	rs.Type(h.ctype)
	if h.status != 0 {
		rs.Status(h.status)
	} else if h.location != "" {
		rs.Status(302)
	}
	if h.location != "" {
		rs.Field("Location", h.location)
	}
	for _, f := range h.others {
		rs.Field(f.name, f.value)
	}
}

func lower(s string) string { return string(bytes.ToLower([]byte(s))) }
