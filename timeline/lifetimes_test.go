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

// missed is a gap in the records of births and deaths.
func missed(b *Builder) { b.Gap(GapSymbols, 400, 410, AfterLoss) }

// TestLivesAfterGaps: behind a gap in the records of births and deaths nothing is
// alive or dead unless a record without a gap between shows it (rule lifetimes).
func TestLivesAfterGaps(t *testing.T) {
	const tailCall, noCall = "e9aabbccdd", "0f1f440000" // a tail call's jump, and before
	for _, tt := range []struct {
		name  string
		facts func(b *Builder)
		addr  uint64
		n     uint64
		want  string
	}{
		{
			name: "what was alive before may be gone: a poke shows nothing",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9000, 16))
				missed(b)
				b.Poke(pokeAt(0x9000, 500, "9090", "eb02"))
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..500 unconfirmed after-loss 9090", "500..1001 unconfirmed after-loss eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "its death shows that it was there since the gap",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9000, 16))
				missed(b)
				b.Poke(pokeAt(0x9000, 500, "9090", "eb02"))
				b.Symbol(dead(program(0, 0x9000, 16), 600))
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..410 unconfirmed after-loss 9090", "410..500 known 9090",
				"500..600 known eb02", "600.. retired unregistered eb02"),
		},
		{
			name: "between two gaps it may have gone and another have come",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9000, 16))
				missed(b)
				b.Poke(pokeAt(0x9000, 450, "9090", "eb02"))
				b.Gap(GapSymbols, 500, 510, AfterLoss)
				b.Symbol(dead(program(0, 0x9000, 16), 600))
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..450 unconfirmed after-loss 9090", "450..600 unconfirmed after-loss eb02",
				"600.. retired unregistered eb02"),
		},
		{
			name: "a death inside of what is believed alive shows that it had gone",
			facts: func(b *Builder) {
				b.Symbol(outOfLine(300, 0x9000))
				b.Poke(pokeAt(0x9010, 310, "", "5589"))
				missed(b)
				b.Poke(pokeAt(0x9010, 450, "5589", "c390"))
				b.Symbol(dead(program(0, 0x9010, 16), 500))
			},
			addr: 0x9010, n: 2,
			want: lines("0..300 unmapped", "300..310 unknown out-of-line-gap", "310..400 known 5589", "400..410 unconfirmed after-loss 5589",
				"410..450 known 5589", "450..500 known c390", "500.. retired unregistered c390"),
		},
		{
			name: "and so of the rest of it",
			facts: func(b *Builder) {
				b.Symbol(outOfLine(300, 0x9000))
				b.Poke(pokeAt(0x9100, 310, "", "5589"))
				missed(b)
				b.Symbol(dead(program(0, 0x9010, 16), 500))
			},
			addr: 0x9100, n: 2,
			want: lines("0..300 unmapped", "300..310 unknown out-of-line-gap", "310..400 known 5589", "400..410 unconfirmed after-loss 5589",
				"410.. retired unregistered 5589"),
		},
		{
			name: "a death of another name at its address too",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9000, 16))
				b.Poke(pokeAt(0x9000, 310, "9090", "eb02"))
				missed(b)
				other := program(0, 0x9000, 16)
				other.Name = "bpf_prog_bb_b"
				b.Symbol(dead(other, 500))
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..310 known 9090", "310..400 known eb02", "400..410 unconfirmed after-loss eb02",
				"410..500 unknown bpf-no-info", "500.. unknown unregistered"),
		},
		{
			name: "with nothing lost, a death inside of it ends its own range",
			facts: func(b *Builder) {
				b.Symbol(outOfLine(300, 0x9000))
				b.Poke(pokeAt(0x9010, 310, "", "5589"))
				b.Symbol(dead(program(0, 0x9010, 16), 500))
			},
			addr: 0x9010, n: 2,
			want: lines("0..300 unmapped", "300..310 unknown out-of-line-gap", "310..500 known 5589", "500.. retired unregistered 5589"),
		},
		{
			name: "a death shows that something was there since the gap",
			facts: func(b *Builder) {
				b.Symbol(program(200, 0x9000, 16))
				b.Symbol(dead(program(0, 0x9000, 16), 300))
				missed(b)
				b.Poke(pokeAt(0x9000, 500, "9090", "eb02"))
				b.Symbol(dead(program(0, 0x9000, 16), 600))
			},
			addr: 0x9000, n: 2,
			want: lines("0..200 unmapped", "200..300 unknown bpf-no-info", "300..400 unknown unregistered",
				"400..410 unconfirmed after-loss 9090", "410..500 known 9090", "500..600 known eb02", "600.. retired unregistered eb02"),
		},
		{
			name: "old bytes of a tail call's fix-up do not reach back to the gap: the JIT wrote the code meanwhile",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9000, 16))
				missed(b)
				b.Poke(pokeAt(0x9004, 500, noCall, tailCall))
				b.Symbol(program(510, 0x9000, 16))
			},
			addr: 0x9004, n: 5,
			want: lines("0..300 unmapped", "300..410 unknown bpf-no-info", "410..500 unknown unregistered",
				"500..510 retired nothing-alive "+tailCall, "510.. unknown bpf-no-info"),
		},
		{
			name: "nor where its birth is not recorded any more",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9000, 16))
				missed(b)
				b.Poke(pokeAt(0x9004, 500, noCall, tailCall))
			},
			addr: 0x9004, n: 5,
			want: lines("0..300 unmapped", "300..500 unconfirmed after-loss "+noCall, "500..1001 unconfirmed after-loss "+tailCall,
				"1001.. unconfirmed beyond-horizon "+tailCall),
		},
		{
			name: "a poke without old bytes makes code, whosoever's page it is",
			facts: func(b *Builder) {
				b.Symbol(outOfLine(300, 0x9000))
				missed(b)
				b.Poke(pokeAt(0x9000, 500, "", "5589"))
				b.Gap(GapSymbols, 600, 610, AfterLoss)
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..500 unknown out-of-line-gap", "500..600 known 5589", "600..1001 unconfirmed after-loss 5589",
				"1001.. unconfirmed beyond-horizon 5589"),
		},
		{
			name: "but nothing of the time before that poke",
			facts: func(b *Builder) {
				b.Symbol(outOfLine(300, 0x9000))
				missed(b)
				b.Poke(pokeAt(0x9000, 450, "9090", "eb02"))
				b.Poke(pokeAt(0x9000, 500, "", "5589"))
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..450 unconfirmed after-loss 9090", "450..500 unconfirmed after-loss eb02", "500..1001 known 5589",
				"1001.. unconfirmed beyond-horizon 5589"),
		},
		{
			name: "where births and deaths are not recorded at all, the time before the recording is still told",
			facts: func(b *Builder) {
				b.Symbol(program(0, 0x9000, 2))
				b.Program(Program{ID: 1, Funcs: []Segment{{0x9000, unhex("1111")}}})
				b.Gap(GapSymbols, 0, MaxTime, PartialCoverage)
			},
			addr: 0x9000, n: 2,
			want: lines("0..100 unconfirmed outside-recording 1111", "100..1001 unconfirmed partial-coverage 1111", "1001.. unconfirmed beyond-horizon 1111"),
		},
		{
			name: "a poke of a call shows that code lives there, up to the gaps around",
			facts: func(b *Builder) {
				b.Symbol(outOfLine(300, 0x9000))
				missed(b)
				b.Poke(pokeAt(0x9000, 500, "e811111111", "e822222222"))
				b.Gap(GapSymbols, 600, 610, AfterLoss)
			},
			addr: 0x9000, n: 5,
			want: lines("0..300 unmapped", "300..410 unconfirmed after-loss e811111111", "410..500 known e811111111",
				"500..600 known e822222222", "600..1001 unconfirmed after-loss e822222222", "1001.. unconfirmed beyond-horizon e822222222"),
		},
		{
			name: "a further copy's traps are those of a program that may be gone",
			facts: func(b *Builder) {
				b.Symbol(program(300, 0x9000, 2))
				b.Poke(pokeAt(0x9000, 310, "9090", "eb02"))
				missed(b)
				b.AddCopy(Snapshot{From: 500, To: 510, Segments: []Segment{snapshotOf(0x9000, 2, 0xcc)}})
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unmapped", "300..310 known 9090", "310..400 known eb02", "400..511 conflicting snapshot-mismatch eb02 cccc",
				"511..1001 unconfirmed after-loss cccc", "1001.. unconfirmed beyond-horizon cccc"),
		},
		{
			name: "what perf announces is certain from the start where it did so before the gap",
			facts: func(b *Builder) {
				b.Announced(150)
				b.Symbol(program(0, 0x9000, 16))
				missed(b)
				b.Poke(pokeAt(0x9000, 300, "9090", "eb02"))
			},
			addr: 0x9000, n: 2,
			want: lines("0..100 unconfirmed outside-recording 9090", "100..300 known 9090", "300..400 known eb02",
				"400..1001 unconfirmed after-loss eb02", "1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "and may have come in the gap where it did so later",
			facts: func(b *Builder) {
				b.Announced(450)
				b.Symbol(program(0, 0x9000, 16))
				missed(b)
				b.Poke(pokeAt(0x9000, 300, "9090", "eb02"))
			},
			addr: 0x9000, n: 2,
			want: lines("0..300 unconfirmed after-loss 9090", "300..1001 unconfirmed after-loss eb02", "1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "a module may be another's behind a gap in their loads and unloads, and its poke tells nothing",
			facts: func(b *Builder) {
				moduleM(b, 0)
				b.Gap(GapModules, 400, 410, AfterLoss)
				b.Poke(pokeAt(0x8100, 500, "5555", "6666"))
			},
			addr: 0x8100, n: 2,
			want: lines("0..100 unconfirmed outside-recording 5555", "100..400 known 5555", "400..500 unconfirmed after-loss 5555",
				"500..1001 unconfirmed after-loss 6666", "1001.. unconfirmed beyond-horizon 6666"),
		},
		{
			name: "and before one that may be older than its list",
			facts: func(b *Builder) {
				moduleM(b, 0)
				b.Gap(GapModules, 150, 160, AfterLoss)
				b.Poke(pokeAt(0x8100, 140, "5555", "6666"))
			},
			addr: 0x8100, n: 2,
			want: lines("0..140 unconfirmed after-loss 5555", "140..1001 unconfirmed after-loss 6666", "1001.. unconfirmed beyond-horizon 6666"),
		},
		{
			name: "its unload names it, not its address",
			facts: func(b *Builder) {
				moduleM(b, 700)
				b.Gap(GapModules, 400, 410, AfterLoss)
				b.Poke(pokeAt(0x8100, 500, "5555", "6666"))
			},
			addr: 0x8100, n: 2,
			want: lines("0..100 unconfirmed outside-recording 5555", "100..400 known 5555", "400..500 unconfirmed after-loss 5555",
				"500..700 unconfirmed after-loss 6666", "700.. retired unregistered 6666"),
		},
		{
			name: "a later list that has it at its address shows it",
			facts: func(b *Builder) {
				moduleM(b, 0)
				b.Gap(GapModules, 400, 410, AfterLoss)
				b.LaterModule(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000, Loaded: 450, Listed: []Interval{{450, 460}}})
				b.Poke(pokeAt(0x8100, 500, "5555", "6666"))
			},
			addr: 0x8100, n: 2,
			want: lines("0..100 unconfirmed outside-recording 5555", "100..400 known 5555", "400..410 unconfirmed after-loss 5555",
				"410..500 known 5555", "500..1001 known 6666", "1001.. unconfirmed beyond-horizon 6666"),
		},
		{
			name: "and what comes inside of it later, with nothing lost since, contradicts it",
			facts: func(b *Builder) {
				moduleM(b, 0)
				b.Gap(GapModules, 400, 410, AfterLoss)
				b.LaterModule(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000, Loaded: 450, Listed: []Interval{{450, 460}}})
				b.Symbol(program(600, 0x8100, 2))
			},
			addr: 0x8800, n: 2,
			want: lines("0..100 unconfirmed outside-recording 5555", "100..200 known 5555", "200..600 conflicting module-contradicted 5555",
				"600.. retired module-contradicted 5555"),
		},
		{
			name: "a module that was replaced while the copy may have been made",
			facts: func(b *Builder) {
				moduleM(b, 0)
				b.SetSnapshot(Snapshot{From: first, To: horizon, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
				b.Gap(GapModules, 400, 410, AfterLoss)
				b.Poke(pokeAt(0x8100, 300, "5555", "6666"))
				b.Poke(pokeAt(0x8100, 500, "7777", "8888"))
			},
			addr: 0x8200, n: 1,
			want: lines("0..300 unconfirmed after-loss 55", "300.. conflicting module-contradicted 55"),
		},
		{
			name: "a death inside a module shows that it had gone, since it was confirmed last",
			facts: func(b *Builder) {
				moduleM(b, 0)
				b.Poke(pokeAt(0x8800, 300, "5555", "5555"))
				b.Symbol(dead(program(0, 0x8100, 2), 500))
			},
			addr: 0x8000, n: 1,
			want: lines("0..100 unconfirmed outside-recording 55", "100..300 known 55",
				"300..500 conflicting module-contradicted 55", "500.. retired module-contradicted 55"),
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

// TestAnnouncedPrograms: what perf announces may have come after its first records,
// in the place of another program that was there until then (rule lifetimes).
func TestAnnouncedPrograms(t *testing.T) {
	const none = "0..150 unknown bpf-no-info\n150..160 unknown unregistered\n160.. unknown bpf-no-info\n"
	// The program of the info was there from the start until 150.
	start := lines("0..100 unconfirmed outside-recording 1111", "100..150 known 1111", "150..160 retired unregistered 1111", "160.. unknown bpf-no-info")
	for _, tt := range []struct {
		name  string
		info  Program // of 0x9000
		facts func(b *Builder)
		want  string
	}{
		{"its load is recorded: it is the later one", Program{ID: 2}, func(b *Builder) {
			b.Program(Program{ID: 2, LoadTime: 161, Funcs: []Segment{{0x9000, unhex("1111")}}})
		}, lines("0..150 unknown bpf-no-info", "150..160 unknown unregistered", "160..1001 known 1111", "1001.. unconfirmed beyond-horizon 1111")},
		{"its load is not: it may be either", Program{ID: 2}, func(b *Builder) {}, none},
		{"its unload follows the first one's death: it is that one", Program{ID: 2, Unloaded: 151}, func(b *Builder) {}, start},
		{"its unload comes after the other one's birth", Program{ID: 2, Unloaded: 170}, func(b *Builder) {}, none},
		{"a birth may be lost before its unload", Program{ID: 2, Unloaded: 155}, func(b *Builder) {
			b.Gap(GapSymbols, 152, 154, AfterLoss)
		}, none},
		{"it was announced before the first one died", Program{ID: 2}, func(b *Builder) { b.Announced(140) }, start},
		{"it was announced before the other one was born", Program{ID: 2}, func(b *Builder) { b.Announced(155) }, start},
		{"it was announced before the first one died, but something is lost then", Program{ID: 2}, func(b *Builder) {
			b.Announced(145)
			b.Gap(GapSymbols, 142, 152, AfterLoss)
		}, lines("0..150 unconfirmed after-loss 1111", "150..160 retired unregistered 1111", "160.. unknown bpf-no-info")},
		{"but a birth may be lost before", Program{ID: 2}, func(b *Builder) {
			b.Announced(155)
			b.Gap(GapSymbols, 152, 154, AfterLoss)
		}, none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := kernel()
			b.Symbol(program(0, 0x9000, 2))
			b.Symbol(dead(program(0, 0x9000, 2), 150))
			b.Symbol(program(160, 0x9000, 2))
			tt.info.Funcs = []Segment{{0x9000, unhex("1111")}}
			b.Program(tt.info)
			tt.facts(b)
			if d := cmp.Diff(tt.want, history(mustBuild(t, b), 0x9000, 2)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	t.Run("one of another name came after what died there", func(t *testing.T) {
		b := kernel()
		other := program(0, 0x9000, 2)
		other.Name = "bpf_prog_bb_b"
		b.Symbol(other)
		b.Symbol(dead(program(0, 0x9000, 2), 150))
		b.Program(Program{ID: 2, Funcs: []Segment{{0x9000, unhex("1111")}}})
		im := mustBuild(t, b)
		if d := cmp.Diff(lines("0..150 unknown bpf-no-info", "150.. unknown unregistered"), history(im, 0x9000, 2)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if s, _ := im.At(140).Symbol(0x9000); s.Name != "bpf_prog_aa_a" {
			t.Errorf("named %q, want that which died", s.Name)
		}
	})
}
