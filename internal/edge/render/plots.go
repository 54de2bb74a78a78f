package render

import (
	"fmt"
	"math"

	"tidemark.dev/disclosure"
)

// plots draws what the document has data for, in the order of the page.
func plots(d *disclosure.Document) (out []*plot) {
	add := func(p *plot) {
		if p != nil {
			out = append(out, p)
		}
	}
	its, above := rows(d)
	it := subject(d)
	if it != nil {
		var over *disclosure.Iteration
		if above < len(its) {
			over = its[above]
		}
		add(ratePlot(d, it, over))
	}
	add(searchPlot(d))
	if it != nil {
		add(latencyPlot("first-byte", "Time to first byte", firstByteNote(&d.Configuration.Rule), it.TTFB))
		add(latencyPlot("latency", "Whole operations", "First byte and paced response together; most of it is line time.", it.Latency))
	}
	add(seriesPlot("throughput", "Throughput over time", "Operations per second, one band per iteration.", "operations per second", its, above, 0,
		func(o *disclosure.Overview) []float64 { return o.OpsPerSec }))
	add(seriesPlot("lateness", "Lateness of the driver over time", "What the instrument added to operations, as a share of their time. More than the limit on average voids an iteration.", "% of operation time",
		its, above, d.Configuration.Rule.Late, func(o *disclosure.Overview) []float64 { return o.LatePercent }))
	return out
}

// firstByteNote says how much of it the floor allows: what the mean operation may take at the floor beyond its line time.
func firstByteNote(r *disclosure.Rule) string {
	note := "Overhead before the first byte, connecting included."
	if r.MeanBits > 0 && r.Floor > 0 && r.LineSpeed > r.Floor {
		allowed := 1000 * r.MeanBits * (1/float64(r.Floor) - 1/float64(r.LineSpeed))
		note += fmt.Sprintf(" The floor leaves %s ms of it per mean operation.", fixed(allowed, 0))
	}
	return note
}

// judged returns the distribution of the rate the verdict used.
func judged(it *disclosure.Iteration) *disclosure.Spread {
	if it.Adjusted != nil && it.JudgedBy == "adjusted" {
		return it.Adjusted
	}
	return &it.Raw
}

// ratePlot is the distribution of slot rates with the floor; over, if any, is an iteration above the score, in outline.
func ratePlot(d *disclosure.Document, it, over *disclosure.Iteration) *plot {
	s := judged(it)
	if len(s.Counts) == 0 || s.Width <= 0 {
		return nil
	}
	p := newPlot("rates", "Rate of each connection")
	floor := float64(d.Configuration.Rule.Floor) / 1000
	end := s.From + s.Width*float64(len(s.Counts))
	x := scale{lo: s.From, hi: end, from: plotLeft, to: plotInnerX2}
	most := 1
	for _, n := range s.Counts {
		most = max(most, n)
	}
	var outline *disclosure.Spread
	if over != nil {
		if o := judged(over); len(o.Counts) == len(s.Counts) && o.From == s.From && o.Width == s.Width {
			outline = o
			for _, n := range o.Counts {
				most = max(most, n)
			}
		}
	}
	y := vertical(0, ceiling(float64(most)*1.12), false) // room for the words at the floor
	under := 0
	for i, n := range s.Counts {
		lo := s.From + float64(i)*s.Width
		class := "good"
		if lo < floor-1e-9 {
			class = "bad"
			under += n
		}
		if n == 0 {
			continue
		}
		x1, x2, top := x.at(lo), x.at(lo+s.Width), y.at(float64(n))
		bound := fmt.Sprintf("%s to %s kbit/s", trim(fixed(lo, 1)), trim(fixed(lo+s.Width, 1)))
		if i == 0 {
			bound = fmt.Sprintf("under %s kbit/s", trim(fixed(lo+s.Width, 1)))
		}
		p.Bars = append(p.Bars, rect{r1(x1 + 0.4), top, r1(math.Max(x2-x1-0.8, 0.4)), r1(plotInnerY2 - top), class,
			fmt.Sprintf("%s: %s", bound, plural(n, "connection"))})
	}
	if outline != nil {
		var pts points
		for i, n := range outline.Counts {
			lo := outline.From + float64(i)*outline.Width
			pts.add(x.at(lo), y.at(float64(n)))
			pts.add(x.at(lo+outline.Width), y.at(float64(n)))
		}
		p.Lines = append(p.Lines, polyline{pts.String(), "outline"})
		p.Legend = []legend{{"good", plural(it.Requested, "connection")}, {"outline", count(over.Requested) + ", above the score"}}
	}
	if floor > s.From && floor < end {
		p.Rules = append(p.Rules, ruleLine{x.at(floor), plotTop - 6, x.at(floor), plotInnerY2, "limit"})
		p.Texts = append(p.Texts,
			label{x.at(floor) - 6, plotTop + 4, count(under) + " under", "end", "bad"},
			label{x.at(floor) + 6, plotTop + 4, "floor " + trim(fixed(floor, 1)), "start", "limit"})
	}
	p.X = axis{"kbit/s, " + judgedBy(it), linearTicks(x, 7)}
	p.Y = axis{"connections", linearTicks(y, 5)}
	p.Note = fmt.Sprintf("%s of %s connections conform in %s. The leftmost bar holds everything slower.", count(it.Conforming), count(it.Requested), runName(d, it))
	p.Desc = fmt.Sprintf("Histogram of connection rates: median %s kbit/s, slowest %s, one percent under %s, %s under the floor of %s kbit/s.",
		short(s.P50), short(s.Min), short(s.P1), count(under), short(floor))
	return p
}

