package kit

import (
	"errors"
	"io"
	"os"

	"tidemark.dev/internal/ground/binlog"
	"tidemark.dev/internal/ground/fault"
)

// totalBinary totals a binary access log.
func totalBinary(path string) (ops, n int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, fault.Wrap(fault.Target, err, "access log")
	}
	defer f.Close()
	r := binlog.NewReader(f)
	var rec binlog.Record
	for {
		switch err := r.Next(&rec); {
		case errors.Is(err, io.EOF):
			return ops, n, nil
		case err != nil:
			return ops, n, fault.Wrap(fault.Target, err, "access log "+path)
		}
		ops++
		n += rec.Bytes
	}
}
