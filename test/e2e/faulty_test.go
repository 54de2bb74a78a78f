//go:build e2e && linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidemark.dev/disclosure"
)

// The servers here are bad on purpose. A run against each must end with exit code 3, judged valid, for the right
// reason: the driver is not to blame, and neither is the target to get away with it. All run at 100 connections,
// which open some 330 operations a second: 1,300 in a window of 4 s and 4,000 in the three windows.

// preset writes the web99 workload with one line changed and returns the file's name.
func preset(t *testing.T, old, new string) string {
	t.Helper()
	text, _ := tidemark(t, 0, "workload", "show", "web99")
	changed := strings.Replace(text, old, new, 1)
	if changed == text {
		t.Fatalf("the workload has no line %q", old)
	}
	name := filepath.Join(t.TempDir(), "changed.toml")
	if err := os.WriteFile(name, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// judged ends a bench that must not pass and checks that its iterations were valid.
func judged(t *testing.T, c *command, word string) *disclosure.Document {
	t.Helper()
	c.end(3)
	d := c.document()
	if d.State != disclosure.Complete || d.Verdict.Word != word || d.Verdict.Score != 0 {
		t.Errorf("%s: %+v", d.State, d.Verdict)
	}
	for _, r := range d.Verdict.Reasons {
		if r.Effect == "invalid" {
			t.Errorf("the instrument is blamed: %s", r.Text)
		}
	}
	return d
}

// behind measures a front, its fault armed when the proofs begin.
func behind(t *testing.T, f *front, args ...string) *command {
	t.Helper()
	c := bench(t, append([]string{"--target", f.url, "--load", "100", "--window", "4s", "--driver-cpus", "0"}, args...)...)
	c.says("proof: ")
	f.armed.Store(true)
	return c
}

// TestSlow limits every connection of nginx to 160 kbit/s, half of the floor. Its largest files take 45 s, so drains
// do not end by themselves; the workload's own timeout, shortened here to spare time, is how long they are given.
func TestSlow(t *testing.T) {
	have(t, "nginx")
	c := bench(t, "--server", "nginx", "--server-config", "limit_rate 20000;", "--load", "200", "--window", "3s",
		"--workload", preset(t, `timeout = "30s"`, `timeout = "3s"`))
	d := judged(t, c, disclosure.DoesNotPass)
	because(t, d, "too_few_conform", "not_passing", "target", "of 200 connections conform")
	for _, it := range d.Iterations {
		if it.Valid && (it.Slow < 100 || it.Erring > 0 || it.KbitPerSlot > 320) {
			t.Errorf("iteration %d: %d slow, %d erring, %.0f kbit/s", it.Number, it.Slow, it.Erring, it.KbitPerSlot)
		}
	}
}

// TestStalls holds back every twentieth answer for 5 s. A window of 4 s has room for some seven operations of a slot
// beside a stall, so about four slots in ten wait at any moment; for a pass, at most one in a hundred may be slow.
func TestStalls(t *testing.T) {
	f := listen(t, serve(t, nil), stalling(20, 5*time.Second), nil)
	d := judged(t, behind(t, f), disclosure.DoesNotPass)
	because(t, d, "too_few_conform", "not_passing", "target", "of 100 connections conform")
	for _, it := range d.Iterations {
		if it.Valid && (it.Slow < 10 || it.Failed > 0) {
			t.Errorf("iteration %d: %d slow, errors %+v", it.Number, it.Slow, it.Errors)
		}
	}
}

// TestWrongBytesInTheWarmUp spoils one static answer in 500. The warm-up fetches 720 files and looks at every byte, so
// it meets at least one of them; no load is needed to tell.
func TestWrongBytesInTheWarmUp(t *testing.T) {
	f := listen(t, serve(t, nil), corrupting(500), nil)
	f.armed.Store(true)
	c := bench(t, "--target", f.url, "--load", "100", "--window", "4s")
	d := judged(t, c, disclosure.BrokeRules)
	because(t, d, "broke_wrong_bytes", "broke_rules", "target", "warm-up: ", "static /file_set/dir", "of the file is wrong")
	if len(d.Iterations) > 0 {
		t.Errorf("%d iterations", len(d.Iterations))
	}
}

// TestWrongBytesUnderLoad spoils one static answer in 10 after the warm-up. One body in 16 is looked at: of 2,800
// static answers, 280 are wrong and 17 of those looked at. That none of them is has the probability (15/16)^280, one
// in 70 million.
func TestWrongBytesUnderLoad(t *testing.T) {
	f := listen(t, serve(t, nil), corrupting(10), nil)
	d := judged(t, behind(t, f), disclosure.BrokeRules)
	because(t, d, "broke_wrong_bytes", "broke_rules", "target", "answered with the wrong bytes", "static /file_set/dir")
}

// TestResets resets one connection in 50. In the web99 mix one in 50 is no fault: at 2.7 operations a connection 0.75 %
// of the operations fail, and 1 % may. Here every operation has a connection of its own: of 1,300 in a window, 26 fail,
// exactly, and 13 may. Slower machines change both numbers alike.
func TestResets(t *testing.T) {
	f := listen(t, serve(t, nil), nil, resetting(50))
	c := behind(t, f, "--workload", preset(t, "keepalive_share = 0.7", "keepalive_share = 0.0"))
	d := judged(t, c, disclosure.DoesNotPass)
	because(t, d, "too_many_errors", "not_passing", "target", "operations failed (")
	for _, it := range d.Iterations {
		if !it.Valid {
			continue
		}
		if len(it.Errors) != 1 || it.Errors[0].Class != "reset" || it.Errors[0].Origin != "target" || it.Errors[0].Count == 0 {
			t.Errorf("iteration %d: %+v", it.Number, it.Errors)
		}
	}
}

// TestLostPosts loses one POST in ten behind a correct answer: 6 of the 60 in a window. None is seen to be lost but
// by comparing the target's log with what was acknowledged.
func TestLostPosts(t *testing.T) {
	elsewhere := t.TempDir()
	other := serve(t, func(text string) string {
		return strings.ReplaceAll(text, `use = "web99/`, "dir = \""+elsewhere+"\"\nuse = \"web99/")
	})
	f := listen(t, serve(t, nil), losing(10, other), nil)
	d := judged(t, behind(t, f), disclosure.BrokeRules)
	because(t, d, "posts_missing", "broke_rules", "target", "acknowledged POST records are not in the target's log")
	for _, it := range d.Iterations {
		if p := it.Posts; it.Valid && (p == nil || p.Missing == 0 || p.Missing*20 < p.Acked || p.Doubled != 0 || p.Foreign != 0 || it.Failed > 0) {
			t.Errorf("iteration %d: posts %+v, errors %+v", it.Number, p, it.Errors)
		}
	}
}

// TestDoubledPosts passes one POST in ten on twice.
func TestDoubledPosts(t *testing.T) {
	f := listen(t, serve(t, nil), doubling(10), nil)
	d := judged(t, behind(t, f), disclosure.BrokeRules)
	because(t, d, "posts_doubled", "broke_rules", "target", "in the target's log more than once")
}

// TestStaleAds answers the 170 custom-ad pages of a window from copies by URL, whoever asks. Of 720 files 180 are asked
// for so often (popularity falls with the rank) that some 100 answers are a copy, and a copy shows the right ad to one
// user in 360. That none of them is wrong does not happen.
func TestStaleAds(t *testing.T) {
	f := listen(t, serve(t, nil), caching, nil)
	d := judged(t, behind(t, f), disclosure.BrokeRules)
	because(t, d, "broke_wrong_ad", "broke_rules", "target", "answered with the wrong ad", "cad /file_set/dir")
	if f.seen.Load() == 0 {
		t.Error("the proxy never answered from a copy")
	}
}
