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
// reason: the driver is not to blame, and neither is the target to get away with it. At 100 connections they are asked
// for 330 operations a second, 1,000 in a window of 3 s and 3,000 in the three windows.

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
	for _, it := range d.Iterations {
		if !it.Valid {
			t.Logf("iteration %d was repeated: %v", it.Number, texts(it.Reasons))
		}
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
	c := bench(t, append([]string{"--target", f.url, "--load", "100", "--window", "3s", "--driver-cpus", "0"}, args...)...)
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

// TestStalls holds back every twentieth answer for 5 s. An operation then takes half a second on average, half of that
// in stalls, so half of the slots wait at any moment; for a pass, at most one in a hundred may be slow.
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

// TestHangs has a server that falls silent between the Reset and the window of the first iteration, which are 1.5 s apart.
// That is its fault and judged as such, although neither a second iteration nor a look at its post log is possible.
func TestHangs(t *testing.T) {
	f := listen(t, serve(t, nil), hanging, nil)
	c := bench(t, "--target", f.url, "--load", "100", "--window", "3s", "--workload", preset(t, `timeout = "30s"`, `timeout = "3s"`))
	c.says("proof: ")
	timer := time.NewTimer(time.Second)
	<-timer.C
	f.armed.Store(true)
	c.end(3)
	d := c.document()
	if d.State != disclosure.Failed || d.Verdict.Word != disclosure.BrokeRules || len(d.Iterations) != 1 {
		t.Errorf("%s, %d iterations: %+v", d.State, len(d.Iterations), d.Verdict)
	}
	because(t, d, "broke_rule", "broke_rules", "target", "post log: GET /web99/command")
	because(t, d, "too_few_conform", "not_passing", "target")
	because(t, d, "run_ended_early", "note", "target", "timeout")
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

// TestWrongBytesUnderLoad spoils one static answer in 5 after the warm-up. One body in 16 is looked at: of 2,100 static
// answers, 420 are wrong. That none of those is looked at has the probability (15/16)^420, less than one in 10^11.
func TestWrongBytesUnderLoad(t *testing.T) {
	f := listen(t, serve(t, nil), corrupting(5), nil)
	d := judged(t, behind(t, f), disclosure.BrokeRules)
	because(t, d, "broke_wrong_bytes", "broke_rules", "target", "answered with the wrong bytes", "static /file_set/dir")
}

// TestResets resets one connection in 50. In the web99 mix one in 50 is no fault: at 2.7 operations a connection 0.75 %
// of the operations fail, and 1 % may. Here every operation has a connection of its own: of 1,000 in a window, 20 fail,
// exactly, and 10 may. Slower machines change all these numbers alike.
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

// TestPosts loses one POST in ten behind a correct answer and passes another in ten on twice: of the 48 in a window,
// five each. Only the comparison of the target's log with what was acknowledged can tell.
func TestPosts(t *testing.T) {
	elsewhere := t.TempDir()
	other := serve(t, func(text string) string {
		return strings.ReplaceAll(text, `use = "web99/`, "dir = \""+elsewhere+"\"\nuse = \"web99/")
	})
	f := listen(t, serve(t, nil), losing(10, other), nil)
	d := judged(t, behind(t, f), disclosure.BrokeRules)
	because(t, d, "posts_missing", "broke_rules", "target", "acknowledged POST records are not in the target's log")
	because(t, d, "posts_doubled", "broke_rules", "target", "in the target's log more than once")
	for _, it := range d.Iterations {
		if p := it.Posts; it.Valid && (p == nil || p.Missing == 0 || p.Missing*20 < p.Acked || p.Doubled*20 < p.Acked || p.Foreign != 0 || it.Failed > 0) {
			t.Errorf("iteration %d: posts %+v, errors %+v", it.Number, p, it.Errors)
		}
	}
}

// TestStaleAds answers custom-ad pages from copies by URL, whoever asks. They are an eighth of all operations, 370 in the
// three windows, and the popular files are asked for again and again: more than a hundred answers are copies. A copy
// shows the right ad to one user in 360.
func TestStaleAds(t *testing.T) {
	f := listen(t, serve(t, nil), caching, nil)
	d := judged(t, behind(t, f), disclosure.BrokeRules)
	because(t, d, "broke_wrong_ad", "broke_rules", "target", "answered with the wrong ad", "cad /file_set/dir")
	if n := f.seen.Load(); n < 100 {
		t.Errorf("the proxy answered %d times from a copy", n)
	}
}
