package web99

import (
	"bytes"
	"strconv"
)

// Cookie is the request cookie of the ad rotation and of POST. User includes UserOffset; neither is
// negative.
type Cookie struct {
	User, LastAd int32
}

const (
	cookieUser   = "my_cookie=user_id="
	cookieLast   = "&last_ad="
	cookieFound  = "found_cookie=Ad_id="
	foundWeight  = "&Ad_weight="
	foundExpired = "&Expired="
	cookiePost   = "my_cookie="
)

// AppendCookie appends my_cookie=user_id=U&last_ad=A.
func AppendCookie(b []byte, c Cookie) []byte {
	b = strconv.AppendInt(append(b, cookieUser...), int64(c.User), 10)
	return strconv.AppendInt(append(b, cookieLast...), int64(c.LastAd), 10)
}

// ParseCookie reads a Cookie header value, in which other cookies may stand beside ours. No allocation.
func ParseCookie(b []byte) (c Cookie, ok bool) {
	for len(b) > 0 {
		var one []byte
		one, b, _ = bytes.Cut(b, []byte{';'})
		rest, found := cutPrefix(trim(one), cookieUser)
		if !found {
			continue
		}
		user, last, found := cut(rest, cookieLast)
		var ok1, ok2 bool
		c.User, ok1 = parseInt32(user)
		c.LastAd, ok2 = parseInt32(last)
		return c, found && ok1 && ok2
	}
	return c, false
}

// Found is the answer of the ad rotation.
type Found struct {
	Ad, Weight int32 // Ad is -1 for no ad
	Expired    bool
}

// NoAd is the answer where no ad can be given: an error, or an unknown user.
func NoAd() Found { return Found{Ad: -1, Expired: true} }

// AppendFound appends found_cookie=Ad_id=I&Ad_weight=W&Expired=E.
func AppendFound(b []byte, f Found) []byte {
	b = strconv.AppendInt(append(b, cookieFound...), int64(f.Ad), 10)
	b = strconv.AppendInt(append(b, foundWeight...), int64(f.Weight), 10)
	b = append(b, foundExpired...)
	if f.Expired {
		return append(b, '1')
	}
	return append(b, '0')
}

// ParseFound reads a Set-Cookie value; attributes after a semicolon are ignored. No allocation.
func ParseFound(b []byte) (f Found, ok bool) {
	rest, ok := cutPrefix(cookieValue(b), cookieFound)
	ad, rest, ok1 := cut(rest, foundWeight)
	weight, expired, ok2 := cut(rest, foundExpired)
	if !ok || !ok1 || !ok2 || len(expired) != 1 || expired[0] != '0' && expired[0] != '1' {
		return f, false
	}
	if string(ad) == "-1" {
		f.Ad = -1
	} else if f.Ad, ok = parseInt32(ad); !ok {
		return Found{}, false
	}
	f.Weight, ok = parseInt32(weight)
	f.Expired = expired[0] == '1'
	return f, ok
}

// AppendUserCookie appends my_cookie=U, the answer to a POST. user includes UserOffset.
func AppendUserCookie(b []byte, user int32) []byte {
	return strconv.AppendInt(append(b, cookiePost...), int64(user), 10)
}

// ParseUserCookie reads what AppendUserCookie wrote; attributes after a semicolon are ignored.
func ParseUserCookie(b []byte) (user int32, ok bool) {
	rest, ok := cutPrefix(cookieValue(b), cookiePost)
	if !ok {
		return 0, false
	}
	return parseInt32(rest)
}

// Post is the body of a POST.
type Post struct {
	URLRoot    []byte // such as /file_set/; begins and ends with a slash
	Dir        int32  // 0..99999
	Class, Num uint8  // 0..3, 0..8
	Client     int32
}

// AppendPost appends urlroot=R&dir=D&class=C&num=N&client=L.
func AppendPost(b []byte, p *Post) []byte {
	b = append(append(b, "urlroot="...), p.URLRoot...)
	b = appendPadded(append(b, "&dir="...), p.Dir, 5)
	b = append(append(b, "&class="...), '0'+p.Class)
	b = append(append(b, "&num="...), '0'+p.Num)
	return strconv.AppendInt(append(b, "&client="...), int64(p.Client), 10)
}

// ParsePost reads a POST body: the five fields, each exactly once, in any order, and at most one line
// end after them. URLRoot is a view into b. No allocation.
func ParsePost(b []byte) (p Post, ok bool) {
	b = bytes.TrimSuffix(b, []byte{'\n'})
	b = bytes.TrimSuffix(b, []byte{'\r'})
	var seen uint
	for more := true; more; {
		var one []byte
		one, b, more = bytes.Cut(b, []byte{'&'})
		name, value, found := bytes.Cut(one, []byte{'='})
		if !found {
			return Post{}, false
		}
		bit := uint(0)
		switch string(name) {
		case "urlroot":
			bit, p.URLRoot = 1, value
			ok = len(value) > 0 && value[0] == '/' && value[len(value)-1] == '/' && printable(value)
		case "dir":
			bit = 2
			p.Dir, ok = parseInt32(value)
			ok = ok && p.Dir <= 99999
		case "class":
			bit = 4
			p.Class, ok = parseDigit(value, 3)
		case "num":
			bit = 8
			p.Num, ok = parseDigit(value, 8)
		case "client":
			bit = 16
			p.Client, ok = parseInt32(value)
		default:
			ok = false
		}
		if !ok || seen&bit != 0 {
			return Post{}, false
		}
		seen |= bit
	}
	if seen != 31 {
		return Post{}, false
	}
	return p, true
}

