package accesslog

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"tidemark.dev/internal/ground/binlog"
)

// Parse reads one line of the Common Log Format or the combined format into r, which
// it overwrites whole. What such a line does not tell stays zero: Bytes (only the body
// is logged), Duration, Host, Loop, and Remote where the peer is a name. Whatever
// follows the known fields is ignored, as many servers append fields of their own.
// The error names the column, from 1, and what was expected there.
//
// Any goroutine. Allocates for text with escapes and for IPv6 zones. Does not block.
// The texts of r are views of line.
func Parse(line []byte, r *binlog.Record) error {
	*r = binlog.Record{}
	p := parser{line: bytes.TrimRight(line, "\r\n")}
	host := p.word("the peer")
	p.word("the identity")
	p.word("the user")
	r.Time = p.time()
	request := p.quoted("the request")
	status := p.number("the status", 999)
	size := p.number("the size", 1<<62)
	if p.err == nil && p.more() && p.line[p.at] == '"' {
		r.Referer = p.quoted("the referer")
		r.Agent = p.quoted("the agent")
	}
	if p.err != nil {
		*r = binlog.Record{}
		return p.err
	}
	if a, err := netip.ParseAddr(string(host)); err == nil {
		r.Remote = a
	}
	r.Status = uint16(status)
	r.BodyBytes = size
	r.Method, r.Target, r.Proto = split(request)
	return nil
}

// split cuts a request line at its first space and at the last one before a protocol.
func split(s []byte) (method, target, proto []byte) {
	method, target, _ = bytes.Cut(s, []byte(" "))
	if i := bytes.LastIndexByte(target, ' '); i >= 0 && bytes.HasPrefix(target[i+1:], []byte("HTTP/")) {
		target, proto = target[:i], target[i+1:]
	}
	return method, target, proto
}

// parser walks over one line; after an error it stands still and returns zeros.
type parser struct {
	line []byte
	at   int
	err  error
}

func (p *parser) fail(at int, what string) {
	if p.err == nil {
		p.err = fmt.Errorf("column %d: expected %s", at+1, what)
	}
}

// more steps over spaces and reports whether anything is left.
func (p *parser) more() bool {
	for p.at < len(p.line) && p.line[p.at] == ' ' {
		p.at++
	}
	return p.at < len(p.line)
}

// word reads up to the next space.
func (p *parser) word(what string) []byte {
	if p.err != nil || !p.more() {
		p.fail(p.at, what)
		return nil
	}
	begin := p.at
	for p.at < len(p.line) && p.line[p.at] != ' ' {
		p.at++
	}
	return p.line[begin:p.at]
}

// number reads decimal digits up to a limit; "-" is 0.
func (p *parser) number(what string, limit int64) int64 {
	w := p.word(what)
	if string(w) == "-" {
		return 0
	}
	n := int64(0)
	for _, c := range w {
		if c < '0' || c > '9' || n > (limit-int64(c-'0'))/10 {
			p.fail(p.at-len(w), what)
			return 0
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// quoted reads a text in quotes and undoes its escapes; "-" is nothing.
func (p *parser) quoted(what string) []byte {
	if p.err != nil || !p.more() || p.line[p.at] != '"' {
		p.fail(p.at, what)
		return nil
	}
	begin := p.at + 1
	escaped := false
	for p.at = begin; p.at < len(p.line) && p.line[p.at] != '"'; p.at++ {
		if p.line[p.at] == '\\' {
			escaped = true
			p.at++
		}
	}
	if p.at >= len(p.line) {
		p.at = len(p.line)
		p.fail(p.at, `a quote to end `+what)
		return nil
	}
	s := p.line[begin:p.at]
	p.at++
	switch {
	case string(s) == "-":
		return nil
	case escaped:
		return unescape(s)
	}
	return s
}

// unescape returns s without its backslashes. An escape it does not know, and nginx or
// Apache do not write, stands for the character after the backslash.
func unescape(s []byte) []byte {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			switch c = s[i]; c {
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'r':
				c = '\r'
			case 'x':
				if i+2 < len(s) {
					if v, err := strconv.ParseUint(string(s[i+1:i+3]), 16, 8); err == nil {
						c = byte(v)
						i += 2
					}
				}
			}
		}
		out = append(out, c)
	}
	return out
}

// time reads [14/Nov/2023:22:13:20 +0000].
func (p *parser) time() int64 {
	const form = "[02/Jan/2006:15:04:05 -0700]"
	if p.err != nil || !p.more() || len(p.line)-p.at < len(form) {
		p.fail(p.at, "a time like "+form)
		return 0
	}
	s := p.line[p.at : p.at+len(form)]
	ok := true
	two := func(i, least, most int) int {
		a, b := s[i]-'0', s[i+1]-'0'
		n := int(a)*10 + int(b)
		if a > 9 || b > 9 || n < least || n > most {
			ok = false
		}
		return n
	}
	for i := range form {
		if c := form[i]; (c == '/' || c == ':' || c == ' ' || c == '[' || c == ']') && s[i] != c {
			ok = false
		}
	}
	year := two(8, 0, 99)*100 + two(10, 0, 99)
	month := bytes.Index([]byte(months), s[4:7])
	day := two(1, 1, 31)
	hour, minute, second := two(13, 0, 23), two(16, 0, 59), two(19, 0, 60)
	offset := two(23, 0, 23)*3600 + two(25, 0, 59)*60
	switch s[22] {
	case '-':
		offset = -offset
	case '+':
	default:
		ok = false
	}
	if !ok || month < 0 || month%3 != 0 || year < 1678 || year > 2261 { // what int64 nanoseconds reach
		p.fail(p.at, "a time like "+form)
		return 0
	}
	p.at += len(form)
	t := time.Date(year, time.Month(month/3+1), day, hour, minute, second, 0, time.UTC)
	return t.Add(-time.Duration(offset) * time.Second).UnixNano()
}
