package lint

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// plant makes a tree of files, each "path" followed by its text. Brackets keep the
// words this very package looks for out of its own source: "[]" vanishes.
func plant(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for p, text := range files {
		m[strings.ReplaceAll(p, "[]", "")] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, "[]", ""))}
	}
	return m
}

// clean is a small tree that keeps every rule, with everything that comes close.
func clean() map[string]string {
	return map[string]string{
		"go.mod":                         "module tidemark.dev\n\ngo 1.26\n\nrequire github.com/spf13/cobra v1.10.2\n\nrequire (\n\tgolang.org/x/sys v0.50.0\n\tother.example/x/y v1.0.0 // indirect\n)\n",
		"docs/dependencies.md":           "golang.org/x/sys: calls. spf13/cobra: flags.\n",
		"README.md":                      "A successor of SPEC[]web99.\n",
		"logo.png":                       "\x00/home[]/me/ SPEC[]web",
		".git/config":                    "SPEC[]web",
		"docs/mirror/.git":               "gitdir: /home[]/me/repository/.git/worktrees/mirror",
		"bin/x.go":                       "not Go",
		"internal/ground/clock/clock.go": "// Package clock is time.\npackage clock\n\nimport \"golang.org/x/sys/unix\"\n\nfunc Now() int { return unix.CLOCK_MONOTONIC }\n\ntype Instant int\n",
		"internal/model/pace/pace.go": `// Package pace is pure.
package pace

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"tidemark.dev/internal/ground/clock"
)

var Table, _ = [3]int{1, 2, 3}, 0

func F(r *rand.Rand, a netip.Addr, d time.Duration) clock.Instant {
	os := struct{ Exit int }{}
	os.Exit = 3 // a local of that name
	table := Table
	table[0]++ // a copy
	_ = rand.New(rand.NewPCG(1, 2))
	_ = F
	return clock.Instant(os.Exit)
}
`,
		"internal/model/pace/pace_test.go": "package pace\n\nimport (\n\t\"os\"\n\t\"testing\"\n\t\"tidemark.dev/internal/edge/cli\"\n\t\"pgregory.net/rapid\"\n)\n\nfunc init() { Table[0] = 1; go cli.Main(); os.Exit(1); rapid.Check(nil, nil) }\n\nfunc TestX(*testing.T) {}\n",
		"internal/model/web99/web99.go":    "// Package web99 is facts.\npackage web99\n",
		"internal/engine/loop/loop.go":     "// Package loop loops.\npackage loop\n\nimport \"tidemark.dev/internal/ground/clock\"\n\nvar _ = clock.Now\n",
		"internal/drive/slot/slot.go":      "// Package slot drives.\npackage slot\n\nimport (\n\t\"tidemark.dev/disclosure\"\n\t\"tidemark.dev/internal/engine/loop\"\n\t\"tidemark.dev/internal/model/pace\"\n)\n",
		"internal/serve/h1/h1.go":          "// Package h1 serves.\npackage h1\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"tidemark.dev/internal/engine/loop\"\n\t\"tidemark.dev/page\"\n)\n\nvar _ = os.Open\n\nfunc f() string { return fmt.Sprint(os.Getpid()) }\n",
		"page/page.go":                     "// Package page is public.\npackage page\n\nimport \"net/netip\"\n\ntype Request struct{ Remote netip.Addr }\n",
		"disclosure/disclosure.go": `// Package disclosure is public.
package disclosure

import "github.com/HdrHistogram/hdrhistogram-go"

type Open struct {
	Count  int
	hidden *hdrhistogram.Histogram
}

type closed struct{ H *hdrhistogram.Histogram }

func (c *closed) Get() *hdrhistogram.Histogram { return c.H }

var kept = hdrhistogram.New(1, 2, 3)

func Read() int {
	h := hdrhistogram.New(1, 2, 3)
	return int(h.Max())
}
`,
		"pages/pages.go":             "// Package pages are pages.\npackage pages\n\nimport (\n\t\"tidemark.dev/internal/model/web99\"\n\t\"tidemark.dev/page\"\n)\n",
		"internal/edge/cli/cli.go":   "// Package cli is the command line.\npackage cli\n\nimport (\n\t\"log/slog\"\n\t\"github.com/spf13/cobra\"\n\t\"tidemark.dev/internal/drive/slot\"\n\t\"tidemark.dev/internal/edge/proc\"\n\t\"tidemark.dev/internal/serve/h1\"\n)\n",
		"internal/edge/proc/proc.go": "// Package proc is the process.\npackage proc\n\nimport (\n\t\"os\"\n\t\"os/signal\"\n)\n\nfunc Real() { signal.Notify(nil); os.Exit(len(os.Args)) }\n",
		"cmd/tidemark/main.go":       "// Command tidemark.\npackage main\n\n" + strings.Repeat("// comment\n\n", 40) + "func main() {}\n",
		"internal/lint/lint.go":      "// Package lint checks.\npackage lint\n",
	}
}

