// Package fill writes, verifies and removes a file set on disk.
//
// Call [Create] to make or grow a set and [Verify] to check one.
//
// It decides no size and no content (model/fileset does), and it touches
// nothing but DIR/file_set and its manifest.
package fill

import (
	"context"
	"errors"
	"time"
)

// Plan says what Create has to make.
type Plan struct {
	Dirs    int    // directories, 1 to fileset.MaxDirs
	Seed    uint64 // seed of the content
	Workers int    // goroutines; 0 = one per processor
}

// Progress is a snapshot of work under way.
type Progress struct {
	Files, FilesDone int64
	Bytes, BytesDone int64
	Elapsed          time.Duration
}

// Created is what Create did.
type Created struct {
	Set     Manifest
	Dirs    int   // directories written now
	Bytes   int64 // bytes written now
	Elapsed time.Duration
}

// Manifest is the record of a set, stored beside it.
type Manifest struct {
	Format  int    `json:"format"`
	Law     string `json:"law"`
	Seed    uint64 `json:"seed,string"`
	Dirs    int    `json:"dirs"`
	State   string `json:"state"`
	Writing int    `json:"writing,omitempty"`
}

// Kind says what is wrong with a file.
type Kind uint8

// Kinds of fault.
const (
	Missing Kind = iota // the file is not there
	Length              // its size is wrong
	Content             // its bytes are wrong
	Extra               // it does not belong to the set
	Unread              // it could not be read
)

// Fault is one wrong file.
type Fault struct {
	Path   string
	Kind   Kind
	Offset int64 // Content: first wrong byte
	Got    int64 // Length: size found
	Want   int64 // Length: size by the law
	Err    error // Unread
}

// Check says how thoroughly Verify works.
type Check struct {
	Every   int // content of one file in so many; 0 and 1 = all
	Workers int
}

// Report is what Verify found.
type Report struct {
	Set     Manifest
	Files   int64
	Read    int64
	Bytes   int64
	Faults  []Fault
	Elapsed time.Duration
}

// Create makes the set, resumes an interrupted one or grows an existing one.
func Create(ctx context.Context, dir string, plan Plan, progress func(Progress)) (Created, error) {
	return Created{}, errors.New("not yet")
}

// Verify checks a set.
func Verify(ctx context.Context, dir string, check Check, progress func(Progress)) (Report, error) {
	return Report{}, errors.New("not yet")
}

// Read returns the manifest of a set.
func Read(dir string) (Manifest, error) { return Manifest{}, errors.New("not yet") }

// Clean removes a set.
func Clean(ctx context.Context, dir string) error { return errors.New("not yet") }
