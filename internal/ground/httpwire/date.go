package httpwire

const (
	dayNames   = "SunMonTueWedThuFriSat"
	monthNames = "JanFebMarAprMayJunJulAugSepOctNovDec"

	daySeconds = 24 * 60 * 60
	firstDate  = -62167219200 // 0000-01-01 00:00:00
	lastDate   = 253402300799 // 9999-12-31 23:59:59
)

// AppendDate appends the IMF-fixdate (29 bytes, RFC 9110 section 5.6.7) of a time
// in seconds since 1970-01-01 UTC, moved into the years 0 to 9999 that the form
// can express. No allocation if b has room.
func AppendDate(b []byte, unix int64) []byte {
	unix = max(firstDate, min(lastDate, unix)) - firstDate // from here on not negative
	days, seconds := unix/daySeconds, unix%daySeconds
	year, month, day := civil(days)
	weekday := int(days+6) % 7 // 0000-01-01 was a Saturday
	b = append(b, dayNames[3*weekday:3*weekday+3]...)
	b = append(b, ", "...)
	b = append2(b, day)
	b = append(b, ' ')
	b = append(b, monthNames[3*month:3*month+3]...)
	b = append(b, ' ')
	b = append2(b, year/100)
	b = append2(b, year%100)
	b = append(b, ' ')
	b = append2(b, int(seconds/3600))
	b = append(b, ':')
	b = append2(b, int(seconds/60%60))
	b = append(b, ':')
	b = append2(b, int(seconds%60))
	return append(b, " GMT"...)
}

func append2(b []byte, v int) []byte {
	return append(b, '0'+byte(v/10), '0'+byte(v%10))
}

// ParseDate reads an HTTP date in any of the three forms of RFC 9110 section
// 5.6.7, as seconds since 1970-01-01 UTC. The two-digit years of the RFC 850 form
// mean 1970 to 2069 (the RFC lets the border move with the clock, which this
// package does not read). The day name must be one, but not the right one; a
// leap second counts as the next second. No allocation.
func ParseDate(v []byte) (unix int64, ok bool) {
	// Day names are cut off first; what is left has a fixed form.
	switch {
	case len(v) == 29 && matches(v[3:], ", 00 aaa 0000 00:00:00 GMT"):
		return parts(v[:3], v[5:7], v[8:11], v[12:14], v[14:16], v[17:25])
	case len(v) == 24 && matches(v[3:], " aaa _0 00:00:00 0000"):
		return parts(v[:3], v[8:10], v[4:7], v[20:22], v[22:24], v[11:19])
	case len(v) >= 30 && len(v) <= 33 && matches(v[len(v)-24:], ", 00-aaa-00 00:00:00 GMT"):
		day, rest := v[:len(v)-24], v[len(v)-24:]
		if !longDay(day) {
			return 0, false
		}
		century := []byte("20")
		if rest[9] >= '7' {
			century = []byte("19")
		}
		return parts(day[:3], rest[2:4], rest[5:8], century, rest[9:11], rest[12:20])
	}
	return 0, false
}

// matches compares v with a form in which 0 stands for a digit, _ for a digit or
// a blank, a for any byte, and the rest for itself.
func matches(v []byte, form string) bool {
	for i, c := range v {
		switch f := form[i]; f {
		case '0':
			if !digit(c) {
				return false
			}
		case '_':
			if c != ' ' && !digit(c) {
				return false
			}
		case 'a':
		default:
			if c != f {
				return false
			}
		}
	}
	return true
}

// parts puts a date together from texts that hold digits where they should; only
// the first digit of mday may be a blank. clock is hh:mm:ss.
func parts(day, mday, month, century, year, clock []byte) (unix int64, ok bool) {
	m := index3(monthNames, month)
	if m < 0 || index3(dayNames, day) < 0 {
		return 0, false
	}
	if mday[0] == ' ' {
		mday = []byte{'0', mday[1]}
	}
	d, y := number(mday), number(century)*100+number(year)
	hour, minute, second := number(clock), number(clock[3:]), number(clock[6:])
	if d < 1 || d > monthDays(y, m) || hour > 23 || minute > 59 || second > 60 {
		return 0, false
	}
	return firstDate + dayOf(y, m, d)*daySeconds + int64(hour*3600+minute*60+second), true
}

func number(two []byte) int { return int(two[0]-'0')*10 + int(two[1]-'0') }

// index3 finds a name of three letters in a list of such names, or returns -1.
func index3(names string, name []byte) int {
	for i := 0; i < len(names); i += 3 {
		if names[i] == name[0] && names[i+1] == name[1] && names[i+2] == name[2] {
			return i / 3
		}
	}
	return -1
}

func longDay(day []byte) bool {
	switch string(day) {
	case "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday":
		return true
	}
	return false
}

// monthDays returns the days of month m (0 to 11) in year y.
func monthDays(y, m int) int {
	if m == 1 && y%4 == 0 && (y%100 != 0 || y%400 == 0) {
		return 29
	}
	return int("\x1f\x1c\x1f\x1e\x1f\x1e\x1f\x1f\x1e\x1f\x1e\x1f"[m])
}

// The two conversions below count years from March, so that the leap day comes
// last and the months before a month have 153 days in five (31 30 31 30 31).

// dayOf returns the days from 0000-01-01 to a date; m is 0 to 11.
func dayOf(y, m, d int) int64 {
	m -= 2
	if m < 0 {
		m += 12
		y--
	}
	y += 400 // keeps the year before 0 positive
	return int64(y*365+y/4-y/100+y/400+(153*m+2)/5+d-1) - (400*365 + 97 - 60)
}

// civil is the inverse of dayOf.
func civil(days int64) (y, m, d int) {
	n := int(days) + 400*365 + 97 - 60
	era, n := n/146097, n%146097 // days of 400 years
	y = (n - n/1460 + n/36524 - n/146096) / 365
	n -= y*365 + y/4 - y/100
	m = (5*n + 2) / 153
	d = n - (153*m+2)/5 + 1
	y += (era - 1) * 400
	m += 2
	if m >= 12 {
		m -= 12
		y++
	}
	return y, m, d
}
