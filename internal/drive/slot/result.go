package slot

import (
	"context"
	"encoding/json"
	"slices"

	"tidemark.dev/internal/ground/clock"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/ground/tally"
	"tidemark.dev/internal/model/conform"
)

// Collect waits for the end of the window and hands over what was recorded. Call Pause first where operations open
// at the end should have their say: one that fails after all loses its credit, and a POST is acknowledged.
func (e *Engine) Collect(ctx context.Context) (*Result, error) {
	wins := make([]*window, len(e.workers))
	if err := e.each(func(w *worker) {
		w.tick()
		wins[w.index] = w.win
	}); err != nil {
		return nil, err
	}
	var waits []chan struct{}
	for _, win := range wins {
		if win == nil {
			return nil, fault.New(fault.Driver, "collect: no window was set")
		}
		waits = append(waits, win.done)
	}
	if err := e.wait(ctx, "collect", waits); err != nil {
		return nil, err
	}
	parts := make([]part, len(e.workers))
	if err := e.each(func(w *worker) { parts[w.index] = w.part(wins[w.index]) }); err != nil {
		return nil, err
	}
	r := &Result{Errors: map[string]conform.ErrorCount{}}
	var all tripwire
	for k := range parts {
		if parts[k].win == nil {
			return nil, fault.New(fault.Driver, "collect: another window took the place of this one")
		}
		r.add(&parts[k], &all)
	}
	slices.SortFunc(r.Records, func(a, b conform.Record) int { return int(int64(a.Slot) - int64(b.Slot)) })
	r.Errors, r.Audit.Driver = all.errors(), all.driver()
	for k := range r.Kinds {
		for _, h := range [...]*tally.Histogram{r.Kinds[k].FirstByte, r.Kinds[k].Whole} {
			r.Audit.Overflow += uint64(h.Over() + h.Under())
		}
	}
	return r, nil
}

// part is what one worker hands over.
type part struct {
	win        *window
	unfinished int
	posts      []Post
	algos      []string
}

// part takes win from the worker, unless the worker has another one by now.
func (w *worker) part(win *window) part {
	if w.win != win {
		return part{}
	}
	win, unfinished := w.takeWindow()
	return part{win, unfinished, w.takePosts(), slices.Clone(w.algos)}
}

// takePosts hands over the list of POSTs; those under way stay uncertain for good.
func (w *worker) takePosts() []Post {
	list := w.posts.all()
	w.posts = posts{}
	for i := range w.slots[:w.users] {
		w.slots[i].post = nil
	}
	return list
}

// add merges one worker's part.
func (r *Result) add(p *part, all *tripwire) {
	win, a := p.win, &r.Audit
	first := r.Series == nil
	if first {
		r.Start, r.End, r.Series = win.start, win.end, win.series
		r.Issued.Dir = make([]uint64, len(win.issued.Dir))
		for k := range r.Kinds {
			r.Kinds[k] = Latency{&win.kinds[k].first, &win.kinds[k].whole}
		}
	} else {
		for k := range r.Kinds {
			r.Kinds[k].FirstByte.Merge(&win.kinds[k].first)
			r.Kinds[k].Whole.Merge(&win.kinds[k].whole)
		}
		for i, s := range win.series {
			r.Series[i].add(&s)
		}
	}
	for i := range win.records[:win.load] {
		win.recount(i)
	}
	r.Records = append(r.Records, win.records[:win.load]...)
	r.Issued.merge(&win.issued)
	for k, n := range win.planned.Kind {
		a.Planned[k] += n
	}
	a.Misplanned += win.planned.distance(&win.issued)
	all.add(&win.trip)
	a.Attempted += win.tried
	a.Late += win.sum.late
	a.WorstLate = max(a.WorstLate, win.worst)
	a.OpTime += win.opTime
	a.Connects += win.sum.connects
	a.PortReuse += win.reuse
	a.PortBusy += win.busy
	a.FINMissing += win.sum.finMissing
	a.Hangups += win.sum.hangups
	a.Stale += win.sum.stale
	a.VerifiedBodies += win.sum.checked.Bodies
	a.VerifiedBytes += win.sum.checked.Bytes
	a.Tags += win.sum.checked.Tags
	a.Straddling += win.straddling
	a.Unfinished += p.unfinished
	a.Turns += win.stats.Turns
	a.Sleeps += win.stats.Sleeps
	for _, name := range p.algos {
		if !slices.Contains(a.Congestion, name) {
			a.Congestion = append(a.Congestion, name)
		}
	}
	r.Posts = append(r.Posts, p.posts...)
}

