// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/textreplay/textreplay/internal/build"
	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
)

// schemas are the types of the lines that each command prints with --json.
var schemas = map[string][]any{
	"at":       {jsonAnswer{}, jsonForeign{}, jsonError{}},
	"audit":    {jsonAudit{}, jsonExplanation{}},
	"diff":     {jsonDelta{}, jsonDiff{}},
	"export":   {jsonExported{}},
	"history":  {jsonPast{}},
	"image":    {imageSummary{}, jsonUnknown{}},
	"info":     {jsonInfo{}},
	"log":      {jsonPoke{}, jsonKSymbol{}, jsonBPFEvent{}, jsonLost{}, jsonSummary{}},
	"oops":     {jsonOops{}},
	"perfetto": {traceSummary{}},
	"pprof":    {profileSummary{}},
	"probes":   {jsonPlan{}},
	"report":   {reportSummary{}},
	"symbols":  {jsonListed{}},
	"trim":     {trimSummary{}},
	"verify":   {jsonItself{}, jsonCompared{}},
	"version":  {build.Info{}},
}

// textForms are the forms of strings, by the names of fields.
var textForms = map[string]string{
	"addr": "address", "site": "address", "target": "address", "pushes": "address", "links": "address", "lo": "address", "hi": "address",
	"time": "time", "since": "time", "until": "time", "from": "time", "to": "time", "first": "time", "last": "time", "begin": "time",
	"end": "time", "switch": "time", "time1": "time", "time2": "time",
	"old": "bytes", "new": "bytes", "bytes": "bytes", "before": "bytes", "after": "bytes", "image": "bytes", "copy": "bytes", "tag": "bytes",
}

// otherForms are fields that are not what their names say.
var otherForms = map[string]bool{"jsonError.addr": true, "jsonError.time": true, "Info.time": true}

// nullLists are lists that are null if there is nothing to list.
var nullLists = map[string]bool{"jsonAdvice.command": true}

// A generator makes schemas of Go types.
type generator struct {
	strict   bool // no fields but those of the schema
	comments map[string]string
	defs     map[string]any
}

type object = map[string]any

func schemaFile(t *testing.T, command string, strict bool) []byte {
	t.Helper()
	g := &generator{strict: strict, comments: fieldComments(t), defs: map[string]any{
		"address": object{"type": "string", "pattern": "^0x[0-9a-f]+$", "description": "a kernel address"},
		"time":    object{"type": "string", "pattern": "^[0-9]+$", "description": "nanoseconds of the recording's clock, decimal"},
		"bytes":   object{"type": "string", "pattern": "^([0-9a-f]{2})*$", "description": "bytes in the order of memory"},
	}}
	var lines []any
	for _, v := range schemas[command] {
		lines = append(lines, g.ref(reflect.TypeOf(v)))
	}
	out := object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"$id":     fmt.Sprintf("https://github.com/textreplay/textreplay/docs/schema/v%d/%s.json", build.SchemaVersion, command),
		"title":   "A line of textreplay " + command + " --json",
		"anyOf":   lines,
		"$defs":   g.defs,
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// ref returns a reference to the definition of a struct, which it makes.
func (g *generator) ref(t reflect.Type) object {
	name := strings.TrimPrefix(t.Name(), "json")
	if t == reflect.TypeFor[compared]() {
		name = "comparedBytes" // jsonCompared is the other
	}
	name = strings.ToLower(name[:1]) + name[1:]
	if _, ok := g.defs[name]; !ok {
		g.defs[name] = nil // it may refer to itself
		props, required := object{}, []string{}
		g.fields(t, props, &required)
		def := object{"type": "object", "properties": props, "required": required}
		if g.strict {
			def["additionalProperties"] = false
		}
		if text := g.comments[t.Name()]; text != "" {
			def["description"] = text
		}
		g.defs[name] = def
	}
	return object{"$ref": "#/$defs/" + name}
}

func (g *generator) fields(t reflect.Type, props object, required *[]string) {
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && tag == "":
			g.fields(f.Type, props, required)
			continue
		case tag == "-" || !f.IsExported():
			continue
		}
		optional := options == "omitempty"
		if !optional {
			*required = append(*required, tag)
		}
		form := textForms[tag]
		if otherForms[t.Name()+"."+tag] {
			form = ""
		}
		s := g.schema(f.Type, form, optional)
		if nullLists[t.Name()+"."+tag] {
			s = object{"anyOf": []any{s, object{"type": "null"}}}
		}
		if text := g.comments[t.Name()+"."+f.Name]; text != "" {
			s["description"] = text
		}
		props[tag] = s
	}
}

