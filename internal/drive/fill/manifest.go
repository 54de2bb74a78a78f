package fill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
)

const (
	// ManifestName is the file beside file_set that makes a folder ours.
	ManifestName = ".tidemark-fileset.json"
	// ManifestFormat is the version of its form; see docs/formats/fileset.md.
	ManifestFormat = 1

	manifestTemp  = ManifestName + ".tmp"
	manifestLimit = 1 << 20
)

// States of a set.
const (
	Complete = "complete" // Dirs directories are there, and on the disk
	Writing  = "writing"  // work on it is under way or was interrupted
)

// Manifest is the record of a set, stored beside it.
type Manifest struct {
	Format     int    `json:"format"`
	Law        string `json:"law"`
	LawVersion int    `json:"law_version"`
	Seed       uint64 `json:"seed,string"`
	State      string `json:"state"`
	Dirs       int    `json:"dirs"`             // directories 0 to Dirs-1 are complete and have reached the disk
	Wanted     int    `json:"wanted,omitempty"` // while writing: directories aimed at
	// Done lists directories from Dirs on, as [first, count], that are written but
	// perhaps not on the disk: they count only in the boot that wrote them.
	Done     [][2]int `json:"done,omitempty"`
	Boot     string   `json:"boot,omitempty"`
	MadeRoot bool     `json:"made_root,omitempty"` // the folder itself was made by us
}

// trusted returns the test whether a directory is complete by this record.
func (m *Manifest) trusted(boot string) func(d int) bool {
	extra := map[int]bool{}
	if boot != "" && boot == m.Boot {
		for _, s := range m.Done {
			for d := s[0]; d < s[0]+s[1]; d++ {
				extra[d] = true
			}
		}
	}
	return func(d int) bool { return d < m.Dirs || extra[d] }
}

// check refuses records this program cannot vouch for.
func (m *Manifest) check() error {
	switch {
	case m.Format != ManifestFormat:
		return fmt.Errorf("format %d, this program knows %d", m.Format, ManifestFormat)
	case m.Law != fileset.Law || m.LawVersion != fileset.LawVersion:
		return fmt.Errorf("content law %q version %d, this program knows %q version %d", m.Law, m.LawVersion, fileset.Law, fileset.LawVersion)
	case m.State != Complete && m.State != Writing:
		return fmt.Errorf("unknown state %q", m.State)
	case m.Dirs < 0 || m.Dirs > fileset.MaxDirs || m.Wanted < 0 || m.Wanted > fileset.MaxDirs:
		return errors.New("number of directories out of range")
	}
	for _, s := range m.Done {
		if s[0] < 0 || s[1] < 0 || s[0] > fileset.MaxDirs || s[1] > fileset.MaxDirs-s[0] {
			return errors.New("list of directories out of range")
		}
	}
	return nil
}

// Read returns the record of the set in dir. The error wraps fs.ErrNotExist when
// there is none.
func Read(dir string) (Manifest, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Manifest{}, fault.Wrap(fault.Config, err, "file set")
	}
	defer root.Close()
	return recordOf(root, dir)
}

// recordOf reads the manifest of a folder that must have one.
func recordOf(root *os.Root, dir string) (Manifest, error) {
	m, err := readManifest(root)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fault.Hint(
			fault.New(fault.Config, "file set: %s holds none of ours: %w", dir, fs.ErrNotExist),
			"make one with tidemark fileset create")
	}
	return m, fault.Wrap(fault.Config, err, "file set: "+filepath.Join(dir, ManifestName))
}

func readManifest(root *os.Root) (Manifest, error) {
	b, err := root.ReadFile(ManifestName)
	if err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if len(b) > manifestLimit {
		return Manifest{}, errors.New("damaged: too long")
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		// A newer form may well have more fields: say that instead, if so.
		var bare struct{ Format int }
		if json.Unmarshal(b, &bare) == nil && bare.Format > ManifestFormat {
			m.Format = bare.Format
			return Manifest{}, m.check()
		}
		return Manifest{}, fmt.Errorf("damaged: %v", err)
	}
	if err := m.check(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// folder is an open folder that holds, or will hold, a set.
type folder struct {
	path string
	root *os.Root
	lock *os.File // held as long as the folder is open
	set  Manifest
}

// enter opens dir and keeps other processes of ours out; shared lets in those
// that only read.
func enter(dir string, shared bool) (*folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "file set")
	}
	lock, err := root.Open(".")
	if err == nil {
		err = lockFolder(lock, shared)
	}
	if err != nil {
		return nil, errors.Join(fault.Wrap(fault.Config, err, "file set: "+dir), root.Close())
	}
	return &folder{path: dir, root: root, lock: lock}, nil
}

