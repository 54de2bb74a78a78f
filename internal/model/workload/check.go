package workload

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidemark.dev/internal/model/fileset"
	"tidemark.dev/internal/model/pace"
)

// shareSlack is how far shares may miss a sum of 1: room for decimal fractions.
const shareSlack = 1e-9

// check reports every value out of range. It does not repeat what is reported
// already, nor judge a sum or relation of which one part is.
func (f *form) check(w *Workload) {
	f.whole("version", int64(w.Version), Version, Version)
	f.name("name", w.Name)
	f.checkFiles(w)

	shares := w.Mix.Shares()
	f.sum("mix", shares[:], func(i int) string { return "mix." + Kind(i).String() })

	s := w.Sessions
	f.share("sessions.keepalive_share", s.KeepaliveShare)
	f.oneOf("sessions.of", s.Of, OfRequests, OfConnections)
	f.whole("sessions.shortest", int64(s.Shortest), 1, 255)
	f.whole("sessions.longest", int64(s.Longest), 1, 255)
	f.ordered("sessions.shortest", int64(s.Shortest), "sessions.longest", int64(s.Longest))
	f.share("sessions.http10_single", s.HTTP10Single)
	f.share("sessions.http10_keepalive", s.HTTP10Keepalive)

	p := w.Pacing
	f.oneOf("pacing.mode", p.Mode, pace.Rated.String(), pace.Deferred.String(), pace.None.String())
	f.whole("pacing.line_bps", p.LineBps, 1, 1e12)
	f.whole("pacing.quantum_bytes", int64(p.QuantumBytes), 1, 1<<30)
	f.whole("pacing.recv_buffer_bytes", int64(p.RecvBufferBytes), 1, 1<<30)
	f.whole("pacing.segment_bytes", int64(p.SegmentBytes), 88, 32767) // what Linux accepts: TCP_MIN_MSS to MAX_TCP_WINDOW
	f.span("pacing.timeout", p.Timeout, time.Millisecond)
	f.span("pacing.backoff", p.Backoff, 0)

	c := w.Conformance
	f.whole("conformance.floor_bps", c.FloorBps, 1, 1e12)
	f.ordered("conformance.floor_bps", c.FloorBps, "pacing.line_bps", p.LineBps) // or no slot could conform
	f.share("conformance.pass_share", c.PassShare)
	f.share("conformance.error_share", c.ErrorShare)
	f.whole("conformance.min_ops", int64(c.MinOps), 1, 1e9)
	f.span("conformance.raw_from", c.RawFrom, 0)

	f.route("routes.get", w.Routes.Get)
	f.route("routes.cgi", w.Routes.CGI)
	f.route("routes.cad", w.Routes.CAD)
	f.route("routes.post", w.Routes.Post)
	f.route("routes.command", w.Routes.Command)

	f.number("users.per_connection", w.Users.PerConnection, 0, MaxUsers)
	f.whole("users.min", int64(w.Users.Min), 1, MaxUsers)
	f.whole("ads.count", int64(w.Ads.Count), 1, MaxAds)
	if f.good("ads.exp") && len(w.Ads.Exp) != 2 {
		f.report("ads.exp", "must be two numbers")
	}
	for i, n := range w.Ads.Exp {
		f.whole(element("ads.exp", i), int64(n), 0, math.MaxInt32)
	}

	if t := w.TLS; t != nil {
		if f.good("tls.versions") && len(t.Versions) == 0 {
			f.report("tls.versions", "must name at least one version")
		}
		for i, v := range t.Versions {
			f.oneOf(element("tls.versions", i), v, "1.2", "1.3")
			if slices.Contains(t.Versions[:i], v) {
				f.report(element("tls.versions", i), "is named twice")
			}
		}
		f.oneOf("tls.key", t.Key, TLSKeys()...)
		f.share("tls.resume_share", t.ResumeShare)
	}

	fields := paths("", reflect.TypeFor[Workload]())
	for i, a := range w.Assumed {
		if !slices.Contains(fields, a) {
			f.report(element("assumed", i), "%q is no field", a)
		}
	}
}

