package lint

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Rules is the table. The order is that of docs and of thought: where a package
// stands, whom it may know, what it may do, how large it may be, what it may say.
func Rules() []Rule {
	rules := []Rule{
		{"place", "the layer is the directory, so every package stands in one", place},
	}
	for _, a := range arrows() {
		rules = append(rules, a.rule())
	}
	return append(rules,
		Rule{"blind", "the server must not be able to know that it is being measured, not even through a third package", blind},
		Rule{"halves", "the halves meet over the network and at the edge only, or the load is no load", halves},
		Rule{"home", "a dependency is used where its sentence in docs/dependencies.md says, so that it can be replaced there", home},
		Rule{"dependencies", "a dependency costs build time and trust; docs/dependencies.md gives the reason for each", dependencies},
		Rule{"pure", "the model is told the time and the seed and does nothing else, so that everything hard is a table test", pure},
		Rule{"exposed", "what outsiders compile against must not change when a dependency or an internal package does", exposed},
		Rule{"process", "arguments, environment, streams, signals and exit belong to internal/edge/proc and cmd, so that commands run in tests", process},
		Rule{"silent", "nobody below the edge logs or prints: errors are returned, events are typed, text is made at the edge", silent},
		Rule{"init", "what happens at start is written in one readable place and in order, not spread over imports", noInit},
		Rule{"state", "a package variable that is written ties together tests, loops and agents that should not meet", noState},
		Rule{"names", "a package is named after the one thing it is about; a drawer fills up, and a standard name must be renamed everywhere", names},
		Rule{"comment", "a reader starts at the package comment: what it is for, what to call first, what it does not do", comment},
		Rule{"budget", "a file has at most 600 lines and a package 2,500, tests not counted: larger ones have two subjects", budget},
		Rule{"main", "a main package has at most 30 lines of code: whatever is in it no test can call", mains},
		Rule{"trademark", "the retired benchmark's name is a trademark: our things are called web99, and only prose about the original names it", trademark},
		Rule{"machine", "a path of the author's machine is wrong on every other one", machine},
	)
}

// Exceptions from the rules. The list may only shrink, and so may the numbers in it.
func Exceptions() []Exception {
	return []Exception{}
}

// arrow is whom the packages of an area may import. Every one may import the
// standard library; the rule "home" speaks of third parties.
type arrow struct {
	name   string
	area   string
	may    []string // areas or packages of ours
	reason string
}

func arrows() []arrow {
	return []arrow{
		{"ground", "internal/ground", []string{"internal/ground"}, "ground knows bytes and time and nothing of the product above it"},
		{"model", "internal/model", []string{"internal/ground", "internal/model"}, "the model knows the benchmark; how it is carried out is above it"},
		{"engine", "internal/engine", []string{"internal/ground", "internal/engine"}, "the engine serves both halves, so it knows neither them nor the benchmark"},
		{"drive", "internal/drive", []string{"internal/ground", "internal/model", "internal/engine", "internal/drive", "disclosure"}, "the half that makes load stands on the engine and knows no server and no terminal"},
		{"serve", "internal/serve", []string{"internal/ground", "internal/engine", "internal/serve", "page"}, "the half that answers stands on the engine and knows no benchmark and no terminal"},
		{"page", "page", []string{"page"}, "page is the contract with other people's code and carries nothing of ours along"},
		{"pages", "pages", []string{"page", "internal/model/web99"}, "the web99 pages are written like any customer's: against page, and the wire facts they implement"},
		{"disclosure", "disclosure", []string{"disclosure"}, "a result must be readable without the program that measured it"},
		{"lint", "internal/lint", nil, "what checks the tree must not depend on it"},
	}
}

func (a arrow) rule() Rule {
	return Rule{a.name, a.reason, func(t *Tree, report Report) {
		t.files(func(_ *Package, f *File) {
			for _, i := range f.Imports {
				if dir, ok := t.own(i.Path); ok && !under(dir, a.may...) {
					report(f.Path, i.Line, "imports %s", dir)
				}
			}
		}, a.area)
	}}
}

// place: every package is in a known area.
func place(t *Tree, report Report) {
	areas := []string{"cmd", "page", "pages", "disclosure", "internal/lint", "internal/edge", "test", "bench"}
	for _, a := range arrows() {
		areas = append(areas, a.area)
	}
	for _, p := range t.Packages {
		if !under(p.Dir, areas...) {
			report(p.Dir, 0, "is in no layer")
		}
	}
}

