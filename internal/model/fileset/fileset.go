// Package fileset is the arithmetic of the web99 file set: how many
// directories a load needs, which files a directory holds, how they are named,
// how long they are and which bytes they contain.
//
// Call [Dirs] to size a set and [Content.Init] to write or check a file.
//
// It touches no disk (drive/fill writes and verifies sets) and draws no file
// (model/workload does).
package fileset

const (
	// Classes is the number of size classes.
	Classes = 4
	// FilesPerClass is the number of files of one class in a directory.
	FilesPerClass = 9
	// FilesPerDir is the number of files in a directory.
	FilesPerDir = Classes * FilesPerClass
	// DirBytes is the sum of the sizes of the files of one directory.
	DirBytes = 5119484
	// MaxDirs is the largest number of directories that five digits can name.
	MaxDirs = 100000
	// MaxSize is the size in bytes of the longest file.
	MaxSize = 921600
	// Root is the directory, below the document root, that holds the set.
	Root = "file_set"
	// PathLen is the length of every absolute path of the set.
	PathLen = 27
)

// sizes holds bytes by class and number. Source: the Waterloo httperf tools;
// class 0 is floor(102.4 x (n+1)), the others 1024, 10240 and 102400 x (n+1).
var sizes = [Classes][FilesPerClass]int32{
	{102, 204, 307, 409, 512, 614, 716, 819, 921},
	{1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 9216},
	{10240, 20480, 30720, 40960, 51200, 61440, 71680, 81920, 92160},
	{102400, 204800, 307200, 409600, 512000, 614400, 716800, 819200, 921600},
}

// File names one file of the set. Dir is in [0, MaxDirs), Class in
// [0, Classes), Num in [0, FilesPerClass).
type File struct {
	Dir   int32
	Class uint8
	Num   uint8
}

// Size returns the length of the file in bytes.
func (f File) Size() int64 { return int64(sizes[f.Class][f.Num]) }

// Valid reports whether the three numbers are in range.
func (f File) Valid() bool {
	return uint32(f.Dir) < MaxDirs && f.Class < Classes && f.Num < FilesPerClass
}

// Index returns the rank of the file in directory order: 36 x dir + 9 x class + num.
func (f File) Index() int64 {
	return int64(f.Dir)*FilesPerDir + int64(f.Class)*FilesPerClass + int64(f.Num)
}

// FileAt is the inverse of [File.Index]. i must be in [0, MaxDirs x FilesPerDir).
func FileAt(i int64) File {
	in := i % FilesPerDir
	return File{Dir: int32(i / FilesPerDir), Class: uint8(in / FilesPerClass), Num: uint8(in % FilesPerClass)}
}

// AppendPath appends the absolute path below the document root, for example
// "/file_set/dir00000/class0_0". It appends PathLen bytes.
//
// Any goroutine. No allocation when b has room. Never blocks.
func (f File) AppendPath(b []byte) []byte {
	b = append(b, "/file_set/dir00000/class0_0"...)
	p := b[len(b)-PathLen:]
	putDigits(p[len("/file_set/dir"):][:5], uint32(f.Dir))
	p[PathLen-3] = '0' + f.Class
	p[PathLen-1] = '0' + f.Num
	return b
}

// String returns the absolute path.
func (f File) String() string {
	var b [PathLen]byte
	return string(f.AppendPath(b[:0]))
}

// putDigits writes v right-justified with leading zeros; excess digits are lost.
func putDigits(dst []byte, v uint32) {
	for i := len(dst) - 1; i >= 0; i-- {
		dst[i] = byte('0' + v%10)
		v /= 10
	}
}

// Parse reads a path as written by AppendPath; the leading slash may be absent.
// Anything else, a sixth digit or a trailing byte included, is refused.
//
// Any goroutine. No allocation. Never blocks.
func Parse(path []byte) (File, bool) {
	if len(path) == PathLen && path[0] == '/' {
		path = path[1:]
	}
	const dir, class = len("file_set/dir"), len("file_set/dir00000/class")
	if len(path) != PathLen-1 || string(path[:dir]) != "file_set/dir" ||
		string(path[dir+5:class]) != "/class" || path[class+1] != '_' {
		return File{}, false
	}
	var n int32
	for _, c := range path[dir : dir+5] {
		if c < '0' || c > '9' {
			return File{}, false
		}
		n = n*10 + int32(c-'0')
	}
	f := File{Dir: n, Class: path[class] - '0', Num: path[class+2] - '0'}
	return f, f.Valid()
}

// Dirs returns the number of directories of a set for a load (connections):
// floor(25 + (400000/122000 x load) / 5), computed exactly. One directory per
// five operations a second expected at line speed, plus 25; the five published
// configurations confirm truncation. A load below 1 counts as 0. The result
// exceeds MaxDirs from load 152,464 on: callers that write sets refuse that.
func Dirs(load int) int {
	if load < 0 {
		load = 0
	}
	return 25 + int(int64(load)*40/61)
}

// ReportedMB returns the size that published result pages print for a set of
// so many directories: 4.88 MB each, to the cent. (Exactly, a directory is
// 5,119,484 bytes = 4.88232 MiB.)
func ReportedMB(dirs int) float64 { return float64(int64(dirs)*488) / 100 }
