package disclosure

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A process killed at any moment while it saves leaves a whole document behind.
func TestKilledWhileSaving(t *testing.T) {
	if dir := os.Getenv("DISCLOSURE_SAVE_IN"); dir != "" { // the child: save until killed
		d := fixture(t, "partial")
		for {
			if err := Save(dir, d); err != nil {
				t.Fatal(err)
			}
			if err := AppendSlots(dir, []SlotRecord{{Iteration: 1, Slot: 1}}); err != nil {
				t.Fatal(err)
			}
			os.Stdout.WriteString("saved\n")
		}
	}
	for round := range 8 {
		dir := filepath.Join(t.TempDir(), "result")
		child := exec.Command(os.Args[0], "-test.run=^TestKilledWhileSaving$")
		child.Env = append(os.Environ(), "DISCLOSURE_SAVE_IN="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range round + 1 { // a later moment each time
			if !lines.Scan() {
				break
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		child.Wait() // killed: its error says so and nothing else
		d, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if faults := Check(d); faults != nil || !d.Partial() {
			t.Errorf("partial %v, %q", d.Partial(), faults)
		}
		if rs, err := LoadSlots(dir, 0); len(rs) == 0 {
			t.Errorf("%d records, %v", len(rs), err)
		}
	}
}
