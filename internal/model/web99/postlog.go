package web99

// Sizes of the post log's parts, in bytes: the file is CountSize + N * RecordSize long.
const (
	CountSize  = 11
	RecordSize = 139
	// FileWidth is the width of a record's file name; longer names are cut.
	FileWidth = 60
)

// Record is one record of the post log.
type Record struct {
	Number     int64  // from 1
	Time       int64  // Unix seconds
	Pid        int64  // of the process that wrote it
	Dir        int32  // 0..99999
	Class, Num uint8  // 0..99
	Client     int64  // as the POST said
	File       []byte // path; visible ASCII, FileWidth bytes are kept
	Thread     int64  // thread id where a server has one; the pages here write the pid again
	User       int64  // from the cookie, UserOffset included
}

// column is one number of a record: where it starts and its width.
type column struct{ at, width int }

// Number, time, pid, dir, class, num, client, (file), thread, user. Each but the file is right-justified.
var columns = [...]column{{0, 10}, {11, 10}, {22, 10}, {33, 5}, {39, 2}, {42, 2}, {45, 10}, {117, 10}, {128, 10}}

const fileAt = 56

// LogSize is the size of a post log of n records, in bytes.
func LogSize(n int64) int64 { return CountSize + n*RecordSize }

// LogCount is the number of records in a post log of size bytes; the rest is what a torn record left.
func LogCount(size int64) (n, rest int64) {
	if size < CountSize {
		return 0, size
	}
	return (size - CountSize) / RecordSize, (size - CountSize) % RecordSize
}

// AppendCount appends the log's first line. n is 0..9,999,999,999.
func AppendCount(b []byte, n int64) (out []byte, ok bool) {
	out, ok = appendRight(b, n, CountSize-1, 10)
	if !ok {
		return b, false
	}
	return append(out, '\n'), true
}

// ParseCount reads the log's first line, the CountSize bytes at the front of b.
func ParseCount(b []byte) (n int64, ok bool) {
	if len(b) < CountSize || b[CountSize-1] != '\n' {
		return 0, false
	}
	return parseRight(b[:CountSize-1], 10)
}

// AppendRecord appends one record; ok is false, and nothing appended, if a value does not fit its column
// or the file name has other bytes than visible ASCII. Allocates only to grow b.
func AppendRecord(b []byte, r *Record) (out []byte, ok bool) {
	numbers := r.numbers()
	out = b
	for i, c := range columns {
		if i == 7 {
			file := r.File
			if len(file) > FileWidth {
				file = file[:FileWidth]
			}
			if !printable(file) {
				return b, false
			}
			out = append(append(out, file...), blanks[:FileWidth-len(file)]...)
			out = append(out, ' ')
		}
		if out, ok = appendRight(out, numbers[i], c.width, 10); !ok {
			return b, false
		}
		out = append(out, ' ')
	}
	out[len(out)-1] = '\n'
	return out, true
}

func (r *Record) numbers() [len(columns)]int64 {
	return [...]int64{r.Number, r.Time, r.Pid, int64(r.Dir), int64(r.Class), int64(r.Num), r.Client, r.Thread, r.User}
}

// ParseRecord reads the RecordSize bytes of one record. File is a view into b. No allocation.
func ParseRecord(b []byte, r *Record) bool {
	if len(b) != RecordSize || b[RecordSize-1] != '\n' || b[fileAt-1] != ' ' || b[fileAt+FileWidth] != ' ' {
		return false
	}
	var n [len(columns)]int64
	for i, c := range columns {
		end := c.at + c.width
		if end != RecordSize-1 && b[end] != ' ' {
			return false
		}
		v, ok := parseRight(b[c.at:end], 10)
		if !ok {
			return false
		}
		n[i] = v
	}
	file := b[fileAt : fileAt+FileWidth]
	for len(file) > 0 && file[len(file)-1] == ' ' {
		file = file[:len(file)-1]
	}
	if !printable(file) {
		return false
	}
	*r = Record{n[0], n[1], n[2], int32(n[3]), uint8(n[4]), uint8(n[5]), n[6], file, n[7], n[8]}
	return true
}
