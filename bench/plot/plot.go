// Package plot draws curves as SVG that stands alone: light and dark after the reader's
// choice, no script, no fonts to load.
//
// Fill a [Chart] and call [Chart.SVG]. Both axes are logarithmic, as everything that is
// drawn here spans decades; the package draws nothing else.
package plot

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// Chart is some curves over one another.
type Chart struct {
	Title, X, Y string // with units
	Curves      []Curve
}

// Curve is one line. A chart has at most six.
type Curve struct {
	Name   string
	Points []Point
}

// Point is a median with its range, all above 0.
type Point struct{ X, Y, Low, High float64 }

// Frame of a chart: the view box, and the margins left for ticks and titles.
const (
	width, height = 720, 400
	left, right   = 64, 150
	top, bottom   = 48, 52
	innerRight    = width - right
	innerBottom   = height - bottom
	distance      = 17 // of names
	colours       = 6
)

//go:embed chart.svg
var source string

// SVG draws the chart. Without a point there is nothing to draw, and nil.
func (c *Chart) SVG() ([]byte, error) {
	xs, ys := c.extent()
	if len(xs) == 0 {
		return nil, nil
	}
	x, y := around(xs, left, innerRight), around(ys, innerBottom, top)
	v := view{Chart: c, W: width, H: height, Left: left, Right: innerRight, Top: top, Bottom: innerBottom}
	v.Desc = c.describe()
	for _, t := range x.ticks() {
		v.XTicks = append(v.XTicks, tick{x.at(t), words(t)})
	}
	for _, t := range y.ticks() {
		v.YTicks = append(v.YTicks, tick{y.at(t), words(t)})
	}
	var ends []float64
	for i, curve := range c.Curves {
		l := line{Name: curve.Name, Class: "c" + strconv.Itoa(i%colours)}
		var path []string
		for _, p := range curve.Points {
			m := mark{X: x.at(p.X), Y: y.at(p.Y), Low: y.at(p.Low), High: y.at(p.High)}
			m.Title = fmt.Sprintf("%s, %s: %s [%s-%s]", curve.Name, words(p.X), words(p.Y), words(p.Low), words(p.High))
			l.Marks = append(l.Marks, m)
			path = append(path, fmt.Sprintf("%g,%g", m.X, m.Y))
		}
		if len(path) == 0 {
			continue
		}
		l.Path = strings.Join(path, " ")
		ends = append(ends, l.Marks[len(l.Marks)-1].Y)
		v.Lines = append(v.Lines, l)
	}
	for i, end := range apart(ends, distance, top+4, innerBottom) {
		v.Lines[i].NameY = end
	}
	t, err := template.New("chart").Parse(source)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, v)
	return b.Bytes(), err
}

// view is what the template sees.
type view struct {
	*Chart
	Desc                           string
	W, H, Left, Right, Top, Bottom float64
	XTicks, YTicks                 []tick
	Lines                          []line
}

type tick struct {
	At    float64
	Words string
}

type line struct {
	Name, Class, Path string
	NameY             float64
	Marks             []mark
}

type mark struct {
	X, Y, Low, High float64
	Title           string
}

// extent is all values of both axes.
func (c *Chart) extent() (xs, ys []float64) {
	for _, curve := range c.Curves {
		for _, p := range curve.Points {
			xs, ys = append(xs, p.X), append(ys, p.Y, p.Low, p.High)
		}
	}
	return xs, ys
}

// describe says in words what the curves show, for those who do not see them.
func (c *Chart) describe() string {
	var parts []string
	for _, curve := range c.Curves {
		if n := len(curve.Points); n > 0 {
			a, b := curve.Points[0], curve.Points[n-1]
			parts = append(parts, fmt.Sprintf("%s: %s at %s, %s at %s", curve.Name, words(a.Y), words(a.X), words(b.Y), words(b.X)))
		}
	}
	return c.Title + ", " + c.Y + " over " + c.X + ". " + strings.Join(parts, "; ") + "."
}

// scale maps values to positions by their logarithm.
type scale struct{ lo, hi, from, to float64 }

// around is the scale that holds all values, with a little room on both sides.
func around(values []float64, from, to float64) scale {
	s := scale{math.Inf(1), 0, from, to}
	for _, v := range values {
		if v > 0 {
			s.lo, s.hi = min(s.lo, v), max(s.hi, v)
		}
	}
	if s.hi == 0 {
		s.lo, s.hi = 1, 10
	}
	room := math.Pow(s.hi/s.lo, 0.05)
	if room < 1.1 {
		room = 1.1
	}
	s.lo, s.hi = s.lo/room, s.hi*room
	return s
}

func (s scale) at(v float64) float64 {
	share := math.Log(max(v, s.lo)/s.lo) / math.Log(s.hi/s.lo)
	return math.Round(10*(s.from+share*(s.to-s.from))) / 10
}

// ticks are the decades, with 2 and 5 between them where there are few, and every digit
// where that is too few still.
func (s scale) ticks() (out []float64) {
	for _, digits := range [][]float64{{1}, {1, 2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9}} {
		out = out[:0]
		for d := math.Floor(math.Log10(s.lo)); d <= math.Ceil(math.Log10(s.hi)); d++ {
			for _, m := range digits {
				if v := m * math.Pow(10, d); v >= s.lo && v <= s.hi {
					out = append(out, v)
				}
			}
		}
		if len(out) >= 3 {
			break
		}
	}
	return out
}

// words writes a value shortly: 0.5, 20, 1.5k, 18k, 100M.
func words(v float64) string {
	unit := ""
	for _, u := range []string{"k", "M", "G"} {
		if v < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	return strconv.FormatFloat(round(v), 'f', -1, 64) + unit
}

// round keeps three digits.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	p := math.Pow(10, 2-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*p) / p
}

// apart moves positions apart so that they keep a distance, within bounds and in order.
func apart(at []float64, distance, lo, hi float64) []float64 {
	out := append([]float64(nil), at...)
	order := make([]int, len(at))
	for i := range order {
		order[i] = i
		for j := i; j > 0 && at[order[j]] < at[order[j-1]]; j-- {
			order[j], order[j-1] = order[j-1], order[j]
		}
	}
	for k, i := range order {
		least := lo
		if k > 0 {
			least = out[order[k-1]] + distance
		}
		out[i] = max(out[i], least)
	}
	for k := len(order) - 1; k >= 0; k-- {
		most := hi
		if k < len(order)-1 {
			most = out[order[k+1]] - distance
		}
		out[order[k]] = min(out[order[k]], most)
	}
	return out
}
