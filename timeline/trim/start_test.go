// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

// same checks that part answers what whole answers, in the ranges at random times before a time.
func same(t *testing.T, part, whole *replay.Replay, ranges []timeline.Range, before uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2_000 {
		g := ranges[rng.IntN(len(ranges))]
		addr, at := g.Lo+rng.Uint64N(g.Hi-g.Lo), whole.Report.First+rng.Uint64N(before-whole.Report.First)
		var want, got [4]byte
		w, p := whole.Image.At(at).Read(addr, want[:]), part.Image.At(at).Read(addr, got[:])
		if p.Standing != w.Standing || p.Reason != w.Reason || got != want {
			t.Fatalf("%#x at %d: %v (%v) %x, want %v (%v) %x", addr, at, p.Standing, p.Reason, got, w.Standing, w.Reason, want)
		}
		ws, ok := whole.Image.At(at).Symbol(addr)
		if ps, has := part.Image.At(at).Symbol(addr); has != ok || ps.Name != ws.Name {
			t.Fatalf("%#x at %d: symbol %q, want %q", addr, at, ps.Name, ws.Name)
		}
	}
}

// TestReachesCopy: what is cut before perf's copy of text was complete is kept up to there, with the copy and its names.
func TestReachesCopy(t *testing.T) {
	for _, name := range []string{"callgraph", "modfull", "hotplug", "old510", "z72", "probe612"} {
		t.Run(name, func(t *testing.T) {
			whole := open(t, recording(name))
			r := whole.Report
			if r.Copied.To >= r.Horizon || r.Copied.To != whole.ReadyBy() {
				t.Fatalf("copied by %d, ready by %d; known up to %d", r.Copied.To, whole.ReadyBy(), r.Horizon)
			}
			if r.First == r.Copied.To {
				t.Fatal("nothing was recorded before")
			}
			rng := rand.New(rand.NewPCG(7, 8))
			lo, hi := whole.Image.Text()
			for range 4 {
				to := r.First + 1 + rng.Uint64N(r.Copied.To-r.First)
				var ranges []timeline.Range
				for len(ranges) < 2 {
					if s, ok := whole.Image.At(r.Copied.To).Symbol(lo + rng.Uint64N(hi-lo)); ok && s.Size > 0 && s.Size < 1<<16 && whole.Image.At(r.Copied.To).Read(s.Addr, make([]byte, 1)).Given == 1 {
						ranges = append(ranges, timeline.Range{Lo: s.Addr, Hi: s.Addr + s.Size})
					}
				}
				part, _ := cut(t, whole, trim.Options{To: to, Ranges: ranges})
				if part.Report.Copied == nil || *part.Report.Copied != *r.Copied || part.Report.Begin != r.Begin {
					t.Errorf("cut at %d: copied by %v, want %v; begins at %d, want %d", to, part.Report.Copied, r.Copied, part.Report.Begin, r.Begin)
				}
				if name != "z72" && name != "probe612" { // padding, and hit counters that are read later
					same(t, part, whole, ranges, to)
				}
				claims(t, part, whole, r.Copied.To)
			}
		})
	}
}