// program is a Go file of a package with imports and a body.
func program(pkg string, imports []string, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "// Package %s is planted.\npackage %s\n", pkg, pkg)
	for _, i := range imports {
		fmt.Fprintf(&b, "import %q\n", i)
	}
	return b.String() + body
}

func importing(pkg string, imports ...string) string { return program(pkg, imports, "") }

// planted is one breach of one rule.
type planted struct {
	rule string
	path string // of the file to add or replace
	text string
	want string // place and text of each finding, a line each
}

func breaches() []planted {
	const own = "tidemark.dev/"
	list := []planted{
		{"place", "internal/stray/stray.go", importing("stray"), "internal/stray: is in no layer"},

		{"ground", "internal/ground/clock/more.go", importing("clock", own+"internal/model/pace"), "internal/ground/clock/more.go:3: imports internal/model/pace"},
		{"model", "internal/model/pace/more.go", importing("pace", own+"internal/engine/loop"), "internal/model/pace/more.go:3: imports internal/engine/loop"},
		{"engine", "internal/engine/loop/more_darwin.go", importing("loop", own+"internal/model/pace"), "internal/engine/loop/more_darwin.go:3: imports internal/model/pace"},
		{"drive", "internal/drive/slot/more.go", importing("slot", own+"internal/edge/proc"), "internal/drive/slot/more.go:3: imports internal/edge/proc"},
		{"serve", "internal/serve/h1/more.go", importing("h1", own+"internal/edge/cli"), "internal/serve/h1/more.go:3: imports internal/edge/cli"},
		{"page", "page/more.go", importing("page", own+"internal/ground/clock"), "page/more.go:3: imports internal/ground/clock"},
		{"pages", "pages/more.go", importing("pages", own+"internal/model/pace"), "pages/more.go:3: imports internal/model/pace"},
		{"disclosure", "disclosure/more.go", importing("disclosure", own+"internal/ground/clock"), "disclosure/more.go:3: imports internal/ground/clock"},
		{"lint", "internal/lint/more.go", importing("lint", own+"page"), "internal/lint/more.go:3: imports page"},

		{"blind", "internal/serve/h1/more.go", importing("h1", own+"internal/model/web99"), "internal/serve/h1/more.go:3: reaches internal/model/web99: internal/serve/h1 -> internal/model/web99"},
		{"blind", "page/more.go", importing("page", own+"internal/model/web99"), "internal/serve/h1/h1.go:8: reaches internal/model/web99: internal/serve/h1 -> page -> internal/model/web99\npage/more.go:3: reaches internal/model/web99: page -> internal/model/web99"},
		{"blind", "internal/engine/loop/more.go", importing("loop", own+"internal/model/web99"), "internal/serve/h1/h1.go:7: reaches internal/model/web99: internal/serve/h1 -> internal/engine/loop -> internal/model/web99"},
		{"halves", "internal/drive/slot/more.go", importing("slot", own+"internal/serve/h1"), "internal/drive/slot/more.go:3: reaches internal/serve/h1: internal/drive/slot -> internal/serve/h1"},
		{"halves", "internal/serve/h1/more.go", importing("h1", own+"internal/drive/slot"), "internal/serve/h1/more.go:3: reaches internal/drive/slot: internal/serve/h1 -> internal/drive/slot"},

		{"home", "internal/serve/h1/more.go", importing("h1", "github.com/spf13/cobra"), "internal/serve/h1/more.go:3: imports github.com/spf13/cobra, which is not at home here"},
		{"home", "internal/edge/cli/more.go", importing("cli", "pgregory.net/rapid"), "internal/edge/cli/more.go:3: imports pgregory.net/rapid, which is not at home here"},
		{"dependencies", "go.mod", "module tidemark.dev\nrequire example.org/new/thing/v3 v3.0.0\n", "go.mod:2: example.org/new/thing/v3 is not explained in docs/dependencies.md"},

		{"pure", "internal/model/pace/more.go", program("pace", nil, "func g() { go g() }\n"), "internal/model/pace/more.go:3: starts a goroutine"},

		{"exposed", "disclosure/more.go", program("disclosure", []string{"github.com/HdrHistogram/hdrhistogram-go"}, "type T struct{ H *hdrhistogram.Histogram }\n"), "disclosure/more.go:4: exposes hdrhistogram.Histogram of github.com/HdrHistogram/hdrhistogram-go"},
		{"exposed", "disclosure/more.go", program("disclosure", []string{"github.com/HdrHistogram/hdrhistogram-go"}, "type T struct{ *hdrhistogram.Histogram }\n"), "disclosure/more.go:4: exposes hdrhistogram.Histogram of github.com/HdrHistogram/hdrhistogram-go"},
		{"exposed", "disclosure/more.go", program("disclosure", []string{"github.com/klauspost/compress/zstd"}, "func (o *Open) F(...zstd.EOption) {}\n"), "disclosure/more.go:4: exposes zstd.EOption of github.com/klauspost/compress/zstd"},
		{"exposed", "disclosure/more.go", program("disclosure", []string{"github.com/klauspost/compress/zstd"}, "type G[T zstd.X] interface{}\n"), "disclosure/more.go:4: exposes zstd.X of github.com/klauspost/compress/zstd"},
		{"exposed", "disclosure/more.go", program("disclosure", []string{"github.com/klauspost/compress/zstd"}, "var V = zstd.New()\n"), "disclosure/more.go:4: exposes zstd.New of github.com/klauspost/compress/zstd"},
		{"exposed", "disclosure/more.go", program("disclosure", []string{"github.com/klauspost/compress/zstd"}, "var V zstd.X\n"), "disclosure/more.go:4: exposes zstd.X of github.com/klauspost/compress/zstd"},
		{"exposed", "page/more.go", program("page", []string{own + "internal/ground/clock"}, "type P interface{ F() clock.Instant }\n"), "page/more.go:4: exposes clock.Instant of tidemark.dev/internal/ground/clock"},

		{"process", "internal/edge/cli/more.go", importing("cli", "os/signal"), "internal/edge/cli/more.go:3: imports os/signal"},
		{"process", "internal/edge/cli/more.go", importing("cli", "flag"), "internal/edge/cli/more.go:3: imports flag"},
		{"silent", "internal/edge/cli/more.go", importing("cli", "log"), "internal/edge/cli/more.go:3: imports log"},
		{"silent", "internal/drive/slot/more.go", importing("slot", "log/slog"), "internal/drive/slot/more.go:3: imports log/slog"},
		{"silent", "internal/edge/cli/more.go", program("cli", []string{"fmt"}, "func g() { fmt.Println() }\n"), "internal/edge/cli/more.go:4: uses fmt.Println"},
		{"silent", "internal/drive/slot/more.go", program("slot", nil, "func g() { println(1) }\n"), "internal/drive/slot/more.go:3: calls println"},
		{"init", "cmd/tidemark/more.go", program("main", nil, "func init() {}\n"), "cmd/tidemark/more.go:3: has an init function"},

		{"state", "internal/model/pace/more.go", program("pace", nil, "func g() { Table[1] = 2 }\n"), "internal/model/pace/more.go:3: assigns to the package variable Table"},
		{"state", "internal/model/pace/more.go", program("pace", nil, "var n int\n\nfunc g() { n++ }\n"), "internal/model/pace/more.go:5: assigns to the package variable n"},
		{"state", "internal/model/pace/more.go", program("pace", nil, "var p *struct{ a int }\n\nfunc g() { (*p).a, _ = 1, 2 }\n"), "internal/model/pace/more.go:5: assigns to the package variable p"},
		{"state", "internal/serve/h1/more.go", program("h1", []string{"net/http"}, "func g() { http.DefaultClient = nil }\n"), "internal/serve/h1/more.go:4: assigns to http.DefaultClient"},

		{"names", "internal/serve/util/util.go", importing("util"), "internal/serve/util/util.go:2: package util is a drawer"},
		{"names", "internal/serve/io/io.go", importing("io"), "internal/serve/io/io.go:2: package io is one of the standard library"},
		{"names", "internal/serve/two_words/a.go", importing("two_words"), "internal/serve/two_words/a.go:2: package two_words is not one lower-case word"},
		{"names", "internal/serve/files/a.go", importing("cache"), "internal/serve/files/a.go:2: package cache stands in directory files"},
		{"comment", "internal/serve/files/a.go", "package files\n", "internal/serve/files: has no package comment"},

		{"budget", "internal/serve/h1/more.go", program("h1", nil, strings.Repeat("// x\n", 600)), "internal/serve/h1/more.go: 602 lines"},
		{"main", "cmd/tidemark/more.go", program("main", nil, "var s = `"+strings.Repeat("\n", 27)+"`\n"), "cmd/tidemark: 31 lines of code"},

		{"trademark", "internal/serve/h1/more.go", program("h1", nil, "// as in SPEC[]web99\n"), "internal/serve/h1/more.go:3: says \"SPEC[]web\""},
		{"trademark", "docs/tutorial.md", "a\nour spec-[]web run\n", "docs/tutorial.md:2: says \"spec-[]web\""},
		{"trademark", "docs/design/spec[]web.md", "about it\n", "docs/design/spec[]web.md: is named after it"},
		{"machine", "docs/tutorial.md", "cd /home[]/me/tidemark\n", "docs/tutorial.md:1: says \"/home[]/me/\""},
		{"machine", ".ci/run", "cd (/work[]/main)\n", ".ci/run:1: says \"(/work[]/\""},
		{"machine", "test/scripts/a.txt", "cd C:[]\\Users\\me\n", "test/scripts/a.txt:1: says \"C:[]\\\\Users\\\\\""},
		{"machine", "internal/serve/h1/more.go", program("h1", nil, "const dir = \"/[]tmp/x\"\n"), "internal/serve/h1/more.go:3: says \"\\\"/[]tmp/\""},
	}
	for _, i := range []string{"os", "os/exec", "net", "net/http", "syscall", "log", "crypto/rand", "unsafe", "runtime", "sync/atomic", "testing"} {
		list = append(list, planted{"pure", "internal/model/pace/more.go", importing("pace", i), "internal/model/pace/more.go:3: imports " + i})
	}
	for _, u := range []struct{ from, name, want string }{
		{"time", "Now", "time.Now"},
		{"time", "NewTimer", "time.NewTimer"},
		{"math/rand/v2", "IntN", "rand.IntN"},
		{"math/rand", "Int", "rand.Int"},
		{own + "internal/ground/clock", "Now", "clock.Now"},
		{own + "internal/ground/binlog", "NewWriter", "binlog.NewWriter"},
	} {
		use := "\nvar _ = " + u.want + "\n"
		list = append(list, planted{"pure", "internal/model/pace/more.go", program("pace", []string{u.from}, use), "internal/model/pace/more.go:5: uses " + u.want})
	}
	for _, u := range []string{"os.Args", "os.Exit", "os.Stdin", "os.Stdout", "os.Stderr", "os.Getenv", "os.LookupEnv", "os.Environ", "os.UserCacheDir"} {
		list = append(list, planted{"process", "internal/edge/cli/more.go", program("cli", []string{"os"}, "var _ = "+u+"\n"), "internal/edge/cli/more.go:4: uses " + u})
	}
	return list
}

