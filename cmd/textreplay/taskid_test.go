// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// TestTaskIDs: of a task that has ended, the kernel records the number -1. log and the tables say that none was
// recorded, also where damage made a number that no task has.
func TestTaskIDs(t *testing.T) {
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.12.0", Order: binary.LittleEndian, Addr: genperf.TextAddr, CPUs: 1,
		Text: bytes.Repeat([]byte{0x90}, 4096), Symbols: []kcore.ELFSymbol{{Addr: genperf.TextAddr, Size: 4096, Name: "f"}}}
	dir := filepath.Join(t.TempDir(), "rec")
	w, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	code := []byte{0x90}
	for i, tid := range []uint32{1<<31 - 1, 1 << 31, 1<<32 - 1} {
		p := perfdata.TextPoke{Addr: genperf.TextAddr, Old: code, New: []byte{0x91 + byte(i)}, SampleID: w.ID(2e9+uint64(i)*1e9, 0, tid)}
		if code = p.New; w.TextPoke(&p) != nil {
			t.Fatal(p)
		}
	}
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	const most = "2147483647"
	var got []string
	for line := range strings.Lines(output(t, "log", "-i", dir, "--json")) {
		if strings.Contains(line, `"kind":"poke"`) {
			got = append(got, line[strings.Index(line, `"cpu"`):strings.Index(line, `"poke":"`)])
		}
	}
	if want := `"cpu":0,"pid":` + most + `,"tid":` + most + `,|"cpu":0,|"cpu":0,`; strings.Join(got, "|") != want {
		t.Errorf("log --json has %q, want %q", got, want)
	}
	table := output(t, "log", "-i", dir, "--format", "csv")
	if !strings.Contains(table, ",poke,0,"+most+","+most+",") || strings.Count(table, ",poke,0,,,") != 2 {
		t.Errorf("log --format csv:\n%s", table)
	}
	out := filepath.Join(t.TempDir(), "tables")
	output(t, "export", "-o", out, dir)
	files, _ := filepath.Glob(filepath.Join(out, "changes", "*", "*", "*.parquet"))
	type row struct {
		PID int32 `parquet:"pid"`
		TID int32 `parquet:"tid"`
	}
	var rows []row
	for _, name := range files {
		read, err := parquet.ReadFile[row](name)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, read...)
	}
	if len(rows) != 3 || rows[0] != (row{1<<31 - 1, 1<<31 - 1}) || rows[1] != (row{-1, -1}) || rows[2] != (row{-1, -1}) {
		t.Errorf("the tables have %v in %v", rows, files)
	}
}