// The percentiles drawn, by their distance from 100 on a logarithmic axis.
var percentiles = []float64{50, 75, 90, 95, 99, 99.9, 99.99}

func percentileValues(l *disclosure.Latency) []float64 {
	return []float64{l.P50, l.P75, l.P90, l.P95, l.P99, l.P999, l.P9999}
}

// shows reports whether there were operations enough for a percentile to be more than the maximum by another name.
func shows(l *disclosure.Latency, percentile float64) bool {
	return float64(l.Count)*(100-percentile) >= 100*0.9999
}

// latencyPlot draws percentiles per kind of operation on a logarithmic axis.
func latencyPlot(id, title, note string, ls []disclosure.Latency) *plot {
	p := newPlot(id, title)
	p.Note = note
	lo, hi := math.Inf(1), 0.0
	deepest := 0
	for i := range ls {
		for k, v := range percentileValues(&ls[i]) {
			if ls[i].Kind != "all" && v > 0 && shows(&ls[i], percentiles[k]) {
				lo, hi, deepest = math.Min(lo, v), math.Max(hi, v), max(deepest, k)
			}
		}
	}
	if hi == 0 || deepest == 0 {
		return nil
	}
	const names = 44 // room for the names at the ends of the lines
	y := vertical(logFloor(lo), logCeiling(hi), true)
	depth := func(percentile float64) float64 { return -math.Log10(1 - percentile/100) }
	x := scale{lo: depth(50), hi: depth(percentiles[deepest]), from: plotLeft + 6, to: plotInnerX2 - names}
	var ends []float64
	var at []int // index into p.Texts
	for i := range ls {
		l := &ls[i]
		if l.Kind == "all" {
			continue
		}
		var pts points
		var lastX, lastY float64
		for k, v := range percentileValues(l) {
			if v <= 0 || !shows(l, percentiles[k]) {
				continue
			}
			lastX, lastY = x.at(depth(percentiles[k])), y.at(v)
			pts.add(lastX, lastY)
			p.Marks = append(p.Marks, mark{lastX, lastY, "dot", "k-" + l.Kind, fmt.Sprintf("%s p%s: %s ms", l.Kind, trim(fixed(percentiles[k], 2)), short(v))})
		}
		if pts.String() == "" {
			continue
		}
		p.Lines = append(p.Lines, polyline{pts.String(), "k-" + l.Kind})
		p.Texts = append(p.Texts, label{lastX + 7, lastY + 4, l.Kind, "start", "k-" + l.Kind})
		ends, at = append(ends, lastY+4), append(at, len(p.Texts)-1)
	}
	// Only names that share an end can collide.
	byEnd := map[float64][]int{}
	for i := range at {
		byEnd[p.Texts[at[i]].X] = append(byEnd[p.Texts[at[i]].X], i)
	}
	for _, group := range byEnd {
		ys := make([]float64, len(group))
		for k, i := range group {
			ys[k] = ends[i]
		}
		spreadOut(ys, 12, plotTop+4, plotInnerY2)
		for k, i := range group {
			p.Texts[at[i]].Y = ys[k]
		}
	}
	p.Y = axis{"milliseconds", logTicks(y)}
	p.X.Title = "percentile of operations"
	for k, pc := range percentiles[:deepest+1] {
		if pc == 75 || (pc == 95 && deepest > 5) { // too close to their neighbours
			continue
		}
		p.X.Ticks = append(p.X.Ticks, tick{x.at(depth(percentiles[k])), trim(fixed(pc, 2))})
	}
	for i := range ls {
		if ls[i].Kind == "all" {
			p.Desc = fmt.Sprintf("Percentiles over all kinds: median %s ms, 99 %% under %s ms, longest %s ms.", short(ls[i].P50), short(ls[i].P99), short(ls[i].Max))
		}
	}
	return p
}

