package disclosure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Names of the files of a result folder.
const (
	ResultFile  = "result.json"
	SlotsFile   = "slots.ndjson.zst"
	SecondsFile = "seconds.ndjson.zst"
)

// maxDocument bounds what Read takes in, in bytes. A run of three iterations is about 100 KB.
const maxDocument = 256 << 20

// ErrSchema is what a refusal because of the schema wraps.
var ErrSchema = errors.New("schema")

// Read reads a document. It refuses a document of another kind or major version with an error that wraps ErrSchema
// and says what was found, refuses anything behind the document, and passes over keys it does not know: a later
// minor version may have added them.
func Read(r io.Reader) (*Document, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxDocument {
		return nil, fmt.Errorf("result document: larger than %d bytes", maxDocument)
	}
	var head struct {
		Schema *string `json:"schema"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("result document: %w", position(b, err))
	}
	if head.Schema == nil {
		return nil, fmt.Errorf("%w: missing; not a result document", ErrSchema)
	}
	if err := checkSchema(*head.Schema, Schema); err != nil {
		return nil, err
	}
	d := new(Document)
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("result document: %w", position(b, err))
	}
	return d, nil
}

// checkSchema compares "name/major.minor" with the one this package writes: same name, same major version.
func checkSchema(found, own string) error {
	name, version, ok := strings.Cut(found, "/")
	ownName, ownVersion, _ := strings.Cut(own, "/")
	if !ok || name != ownName {
		return fmt.Errorf("%w: %q is not %s", ErrSchema, found, ownName)
	}
	major, minor, ok := strings.Cut(version, ".")
	ownMajor, _, _ := strings.Cut(ownVersion, ".")
	m, err1 := strconv.ParseUint(major, 10, 31)
	_, err2 := strconv.ParseUint(minor, 10, 31)
	o, _ := strconv.ParseUint(ownMajor, 10, 31)
	switch {
	case !ok || err1 != nil || err2 != nil:
		return fmt.Errorf("%w: %q has no version", ErrSchema, found)
	case m > o:
		return fmt.Errorf("%w: %q is newer than this program, which reads %s.x; use a newer one", ErrSchema, found, ownName+"/"+ownMajor)
	case m < o:
		return fmt.Errorf("%w: %q is older than anything this program reads (%s.x)", ErrSchema, found, ownName+"/"+ownMajor)
	}
	return nil
}

// position adds line and column to an error of encoding/json.
func position(b []byte, err error) error {
	offset := int64(-1)
	if e := (*json.SyntaxError)(nil); errors.As(err, &e) {
		offset = e.Offset
	}
	if e := (*json.UnmarshalTypeError)(nil); errors.As(err, &e) {
		offset = e.Offset
	}
	if offset < 0 || offset > int64(len(b)) {
		return err
	}
	before := b[:offset]
	line := 1 + bytes.Count(before, []byte("\n"))
	return fmt.Errorf("line %d, column %d: %w", line, len(before)-bytes.LastIndexByte(before, '\n')-1, err)
}

// Write writes a document, indented, with a line break at the end.
func Write(w io.Writer, d *Document) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(d); err != nil {
		return fmt.Errorf("result document: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Load reads the document of a result folder, or of the path of a result.json.
func Load(path string) (*Document, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, ResultFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// Save writes result.json into the folder dir (made if needed) by way of a temporary file and a rename, so that
// neither a reader nor a crash ever meets half a document.
func Save(dir string, d *Document) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".result-*.json")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already after the rename
	if err = Write(f, d); err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, ResultFile))
}