// blind: no way leads from the serving half to benchmark knowledge.
func blind(t *Tree, report Report) {
	ways(t, report, []string{"internal/serve", "page"}, []string{"internal/model", "internal/drive"})
}

// halves: no way leads from one half to the other.
func halves(t *Tree, report Report) {
	ways(t, report, []string{"internal/drive"}, []string{"internal/serve"})
	ways(t, report, []string{"internal/serve"}, []string{"internal/drive"})
}

// ways reports every package of one area that reaches into another, with the way.
func ways(t *Tree, report Report, from, to []string) {
	for _, p := range t.Packages {
		if !under(p.Dir, from...) {
			continue
		}
		reach := t.reach(p.Dir)
		for _, q := range t.Packages {
			if _, ok := reach[q.Dir]; ok && under(q.Dir, to...) {
				chain, first := way(reach, p.Dir, q.Dir)
				report(first.path, first.line, "reaches %s: %s", q.Dir, chain)
			}
		}
	}
}

// homes lists the third-party modules and the directories that may import them,
// tests apart. A module without a row is at home nowhere: tests only.
func homes() map[string][]string {
	return map[string][]string{
		"golang.org/x/sys":                        {"internal/ground", "internal/engine", "internal/drive", "internal/serve", "internal/edge/proc"},
		"github.com/HdrHistogram/hdrhistogram-go": {"disclosure"},
		"github.com/klauspost/compress":           {"disclosure", "internal/serve"},
		"github.com/nats-io/nats-server/v2":       {"internal/drive/fleet"},
		"github.com/nats-io/nats.go":              {"internal/drive/fleet"},
		"github.com/pelletier/go-toml/v2":         {"internal/edge/config", "internal/model/workload"},
		"github.com/spf13/cobra":                  {"internal/edge/cli"},
		"github.com/spf13/pflag":                  {"internal/edge/cli"},
		"charm.land/bubbletea/v2":                 {"internal/edge/live"},
		"charm.land/lipgloss/v2":                  {"internal/edge/live"},
	}
}

func home(t *Tree, report Report) {
	t.files(func(p *Package, f *File) {
		for _, i := range f.Imports {
			if _, ok := t.own(i.Path); ok || standard(i.Path) {
				continue
			}
			ok := false
			for module, dirs := range homes() {
				ok = ok || under(i.Path, module) && under(p.Dir, dirs...)
			}
			if !ok {
				report(f.Path, i.Line, "imports %s, which is not at home here", i.Path)
			}
		}
	})
}

// dependencies: each direct requirement has a sentence.
func dependencies(t *Tree, report Report) {
	const doc = "docs/dependencies.md"
	var text string
	for _, f := range t.Texts {
		if f.Path == doc {
			text = string(f.Bytes)
		}
	}
	for _, d := range t.Direct {
		module := regexp.MustCompile(`/v\d+$`).ReplaceAllString(d.Text, "")
		if !strings.Contains(text, path.Base(module)) {
			report("go.mod", d.Number, "%s is not explained in %s", d.Text, doc)
		}
	}
}

// pure: no import, call or statement that reaches out of the model.
func pure(t *Tree, report Report) {
	const area = "internal/model"
	t.files(func(_ *Package, f *File) {
		for _, i := range f.Imports {
			if under(i.Path, "os", "net", "syscall", "log", "crypto/rand", "unsafe", "runtime", "sync", "testing", "io/ioutil", "plugin") && i.Path != "net/netip" {
				report(f.Path, i.Line, "imports %s", i.Path)
			}
		}
		f.uses(func(from, name string, at ast.Node) {
			bad := false
			switch from {
			case "time":
				bad = slices.Contains([]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"}, name)
			case "math/rand", "math/rand/v2":
				// Types and the constructors of seeded sources are welcome.
				bad = !strings.HasPrefix(name, "New") && !slices.Contains([]string{"Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf"}, name)
			case t.Module + "/internal/ground/clock":
				bad = slices.Contains([]string{"Now", "Wall", "Of", "Real"}, name)
			case t.Module + "/internal/ground/binlog":
				bad = slices.Contains([]string{"Open", "NewWriter"}, name)
			}
			if bad {
				report(f.Path, t.line(at), "uses %s.%s", path.Base(strings.TrimSuffix(from, "/v2")), name)
			}
		})
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				report(f.Path, t.line(g), "starts a goroutine")
			}
			return true
		})
	}, area)
}

