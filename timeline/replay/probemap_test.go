// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Functions of a kernel whose writers call patch_map, where only register 20 of the writer has the
// address when the alias is mapped (7.2).
const (
	x20Map      = 0x1600 // patch_map
	x20Copy     = 0x1700 // aarch64_insn_copy, which __text_poke is a part of
	x20Caller   = 0x1780
	x20Kallsyms = "0000000000001600 t patch_map.constprop.0\n0000000000001700 T aarch64_insn_copy\n0000000000001780 T bpf_arch_text_copy\n" +
		"0000000000001800 T after\n0000000000002000 T _etext\n"
)

// newX20Tape returns a tape of such a kernel, with a probe on __set_fixmap.
func newX20Tape(tb testing.TB) *tape {
	w := newProbeTape(tb)
	call := func(from, to int64) uint32 { return 0x94000000 | uint32((to-from)/4)&0x3ffffff }
	for at, words := range map[int][]uint32{
		probeWriter: {
			0xa9bc7bfd, 0xa90153f3, // stp x29, x30, [sp, #-64]!; stp x19, x20, [sp, #16]
			0xaa0003f4, 0xaa1403e0, // mov x20, x0; mov x0, x20
			call(probeWriter+0x10, x20Map),
			0x9100f3e1, 0xd2800082, // add x1, sp, #60; mov x2, #4
			call(probeWriter+0x1c, probeCopyTo),
			0x52804080, // mov w0, #516
			call(probeWriter+0x24, probeMap),
			0xd65f03c0, 0xd65f03c0, 0xd65f03c0, // ret
		},
		x20Map: {
			0xa9be7bfd, 0xf9000bf3, // stp x29, x30, [sp, #-32]!; str x19, [sp, #16]
			0xaa0003f3, 0x92402e73, // mov x19, x0; and x19, x19, #0xfff
			0x52804080, call(x20Map+0x14, probeMap),
			0xf9400bf3, 0xd65f03c0, // ldr x19, [sp, #16]; ret
		},
		x20Copy: {
			0xa9bb7bfd, 0x8b1402a0, // stp x29, x30, [sp, #-80]!; add x0, x21, x20
			call(x20Copy+8, x20Map),
			0xaa1303e2, call(x20Copy+0x10, probeCopyTo), // mov x2, x19
			0x52804080, call(x20Copy+0x18, probeMap),
			0xd65f03c0,
		},
		x20Caller: {call(x20Caller, x20Copy)},
	} {
		for i, x := range words {
			binary.LittleEndian.PutUint32(w.text[at-tapeTextLo+4*i:], x)
		}
	}
	w.kallsyms = strings.TrimSuffix(w.kallsyms, "0000000000002000 T _etext\n") + x20Kallsyms
	w.tracing = strings.NewReplacer("x19", "x20", "at19", "at20").Replace(w.tracing)
	return w
}

// x20Change writes the samples of a change that the function does whose calls return to mapped,
// from patch_map, and to unmapped.
func (t *tape) x20Change(from, phys, x20, mapped, unmapped uint64, old, new string) {
	le := binary.LittleEndian
	before, after := make([]byte, 56+80), make([]byte, 56+80)
	for i, x := range []uint64{probeMap, 516, phys, x20Map + 0x18, x20} {
		le.PutUint64(before[8+8*i:], x)
	}
	copy(before[48:], fromHex(old))
	le.PutUint64(before[56+8:], mapped)
	for i, x := range []uint64{probeMap, 516, 0, unmapped} {
		le.PutUint64(after[8+8*i:], x)
	}
	copy(after[56+60:], fromHex(new))
	t.sample(21, from, before)
	t.sample(21, from+5, after)
}

// TestProbesX20: the code of the writer and of patch_map shows that register 20 has the address,
// and what only BPF writes is no text.
func TestProbesX20(t *testing.T) {
	const insn, brk6 = "e9031eaa", "c00020d4"
	for _, tt := range []struct {
		name       string
		at         int // where the code is another one, 0: nowhere
		word       uint32
		writes     bool // aarch64_insn_copy writes, too
		plan, slot bool // whether the probe can be planned, and the slot of a kprobe is known
	}{
		{"as it is", 0, 0, false, true, true},
		{"patch_map changes the register", x20Map + 0x18, 0xf9400bf4, false, false, false},
		{"the writer passes another register", probeWriter + 0xc, 0xaa1503e0, false, false, false},
		{"the writer is not what patch_map returns to", x20Map, 0xd503201f, false, false, false},
		{"BPF writes", 0, 0, true, true, true},
		{"others than BPF write so, too", probeStrange, 0x94000000 | (x20Copy-probeStrange)/4, true, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newX20Tape(t)
			if tt.at != 0 {
				binary.LittleEndian.PutUint32(w.text[tt.at-tapeTextLo:], tt.word)
			}
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 400)
			write := func(time, addr uint64, old, new string) {
				w.x20Change(time, addr+probePhys, addr, probeWriter+0x14, probeWriter+0x28, old, new)
			}
			write(480, 0x1100, wordNOP, wordB)
			write(500, 0x9010, "00000000", insn)
			write(510, 0x9014, "00000000", brk6)
			hits := uint64(7)
			if tt.writes {
				w.x20Change(600, 0x333000, 0, x20Copy+0xc, x20Copy+0x1c, "", "")
				hits += 2
			}
			w.ticks(800, 1000)
			w.reading(160, 1, 0)
			w.reading(950, hits, 0)
			r := w.replay()
			v := r.Image.At(800)
			var b [8]byte
			if s := v.Read(0x1100, b[:4]); s.Standing != timeline.Known || string(b[:4]) != string(fromHex(wordB)) {
				t.Errorf("kernel text is % x, %v (%v)", b[:4], s.Standing, s.Reason)
			}
			s := v.Read(0x9010, b[:])
			if (s.Standing == timeline.Known) != tt.slot || tt.slot && string(b[:]) != string(fromHex(insn+brk6)) {
				t.Errorf("the slot is % x, %v (%v), want known: %v", b, s.Standing, s.Reason, tt.slot)
			}
			snap := w.snapshot()
			p, err := PlanProbes(snap.Core, snap.Kallsyms)
			switch {
			case tt.plan && (err != nil || p.Definitions[0] != defineX20 || len(p.Definitions) != 1):
				t.Errorf("planned %v, %v", p, err)
			case !tt.plan && !errors.Is(err, ErrNoProbes):
				t.Errorf("planned %v, %v; want ErrNoProbes", p, err)
			}
		})
	}
}
