package render

import (
	"fmt"
	"strings"

	"tidemark.dev/disclosure"
)

// glance is an iteration in a dozen pairs: the target's figures first, then the instrument's.
func glance(it *disclosure.Iteration) []pair {
	t, a := &it.Traffic, &it.Audit
	out := []pair{
		{"Window", duration(it.Window)},
		{"Judged by", judgedBy(it)},
		{"First byte", short(it.FirstByteMS) + " ms mean"},
		{"Failed operations", fmt.Sprintf("%s of %s (%s %%)", count(it.Failed), count(it.Ops+it.Failed), short(it.ErrorPercent))},
		{"Not conforming", notConforming(it)},
		{"Connections opened", fmt.Sprintf("%s, %s operations each", count(t.Connects), short(t.OpsPerConnect))},
		{"Received", bytesWords(t.WireBytes)},
		{"Verified", fmt.Sprintf("%s of %s bodies", bytesWords(t.VerifiedBytes), count(t.VerifiedOps))},
	}
	if t.FullHandshakes+t.ShortHandshakes > 0 {
		out = append(out, pair{"Handshakes", fmt.Sprintf("%s full, %s resumed", count(t.FullHandshakes), count(t.ShortHandshakes))})
	}
	if p := it.Posts; p != nil {
		out = append(out, pair{"POST records", fmt.Sprintf("%s acknowledged, %s found, %s missing, %s doubled",
			count(p.Acked), count(p.Found), count(p.Missing), count(p.Doubled))})
	}
	for _, c := range it.CPU {
		of := ""
		if c.Available > 0 {
			of = " of " + short(c.Available)
		}
		out = append(out, pair{"Cores busy: " + c.Name, fmt.Sprintf("%s%s, %s %% of it in the kernel", fixed(c.Cores, 2), of, share(c.System, c.User+c.System))})
	}
	return append(out,
		pair{"Driver late", fmt.Sprintf("%s %% of operation time, worst %s ms, decides %s", short(a.Late), short(a.WorstLate), plural(a.LateSlots, "slot"))},
		pair{"Operation time", fmt.Sprintf("%+.4f %% off requested × window", it.Identity)},
	)
}

