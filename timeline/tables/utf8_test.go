// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// TestUTF8: all text in the tables is UTF-8, whatever names a recording has. DuckDB reads no column
// that has anything else, of any recording.
func TestUTF8(t *testing.T) {
	// The kernel cuts names of threads at 15 bytes, as here between the two bytes of a letter.
	const comm, cut = "abcdefghijklmn\xc3", "abcdefghijklmn\uFFFD"
	text := bytes.Repeat([]byte{0x90}, 4096)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_\xff64", Release: "6.1\xfe", Order: binary.LittleEndian, Addr: genperf.TextAddr,
		Text: text, CPUs: 1, Symbols: []kcore.ELFSymbol{{Name: "_text", Addr: genperf.TextAddr}, {Name: "f\xf0\x28", Addr: genperf.TextAddr},
			{Name: "g\x80", Addr: genperf.TextAddr + 32}}}
	path := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	w.WriteFeature(perfdata.FeatureHostname, append([]byte{64, 0, 0, 0}, "host\xc3"+strings.Repeat("\x00", 59)...))
	w.Comm(0, &perfdata.Comm{PID: 100, TID: 100, Comm: []byte(comm), SampleID: w.ID(2e9, 0, 100)})
	w.KSymbol(&perfdata.KSymbol{Addr: genperf.TextAddr + 1<<20, Len: 64, Kind: perfdata.KSymbolBPF, Name: []byte("bpf_prog_0102030405060708_\xff"), SampleID: w.ID(2e9, 0, 100)})
	if err := w.Poke(3e9, genperf.TextAddr+32, text[:5], []byte{0xff, 0xfe, 0xfd, 0xfc, 0xfb}); err != nil {
		t.Fatal(err)
	}
	if err := w.End(4e9); err != nil {
		t.Fatal(err)
	}
	_, _, dir := added(t, path)
	all := make(map[string]bool)
	for name, content := range tree(t, dir) {
		if filepath.Ext(name) != ".parquet" {
			continue
		}
		f, err := parquet.OpenFile(strings.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for _, column := range stringColumns(f.Root()) {
			for _, v := range valuesOf(t, f, column) {
				all[v] = true
				if !utf8.ValidString(v) {
					t.Errorf("%s: column %s has %q", name, column.Name(), v)
				}
			}
		}
	}
	for _, want := range []string{cut, "host\uFFFD", "6.1\uFFFD", "x86_\uFFFD64", "f\uFFFD(", "g\uFFFD"} {
		if !all[want] {
			t.Errorf("no column has %q", want)
		}
	}
	// Bytes are no text.
	if changes := readAll[changeRow](t, filepath.Join(dir, "changes/*/*/*.parquet")); len(changes) != 1 || string(changes[0].New) != "\xff\xfe\xfd\xfc\xfb" {
		t.Errorf("%v", changes)
	}
}

// stringColumns returns the columns below c whose values are text.
func stringColumns(c *parquet.Column) (out []*parquet.Column) {
	if !c.Leaf() {
		for _, below := range c.Columns() {
			out = append(out, stringColumns(below)...)
		}
		return out
	}
	if l := c.Type().LogicalType(); l != nil && l.String() == "STRING" {
		out = append(out, c)
	}
	return out
}

// valuesOf returns the values of a column of text.
func valuesOf(t *testing.T, f *parquet.File, c *parquet.Column) (out []string) {
	t.Helper()
	for _, g := range f.RowGroups() {
		pages := g.ColumnChunks()[c.Index()].Pages()
		for {
			p, err := pages.ReadPage()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			values := make([]parquet.Value, p.NumValues())
			n, _ := p.Values().ReadValues(values)
			for _, v := range values[:n] {
				if !v.IsNull() {
					out = append(out, string(v.ByteArray()))
				}
			}
		}
		if err := pages.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
