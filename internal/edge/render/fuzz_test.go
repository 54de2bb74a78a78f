package render

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"tidemark.dev/disclosure"
)

// FuzzDocument reads whatever calls itself a result. What is read must be judged, drawn and written without a panic,
// and what was written must be read again as the same.
func FuzzDocument(f *testing.F) {
	files, err := filepath.Glob("../../../disclosure/testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no documents to begin with: ", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"schema":"` + disclosure.Schema + `"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := disclosure.Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		disclosure.Check(d)
		for _, format := range Formats() {
			if err := Write(io.Discard, format, d); err != nil && format == "json" {
				t.Fatal(err)
			}
		}
		var once, twice bytes.Buffer
		if err := disclosure.Write(&once, d); err != nil {
			t.Fatal(err)
		}
		again, err := disclosure.Read(bytes.NewReader(once.Bytes()))
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if err := disclosure.Write(&twice, again); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once.Bytes(), twice.Bytes()) {
			t.Error("what was written changes when it is read and written again")
		}
	})
}