// schema returns the schema of a value. What is omitted where it is empty is never null.
func (g *generator) schema(t reflect.Type, form string, optional bool) object {
	switch t.Kind() {
	case reflect.Pointer:
		s := g.schema(t.Elem(), form, optional)
		if optional {
			return s
		}
		return object{"anyOf": []any{s, object{"type": "null"}}}
	case reflect.Struct:
		return g.ref(t)
	case reflect.Slice:
		return object{"type": "array", "items": g.schema(t.Elem(), "", true)}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": g.schema(t.Elem(), "", true)}
	case reflect.String:
		if form != "" {
			return object{"$ref": "#/$defs/" + form}
		}
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int32, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	}
	panic("no schema for " + t.String())
}

// fieldComments returns the comments of structs and their fields, by "Type" and
// "Type.Field".
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	out := make(map[string]string)
	text := func(groups ...*ast.CommentGroup) string {
		for _, g := range groups {
			if g != nil {
				return strings.Join(strings.Fields(g.Text()), " ")
			}
		}
		return ""
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "../../internal/build/build.go") {
		f, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GenDecl:
				if len(n.Specs) == 1 && n.Tok == gotoken.TYPE && n.Doc != nil {
					out[n.Specs[0].(*ast.TypeSpec).Name.Name] = text(n.Doc)
				}
			case *ast.TypeSpec:
				st, ok := n.Type.(*ast.StructType)
				if !ok {
					break
				}
				for _, f := range st.Fields.List {
					for _, id := range f.Names {
						out[n.Name.Name+"."+id.Name] = text(f.Doc, f.Comment)
					}
				}
			}
			return true
		})
	}
	return out
}

