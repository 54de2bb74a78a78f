package web99

import (
	"bytes"
	"errors"
	"fmt"
)

// Record lengths of the two tables, in bytes.
const (
	UserSize = 15
	AdSize   = 39
)

// Groups of the demographic word, the same in a user's and an ad's.
const (
	GenderMask    uint32 = 0x30000000
	AgeMask       uint32 = 0x0F000000
	RegionMask    uint32 = 0x00F00000
	Interest1Mask uint32 = 0x000FFC00
	Interest2Mask uint32 = 0x000003FF
)

// Positions of the groups' four-bit weights in an ad's weight word.
const (
	GenderShift    = 16
	AgeShift       = 12
	RegionShift    = 8
	Interest1Shift = 4
	Interest2Shift = 0
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
	MinMatch     int32  // 0..999; the largest sum of weights is 75
	Expiry       int64  // Unix seconds, at most ten digits
}

// Tables is what the ad rotation is computed from. It is immutable once parsed.
type Tables struct {
	Users []uint32 // demographics, by index
	Ads   []Ad     // exactly Ads entries, by id
}

// AppendUser appends one record; ok is false, and nothing appended, if a value does not fit.
func AppendUser(b []byte, u User) (out []byte, ok bool) {
	out, ok1 := appendRight(b, int64(u.Index), 5, 10)
	out, ok2 := appendRight(append(out, ' '), int64(u.Demographics), 8, 16)
	if !ok1 || !ok2 {
		return b, false
	}
	return append(out, '\n'), true
}

// ParseUser reads one record of UserSize bytes.
func ParseUser(b []byte) (u User, ok bool) {
	if len(b) != UserSize || b[5] != ' ' || b[14] != '\n' {
		return u, false
	}
	index, ok1 := parseRight(b[:5], 10)
	word, ok2 := parseRight(b[6:14], 16)
	if !ok1 || !ok2 {
		return u, false
	}
	return User{int32(index), uint32(word)}, true
}

// AppendAd appends one record; ok is false, and nothing appended, if a value does not fit.
func AppendAd(b []byte, a *Ad) (out []byte, ok bool) {
	out, ok1 := appendRight(b, int64(a.ID), 5, 10)
	out, ok2 := appendRight(append(out, ' '), int64(a.Demographics), 8, 16)
	out, ok3 := appendRight(append(out, ' '), int64(a.Weights), 8, 16)
	out, ok4 := appendRight(append(out, ' '), int64(a.MinMatch), 3, 10)
	out, ok5 := appendRight(append(out, ' '), a.Expiry, 10, 10)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return b, false
	}
	return append(out, '\n'), true
}

// ParseAd reads one record of AdSize bytes.
func ParseAd(b []byte) (a Ad, ok bool) {
	if len(b) != AdSize || b[5] != ' ' || b[14] != ' ' || b[23] != ' ' || b[27] != ' ' || b[38] != '\n' {
		return a, false
	}
	id, ok1 := parseRight(b[:5], 10)
	word, ok2 := parseRight(b[6:14], 16)
	weights, ok3 := parseRight(b[15:23], 16)
	match, ok4 := parseRight(b[24:27], 10)
	expiry, ok5 := parseRight(b[28:38], 10)
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 {
		return a, false
	}
	return Ad{int32(id), uint32(word), uint32(weights), int32(match), expiry}, true
}

// ParseTables reads both files whole: users in the order of their index and at least one, ads in the
// order of their id and at least Ads of them, of which the first Ads are used.
func ParseTables(users, ads []byte) (*Tables, error) {
	t := &Tables{
		Users: make([]uint32, 0, len(users)/UserSize),
		Ads:   make([]Ad, 0, Ads),
	}
	switch {
	case len(users) == 0:
		return nil, errors.New(PersonalityName + ": no users")
	case len(users)%UserSize != 0:
		return nil, fmt.Errorf("%s: %d bytes are not whole records of %d", PersonalityName, len(users), UserSize)
	case len(users)/UserSize > MaxUsers:
		return nil, fmt.Errorf("%s: %d users, at most %d", PersonalityName, len(users)/UserSize, MaxUsers)
	case len(ads)%AdSize != 0:
		return nil, fmt.Errorf("%s: %d bytes are not whole records of %d", AdsName, len(ads), AdSize)
	case len(ads)/AdSize < Ads:
		return nil, fmt.Errorf("%s: %d ads, need %d", AdsName, len(ads)/AdSize, Ads)
	}
	for i := 0; len(users) > 0; i++ {
		u, ok := ParseUser(users[:UserSize])
		if !ok || int(u.Index) != i {
			return nil, fmt.Errorf("%s: record %d is not that of user %d: %q", PersonalityName, i, i, bytes.TrimSpace(users[:UserSize]))
		}
		t.Users = append(t.Users, u.Demographics)
		users = users[UserSize:]
	}
	for i := 0; i < Ads; i++ {
		a, ok := ParseAd(ads[:AdSize])
		if !ok || int(a.ID) != i {
			return nil, fmt.Errorf("%s: record %d is not that of ad %d: %q", AdsName, i, i, bytes.TrimSpace(ads[:AdSize]))
		}
		t.Ads = append(t.Ads, a)
		ads = ads[AdSize:]
	}
	return t, nil
}