// findings returns what Check says, as one-line texts, of one rule or of all.
func findings(t *testing.T, root fs.FS, rule string, exceptions ...Exception) (list []string, whole []Finding) {
	t.Helper()
	tree, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Check(tree, Rules(), exceptions) {
		if rule == "" || f.Rule == rule {
			first, _, _ := strings.Cut(f.String(), "\n")
			list, whole = append(list, first), append(whole, f)
		}
	}
	return list, whole
}

func TestACleanTreePasses(t *testing.T) {
	if list, _ := findings(t, plant(clean()), ""); list != nil {
		t.Errorf("found:\n%s", strings.Join(list, "\n"))
	}
}

func TestEveryBreachIsFoundWithItsReason(t *testing.T) {
	reasons := map[string]string{}
	for _, r := range Rules() {
		if reasons[r.Name] != "" || r.Reason == "" {
			t.Errorf("rule %q: named twice, or without a reason", r.Name)
		}
		reasons[r.Name] = r.Reason
	}
	tried := map[string]bool{}
	for _, b := range breaches() {
		tried[b.rule] = true
		t.Run(b.rule+" "+b.path, func(t *testing.T) {
			files := clean()
			files[b.path] = b.text
			list, whole := findings(t, plant(files), b.rule)
			if diff := cmp.Diff(strings.ReplaceAll(b.want, "[]", ""), strings.Join(list, "\n")); diff != "" {
				t.Fatal(diff)
			}
			if !strings.Contains(whole[0].String(), "\n\t"+b.rule+": "+reasons[b.rule]) {
				t.Errorf("without the reason: %s", whole[0])
			}
		})
	}
	for name := range reasons {
		if !tried[name] {
			t.Errorf("no breach of the rule %q is tried", name)
		}
	}
}

