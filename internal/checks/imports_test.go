// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/textreplay/textreplay/"

// allowed lists what each package may import of this project, tests apart.
// Packages that are not listed are tools for the project's own use, which may
// import any but commands.
var allowed = map[string][]string{
	"perfdata":              {"internal/mapfile", "internal/pathname"},
	"kcore":                 {"internal/mapfile", "internal/pathname"},
	"disasm":                {},
	"timeline":              {"internal/memory", "internal/spread"},
	"internal/patching":     {"timeline"},
	"internal/outfile":      {"internal/pathname"},
	"internal/vmlinux":      {},
	"internal/build":        {"internal/indexversion", "internal/prefault"},
	"internal/fields":       {},
	"internal/indexversion": {},
	"internal/lazyregexp":   {},
	"internal/mapfile":      {},
	"internal/memory":       {},
	"internal/numbers":      {},
	"internal/pathname":     {},
	"internal/prefault":     {},
	"internal/printable":    {},
	"internal/recordargs":   {},
	"internal/spread":       {},
	"timeline/replay":       {"perfdata", "kcore", "timeline", "disasm", "internal/fields", "internal/indexversion", "internal/patching", "internal/mapfile", "internal/memory", "internal/numbers", "internal/outfile", "internal/pathname", "internal/recordargs", "internal/vmlinux", "recorder/journal"},
	"recorder/journal":      {},
	"recorder":              {"perfdata", "kcore", "recorder/journal", "internal/patching", "internal/pathname"},
	"timeline/pprofexport": {
		"perfdata", "timeline", "timeline/replay",
	},
	"timeline/trim": {"perfdata", "kcore", "timeline", "timeline/replay", "internal/outfile", "recorder/journal"},
	"timeline/mechanism": {
		"perfdata", "kcore", "disasm", "timeline", "timeline/replay", "internal/patching", "internal/vmlinux",
	},
	"internal/web":          {"perfdata", "disasm", "timeline", "timeline/replay", "timeline/pprofexport", "timeline/mechanism", "internal/lazyregexp", "internal/mapfile", "internal/numbers", "internal/printable"},
	"timeline/kernelsource": {},
	"timeline/tables":       {"perfdata", "kcore", "disasm", "timeline", "timeline/replay", "timeline/mechanism", "internal/mapfile", "internal/memory", "internal/outfile", "internal/pathname", "internal/spread", "internal/vmlinux"},
	"timeline/perfetto":     {"perfdata", "timeline", "timeline/replay", "timeline/mechanism"},
	// The simulator writes what it tests the others with: it must share nothing with them.
	"internal/simulator/rawperf": {},
	"internal/simulator/kernel":  {"internal/simulator/rawperf"},
	"internal/simulator/record":  {"internal/simulator/rawperf", "internal/simulator/kernel"},
	"cmd/textreplay": {
		"perfdata", "kcore", "disasm", "timeline", "timeline/replay", "timeline/mechanism", "timeline/perfetto",
		"timeline/kernelsource",
		"timeline/pprofexport", "timeline/tables", "timeline/trim", "internal/build", "internal/patching", "internal/mapfile", "internal/memory", "internal/outfile", "internal/pathname", "internal/lazyregexp", "internal/numbers", "internal/printable", "internal/web", "recorder", "recorder/journal",
	},
	"cmd/libtextreplay": {"perfdata", "kcore", "disasm", "timeline", "timeline/replay", "internal/patching", "internal/vmlinux"},
}

// TestImports: imports go one way, as docs/architecture.md draws them.
func TestImports(t *testing.T) {
	seen := make(map[string]bool)
	for dir, imports := range projectImports(t) {
		seen[dir] = true
		may, listed := allowed[dir]
		for _, to := range imports {
			switch {
			case strings.HasPrefix(to, "cmd/"):
				t.Errorf("%s imports %s, a command", dir, to)
			case listed && !slices.Contains(may, to):
				t.Errorf("%s imports %s", dir, to)
			case !listed && !strings.HasPrefix(dir, "internal/"):
				t.Errorf("%s imports %s, and what it may import is not listed", dir, to)
			}
		}
	}
	for dir := range allowed {
		if !seen[dir] {
			t.Errorf("there is no package %s", dir)
		}
	}
}

// projectImports returns what each directory's packages, tests apart, import
// of this project.
func projectImports(t *testing.T) map[string][]string {
	t.Helper()
	imports := make(map[string][]string)
	eachFile(t, ".go", func(name string, text []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(name)
		if imports[dir] == nil {
			imports[dir] = []string{}
		}
		for _, spec := range f.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if to, ok := strings.CutPrefix(to, module); ok && !slices.Contains(imports[dir], to) {
				imports[dir] = append(imports[dir], to)
			}
		}
	})
	if len(imports) == 0 {
		t.Fatal("no Go files found")
	}
	return imports
}

// eachFile calls f with every file of the project whose name ends like this,
// in order. Names are relative to the root, with slashes.
func eachFile(t *testing.T, ext string, f func(name string, text []byte)) {
	t.Helper()
	root := os.DirFS(filepath.Join("..", ".."))
	found := make(map[string][]byte)
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "node_modules"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, ext):
			return nil
		}
		text, err := fs.ReadFile(root, name)
		found[name] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		f(name, found[name])
	}
}