func share(part, whole float64) string {
	if whole <= 0 {
		return "-"
	}
	return fixed(100*part/whole, 0)
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

func judgedBy(it *disclosure.Iteration) string {
	if it.JudgedBy == "adjusted" {
		return "size-adjusted rate (short window)"
	}
	return "raw rate"
}

func notConforming(it *disclosure.Iteration) string {
	if it.Slow == 0 && it.Erring == 0 {
		return "0"
	}
	return fmt.Sprintf("%s too slow, %s with too many errors", count(it.Slow), count(it.Erring))
}

// configuration returns what was set, the classic group first.
func configuration(d *disclosure.Document) []group {
	c := &d.Configuration
	load := ""
	if n := requested(d); n > 0 {
		load = fmt.Sprint(n)
	}
	size := ""
	if c.FileSet.ReportedMB > 0 {
		size = megabytes(c.FileSet.ReportedMB)
	}
	r, ph, dr, tg := &c.Rule, &c.Phases, &c.Drivers, &c.Target
	groups := []group{
		{"Benchmark Configuration", []pair{{"Requested Connections", load}, {"Fileset Size (MB)", size}}},
		{"Run", []pair{
			{"Identity", d.Run.ID}, {"Title", d.Run.Title}, {"Started", date(d.Run.StartedAt)}, {"Finished", date(d.Run.FinishedAt)},
			{"Profile", d.Run.Profile}, {"Topology", d.Run.Topology}, {"Command", strings.Join(d.Run.Command, " ")},
			{"Tool", strings.TrimSpace(d.Tool.Name + " " + d.Tool.Version + " " + d.Tool.Revision)},
			{"Exit code", fmt.Sprint(d.Verdict.ExitCode)}}},
		{"Rule", []pair{
			{"Line speed", kbit(r.LineSpeed)}, {"Floor", kbit(r.Floor)},
			{"Conforming slots", positive(r.Pass, "at least %s %%")}, {"Failed operations", positive(r.Errors, "fewer than %s %%")},
			{"Mean operation", positive(r.MeanBits/8, "%s bytes")}}},
		{"Phases", []pair{
			{"Warm-up", positiveDuration(ph.WarmUp)}, {"Ramp-up", positiveDuration(ph.RampUp)}, {"Window", positiveDuration(ph.Window)},
			{"Ramp-down", positiveDuration(ph.RampDown)}, {"Trial", positiveDuration(ph.Trial)}, {"Burst", positiveDuration(ph.Burst)}}},
		{"Workload", []pair{
			{"Name", c.Workload.Name}, {"Digest", c.Workload.Digest}, {"Seed", fmt.Sprintf("%d (content %d)", c.Seed, c.FileSeed)},
			{"Directories", positive(float64(c.FileSet.Directories), "%s")}, {"Files", positive(float64(c.FileSet.Files), "%s")},
			{"Overrides", strings.Join(c.Overrides, ", ")}}},
		{"Target", []pair{
			{"Kit", tg.Kit}, {"Product", strings.TrimSpace(tg.Product + " " + tg.Version)}, {"Addresses", strings.Join(tg.URLs, " ")},
			{"Command", strings.Join(tg.Command, " ")}, {"Processes", positive(float64(tg.Processes), "%s")},
			{"Processors", numbers(tg.Affinity)}, {"Configuration", tg.Digest}}},
		{"Drivers", append([]pair{
			{"Pacing", dr.Pacing}, {"Receive buffer", positive(float64(dr.ReceiveBuffer), "%s bytes")},
			{"Maximum segment", positive(float64(dr.MaxSegment), "%s bytes")}, {"MTU", positive(float64(dr.MTU), "%s bytes")},
			{"Congestion control", strings.Join(dr.Congestion, ", ")}, {"Bodies verified", positive(float64(dr.VerifyEvery), "1 in %s")}},
			agents(dr)...)},
	}
	if l := d.Log; l != nil {
		agree := "agrees with the drivers to the operation and byte"
		if !l.Agree {
			agree = "differs from the drivers: " + l.Why
		}
		groups = append(groups, group{"Access log", []pair{
			{"Operations", fmt.Sprintf("%s logged, %s counted", count(l.LogOps), count(l.DriverOps))},
			{"Bytes", fmt.Sprintf("%s logged, %s received", count(l.LogBytes), count(l.DriverBytes))}, {"Comparison", agree}}})
	}
	for _, h := range d.Hosts {
		g := group{Title: "Host " + h.Name + " (" + strings.Join(h.Roles, ", ") + ")"}
		for _, f := range h.Facts {
			g.Pairs = append(g.Pairs, pair{f.Group + ": " + f.Name, factWords(f)})
		}
		groups = append(groups, g)
	}
	return append(groups[:1:1], filled(groups[1:])...)
}

func agents(dr *disclosure.Drivers) (out []pair) {
	for _, a := range dr.Agents {
		text := fmt.Sprintf("%s from %d", plural(a.Slots, "slot"), a.First)
		if a.Host != "" {
			text += ", host " + a.Host
		}
		if p := numbers(a.Affinity); p != "" {
			text += ", processors " + p
		}
		if a.Backend != "" {
			text += ", " + a.Backend
		}
		if n := len(a.Sources); n > 0 {
			text += fmt.Sprintf(", %d source addresses", n)
		}
		out = append(out, pair{"Agent " + a.Name, text})
	}
	return out
}

func factWords(f disclosure.Fact) string {
	switch {
	case f.Text != nil:
		return *f.Text
	case f.Flag != nil && *f.Flag:
		return "yes"
	case f.Flag != nil:
		return "no"
	case f.Number != nil && f.Unit == "bytes" && *f.Number >= 1e6:
		return bytesWords(int64(*f.Number))
	case f.Number != nil && f.Unit == "bytes":
		return count(int64(*f.Number)) + " bytes"
	case f.Number != nil && f.Unit == "hertz" && *f.Number >= 1e6:
		return short(*f.Number/1e6) + " MHz"
	case f.Number != nil && f.Unit == "count":
		return trim(fixed(*f.Number, 3))
	case f.Number != nil:
		return trim(fixed(*f.Number, 3)) + " " + f.Unit
	}
	return ""
}

func kbit(bps int64) string { return positive(float64(bps)/1000, "%s kbit/s") }

// positive writes a number into a format, nothing if there is none.
func positive(v float64, format string) string {
	if v <= 0 {
		return ""
	}
	s := short(v)
	if v >= 1000 {
		s = count(int64(v + 0.5))
	}
	return fmt.Sprintf(format, s)
}

func positiveDuration(s float64) string {
	if s <= 0 {
		return ""
	}
	return duration(s)
}

func numbers(ns []int) string {
	var parts []string
	for _, n := range ns {
		if n >= 0 {
			parts = append(parts, fmt.Sprint(n))
		}
	}
	return strings.Join(parts, ", ")
}
