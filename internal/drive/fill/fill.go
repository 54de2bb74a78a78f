// Package fill writes, verifies and removes a file set on disk.
//
// Call [Create] to make, resume or grow a set and [Verify] to check one.
//
// It decides no size and no byte (model/fileset does), and it touches nothing
// but DIR/file_set and its manifest, DIR/.tidemark-fileset.json: a folder that
// holds anything else and no manifest is somebody else's and refused.
package fill

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
)

// Plan says what Create has to make.
type Plan struct {
	Dirs    int    // directories, 1 to fileset.MaxDirs
	Seed    uint64 // of the content
	Workers int    // goroutines; 0: one per processor

	// Tests replace these; nil means the file system, and nobody.
	room  func(dir string) (room, error)
	sync  func(*os.File) error
	lot   int64       // bytes
	wrote func(d int) // a directory is complete; called by the workers
}

// Progress is a snapshot of work under way: what was left to do when it began.
type Progress struct {
	Files, FilesDone int64
	Bytes, BytesDone int64
	Elapsed          time.Duration
}

// Created is what Create did. Set is the state it left, after an error too.
type Created struct {
	Set     Manifest
	Dirs    int   // directories completed
	Bytes   int64 // bytes written, those of unfinished directories included
	Elapsed time.Duration
}

// Size is what a number of directories amounts to.
type Size struct {
	Dirs       int
	Files      int64
	Bytes      int64   // sum of the file sizes
	DiskBytes  int64   // with blocks of 4 KiB, directories included
	ReportedMB float64 // as result pages print it
}

// SizeOf returns the size of a set of so many directories.
func SizeOf(dirs int) Size {
	n := int64(dirs)
	return Size{
		Dirs: dirs, Files: n * fileset.FilesPerDir, Bytes: n * fileset.DirBytes,
		DiskBytes: n * diskBytes(4096), ReportedMB: fileset.ReportedMB(dirs),
	}
}

// diskBytes returns what one directory occupies in blocks of a size.
func diskBytes(block int64) int64 {
	sum := block // the directory itself
	for i := range int64(fileset.FilesPerDir) {
		sum += (fileset.FileAt(i).Size() + block - 1) / block * block
	}
	return sum
}

// Create makes sure that dir holds at least plan.Dirs directories of the set:
// it makes a new set in an empty or absent folder, resumes an interrupted one,
// adds directories to a smaller one and rewrites those that went missing. A set
// that is larger already stays as it is. When Create returns nil the set is
// complete and has reached the disk.
//
// Free space is checked before anything is written. Cancelling ctx leaves a
// state that the next Create resumes; the error then wraps ctx.Err(). progress
// (may be nil) is called from this goroutine, ten times a second and at the end.
//
// What is not done: existing files of a complete set are not read (Verify does).
func Create(ctx context.Context, dir string, plan Plan, progress func(Progress)) (Created, error) {
	start := clock.Now()
	if plan.Dirs < 1 || plan.Dirs > fileset.MaxDirs {
		return Created{}, fault.New(fault.Config, "file set: %d directories, must be from 1 to %d", plan.Dirs, fileset.MaxDirs)
	}
	if plan.Workers <= 0 {
		plan.Workers = runtime.GOMAXPROCS(0)
	}
	if plan.room == nil {
		plan.room = roomOf
	}
	if plan.sync == nil {
		plan.sync = syncDisk
	}
	if plan.lot == 0 {
		plan.lot = lot
	}
	made, err := makeFolder(dir, plan)
	if err != nil {
		return Created{}, err
	}
	f, err := enter(dir, false)
	if err != nil {
		return Created{}, err
	}
	defer f.leave()
	if err := f.adopt(plan.Seed, made); err != nil {
		return Created{}, err
	}

	w := &writer{folder: f, plan: plan, start: start, report: progress}
	wanted := max(plan.Dirs, f.set.Dirs)
	w.done = make([]bool, wanted)
	trusted := f.set.trusted(bootID())
	fresh := 0 // directories that take space not taken yet
	for d := range wanted {
		there := f.there(d)
		if w.done[d] = there && trusted(d); !w.done[d] {
			w.todo = append(w.todo, d)
		}
		if !there {
			fresh++
		}
	}
	if len(w.todo) == 0 && f.set.State == Complete {
		w.tell()
		return Created{Set: f.set, Elapsed: clock.Now().Sub(start)}, nil
	}
	if err := checkRoom(dir, fresh, plan.room); err != nil {
		return Created{Set: f.set}, err
	}
	err = w.run(ctx)
	return Created{
		Set: f.set, Dirs: int(w.dirsDone.Load()), Bytes: w.bytesDone.Load(),
		Elapsed: clock.Now().Sub(start),
	}, err
}

// makeFolder makes dir unless it exists, and reports whether it did. Space is
// checked first, so that a refusal leaves nothing behind.
func makeFolder(dir string, plan Plan) (made bool, err error) {
	at := filepath.Clean(dir)
	for {
		st, err := os.Stat(at)
		if err == nil {
			if !st.IsDir() {
				return false, fault.New(fault.Config, "file set: %s is not a directory", at)
			}
			break
		}
		up := filepath.Dir(at)
		if !errors.Is(err, fs.ErrNotExist) || up == at {
			return false, fault.Wrap(fault.Config, err, "file set")
		}
		at = up
	}
	if at == filepath.Clean(dir) {
		return false, nil
	}
	if err := checkRoom(at, plan.Dirs, plan.room); err != nil {
		return false, err
	}
	return true, fault.Wrap(fault.Config, os.MkdirAll(dir, 0o755), "file set")
}

// room is what a file system has left.
type room struct {
	bytes, block int64
	inodes       int64 // -1: unlimited or unknown
}

// spare is what must be left besides the set: manifests, metadata.
const spare = 1 << 20

// checkRoom refuses work for which the space does not suffice.
func checkRoom(dir string, dirs int, ask func(string) (room, error)) error {
	if dirs == 0 {
		return nil
	}
	r, err := ask(dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // then the disk itself will say so
	}
	if err != nil {
		return fault.Wrap(fault.Driver, err, "file set: free space of "+dir)
	}
	need := int64(dirs)*diskBytes(max(r.block, 512)) + spare
	if need > r.bytes {
		return fault.Hint(
			fault.New(fault.Config, "file set: %d directories need %d MB, %s has %d MB free", dirs, need/1e6, dir, r.bytes/1e6),
			"choose a smaller load, or another folder")
	}
	if inodes := int64(dirs) * (fileset.FilesPerDir + 1); r.inodes >= 0 && inodes > r.inodes {
		return fault.New(fault.Config, "file set: %d directories need %d inodes, %s has %d free", dirs, inodes, dir, r.inodes)
	}
	return nil
}