// process: the process is touched in two places.
func process(t *Tree, report Report) {
	touchy := map[string][]string{
		"os": {
			"Args", "Exit", "Stdin", "Stdout", "Stderr", "Getenv", "LookupEnv", "Environ", "Setenv", "Unsetenv", "Clearenv",
			"Expand", "ExpandEnv", "UserHomeDir", "UserCacheDir", "UserConfigDir", "Getwd", "Chdir",
		},
		"syscall":               {"Exit", "Getenv", "Setenv", "Environ", "Stdin", "Stdout", "Stderr"},
		"golang.org/x/sys/unix": {"Getenv", "Setenv", "Environ", "Exit"},
	}
	t.files(func(p *Package, f *File) {
		if under(p.Dir, "internal/edge/proc", "cmd") {
			return
		}
		for _, i := range f.Imports {
			if i.Path == "os/signal" || i.Path == "flag" {
				report(f.Path, i.Line, "imports %s", i.Path)
			}
		}
		f.uses(func(from, name string, at ast.Node) {
			if slices.Contains(touchy[from], name) {
				report(f.Path, t.line(at), "uses %s.%s", path.Base(from), name)
			}
		})
	})
}

// silent: no text leaves a package below the edge but through what it returns.
func silent(t *Tree, report Report) {
	t.files(func(p *Package, f *File) {
		edge := under(p.Dir, "internal/edge", "cmd")
		for _, i := range f.Imports {
			if i.Path == "log" || i.Path == "log/slog" && !edge {
				report(f.Path, i.Line, "imports %s", i.Path)
			}
		}
		f.uses(func(from, name string, at ast.Node) {
			if from == "fmt" && slices.Contains([]string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"}, name) {
				report(f.Path, t.line(at), "uses fmt.%s", name)
			}
		})
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok {
				if x, ok := c.Fun.(*ast.Ident); ok && x.Obj == nil && (x.Name == "print" || x.Name == "println") {
					report(f.Path, t.line(c), "calls %s", x.Name)
				}
			}
			return true
		})
	})
}

func noInit(t *Tree, report Report) {
	t.files(func(_ *Package, f *File) {
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				report(f.Path, t.line(fn), "has an init function")
			}
		}
	})
}

// noState: no assignment to a variable of a package, this one's or another's.
func noState(t *Tree, report Report) {
	for _, p := range t.Packages {
		vars := map[string]bool{}
		for _, f := range p.Files {
			for _, d := range f.AST.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR && !f.Test {
					for _, s := range g.Specs {
						for _, n := range s.(*ast.ValueSpec).Names {
							vars[n.Name] = n.Name != "_"
						}
					}
				}
			}
		}
		for _, f := range p.Files {
			if !f.Test {
				assignments(t, f, vars, report)
			}
		}
	}
}

func assignments(t *Tree, f *File, vars map[string]bool, report Report) {
	imported := map[string]bool{}
	for _, i := range f.Imports {
		imported[i.Name] = true
	}
	check := func(e ast.Expr) {
		text := ""
		for {
			switch x := e.(type) {
			case *ast.SelectorExpr:
				e, text = x.X, "."+x.Sel.Name
				continue
			case *ast.IndexExpr:
				e = x.X
				continue
			case *ast.ParenExpr:
				e = x.X
				continue
			case *ast.StarExpr:
				e = x.X
				continue
			case *ast.Ident:
				if x.Obj == nil && imported[x.Name] && text != "" {
					report(f.Path, t.line(x), "assigns to %s%s", x.Name, text)
				} else if vars[x.Name] && packageLevel(f, x) {
					report(f.Path, t.line(x), "assigns to the package variable %s", x.Name)
				}
			}
			return
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch s := n.(type) {
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				for _, e := range s.Lhs {
					check(e)
				}
			}
		case *ast.IncDecStmt:
			check(s.X)
		}
		return true
	})
}

// packageLevel reports whether x stands for a declaration of its package: one in
// another file is not resolved, one in this file is in the file's scope.
func packageLevel(f *File, x *ast.Ident) bool {
	return x.Obj == nil || f.AST.Scope.Lookup(x.Name) == x.Obj
}

