package fill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
)

// Kind says what is wrong with a file.
type Kind uint8

// The kinds of fault.
const (
	Missing Kind = iota // the file is not there
	Length              // its length is wrong
	Content             // a byte is wrong
	Extra               // it does not belong to the set
	Unread              // it could not be read, or is no regular file
)

// String returns a word for messages.
func (k Kind) String() string {
	switch k {
	case Missing:
		return "missing"
	case Length:
		return "wrong length"
	case Content:
		return "wrong content"
	case Extra:
		return "extra"
	case Unread:
		return "unreadable"
	}
	return "unknown"
}

// Fault is one wrong file.
type Fault struct {
	Path   string // below the folder: "file_set/dir00000/class0_0"
	Kind   Kind
	Offset int64 // Content: the first wrong byte
	Got    int64 // Length: bytes found
	Want   int64 // Length: bytes by the law
	Err    error // Unread
}

// String returns the fault as one line.
func (f Fault) String() string {
	switch f.Kind {
	case Length:
		return fmt.Sprintf("%s: %d bytes, must be %d", f.Path, f.Got, f.Want)
	case Content:
		return fmt.Sprintf("%s: wrong content from byte %d on", f.Path, f.Offset)
	case Unread:
		return fmt.Sprintf("%s: %v", f.Path, f.Err)
	}
	return f.Path + ": " + f.Kind.String()
}

// readSize is how much of a file is read and compared at a time: little enough to stay in a processor's own cache
// between the two.
const readSize = 128 << 10

var errIrregular = errors.New("not a regular file")

// Check says how thorough Verify is.
type Check struct {
	Every   int // content of one file in so many, chosen evenly; 0 and 1: of all
	Workers int // goroutines; 0: one per processor
}

// Report is what Verify found.
type Report struct {
	Set     Manifest
	Files   int64   // files looked at: existence and length
	Read    int64   // of these compared byte for byte
	Bytes   int64   // bytes compared
	Faults  []Fault // every wrong file, by path
	Elapsed time.Duration
}

// OK reports whether the set is complete and nothing is wrong with it.
func (r *Report) OK() bool { return len(r.Faults) == 0 && r.Set.State == Complete }

