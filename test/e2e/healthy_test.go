//go:build e2e && linux

package e2e

import (
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidemark.dev/disclosure"
)

// TestEmbedded measures the embedded server at a load it carries with ease. A late driver makes an iteration
// invalid; the program repeats that one itself, and the verdict still has to be: passes.
func TestEmbedded(t *testing.T) {
	c := bench(t, "--load", "200", "--window", "3s")
	c.end(0)
	d := c.document()
	passes(t, d, 200)

	log := filepath.Join(c.out, "server", "access.tml")
	printed, _ := tidemark(t, 0, "log", "cat", log)
	if d.Log == nil || d.Log.Path != log {
		t.Fatalf("access log of the document: %+v", d.Log)
	}
	if n := int64(strings.Count(printed, "\n")); n != d.Log.LogOps {
		t.Errorf("log cat prints %d lines, the log holds %d operations", n, d.Log.LogOps)
	}
	for _, name := range []string{
		"result.json", "report.html", "report.txt", disclosure.SlotsFile, disclosure.SecondsFile, "server/server.toml", "driver-1.log",
	} {
		if st, err := os.Stat(filepath.Join(c.out, name)); err != nil || st.Size() == 0 && !strings.HasSuffix(name, ".log") {
			t.Errorf("%s: %v, or empty", name, err)
		}
	}
	if !strings.HasPrefix(c.stdout.String(), "web99 200: passes") || !strings.Contains(c.stdout.String(), c.out) {
		t.Errorf("the summary names no verdict or no folder:\n%s", c.stdout.String())
	}
	tampered(t, c)
	drawn(t, c)
}

// TestNginx measures nginx by the same path.
func TestNginx(t *testing.T) {
	have(t, "nginx")
	c := bench(t, "--server", "nginx", "--load", "200", "--window", "3s")
	c.end(0)
	d := c.document()
	passes(t, d, 200)
	if !strings.HasPrefix(d.Configuration.Target.Version, "nginx version: ") || len(d.Configuration.Target.Files) != 2 {
		t.Errorf("target %q with %d configuration files", d.Configuration.Target.Version, len(d.Configuration.Target.Files))
	}
}

// passes checks a document of a run that passed.
func passes(t *testing.T, d *disclosure.Document, load int) {
	t.Helper()
	for _, a := range d.Configuration.Drivers.Agents {
		if a.Backend != wanted() {
			t.Errorf("agent %s runs on %q, want %s", a.Name, a.Backend, wanted())
		}
	}
	if d.State != disclosure.Complete || d.Verdict.Word != disclosure.Passes || d.Verdict.Load != load || d.Verdict.Score < load*99/100 {
		t.Errorf("%s: %+v", d.State, d.Verdict)
	}
	scored := 0
	for _, it := range d.Iterations {
		if !it.Valid {
			continue // a late driver, on record
		}
		if math.Abs(it.Identity) > 0.1 {
			t.Errorf("iteration %d: operations miss requested x window by %.3f %%", it.Number, it.Identity)
		}
		if it.Scored {
			scored++
		}
		if !it.Passing || it.Failed != 0 || it.Requested != load || len(it.Errors) != 0 {
			t.Errorf("iteration %d: passing %v, %d failed, %d requested, %+v, %v", it.Number, it.Passing, it.Failed, it.Requested, it.Errors, texts(it.Reasons))
		}
		// 3 s of 200 slots at 3.3 operations/s, 4.8 % of them POSTs: 95 are due.
		p := it.Posts
		if p == nil || p.Acked < 20 || p.Found != p.Acked || p.Missing != 0 || p.Doubled != 0 || p.Foreign != 0 {
			t.Errorf("iteration %d: posts %+v", it.Number, p)
		}
		if it.Traffic.VerifiedOps == 0 || it.Traffic.Connects == 0 || it.Audit.WorstLate == 0 || len(it.CPU) != 2 {
			t.Errorf("iteration %d: traffic %+v, audit %+v, processor time %+v", it.Number, it.Traffic, it.Audit, it.CPU)
		}
		for _, p := range it.Audit.Plan {
			if p.Issued != p.Planned {
				t.Errorf("iteration %d: %+v", it.Number, p)
			}
		}
	}
	if scored != 3 {
		t.Errorf("%d iterations scored", scored)
	}
	// To the operation and to the byte: the server's own log, and what came out of the drivers' sockets.
	l := d.Log
	if l == nil || !l.Agree || l.LogOps != l.DriverOps || l.LogBytes != l.DriverBytes || l.LogOps < int64(load) {
		t.Errorf("access log and drivers: %+v", l)
	}
}

// tampered changes a figure of the document: report check must notice.
func tampered(t *testing.T, c *command) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(c.out)); err != nil {
		t.Fatal(err)
	}
	d, err := disclosure.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	d.Iterations[0].Conforming--
	if err := disclosure.Save(dir, d); err != nil {
		t.Fatal(err)
	}
	said, _ := tidemark(t, 3, "report", "check", dir)
	if !strings.Contains(said, "conforming_connections") {
		t.Errorf("report check of a changed document says %q", said)
	}

	// As a run leaves it that is killed while it writes its records: the last one is torn.
	if err := os.CopyFS(dir+"-torn", os.DirFS(c.out)); err != nil {
		t.Fatal(err)
	}
	dir += "-torn"
	slots := filepath.Join(dir, disclosure.SlotsFile)
	if st, err := os.Stat(slots); err != nil || os.Truncate(slots, st.Size()-5) != nil {
		t.Fatal(err)
	}
	if said, _ = tidemark(t, 3, "report", "check", dir); !strings.Contains(said, "torn") {
		t.Errorf("report check of torn records says %q", said)
	}
	if d, err = disclosure.Load(dir); err != nil {
		t.Fatal(err)
	}
	d.State, d.Verdict, d.Log = disclosure.Running, disclosure.Verdict{Word: disclosure.NoVerdict, Words: "killed"}, nil
	d.Iterations = d.Iterations[:len(d.Iterations)-1]
	d.Search.Steps = d.Search.Steps[:len(d.Search.Steps)-1]
	for i := range d.Iterations {
		d.Iterations[i].Scored = false
	}
	if err := disclosure.Save(dir, d); err != nil {
		t.Fatal(err)
	}
	if said, _ = tidemark(t, 0, "report", "check", dir); !strings.Contains(said, "torn") || !strings.Contains(said, "every verdict holds") {
		t.Errorf("report check of what is whole beside a torn record says %q", said)
	}
}

// drawn opens the report in a browser.
func drawn(t *testing.T, c *command) {
	t.Run("browser", func(t *testing.T) {
		chromium := have(t, "chromium")
		cmd := exec.Command(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+t.TempDir(),
			"--virtual-time-budget=2000", "--dump-dom", (&url.URL{Scheme: "file", Path: filepath.Join(c.out, "report.html")}).String())
		b, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range []string{"<svg", "200", "passes"} {
			if !strings.Contains(strings.ToLower(string(b)), words) {
				t.Errorf("the page as drawn has no %q", words)
			}
		}
	})
}
