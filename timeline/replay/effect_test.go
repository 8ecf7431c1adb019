// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"
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