// Match is the sum of the ad's weights over the groups in which user and ad share a bit, 0..75.
func (a *Ad) Match(demographics uint32) int32 {
	common, w := a.Demographics&demographics, a.Weights
	var sum uint32
	if common&GenderMask != 0 {
		sum += w >> GenderShift & 15
	}
	if common&AgeMask != 0 {
		sum += w >> AgeShift & 15
	}
	if common&RegionMask != 0 {
		sum += w >> RegionShift & 15
	}
	if common&Interest1Mask != 0 {
		sum += w >> Interest1Shift & 15
	}
	if common&Interest2Mask != 0 {
		sum += w >> Interest2Shift & 15
	}
	return int32(sum)
}

// Select is the ad rotation: the next ad for a user (an index, without UserOffset) after lastAd at Unix
// time now. No allocation.
//
// It looks at the ads after lastAd in a circle and takes the first whose match reaches its minimum. An
// expired ad is taken too, and flagged. Two oddities are part of the known behaviour: lastAd itself is
// never matched, and if no other ad matches it is the answer, with the weight of the ad before it in the
// circle. An unknown user gives NoAd; so, by our own rule, does a lastAd that is not an ad.
func (t *Tables) Select(user, lastAd int32, now int64) Found {
	if user < 0 || int(user) >= len(t.Users) || lastAd < 0 || int(lastAd) >= len(t.Ads) {
		return NoAd()
	}
	demographics := t.Users[user]
	id, weight := lastAd, int32(0)
	for {
		if id++; int(id) == len(t.Ads) {
			id = 0
		}
		if id == lastAd {
			break
		}
		weight = t.Ads[id].Match(demographics)
		if weight >= t.Ads[id].MinMatch {
			break
		}
	}
	return Found{Ad: id, Weight: weight, Expired: now > t.Ads[id].Expiry}
}

// AdFile is the file that shows ad id: its directory, class and number.
func AdFile(id int32) (dir int32, class, num uint8) {
	return id / 36, uint8(id % 36 / 9), uint8(id % 9)
}

// AppendAdFile appends the file name of ad id (0..Ads-1), dirNNNNN/classC_F: TagName bytes.
func AppendAdFile(b []byte, id int32) []byte {
	dir, class, num := AdFile(id)
	return appendFileName(b, dir, class, num)
}

func appendFileName(b []byte, dir int32, class, num uint8) []byte {
	b = appendPadded(append(b, "dir"...), dir, 5)
	return append(b, '/', 'c', 'l', 'a', 's', 's', '0'+class, '_', '0'+num)
}

// Tag is the text in a file of class 1 or 2 that an ad goes into: the TagName bytes from TagOffset on
// are a placeholder for the ad's file name. In a file the tag ends a line of 64 bytes.
const (
	Tag       = `<!WEB99CAD><IMG SRC="/file_set/dirNNNNN/classX_Y"><!/WEB99CAD>`
	TagOffset = 31
	TagName   = 17
)

// Rewritten reports whether the ad rotation rewrites files of a class: 1 and 2, no others.
func Rewritten(class uint8) bool { return class == 1 || class == 2 }

// Rewrite appends src to dst with the placeholder in every tag replaced by name, which has TagName
// bytes. The length does not change. Allocates only to grow dst.
func Rewrite(dst, src, name []byte) []byte {
	at := len(dst)
	dst = append(dst, src...)
	RewriteInPlace(dst[at:], name)
	return dst
}

// RewriteInPlace replaces the placeholder in every tag in b by name and returns the number of tags. No
// allocation.
func RewriteInPlace(b, name []byte) (tags int) {
	for {
		i := bytes.Index(b, tag)
		if i < 0 {
			return tags
		}
		copy(b[i+TagOffset:i+TagOffset+TagName], name)
		b = b[i+len(Tag):]
		tags++
	}
}

// ClassOf is the class of a file by its path, whose last part is classC_F; ok is false for other names.
func ClassOf(path []byte) (class uint8, ok bool) {
	const form = "/classC_F"
	if len(path) < len(form) {
		return 0, false
	}
	last := path[len(path)-len(form):]
	if string(last[:6]) != form[:6] || last[7] != '_' {
		return 0, false
	}
	class, num := last[6]-'0', last[8]-'0'
	return class, class <= 3 && num <= 8
}

// Read only: constants in the form that bytes functions and responses want.
var (
	tag  = []byte(Tag)
	tail = []byte(TailText)
)
