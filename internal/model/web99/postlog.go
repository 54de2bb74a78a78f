package web99

// Sizes of the post log's parts, in bytes: the file is CountSize + N * RecordSize long.
const (
	CountSize  = 11
	RecordSize = 139
)

// Record is one record of the post log.
type Record struct {
	Number     int64 // from 1
	Time       int64 // Unix seconds
	Pid        int64
	Dir        int32
	Class, Num uint8
	Client     int64
	File       []byte // at most 60 bytes are kept
	Thread     int64  // the pid again, in the pages here
	User       int64  // cookie value, UserOffset included
}

// AppendCount appends the log's first line.
func AppendCount(b []byte, n int64) (out []byte, ok bool) { return b, false }

// ParseCount reads the log's first line.
func ParseCount(b []byte) (n int64, ok bool) { return 0, false }

// AppendRecord appends one record; ok is false, and nothing appended, if a value does not fit its width.
func AppendRecord(b []byte, r *Record) (out []byte, ok bool) { return b, false }

// ParseRecord reads the RecordSize bytes of one record. File is a view into b.
func ParseRecord(b []byte, r *Record) bool { return false }
