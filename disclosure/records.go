package disclosure

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
)

// Schemas of the record files: the first line of each is {"schema": "..."}.
const (
	SlotsSchema   = "tidemark.slots/1.0"
	SecondsSchema = "tidemark.seconds/1.0"
)

// ErrTorn says that a record file ends in the middle of a block; the records before it were read.
var ErrTorn = errors.New("record file is torn")

// AppendSlots adds records to the slots file in dir (both made as needed). Each call adds one complete compressed
// frame with one write, so that a crash loses at most what was being added.
func AppendSlots(dir string, rs []SlotRecord) error {
	return appendLines(dir, SlotsFile, SlotsSchema, rs)
}

// AppendSeconds adds records to the seconds file in dir, as AppendSlots does.
func AppendSeconds(dir string, ss []Second) error {
	return appendLines(dir, SecondsFile, SecondsSchema, ss)
}

type fileHead struct {
	Schema string `json:"schema"`
}

func appendLines[T any](dir, name, schema string, records []T) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	var lines bytes.Buffer
	e := json.NewEncoder(&lines)
	if info, err := f.Stat(); err != nil {
		return err
	} else if info.Size() == 0 {
		if err := e.Encode(fileHead{schema}); err != nil {
			return err
		}
	}
	for i := range records {
		if err := e.Encode(&records[i]); err != nil {
			return fmt.Errorf("%s: record %d: %w", name, i, err)
		}
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	if _, err = f.Write(z.EncodeAll(lines.Bytes(), nil)); err != nil {
		return err
	}
	return f.Sync()
}

// ReadSlots reads the records of a slots file, those of one iteration or, for 0, all. If the file is torn it returns
// what can be read together with an error that wraps ErrTorn.
func ReadSlots(r io.Reader, iteration int) ([]SlotRecord, error) {
	return readLines(r, SlotsSchema, func(s *SlotRecord) bool { return iteration == 0 || s.Iteration == iteration })
}

// ReadSeconds reads the records of a seconds file, as ReadSlots does.
func ReadSeconds(r io.Reader, iteration int) ([]Second, error) {
	return readLines(r, SecondsSchema, func(s *Second) bool { return iteration == 0 || s.Iteration == iteration })
}

// LoadSlots reads the slots file of a result folder; LoadSeconds the seconds file.
func LoadSlots(dir string, iteration int) ([]SlotRecord, error) {
	f, err := os.Open(filepath.Join(dir, SlotsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadSlots(f, iteration)
}

// LoadSeconds reads the seconds file of a result folder, those of one iteration or, for 0, all.
func LoadSeconds(dir string, iteration int) ([]Second, error) {
	f, err := os.Open(filepath.Join(dir, SecondsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadSeconds(f, iteration)
}

// maxLine bounds a line of a record file in bytes; they have a few hundred.
const maxLine = 64 << 10

func readLines[T any](r io.Reader, schema string, want func(*T) bool) (records []T, err error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	lines := bufio.NewReaderSize(z, maxLine)
	for n := 1; ; n++ {
		line, err := lines.ReadSlice('\n')
		if err == bufio.ErrBufferFull { // a few bytes can stand for gigabytes
			return records, fmt.Errorf("record file: line %d: longer than %d bytes", n, maxLine)
		}
		if err == io.EOF && len(line) == 0 {
			if n == 1 {
				return nil, fmt.Errorf("%w: no first line", ErrTorn)
			}
			return records, nil
		}
		if err != nil {
			return records, fmt.Errorf("%w behind line %d: %v", ErrTorn, n-1, err)
		}
		if n == 1 {
			var head fileHead
			if err := json.Unmarshal(line, &head); err != nil {
				return nil, fmt.Errorf("record file: line 1: %w", err)
			}
			if err := checkSchema(head.Schema, schema); err != nil {
				return nil, err
			}
			continue
		}
		var rec T
		if err := json.Unmarshal(line, &rec); err != nil {
			return records, fmt.Errorf("record file: line %d: %w", n, err)
		}
		if want(&rec) {
			records = append(records, rec)
		}
	}
}
