package fill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
)

// Cleaned is what Clean did.
type Cleaned struct {
	Files int64    // files removed
	Left  []string // what remains in the folder because it is not ours, sorted
}

// Clean removes the set in dir, complete or not: the files of the law in
// file_set, directories that are empty then, the manifest, and dir itself if
// Create made it and nothing is left in it. A folder without a manifest is
// refused, anything else in it stays. Cancelling ctx leaves a state that the
// next Clean or Create goes on from.
func Clean(ctx context.Context, dir string) (Cleaned, error) {
	f, err := open(dir, false)
	if err != nil {
		return Cleaned{}, err
	}
	defer f.leave()
	f.set.Wanted = max(f.set.Wanted, f.set.Dirs) // what is there to be removed
	f.set.State, f.set.Dirs, f.set.Done = Writing, 0, nil
	if err := f.record(false); err != nil {
		return Cleaned{}, err
	}

	var done Cleaned
	names, err := list(f.root, fileset.Root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return done, fault.Wrap(fault.Driver, err, "file set")
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return done, fault.Wrap(fault.Driver, err, fmt.Sprintf("file set: removed %d files", done.Files))
		}
		first, ok := fileset.Parse([]byte(path.Join(fileset.Root, name, "class0_0")))
		if !ok {
			continue
		}
		n, err := f.removeDir(int(first.Dir))
		done.Files += n
		if err != nil {
			return done, err
		}
	}
	if err := removeIfEmpty(f.root, fileset.Root); err != nil {
		return done, err
	}
	for _, name := range []string{manifestTemp, ManifestName} {
		if err := f.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return done, fault.Wrap(fault.Driver, err, "file set: manifest")
		}
	}
	if done.Left, err = f.remains(); err != nil {
		return done, fault.Wrap(fault.Driver, err, "file set")
	}
	if f.set.MadeRoot && len(done.Left) == 0 {
		return done, fault.Wrap(fault.Driver, os.Remove(dir), "file set")
	}
	return done, nil
}

// removeDir removes the files of directory d that have the name and kind of ours,
// and the directory if that empties it.
func (f *folder) removeDir(d int) (files int64, err error) {
	at := dirPath(d)
	st, err := f.root.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !st.IsDir() {
		return 0, nil
	}
	dir, err := f.root.OpenRoot(at)
	if err != nil {
		return 0, fault.Wrap(fault.Driver, err, "file set")
	}
	defer dir.Close()
	for i := range int64(fileset.FilesPerDir) {
		name := fileName(fileset.FileAt(i))
		st, err := dir.Lstat(name)
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		if err := dir.Remove(name); err != nil {
			return files, fault.Wrap(fault.Driver, err, "file set: "+at)
		}
		files++
	}
	return files, removeIfEmpty(f.root, at)
}

// removeIfEmpty removes a directory; one that is not empty or absent stays so.
func removeIfEmpty(root *os.Root, dir string) error {
	names, err := list(root, dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) > 0 {
		return nil
	}
	if err == nil {
		err = root.Remove(dir)
	}
	return fault.Wrap(fault.Driver, err, "file set")
}

// remains lists what is left in the folder and in file_set.
func (f *folder) remains() ([]string, error) {
	names, err := list(f.root, ".")
	if err != nil || !slices.Contains(names, fileset.Root) {
		return names, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n == fileset.Root })
	err = fs.WalkDir(f.root.FS(), fileset.Root, func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, p)
		}
		return err
	})
	return sorted(names), err
}

// sorted sorts in place and returns its argument.
func sorted(names []string) []string {
	slices.Sort(names)
	return names
}