func TestThePackageBudgetCountsAllItsFiles(t *testing.T) {
	files := clean()
	for i := range 5 {
		files[fmt.Sprintf("internal/serve/files/f%d.go", i)] = program("files", nil, strings.Repeat("// x\n", 498))
	}
	files["internal/serve/files/f_test.go"] = program("files", nil, strings.Repeat("// x\n", 700))
	if list, _ := findings(t, plant(files), ""); list != nil {
		t.Errorf("2,500 lines: %s", list)
	}
	files["internal/serve/files/more.go"] = importing("files")
	list, _ := findings(t, plant(files), "")
	if diff := cmp.Diff([]string{"internal/serve/files: 2502 lines"}, list); diff != "" {
		t.Error(diff)
	}
}

func TestAnExceptionHoldsForItsRowAndMustBeNeeded(t *testing.T) {
	files := clean()
	files["internal/serve/h1/more.go"] = program("h1", []string{"os", "fmt"}, "func g() { fmt.Println(os.Args, os.Environ()) }\n")
	one := Exception{Rule: "process", Path: "internal/serve/h1/more.go", Reason: "for this test"}
	list, _ := findings(t, plant(files), "", one)
	if diff := cmp.Diff([]string{"internal/serve/h1/more.go:5: uses fmt.Println"}, list); diff != "" {
		t.Error(diff)
	}
	list, whole := findings(t, plant(clean()), "", one)
	if diff := cmp.Diff([]string{`internal/serve/h1/more.go: the exception from "process" is not needed any more`}, list); diff != "" {
		t.Error(diff)
	}
	if len(whole) == 1 && !strings.Contains(whole[0].Why, "only shrinks") {
		t.Errorf("reason %q", whole[0].Why)
	}
}

