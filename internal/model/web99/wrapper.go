package web99

import "bytes"

// Wrapper is what a page says about a request before the file content.
type Wrapper struct {
	Software, Remote, Script, Query []byte
}

// Tail is the constant end of every page, after the file content. It must not be changed.
func Tail() []byte { return tail }

// TailText is Tail as a string.
const TailText = "\n</pre>\n</body>\n</html>\n"

// MaxHead is the largest head ParseHead accepts, in bytes.
const MaxHead = 16 << 10

const (
	headOpen    = "<html>\n<head><title>" + Title + "</title></head>\n<body>\n"
	lineClose   = "</p>\n"
	headClose   = "<pre>\n"
	labelServer = "<p>SERVER_SOFTWARE = "
	labelRemote = "<p>REMOTE_ADDR = "
	labelScript = "<p>SCRIPT_NAME = "
	labelQuery  = "<p>QUERY_STRING = "
)

// AppendHead appends the page's beginning, up to where the file content starts.
func AppendHead(b []byte, w *Wrapper) []byte {
	b = append(b, headOpen...)
	b = appendLine(b, labelServer, w.Software)
	b = appendLine(b, labelRemote, w.Remote)
	b = appendLine(b, labelScript, w.Script)
	b = appendLine(b, labelQuery, w.Query)
	return append(b, headClose...)
}

// ParseHead reads the beginning of a page and returns the offset of the file content. It returns 0 if b
// is a true beginning but too short, and -1 if b cannot become a page. w gets views into b, in their
// escaped form; compare with Holds. No allocation.
func ParseHead(b []byte, w *Wrapper) int {
	p := headParser{b: b}
	p.literal(headOpen)
	p.line(labelServer, &w.Software)
	p.line(labelRemote, &w.Remote)
	p.line(labelScript, &w.Script)
	p.line(labelQuery, &w.Query)
	p.literal(headClose)
	return p.result()
}

// Holds reports whether escaped, a field of ParseHead, stands for value. A page that does not escape is
// understood too. No allocation.
func Holds(escaped, value []byte) bool {
	if bytes.Equal(escaped, value) {
		return true
	}
	for _, c := range value {
		e := escape(c)
		if e == "" {
			if len(escaped) == 0 || escaped[0] != c {
				return false
			}
			escaped = escaped[1:]
			continue
		}
		var ok bool
		if escaped, ok = cutPrefix(escaped, e); !ok {
			return false
		}
	}
	return len(escaped) == 0
}

type headParser struct {
	b         []byte
	at        int
	bad, more bool
}

func (p *headParser) result() int {
	switch {
	case p.bad, p.at > MaxHead, p.more && len(p.b) >= MaxHead:
		return -1
	case p.more:
		return 0
	}
	return p.at
}

func (p *headParser) literal(s string) {
	if p.bad || p.more {
		return
	}
	rest := p.b[p.at:]
	n := min(len(rest), len(s))
	if string(rest[:n]) != s[:n] {
		p.bad = true
		return
	}
	p.more = n < len(s)
	p.at += n
}

func (p *headParser) line(label string, v *[]byte) {
	p.literal(label)
	if p.bad || p.more {
		return
	}
	end := bytes.IndexByte(p.b[p.at:], '<')
	value := p.b[p.at:]
	if end >= 0 {
		value = value[:end]
	}
	for _, c := range value {
		if c < ' ' || c == 0x7f {
			p.bad = true
			return
		}
	}
	if end < 0 {
		p.more = true
		return
	}
	*v = value
	p.at += end
	p.literal(lineClose)
}

func appendLine(b []byte, label string, value []byte) []byte {
	b = append(b, label...)
	b = AppendEscaped(b, value)
	return append(b, lineClose...)
}

// AppendEscaped appends value as text of a page: the bytes & < > " as character references, control
// bytes as blanks.
func AppendEscaped(b, value []byte) []byte {
	for _, c := range value {
		if e := escape(c); e != "" {
			b = append(b, e...)
		} else {
			b = append(b, c)
		}
	}
	return b
}

func escape(c byte) string {
	switch {
	case c == '&':
		return "&amp;"
	case c == '<':
		return "&lt;"
	case c == '>':
		return "&gt;"
	case c == '"':
		return "&quot;"
	case c < ' ', c == 0x7f:
		return " "
	}
	return ""
}
