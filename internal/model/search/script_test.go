package search

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts produce back into testdata")

// Scripts stand in testdata/*.txt as blocks of
//
//	# comment
//	key=value ...            options, and capacity=N for a server that carries N
//	verdict verdict ...      pass, fail, invalid, limit, hopeless; pass:198 sets the conforming count, pass@60 the processors'
//	                         busy share in percent; "." asks the server
//	----
//	steps and answer
//
// separated by blank lines. Verdicts used up, the server answers, or without one the script ends.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, block := range strings.Split(strings.TrimSpace(string(src)), "\n\n") {
				in, want, found := strings.Cut(block, "\n----\n")
				in = strings.TrimSuffix(in, "\n----")
				got := play(t, in)
				if !*rewrite && (!found || got != want) {
					t.Errorf("%s\n%s", in, cmp.Diff(want, got))
				}
				out = append(out, in+"\n----\n"+got)
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(strings.Join(out, "\n\n")+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func play(t *testing.T, in string) string {
	t.Helper()
	var opt Options
	var verdicts []string
	capacity := 0
	optionsRead := false
	for line := range strings.Lines(in) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case !optionsRead:
			optionsRead = true
			capacity = parseOptions(t, line, &opt)
		default:
			verdicts = append(verdicts, strings.Fields(line)...)
		}
	}
	s := New(opt)
	var b strings.Builder
	for i := 0; ; i++ {
		step := s.Next()
		if step.Kind == Done {
			break
		}
		if i > 200 {
			t.Fatalf("no end:\n%s", b.String())
		}
		word := "."
		if i < len(verdicts) {
			word = verdicts[i]
		} else if capacity == 0 {
			break
		}
		if word == "." {
			word = "pass"
			if step.Load > capacity {
				word = "fail"
			}
		}
		attempt := ""
		if step.Attempt > 1 {
			attempt = fmt.Sprintf(" attempt %d", step.Attempt)
		}
		fmt.Fprintf(&b, "%s %d%s (%s): %s\n", step.Kind, step.Load, attempt, step.Why, word)
		s.Add(outcome(t, step.Load, word))
	}
	r := s.Result()
	fmt.Fprintf(&b, "%s %d: %s", r.Answer, r.Load, r.Why)
	if r.Invalid {
		b.WriteString("\ninvalid")
	}
	for _, f := range r.Flags {
		b.WriteString("\nflag: " + f)
	}
	return b.String()
}

func parseOptions(t *testing.T, line string, opt *Options) (capacity int) {
	t.Helper()
	for _, word := range strings.Fields(line) {
		key, value, _ := strings.Cut(word, "=")
		if key == "width" {
			w, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			opt.Width = w
			continue
		}
		if key == "max-is-driver" {
			opt.MaxIsDriver = true
			continue
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatalf("%q: %v", word, err)
		}
		field := map[string]*int{
			"first": &opt.FirstGuess, "min": &opt.Min, "max": &opt.Max, "fixed": &opt.Fixed, "trials": &opt.MaxTrials,
			"proofs": &opt.Proofs, "resumes": &opt.Resumes, "repeats": &opt.Repeats, "capacity": &capacity,
		}[key]
		if field == nil {
			t.Fatalf("unknown option %q", key)
		}
		*field = n
	}
	return capacity
}

func outcome(t *testing.T, load int, word string) Outcome {
	t.Helper()
	word, percent, _ := strings.Cut(word, "@")
	name, count, has := strings.Cut(word, ":")
	o := Outcome{Load: load, Conforming: load}
	if percent != "" {
		n, err := strconv.Atoi(percent)
		if err != nil {
			t.Fatal(err)
		}
		o.Busy = float64(n) / 100
	}
	if has {
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(err)
		}
		o.Conforming = n
	}
	switch name {
	case "pass":
		return o
	case "fail":
		o.Verdict, o.Why = Fail, "too few conform"
	case "hopeless":
		o.Verdict, o.Why, o.Hopeless = Fail, "wrong bytes", true
	case "invalid":
		o.Verdict, o.Why = Invalid, "driver late"
	case "limit":
		o.Verdict, o.Why = DriverLimit, "out of ports"
	default:
		t.Fatalf("unknown verdict %q", word)
	}
	return o
}
