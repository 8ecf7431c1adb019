// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
)

// TestOnlySlot: a kprobe's slot has a copy of an instruction. The copy identifies the probe
// only if no other probe fits.
func TestOnlySlot(t *testing.T) {
	const (
		page  = uint64(0xffffffffc0200000)
		place = uint64(tapeTextLo + 0x100) // the text is all NOPs
	)
	tests := []struct {
		name string
		tape func(t *tape)
		want uint64 // the place of the armed probe that the slot is for; 0: unknown
	}{
		{"the only slot", func(*tape) {}, place},
		{"another with the same copy", func(t *tape) { t.poke(10, 310, page+0x10, "", "90cc") }, 0},
		{"another with the same copy that has gone", func(t *tape) {
			t.poke(10, 310, page+0x10, "", "90cc")
			t.poke(10, 320, page+0x10, "90cc", "")
		}, place},
		{"another with another copy", func(t *tape) { t.poke(10, 310, page+0x10, "", "55cc") }, place},
		{"a page from before the start", func(t *tape) {
			t.must(t.w.KSymbol(&perfdata.KSymbol{Addr: page + 0x1000, Len: 4096, Kind: perfdata.KSymbolOOL,
				Name: []byte("kprobe_insn_page"), SampleID: perfdata.SampleID{Event: t.made[0]}}))
		}, 0},
		{"records lost before", func(t *tape) {
			t.lost(10, 320, 1)
			t.lostSamples(10, 1)
		}, 0},
		{"records lost before it was made", func(t *tape) {
			t.lost(11, 250, 1)
			t.lostSamples(11, 1)
			nops := strings.Repeat("90", 16)
			t.poke(11, 270, place, nops, nops) // so the probed instruction is known
		}, 0},
		{"a page of other code", func(t *tape) { t.ksymbol(10, 310, page+0x1000, 4096, perfdata.KSymbolOOL, 0, "other_page") }, place},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tape := newTape(t)
			tape.copied = true
			tape.comm(10, 0, 0, 7, "perf-exec")
			tape.comm(10, 100, perfdata.MiscCommExec, 7, "workload")
			tape.tick(11, 100)
			tape.ksymbol(10, 200, page, 4096, perfdata.KSymbolOOL, 0, "kprobe_insn_page")
			tape.poke(10, 300, page, "", "90cc")
			tt.tape(tape)
			tape.poke(10, 400, place, "90", "cc")
			tape.poke(10, 500, place, "cc", "90")
			tape.poke(10, 600, page, "90cc", "")
			tape.tick(10, 900)
			tape.tick(11, 900)
			r := tape.replay()
			for _, w := range r.Report.Warnings {
				t.Error(w)
			}
			s, ok := r.TrampolineAt(page+1, 450)
			if ok != (tt.want != 0) || ok && (len(s.Places) != 1 || s.Places[0] != tt.want || s.From != 300 || s.To != 600) {
				t.Errorf("%v, %+v, want %#x", ok, s, tt.want)
			}
			if _, ok := r.TrampolineAt(page+1, 600); ok {
				t.Error("it serves when it has gone")
			}
		})
	}
}

// TestSlotBeforeBegin: until all CPUs record, another one may have removed a slot with no record.
func TestSlotBeforeBegin(t *testing.T) {
	page, place := uint64(0xffffffffc0200000), uint64(tapeTextLo+0x100)
	from, to := page+1+opLen, place+1 // the jump back behind the instruction
	code := fmt.Sprintf("90e9%08x", bits.ReverseBytes32(uint32(to-from)))
	for _, tt := range []struct {
		first uint64 // the first record of CPU 1
		want  bool
	}{{200, true}, {301, false}} {
		w := newTape(t)
		w.ksymbol(10, 200, page, 4096, perfdata.KSymbolOOL, 0, "kprobe_insn_page")
		w.poke(10, 300, page, "", code)
		w.tick(11, tt.first)
		w.ticks(900, 1000)
		r := w.replay()
		if r.Report.First != 200 || r.Report.Begin != tt.first {
			t.Fatalf("it begins at %d, and all CPUs record from %d on, want 200 and %d", r.Report.First, r.Report.Begin, tt.first)
		}
		s, ok := r.TrampolineAt(page, 500)
		if ok != tt.want || ok && (len(s.Places) != 1 || s.Places[0] != place) {
			t.Errorf("all CPUs record from %d on: %v, %+v, want %v", tt.first, ok, s, tt.want)
		}
	}
}

// TestShortSlot: out-of-line code that is too short for its kind, as in a damaged record,
// is for nothing.
func TestShortSlot(t *testing.T) {
	const page = uint64(0xffffffffc0200000)
	for _, name := range []string{"kprobe_insn_page", "kprobe_optinsn_page", "ftrace_trampoline"} {
		for n := 1; n < 16; n++ {
			w := newTape(t)
			w.ticks(100, 200)
			w.ksymbol(10, 210, page, 4096, perfdata.KSymbolOOL, 0, name)
			w.poke(10, 220, page, "", strings.Repeat("90", n))
			w.ticks(300, 400)
			if s, ok := w.replay().TrampolineAt(page, 250); ok && (s.Func != 0 || len(s.Places) > 0) {
				t.Errorf("%d bytes of %s serve %+v", n, name, s)
			}
		}
	}
}
