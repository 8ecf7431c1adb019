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

var cut = flag.String("cut", "", "TestCutExecution: make testdata/pt out of the execution in `DIR`")

// TestCutExecution cuts testdata/pt out of a large execution. Of one CPU it takes the run of
// instructions that met most traps on the fewest pages.
//
//	go test ./examples -run TestCutExecution -cut ../../shared/corpus/x86_64/exec/pt
func TestCutExecution(t *testing.T) {
	if *cut == "" {
		t.Skip("makes test data: give -cut DIR")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const records, size = 4000, 16
	to := filepath.Join("..", "testdata", "pt")
	var lines, entries []string // of instructions, by number
	var addrs []uint64
	list, err := os.ReadFile(filepath.Join(*cut, "insns.txt"))
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
	log, err := os.ReadFile(filepath.Join(*cut, "trace.bin"))
	must(err)
	byCPU := make(map[byte][]byte)
	for ; len(log) >= size; log = log[size:] {
		cpu := log[12]
		byCPU[cpu] = append(byCPU[cpu], log[:size]...)
	}
	const frame = 13 // in a record: 1 if it is a word of a frame
	best, bestScore := []byte(nil), -1<<30
	for _, raw := range byCPU {
		for at := 0; at+records*size <= len(raw); at += 250 * size {
			if raw[at+frame] != 0 {
				continue
			}
			pages, traps := make(map[uint64]bool), 0
			for r := raw[at : at+records*size]; len(r) > 0; r = r[size:] {
				id := binary.LittleEndian.Uint32(r[8:])
				if r[frame] == 0 {
					pages[addrs[id]>>12] = true
					if strings.HasSuffix(lines[id], " cc\n") {
						traps++
					}
				}
			}
			if score := 6*min(traps, 8) - len(pages); traps > 0 && score > bestScore {
				best, bestScore = raw[at:at+records*size], score
			}
		}
	}
	if best == nil {
		t.Fatal("the log has no trap")
	}
	// The log with instructions numbered anew, as of CPU 0.
	must(os.MkdirAll(to, 0o777))
	var text, out bytes.Buffer
	number := make(map[uint32]uint32)
	ranges := []timeline.Range{}
	for r := best; len(r) > 0; r = r[size:] {
		rec := bytes.Clone(r[:size])
		id := binary.LittleEndian.Uint32(rec[8:])
		n, ok := number[id]
		if !ok {
			n = uint32(len(number))
			number[id] = n
			f := strings.Fields(lines[id])
			fmt.Fprintf(&text, "I %d %s %s %s\n", n, f[2], f[3], f[4])
			ranges = append(ranges, timeline.Range{Lo: addrs[id], Hi: addrs[id] + uint64(len(f[4])/2)})
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
	r, err := replay.Load(filepath.Join(*cut, "rec.data"), replay.Options{})
	must(err)
	defer r.Close()
	must(os.RemoveAll(filepath.Join(to, "cut.data")))
	must(trim.Write(filepath.Join(to, "cut.data"), r, trim.Options{Ranges: ranges}))
	insns, cpus := readExecution(t, to)
	must(os.WriteFile(filepath.Join(to, "cpu0.pt"), encodeTrace(insns, cpus[0], traceForm{1, 0, 1 << 12}), 0o666))
	t.Logf("%d instructions, score %d", len(cpus[0]), bestScore)
}