// Verify compares the set in dir with its law: each file must be there with its
// length, each sampled one with its bytes, and nothing else may lie in file_set.
// Wrong files are findings, not errors; the error is about the folder itself or
// ctx. Of a set whose writing was interrupted the complete directories are
// verified (see Report.Set), the others neither missed nor called extra.
//
// progress (may be nil) is called from this goroutine, ten times a second and at
// the end.
func Verify(ctx context.Context, dir string, check Check, progress func(Progress)) (Report, error) {
	start := clock.Now()
	f, err := open(dir, true)
	if err != nil {
		return Report{}, err
	}
	defer f.leave()
	set := f.set
	v := &verifier{folder: f, every: int64(max(1, check.Every))}
	if check.Workers <= 0 {
		check.Workers = runtime.GOMAXPROCS(0)
	}
	var wg sync.WaitGroup
	for range check.Workers {
		wg.Go(func() { v.directories(ctx) })
	}
	wg.Go(v.strangers)
	finished := make(chan struct{})
	go func() {
		wg.Wait()
		close(finished)
	}()
	tell := func() {
		if progress != nil {
			n := int64(set.Dirs)
			progress(Progress{
				Files: n * fileset.FilesPerDir, FilesDone: v.files.Load(),
				Bytes: n * fileset.DirBytes / v.every, BytesDone: v.bytes.Load(),
				Elapsed: clock.Now().Sub(start),
			})
		}
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for working := true; working; {
		select {
		case <-finished:
			working = false
		case <-tick.C:
		}
		tell()
	}
	slices.SortFunc(v.faults, func(a, b Fault) int { return strings.Compare(a.Path, b.Path) })
	r := Report{
		Set: set, Files: v.files.Load(), Read: v.read.Load(), Bytes: v.bytes.Load(),
		Faults: v.faults, Elapsed: clock.Now().Sub(start),
	}
	if err := ctx.Err(); err != nil && r.Files < int64(set.Dirs)*fileset.FilesPerDir {
		return r, fault.Wrap(fault.Driver, err, fmt.Sprintf("file set: verified %d of %d files", r.Files, int64(set.Dirs)*fileset.FilesPerDir))
	}
	return r, nil
}

type verifier struct {
	*folder
	every int64

	next               atomic.Int64
	files, read, bytes atomic.Int64

	mu     sync.Mutex
	faults []Fault
}

func (v *verifier) fault(f Fault) {
	v.mu.Lock()
	v.faults = append(v.faults, f)
	v.mu.Unlock()
}

// directories is one worker.
func (v *verifier) directories(ctx context.Context) {
	buf := make([]byte, readSize)
	for ctx.Err() == nil {
		d := int(v.next.Add(1) - 1)
		if d >= v.set.Dirs {
			return
		}
		v.directory(ctx, d, buf)
	}
}

// directory verifies the files of directory d and that nothing else is in it.
func (v *verifier) directory(ctx context.Context, d int, buf []byte) {
	at := dirPath(d)
	dir, err := v.root.OpenRoot(at)
	if err != nil {
		kind := Unread
		if errors.Is(err, fs.ErrNotExist) {
			kind, err = Missing, nil
		}
		for i := range int64(fileset.FilesPerDir) {
			f := fileset.FileAt(int64(d)*fileset.FilesPerDir + i)
			v.fault(Fault{Path: f.String()[1:], Kind: kind, Err: err})
			v.files.Add(1)
		}
		return
	}
	defer dir.Close()
	self, err := dir.Open(".")
	if err != nil {
		v.fault(Fault{Path: at, Kind: Unread, Err: err})
		return
	}
	defer self.Close()
	for i := range int64(fileset.FilesPerDir) {
		if ctx.Err() != nil {
			return
		}
		f := fileset.FileAt(int64(d)*fileset.FilesPerDir + i)
		if wrong, bad := v.file(dir, self, f, buf); bad {
			wrong.Path = f.String()[1:]
			v.fault(wrong)
		}
		v.files.Add(1)
	}
	names, err := self.Readdirnames(-1)
	slices.Sort(names)
	if err != nil {
		v.fault(Fault{Path: at, Kind: Unread, Err: err})
	}
	for _, name := range names {
		p := path.Join(at, name)
		if f, ok := fileset.Parse([]byte(p)); !ok || int(f.Dir) != d {
			v.fault(Fault{Path: p, Kind: Extra})
		}
	}
}

// file verifies one file.
func (v *verifier) file(dir *os.Root, self *os.File, f fileset.File, buf []byte) (wrong Fault, bad bool) {
	unread := func(err error) (Fault, bool) {
		if errors.Is(err, fs.ErrNotExist) {
			return Fault{Kind: Missing}, true
		}
		return Fault{Kind: Unread, Err: err}, true
	}
	if !sampled(f, v.every) {
		st, err := dir.Lstat(fileName(f))
		switch {
		case err != nil:
			return unread(err)
		case !st.Mode().IsRegular():
			return unread(errIrregular)
		case st.Size() != f.Size():
			return Fault{Kind: Length, Got: st.Size(), Want: f.Size()}, true
		}
		return Fault{}, false
	}
	h, size, err := openRegular(dir, self, fileName(f))
	if err != nil {
		return unread(err)
	}
	defer h.Close()
	if size != f.Size() {
		return Fault{Kind: Length, Got: size, Want: f.Size()}, true
	}
	var c fileset.Content
	c.Init(f, v.set.Seed)
	at := int64(0)
	for at < f.Size() {
		n, err := h.Read(buf[:min(int64(len(buf)), f.Size()-at)])
		if err != nil && at+int64(n) == 0 {
			return unread(err)
		}
		if at == 0 {
			v.read.Add(1)
		}
		v.bytes.Add(int64(n))
		if x := c.Check(buf[:n], at); x >= 0 {
			return Fault{Kind: Content, Offset: at + int64(x)}, true
		}
		if at += int64(n); err != nil { // it shrank while being read
			return Fault{Kind: Length, Got: at, Want: f.Size()}, true
		}
	}
	return Fault{}, false
}

// sampled picks one file in every, spread evenly over classes and numbers: by a
// hash of the rank, so that no period of the sample meets that of the ranks.
func sampled(f fileset.File, every int64) bool {
	if every <= 1 {
		return true
	}
	h := uint64(f.Index()+1) * 0x9E3779B97F4A7C15
	h ^= h >> 32
	h *= 0xD6E8FEB86659FD93
	h ^= h >> 32
	return h%uint64(every) == 0
}

// strangers reports what lies in file_set beside the directories of the set.
func (v *verifier) strangers() {
	names, err := list(v.root, fileset.Root)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // absent: every file is reported missing
			v.fault(Fault{Path: fileset.Root, Kind: Unread, Err: err})
		}
		return
	}
	limit := max(v.set.Dirs, v.set.Wanted)
	for _, name := range names {
		p := path.Join(fileset.Root, name)
		f, ok := fileset.Parse([]byte(p + "/class0_0"))
		if !ok || int(f.Dir) >= limit {
			v.fault(Fault{Path: p, Kind: Extra})
		}
	}
}