func (s *Second) add(o *Second) {
	s.Ops += o.Ops
	s.Failed += o.Failed
	s.Connects += o.Connects
	s.Open += o.Open
	s.Bits += o.Bits
	s.Late += o.Late
}

func (c *Counts) merge(o *Counts) {
	for i := range c.Kind {
		c.Kind[i] += o.Kind[i]
	}
	for i := range c.File {
		c.File[i] += o.File[i]
	}
	for i := range o.Dir {
		c.Dir[i] += o.Dir[i]
	}
}

// distance returns how many operations two counts differ in, by the dimension that shows most.
func (c *Counts) distance(o *Counts) uint64 {
	return max(apart(c.Kind[:], o.Kind[:]), apart(c.File[:], o.File[:]), apart(c.Dir, o.Dir))
}

func apart(a, b []uint64) (n uint64) {
	for i := range a {
		n += max(a[i], b[i]) - min(a[i], b[i])
	}
	return n
}

// wireResult is the form of a Result in JSON: bulk in the packages' own binary encodings, as base64.
type wireResult struct {
	Start   clock.Instant                 `json:"start"`
	End     clock.Instant                 `json:"end"`
	Records []byte                        `json:"records"`
	Kinds   [][2][]byte                   `json:"kinds"`
	Errors  map[string]conform.ErrorCount `json:"errors"`
	Audit   Audit                         `json:"audit"`
	Series  []Second                      `json:"series"`
	Issued  Counts                        `json:"issued"`
	Posts   []byte                        `json:"posts"`
}

// MarshalJSON encodes the result for the way from agent to prime, which run the same build.
func (r *Result) MarshalJSON() ([]byte, error) {
	w := wireResult{
		Start: r.Start, End: r.End, Records: conform.AppendRecords(nil, r.Records), Errors: r.Errors,
		Audit: r.Audit, Series: r.Series, Issued: r.Issued, Posts: appendPosts(nil, r.Posts),
	}
	for _, l := range r.Kinds {
		var two [2][]byte
		for i, h := range [...]*tally.Histogram{l.FirstByte, l.Whole} {
			if h == nil {
				h = new(tally.Histogram)
			}
			b, err := h.MarshalBinary()
			if err != nil {
				return nil, err
			}
			two[i] = b
		}
		w.Kinds = append(w.Kinds, two)
	}
	return json.Marshal(w)
}

// UnmarshalJSON decodes what MarshalJSON wrote.
func (r *Result) UnmarshalJSON(b []byte) error {
	var w wireResult
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	if len(w.Kinds) != len(r.Kinds) {
		return fault.New(fault.Driver, "result of %d kinds instead of %d", len(w.Kinds), len(r.Kinds))
	}
	records, rest, err := conform.ParseRecords(w.Records)
	if err != nil || len(rest) > 0 {
		return fault.New(fault.Driver, "result with %d bytes behind its records: %v", len(rest), err)
	}
	posts, err := parsePosts(w.Posts)
	if err != nil {
		return err
	}
	*r = Result{
		Start: w.Start, End: w.End, Records: records, Errors: w.Errors, Audit: w.Audit, Series: w.Series,
		Issued: w.Issued, Posts: posts,
	}
	for k, two := range w.Kinds {
		l := Latency{new(tally.Histogram), new(tally.Histogram)}
		for i, h := range [...]*tally.Histogram{l.FirstByte, l.Whole} {
			if err := h.UnmarshalBinary(two[i]); err != nil {
				return fault.Wrap(fault.Driver, err, "result histogram")
			}
		}
		r.Kinds[k] = l
	}
	return nil
}