// logFloor and logCeiling bring the ends of a logarithmic axis to 1, 2 or 5 times a power of ten.
func logFloor(v float64) float64 {
	d := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{5, 2} {
		if m*d <= v {
			return m * d
		}
	}
	return d
}

func logCeiling(v float64) float64 {
	d := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*d >= v {
			return m * d
		}
	}
	return 10 * d
}

// seriesPlot draws a series of several iterations side by side on one axis of time. limit, if positive, is drawn.
func seriesPlot(id, title, note, unit string, its []*disclosure.Iteration, above int, limit float64, pick func(*disclosure.Overview) []float64) *plot {
	p := newPlot(id, title)
	p.Note = note
	var total, most float64
	var shown []int
	for i, it := range its {
		if it.Overview == nil || len(pick(it.Overview)) < 2 {
			continue
		}
		shown = append(shown, i)
		total += it.Window
		for _, v := range pick(it.Overview) {
			most = math.Max(most, v)
		}
	}
	if len(shown) == 0 {
		return nil
	}
	y := vertical(0, ceiling(math.Max(most, limit)*1.08), false)
	const gap = 10.0
	width := plotInnerW - gap*float64(len(shown)-1)
	from := float64(plotLeft)
	for _, i := range shown {
		it, values := its[i], pick(its[i].Overview)
		to := from + width*it.Window/total
		x := scale{lo: 0, hi: it.Window, from: from, to: to}
		class, name := "series", fmt.Sprintf("run %d", i+1)
		if i >= above {
			class, name = "series over", "at "+count(it.Requested)
		}
		p.Bands = append(p.Bands, rect{r1(from), plotTop, r1(to - from), plotInnerH, "band", ""})
		var pts points
		step := it.Overview.Interval
		for k, v := range values {
			pts.add(x.at(math.Min((float64(k)+0.5)*step, it.Window)), y.at(v))
		}
		p.Lines = append(p.Lines, polyline{pts.String(), class})
		p.Texts = append(p.Texts, label{r1((from + to) / 2), plotTop + 12, name, "middle", "note band-name"})
		p.X.Ticks = append(p.X.Ticks, tick{r1((from + to) / 2), duration(it.Window)})
		from = to + gap
	}
	if limit > 0 {
		p.Rules = append(p.Rules, ruleLine{plotLeft, y.at(limit), plotInnerX2, y.at(limit), "limit"})
		p.Texts = append(p.Texts, label{plotInnerX2 - 4, y.at(limit) - 5, "limit " + short(limit) + " %", "end", "limit"})
	}
	p.Y = axis{unit, linearTicks(y, 5)}
	p.X.Title = "measured windows, in order"
	p.Desc = fmt.Sprintf("%s in %s; the highest value is %s %s.", title, plural(len(shown), "window"), short(most), unit)
	return p
}

