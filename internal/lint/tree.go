package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Tree is a source tree, read.
type Tree struct {
	Module   string // path of the module, from go.mod
	Direct   []Line // modules it requires directly
	Packages []*Package
	Texts    []Text // every text file, Go and other
	fset     *token.FileSet
	byDir    map[string]*Package
}

// Line is a line of a file.
type Line struct {
	Number int
	Text   string
}

// Text is a file.
type Text struct {
	Path  string
	Bytes []byte
}

// Package is a directory with Go files.
type Package struct {
	Dir   string // relative to the root; "." for the root itself
	Files []*File
}

// File is a Go file, whatever system it is for.
type File struct {
	Path    string
	Test    bool
	Lines   int
	Code    int // lines that hold more than a comment
	AST     *ast.File
	Imports []Import
}

// Import is one import of a file.
type Import struct {
	Path string
	Name string // as the file says it, or a guess from the path
	Line int
}

// Load reads the tree below root, which must hold a go.mod. Hidden directories and
// those of build results are left out.
func Load(root fs.FS) (*Tree, error) {
	t := &Tree{fset: token.NewFileSet(), byDir: map[string]*Package{}}
	err := fs.WalkDir(root, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name := e.Name(); p != "." && (name == "bin" || strings.HasPrefix(name, "result") || strings.HasPrefix(name, ".") && name != ".ci") {
				return fs.SkipDir
			}
			return nil
		}
		if e.Name() == ".git" { // of a worktree: says where the repository lies
			return nil
		}
		b, err := fs.ReadFile(root, p)
		if err != nil || bytes.IndexByte(b, 0) >= 0 {
			return err // binary files are nobody's prose
		}
		t.Texts = append(t.Texts, Text{p, b})
		if p == "go.mod" {
			t.mod(b)
		}
		if strings.HasSuffix(p, ".go") && !slices.Contains(strings.Split(p, "/"), "testdata") {
			return t.add(p, b)
		}
		return nil
	})
	if err == nil && t.Module == "" {
		err = fmt.Errorf("no go.mod with a module line")
	}
	return t, err
}

// mod reads the module path and the direct requirements.
func (t *Tree) mod(b []byte) {
	number := 0
	for line := range strings.Lines(string(b)) {
		number++
		w := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		switch {
		case len(w) == 2 && w[0] == "module":
			t.Module = w[1]
		case len(w) == 2 && strings.Contains(w[0], ".") && strings.HasPrefix(w[1], "v"):
			t.Direct = append(t.Direct, Line{number, w[0]})
		}
	}
}

// add parses one Go file.
func (t *Tree) add(p string, b []byte) error {
	a, err := parser.ParseFile(t.fset, p, b, parser.ParseComments)
	if err != nil {
		return err
	}
	f := &File{Path: p, Test: strings.HasSuffix(p, "_test.go"), Lines: bytes.Count(b, []byte("\n")), Code: code(b), AST: a}
	for _, s := range a.Imports {
		to, err := strconv.Unquote(s.Path.Value)
		if err != nil {
			return err
		}
		i := Import{to, guess(to), t.fset.Position(s.Pos()).Line}
		if s.Name != nil {
			i.Name = s.Name.Name
		}
		f.Imports = append(f.Imports, i)
	}
	dir := path.Dir(p)
	pkg := t.byDir[dir]
	if pkg == nil {
		pkg = &Package{Dir: dir}
		t.byDir[dir] = pkg
		t.Packages = append(t.Packages, pkg)
	}
	pkg.Files = append(pkg.Files, f)
	return nil
}

// code counts the lines on which there is a token.
func code(b []byte) int {
	fset := token.NewFileSet()
	file := fset.AddFile("", -1, len(b))
	var s scanner.Scanner
	s.Init(file, b, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		for n := range 1 + strings.Count(lit, "\n") {
			lines[file.Line(pos)+n] = true
		}
	}
}

// guess returns the name a package most likely has, from its import path.
func guess(p string) string {
	name := path.Base(p)
	if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
		name = path.Base(path.Dir(p)) // the major version
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "go-"), "-go")
	name, _, _ = strings.Cut(name, ".")
	return name
}

// own returns the directory of an import path of this module.
func (t *Tree) own(p string) (dir string, ok bool) {
	if p == t.Module {
		return ".", true
	}
	return strings.CutPrefix(p, t.Module+"/")
}

// standard reports whether an import path is of the standard library.
func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// under reports whether dir is one of the roots or below one.
func under(dir string, roots ...string) bool {
	for _, r := range roots {
		if dir == r || strings.HasPrefix(dir, r+"/") {
			return true
		}
	}
	return false
}

// files visits the Go files that are no tests, of packages below the roots, or all.
func (t *Tree) files(visit func(p *Package, f *File), roots ...string) {
	for _, p := range t.Packages {
		if len(roots) > 0 && !under(p.Dir, roots...) {
			continue
		}
		for _, f := range p.Files {
			if !f.Test {
				visit(p, f)
			}
		}
	}
}

func (t *Tree) line(n ast.Node) int { return t.fset.Position(n.Pos()).Line }

// reach returns the packages of this module that dir imports, directly or not, each
// with the import that led there first.
func (t *Tree) reach(dir string) map[string]step {
	from := map[string]step{}
	queue := []string{dir}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		p := t.byDir[at]
		if p == nil {
			continue
		}
		for _, f := range p.Files {
			if f.Test {
				continue
			}
			for _, i := range f.Imports {
				to, ok := t.own(i.Path)
				if _, known := from[to]; ok && !known && to != dir {
					from[to] = step{at, f.Path, i.Line}
					queue = append(queue, to)
				}
			}
		}
	}
	return from
}

// step is an import on a way from one package to another.
type step struct {
	from string // directory of the importing package
	path string // of the importing file
	line int
}

// way spells out how dir reaches to, and where dir's own import stands.
func way(from map[string]step, dir, to string) (chain string, first step) {
	chain = to
	for {
		s := from[to]
		chain = s.from + " -> " + chain
		if s.from == dir {
			return chain, s
		}
		to = s.from
	}
}

// uses visits what a file uses of the packages it imports: os.Exit as ("os", "Exit").
// A local variable named like the package is not mistaken for it.
func (f *File) uses(visit func(importPath, name string, at ast.Node)) {
	named := map[string]string{}
	for _, i := range f.Imports {
		named[i.Name] = i.Path
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil {
				if p, ok := named[x.Name]; ok {
					visit(p, s.Sel.Name, s)
				}
			}
		}
		return true
	})
}
