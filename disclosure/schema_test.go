package disclosure

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var rewrite = flag.Bool("rewrite", false, "write generated files anew")

// enums are the keys that hold one of a few words.
var enums = map[string][]string{
	"Document.State":         {Complete, Running, Interrupted, Failed},
	"Verdict.Word":           {Passes, DoesNotPass, BrokeRules, InvalidRun, NoVerdict},
	"Run.Topology":           {"local", "remote"},
	"Reason.Effect":          {"invalid", "not_passing", "broke_rules", "incomparable", "note"},
	"Reason.Origin":          {"target", "network", "driver", "config", "unknown"},
	"ErrorClass.Origin":      {"target", "network", "driver", "config", "unknown"},
	"Step.Kind":              {"trial", "proof", "fail-proof"},
	"Step.Verdict":           {"pass", "fail", "invalid", "driver limit"},
	"Iteration.Kind":         {"proof", "fail-proof"},
	"Iteration.JudgedBy":     {"raw", "adjusted"},
	"Drivers.Pacing":         {"rated", "deferred", "none"},
	"Latency.Kind":           {"static", "get", "cgi", "cad", "post", "all"},
	"Search.Answer":          {"exact", "at least", "at least (driver)", "doomed", "fixed", "unfinished"},
	"Configuration.Workload": nil,
}

type generator struct {
	comments map[string]string // "Type.Field" and "Type"
	defs     map[string]any
}

// TestSchemaIsCurrent generates the JSON Schema from the types and their comments and compares it with the file.
func TestSchemaIsCurrent(t *testing.T) {
	g := &generator{comments: comments(t), defs: map[string]any{}}
	g.object(reflect.TypeFor[Document]())
	root := map[string]any{
		"$schema":     "https://json-schema.org/draft/2020-12/schema",
		"$id":         "https://tidemark.dev/schema/result-1.0.json",
		"title":       "Tidemark result document, version 1.0",
		"description": "Unknown keys are allowed: a later minor version may add some.",
		"$ref":        "#/$defs/Document",
		"$defs":       g.defs,
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile("result.schema.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b.Bytes(), JSONSchema()) {
		t.Error("result.schema.json is stale: run go test ./disclosure -run Schema -rewrite, and raise the minor version if a key was added")
	}
}

func (g *generator) object(t reflect.Type) {
	if _, ok := g.defs[t.Name()]; ok {
		return
	}
	def := map[string]any{"type": "object"}
	g.defs[t.Name()] = def
	if c := g.comments[t.Name()]; c != "" {
		def["description"] = c
	}
	props := map[string]any{}
	required := []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := strings.Split(f.Tag.Get("json"), ",")
		p := g.value(f.Type, slices.Contains(tag[1:], "string"), slices.Contains(tag[1:], "omitempty"))
		name := t.Name() + "." + f.Name
		if words := enums[name]; words != nil {
			p["enum"] = words
		}
		if name == "Document.Schema" {
			p["pattern"] = `^tidemark\.result/1\.[0-9]+$`
		}
		if c := g.comments[name]; c != "" {
			p["description"] = c
		}
		props[tag[0]] = p
		if !slices.Contains(tag[1:], "omitempty") {
			required = append(required, tag[0])
		}
	}
	def["properties"] = props
	def["required"] = required
}

func (g *generator) value(t reflect.Type, quoted, optional bool) map[string]any {
	switch t.Kind() {
	case reflect.Pointer:
		return g.value(t.Elem(), quoted, optional)
	case reflect.Struct:
		g.object(t)
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.Slice:
		kind := any("array")
		if !optional {
			kind = []string{"array", "null"} // a nil slice
		}
		return map[string]any{"type": kind, "items": g.value(t.Elem(), false, false)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": g.value(t.Elem(), false, false)}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Uint64, reflect.Uint32:
		if quoted {
			return map[string]any{"type": "string", "pattern": "^[0-9]+$"}
		}
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	}
	panic(fmt.Sprintf("no schema for %v", t))
}

// comments collects the comments of types and fields of this package.
func comments(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				ts, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				out[ts.Name.Name] = words(gen.Doc)
				st, ok := ts.Type.(*ast.StructType)
				if !ok {
					continue
				}
				for _, field := range st.Fields.List {
					text := words(field.Doc)
					if text == "" {
						text = words(field.Comment)
					}
					for _, name := range field.Names {
						out[ts.Name.Name+"."+name.Name] = text
					}
				}
			}
		}
	}
	return out
}

func words(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

// Every key of a number says its unit at its end.
func TestKeysNameUnits(t *testing.T) {
	unit := regexp.MustCompile(`_(seconds|milliseconds|nanoseconds|bytes|megabytes|bits|bits_per_second|kilobits_per_second|percent|count|connections|connections_per_second|operations|operations_per_second|operations_per_second_per_connection|number|numbers|code|probability|cores|in_unit)$`)
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		if seen[typ] {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			f := typ.Field(i)
			key := strings.Split(f.Tag.Get("json"), ",")[0]
			e := f.Type
			for e.Kind() == reflect.Slice || e.Kind() == reflect.Pointer || e.Kind() == reflect.Map {
				e = e.Elem()
			}
			switch e.Kind() {
			case reflect.Struct:
				walk(e)
			case reflect.Int, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64:
				if !unit.MatchString(key) {
					t.Errorf("%s.%s: key %q names no unit", typ.Name(), f.Name, key)
				}
			}
			if key == "" || key != strings.ToLower(key) || strings.ContainsAny(key, "- ") {
				t.Errorf("%s.%s: key %q", typ.Name(), f.Name, key)
			}
		}
	}
	walk(reflect.TypeFor[Document]())
	walk(reflect.TypeFor[SlotRecord]())
	walk(reflect.TypeFor[Second]())
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("result.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("result.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The fixtures satisfy the schema, and so does whatever this package writes of them.
func TestFixturesSatisfySchema(t *testing.T) {
	schema := compiled(t)
	for _, file := range fixtureFiles(t) {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Read(bytes.NewReader(src))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var again bytes.Buffer
		if err := Write(&again, d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if !bytes.Equal(src, again.Bytes()) {
			t.Errorf("%s: reading and writing changes it", file)
		}
		v, err := jsonschema.UnmarshalJSON(&again)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(v); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The schema is not empty words: it refuses what is wrong.
func TestSchemaRefuses(t *testing.T) {
	schema := compiled(t)
	src, err := os.ReadFile("testdata/slow.json")
	if err != nil {
		t.Fatal(err)
	}
	edits := map[string]string{
		`"schema": "tidemark.result/1.0"`: `"schema": "tidemark.result/2.0"`,
		`"state": "complete"`:             `"state": "finished"`,
		`"seed_number": "1999"`:           `"seed_number": 1999`,
		`"topology": "local"`:             `"topology": "moon"`,
		`"exit_code": 3`:                  `"exit_code": "3"`,
		`"operations_count": `:            `"operations": `,
		`"iterations": [`:                 `"iteration": [`,
	}
	for from, to := range edits {
		if !strings.Contains(string(src), from) {
			t.Fatalf("fixture has no %s", from)
		}
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(strings.Replace(string(src), from, to, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(v) == nil {
			t.Errorf("accepted with %s", to)
		}
	}
}

func fixtureFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	return files
}
