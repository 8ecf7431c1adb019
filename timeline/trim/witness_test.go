// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim_test

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

// TestWitnesses: what is cut at any time is known until then, and has only what the whole one knows.
func TestWitnesses(t *testing.T) {
	for _, name := range []string{"small", "rich", "uponline", "modfull", "thunks", "smalldup", "old510", "z72"} {
		t.Run(name, func(t *testing.T) {
			whole := open(t, recording(name))
			rng := rand.New(rand.NewPCG(3, 4))
			for range 5 {
				to := whole.Report.First + 1 + rng.Uint64N(whole.Report.Horizon+1-whole.Report.First)
				part, dir := cut(t, whole, trim.Options{To: to})
				if part.Report.Horizon != endOf(whole, to)-1 {
					t.Errorf("cut at %d: it ends at %d", to, part.Report.Horizon)
				}
				claims(t, part, whole, to)
				inOrder(t, dir)
			}
		})
	}
}

// inOrder checks that no CPU's records go back in time, samples aside.
func inOrder(t *testing.T, path string) {
	t.Helper()
	rec, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	newest := make(map[uint32]uint64)
	sc := rec.Scan()
	for sc.Next() {
		r := sc.Record()
		var id perfdata.SampleID
		if r.Type == perfdata.RecordSample || rec.SampleID(r, &id) != nil || id.Time == 0 {
			continue
		}
		if id.Time < newest[id.CPU] {
			t.Errorf("%v at %d of CPU %d is behind %d", r.Type, id.Time, id.CPU, newest[id.CPU])
		}
		newest[id.CPU] = max(newest[id.CPU], id.Time)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
}

// TestNoWitnessOfLosses: a CPU that was losing records was not recorded then. The LOST record that
// says so came after the end of what is kept.
func TestNoWitnessOfLosses(t *testing.T) {
	// Without changes, of which none can reach over the end.
	whole := open(t, corpus.Stripped(t, recording("lossy"), uint32(perfdata.RecordTextPoke)))
	var losses []replay.Loss
	for _, l := range whole.Report.Losses {
		if l.To > l.From+1 {
			losses = append(losses, l)
		}
	}
	if len(losses) < 100 {
		t.Fatalf("%d losses", len(losses))
	}
	for i := 50; i < 100; i++ {
		l := losses[i]
		part, _ := cut(t, whole, trim.Options{To: l.From + (l.To-l.From)/2 + 1})
		if part.Report.Horizon > l.From {
			t.Errorf("cut in a loss from %d to %d: it ends at %d", l.From, l.To, part.Report.Horizon)
		}
	}
}

// TestLossStart: a loss begins when it began in the whole recording, although the record before it is dropped.
func TestLossStart(t *testing.T) {
	whole := open(t, recording("lossy"))
	text := whole.Report.Segments[0].Lo
	for _, opts := range []trim.Options{{}, {Ranges: []timeline.Range{{Lo: text, Hi: text + 1}}}} {
		part, _ := cut(t, whole, opts)
		if diff := cmp.Diff(whole.Report.Losses, part.Report.Losses); diff != "" {
			t.Errorf("%v: losses (-whole +cut):\n%s", opts.Ranges, diff)
		}
	}
}

// TestTicks: what is cut out of a recording whose clock counts the kernel's ticks has such a clock too, wherever it is cut.
func TestTicks(t *testing.T) {
	const tick = 4_000_000
	w, path := recordNOPs(t, &genperf.Kernel{CPUs: 2})
	for i := range uint64(20) {
		err := w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr + 16*i, Old: []byte{0x90}, New: []byte{0x91}, SampleID: w.ID(genperf.Copied+i*25*tick, uint32(i%2), 7)})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(genperf.Copied + 500*tick); err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	if !whole.CountsTicks() {
		t.Fatal("it counts no ticks")
	}
	for _, to := range []uint64{0, genperf.Copied + 100*tick - 1, genperf.Copied + 100*tick, genperf.Copied + 100*tick + 1, genperf.Copied + 333*tick + tick/3} {
		part, _ := cut(t, whole, trim.Options{To: to})
		end := whole.Report.Horizon
		if to != 0 {
			end = min(end, whole.NextTick(endOf(whole, to))-1)
		}
		if !part.CountsTicks() || part.Report.Begin != whole.Report.Begin || part.Report.Horizon != end {
			t.Errorf("cut at %d: ticks %v, from %d to %d, want %d to %d", to, part.CountsTicks(), part.Report.Begin, part.Report.Horizon, whole.Report.Begin, end)
		}
		claims(t, part, whole, end)
	}
}

// TestWitnessesInPerf: perf finds the records of what was cut in order.
func TestWitnessesInPerf(t *testing.T) {
	perf, err := exec.LookPath("perf")
	if err != nil {
		t.Skip("skipped: perf is not installed")
	}
	for _, name := range []string{"small", "rich"} {
		whole := open(t, recording(name))
		half := whole.Report.First + (whole.Report.Horizon-whole.Report.First)/2
		_, dir := cut(t, whole, trim.Options{To: half})
		cmd := exec.Command(perf, "script", "--show-task-events", "-i", dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(stderr.Bytes(), []byte("out of order")) {
			t.Errorf("%s: %s", name, stderr.Bytes())
		}
		if !bytes.Contains(out, []byte("PERF_RECORD_COMM: swapper:0/0")) {
			t.Errorf("%s: no witness", name)
		}
	}
}
