package lint

import (
	"os"
	"testing"
)

// TestTheTreeKeepsTheRules is the lint itself.
func TestTheTreeKeepsTheRules(t *testing.T) {
	tree, err := Load(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Packages) < 10 {
		t.Fatalf("only %d packages: this is not the whole tree", len(tree.Packages))
	}
	for _, f := range Check(tree, Rules(), Exceptions()) {
		t.Error(f)
	}
}
