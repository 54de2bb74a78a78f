package render

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidemark.dev/disclosure"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

var fixtures = []string{"quick", "full", "invalid", "broke", "slow", "partial", "doomed"}

func fixture(t *testing.T, name string) *disclosure.Document {
	t.Helper()
	d, err := disclosure.Load(filepath.Join("../../../disclosure/testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func draw(t *testing.T, f func(io.Writer, *disclosure.Document) error, d *disclosure.Document) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Every sentence and figure a user sees is fixed byte for byte.
func TestGolden(t *testing.T) {
	type drawing struct {
		ext string
		f   func(io.Writer, *disclosure.Document) error
	}
	for _, name := range fixtures {
		d := fixture(t, name)
		drawings := []drawing{{"txt", Text}, {"summary.txt", Summary}}
		if name == "quick" || name == "slow" {
			drawings = append(drawings, drawing{"html", HTML}, drawing{"md", Markdown})
		}
		for _, dr := range drawings {
			file := filepath.Join("testdata", name+"."+dr.ext)
			got := draw(t, dr.f, d)
			if *rewrite {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
				t.Errorf("%s (-rewrite writes it anew):\n%s", file, diff)
			}
		}
	}
}

func TestWriteKnowsItsFormats(t *testing.T) {
	d := fixture(t, "quick")
	for _, format := range Formats() {
		var b bytes.Buffer
		if err := Write(&b, format, d); err != nil || b.Len() < 500 {
			t.Errorf("%s: %d bytes, %v", format, b.Len(), err)
		}
	}
	if err := Write(io.Discard, "pdf", d); err == nil || !strings.Contains(err.Error(), `"pdf"`) {
		t.Errorf("pdf: %v", err)
	}
	back, err := disclosure.Read(bytes.NewReader(draw(t, JSON, d)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, back); diff != "" {
		t.Error(diff)
	}
}

// The text page keeps to 79 columns; only what cannot be broken may be longer.
func TestTextWidth(t *testing.T) {
	for _, name := range fixtures {
		for i, line := range strings.Split(string(draw(t, Text, fixture(t, name))), "\n") {
			if n := len([]rune(line)); n > pageWidth {
				t.Errorf("%s, line %d has %d columns: %s", name, i+1, n, line)
			}
			if strings.HasSuffix(line, " ") {
				t.Errorf("%s, line %d ends in a blank", name, i+1)
			}
		}
	}
}

// The classic order of the published pages.
func TestTextOrder(t *testing.T) {
	text := string(draw(t, Text, fixture(t, "full")))
	last := 0
	for _, part := range []string{"web99 Result", "Example Computers : Model 1U", "1,432 web99", "PERFORMANCE", "Median", "Availability Dates", "Hardware\n", "Software\n",
		"HTTP Software\n", "Test Sponsor", "Network\n", "Clients", "Benchmark Configuration", "4743.36", "Notes/Tuning Information", "SUT Notes", "Operating System Notes",
		"Network Notes", "Test Run Details", "=>", "not a SPEC result"} {
		at := strings.Index(text[last:], part)
		if at < 0 {
			t.Fatalf("%q is missing behind position %d", part, last)
		}
		last += at
	}
}

// The TLS workload says HTTPS where the plain one says HTTP.
func TestTLSLabels(t *testing.T) {
	d := fixture(t, "full")
	d.Run.Workload = "web99-tls"
	text := string(draw(t, Text, d))
	for _, want := range []string{"web99-tls Result", "HTTPS Software"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(text, "   HTTP Software") {
		t.Error("HTTP Software is still there")
	}
}

// The page needs nothing else and runs nothing.
func TestHTMLIsSelfContained(t *testing.T) {
	forbidden := regexp.MustCompile(`(?i)<script|<link|<img|<iframe|@import|url\(|src=|href=|\son[a-z]+=|javascript:`)
	for _, name := range fixtures {
		page := draw(t, HTML, fixture(t, name))
		if m := forbidden.Find(page); m != nil {
			t.Errorf("%s: %q", name, m)
		}
		if n := len(page); n > 200_000 {
			t.Errorf("%s: %d bytes", name, n)
		}
		if strings.Contains(string(page), "ZgotmplZ") || strings.Contains(string(page), "NaN") || strings.Contains(string(page), "Inf") {
			t.Errorf("%s: a value did not come through the template", name)
		}
	}
}

// What users write is shown and never interpreted.
func TestHostileText(t *testing.T) {
	d := fixture(t, "slow")
	evil := `</title></style><script>alert(1)</script>"'&`
	d.Run.Server, d.Run.Title, d.Verdict.Words = evil, evil, evil
	d.Sheet.Hardware.Model, d.Sheet.Notes.Other = evil, []string{evil}
	d.Configuration.Workload.Text = evil
	d.Hosts[0].Facts[0].Text = &evil
	d.Iterations[0].Latency[0].Kind = evil
	d.Verdict.Reasons[0].Effect = evil
	for _, f := range []func(io.Writer, *disclosure.Document) error{HTML, Markdown} {
		if page := string(draw(t, f, d)); strings.Contains(page, "<script") {
			t.Error("a script came through")
		}
	}
}

// Whatever is missing from a document, every format draws it.
func TestSparseDocuments(t *testing.T) {
	docs := []*disclosure.Document{
		{},
		{State: disclosure.Running, Run: disclosure.Run{Workload: "web99"}, Verdict: disclosure.Verdict{Word: disclosure.NoVerdict}},
		{Iterations: []disclosure.Iteration{{Number: 1, Kind: "proof"}}},
		{Search: &disclosure.Search{Steps: []disclosure.Step{{Kind: "trial", Load: 1}, {Kind: "trial", Load: 1}}}},
		{Verdict: disclosure.Verdict{Word: disclosure.Passes, Score: 1, Load: 1, MedianIteration: 9}},
	}
	partial := fixture(t, "quick")
	partial.Iterations[0].Overview, partial.Iterations[0].Latency, partial.Iterations[0].Raw = nil, nil, disclosure.Spread{}
	partial.Search.Steps = partial.Search.Steps[:1]
	partial.Hosts, partial.Configuration.Drivers.Agents = nil, nil
	docs = append(docs, partial)
	for i, d := range docs {
		for _, format := range Formats() {
			if format == "json" {
				continue
			}
			var b bytes.Buffer
			if err := Write(&b, format, d); err != nil {
				t.Errorf("document %d as %s: %v", i, format, err)
			}
			if s := b.String(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") || strings.Contains(s, "%!") {
				t.Errorf("document %d as %s shows %q", i, format, s)
			}
		}
	}
}

// Text and graphics keep the contrast WCAG asks for (4.5 and 3) on every surface, in both schemes and in print.
func TestContrast(t *testing.T) {
	css, err := assets.ReadFile("style.css")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllSubmatch(css, -1)
	if len(blocks) != 3 {
		t.Fatalf("%d colour schemes, want light, dark and print", len(blocks))
	}
	text := []string{"ink", "soft", "good", "bad", "k-static", "k-get", "k-cgi", "k-cad", "k-post"}
	shapes := []string{"good-fill", "bad-fill", "goal", "k-static", "k-get", "k-cgi", "k-cad", "k-post", "faint"}
	for i, block := range blocks {
		colors := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{3,6});`).FindAllSubmatch(block[1], -1) {
			colors[string(m[1])] = luminance(t, string(m[2]))
		}
		check := func(fore, back string, least float64) {
			a, b := colors[fore], colors[back]
			if ratio := (math.Max(a, b) + 0.05) / (math.Min(a, b) + 0.05); ratio < least {
				t.Errorf("scheme %d: --%s on --%s has a contrast of %.2f, want %.1f", i+1, fore, back, ratio, least)
			}
		}
		for _, c := range text {
			check(c, "paper", 4.5)
		}
		for _, back := range []string{"card", "good-soft", "bad-soft", "muted-soft"} {
			check("ink", back, 7)
			check("soft", back, 4.5)
		}
		check("good", "good-soft", 4.5)
		check("bad", "bad-soft", 4.5)
		for _, c := range shapes {
			check(c, "paper", 3)
		}
		check("goal", "card", 3)
		check("faint", "card", 3)
	}
}

func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	if len(hex) == 3 {
		hex = string([]byte{hex[0], hex[0], hex[1], hex[1], hex[2], hex[2]})
	}
	n, err := strconv.ParseUint(hex, 16, 32)
	if err != nil {
		t.Fatal(err)
	}
	part := func(shift uint) float64 {
		c := float64(n>>shift&255) / 255
		if c <= 0.04045 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*part(16) + 0.7152*part(8) + 0.0722*part(0)
}

func TestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo := rapid.Float64Range(0, 1e6).Draw(t, "lo")
		hi := lo + rapid.Float64Range(1e-3, 1e6).Draw(t, "span")
		s := steps(lo, hi, 5)
		if len(s) > 12 {
			t.Fatalf("%d ticks: %v", len(s), s)
		}
		for i, v := range s {
			if v < lo-1e-6*hi || v > hi*(1+1e-6) {
				t.Fatalf("tick %v outside %v..%v", v, lo, hi)
			}
			if i > 0 && v <= s[i-1] {
				t.Fatalf("ticks do not ascend: %v", s)
			}
		}
		if c := ceiling(hi); c < hi*(1-1e-9) || c > 2.6*hi {
			t.Fatalf("ceiling of %v is %v", hi, c)
		}
		if l, h := logFloor(hi), logCeiling(hi); l > hi*(1+1e-9) || h < hi*(1-1e-9) || h/l > 3 {
			t.Fatalf("%v lies in %v..%v", hi, l, h)
		}
	})
}

// TestScalesEnd draws axes over what a document should not hold.
func TestScalesEnd(t *testing.T) {
	odd := []float64{math.Inf(-1), -1e300, -1, 0, 1e-300, 1, 1 << 60, 1<<60 + 1024, math.MaxFloat64, math.Inf(1), math.NaN()}
	for _, lo := range odd {
		for _, hi := range odd {
			if n := len(steps(lo, hi, 5)); n > 7 {
				t.Errorf("%d steps from %g to %g", n, lo, hi)
			}
			if n := len(logTicks(vertical(lo, hi, true))); n > 2000 {
				t.Errorf("%d ticks from %g to %g", n, lo, hi)
			}
		}
	}
}

func TestSpreadOut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ys := rapid.SliceOfN(rapid.Float64Range(0, 200), 1, 8).Draw(t, "ys")
		spreadOut(ys, 12, 0, 200)
		slices.Sort(ys)
		for i, y := range ys {
			if y < -0.1 || y > 200.1 || (i > 0 && y-ys[i-1] < 11.8) {
				t.Fatalf("%v", ys)
			}
		}
	})
}

func TestWords(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{count(0), "0"}, {count(999), "999"}, {count(1000), "1,000"}, {count(-1234567), "-1,234,567"},
		{short(0), "0"}, {short(0.04019), "0.0402"}, {short(0.5), "0.5"}, {short(1.5), "1.5"}, {short(12.34), "12.3"}, {short(123.4), "123"}, {short(999.7), "1,000"}, {short(18488), "18,488"}, {short(1e-7), "1e-07"},
		{bytesWords(102), "102 bytes"}, {bytesWords(71_400_000_000), "71.4 GB"}, {bytesWords(8_324_300_800), "8.32 GB"},
		{duration(5), "5 s"}, {duration(0.5), "0.5 s"}, {duration(90), "90 s"}, {duration(1200), "20 min"}, {duration(1230), "20 min 30 s"}, {duration(7500), "2 h 5 min"}, {duration(7200), "2 h"},
		{megabytes(3342.8), "3342.8"}, {megabytes(4743.36), "4743.36"}, {grouped(15564.2), "15,564.2"}, {grouped(-0.4), "-0.4"},
		{date("2026-11-21T09:30:00Z"), "21 November 2026, 09:30 UTC"}, {date("soon"), "soon"},
		{strings.Join(wrap("a bb ccc dddd", 4), "|"), "a bb|ccc|dddd"},
		{fmt.Sprint(tickWords(1500), tickWords(0.5), tickWords(250_000), tickWords(0)), fmt.Sprint("1,500", "0.5", "250k", "0")},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
