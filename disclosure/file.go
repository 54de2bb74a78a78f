package disclosure

import "io"

// Names of the files of a result folder.
const (
	ResultFile  = "result.json"
	SlotsFile   = "slots.ndjson.zst"
	SecondsFile = "seconds.ndjson.zst"
)

// Read reads a document. A schema of another major version is refused; unknown keys are kept out silently.
func Read(r io.Reader) (*Document, error) { return nil, io.ErrUnexpectedEOF }

// Write writes a document, indented, with a line break at the end.
func Write(w io.Writer, d *Document) error { return nil }

// Load reads a document from a result folder or a result.json.
func Load(path string) (*Document, error) { return nil, io.ErrUnexpectedEOF }

// Save writes result.json into the folder dir by way of a temporary file and a rename, so that a reader or a crash
// never meets half a document.
func Save(dir string, d *Document) error { return nil }

// Check returns what is wrong with the shape of a document: missing parts, numbers out of range, references to
// iterations that are not there. It returns nil for a sound document. Partial documents are sound.
func Check(d *Document) []string { return nil }

// JSONSchema returns the JSON Schema (draft 2020-12) of the document.
func JSONSchema() []byte { return nil }

// NewLatency builds a distribution from buckets of values in nanoseconds, low <= value <= high. beyond counts
// values no bucket could hold.
func NewLatency(kind string, buckets func(yield func(low, high, count int64)), beyond uint64) Latency {
	return Latency{Kind: kind}
}

// NewSpread builds the distribution of slot rates given in bit/s. floor and line (bit/s) place the bins.
func NewSpread(rates []float64, floor, line int64) Spread { return Spread{} }

// NewOverview thins one-second records of one iteration to at most points points.
func NewOverview(seconds []Second, requested, points int) *Overview { return &Overview{} }

// AppendSlots adds records to the slots file in dir (which is created as needed); each call adds one complete
// compressed frame, so that a crash loses at most what was being added. AppendSeconds does the same for seconds.
func AppendSlots(dir string, rs []SlotRecord) error { return nil }

// AppendSeconds adds records to the seconds file in dir.
func AppendSeconds(dir string, ss []Second) error { return nil }

// ReadSlots reads the records of a slots file; iteration 0 means all.
func ReadSlots(r io.Reader, iteration int) ([]SlotRecord, error) { return nil, nil }

// ReadSeconds reads the records of a seconds file; iteration 0 means all.
func ReadSeconds(r io.Reader, iteration int) ([]Second, error) { return nil, nil }
