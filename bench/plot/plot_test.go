package plot

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChart(t *testing.T) {
	c := Chart{Title: "Cost <of> a request", X: "connections", Y: "us", Curves: []Curve{
		{"nginx & others", []Point{{10, 20, 19, 22}, {1000, 30, 25, 40}, {18000, 50, 50, 50}}},
		{"tidemark", []Point{{10, 10, 9, 11}, {18000, 49, 48, 52}}},
		{"nothing", nil},
	}}
	b, err := c.SVG()
	if err != nil {
		t.Fatal(err)
	}
	circles, elements := 0, xml.NewDecoder(bytes.NewReader(b))
	for {
		e, err := elements.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, b)
		}
		if s, ok := e.(xml.StartElement); ok && s.Name.Local == "circle" {
			circles++
		}
	}
	if circles != 5 {
		t.Errorf("%d circles", circles)
	}
	for _, want := range []string{"Cost &lt;of&gt; a request", "nginx &amp; others, 10: 20 [19-22]", "tidemark: 10 at 10, 49 at 18k", ">10k<", "prefers-color-scheme: dark"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in\n%s", want, b)
		}
	}
	for _, bad := range []string{"ZgotmplZ", "NaN", "nothing</text>"} {
		if strings.Contains(string(b), bad) {
			t.Errorf("%q in\n%s", bad, b)
		}
	}
	if b, err := (&Chart{Title: "empty"}).SVG(); b != nil || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestWords(t *testing.T) {
	for v, want := range map[float64]string{0.5: "0.5", 20: "20", 999.4: "999", 999.6: "1k", 1500: "1.5k", 18000: "18k", 1e8: "100M", 12.345: "12.3"} {
		if got := words(v); got != want {
			t.Errorf("%g: %q", v, got)
		}
	}
}

func TestApart(t *testing.T) {
	if diff := cmp.Diff([]float64{30, 10, 20, 40}, apart([]float64{12, 11, 11.5, 40}, 10, 10, 40)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{80, 90, 100}, apart([]float64{99, 99, 99}, 10, 0, 100)); diff != "" {
		t.Error(diff)
	}
}

func TestTicks(t *testing.T) {
	if diff := cmp.Diff([]float64{10, 100, 1000, 10000}, around([]float64{10, 18000}, 0, 1).ticks()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{10, 20, 50}, around([]float64{10, 50}, 0, 1).ticks()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{20, 30}, around([]float64{15, 32}, 0, 1).ticks()); diff != "" {
		t.Error(diff)
	}
}