// valley reports whether the line comes from above and goes up again, so that there is more room below the point.
func valley(steps []disclosure.Step, i int) bool {
	var rise float64
	if i > 0 {
		rise += float64(steps[i-1].Load - steps[i].Load)
	}
	if i+1 < len(steps) {
		rise += float64(steps[i+1].Load - steps[i].Load)
	}
	return rise > 0
}

// searchPlot draws the way to the load, step by step.
func searchPlot(d *disclosure.Document) *plot {
	s := sought(d)
	if s == nil || len(s.Steps) < 2 {
		return nil
	}
	p := newPlot("search", "The way to the load")
	lo, hi := math.Inf(1), 0.0
	for _, st := range s.Steps {
		lo, hi = math.Min(lo, float64(st.Load)), math.Max(hi, float64(st.Load))
	}
	y := vertical(0, ceiling(hi*1.1), false)
	switch {
	case hi > 12*lo:
		y = vertical(logFloor(lo*0.9), logCeiling(hi*1.1), true)
	case hi < 3*lo: // close together: no zero, or the steps cannot be told apart
		room := math.Max(hi-lo, 0.1*hi)
		s := steps(math.Max(0, lo-room*0.35), hi+room*0.25, 5)
		step := s[len(s)-1] - s[max(len(s)-2, 0)]
		y = vertical(math.Max(0, s[0]-step), s[len(s)-1]+step, false)
	}
	n := float64(len(s.Steps))
	x := scale{lo: 1, hi: n, from: plotLeft + 16, to: plotInnerX2 - 16}
	if d.Verdict.Word == disclosure.Passes {
		p.Rules = append(p.Rules, ruleLine{plotLeft, y.at(float64(d.Verdict.Load)), plotInnerX2, y.at(float64(d.Verdict.Load)), "goal"})
	}
	var pts points
	for i, st := range s.Steps {
		px, py := x.at(float64(i+1)), y.at(float64(st.Load))
		pts.add(px, py)
		shape, class := "dot", "good"
		switch st.Verdict {
		case "fail":
			shape, class = "cross", "bad"
		case "invalid", "driver limit":
			shape, class = "box", "muted"
		}
		if st.Kind != "trial" && shape == "dot" {
			shape = "ring"
		}
		p.Marks = append(p.Marks, mark{px, py, shape, class, fmt.Sprintf("step %d, %s at %s: %s, %s %% conform", st.Number, st.Kind, count(st.Load), st.Verdict, fixed(st.Percent, 1))})
		changed := i == 0 || s.Steps[i-1].Load != st.Load
		if changed && len(s.Steps) <= 24 {
			dy := -10.0
			if valley(s.Steps, i) {
				dy = 19
			}
			p.Texts = append(p.Texts, label{px, r1(py + dy), count(st.Load), "middle", "note"})
		}
	}
	p.Lines = append(p.Lines, polyline{pts.String(), "path"})
	p.Legend = []legend{{"dot", "trial passes"}, {"ring", "proof passes"}, {"cross", "fails"}}
	for _, st := range s.Steps {
		if st.Verdict == "invalid" || st.Verdict == "driver limit" {
			p.Legend = append(p.Legend, legend{"box", "not measured"})
			break
		}
	}
	for _, v := range steps(1, n, 10) {
		if v == math.Trunc(v) && v >= 1 {
			p.X.Ticks = append(p.X.Ticks, tick{x.at(v), fixed(v, 0)})
		}
	}
	p.X.Title = "step"
	p.Y = axis{"connections", linearTicks(y, 5)}
	if y.log {
		p.Y.Ticks = logTicks(y)
	}
	if s.Why != "" {
		p.Note = sentence(s.Why)
	}
	p.Desc = fmt.Sprintf("%s between %s and %s connections.", plural(len(s.Steps), "step"), count(int64(lo)), count(int64(hi)))
	return p
}
