// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// perfRecord is how perf report -D begins a record, perfPoke what it prints of a text
// poke: time and address.
var (
	perfRecord = regexp.MustCompile(`(?m)^(?:-?\d+ )*(?:0x[0-9a-f]+|0) \[0x[0-9a-f]+\]: PERF_RECORD_([A-Z_0-9]+)`)
	perfPoke   = regexp.MustCompile(`(?m)^(?:-?\d+ )?(\d+) 0x[0-9a-f]+ \[0x[0-9a-f]+\]: PERF_RECORD_TEXT_POKE ([0-9a-f]+)`)
)

// TestPerfReads checks that perf reads what is simulated: as many records of each type,
// and the time and address of each text poke.
func TestPerfReads(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("perf is not installed")
	}
	for _, name := range []string{"plain", "perf-5.10", "perf-clock", "no-identifier", "samples", "compressed", "lossy"} {
		t.Run(name, func(t *testing.T) {
			c := variant(t, name).config(3)
			run, err := simulate(c)
			if err != nil {
				t.Fatal(err)
			}
			paths, err := run.write(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(perf, "report", "-D", "-i", paths[0]).Output()
			if err != nil {
				t.Fatalf("perf: %v", err)
			}
			compressed := c.Record.Compress
			if compressed {
				c.Record.Compress = false
				if run, err = simulate(c); err != nil {
					t.Fatal(err)
				}
			}
			counts, pokes := readRecords(run)
			var perfPokes []string
			for _, m := range perfPoke.FindAllSubmatch(out, -1) {
				perfPokes = append(perfPokes, fmt.Sprintf("%s %s", m[1], m[2]))
			}
			slices.Sort(pokes)
			slices.Sort(perfPokes)
			if len(pokes) == 0 || !slices.Equal(pokes, perfPokes) {
				t.Errorf("perf reads %d text pokes, other than the %d there are", len(perfPokes), len(pokes))
			}
			perfCounts := make(map[string]int)
			for _, m := range perfRecord.FindAllSubmatch(out, -1) {
				perfCounts[string(m[1])]++
			}
			if compressed {
				delete(perfCounts, "COMPRESSED")
			}
			if !maps.Equal(counts, perfCounts) {
				t.Errorf("perf counts %v instead of %v", perfCounts, counts)
			}
		})
	}
}

// readRecords counts a recording's records by type, and returns time and address of
// each text poke.
func readRecords(run *Run) (counts map[string]int, pokes []string) {
	counts = make(map[string]int)
	order := run.Kernel.Format.Order
	for data := run.Recording.Pieces[0].Records; len(data) > 0; {
		kind, size := rawperf.Type(order.Uint32(data)), order.Uint16(data[6:])
		counts[typeNames[kind]]++
		if kind == rawperf.TypeTextPoke {
			// The trailer is TID, TIME, CPU and IDENTIFIER, or TID, TIME, ID and CPU.
			time := order.Uint64(data[size-24:])
			pokes = append(pokes, fmt.Sprintf("%d %x", time, order.Uint64(data[rawperf.HeaderSize:])))
		}
		data = data[size:]
	}
	return counts, pokes
}

var typeNames = map[rawperf.Type]string{
	rawperf.TypeMmap: "MMAP", rawperf.TypeLost: "LOST", rawperf.TypeComm: "COMM", rawperf.TypeExit: "EXIT", rawperf.TypeFork: "FORK",
	rawperf.TypeSample: "SAMPLE", rawperf.TypeLostSamples: "LOST_SAMPLES", rawperf.TypeKSymbol: "KSYMBOL", rawperf.TypeBPFEvent: "BPF_EVENT",
	rawperf.TypeTextPoke: "TEXT_POKE", rawperf.TypeFinishedRound: "FINISHED_ROUND", rawperf.TypeIDIndex: "ID_INDEX",
	rawperf.TypeThreadMap: "THREAD_MAP", rawperf.TypeCPUMap: "CPU_MAP", rawperf.TypeTimeConv: "TIME_CONV", rawperf.TypeFinishedInit: "FINISHED_INIT",
}

func variant(t *testing.T, name string) *Variant {
	t.Helper()
	i := slices.IndexFunc(Variants, func(v Variant) bool { return strings.EqualFold(v.Name, name) })
	if i < 0 {
		t.Fatalf("no variant is called %s", name)
	}
	return &Variants[i]
}
