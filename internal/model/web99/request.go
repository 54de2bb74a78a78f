package web99

// Cookie is the request cookie of the ad rotation and of POST. User includes UserOffset.
type Cookie struct {
	User, LastAd int32
}

// AppendCookie appends my_cookie=user_id=U&last_ad=A.
func AppendCookie(b []byte, c Cookie) []byte { return b }

// ParseCookie reads a Cookie header value, in which other cookies may stand beside ours.
func ParseCookie(b []byte) (c Cookie, ok bool) { return c, false }

// Found is the answer of the ad rotation.
type Found struct {
	Ad, Weight int32
	Expired    bool
}

// NoAd is the answer where no ad can be given: an error, or an unknown user.
func NoAd() Found { return Found{Ad: -1, Expired: true} }

// AppendFound appends found_cookie=Ad_id=I&Ad_weight=W&Expired=E.
func AppendFound(b []byte, f Found) []byte { return b }

// ParseFound reads a Set-Cookie value; attributes after a semicolon are ignored.
func ParseFound(b []byte) (f Found, ok bool) { return f, false }

// AppendUserCookie appends my_cookie=U, the answer to a POST. user includes UserOffset.
func AppendUserCookie(b []byte, user int32) []byte { return b }

// ParseUserCookie reads what AppendUserCookie wrote; attributes after a semicolon are ignored.
func ParseUserCookie(b []byte) (user int32, ok bool) { return 0, false }

// Post is the body of a POST.
type Post struct {
	URLRoot    []byte // such as /file_set/
	Dir        int32
	Class, Num uint8
	Client     int32
}

// AppendPost appends urlroot=R&dir=D&class=C&num=N&client=L.
func AppendPost(b []byte, p *Post) []byte { return b }

// ParsePost reads a POST body: the five fields, each once, in any order. URLRoot is a view into b.
func ParsePost(b []byte) (p Post, ok bool) { return p, false }

// AppendFile appends the path of the file a POST asks for: URLRoot and dirDDDDD/classC_N.
func (p *Post) AppendFile(b []byte) []byte { return b }

// Command is a housekeeping request.
type Command uint8

const (
	NotCommand Command = iota
	CommandReset
	CommandFetch
)

// Reset holds the parameters of the Reset command.
type Reset struct {
	MaxLoad   int64 // requested connections
	PointTime int64 // reference Unix time for expiries
	MaxThread int64
	ExpA      int64
	ExpB      int64
	URLRoot   []byte
}

// AppendReset appends the query of a Reset command.
func AppendReset(b []byte, r *Reset) []byte { return b }

// AppendFetch appends the query of a Fetch command.
func AppendFetch(b []byte) []byte { return append(b, "command/Fetch"...) }

// ParseCommand reads a query. ok is false for a command that is unknown or malformed.
func ParseCommand(query []byte) (c Command, r Reset, ok bool) { return NotCommand, r, false }
