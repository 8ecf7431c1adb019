// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

var (
	cut    = flag.String("cut", "", "TestCutExecution: make testdata/pt out of the execution in `DIR`")
	armCut = flag.String("arm-cut", "", "TestCutArmExecution: make testdata/etm out of the execution in `DIR`")
)

// loadExecution returns the recording of an execution.
func loadExecution(t *testing.T, dir string) *replay.Replay {
	t.Helper()
	r, err := replay.Load(filepath.Join(dir, "rec.data"), replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestCutExecution cuts testdata/pt out of a large execution. Of one CPU it takes the run of
// instructions that met most traps on the fewest pages.
//
//	go test ./examples -run TestCutExecution -cut ../../shared/corpus/x86_64/exec/pt
func TestCutExecution(t *testing.T) {
	if *cut == "" {
		t.Skip("makes test data: give -cut DIR")
	}
	list := readList(t, *cut)
	run, score := bestRun(t, *cut, 4000, 250, func(run []byte) (int, bool) {
		pages, traps := make(map[uint64]bool), 0
		for raw := range slices.Chunk(run, logRecord) {
			rec := loggedOf(raw)
			if rec.kind != 0 {
				continue
			}
			x := &list.insns[rec.id]
			pages[x.ip>>12] = true
			if len(x.bytes) == 1 && x.bytes[0] == 0xcc {
				traps++
			}
		}
		return 6*min(traps, 8) - len(pages), traps > 0
	})
	to := filepath.Join("..", "testdata", "pt")
	list.writeCut(t, run, loadExecution(t, *cut), to)
	insns, cpus := readExecution(t, to)
	if err := os.WriteFile(filepath.Join(to, "cpu0.pt"), encodeTrace(insns, cpus[0], traceForm{1, 0, 1 << 12}), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d instructions, score %d", len(cpus[0]), score)
}

// TestCutArmExecution cuts testdata/etm out of a large execution. Of one CPU it takes the run of
// instructions that saw most words change, or executed most of them while the change was in
// flight, on the fewest pages.
//
//	go test ./examples -run TestCutArmExecution -arm-cut DIR
func TestCutArmExecution(t *testing.T) {
	if *armCut == "" {
		t.Skip("makes test data: give -arm-cut DIR")
	}
	list := readList(t, *armCut)
	r := loadExecution(t, *armCut)
	all := make(map[uint64]map[uint32]bool) // the values of each word
	eachRecord(t, *armCut, func(_ []byte, rec logged) {
		if rec.kind != 0 {
			return
		}
		x := &list.insns[rec.id]
		if all[x.ip] == nil {
			all[x.ip] = make(map[uint32]bool)
		}
		all[x.ip][word(x.bytes)] = true
	})
	run, score := bestRun(t, *armCut, 5000, 500, func(run []byte) (int, bool) {
		pages, values, changed := make(map[uint64]bool), make(map[uint64]uint32), make(map[uint64]bool)
		inFlight := 0
		for raw := range slices.Chunk(run, logRecord) {
			rec := loggedOf(raw)
			if rec.kind != 0 {
				continue
			}
			x := &list.insns[rec.id]
			w := word(x.bytes)
			pages[x.ip>>12] = true
			if v, ok := values[x.ip]; ok && v != w {
				changed[x.ip] = true
			}
			values[x.ip] = w
			if len(all[x.ip]) < 2 {
				continue
			}
			now, err := r.Report.Clock.TSC(rec.value)
			if err != nil {
				t.Fatal(err)
			}
			var b [4]byte
			if r.Image.At(now).Read(x.ip, b[:]).Standing == timeline.InFlight {
				inFlight++
			}
		}
		return 20*len(changed) + 20*min(inFlight, 6) - len(pages), len(changed)+inFlight > 0
	})
	list.writeCut(t, run, r, filepath.Join("..", "testdata", "etm"))
	t.Logf("%d records, score %d", len(run)/logRecord, score)
}
