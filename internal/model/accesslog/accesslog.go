// Package accesslog turns log records into the text forms everybody reads, and back.
package accesslog

import (
	"time"

	"tidemark.dev/internal/ground/binlog"
)

// AppendCLF appends r in the Common Log Format, without a line end.
func AppendCLF(b []byte, r *binlog.Record, utcOffset time.Duration) []byte { return b }

// AppendCombined appends r in the combined format, without a line end.
func AppendCombined(b []byte, r *binlog.Record, utcOffset time.Duration) []byte { return b }

// Parse reads one line in either format.
func Parse(line []byte, r *binlog.Record) error { return nil }
