package fill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
)

const (
	progressEvery = 100 * time.Millisecond
	recordEvery   = time.Second

	// lot is how many bytes are written before the disk is told to begin with them. The kernel alone would wait for a
	// tenth of the memory and longer: then the disk rests while the files are written, and the processors while the
	// disk takes them.
	lot = 32 << 20
)

// writer writes directories. Whole directories are the unit of work and of the
// record: what was interrupted within one is written again, because after a
// crash a file of full length may still have no content.
type writer struct {
	*folder
	plan   Plan
	todo   []int // directories to write, ascending
	start  clock.Instant
	report func(Progress)

	flush chan struct{} // a lot was written since the flush before

	next      atomic.Int64 // index in todo
	dirsDone  atomic.Int64
	filesDone atomic.Int64
	bytesDone atomic.Int64

	mu   sync.Mutex
	done []bool // by directory
	lost bool   // the disk may not have taken what is done
}

// run writes what is left to do and brings the record up to date.
func (w *writer) run(ctx context.Context) error {
	for d := len(w.done); d < w.set.Wanted; d++ { // an interrupted plan wanted more than this one
		if _, err := w.removeDir(d); err != nil {
			return err
		}
	}
	w.set.State, w.set.Wanted, w.set.Boot = Writing, len(w.done), bootID()
	w.mark()
	if err := w.record(true); err != nil {
		return err
	}
	if err := w.root.Mkdir(fileset.Root, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fault.Wrap(fault.Driver, err, "file set")
	}
	err := w.work(ctx)
	w.tell()
	if err == nil && ctx.Err() != nil && int(w.dirsDone.Load()) < len(w.todo) {
		err = fault.Hint(
			fault.Wrap(fault.Driver, ctx.Err(), fmt.Sprintf("file set: interrupted after %d of %d directories", w.dirsDone.Load(), len(w.todo))),
			"the same command goes on from there")
	}
	if err == nil {
		err = w.sync()
	}
	w.mark()
	if err != nil {
		return errors.Join(err, w.record(false))
	}
	w.set.State, w.set.Dirs = Complete, len(w.done)
	w.set.Wanted, w.set.Done, w.set.Boot = 0, nil, ""
	return w.record(true)
}

// work runs the workers until everything is written, one of them fails or ctx
// ends, and meanwhile reports and records.
func (w *writer) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	failed := make(chan error, w.plan.Workers+1)
	fail := func(err error) {
		if err != nil {
			failed <- err
			cancel()
		}
	}
	w.flush = make(chan struct{}, 1)
	for range w.plan.Workers {
		wg.Go(func() { fail(w.directories(ctx)) })
	}
	flushed, finished := make(chan struct{}), make(chan struct{})
	go func() {
		fail(w.flushing(ctx))
		close(flushed)
	}()
	go func() {
		wg.Wait()
		close(w.flush)
		<-flushed
		close(finished)
	}()

	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	recorded := clock.Now()
	for {
		select {
		case <-finished:
			close(failed)
			return <-failed // the first one; nil if there is none
		case <-tick.C:
			w.tell()
			if now := clock.Now(); now.Sub(recorded) >= recordEvery {
				recorded = now
				w.mark()
				if err := w.record(false); err != nil {
					cancel()
					<-finished
					return err
				}
			}
		}
	}
}

// flushing has the disk take what is written, until the workers are done or ctx ends.
func (w *writer) flushing(ctx context.Context) error {
	for range w.flush {
		if ctx.Err() != nil {
			return nil
		}
		if err := w.sync(); err != nil {
			return err
		}
	}
	return nil
}

// sync writes out what the kernel holds of the set, and whatever else of its file system.
func (w *writer) sync() error {
	err := w.plan.sync(w.folder.lock)
	if err != nil {
		w.mu.Lock()
		w.lost = true
		w.mu.Unlock()
	}
	return fault.Wrap(fault.Driver, err, "file set: synchronise")
}

// mark copies what is done into the manifest. What the disk may have refused, which the kernel says once and then
// forgets, is believed no more than what a crash may have cost.
func (w *writer) mark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost {
		w.set.Boot = ""
	}
	first := slices.Index(w.done, false)
	if first < 0 {
		first = len(w.done)
	}
	w.set.Dirs = min(w.set.Dirs, first)
	w.set.Done = nil
	for d := w.set.Dirs; d < len(w.done); d++ {
		switch n := len(w.set.Done); {
		case !w.done[d]:
		case n > 0 && w.set.Done[n-1][0]+w.set.Done[n-1][1] == d:
			w.set.Done[n-1][1]++
		default:
			w.set.Done = append(w.set.Done, [2]int{d, 1})
		}
	}
}

// tell reports progress.
func (w *writer) tell() {
	if w.report == nil {
		return
	}
	n := int64(len(w.todo))
	w.report(Progress{
		Files: n * fileset.FilesPerDir, FilesDone: w.filesDone.Load(),
		Bytes: n * fileset.DirBytes, BytesDone: w.bytesDone.Load(),
		Elapsed: clock.Now().Sub(w.start),
	})
}

// directories is one worker: it takes directories until none is left.
func (w *writer) directories(ctx context.Context) error {
	buf := make([]byte, fileset.MaxSize)
	for ctx.Err() == nil {
		i := w.next.Add(1) - 1
		if i >= int64(len(w.todo)) {
			return nil
		}
		d := w.todo[i]
		whole, err := w.directory(ctx, d, buf)
		if err != nil {
			if errors.Is(err, errNoSpace) {
				err = fault.Hint(err, "the disk filled up meanwhile; free some space and run the same command again")
			}
			return err
		}
		if !whole {
			return nil
		}
		w.mu.Lock()
		w.done[d] = true
		w.mu.Unlock()
		w.dirsDone.Add(1)
		if w.plan.wrote != nil {
			w.plan.wrote(d)
		}
	}
	return nil
}

// directory writes the files of directory d, the last one last. whole is false
// when ctx ended in between.
func (w *writer) directory(ctx context.Context, d int, buf []byte) (whole bool, err error) {
	path := dirPath(d)
	if err := w.root.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fault.Wrap(fault.Driver, err, "file set")
	}
	dir, err := w.root.OpenRoot(path)
	if err != nil {
		return false, fault.Wrap(fault.Driver, err, "file set")
	}
	defer dir.Close()
	for i := range int64(fileset.FilesPerDir) {
		if ctx.Err() != nil {
			return false, nil
		}
		f := fileset.FileAt(int64(d)*fileset.FilesPerDir + i)
		if err := writeFile(dir, f, w.plan.Seed, buf); err != nil {
			return false, fault.Wrap(fault.Driver, err, "file set: "+path)
		}
		w.filesDone.Add(1)
		if n := w.bytesDone.Add(f.Size()); n/w.plan.lot > (n-f.Size())/w.plan.lot {
			select {
			case w.flush <- struct{}{}:
			default: // the disk has not taken the last lot yet
			}
		}
	}
	return true, nil
}

// writeFile writes one file with one write, which lets a file system place it in one piece, from a buffer of MaxSize
// bytes.
func writeFile(dir *os.Root, f fileset.File, seed uint64, buf []byte) error {
	var c fileset.Content
	c.Init(f, seed)
	buf = buf[:c.Size()]
	c.Fill(buf, 0)
	h, err := dir.OpenFile(fileName(f), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = h.Write(buf)
	return errors.Join(err, h.Close())
}
