package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"tidemark.dev/internal/ground/fault"
)

// Parse reads the TOML form; file is the name used in messages. The result is
// complete and valid. Otherwise the error is a [fault.Problems] that holds every
// unknown key, wrong type, missing field and value out of range with its place,
// in the order of the text; only broken syntax hides what comes after it.
func Parse(file string, src []byte) (*Workload, error) {
	var tree map[string]any
	if err := toml.Unmarshal(src, &tree); err != nil {
		p := fault.Problem{File: file, Text: strings.TrimPrefix(err.Error(), "toml: ")}
		var at *toml.DecodeError
		if errors.As(err, &at) {
			p.Line, p.Column = at.Position()
			p.Field = strings.Join(at.Key(), ".")
		}
		return nil, fault.Problems{p}
	}
	f := &form{file: file, places: places(src), faulty: map[string]bool{}}
	w := f.base(tree)
	f.table("", tree, reflect.ValueOf(w).Elem())
	f.check(w)
	if len(f.problems) > 0 {
		slices.SortStableFunc(f.problems, func(a, b fault.Problem) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		})
		return nil, f.problems
	}
	return w, nil
}

// form reads one file. It decodes by itself instead of leaving that to the TOML
// library, because the library stops at the first value of a wrong type and
// forgets where the good ones stood, and a checked value needs its place too.
type form struct {
	file     string
	places   map[string]place
	faulty   map[string]bool // fields already reported
	partial  bool            // a base supplies what is absent
	problems fault.Problems
}

type place struct{ line, column int }

// report adds a problem at a field, or at the nearest table around it that
// stands in the file, once per field.
func (f *form) report(path, format string, a ...any) {
	if f.faulty[path] {
		return
	}
	f.faulty[path] = true
	at := fault.Problem{File: f.file, Field: path}
	for p := path; ; p = parent(p) {
		if here, ok := f.places[p]; ok {
			at.Line, at.Column = here.line, here.column
			break
		}
		if p == "" {
			break
		}
	}
	f.problems.Add(at, format, a...)
}

// parent cuts the last name or index off a path.
func parent(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// base returns the workload that the file starts from.
func (f *form) base(tree map[string]any) *Workload {
	v, ok := tree["base"]
	if !ok {
		return &Workload{}
	}
	delete(tree, "base")
	f.partial = true
	name, ok := v.(string)
	if !ok || !slices.Contains(Names(), name) {
		f.report("base", "must name a preset: %s", list(Names()))
		name = Names()[0] // to go on with: one problem, not fifty
	}
	w, err := Preset(name)
	if err != nil { // a defect of this package, which its tests find
		f.report("base", "%v", err)
		return &Workload{}
	}
	w.About, w.Assumed = "", nil
	return w
}

// table reads tree into the struct v.
func (f *form) table(path string, tree map[string]any, v reflect.Value) {
	var known []string
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name := field.Tag.Get("toml")
		known = append(known, name)
		x, ok := tree[name]
		switch {
		case ok:
			f.value(join(path, name), x, v.Field(i))
		case !f.partial && field.Tag.Get("form") != "optional", path == "" && (name == "version" || name == "name"):
			f.report(join(path, name), "is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tree)) {
		if !slices.Contains(known, name) {
			f.report(join(path, name), "unknown key (here: %s)", list(known))
		}
	}
}

// value reads one TOML value into v, whose type decides what is allowed.
func (f *form) value(path string, x any, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if t, ok := x.(map[string]any); ok {
			f.table(path, t, v)
			return
		}
		f.report(path, "must be a table")
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
			defer func(p bool) { f.partial = p }(f.partial)
			f.partial = false // nothing to start from
		}
		f.value(path, x, v.Elem())
	case reflect.Slice:
		list, ok := x.([]any)
		if !ok {
			f.report(path, "must be an array")
			return
		}
		defer func(p bool) { f.partial = p }(f.partial)
		f.partial = false // arrays replace those of the base, they do not merge
		v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
		for i, e := range list {
			f.value(path+"["+strconv.Itoa(i)+"]", e, v.Index(i))
		}
	case reflect.String:
		if s, ok := x.(string); ok {
			v.SetString(s)
			return
		}
		f.report(path, "must be a string")
	case reflect.Float64:
		switch n := x.(type) {
		case float64:
			v.SetFloat(n)
		case int64:
			v.SetFloat(float64(n))
		default:
			f.report(path, "must be a number")
		}
	default: // int, int64, time.Duration
		if v.Type() == reflect.TypeFor[time.Duration]() {
			s, _ := x.(string)
			d, err := time.ParseDuration(s)
			if err != nil {
				f.report(path, `must be a duration as "30s" or "1m30s"`)
				return
			}
			v.SetInt(int64(d))
			return
		}
		if n, ok := x.(int64); ok {
			v.SetInt(n)
			return
		}
		f.report(path, "must be a whole number")
	}
}

