// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/timeline"
)

// TestStaticCallReturn0: a static call that returns 0 has an instruction that the handler does
// not know; it calls __static_call_return0 in its place.
func TestStaticCallReturn0(t *testing.T) {
	const at, return0 = 0x1100, 0x1400
	const nop, zero = "0f1f440000", "2e2e2e31c0"
	w := newTape(t)
	w.kallsyms = "0000000000001000 T _stext\n0000000000001400 T __static_call_return0\n0000000000002000 T _etext\n"
	w.poke(10, 1_000_000, at, nop, zero)
	w.ticks(2_000_000, 2_000_000)
	r := w.replay()
	windows := r.Windows().At(at, 5, 1_000_000)
	if len(windows) != 1 {
		t.Fatalf("%d windows", len(windows))
	}
	want := Effect{Kind: EffectCall, Target: return0, Next: at + 5}
	if got := r.Effect(&windows[0]); got != want {
		t.Errorf("Effect is %+v, want %+v", got, want)
	}
	for _, a := range r.Cursor().Alternatives(at, 1_000_000, 1_000_000) {
		if a.Trap && a.Effect != want {
			t.Errorf("the cursor says %+v, want %+v", a.Effect, want)
		}
	}
	for _, c := range []struct {
		name    string
		machine elf.Machine
		kind    timeline.PokeKind
		code    string
		return0 uint64
		want    EffectKind
	}{
		{"no symbol", elf.EM_X86_64, timeline.PokeBatch, zero, 0, EffectUnknown},
		{"no code", elf.EM_X86_64, timeline.PokeBatch, "", return0, EffectUnknown},
		{"a kprobe", elf.EM_X86_64, timeline.PokeArmed, nop, return0, EffectProbe},
		{"a kprobe over zero", elf.EM_X86_64, timeline.PokeDisarmed, zero, return0, EffectProbe},
		{"NOP", elf.EM_X86_64, timeline.PokeBatch, nop, return0, EffectNop},
	} {
		got := effectOf(c.machine, &timeline.Window{Addr: at, Len: 5, Kind: c.kind}, fromHex(c.code), c.return0)
		if got.Kind != c.want {
			t.Errorf("%s: %v, want %v", c.name, got.Kind, c.want)
		}
	}
}

// TestDisputedEffect: a trap acts by what its poke wrote, also if a later fact contradicts
// these bytes, since a change between was lost.
func TestDisputedEffect(t *testing.T) {
	const at = 0x1100
	const nop, jmp, call = "0f1f440000", "e9fb020000", "e8fb030000"
	w := newTape(t)
	w.poke(10, 1_000_000, at, nop, jmp)
	w.ticks(2_000_000, 2_000_000)
	w.lost(10, 3_000_000, 1)
	w.poke(10, 4_000_000, at, call, nop)
	w.ticks(5_000_000, 5_000_000)
	r := w.replay()
	const during = 1_000_000
	if s := r.Image.At(during).Read(at, make([]byte, 5)).Standing; s != timeline.Conflicting {
		t.Fatalf("the bytes are %v", s)
	}
	windows := r.Windows().At(at, 5, during)
	if len(windows) == 0 {
		t.Fatal("no window")
	}
	want := Effect{Kind: EffectJump, Target: at + 0x300, Next: at + 5}
	if got := r.Effect(&windows[0]); got != want {
		t.Errorf("Effect is %+v, want %+v", got, want)
	}
	found := false
	for _, a := range r.Cursor().Alternatives(at, during, during) {
		found = found || a.Trap && a.Effect == want
	}
	if !found {
		t.Error("the cursor has no such trap")
	}
}

// TestAlternativesOfCutCode: where the end of an instruction is not known at first, what is known of it
// later is listed: the answer for a time has no part in that for another one, and an interval has both.
func TestAlternativesOfCutCode(t *testing.T) {
	const at = 0x1100
	const known = 2_000_000 // from when on the other bytes are known
	w := newTape(t)
	w.ticks(1_000_000, 1_100_000)
	w.poke(10, 1_500_000, at, "e9", "e8")
	w.poke(10, known, at+1, "", "fb020000")
	w.ticks(3_000_000, 4_000_000)
	r := w.replay()
	whole := func(list []Alternative) bool {
		return slices.ContainsFunc(list, func(a Alternative) bool {
			return a.Possible && a.Inst.HasTarget && a.Inst.Target == at+5+0x2fb && a.Validity.At(known)
		})
	}
	c := r.Cursor()
	before := c.Alternatives(at, known-100_000, known-100_000)
	if len(before) == 0 || !before[0].Inst.Data || len(before[0].Inst.Bytes) != 1 || whole(before) {
		t.Fatalf("before the other bytes are known: %+v", before)
	}
	for _, c := range []*Cursor{c, r.Cursor()} { // one that was asked before, and a new one
		if list := c.Alternatives(at, known+500_000, known+500_000); !whole(list) {
			t.Errorf("afterwards: %+v", list)
		}
		if list := c.Alternatives(at, known-100_000, known+500_000); !whole(list) {
			t.Errorf("in an interval that has both times: %+v", list)
		}
	}
}

// TestProbedUnknown: the handler of a probe may return anywhere if the instruction that the probe is on is
// not known: if only its beginning is, or if it may be another one.
func TestProbedUnknown(t *testing.T) {
	const cut, unsure = 0x1100, 0x1200
	w := newTape(t)
	w.ticks(1_000_000, 1_100_000)
	w.poke(10, 1_500_000, cut, "e9", "e8")
	w.poke(10, 1_600_000, unsure, "0f1f440000", "e9fb020000")
	w.poke(10, 2_000_000, cut+1, "", "fb020000")
	w.ticks(3_000_000, 4_000_000)
	r := w.replay()
	c := r.Cursor()
	for _, tt := range []struct {
		probe, addr, time uint64
		want              bool
	}{
		{cut, 0x9000, 1_900_000, true},
		{cut, cut + 1, 2_500_000, false}, // the call is known by now
		{cut, cut + 5 + 0x2fb, 2_500_000, true},
		{unsure, unsure + 5, 1_550_000, true},
		{unsure, 0x9000, 1_550_000, false},
		{unsure, 0x9000, 500_000, true}, // before the recording
	} {
		if got := c.ProbeMayResumeAt(tt.probe, tt.addr, tt.time); got != tt.want {
			t.Errorf("the handler of a probe at %#x returns to %#x at %d: %v, want %v", tt.probe, tt.addr, tt.time, got, tt.want)
		}
	}
}
