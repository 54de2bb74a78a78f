package probe

import (
	"tidemark.dev/internal/drive/slot"
	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/web99"
)

// postKey is what of a POST the target's log must show again.
type postKey struct {
	dir        int32
	class, num uint8
	user       int64
	client     int64
}

// Ledger collects the POSTs sent since the last Reset.
type Ledger struct {
	acked, unsure map[postKey]int
	n             [2]uint64
}

// NewLedger makes an empty one.
func NewLedger() *Ledger {
	return &Ledger{acked: map[postKey]int{}, unsure: map[postKey]int{}}
}

// Add notes POSTs sent.
func (l *Ledger) Add(ps []slot.Post) {
	for _, p := range ps {
		k := postKey{p.Dir, p.Class, p.Num, int64(p.User), int64(p.Client)}
		if p.State == slot.Acknowledged {
			l.acked[k]++
			l.n[0]++
		} else {
			l.unsure[k]++
			l.n[1]++
		}
	}
}

// Posts is the number of POSTs added.
func (l *Ledger) Posts() uint64 { return l.n[0] + l.n[1] }

// Check compares the target's log with the ledger as multisets: an acknowledged POST is there exactly once, one
// that failed or did not finish at most once, and nothing else is there.
func (l *Ledger) Check(log []byte) (conform.PostCheck, error) {
	c := conform.PostCheck{Checked: true, Acked: l.n[0], Uncertain: l.n[1]}
	found, err := parsePostLog(log)
	if err != nil {
		return c, err
	}
	for k, want := range l.acked {
		got := found[k]
		may := l.unsure[k]
		switch {
		case got < want:
			c.Missing += uint64(want - got)
			c.Found += uint64(got)
		case got > want+may:
			c.Doubled += uint64(got - want - may)
			c.Found += uint64(want)
		default:
			c.Found += uint64(want)
		}
		delete(found, k)
	}
	for k, got := range found {
		if extra := got - l.unsure[k]; extra > 0 {
			c.Foreign += uint64(extra)
		}
	}
	return c, nil
}

func parsePostLog(log []byte) (map[postKey]int, error) {
	found := map[postKey]int{}
	if len(log) < web99.CountSize {
		return nil, fault.New(fault.Target, "post log has %d bytes, its first line alone has %d", len(log), web99.CountSize)
	}
	n, ok := web99.ParseCount(log[:web99.CountSize])
	if !ok {
		return nil, fault.New(fault.Target, "post log: first line %q is no record count", log[:web99.CountSize])
	}
	records := log[web99.CountSize:]
	if int64(len(records)) != n*web99.RecordSize {
		return nil, fault.New(fault.Target, "post log: %d records announced, %d bytes follow instead of %d", n, len(records), n*web99.RecordSize)
	}
	var r web99.Record
	for i := int64(1); len(records) > 0; i++ {
		if !web99.ParseRecord(records[:web99.RecordSize], &r) {
			return nil, fault.New(fault.Target, "post log: record %d is malformed", i)
		}
		if r.Number != i {
			return nil, fault.New(fault.Target, "post log: record %d is numbered %d", i, r.Number)
		}
		found[postKey{r.Dir, r.Class, r.Num, r.User, r.Client}]++
		records = records[web99.RecordSize:]
	}
	return found, nil
}
