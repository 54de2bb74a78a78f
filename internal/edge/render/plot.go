package render

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A plot is geometry in the coordinates of its view box, ready for the template: no script runs in the page. Classes
// carry colour, so that both colour schemes and print come from the style sheet.
type plot struct {
	ID, Title, Note, Desc string
	W, H                  float64
	X, Y                  axis
	Bands                 []rect
	Bars                  []rect
	Lines                 []polyline
	Rules                 []ruleLine
	Marks                 []mark
	Texts                 []label
	Legend                []legend
}

type axis struct {
	Title string
	Ticks []tick
}

type tick struct {
	Pos   float64
	Label string
}

type rect struct {
	X, Y, W, H float64
	Class      string
	Title      string
}

type polyline struct{ Points, Class string }

type ruleLine struct {
	X1, Y1, X2, Y2 float64
	Class          string
}

// mark is a symbol at a point; Shape is "dot", "cross", "box" or "ring".
type mark struct {
	X, Y  float64
	Shape string
	Class string
	Title string
}

type label struct {
	X, Y   float64
	Text   string
	Anchor string // "start", "middle", "end"
	Class  string
}

type legend struct{ Class, Text string }

// Frame of every plot: the view box and the margins left for ticks and titles.
const (
	plotW, plotH             = 440, 280
	plotLeft, plotRight      = 52, 14
	plotTop, plotBottom      = 28, 42
	plotInnerW, plotInnerH   = plotW - plotLeft - plotRight, plotH - plotTop - plotBottom
	plotInnerX2, plotInnerY2 = plotW - plotRight, plotH - plotBottom
)

func newPlot(id, title string) *plot { return &plot{ID: id, Title: title, W: plotW, H: plotH} }

// scale maps values to positions, linearly or by their logarithm.
type scale struct {
	lo, hi   float64
	from, to float64
	log      bool
}

func (s scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		v, lo, hi = math.Log10(math.Max(v, s.lo)), math.Log10(s.lo), math.Log10(s.hi)
	}
	if hi == lo {
		return s.from
	}
	return r1(s.from + (s.to-s.from)*(v-lo)/(hi-lo))
}

// r1 keeps a tenth of a unit, which is less than a pixel.
func r1(v float64) float64 { return math.Round(v*10) / 10 }

// vertical is the scale of a y axis: lo at the bottom, hi at the top. What has no logarithm does not get one: a document
// may hold anything.
func vertical(lo, hi float64, log bool) scale {
	if log && !(lo > 0) {
		lo = 1
	}
	if log && !(hi > lo) {
		hi = 10 * lo
	}
	return scale{lo: lo, hi: hi, from: plotInnerY2, to: plotTop, log: log}
}

// steps returns round numbers (1, 2 or 5 times a power of ten) from lo to hi, at most about n of them.
func steps(lo, hi float64, n int) []float64 {
	if !(hi > lo) || n < 1 || math.IsInf(hi-lo, 0) {
		return []float64{lo}
	}
	raw := (hi - lo) / float64(n)
	power := math.Pow10(int(math.Floor(math.Log10(raw))))
	step := power * 10
	for _, m := range []float64{1, 2, 5} {
		if m*power >= raw*0.999 {
			step = m * power
			break
		}
	}
	var out []float64
	first := math.Ceil(lo/step - 1e-9)
	for i := range n + 2 { // counted, for beyond 2^53 one more is no more
		v := (first + float64(i)) * step
		if v > hi*(1+1e-9) {
			break
		}
		out = append(out, v)
	}
	return out
}

// ceiling is the round number at or above v that an axis may end with.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	s := steps(0, v, 4)
	step := v
	if len(s) > 1 {
		step = s[1] - s[0]
	}
	return math.Ceil(v/step-1e-9) * step
}

func linearTicks(s scale, n int) (out []tick) {
	for _, v := range steps(s.lo, s.hi, n) {
		out = append(out, tick{s.at(v), tickWords(v)})
	}
	return out
}

// logTicks returns the decades, with 2 and 5 between them where there are few.
func logTicks(s scale) (out []tick) {
	decades := math.Log10(s.hi / s.lo)
	if math.IsInf(decades, 0) || math.IsNaN(decades) {
		return nil
	}
	for d := math.Floor(math.Log10(s.lo)); d <= math.Ceil(math.Log10(s.hi)); d++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow(10, d)
			if v < s.lo*0.999 || v > s.hi*1.001 || (m > 1 && decades > 3) || (m == 2 && decades > 2) {
				continue
			}
			out = append(out, tick{s.at(v), tickWords(v)})
		}
	}
	return out
}

// tickWords writes a tick without noise: 0.5, 20, 1,500, 12k.
func tickWords(v float64) string {
	switch {
	case v >= 100_000:
		return trim(fixed(v/1000, 1)) + "k"
	case v >= 1000:
		return count(int64(math.Round(v)))
	}
	return trim(fixed(v+0, 4)) // + 0 takes the sign from -0
}

// points joins coordinates for a polyline.
type points struct{ b strings.Builder }

func (p *points) add(x, y float64) {
	if p.b.Len() > 0 {
		p.b.WriteByte(' ')
	}
	fmt.Fprintf(&p.b, "%s,%s", num(x), num(y))
}

func (p *points) String() string { return p.b.String() }

// num writes a coordinate.
func num(v float64) string { return strconv.FormatFloat(r1(v), 'f', -1, 64) }

// spreadOut moves labels apart vertically so that they keep a distance, within lo and hi, changing order never.
func spreadOut(ys []float64, distance, lo, hi float64) {
	order := make([]int, len(ys))
	for i := range order {
		order[i] = i
	}
	for i := range order { // insertion sort: a handful of labels
		for j := i; j > 0 && ys[order[j]] < ys[order[j-1]]; j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}
	for k, i := range order {
		least := lo
		if k > 0 {
			least = ys[order[k-1]] + distance
		}
		ys[i] = math.Max(ys[i], least)
	}
	for k := len(order) - 1; k >= 0; k-- {
		most := hi
		if k < len(order)-1 {
			most = ys[order[k+1]] - distance
		}
		ys[order[k]] = r1(math.Min(ys[order[k]], most))
	}
}
