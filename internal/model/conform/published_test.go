package conform

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"
)

type publishedRow struct {
	Conforming  int    `json:"conforming"`
	Percent     string `json:"percent"`
	OpsPerSec   string `json:"ops_per_second"`
	ResponseMS  string `json:"response_ms"`
	OpsPerSlot  string `json:"ops_per_slot"`
	KbitPerSlot string `json:"kbit_per_slot"`
}

type publishedPage struct {
	Name      string         `json:"name"`
	Requested int            `json:"requested"`
	Score     int            `json:"score"`
	Median    int            `json:"median_iteration"`
	Rows      []publishedRow `json:"iterations"`
}

func published(t *testing.T) []publishedPage {
	t.Helper()
	b, err := os.ReadFile("testdata/published.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Pages []publishedPage }
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	return file.Pages
}

// rebuild makes slot records a system with the row's measured figures would have left: so many conforming slots,
// operations, time and bits in all. What the row derives (percent, per slot) is not used.
func rebuild(t *testing.T, requested int, row publishedRow) *Iteration {
	t.Helper()
	const window = 1200 * time.Second
	num := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	it := sound(requested, window)
	ops := int(math.Round(num(row.OpsPerSec) * window.Seconds()))
	bits := int64(math.Round(num(row.KbitPerSlot) * 1000 * float64(requested) * window.Seconds()))
	response := time.Duration(num(row.ResponseMS) * float64(time.Millisecond) * float64(ops))
	slowBits := int64(0.99 * 320_000 * window.Seconds())
	slow := requested - row.Conforming
	fastBits := (bits - int64(slow)*slowBits) / int64(row.Conforming)
	for i := range it.Records {
		r := &it.Records[i]
		r.Ops = uint32(ops*(i+1)/requested - ops*i/requested)
		r.Begun = r.Ops
		r.Response = response / time.Duration(requested)
		r.CreditedBits = fastBits
		if i < slow {
			r.CreditedBits = slowBits
		}
	}
	return it
}

// The definitions of the columns reproduce all fifteen published rows, and the scores and marked rows of the pages.
func TestPublishedRows(t *testing.T) {
	rows := 0
	for _, page := range published(t) {
		t.Run(page.Name, func(t *testing.T) {
			var js []Judgement
			for i, row := range page.Rows {
				j := Judge(DefaultRule(), rebuild(t, page.Requested, row))
				if !j.Valid || !j.Passing {
					t.Errorf("iteration %d: valid %v, passing %v: %v", i+1, j.Valid, j.Passing, j.Reasons)
				}
				if !j.Raw {
					t.Errorf("iteration %d: judged by the adjusted rate", i+1)
				}
				got := publishedRow{
					Conforming: j.Conforming, Percent: fmt.Sprintf("%.1f", j.Percent),
					OpsPerSec: fmt.Sprintf("%.1f", j.OpsPerSec), ResponseMS: fmt.Sprintf("%.1f", j.ResponseMS),
					OpsPerSlot: fmt.Sprintf("%.2f", j.OpsPerSlot), KbitPerSlot: fmt.Sprintf("%.1f", j.KbitPerSlot),
				}
				if got != row {
					t.Errorf("iteration %d:\n got %+v\nwant %+v", i+1, got, row)
				}
				// No think time: operations fill the slots (Little's law), within 0.4 % in every row.
				if fill := j.OpsPerSec * j.ResponseMS / 1000 / float64(page.Requested); math.Abs(fill-1) > 0.004 {
					t.Errorf("iteration %d: operations fill %.4f of the slots", i+1, fill)
				}
				js = append(js, j)
				rows++
			}
			s := Summarize(Setting{Full: true, MTU: 1500}, js)
			if s.Score != page.Score || s.Median != page.Median-1 || s.Load != page.Requested {
				t.Errorf("score %d of iteration %d at %d, want %d of %d at %d",
					s.Score, s.Median+1, s.Load, page.Score, page.Median, page.Requested)
			}
			if !s.Passing || !s.Comparable || s.ExitCode != ExitPasses {
				t.Errorf("passing %v, comparable %v, exit %d: %v", s.Passing, s.Comparable, s.ExitCode, s.Reasons)
			}
		})
	}
	if rows != 15 {
		t.Errorf("%d rows checked, want 15", rows)
	}
}
