package kit

import (
	"path/filepath"
	"strings"
	"testing"

	"tidemark.dev/internal/ground/fault"
)

// TestUnknown names what there is.
func TestUnknown(t *testing.T) {
	_, err := Write(t.Context(), "apache", Spec{Root: t.TempDir(), Dir: t.TempDir()})
	if fault.OriginOf(err) != fault.Config || !strings.Contains(err.Error(), "nginx") {
		t.Errorf("%v", err)
	}
}

// TestTidemark writes the embedded server's configuration.
func TestTidemark(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a "dir"`)
	_, err := Write(t.Context(), "tidemark", Spec{Root: dir, Dir: dir})
	if fault.OriginOf(err) != fault.Config {
		t.Errorf("a directory that is not there: %v", err)
	}
	k, err := Write(t.Context(), "tidemark", Spec{Root: dir, Dir: t.TempDir(), Self: "/bin/x", CPUs: []int{1, 3}, Extra: "software = \"one of ours\""})
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Commands) != 1 || len(k.Files) != 1 || k.Scratch != "" || !k.Address.Addr().IsLoopback() {
		t.Errorf("%+v", k)
	}
	for _, line := range []string{`root = ` + quote(dir), `cpus = [1, 3]`, `software = "one of ours"`} {
		if !strings.Contains(k.Files[0].Text, line) {
			t.Errorf("no line %s in:\n%s", line, k.Files[0].Text)
		}
	}
}

// TestWord holds what nginx takes for one word.
func TestWord(t *testing.T) {
	for in, want := range map[string]string{`/a`: `"/a"`, `/my results`: `"/my results"`, `/a";{}`: `"/a\";{}"`, `/a\b`: `"/a\\b"`} {
		if got := word(in); got != want {
			t.Errorf("%s is written %s, want %s", in, got, want)
		}
	}
}