func (f *form) checkFiles(w *Workload) {
	f.oneOf("files.law", w.Files.Law, fileset.Law)
	f.number("files.zipf", w.Files.Zipf, 0, 10)
	f.permutation("files.order", w.Files.Order, fileset.FilesPerClass)

	d := w.Files.Directories
	f.whole("files.directories.base", int64(d.Base), 0, fileset.MaxDirs)
	f.whole("files.directories.bits_per_op", d.BitsPerOp, 1, 1e9)
	f.whole("files.directories.ops_per_directory", d.OpsPerDirectory, 1, 1e9)
	f.whole("files.directories.fixed", int64(d.Fixed), 0, fileset.MaxDirs)
	f.number("files.directories.zipf", d.Zipf, 0, 10)
	if f.good("files.directories.base", "files.directories.fixed") && d.Base == 0 && d.Fixed == 0 {
		f.report("files.directories.base", "must be at least 1, or a small load has no directory")
	}

	classes := w.Files.Class
	if !f.good("files.class") {
		return
	}
	if len(classes) != fileset.Classes {
		f.report("files.class", "has %d classes; the law of the file set has %d", len(classes), fileset.Classes)
		return
	}
	var shares []float64
	for i, c := range classes {
		shares = append(shares, c.Share)
		at := element("files.class", i) + ".sizes"
		for j, n := range c.Sizes {
			file := fileset.File{Class: uint8(i), Num: uint8(j)}
			if !file.Valid() || !f.good(element(at, j)) {
				continue
			}
			if n != file.Size() {
				f.report(element(at, j), "is %d; the law of the file set says %d", n, file.Size())
			}
		}
		if f.good(at) && len(c.Sizes) != fileset.FilesPerClass {
			f.report(at, "has %d sizes; the law of the file set has %d", len(c.Sizes), fileset.FilesPerClass)
		}
	}
	f.sum("files.class", shares, func(i int) string { return element("files.class", i) + ".share" })
}

func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// good reports whether none of the fields is reported already.
func (f *form) good(paths ...string) bool {
	for _, p := range paths {
		for ; p != ""; p = parent(p) {
			if f.faulty[p] {
				return false
			}
		}
	}
	return true
}

func (f *form) whole(path string, n, low, high int64) {
	switch {
	case !f.good(path) || n >= low && n <= high:
	case low == high:
		f.report(path, "is %d, must be %d", n, low)
	default:
		f.report(path, "is %d, must be from %d to %d", n, low, high)
	}
}

// ordered checks a <= b and blames the field that stands in the file, not the
// one that came with the base.
func (f *form) ordered(low string, a int64, high string, b int64) {
	if !f.good(low, high) || a <= b {
		return
	}
	if _, ok := f.places[high]; ok {
		f.report(high, "is %d, less than %s (%d)", b, low, a)
		return
	}
	f.report(low, "is %d, more than %s (%d)", a, high, b)
}

func (f *form) number(path string, x, low, high float64) {
	if f.good(path) && !(x >= low && x <= high) { // a NaN fails too
		f.report(path, "is %v, must be from %v to %v", x, low, high)
	}
}

func (f *form) share(path string, x float64) { f.number(path, x, 0, 1) }

// sum checks shares and that they make up the whole.
func (f *form) sum(path string, shares []float64, name func(i int) string) {
	total, whole := 0.0, true
	for i, x := range shares {
		f.share(name(i), x)
		whole = whole && f.good(name(i))
		total += x
	}
	if whole && math.Abs(total-1) > shareSlack {
		f.report(path, "shares sum to %.9g, must sum to 1", total)
	}
}

func (f *form) span(path string, d, low time.Duration) {
	const high = 24 * time.Hour
	if f.good(path) && (d < low || d > high) {
		f.report(path, "is %v, must be from %v to %v", d, low, high)
	}
}

func (f *form) oneOf(path, s string, words ...string) {
	if f.good(path) && !slices.Contains(words, s) {
		if len(words) == 1 {
			f.report(path, "is %q, must be %q", s, words[0])
			return
		}
		f.report(path, "is %q, must be one of %s", s, list(words))
	}
}

func (f *form) name(path, s string) {
	ok := len(s) >= 1 && len(s) <= 64 && s[0] != '-' && s[0] != '.'
	for _, c := range []byte(s) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-_.", c) >= 0)
	}
	if !ok && f.good(path) {
		f.report(path, "is %q, must be 1 to 64 of a-z, 0-9, '-', '_' and '.'", s)
	}
}

// route accepts an absolute path that needs no escaping and has no query.
func (f *form) route(path, s string) {
	ok := len(s) >= 2 && len(s) <= 255 && s[0] == '/'
	for _, c := range []byte(s) {
		ok = ok && c > ' ' && c < 0x7f && strings.IndexByte(`?#%&"<>\`, c) < 0
	}
	if !ok && f.good(path) {
		f.report(path, `is %q, must be an absolute path as "/web99/get"`, s)
	}
}

func (f *form) permutation(path string, p []int, n int) {
	if !f.good(path) {
		return
	}
	for i := range p {
		if !f.good(element(path, i)) {
			return
		}
	}
	sorted := slices.Sorted(slices.Values(p))
	for i := range max(n, len(sorted)) {
		if i >= n || i >= len(sorted) || sorted[i] != i {
			f.report(path, "must hold each number from 0 to %d once", n-1)
			return
		}
	}
}

// paths lists the fields and tables of a struct type.
func paths(path string, t reflect.Type) []string {
	var all []string
	for i := range t.NumField() {
		field := t.Field(i)
		at := join(path, field.Tag.Get("toml"))
		all = append(all, at)
		under := field.Type
		for under.Kind() == reflect.Pointer || under.Kind() == reflect.Slice {
			under = under.Elem()
		}
		if under.Kind() == reflect.Struct {
			all = append(all, paths(at, under)...)
		}
	}
	return all
}