// open enters a folder that holds a set.
func open(dir string, shared bool) (*folder, error) {
	f, err := enter(dir, shared)
	if err != nil {
		return nil, err
	}
	if f.set, err = recordOf(f.root, dir); err != nil {
		f.leave()
		return nil, err
	}
	return f, nil
}

// leave closes the folder; only reading was done through these two.
func (f *folder) leave() {
	_ = f.lock.Close()
	_ = f.root.Close()
}

// adopt reads the record, or starts one if the folder is empty.
func (f *folder) adopt(seed uint64, made bool) error {
	m, err := readManifest(f.root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.empty(); err != nil {
			return err
		}
		f.set = Manifest{
			Format: ManifestFormat, Law: fileset.Law, LawVersion: fileset.LawVersion,
			Seed: seed, State: Writing, MadeRoot: made,
		}
		return nil
	case err != nil:
		return fault.Hint(
			fault.Wrap(fault.Config, err, "file set: "+filepath.Join(f.path, ManifestName)),
			"if the folder holds nothing else of value, remove it and create the set anew")
	case m.Seed != seed:
		return fault.Hint(
			fault.New(fault.Config, "file set: %s was made with seed %d, not %d", f.path, m.Seed, seed),
			"use its seed, another folder, or tidemark fileset clean")
	}
	f.set = m
	return nil
}

// empty refuses a folder that holds anything of somebody else's.
func (f *folder) empty() error {
	names, err := list(f.root, ".")
	if err != nil {
		return fault.Wrap(fault.Config, err, "file set: "+f.path)
	}
	for _, name := range names {
		if name != manifestTemp && name != "lost+found" { // the latter: a file system of its own
			return fault.Hint(
				fault.New(fault.Config, "file set: %s is not empty (%s) and holds no file set of ours", f.path, name),
				"choose an empty or new folder")
		}
	}
	return nil
}

// list returns the names in a directory, sorted.
func list(root *os.Root, dir string) ([]string, error) {
	h, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	names, err := h.Readdirnames(-1) // ReadDir looks at every file besides
	return sorted(names), err
}

// record stores the manifest atomically. With sync it is on the disk afterwards.
func (f *folder) record(sync bool) error {
	b, err := json.MarshalIndent(&f.set, "", "  ")
	if err != nil {
		return err
	}
	h, err := f.root.OpenFile(manifestTemp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fault.Wrap(fault.Driver, err, "file set: manifest")
	}
	_, err = h.Write(append(b, '\n'))
	if err == nil && sync {
		err = h.Sync()
	}
	if err = errors.Join(err, h.Close()); err == nil {
		err = f.root.Rename(manifestTemp, ManifestName)
	}
	if err == nil && sync {
		err = syncFolder(f.lock)
	}
	return fault.Wrap(fault.Driver, err, "file set: manifest")
}

// dirPath returns the path of directory d below the root of the folder.
func dirPath(d int) string {
	return fileset.File{Dir: int32(d)}.String()[1 : fileset.PathLen-len("/class0_0")]
}

// fileName returns the name of a file in its directory.
func fileName(f fileset.File) string { return f.String()[fileset.PathLen-len("class0_0"):] }

// there reports whether directory d seems to be complete: its last file, which is
// written last and the longest, has its full length.
func (f *folder) there(d int) bool {
	last := fileset.FileAt(int64(d)*fileset.FilesPerDir + fileset.FilesPerDir - 1)
	st, err := f.root.Lstat(last.String()[1:])
	return err == nil && st.Mode().IsRegular() && st.Size() == last.Size()
}