// AppendFile appends the path of the file a POST asks for: URLRoot and dirDDDDD/classC_N.
func (p *Post) AppendFile(b []byte) []byte {
	return appendFileName(append(b, p.URLRoot...), p.Dir, p.Class, p.Num)
}

// Command is a housekeeping request.
type Command uint8

// Commands.
const (
	NotCommand   Command = iota // a query that does not begin with command/
	CommandReset                // regenerate the tables, empty the post log
	CommandFetch                // return the post log
)

const (
	commandPrefix = "command/"
	commandReset  = "command/Reset"
	commandFetch  = "command/Fetch"
)

// Reset holds the parameters of the Reset command, none negative. What ExpA and ExpB mean is the
// generator's business; the original's meaning is not known.
type Reset struct {
	MaxLoad   int64 // requested connections
	PointTime int64 // reference Unix time for expiries
	MaxThread int64
	ExpA      int64
	ExpB      int64
	URLRoot   []byte
}

// AppendReset appends the query of a Reset command.
func AppendReset(b []byte, r *Reset) []byte {
	b = strconv.AppendInt(append(b, commandReset+"&maxload="...), r.MaxLoad, 10)
	b = strconv.AppendInt(append(b, "&pttime="...), r.PointTime, 10)
	b = strconv.AppendInt(append(b, "&maxthread="...), r.MaxThread, 10)
	b = strconv.AppendInt(append(b, "&exp="...), r.ExpA, 10)
	b = strconv.AppendInt(append(b, ','), r.ExpB, 10)
	return append(append(b, "&urlroot="...), r.URLRoot...)
}

// AppendFetch appends the query of a Fetch command.
func AppendFetch(b []byte) []byte { return append(b, commandFetch...) }

// ParseCommand reads a query: NotCommand with ok for anything but a command, ok false for a command that
// is unknown or malformed. The parameters of Reset stand in the order of AppendReset. URLRoot is a view
// into query. No allocation.
func ParseCommand(query []byte) (c Command, r Reset, ok bool) {
	if _, is := cutPrefix(query, commandPrefix); !is {
		return NotCommand, r, true
	}
	if string(query) == commandFetch {
		return CommandFetch, r, true
	}
	rest, ok := cutPrefix(query, commandReset)
	if !ok {
		return NotCommand, r, false
	}
	load, rest, ok1 := parameter(rest, "&maxload=")
	point, rest, ok2 := parameter(rest, "&pttime=")
	threads, rest, ok3 := parameter(rest, "&maxthread=")
	exp, rest, ok4 := parameter(rest, "&exp=")
	root, ok5 := cutPrefix(rest, "&urlroot=")
	expA, expB, ok6 := cut(exp, ",")
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || !printable(root) || bytes.IndexByte(root, '&') >= 0 {
		return CommandReset, Reset{}, false
	}
	var good [5]bool
	r.MaxLoad, good[0] = parseDigits(load, 10)
	r.PointTime, good[1] = parseDigits(point, 10)
	r.MaxThread, good[2] = parseDigits(threads, 10)
	r.ExpA, good[3] = parseDigits(expA, 10)
	r.ExpB, good[4] = parseDigits(expB, 10)
	r.URLRoot = root
	if good != [5]bool{true, true, true, true, true} {
		return CommandReset, Reset{}, false
	}
	return CommandReset, r, true
}

// parameter cuts name and the value after it, up to the next ampersand, from the front of b.
func parameter(b []byte, name string) (value, rest []byte, ok bool) {
	b, ok = cutPrefix(b, name)
	if !ok {
		return nil, nil, false
	}
	if i := bytes.IndexByte(b, '&'); i >= 0 {
		return b[:i], b[i:], true
	}
	return b, nil, true
}

func parseDigit(b []byte, max byte) (uint8, bool) {
	if len(b) != 1 || b[0] < '0' || b[0] > '0'+max {
		return 0, false
	}
	return b[0] - '0', true
}

// cookieValue is the first part of a Set-Cookie value.
func cookieValue(b []byte) []byte {
	if i := bytes.IndexByte(b, ';'); i >= 0 {
		b = b[:i]
	}
	return trim(b)
}

func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

func cutPrefix(b []byte, prefix string) ([]byte, bool) {
	if len(b) < len(prefix) || string(b[:len(prefix)]) != prefix {
		return b, false
	}
	return b[len(prefix):], true
}

func cut(b []byte, sep string) (before, after []byte, ok bool) {
	for i := 0; i+len(sep) <= len(b); i++ {
		if b[i] == sep[0] && string(b[i:i+len(sep)]) == sep {
			return b[:i], b[i+len(sep):], true
		}
	}
	return nil, nil, false
}