// TestCopyOfLater: if nothing shows when perf had copied text, a cut does not take what the copy has for the text of before
// its end.
func TestCopyOfLater(t *testing.T) {
	for name, clean := range map[string]bool{"clean": true, "cut off": false} {
		t.Run(name, func(t *testing.T) {
			w, path := recordNOPs(t, &genperf.Kernel{CPUs: 1, NoExec: true})
			poke := func(at uint64, i int) error {
				return w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr + 16*uint64(i), Old: []byte{0x91}, New: []byte{0x90}, SampleID: w.ID(at, 0, 7)})
			}
			err := errors.Join(poke(2e9, 1), poke(3e9, 2), poke(5e9, 3), w.End(9e9))
			if err != nil {
				t.Fatal(err)
			}
			if !clean {
				data := filepath.Join(path, "data")
				text, err := os.ReadFile(data)
				if err != nil {
					t.Fatal(err)
				}
				clear(text[48:56]) // the size of the records, which perf writes at the end
				sc := open(t, path).Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
				for range 3 {
					sc.Next() // up to the last change: the first one and the second are before the horizon
				}
				end := sc.Record().Offset
				if err := os.WriteFile(data, text[:end], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			load := func(path string) *replay.Replay {
				r, err := replay.Load(path, replay.Options{CPUs: 1})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { r.Close() })
				return r
			}
			whole := load(path)
			if whole.Report.Clean != clean || whole.Report.Horizon < 26e8 {
				t.Fatalf("clean: %v, up to %d", whole.Report.Clean, whole.Report.Horizon)
			}
			for _, to := range []uint64{25e8, 0} {
				_, dir := cut(t, whole, trim.Options{To: to})
				part := load(dir)
				claims(t, part, whole, 25e8)
				for i := range uint64(4) {
					var want, got [1]byte
					at := genperf.TextAddr + 16*i
					ws, ps := whole.Image.At(24e8).Read(at, want[:]), part.Image.At(24e8).Read(at, got[:])
					if clean && (ps.Standing != ws.Standing || got != want) || ps.Standing == timeline.Known && (ws.Standing != ps.Standing || got != want) {
						t.Errorf("cut at %d: %#x is %x (%v), want %x (%v)", to, at, got, ps.Standing, want, ws.Standing)
					}
				}
			}
		})
	}
}

// TestAnnouncedLater: a program that came after the end of what is kept does not seem to have been there before it because
// perf announced it.
func TestAnnouncedLater(t *testing.T) {
	const addr, id, name = 0xffffffffc0100000, 7, "bpf_prog_0102030405060708_f"
	for announced, late := range map[string]bool{"when it began": false, "at its end": true} {
		t.Run(announced, func(t *testing.T) {
			w, path := recordNOPs(t, &genperf.Kernel{CPUs: 1, NoExec: true})
			came := func(s perfdata.SampleID) error {
				return errors.Join(w.KSymbol(&perfdata.KSymbol{Addr: addr, Len: 64, Kind: perfdata.KSymbolBPF, Name: []byte(name), SampleID: s}),
					w.BPFEvent(&perfdata.BPFEvent{Kind: perfdata.BPFLoad, ID: id, Tag: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, SampleID: s}))
			}
			announce := func(now bool) error {
				if !now {
					return nil
				}
				id := w.ID(0, 0, 0)
				id.ID = 0
				return came(id)
			}
			exec := func() error {
				return w.Comm(perfdata.MiscCommExec, &perfdata.Comm{PID: genperf.Workload, TID: genperf.Workload, Comm: []byte("true"), SampleID: w.ID(4e9, 0, genperf.Workload)})
			}
			born, to := uint64(3e9), uint64(25e8) // perf announces what is there before the exec
			if late {
				born, to = 5e9, 45e8
			}
			err := errors.Join(announce(!late), exec(), came(w.ID(born, 0, 9)), announce(late), w.End(9e9))
			if err != nil {
				t.Fatal(err)
			}
			whole := open(t, path)
			part, _ := cut(t, whole, trim.Options{To: to})
			for which, r := range map[string]*replay.Replay{"whole": whole, "cut": part} {
				if s, ok := r.Image.At(to - 1).Symbol(addr); ok {
					t.Errorf("%s: %s is there", which, s.Name)
				}
			}
			if late && !whole.AnnouncesLate() {
				t.Error("it was not announced late")
			}
			if s, ok := whole.Image.At(born).Symbol(addr); !ok || s.Name != name {
				t.Error("it does not come")
			}
		})
	}
}

// TestStartKept: the record that shows when perf had copied text, or from when on all CPUs recorded, is kept, also if it is
// a sample. Without COMM records, no exec shows it.
func TestStartKept(t *testing.T) {
	for _, name := range []string{"callgraph", "hotplug", "modfull"} {
		whole := open(t, corpus.Stripped(t, recording(name), uint32(perfdata.RecordComm)))
		part, _ := cut(t, whole, trim.Options{})
		if w, p := whole.Report, part.Report; *p.Copied != *w.Copied || p.Begin != w.Begin {
			t.Errorf("%s: copied by %d, begins at %d; want %d, %d", name, p.Copied.To, p.Begin, w.Copied.To, w.Begin)
		}
	}
}