func names(t *Tree, report Report) {
	drawers := []string{"util", "utils", "common", "base", "helper", "helpers", "types", "manager", "misc", "lib", "core", "shared", "internal"}
	taken := []string{
		"bufio", "bytes", "cmp", "context", "crypto", "embed", "encoding", "errors", "expvar", "flag", "fmt", "hash", "html", "image", "io", "iter",
		"log", "maps", "math", "mime", "net", "os", "path", "plugin", "reflect", "regexp", "runtime", "slices", "sort", "strconv", "strings", "structs",
		"sync", "syscall", "testing", "time", "unicode", "unique", "unsafe", "weak",
	}
	word := regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	for _, p := range t.Packages {
		for _, f := range p.Files {
			name := strings.TrimSuffix(f.AST.Name.Name, "_test")
			switch {
			case f.Test || name == "main":
			case !word.MatchString(name):
				report(f.Path, t.line(f.AST.Name), "package %s is not one lower-case word", name)
			case slices.Contains(drawers, name):
				report(f.Path, t.line(f.AST.Name), "package %s is a drawer", name)
			case slices.Contains(taken, name):
				report(f.Path, t.line(f.AST.Name), "package %s is one of the standard library", name)
			case name != path.Base(p.Dir) && p.Dir != ".":
				report(f.Path, t.line(f.AST.Name), "package %s stands in directory %s", name, path.Base(p.Dir))
			}
		}
	}
}

func comment(t *Tree, report Report) {
	for _, p := range t.Packages {
		said, code := false, false
		for _, f := range p.Files {
			code = code || !f.Test
			said = said || f.AST.Doc != nil && !f.Test
		}
		if code && !said {
			report(p.Dir, 0, "has no package comment")
		}
	}
}

func budget(t *Tree, report Report) {
	const file, pkg = 600, 2500
	for _, p := range t.Packages {
		sum := 0
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			if sum += f.Lines; f.Lines > file {
				report(f.Path, 0, "%d lines", f.Lines)
			}
		}
		if sum > pkg {
			report(p.Dir, 0, "%d lines", sum)
		}
	}
}

func mains(t *Tree, report Report) {
	for _, p := range t.Packages {
		sum := 0
		for _, f := range p.Files {
			if f.AST.Name.Name == "main" && !f.Test && under(p.Dir, "cmd") {
				sum += f.Code
			}
		}
		if sum > 30 {
			report(p.Dir, 0, "%d lines of code", sum)
		}
	}
}

// trademark: the name in any spelling, but for files that speak about the original.
func trademark(t *Tree, report Report) {
	about := []string{
		"README.md",             // what we succeed, and that we are not it
		"docs/trademarks.md",    // whose name it is
		"docs/glossary.md",      // words of the original and ours
		"docs/design",           // history and sources
		"docs/formats/sheet.md", // the published pages are theirs
		"internal/model/sheet",  // reads those pages
	}
	name := regexp.MustCompile(`(?i)spec[\s_-]?` + `web`)
	for _, f := range t.Texts {
		if name.MatchString(f.Path) {
			report(f.Path, 0, "is named after it")
		}
		if !under(f.Path, about...) {
			lines(f, name, report)
		}
	}
}

// machine: paths that only exist where the author sat.
func machine(t *Tree, report Report) {
	anywhere := regexp.MustCompile(`(?:^|[^\w./-])(?:/` + `(?:work|home/\w+|Users/\w+|root/(?:go|src|work|\.\w+)|mnt|media)/|[A-Za-z]:\\` + `Users\\)`)
	temporary := regexp.MustCompile("[\"`]/" + "tmp(?:/|[\"`])")
	for _, f := range t.Texts {
		lines(f, anywhere, report)
		if strings.HasSuffix(f.Path, ".go") && !strings.HasSuffix(f.Path, "_test.go") {
			lines(f, temporary, report)
		}
	}
}

// lines reports every line of a text that matches.
func lines(f Text, what *regexp.Regexp, report Report) {
	number := 0
	for line := range strings.Lines(string(f.Bytes)) {
		number++
		if m := what.FindString(line); m != "" {
			report(f.Path, number, "says %q", strings.TrimSpace(m))
		}
	}
}
