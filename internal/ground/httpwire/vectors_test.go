package httpwire

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// text is a string of a vector: one byte per code point, or a list of parts.
type text []byte

func (t *text) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = nil
		return nil
	}
	if b[0] == '[' {
		var parts []json.RawMessage
		if err := json.Unmarshal(b, &parts); err != nil {
			return err
		}
		*t = text{}
		for _, p := range parts {
			var repeat struct {
				Repeat text
				Times  int
			}
			repeat.Times = 1
			into := any(&repeat.Repeat)
			if p[0] == '{' {
				into = &repeat
			}
			if err := json.Unmarshal(p, into); err != nil {
				return err
			}
			*t = append(*t, bytes.Repeat(repeat.Repeat, repeat.Times)...)
		}
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*t = text{}
	for _, r := range s {
		*t = append(*t, byte(r))
	}
	return nil
}

type vector struct {
	Name string
	In   text
	Size int64 // range.json
	Want map[string]json.RawMessage
}

func vectors(t testing.TB, file string) []vector {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../test/vectors/http", file))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Vectors []vector }
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&doc); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(doc.Vectors) < 40 {
		t.Fatalf("%s: only %d vectors", file, len(doc.Vectors))
	}
	return doc.Vectors
}

// wants reads a property into p and reports whether it is listed.
func (v *vector) wants(t testing.TB, key string, p any) bool {
	t.Helper()
	raw, listed := v.Want[key]
	if !listed {
		return false
	}
	delete(v.Want, key)
	if err := json.Unmarshal(raw, p); err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return true
}

// expect compares a property with what was got.
func expect[T comparable](t testing.TB, v *vector, key string, got T) {
	t.Helper()
	var want T
	if v.wants(t, key, &want) && want != got {
		t.Errorf("%s: got %v, want %v", key, got, want)
	}
}

// expectText compares a text; nil stands for absent.
func expectText(t testing.TB, v *vector, key string, got []byte) {
	t.Helper()
	var want text
	if v.wants(t, key, &want) && (!bytes.Equal(want, got) || (want == nil) != (got == nil)) {
		t.Errorf("%s: got %q, want %q", key, got, want)
	}
}

func expectFields(t testing.TB, v *vector, got []Field) {
	t.Helper()
	var want [][2]text
	if !v.wants(t, "fields", &want) {
		return
	}
	if len(want) != len(got) {
		t.Fatalf("fields: got %d, want %d", len(got), len(want))
	}
	for i, w := range want {
		if !bytes.Equal(w[0], got[i].Name) || !bytes.Equal(w[1], got[i].Value) {
			t.Errorf("field %d: got %q, want %q", i, got[i], w)
		}
	}
}

// finish fails on properties that nothing looked at.
func (v *vector) finish(t testing.TB) {
	t.Helper()
	for key := range v.Want {
		t.Errorf("unknown property %q", key)
	}
}

// lengths returns the lengths at which to cut an input of n bytes: all of them,
// or a sample that holds both ends.
func lengths(n int) (cuts []int) {
	step := 1 + n/2000
	for i := 0; i < n; i++ {
		if i%step == 0 || i < 100 || i > n-100 {
			cuts = append(cuts, i)
		}
	}
	return cuts
}