// places returns where each key and array element of a document stands. The
// document has been accepted by toml.Unmarshal before.
func places(src []byte) map[string]place {
	at := map[string]place{"": {1, 1}}
	elements := map[string]int{} // array tables so far
	var p unstable.Parser
	p.Reset(src)
	mark := func(path string, n *unstable.Node) {
		if n.Raw.Length == 0 {
			return // a composite without a range of its own: its key or children speak for it
		}
		if _, ok := at[path]; !ok {
			s := p.Shape(n.Raw).Start
			at[path] = place{s.Line, s.Column}
		}
	}
	// keys follows a dotted key below path; array tables on the way stand for
	// their latest element.
	keys := func(path string, it unstable.Iterator) string {
		for it.Next() {
			path = join(path, string(it.Node().Data))
			mark(path, it.Node())
			if n := elements[path]; n > 0 && !it.IsLast() {
				path += "[" + strconv.Itoa(n-1) + "]"
			}
		}
		return path
	}
	var value func(path string, n *unstable.Node)
	pair := func(path string, n *unstable.Node) {
		value(keys(path, n.Key()), n.Value())
	}
	value = func(path string, n *unstable.Node) {
		switch n.Kind {
		case unstable.InlineTable:
			for it := n.Children(); it.Next(); {
				pair(path, it.Node())
			}
		case unstable.Array:
			for it, i := n.Children(), 0; it.Next(); i++ {
				e := path + "[" + strconv.Itoa(i) + "]"
				mark(e, it.Node())
				value(e, it.Node())
			}
		}
	}
	table := ""
	for p.NextExpression() {
		switch e := p.Expression(); e.Kind {
		case unstable.Table:
			table = keys("", e.Key())
		case unstable.ArrayTable:
			table = keys("", e.Key())
			n := elements[table]
			elements[table] = n + 1
			table += "[" + strconv.Itoa(n) + "]"
			for it := e.Key(); it.Next(); {
				if it.IsLast() {
					mark(table, it.Node())
				}
			}
		case unstable.KeyValue:
			pair(table, e)
		}
	}
	return at
}

// Encode returns the effective workload in its canonical form: TOML without
// comments, every field in a fixed order. Parse reads it back.
func (w *Workload) Encode() []byte {
	var b strings.Builder
	encode(&b, "", reflect.ValueOf(w).Elem())
	return []byte(b.String())
}

// encode writes the plain fields of a struct, then its tables.
func encode(b *strings.Builder, path string, v reflect.Value) {
	type sub struct {
		header string
		path   string
		v      reflect.Value
	}
	var tables []sub
	for i := range v.NumField() {
		field, x := v.Type().Field(i), v.Field(i)
		name := field.Tag.Get("toml")
		if field.Tag.Get("form") == "optional" && x.IsZero() {
			continue
		}
		at := join(path, name)
		switch {
		case x.Kind() == reflect.Pointer:
			tables = append(tables, sub{"[" + at + "]", at, x.Elem()})
		case x.Kind() == reflect.Struct:
			tables = append(tables, sub{"[" + at + "]", at, x})
		case x.Kind() == reflect.Slice && x.Type().Elem().Kind() == reflect.Struct:
			for j := range x.Len() {
				tables = append(tables, sub{"[[" + at + "]]", at, x.Index(j)})
			}
		default:
			b.WriteString(name + " = " + literal(x) + "\n")
		}
	}
	for _, t := range tables {
		b.WriteString("\n" + t.header + "\n")
		encode(b, t.path, t.v)
	}
}

// literal returns a plain value as TOML.
func literal(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return quote(v.String())
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	case reflect.Slice:
		var all []string
		for i := range v.Len() {
			all = append(all, literal(v.Index(i)))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	if d, ok := v.Interface().(time.Duration); ok {
		return quote(d.String())
	}
	return strconv.FormatInt(v.Int(), 10)
}

// quote returns s as a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// list joins words for a message.
func list(words []string) string { return strings.Join(words, ", ") }

// Digest identifies the law of the workload: "sha256:" and the hexadecimal
// SHA-256 of the canonical form without name, description and notes on sources.
// Two files that state the same numbers have the same digest.
func (w *Workload) Digest() string {
	law := *w
	law.Name, law.About, law.Assumed = "", "", nil
	sum := sha256.Sum256(law.Encode())
	return "sha256:" + hex.EncodeToString(sum[:])
}
