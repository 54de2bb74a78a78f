package web99

// Record lengths of the two tables, in bytes.
const (
	UserSize = 15
	AdSize   = 39
)

// User is one record of User.Personality.
type User struct {
	Index        int32
	Demographics uint32
}

// Ad is one record of Custom.Ads.
type Ad struct {
	ID           int32
	Demographics uint32
	Weights      uint32 // five weights of four bits
	MinMatch     int32
	Expiry       int64 // Unix seconds
}

// Tables is what the ad rotation is computed from. It is immutable once parsed.
type Tables struct {
	Users []uint32 // demographics, by index
	Ads   []Ad     // exactly Ads entries, by id
}

// AppendUser appends one record; ok is false, and nothing appended, if a value does not fit.
func AppendUser(b []byte, u User) (out []byte, ok bool) { return b, false }

// AppendAd appends one record; ok is false, and nothing appended, if a value does not fit.
func AppendAd(b []byte, a *Ad) (out []byte, ok bool) { return b, false }

// ParseTables reads both files whole.
func ParseTables(users, ads []byte) (*Tables, error) { return nil, nil }

// Match is the sum of the ad's weights over the groups in which user and ad share a bit.
func (a *Ad) Match(demographics uint32) int32 { return 0 }

// Select is the ad rotation: the next ad for a user (an index, without UserOffset) after lastAd at Unix
// time now. No allocation.
func (t *Tables) Select(user, lastAd int32, now int64) Found { return NoAd() }

// Class of the file that shows ad id, and its number and directory.
func AdFile(id int32) (dir int32, class, num uint8) {
	return id / 36, uint8(id % 36 / 9), uint8(id % 9)
}

// AppendAdFile appends the file name of ad id, dirNNNNN/classC_F, 17 bytes.
func AppendAdFile(b []byte, id int32) []byte { return b }

// Tag is the line content in a file that an ad replaces; TagOffset and TagName bytes of it are the name.
const (
	Tag       = `<!WEB99CAD><IMG SRC="/file_set/dirNNNNN/classX_Y"><!/WEB99CAD>`
	TagOffset = 31
	TagName   = 17
)

// Rewrite appends src to dst with the placeholder in every tag replaced by name, which must have TagName
// bytes. The length does not change.
func Rewrite(dst, src, name []byte) []byte { return append(dst, src...) }
