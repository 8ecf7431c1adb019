// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

var armCut = flag.String("arm-cut", "", "TestCutArmExecution: make testdata/etm out of the execution in `DIR`")

// TestCutArmExecution cuts testdata/etm out of a large execution. Of one CPU it takes the run of
// instructions that saw most words change, or executed most of them while the change was in
// flight, on the fewest pages.
//
//	go test ./examples -run TestCutArmExecution -arm-cut DIR
func TestCutArmExecution(t *testing.T) {
	if *armCut == "" {
		t.Skip("makes test data: give -arm-cut DIR")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const records, size, stride = 5000, 16, 500
	to := filepath.Join("..", "testdata", "etm")
	var lines, entries []string // of instructions, by number
	var addrs []uint64
	list, err := os.ReadFile(filepath.Join(*armCut, "insns.txt"))
	must(err)
	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		switch f[0] {
		case "I":
			var addr uint64
			_, err := fmt.Sscanf(f[2], "%x", &addr)
			must(err)
			lines, addrs = append(lines, line), append(addrs, addr)
		case "E":
			entries = append(entries, line)
		}
	}
	log, err := os.ReadFile(filepath.Join(*armCut, "trace.bin"))
	must(err)
	byCPU := make(map[byte][]byte)
	all := make(map[uint64]map[string]bool) // the values of each word
	for ; len(log) >= size; log = log[size:] {
		if id := binary.LittleEndian.Uint32(log[8:]); log[13] == 0 {
			m := all[addrs[id]]
			if m == nil {
				m = make(map[string]bool)
				all[addrs[id]] = m
			}
			m[lines[id][strings.LastIndexByte(lines[id], ' '):]] = true
		}
		byCPU[log[12]] = append(byCPU[log[12]], log[:size]...)
	}
	r, err := replay.Load(filepath.Join(*armCut, "rec.data"), replay.Options{})
	must(err)
	defer r.Close()
	const frame = 13 // in a record: 1 if it is where an exception returns to
	best, bestScore := []byte(nil), -1<<30
	for _, raw := range byCPU {
		for at := 0; at+records*size <= len(raw); at += stride * size {
			if raw[at+frame] != 0 {
				continue
			}
			pages, values, changed := make(map[uint64]bool), make(map[uint64]string), make(map[uint64]bool)
			inFlight := 0
			for rec := raw[at : at+records*size]; len(rec) > 0; rec = rec[size:] {
				id := binary.LittleEndian.Uint32(rec[8:])
				if rec[frame] != 0 {
					continue
				}
				a := addrs[id]
				f := lines[id][strings.LastIndexByte(lines[id], ' '):]
				pages[a>>12] = true
				if v, ok := values[a]; ok && v != f {
					changed[a] = true
				}
				values[a] = f
				if len(all[a]) < 2 {
					continue
				}
				now, err := r.Report.Clock.TSC(binary.LittleEndian.Uint64(rec))
				must(err)
				var b [4]byte
				if r.Image.At(now).Read(a, b[:]).Standing == timeline.InFlight {
					inFlight++
				}
			}
			if score := 20*len(changed) + 20*min(inFlight, 6) - len(pages); len(changed)+inFlight > 0 && score > bestScore {
				best, bestScore = raw[at:at+records*size], score
			}
		}
	}
	if best == nil {
		t.Fatal("no CPU saw a word change in so few instructions")
	}
	// The log with instructions numbered anew, as of CPU 0.
	must(os.MkdirAll(to, 0o777))
	var text, out bytes.Buffer
	number := make(map[uint32]uint32)
	ranges := []timeline.Range{}
	for ; len(best) > 0; best = best[size:] {
		rec := bytes.Clone(best[:size])
		id := binary.LittleEndian.Uint32(rec[8:])
		n, ok := number[id]
		if !ok {
			n = uint32(len(number))
			number[id] = n
			f := strings.Fields(lines[id])
			fmt.Fprintf(&text, "I %d %s %s %s\n", n, f[2], f[3], f[4])
			ranges = append(ranges, timeline.Range{Lo: addrs[id], Hi: addrs[id] + 4})
		}
		binary.LittleEndian.PutUint32(rec[8:], n)
		rec[12] = 0
		out.Write(rec)
	}
	for _, e := range entries {
		text.WriteString(e)
	}
	must(os.WriteFile(filepath.Join(to, "trace.bin"), out.Bytes(), 0o666))
	must(os.WriteFile(filepath.Join(to, "insns.txt"), text.Bytes(), 0o666))
	must(os.RemoveAll(filepath.Join(to, "cut.data")))
	must(trim.Write(filepath.Join(to, "cut.data"), r, trim.Options{Ranges: ranges}))
	t.Logf("%d instructions, score %d", records, bestScore)
}
