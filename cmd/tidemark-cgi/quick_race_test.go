//go:build race && linux && amd64

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestQuickLeavesCAlone: with the race detector the program has C in it, which is there before its entry. Only
// under that detector itself, for what it builds is at hand then.
func TestQuickLeavesCAlone(t *testing.T) {
	program := filepath.Join(t.TempDir(), "quick")
	if out, err := exec.Command("go", "build", "-race", "-ldflags=-E=tidemark.dev/pages/quick.start", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, code, started := ran(t, program, request(tree(t)), nil)
	if code != 0 || !started || !strings.HasSuffix(out, "</html>\n") {
		t.Errorf("exit %d, the runtime started: %v, %.300q", code, started, out)
	}
}
