// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestLogCSV: the table has what the JSON objects have, for entries of every kind.
func TestLogCSV(t *testing.T) {
	kinds := make(map[string]int)
	for _, rec := range []string{"small/rec.data", "lossy/rec.data", "ppc64le/rec.data", "storm/rec.data"} {
		rec = filepath.Join("../../testdata", rec)
		table, objects := runLog(t, rec, "csv"), runLog(t, rec, "json")
		r := csv.NewReader(strings.NewReader(table))
		rows, err := r.ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		lines := slices.Collect(strings.SplitSeq(strings.TrimSpace(objects), "\n"))
		if len(rows) != len(lines)+1 {
			t.Fatalf("%s: %d rows, %d objects", rec, len(rows)-1, len(lines))
		}
		for i, line := range lines {
			d := json.NewDecoder(strings.NewReader(line))
			d.UseNumber()
			var object map[string]any
			if err := d.Decode(&object); err != nil {
				t.Fatal(err)
			}
			kinds[object["kind"].(string)]++
			for k, column := range rows[0] {
				var field any = object
				for name := range strings.SplitSeq(column, ".") {
					m, _ := field.(map[string]any)
					field = m[name]
				}
				if want := csvText(field); rows[i+1][k] != want {
					t.Fatalf("%s: row %d has %s %q; the object has %q", rec, i+1, column, rows[i+1][k], want)
				}
			}
		}
	}
	for _, kind := range []string{kindPoke, kindKSymbol, kindBPF, kindLost} {
		if kinds[kind] == 0 {
			t.Errorf("no %s was compared", kind)
		}
	}
}

// TestLogAppends: what log appends by itself is what encoding/json and encoding/csv print.
func TestLogAppends(t *testing.T) {
	module := "m"
	for _, s := range []string{"", "a", " a", "\ta", "a b", `a"b`, `\.`, `\`, "a,b", "a\nb", "\r", "\u00a0x", "\u2028", "ä", "\xff", "\xc3\xc3(\xe2\x82", "<&>", "\x7f"} {
		if got, want := string(appendQuoted(nil, s)), string(marshal(s)); got != want {
			t.Errorf("%q is %s as JSON, not %s", s, got, want)
		}
		var b strings.Builder
		var valid string // as JSON has it
		if err := json.Unmarshal(marshal(s), &valid); err != nil {
			t.Fatal(err)
		}
		w := csv.NewWriter(&b)
		w.Write([]string{"x", valid})
		w.Flush()
		if got, want := "x,"+string(appendCell(nil, s))+"\n", b.String(); got != want {
			t.Errorf("%q is %q as a cell, not %q", s, got, want)
		}
		for _, sym := range []*jsonSymbol{nil, {Name: s}, {Name: s, Offset: 7, Module: &module}, {Name: s, Aliases: []string{s}}} {
			text := jsonPokeText{"batch", s, "0x1", sym, "90", "cc", s, s}
			if got, want := "{"+string(text.appendFields(nil))+"}", string(marshal(text)); got != want {
				t.Errorf("%+v is %s, not %s", text, got, want)
			}
		}
	}
}

// TestLogKeeps: what log keeps of a poke, for the next one of the same site, changes no
// entry. The recordings have sites that lead to trampolines which come and go.
func TestLogKeeps(t *testing.T) {
	defer func(n int) { mostRenderings = n }(mostRenderings)
	names := []string{"small", "storm", "lossy", "arm64", "ppc64le", "s390x", "rich", "z72", "old510"}
	if testing.Short() {
		names = names[:3]
	}
	for _, name := range names {
		rec := filepath.Join("../../testdata", name, "rec.data")
		for _, format := range []string{"text", "json", "csv"} {
			mostRenderings = 1 << 18
			kept := strings.Split(runLog(t, rec, format), "\n")
			mostRenderings = 0
			anew := strings.Split(runLog(t, rec, format), "\n")
			if len(kept) != len(anew) || len(kept) < 10 {
				t.Fatalf("%s as %s: %d lines, without what is kept %d", name, format, len(kept), len(anew))
			}
			for i, line := range kept {
				if line != anew[i] {
					t.Fatalf("%s as %s: line %d is\n%s\nand without what is kept\n%s", name, format, i+1, line, anew[i])
				}
			}
		}
	}
}

func runLog(t *testing.T, rec, format string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := run([]string{"log", "-i", rec, "--index", "never", "--format", format}, strings.NewReader(""), &out, &errs); code > 1 {
		t.Fatalf("log --format %s ends with %d: %s", format, code, errs.String())
	}
	return out.String()
}
