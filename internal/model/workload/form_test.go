package workload

import (
	"bytes"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidemark.dev/internal/ground/fault"
	"tidemark.dev/internal/model/fileset"
)

func TestPresets(t *testing.T) {
	for _, name := range Names() {
		w, err := Preset(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if w.Name != name || w.Version != Version || w.About == "" {
			t.Errorf("%s says it is %q, version %d, %q", name, w.Name, w.Version, w.About)
		}
		for i, want := range [...]struct{ load, dirs int }{{500, 352}, {1008, 685}, {1445, 972}, {2110, 1408}, {5510, 3638}} {
			if got := w.Dirs(want.load); got != want.dirs {
				t.Errorf("%s: row %d: load %d needs %d directories, want %d", name, i, want.load, got, want.dirs)
			}
		}
	}
	w := web99(t)
	want := &Workload{
		Version: 1, Name: "web99", About: w.About, Assumed: w.Assumed,
		Files: Files{Law: "web99", Zipf: 1, Order: []int{4, 3, 5, 2, 6, 1, 7, 8, 0},
			Directories: Directories{Base: 25, BitsPerOp: 122000, OpsPerDirectory: 5, Zipf: 1}, Class: w.Files.Class},
		Mix:      Mix{0.70, 0.1245, 0.0015, 0.126, 0.048},
		Sessions: Sessions{KeepaliveShare: 0.7, Of: OfRequests, Shortest: 5, Longest: 15, HTTP10Single: 1},
		Pacing: Pacing{Mode: "rated", LineBps: 400_000, QuantumBytes: 16 * 1460, RecvBufferBytes: 60000,
			SegmentBytes: 1460, Timeout: 30 * time.Second, Backoff: 100 * time.Millisecond},
		Conformance: Conformance{FloorBps: 320_000, PassShare: 0.99, ErrorShare: 0.01, MinOps: 300, RawFrom: 1200 * time.Second},
		Routes:      Routes{"/web99/get", "/web99/cgi", "/web99/cad", "/web99/post", "/web99/command"},
		Users:       Users{1, 100}, Ads: Ads{360, []int{1, 100}},
	}
	if d := cmp.Diff(want, w); d != "" {
		t.Errorf("web99 (-want +got):\n%s", d)
	}
	tls, _ := Preset("web99-tls")
	if tls.TLS == nil || w.TLS != nil {
		t.Fatal("web99-tls is not the one with TLS")
	}
	plain := *tls
	plain.TLS = nil
	if plain.Digest() != w.Digest() || tls.Digest() == w.Digest() {
		t.Error("web99-tls must be web99 with TLS and nothing else")
	}
	if !slices.Equal(tls.Assumed, append(slices.Clone(w.Assumed), "tls")) {
		t.Error("web99-tls does not repeat what web99 assumes")
	}
	if _, err := Preset("web2005"); fault.OriginOf(err) != fault.Config || !strings.Contains(err.Error(), "web99-tls") {
		t.Errorf("unknown preset: %v", err)
	}
}

// Each line of a preset that states a number carries its source; each field
// whose only marks are [M], [U] or [D] is listed as assumed, no other is.
func TestPresetsNameTheirSources(t *testing.T) {
	mark := regexp.MustCompile(`\[(S|I|M|U|D|[QC][:\] ])`)
	firm := regexp.MustCompile(`\[(S|[QC][:\] ])`)
	header := regexp.MustCompile(`^\[+([a-z.]+)\]+`)
	for _, name := range Names() {
		src, err := Source(name)
		if err != nil {
			t.Fatal(err)
		}
		w, _ := Preset(name)
		table, above := "", ""
		for i, line := range strings.Split(string(src), "\n") {
			if m := header.FindStringSubmatch(line); m != nil {
				table, above = m[1], line
				continue
			}
			key, value, ok := strings.Cut(line, " = ")
			if !ok || table == "" || strings.HasPrefix(line, "#") || strings.HasPrefix(line, " ") {
				continue
			}
			if key == "law" || key == "versions" && table == "" {
				continue
			}
			if key == "sizes" {
				value = above // one source for the nine of them
			}
			if !mark.MatchString(value) {
				t.Errorf("%s.toml:%d: no source: %s", name, i+1, line)
			}
			assumed := slices.Contains(w.Assumed, table+"."+key) || slices.Contains(w.Assumed, table)
			if !firm.MatchString(value) && !assumed && table != "routes" && table+"."+key != "conformance.pass_share" {
				t.Errorf("%s.toml:%d: %s.%s has no firm source and is not listed as assumed", name, i+1, table, key)
			}
		}
	}
}

// valid is a small valid file: web99 with the other session reading.
const valid = `version = 1
name = "mine"
base = "web99"
[sessions]
of = "connections"
`

func TestBase(t *testing.T) {
	w, err := Parse("mine.toml", []byte(valid))
	if err != nil {
		t.Fatal(err)
	}
	want := *web99(t)
	want.Name, want.About, want.Assumed = "mine", "", nil
	want.Sessions.Of = OfConnections
	if d := cmp.Diff(&want, w); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Every problem of a file is reported at once, in its place.
func TestProblems(t *testing.T) {
	for _, v := range []struct {
		name string
		src  string
		want string
	}{
		{"all kinds at once", `version = 2
name = "No Good"
base = "web99"
colour = "red"
assumed = ["mix.get", "mix.put"]

[mix]
static = 0.5
post = "many"

[files]
order = [4, 3, 5, 2, 6, 1, 7, 8, 8]
zipf = -1
[files.directories]
base = 1.5

[[files.class]]
share = 1.2
sizes = [102, 204, 307, 409, 512, 614, 716, 819, 922]
[[files.class]]
sizes = []
  speed = 3

[pacing]
timeout = 30
line_bps = 100000
mode = "fast"
x.y = 1

[tls]
versions = ["1.3", "1.1", "1.3"]
resume_share = nan
`, `w.toml:1:1: version: is 2, must be 1
w.toml:2:1: name: is "No Good", must be 1 to 64 of a-z, 0-9, '-', '_' and '.'
w.toml:4:1: colour: unknown key (here: version, name, about, assumed, files, mix, sessions, pacing, conformance, routes, users, ads, tls)
w.toml:5:23: assumed[1]: "mix.put" is no field
w.toml:9:1: mix.post: must be a number
w.toml:12:1: files.order: must hold each number from 0 to 8 once
w.toml:13:1: files.zipf: is -1, must be from 0 to 10
w.toml:15:1: files.directories.base: must be a whole number
w.toml:17:9: files.class: has 2 classes; the law of the file set has 4
w.toml:20:9: files.class[1].share: is missing
w.toml:22:3: files.class[1].speed: unknown key (here: share, sizes)
w.toml:25:1: pacing.timeout: must be a duration as "30s" or "1m30s"
w.toml:26:1: pacing.line_bps: is 100000, less than conformance.floor_bps (320000)
w.toml:27:1: pacing.mode: is "fast", must be one of rated, deferred, none
w.toml:28:1: pacing.x: unknown key (here: mode, line_bps, quantum_bytes, recv_buffer_bytes, segment_bytes, timeout, backoff)
w.toml:30:2: tls.key: is missing
w.toml:31:20: tls.versions[1]: is "1.1", must be one of 1.2, 1.3
w.toml:31:27: tls.versions[2]: is named twice
w.toml:32:1: tls.resume_share: is NaN, must be from 0 to 1
`},
		{"no base", "version = 1\nname = \"x\"\n[mix]\nstatic = 1\n", `w.toml:1:1: files: is missing
w.toml:1:1: sessions: is missing
w.toml:1:1: pacing: is missing
w.toml:1:1: conformance: is missing
w.toml:1:1: routes: is missing
w.toml:1:1: users: is missing
w.toml:1:1: ads: is missing
w.toml:3:2: mix.get: is missing
w.toml:3:2: mix.cgi: is missing
w.toml:3:2: mix.cad: is missing
w.toml:3:2: mix.post: is missing
`},
		{"wrong base", "version = 1\nname = \"x\"\nbase = \"web98\"\nmix = 3\n", `w.toml:3:1: base: must name a preset: web99, web99-tls
w.toml:4:1: mix: must be a table
`},
		{"syntax", "version = 1\nname = \n", "w.toml:2:8: unexpected"},
		{"defined twice", "version = 1\nversion = 1\n", "w.toml:2:"},
		{"sums", valid + "[mix]\nstatic = 0.6\n", "w.toml:6:2: mix: shares sum to 0.9, must sum to 1\n"},
		{"inline tables", "version = 1\nname = \"x\"\nbase = \"web99\"\nads = {count = 0, exp = [1, \"b\"]}\nsessions.longest = 4\n", `w.toml:4:8: ads.count: is 0, must be from 1 to 360
w.toml:4:29: ads.exp[1]: must be a whole number
w.toml:5:10: sessions.longest: is 4, less than sessions.shortest (5)
`},
		{"sizes are the law's", valid + `[[files.class]]
share = 0.35
sizes = [102, 204, 307, 409, 512, 614, 716, 819, 922]
[[files.class]]
share = 0.5
sizes = [1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 9216, 9999]
[[files.class]]
share = 0.14
sizes = [10240, 20480, 30720, 40960, 51200, 61440, 71680, 81920, 92160]
[[files.class]]
share = 0.02
sizes = [102400, 204800, 307200, 409600, 512000, 614400, 716800, 819200, 921600]
`, `w.toml:6:9: files.class: shares sum to 1.01, must sum to 1
w.toml:8:50: files.class[0].sizes[8]: is 922; the law of the file set says 921
w.toml:11:1: files.class[1].sizes: has 10 sizes; the law of the file set has 9
`},
		{"routes", valid + "[routes]\nget = \"web99/get\"\ncgi = \"/a b\"\ncad = \"/x?y\"\npost = \"/\"\n", `w.toml:7:1: routes.get: is "web99/get", must be an absolute path as "/web99/get"
w.toml:8:1: routes.cgi: is "/a b", must be an absolute path as "/web99/get"
w.toml:9:1: routes.cad: is "/x?y", must be an absolute path as "/web99/get"
w.toml:10:1: routes.post: is "/", must be an absolute path as "/web99/get"
`},
		{"floor above line", valid + "[conformance]\nfloor_bps = 400001\n", "w.toml:7:1: conformance.floor_bps: is 400001, more than pacing.line_bps (400000)\n"},
		{"line below floor", valid + "[pacing]\nline_bps = 300000\n", "w.toml:7:1: pacing.line_bps: is 300000, less than conformance.floor_bps (320000)\n"},
		{"empty", "", "w.toml:1:1: version: is missing\n"},
		{"no directory", valid + "[files.directories]\nbase = 0\n", "w.toml:7:1: files.directories.base: must be at least 1, or a small load has no directory\n"},
	} {
		w, err := Parse("w.toml", []byte(v.src))
		if err == nil || w != nil {
			t.Errorf("%s: accepted", v.name)
			continue
		}
		if fault.OriginOf(err) != fault.Config {
			t.Errorf("%s: origin %v", v.name, fault.OriginOf(err))
		}
		got := err.Error() + "\n"
		if v.name == "syntax" || v.name == "defined twice" || v.name == "empty" {
			if !strings.HasPrefix(got, v.want) {
				t.Errorf("%s: got %q, want prefix %q", v.name, got, v.want)
			}
			continue
		}
		if d := cmp.Diff(strings.Split(v.want, "\n"), strings.Split(got, "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", v.name, d)
		}
	}
}

// The canonical form reads back, and the digest sees numbers only.
func TestEncode(t *testing.T) {
	for _, name := range Names() {
		w, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		w.About = "tab\there, quote \" and \\ and \x7f and é"
		back, err := Parse("canonical", w.Encode())
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, w.Encode())
		}
		if d := cmp.Diff(w, back); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if !bytes.Equal(back.Encode(), w.Encode()) {
			t.Errorf("%s: encodes differently the second time", name)
		}
	}
	w := web99(t)
	before := w.Digest()
	w.Name, w.About, w.Assumed = "other", "other", nil
	if w.Digest() != before {
		t.Error("a name changes the digest")
	}
	w.Mix.Static, w.Mix.Get = w.Mix.Get, w.Mix.Static
	if w.Digest() == before {
		t.Error("the mix does not change the digest")
	}
}