func TestAnExceptionFromABudgetHasALimitOfItsOwn(t *testing.T) {
	files := clean()
	files["internal/serve/h1/more.go"] = program("h1", nil, strings.Repeat("// x\n", 600))
	for most, want := range map[int]int{602: 0, 700: 0, 601: 2 /* too large, and the exception helps nothing */, 0: 2} {
		list, _ := findings(t, plant(files), "", Exception{Rule: "budget", Path: "internal/serve/h1/more.go", Reason: "for this test", Most: most})
		if len(list) != want {
			t.Errorf("%d lines allowed: %q", most, list)
		}
	}
}

func TestEveryExceptionHasAReasonAndARule(t *testing.T) {
	rules := map[string]bool{}
	for _, r := range Rules() {
		rules[r.Name] = true
	}
	for _, e := range Exceptions() {
		if !rules[e.Rule] || e.Reason == "" {
			t.Errorf("%+v", e)
		}
	}
}

func TestATreeThatCannotBeReadIsAnError(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no module":  {"a.go": "package a\n"},
		"bad syntax": {"go.mod": "module x\n", "a.go": "package\n"},
	} {
		if _, err := Load(plant(files)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestPackageNamesAreGuessedFromPaths(t *testing.T) {
	for p, want := range map[string]string{
		"net/netip": "netip", "math/rand/v2": "rand", "github.com/pelletier/go-toml/v2": "toml",
		"github.com/HdrHistogram/hdrhistogram-go": "hdrhistogram", "github.com/nats-io/nats.go": "nats", "v": "v",
	} {
		if got := guess(p); got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
}