// TestSchemaFiles: docs/schema has the schema of each command's JSON. With -update it
// writes them.
func TestSchemaFiles(t *testing.T) {
	dir := filepath.Join(corpus.Root(), "docs", "schema", fmt.Sprintf("v%d", build.SchemaVersion))
	for command := range schemas {
		name := filepath.Join(dir, command+".json")
		want := schemaFile(t, command, false)
		if *update {
			if err := os.WriteFile(name, want, 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is not the schema of what %s prints: go test ./cmd/textreplay -run TestSchemaFiles -update", name, command)
		}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	if len(files) != len(schemas) {
		t.Errorf("%d files in docs/schema, but %d commands", len(files), len(schemas))
	}
}

// TestSchemas: every line that the commands print is as the schemas say, and has no field
// that they do not have.
func TestSchemas(t *testing.T) {
	data, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	strict := make(map[string][]byte)
	for command := range schemas {
		strict[command] = schemaFile(t, command, true) // it reads the sources here
	}
	t.Chdir(t.TempDir())
	if err := genperf.Patching["ppc64"]("steps"); err != nil {
		t.Fatal(err)
	}
	rec := func(name string) string { return filepath.Join(data, name, "rec.data") }
	oracle := filepath.Join(data, "small", "oracle", "key_on.elf")
	type invocation struct {
		args  []string
		stdin string
	}
	asked := map[string][]invocation{
		"at": {{args: []string{"at", "do_sys_openat2+7", "14.4..17.4", "-i", rec("small")}}, {args: []string{"at", "sysctl_schedstats+0x41", "9", "-i", rec("small")}},
			{args: []string{"at", "vfs_read+8", "2050000000ns", "-n", "8", "-i", "steps"}},
			{args: []string{"at", "--stdin", "-i", rec("small")}, stdin: "do_sys_openat2 9\nnosuch 9\n0x7f0000001000 9\n"}},
		"audit": {{args: []string{"audit", "-i", rec("small")}}, {args: []string{"audit", "-i", rec("lossy")}},
			{args: []string{"audit", "-i", rec("small"), "--explain", "0xdbcb1", "0f1f440000"}}},
		"diff":     {{args: []string{"diff", "8", "16.5", "-i", rec("small"), "--standing"}}, {args: []string{"diff", "40%", "80%", "-i", rec("rich")}}},
		"export":   {{args: []string{"export", "-o", "tables", "-i", rec("small")}}},
		"history":  {{args: []string{"history", "do_sys_openat2+7", "-i", rec("small")}}, {args: []string{"history", "vfs_read+8", "-n", "8", "-i", "steps"}}},
		"image":    {{args: []string{"image", "--at", "16.5", "-o", "image", "-i", rec("small")}}, {args: []string{"image", "--at", "16.5", "-o", "image2", "--unknown", "-", "-i", rec("lossy")}}},
		"log":      {{args: []string{"log", "-i", "steps"}}, {args: []string{"log", "--summary", "-i", rec("rich")}}},
		"oops":     {{args: []string{"oops", "-i", rec("small"), "--at", "9"}, stdin: "RIP: 0010:do_sys_openat2+0x7/0x160\n? sysctl_schedstats+0x41/0x90\nCode: 0f 1f 44 00 00 41 54 <49> 89 f4\n"}},
		"perfetto": {{args: []string{"perfetto", "-o", "trace", "-i", rec("small")}}},
		"pprof":    {{args: []string{"pprof", "-o", "prof", "-i", rec("callgraph")}}},
		"probes": {{args: []string{"probes", "--kcore", filepath.Join(rec("probe612"), "kcore_dir")}}, {args: []string{"probes", "--kcore", filepath.Join(rec("ppc64le"), "kcore_dir")}},
			{args: []string{"probes", "--kcore", filepath.Join(rec("pokeprobe"), "kcore_dir")}}},
		"report":  {{args: []string{"report", "-o", "report.html", "-i", rec("small")}}, {args: []string{"report", "-o", "rich.html", "--max-size", "1", "-i", rec("rich")}}},
		"trim":    {{args: []string{"trim", "-o", "cut", "-i", rec("small")}}, {args: []string{"trim", "-o", "unknown", "--time", ",50%", "-i", rec("lossy")}}, {args: []string{"trim", "-o", "none", "--time", ",100ms", "-i", rec("small")}}},
		"verify":  {{args: []string{"verify", "--against", oracle, "--at", "9.5", "-i", rec("small")}}, {args: []string{"verify", "-i", "steps"}}},
		"version": {{args: []string{"version"}}},
	}
	for _, name := range []string{"small", "rich", "lossy", "arm64", "z72", "hotplug"} {
		for _, command := range []string{"info", "log", "symbols", "verify"} {
			asked[command] = append(asked[command], invocation{args: []string{command, "-i", rec(name)}})
		}
	}
	for _, command := range slices.Sorted(maps.Keys(schemas)) {
		t.Run(command, func(t *testing.T) {
			doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(strict[command]))
			if err != nil {
				t.Fatal(err)
			}
			c := jsonschema.NewCompiler()
			if err := c.AddResource("schema.json", doc); err != nil {
				t.Fatal(err)
			}
			schema, err := c.Compile("schema.json")
			if err != nil {
				t.Fatal(err)
			}
			lines := 0
			for _, a := range asked[command] {
				var stdout, stderr bytes.Buffer
				run(append(a.args, "--json"), strings.NewReader(a.stdin), &stdout, &stderr)
				for line := range strings.Lines(stdout.String()) {
					lines++
					v, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
					if err != nil {
						t.Fatalf("%v: %v\n%s", a.args, err, line)
					}
					if err := schema.Validate(v); err != nil {
						t.Fatalf("%v: %v\n%.1000s", a.args, err, line)
					}
				}
			}
			if lines == 0 {
				t.Error("nothing was printed")
			}
		})
	}
}