// A change of these is a change of the preset or of the canonical form: results
// made before cannot be compared with results made after.
func TestDigests(t *testing.T) {
	for name, want := range map[string]string{
		"web99":     "sha256:88f26bc3540fbbc10d17ded275bf225dd2169fd162510a6d35e52596ce068093",
		"web99-tls": "sha256:0047f2ede32641565ab9e34c35d800863e53808070b9808026f09c5f08ac47d6",
	} {
		w, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Digest(); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestDirsAndUsers(t *testing.T) {
	w := web99(t)
	rapid.Check(t, func(t *rapid.T) {
		load := rapid.IntRange(-10, 200_000).Draw(t, "load")
		if got, want := w.Dirs(load), min(fileset.Dirs(load), fileset.MaxDirs+1); got != want {
			t.Fatalf("load %d: %d directories, the file set says %d", load, got, want)
		}
	})
	if got := w.Dirs(math.MaxInt); got != fileset.MaxDirs+1 {
		t.Errorf("absurd load: %d directories", got)
	}
	fixed := *w
	fixed.Files.Directories.Fixed = 20
	if got := fixed.Dirs(5510); got != 20 {
		t.Errorf("fixed: %d directories", got)
	}
	for _, v := range []struct {
		per        float64
		load, want int
	}{{1, 500, 500}, {1, 0, 100}, {1, -3, 100}, {0.5, 1001, 501}, {0, 5000, 100}, {1, math.MaxInt32, MaxUsers}, {1000, 5510, MaxUsers}} {
		u := *w
		u.Users.PerConnection = v.per
		if got := u.UserCount(v.load); got != v.want {
			t.Errorf("%v per connection, load %d: %d users, want %d", v.per, v.load, got, v.want)
		}
	}
}

// The manual names every field of the form.
func TestManualIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../../docs/formats/workload.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths("", reflect.TypeFor[Workload]()) {
		if !bytes.Contains(text, []byte("`"+p+"`")) {
			t.Errorf("docs/formats/workload.md does not mention `%s`", p)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		src, err := Source(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte(valid))
	f.Add([]byte("[[files.class]]\n[files.class.x]\n[a.\"b c\"]\nd = [[1], {e = 1}]\n"))
	f.Add([]byte("version = 1\nname = \"x\"\nbase = \"web99\"\npacing.timeout = \"1s\"\nads.exp = []\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		w, err := Parse("f", src)
		if err != nil {
			for _, p := range fault.AsProblems(err) {
				if p.Text == "" || p.Line < 1 || p.Line > bytes.Count(src, []byte("\n"))+1 {
					t.Fatalf("problem without place: %+v", p)
				}
			}
			return
		}
		back, err := Parse("g", w.Encode())
		if err != nil {
			t.Fatalf("canonical form refused: %v\n%s", err, w.Encode())
		}
		if back.Digest() != w.Digest() {
			t.Fatal("digest changed")
		}
		s := w.Sampler(min(w.Dirs(1), 2), min(w.UserCount(1), 3)) // a valid workload can be drawn from
		c := Cursor{Seed: 1}
		var op Op
		s.First(&c, &op)
		for range 20 {
			s.Next(&c, &op)
			if !op.File.Valid() || op.Kind >= Kinds {
				t.Fatalf("%+v", op)
			}
		}
	})
}
