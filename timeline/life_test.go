// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func program(t, addr uint64, n uint32) SymbolEvent {
	return SymbolEvent{Time: t, Addr: addr, Len: n, Kind: SymbolBPF, Name: "bpf_prog_aa_a"}
}

func trampoline(t, addr uint64) SymbolEvent {
	return SymbolEvent{Time: t, Addr: addr, Len: 4096, Kind: SymbolBPF, Name: "bpf_trampoline_6442"}
}

func outOfLine(t, addr uint64) SymbolEvent {
	return SymbolEvent{Time: t, Addr: addr, Len: 4096, Kind: SymbolOutOfLine, Name: "kprobe_insn_page"}
}

func dead(e SymbolEvent, t uint64) SymbolEvent {
	e.Time, e.Unregister = t, true
	return e
}

// moduleM has text in [0x8000, 0x9000), all 0x55 in the snapshot, and data behind.
func moduleM(b *Builder, freed uint64) {
	b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
	b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000, Freed: freed})
}

// TestLives: what comes and goes at the same addresses (rules lifetimes and modules).
func TestLives(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts func(b *Builder)
		addr  uint64
		n     uint64
		want  string
	}{
		{
			name: "a program that begins inside a trampoline's page shows that the page ends there, and did all the time",
			facts: func(b *Builder) {
				b.Symbol(trampoline(300, 0x9000))
				b.Symbol(program(500, 0x9800, 16))
			},
			addr: 0x9900, n: 1,
			want: lines("0.. unmapped"),
		},
		{
			name: "and the trampoline before it lives on",
			facts: func(b *Builder) {
				b.Symbol(trampoline(300, 0x9000))
				b.Symbol(program(500, 0x9800, 16))
			},
			addr: 0x9100, n: 1,
			want: lines("0..300 unmapped", "300.. unknown bpf-trampoline"),
		},
		{
			name: "a trampoline that begins inside another's page ends that there",
			facts: func(b *Builder) {
				b.Symbol(trampoline(300, 0x9000))
				b.Symbol(trampoline(400, 0x9800))
				b.Symbol(dead(trampoline(0, 0x9800), 600))
			},
			addr: 0x9900, n: 1,
			want: lines("0..400 unmapped", "400..600 unknown bpf-trampoline", "600.. unknown unregistered"),
		},
		{
			name: "a trampoline's page ends where something alive begins",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9800, 16))
				b.Symbol(trampoline(400, 0x9000))
			},
			addr: 0x9900, n: 1,
			want: lines("0.. unmapped"),
		},
		{
			name: "an interpreted program has no length, and ends nothing",
			facts: func(b *Builder) {
				b.Symbol(outOfLine(300, 0x9000))
				b.Poke(pokeAt(0x9000, 310, "", "c3"))
				b.Symbol(program(400, 0x9008, 0))
				b.Symbol(dead(program(0, 0x9000, 0), 500))
			},
			addr: 0x9000, n: 1,
			want: lines("0..300 unmapped", "300..310 unknown out-of-line-gap", "310..1001 known c3", "1001.. unconfirmed beyond-horizon c3"),
		},
		{
			name: "a death ends what begins at its address, not what that lies in",
			facts: func(b *Builder) {
				b.Symbol(outOfLine(300, 0x9000))
				b.Poke(pokeAt(0x9000, 310, "", "c3"))
				b.Symbol(dead(program(0, 0x9010, 16), 500))
			},
			addr: 0x9000, n: 1,
			want: lines("0..300 unmapped", "300..310 unknown out-of-line-gap", "310..1001 known c3", "1001.. unconfirmed beyond-horizon c3"),
		},
		{
			name: "code of another length is not this program's",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9000, 2))
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9000, unhex("111111")}}})
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300.. unknown bpf-no-info"),
		},
		{
			name: "code belongs to the life that its LOAD follows, not to a later one",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9000, 2))
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9000, unhex("1111")}}})
				b.Symbol(dead(program(0, 0x9000, 2), 400))
				b.Symbol(program(500, 0x9000, 2))
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..400 known 1111", "400..500 retired unregistered 1111", "500.. unknown bpf-no-info"),
		},
		{
			name: "a program of several functions: each has its code",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9000, 2))
				b.Symbol(program(301, 0x9100, 2))
				b.Program(Program{ID: 1, LoadTime: 302, Funcs: []Segment{{0x9000, unhex("1111")}, {0x9100, unhex("2222")}}})
			},
			addr: 0x9100, n: 2,
			want: lines("0..301 unmapped", "301..1001 known 2222", "1001.. unconfirmed beyond-horizon 2222"),
		},
		{
			name: "out-of-line code may be larger than any record: several pokes make it",
			facts: func(b *Builder) {
				e := outOfLine(300, 0x100000)
				e.Len = 0x20000
				b.Symbol(e)
				big := make([]byte, 0xffff)
				for i := range big {
					big[i] = 0x90
				}
				b.Poke(&Poke{Addr: 0x100000, Time: 310, New: big})
				b.Poke(&Poke{Addr: 0x10ffff, Time: 320, New: big})
			},
			addr: 0x10fffe, n: 2,
			want: lines("0..300 unmapped", "300..310 unknown out-of-line-gap", "310..320 unknown out-of-line-gap",
				"320..1001 known 9090", "1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "what kallsyms lists and a synthesized record announces is one",
			facts: func(b *Builder) {
				listed := outOfLine(0, 0x9000)
				listed.Listed, listed.Len = true, 8192
				b.Symbol(outOfLine(0, 0x9000))
				b.Symbol(listed)
			},
			addr: 0xa000, n: 1,
			want: lines("0.. unmapped"),
		},
		{
			name: "out-of-line code that was there before: the copy gives it, unconfirmed",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x9000, 0x1000, 0x55)}})
				b.Symbol(outOfLine(0, 0x9000))
			},
			addr: 0x9010, n: 1,
			want: lines("0..1001 unconfirmed out-of-line-gap 55", "1001.. unconfirmed beyond-horizon 55"),
		},
		{
			name: "but not where it died before the copy was surely made",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x9000, 0x1000, 0x55)}})
				b.Symbol(outOfLine(0, 0x9000))
				b.Symbol(dead(outOfLine(0, 0x9000), 150))
			},
			addr: 0x9010, n: 1,
			want: lines("0..150 unknown out-of-line-gap", "150.. unknown unregistered"),
		},
		{
			name: "a module that was freed has ended, whatever comes there later",
			facts: func(b *Builder) {
				moduleM(b, 700)
				b.Symbol(program(800, 0x8100, 2))
			},
			addr: 0x8000, n: 1,
			want: lines("0..100 unconfirmed outside-recording 55", "100..700 known 55", "700.. retired unregistered 55"),
		},
		{
			name: "a birth inside a module shows that it had gone, since it was confirmed last",
			facts: func(b *Builder) {
				moduleM(b, 0)
				b.Poke(pokeAt(0x8800, 300, "5555", "5555"))
				b.Symbol(program(500, 0x8100, 2))
			},
			addr: 0x8000, n: 1,
			want: lines("0..100 unconfirmed outside-recording 55", "100..300 known 55",
				"300..500 conflicting module-contradicted 55", "500.. retired module-contradicted 55"),
		},
		{
			name: "a birth inside a module that nothing confirmed since the copy",
			facts: func(b *Builder) {
				moduleM(b, 0)
				b.Symbol(program(500, 0x8100, 2))
			},
			addr: 0x8000, n: 1,
			want: lines("0..100 unconfirmed outside-recording 55", "100..200 known 55",
				"200..500 conflicting module-contradicted 55", "500.. retired module-contradicted 55"),
		},
		{
			name: "a birth inside a module while the copy was made",
			facts: func(b *Builder) {
				moduleM(b, 0)
				b.Symbol(program(150, 0x8100, 2))
			},
			addr: 0x8000, n: 1,
			want: lines("0..150 conflicting module-contradicted 55", "150.. retired module-contradicted 55"),
		},
		{
			name: "a poke of a module while the copy was made contradicts nothing",
			facts: func(b *Builder) {
				moduleM(b, 0)
				b.Poke(pokeAt(0x8100, 150, "6666", "5555"))
			},
			addr: 0x8000, n: 1,
			want: lines("0..100 unconfirmed outside-recording 55", "100..1001 known 55", "1001.. unconfirmed beyond-horizon 55"),
		},
		{
			name: "a module's text is padded like the kernel's",
			facts: func(b *Builder) {
				b.CallThunks(true)
				s := thunky()
				m := snapshotOf(0x8000, 0x3000, 0xc3)
				copy(m.Data[0x100:], unhex("909090909090909090909090"))
				s.Segments = append(s.Segments, m)
				b.SetSnapshot(s)
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000})
			},
			addr: 0x8100, n: 12,
			want: lines("0.. unconfirmed thunk-padding 909090909090909090909090"),
		},
		{
			name:  "padding of a kernel that writes no thunks",
			facts: func(b *Builder) { b.SetSnapshot(thunky()) },
			addr:  0x11f7, n: 9,
			want: lines("0..100 unconfirmed outside-recording 909090909090909090",
				"100..1001 known 909090909090909090", "1001.. unconfirmed beyond-horizon 909090909090909090"),
		},
		{
			name: "old bytes reach back to a birth, not further",
			facts: func(b *Builder) {
				b.Symbol(outOfLine(300, 0x9000))
				b.Poke(pokeAt(0x9000, 400, "9090", "eb02"))
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..400 known 9090", "400..1001 known eb02", "1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "a trampoline that begins inside another's page, and the one before it",
			facts: func(b *Builder) {
				b.Symbol(trampoline(300, 0x9000))
				b.Symbol(trampoline(400, 0x9800))
			},
			addr: 0x9000, n: 1,
			want: lines("0..300 unmapped", "300.. unknown bpf-trampoline"),
		},
		{
			name: "a poke with old bytes, of a place that was poked to nothing",
			facts: func(b *Builder) {
				b.Symbol(outOfLine(300, 0x9000))
				b.Poke(pokeAt(0x9000, 310, "", "5589"))
				b.Poke(pokeAt(0x9000, 400, "5589", ""))
				b.Poke(pokeAt(0x9000, 500, "5589", "c390"))
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..310 unknown out-of-line-gap", "310..400 known 5589",
				"400..500 retired poked-to-nothing 5589", "500.. retired nothing-alive c390"),
		},
		{
			name: "a lost poke leaves a program unconfirmed",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 400, 410, AfterLoss)
				b.Symbol(program(300, 0x9000, 2))
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9000, unhex("1111")}}})
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..1001 unconfirmed after-loss 1111", "1001.. unconfirmed beyond-horizon 1111"),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := kernel()
			tt.facts(b)
			got := history(mustBuild(t, b), tt.addr, tt.n)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
