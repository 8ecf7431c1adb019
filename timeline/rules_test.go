// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The rules of truth, each on the smallest history that shows it. Kernel text
// is [0x1000, 0x2000), its snapshot all 0x90, copied between 100 and 200; the
// recording goes from 100 to 1000.

const (
	textLo, textHi = 0x1000, 0x2000
	first, copied  = 100, 200
	horizon        = 1000
)

func snapshotOf(addr uint64, n int, fill byte) Segment {
	return Segment{addr, []byte(strings.Repeat(string([]byte{fill}), n))}
}

// kernel returns a builder with the usual text and snapshot.
func kernel() *Builder {
	b := NewBuilder()
	b.Extent(first, horizon)
	b.Text(textLo, textHi)
	b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(textLo, textHi-textLo, 0x90)}})
	return b
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func pokeAt(addr, t uint64, old, new string) *Poke {
	return &Poke{Addr: addr, Time: t, Old: unhex(old), New: unhex(new)}
}

// copyAt is a further copy of text that differs from the snapshot at 0x1100 at most.
func copyAt(from, to uint64, bytes string) Snapshot {
	s := snapshotOf(textLo, textHi-textLo, 0x90)
	copy(s.Data[0x100:], unhex(bytes))
	return Snapshot{From: from, To: to, Segments: []Segment{s}}
}

func pokeOn(cpu int, addr, t uint64, old, new string) *Poke {
	p := pokeAt(addr, t, old, new)
	p.CPU = cpu
	return p
}

// skewed adds pokes that show that two CPUs' clocks differ by 5.
func skewed(b *Builder) {
	b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
	b.Poke(pokeOn(1, 0x1100, 395, "eb04", "eb06"))
	b.Poke(pokeOn(0, 0x1100, 400, "eb02", "eb04"))
}

func mustBuild(tb testing.TB, b *Builder) *Image {
	tb.Helper()
	im, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return im
}

// history is Dump.
func history(im *Image, addr, n uint64) string { return im.Dump(addr, n) }

func lines(s ...string) string { return strings.Join(s, "\n") + "\n" }

func TestRules(t *testing.T) {
	for _, tt := range []struct {
		name  string
		facts func(b *Builder)
		addr  uint64
		n     uint64
		want  string
	}{
		{
			name:  "cold text is known from the first record to the horizon",
			facts: func(b *Builder) {},
			addr:  0x1800, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "moment: a poke's new bytes hold from its time on, its old ones before",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x1100, 500, "9090", "eb02"))
				b.Poke(pokeAt(0x1100, 700, "eb02", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..500 known 9090",
				"500..700 known eb02",
				"700..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "snapshot: a poke inside the copy interval may be in the copy already",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x1100, 150, "eb02", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording eb02",
				"100..150 known eb02",
				"150..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "snapshot: the copy may hold a trap and a half-written tail",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{{textLo, unhex("0f1f440000cc1f340000")}}})
				b.Poke(pokeAt(0x1005, 150, "0f1f440000", "e912340000"))
			},
			addr: 0x1005, n: 5,
			want: lines(
				"0..100 unconfirmed outside-recording 0f1f440000",
				"100..150 known 0f1f440000",
				"150..1001 known e912340000",
				"1001.. unconfirmed beyond-horizon e912340000"),
		},
		{
			name: "snapshot: a trap in the midst of a copied instruction is no state of it",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{{textLo, unhex("0f1f440000e9cc340000")}}})
				b.Poke(pokeAt(0x1005, 150, "0f1f440000", "e912340000"))
			},
			addr: 0x1005, n: 5,
			want: lines(
				"0..100 unconfirmed outside-recording e9cc340000",
				"100..150 conflicting snapshot-mismatch e9cc340000 0f1f440000",
				"150..1001 known e912340000",
				"1001.. unconfirmed beyond-horizon e912340000"),
		},
		{
			name: "snapshot: the copy agrees with no state of the chain",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x1100, 150, "eb02", "eb04"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..150 conflicting snapshot-mismatch 9090 eb02",
				"150..1001 known eb04",
				"1001.. unconfirmed beyond-horizon eb04"),
		},
		{
			name: "snapshot: after the copy interval the first poke's old bytes correct nothing",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x1100, 300, "eb02", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 conflicting snapshot-mismatch 9090 eb02",
				"300..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "old-bytes: old bytes that disagree make the whole interval conflicting",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x1100, 300, "9090", "eb02"))
				b.Poke(pokeAt(0x1100, 600, "eb04", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..600 conflicting old-bytes-mismatch eb02 eb04",
				"600..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "old-bytes: with a loss between, the old bytes hold from its end on",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 400, 450, AfterLoss)
				b.Poke(pokeAt(0x1100, 300, "9090", "eb02"))
				b.Poke(pokeAt(0x1100, 600, "eb04", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..450 conflicting old-bytes-mismatch eb02 eb04",
				"450..600 known eb04",
				"600..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "losses: equal facts around losses leave the time of the losses unproven",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 400, 410, AfterLoss)
				b.Gap(GapPokes, 440, 450, AfterLoss)
				b.Poke(pokeAt(0x1100, 300, "9090", "eb02"))
				b.Poke(pokeAt(0x1100, 600, "eb02", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..400 known eb02",
				"400..450 unconfirmed after-loss eb02",
				"450..600 known eb02",
				"600..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "losses: cold text is unconfirmed from the first loss on",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 400, 410, AfterLoss)
			},
			addr: 0x1800, n: 1,
			want: lines(
				"0..100 unconfirmed outside-recording 90",
				"100..400 known 90",
				"400..1001 unconfirmed after-loss 90",
				"1001.. unconfirmed beyond-horizon 90"),
		},
		{
			name: "losses: the first gap since a fact names the reason, until one that has no end",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 300, 310, AfterLoss)
				b.Gap(GapPokes, 400, 410, PartialCoverage)
				b.Gap(GapPokes, 700, 710, PartialCoverage)
				b.Gap(GapPokes, 900, MaxTime, CPUSilent)
				b.Poke(pokeAt(0x1800, 600, "90", "cc"))
			},
			addr: 0x1800, n: 1,
			want: lines(
				"0..100 unconfirmed outside-recording 90",
				"100..300 known 90",
				"300..410 unconfirmed after-loss 90",
				"410..600 known 90",
				"600..700 known cc",
				"700..900 unconfirmed partial-coverage cc",
				"900.. unconfirmed cpu-silent cc"),
		},
		{
			name: "losses: a loss during the copy: the copy may be of before or after",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 120, 130, AfterLoss)
				b.Poke(pokeAt(0x1100, 600, "9090", "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..200 unconfirmed after-loss 9090",
				"200..600 known 9090",
				"600..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "coverage: without coverage nothing is known",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 0, MaxTime, PartialCoverage)
				b.Poke(pokeAt(0x1100, 600, "9090", "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..600 unconfirmed partial-coverage 9090",
				"600.. unconfirmed partial-coverage eb02"),
		},
		{
			name: "duplicates: exact doubles count once",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x1100, 300, "9090", "eb02"))
				b.Poke(pokeAt(0x1100, 300, "9090", "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "duplicates: the same of another CPU is no double",
			facts: func(b *Builder) {
				b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
				b.Poke(pokeOn(0, 0x1100, 300, "eb02", "eb04"))
				b.Poke(pokeOn(1, 0x1100, 200, "eb06", "9090"))
				b.Poke(pokeOn(1, 0x1100, 400, "eb04", "9090"))
				b.Poke(pokeOn(1, 0x1100, 500, "9090", "eb02"))
				b.Poke(pokeOn(0, 0x1100, 500, "eb02", "9090"))
				b.Poke(pokeOn(2, 0x1100, 500, "9090", "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording eb06",
				"100..200 known eb06",
				"200..300 known 9090",
				"300..400 known eb04",
				"400..500 known 9090",
				"500..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "duplicates: nor is the same again after it was undone",
			facts: func(b *Builder) {
				b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
				b.Poke(pokeOn(0, 0x1100, 300, "eb02", "9090"))
				b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "clocks: of equal times on two CPUs the bytes tell the order",
			facts: func(b *Builder) {
				b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
				b.Poke(pokeOn(1, 0x1100, 500, "eb04", "eb06"))
				b.Poke(pokeOn(0, 0x1100, 500, "eb02", "eb04"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..500 known eb02",
				"500..1001 known eb06",
				"1001.. unconfirmed beyond-horizon eb06"),
		},
		{
			name: "clocks: or nothing does",
			facts: func(b *Builder) {
				b.Poke(pokeOn(0, 0x1100, 500, "9090", "eb02"))
				b.Poke(pokeOn(1, 0x1100, 500, "eb02", "9090"))
				b.Poke(pokeOn(1, 0x1100, 800, "eb04", "eb06"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..500 known 9090",
				"500..800 conflicting old-bytes-mismatch eb02 9090",
				"800..1001 known eb06",
				"1001.. unconfirmed beyond-horizon eb06"),
		},
		{
			name: "clocks: also if the file's order fits",
			facts: func(b *Builder) {
				b.Poke(pokeOn(0, 0x1100, 500, "9090", "eb02"))
				b.Poke(pokeOn(1, 0x1100, 500, "eb02", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..500 known 9090",
				"500.. conflicting old-bytes-mismatch eb02 9090"),
		},
		{
			name: "clocks: or what follows",
			facts: func(b *Builder) {
				b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
				b.Poke(pokeOn(0, 0x1100, 500, "9090", "eb02"))
				b.Poke(pokeOn(1, 0x1100, 500, "eb02", "9090"))
				b.Poke(pokeOn(1, 0x1100, 800, "eb02", "eb06"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..800 known eb02",
				"800..1001 known eb06",
				"1001.. unconfirmed beyond-horizon eb06"),
		},
		{
			name: "overlapping sites: a kprobe, then its optimised form",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x1100, 300, "90", "cc"))
				b.Poke(pokeAt(0x1100, 400, "cc90909090", "e911223344"))
				b.Poke(pokeAt(0x1100, 500, "e911223344", "cc90909090"))
				b.Poke(pokeAt(0x1100, 600, "cc", "90"))
			},
			addr: 0x1100, n: 5,
			want: lines(
				"0..100 unconfirmed outside-recording 9090909090",
				"100..300 known 9090909090",
				"300..400 known cc90909090",
				"400..500 known e911223344",
				"500..600 known cc90909090",
				"600..1001 known 9090909090",
				"1001.. unconfirmed beyond-horizon 9090909090"),
		},
		{
			name: "lifetimes: out-of-line code lives from its poke to its removal",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 4096, Kind: SymbolOutOfLine, Name: "kprobe_insn_page"})
				b.Poke(pokeAt(0x9010, 310, "", "5589e5"))
				b.Poke(pokeAt(0x9010, 400, "5589e5", ""))
				b.Poke(pokeAt(0x9010, 500, "", "c39090"))
				b.Symbol(SymbolEvent{Time: 600, Addr: 0x9000, Len: 4096, Kind: SymbolOutOfLine, Name: "kprobe_insn_page", Unregister: true})
			},
			addr: 0x9010, n: 3,
			want: lines(
				"0..300 unmapped",
				"300..310 unknown out-of-line-gap",
				"310..400 known 5589e5",
				"400..500 retired poked-to-nothing 5589e5",
				"500..600 known c39090",
				"600.. retired unregistered c39090"),
		},
		{
			name: "lifetimes: the same address carries two programs; each has its own bytes",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9000, unhex("1111")}}})
				b.Symbol(SymbolEvent{Time: 400, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a", Unregister: true})
				b.Symbol(SymbolEvent{Time: 500, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_bb_b"})
				b.Program(Program{ID: 2, LoadTime: 501, Funcs: []Segment{{0x9000, unhex("2222")}}})
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..300 unmapped",
				"300..400 known 1111",
				"400..500 retired unregistered 1111",
				"500..1001 known 2222",
				"1001.. unconfirmed beyond-horizon 2222"),
		},
		{
			name: "lifetimes: info of another life is not taken",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Symbol(SymbolEvent{Time: 400, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a", Unregister: true})
				b.Program(Program{ID: 1, LoadTime: 450, Funcs: []Segment{{0x9000, unhex("1111")}}})
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..300 unmapped",
				"300..400 unknown bpf-no-info",
				"400.. unknown unregistered"),
		},
		{
			name: "lifetimes: program info fetched after a later poke",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9000, unhex("eb02")}}})
				b.Poke(pokeAt(0x9000, 350, "9090", "eb02"))
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..300 unmapped",
				"300..350 known 9090",
				"350..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "lifetimes: a tail-call poke after the program's death",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9000, unhex("1111")}}})
				b.Symbol(SymbolEvent{Time: 400, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a", Unregister: true})
				b.Poke(pokeAt(0x9000, 420, "1111", "9090"))
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..300 unmapped",
				"300..400 known 1111",
				"400..420 retired unregistered 1111",
				"420.. retired nothing-alive 9090"),
		},
		{
			name: "lifetimes: a trampoline's page is an upper bound: a program behind it lives",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9100, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9100, unhex("1111")}}})
				b.Symbol(SymbolEvent{Time: 350, Addr: 0x9000, Len: 4096, Kind: SymbolBPF, Name: "bpf_trampoline_6442"})
			},
			addr: 0x9100, n: 2,
			want: lines(
				"0..300 unmapped",
				"300..1001 known 1111",
				"1001.. unconfirmed beyond-horizon 1111"),
		},
		{
			name: "lifetimes: a trampoline's bytes are recorded nowhere, not even by a poke of it",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 350, Addr: 0x9000, Len: 4096, Kind: SymbolBPF, Name: "bpf_trampoline_6442"})
				b.Poke(pokeAt(0x9010, 400, "9090", "eb02"))
			},
			addr: 0x9010, n: 2,
			want: lines(
				"0..350 unmapped",
				"350..400 unconfirmed bpf-trampoline 9090",
				"400.. unconfirmed bpf-trampoline eb02"),
		},
		{
			name: "lifetimes: a program that was there before the start",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 0, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 0, Funcs: []Segment{{0x9000, unhex("1111")}}})
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 1111",
				"100..1001 known 1111",
				"1001.. unconfirmed beyond-horizon 1111"),
		},
		{
			name: "lifetimes: a synthesized program whose birth was recorded was not there before",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 0, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 0, Funcs: []Segment{{0x9000, unhex("1111")}}})
				b.Symbol(SymbolEvent{Time: 150, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 151, Funcs: []Segment{{0x9000, unhex("1111")}}})
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..150 unmapped",
				"150..1001 known 1111",
				"1001.. unconfirmed beyond-horizon 1111"),
		},
		{
			name: "lifetimes: a death without a birth proves that the code was there before",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x9010, 310, "", "5589e5"))
				b.Symbol(SymbolEvent{Time: 600, Addr: 0x9000, Len: 4096, Kind: SymbolOutOfLine, Name: "kprobe_insn_page", Unregister: true})
			},
			addr: 0x9010, n: 3,
			want: lines(
				"0..310 unknown out-of-line-gap",
				"310..600 known 5589e5",
				"600.. retired unregistered 5589e5"),
		},
		{
			name: "lifetimes: but not where something else was meanwhile",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 200, Addr: 0x9010, Len: 16, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9010, Len: 16, Kind: SymbolBPF, Name: "bpf_prog_aa_a", Unregister: true})
				b.Poke(pokeAt(0x9020, 310, "", "5589e5"))
				b.Symbol(SymbolEvent{Time: 600, Addr: 0x9000, Len: 4096, Kind: SymbolOutOfLine, Name: "kprobe_insn_page", Unregister: true})
			},
			addr: 0x9020, n: 3,
			want: lines(
				"0..310 unmapped",
				"310.. retired nothing-alive 5589e5"),
		},
		{
			name: "lifetimes: a birth ends what was there over its own length",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 4096, Kind: SymbolOutOfLine, Name: "ftrace_trampoline"})
				b.Poke(pokeAt(0x9100, 310, "", "5589e5"))
				b.Symbol(SymbolEvent{Time: 400, Addr: 0x9000, Len: 16, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
			},
			addr: 0x9100, n: 3,
			want: lines(
				"0..300 unmapped",
				"300..310 unknown out-of-line-gap",
				"310..400 known 5589e5",
				"400.. retired unregistered 5589e5"),
		},
		{
			name: "lifetimes: an image that begins inside a program shows that the program is gone",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 4, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9000, unhex("11111111")}}})
				b.Symbol(SymbolEvent{Time: 400, Addr: 0x9002, Len: 4096, Kind: SymbolBPF, Name: "bpf_trampoline_1"})
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..300 unmapped",
				"300..400 known 1111",
				"400.. retired unregistered 1111"),
		},
		{
			name: "lifetimes: two program infos that claim one birth give no bytes",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9000, unhex("1111")}}})
				b.Program(Program{ID: 2, LoadTime: 302, Funcs: []Segment{{0x9000, unhex("2222")}}})
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..300 unmapped",
				"300.. unknown bpf-no-info"),
		},
		{
			name: "no text pokes of this architecture: a BPF program is known, save what changes silently",
			facts: func(b *Builder) {
				b.SilentPokes(true)
				b.Gap(GapPokes, 0, MaxTime, NoCoverage)
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 4, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9000, unhex("11112222")}}, Silent: []Range{{0x9002, 0x9004}}})
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..300 unmapped",
				"300..1001 known 1111",
				"1001.. unconfirmed beyond-horizon 1111"),
		},
		{
			name: "no text pokes of this architecture: the silent part",
			facts: func(b *Builder) {
				b.SilentPokes(true)
				b.Gap(GapPokes, 0, MaxTime, NoCoverage)
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 4, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 301, Funcs: []Segment{{0x9000, unhex("11112222")}}, Silent: []Range{{0x9002, 0x9004}}})
			},
			addr: 0x9002, n: 2,
			want: lines(
				"0..300 unmapped",
				"300.. unconfirmed no-coverage 2222"),
		},
		{
			name: "lifetimes: an interpreted program changes nothing",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x1800, Len: 0, Kind: SymbolBPF})
			},
			addr: 0x1800, n: 1,
			want: lines(
				"0..100 unconfirmed outside-recording 90",
				"100..1001 known 90",
				"1001.. unconfirmed beyond-horizon 90"),
		},
		{
			name: "lifetimes: a lost death of a symbol leaves a program unconfirmed",
			facts: func(b *Builder) {
				b.Gap(GapSymbols, 400, 410, AfterLoss)
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 4096, Kind: SymbolOutOfLine, Name: "ftrace_trampoline"})
				b.Poke(pokeAt(0x9000, 310, "", "c3"))
			},
			addr: 0x9000, n: 1,
			want: lines(
				"0..300 unmapped",
				"300..310 unknown out-of-line-gap",
				"310..400 known c3",
				"400..1001 unconfirmed after-loss c3",
				"1001.. unconfirmed beyond-horizon c3"),
		},
		{
			name: "modules: a module's text is unconfirmed, its data is not text",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000})
				b.Gap(GapModules, 0, MaxTime, ModuleMayHaveGone)
			},
			addr: 0x8ffe, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 5555",
				"100..1001 unconfirmed module-may-have-gone 5555",
				"1001.. unconfirmed beyond-horizon 5555"),
		},
		{
			name: "modules: what lies behind a module's text is unknown",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000})
			},
			addr: 0x9000, n: 2,
			want: lines("0.. unknown not-text"),
		},
		{
			name: "modules: zeros where nothing was mapped are no bytes",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0)}})
			},
			addr: 0x9000, n: 2,
			want: lines("0.. unknown hole-in-snapshot"),
		},
		{
			name: "modules: code beside modules is unknown, as that of ITS thunks, whatever was recorded",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x4000, 0x55)}})
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000})
			},
			addr: 0xb000, n: 2,
			want: lines("0.. unknown not-text"),
		},
		{
			name: "modules: where loads and unloads are recorded, a module is known until it is freed",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000, Freed: 700})
				b.Poke(pokeAt(0x8100, 300, "5555", "7777"))
			},
			addr: 0x8100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 5555",
				"100..300 known 5555",
				"300..700 known 7777",
				"700.. retired unregistered 7777"),
		},
		{
			name: "modules: where a module came later, the snapshot has what was there before",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000, Loaded: 300})
				b.AddCopy(Snapshot{From: 500, To: 510, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x66)}})
			},
			addr: 0x8100, n: 2,
			want: lines(
				"0..300 unknown not-text",
				"300..1001 known 6666",
				"1001.. unconfirmed beyond-horizon 6666"),
		},
		{
			name: "modules: nor is it this one's where perf's list does not have it yet",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000, Loaded: copied - 1, Later: true})
				b.AddCopy(Snapshot{From: 500, To: 510, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x66)}})
			},
			addr: 0x8100, n: 2,
			want: lines(
				fmt.Sprintf("0..%d unknown not-text", copied-1),
				fmt.Sprintf("%d..1001 known 6666", copied-1),
				"1001.. unconfirmed beyond-horizon 6666"),
		},
		{
			name: "modules: a module that a later list does not have is gone by then",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000, Seen: copied})
				b.Gap(GapModules, 0, MaxTime, ModuleMayHaveGone)
				b.ModulesListed(300, 310, func(m *Module) bool { return true })
				b.ModulesListed(500, 510, func(m *Module) bool { return false })
			},
			addr: 0x8100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 5555",
				"100..500 unconfirmed module-may-have-gone 5555",
				"500.. retired unregistered 5555"),
		},
		{
			name: "modules: not where the list was made before",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000, Seen: copied})
				b.Gap(GapModules, 0, MaxTime, ModuleMayHaveGone)
				b.ModulesListed(copied, copied, func(m *Module) bool { return false })
				b.ModulesListed(500, 510, func(m *Module) bool { return true })
			},
			addr: 0x8100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 5555",
				"100..1001 unconfirmed module-may-have-gone 5555",
				"1001.. unconfirmed beyond-horizon 5555"),
		},
		{
			name: "modules: a contradicted place of a module",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000})
				b.Poke(pokeAt(0x8100, 300, "6666", "7777"))
			},
			addr: 0x8100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 5555",
				"100..300 conflicting snapshot-mismatch 5555 6666",
				"300.. conflicting module-contradicted 7777"),
		},
		{
			name: "modules: one contradiction spoils the whole module, from its last confirmed moment",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(0x8000, 0x3000, 0x55)}})
				b.Module(Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000})
				b.Poke(pokeAt(0x8100, 250, "5555", "7777"))
				b.Poke(pokeAt(0x8100, 300, "6666", "7777"))
			},
			addr: 0x8800, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 5555",
				"100..250 known 5555",
				"250.. conflicting module-contradicted 5555"),
		},
		{
			name: "coverage: padding may become a thunk with no record, where the kernel writes thunks",
			facts: func(b *Builder) {
				b.CallThunks(true)
				b.SetSnapshot(thunky())
			},
			addr: 0x11f7, n: 9,
			want: lines("0.. unconfirmed thunk-padding 909090909090909090"),
		},
		{
			name: "coverage: only where all of it is one-byte NOPs",
			facts: func(b *Builder) {
				b.CallThunks(true)
				b.SetSnapshot(thunky())
			},
			addr: 0x1300, n: 8,
			want: lines(
				"0..100 unconfirmed outside-recording 9090909090909090",
				"100..1001 known 9090909090909090",
				"1001.. unconfirmed beyond-horizon 9090909090909090"),
		},
		{
			name: "coverage: a whole kernel without a thunk gets none",
			facts: func(b *Builder) {
				b.CallThunks(true)
				b.Text(0x100000, 0x300000)
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{wholeKernel("c3")}})
			},
			addr: 0x1011f7, n: 9,
			want: lines(
				"0..100 unconfirmed outside-recording 909090909090909090",
				"100..1001 known 909090909090909090",
				"1001.. unconfirmed beyond-horizon 909090909090909090"),
		},
		{
			name: "coverage: a call thunk of Linux 6.7 and older shows that the kernel writes them",
			facts: func(b *Builder) {
				b.CallThunks(true)
				b.Text(0x100000, 0x300000)
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{wholeKernel("6548c13c251122334405")}})
			},
			addr: 0x1011f7, n: 9,
			want: lines("0.. unconfirmed thunk-padding 909090909090909090"),
		},
		{
			name: "coverage: the same bytes with another shift are no thunk",
			facts: func(b *Builder) {
				b.CallThunks(true)
				b.Text(0x100000, 0x300000)
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{wholeKernel("6548c13c251122334404")}})
			},
			addr: 0x1011f7, n: 9,
			want: lines(
				"0..100 unconfirmed outside-recording 909090909090909090",
				"100..1001 known 909090909090909090",
				"1001.. unconfirmed beyond-horizon 909090909090909090"),
		},
		{
			name: "coverage: padding that only a further copy shows",
			facts: func(b *Builder) {
				b.CallThunks(true)
				b.SetSnapshot(Snapshot{})
				s := thunky()
				s.From, s.To = 300, 310
				b.AddCopy(s)
			},
			addr: 0x11f7, n: 9,
			want: lines("0.. unconfirmed thunk-padding 909090909090909090"),
		},
		{
			name: "coverage: NOPs behind which text ends are no padding",
			facts: func(b *Builder) {
				b.CallThunks(true)
				s := thunky()
				copy(s.Segments[0].Data[0xff0:], unhex("90909090909090909090909090909090"))
				b.SetSnapshot(s)
			},
			addr: 0x1ff0, n: 16,
			want: lines(
				"0..100 unconfirmed outside-recording 90909090909090909090909090909090",
				"100..1001 known 90909090909090909090909090909090",
				"1001.. unconfirmed beyond-horizon 90909090909090909090909090909090"),
		},
		{
			name: "coverage: no more than the last 64 NOPs are padding",
			facts: func(b *Builder) {
				b.CallThunks(true)
				s := thunky()
				for i := 0x400; i < 0x480; i++ {
					s.Segments[0].Data[i] = 0x90
				}
				b.SetSnapshot(s)
			},
			addr: 0x143f, n: 1,
			want: lines(
				"0..100 unconfirmed outside-recording 90",
				"100..1001 known 90",
				"1001.. unconfirmed beyond-horizon 90"),
		},
		{
			name: "no snapshot: old bytes reach back to the start",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{})
				b.Poke(pokeAt(0x1100, 300, "9090", "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "an explicit window: both sides are given while it is open",
			facts: func(b *Builder) {
				b.Window(ExplicitWindow{Addr: 0x1100, From: 300, To: 350, Before: unhex("9090"), After: unhex("eb02")})
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..350 in_flight explicit-window eb02",
				"350..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "an explicit window of which a text poke tells too is one change",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x1100, 320, "9090", "eb02"))
				b.Window(ExplicitWindow{Addr: 0x1100, From: 300, To: 350, Before: unhex("9090"), After: unhex("eb02")})
				b.Poke(pokeAt(0x1100, 500, "eb02", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..350 in_flight explicit-window eb02",
				"350..500 known eb02",
				"500..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "an explicit window whose old bytes contradict what stood there",
			facts: func(b *Builder) {
				b.Window(ExplicitWindow{Addr: 0x1100, From: 300, To: 350, Before: unhex("eb04"), After: unhex("eb02")})
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 conflicting snapshot-mismatch 9090 eb04",
				"300..350 in_flight explicit-window eb02",
				"350..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "clocks: clocks differ where pokes of two CPUs fit only in the other order",
			facts: func(b *Builder) {
				b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
				b.Poke(pokeOn(1, 0x1100, 395, "eb04", "eb06"))
				b.Poke(pokeOn(0, 0x1100, 400, "eb02", "eb04"))
				b.Poke(pokeOn(0, 0x1100, 700, "eb06", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..295 known 9090",
				"295..306 in_flight clock-uncertainty eb02",
				"306..390 known eb02",
				"390..406 in_flight clock-uncertainty eb06",
				"406..695 known eb06",
				"695..706 in_flight clock-uncertainty 9090",
				"706..996 known 9090",
				"996.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "clocks: the uncertainty is the whole recording's",
			facts: func(b *Builder) {
				skewed(b)
				b.Poke(pokeAt(0x1200, 500, "9090", "eb02"))
				b.Gap(GapPokes, 600, 700, AfterLoss)
			},
			addr: 0x1200, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..495 known 9090",
				"495..506 in_flight clock-uncertainty eb02",
				"506..595 known eb02",
				"595..996 unconfirmed after-loss eb02",
				"996.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "clocks: what comes and goes does so within the uncertainty",
			facts: func(b *Builder) {
				skewed(b)
				b.Symbol(SymbolEvent{Time: 500, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.Program(Program{ID: 1, LoadTime: 501, Funcs: []Segment{{0x9000, unhex("5589")}}})
				b.Symbol(SymbolEvent{Time: 600, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Unregister: true})
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..500 unmapped",
				"500..506 unconfirmed clock-uncertainty 5589",
				"506..595 known 5589",
				"595..600 unconfirmed clock-uncertainty 5589",
				"600.. retired unregistered 5589"),
		},
		{
			name: "clocks: not of one CPU",
			facts: func(b *Builder) {
				b.Poke(pokeOn(1, 0x1100, 300, "9090", "eb02"))
				b.Poke(pokeOn(1, 0x1100, 395, "eb04", "eb06"))
				b.Poke(pokeOn(1, 0x1100, 400, "eb02", "eb04"))
				b.Poke(pokeOn(1, 0x1100, 700, "eb06", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..395 conflicting old-bytes-mismatch eb02 eb04",
				"395..400 conflicting old-bytes-mismatch eb06 eb02",
				"400..700 conflicting old-bytes-mismatch eb04 eb06",
				"700..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "clocks: nor further apart than clocks can be",
			facts: func(b *Builder) {
				b.Extent(first, 4e9)
				b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
				b.Poke(pokeOn(1, 0x1100, 1e9, "eb04", "eb06"))
				b.Poke(pokeOn(0, 0x1100, 2e9+1, "eb02", "eb04"))
				b.Poke(pokeOn(0, 0x1100, 3e9, "eb06", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..1000000000 conflicting old-bytes-mismatch eb02 eb04",
				"1000000000..2000000001 conflicting old-bytes-mismatch eb06 eb02",
				"2000000001..3000000000 conflicting old-bytes-mismatch eb04 eb06",
				"3000000000..4000000001 known 9090",
				"4000000001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "clocks: nor where losses may explain what does not fit",
			facts: func(b *Builder) {
				b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
				b.Gap(GapPokes, 310, 320, AfterLoss)
				b.Poke(pokeOn(1, 0x1100, 395, "9090", "eb02"))
				b.Poke(pokeOn(0, 0x1100, 400, "eb02", "9090"))
				b.Gap(GapPokes, 610, 620, AfterLoss)
				b.Poke(pokeOn(0, 0x1100, 700, "eb02", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..320 conflicting old-bytes-mismatch eb02 9090",
				"320..395 known 9090",
				"395..400 known eb02",
				"400..620 conflicting old-bytes-mismatch 9090 eb02",
				"620..700 known eb02",
				"700..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "clocks: nor where other code came between",
			facts: func(b *Builder) {
				// Three programs, each poked once. The kernel writes each with no record.
				for i, life := range []Interval{{300, 400}, {450, 550}, {560, 700}} {
					name := fmt.Sprintf("bpf_prog_%d", i)
					b.Symbol(SymbolEvent{Time: life.From, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: name})
					b.Symbol(SymbolEvent{Time: life.To, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: name, Unregister: true})
				}
				b.Poke(pokeOn(0, 0x9000, 350, "9090", "eb02"))
				b.Poke(pokeOn(1, 0x9000, 500, "9090", "eb04"))
				b.Poke(pokeOn(0, 0x9000, 600, "eb02", "9090"))
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..300 unmapped",
				"300..350 known 9090",
				"350..400 known eb02",
				"400..450 retired unregistered eb02",
				"450..500 known 9090",
				"500..550 known eb04",
				"550..560 retired unregistered eb04",
				"560..600 known eb02",
				"600..700 known 9090",
				"700.. retired unregistered 9090"),
		},
		{
			name: "clocks: one link that does not fit may as well be an unrecorded change",
			facts: func(b *Builder) {
				b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
				b.Poke(pokeOn(1, 0x1100, 395, "9090", "eb02"))
				b.Poke(pokeOn(0, 0x1100, 400, "eb02", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..400 conflicting old-bytes-mismatch eb02 9090",
				"400.. conflicting old-bytes-mismatch eb02 9090"),
		},
		{
			name: "a further copy that agrees ends what a loss left open",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 300, 400, AfterLoss)
				b.AddCopy(copyAt(500, 510, "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..400 unconfirmed after-loss 9090",
				"400..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "a further copy that differs, with a loss between",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 300, 400, AfterLoss)
				b.AddCopy(copyAt(500, 510, "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..400 conflicting snapshots-differ 9090 eb02",
				"400..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "a further copy that differs, with nothing lost",
			facts: func(b *Builder) {
				b.AddCopy(copyAt(500, 510, "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..511 conflicting snapshots-differ 9090 eb02",
				"511..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "moment: two copies that agree, and changes that are not recorded",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 0, MaxTime, NoCoverage)
				b.AddCopy(copyAt(500, 510, "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed no-coverage 9090",
				"100..511 unconfirmed equal-at-both-ends 9090",
				"511.. unconfirmed no-coverage 9090"),
		},
		{
			name: "moment: two copies that differ, and changes that are not recorded",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 0, MaxTime, NoCoverage)
				b.AddCopy(copyAt(500, 510, "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed no-coverage 9090",
				"100..511 conflicting snapshots-differ 9090 eb02",
				"511.. unconfirmed no-coverage eb02"),
		},
		{
			name: "a loss while a further copy was made: on which side of it is not known",
			facts: func(b *Builder) {
				b.Gap(GapPokes, 600, 620, AfterLoss)
				b.AddCopy(copyAt(500, 700, "eb02"))
				b.Poke(pokeAt(0x1100, 900, "eb02", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..600 known 9090",
				"600..701 conflicting snapshots-differ 9090 eb02",
				"701..900 known eb02",
				"900..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "pokes while a further copy was made say more than it does",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x1100, 505, "9090", "eb02"))
				b.AddCopy(copyAt(500, 510, "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..505 known 9090",
				"505..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "a further copy that nothing recorded meanwhile can be",
			facts: func(b *Builder) {
				b.Poke(pokeAt(0x1100, 300, "9090", "eb04"))
				b.Poke(pokeAt(0x1100, 505, "eb04", "eb06"))
				b.Poke(pokeAt(0x1100, 800, "eb06", "9090"))
				b.AddCopy(copyAt(500, 510, "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..505 conflicting snapshot-mismatch eb04 eb02",
				"505..800 conflicting snapshot-mismatch eb06 eb02",
				"800..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "two copies made at the same time that differ",
			facts: func(b *Builder) {
				b.AddCopy(copyAt(500, 600, "9090"))
				b.AddCopy(copyAt(550, 650, "eb02"))
				b.Poke(pokeAt(0x1100, 800, "eb02", "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..500 conflicting snapshot-mismatch 9090 eb02",
				"500..800 conflicting snapshot-mismatch 9090 eb02",
				"800..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "a copy while the snapshot may have been made, and a change before",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: 100, To: 1000, Segments: []Segment{snapshotOf(0x1000, 0x1000, 0x90)}})
				b.Poke(pokeAt(0x1100, 300, "9090", "eb02"))
				b.AddCopy(copyAt(500, 510, "eb02"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..500 known eb02",  // from the poke
				"500..1001 known eb02", // from the copy
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name: "a poke's old bytes contradict a further copy",
			facts: func(b *Builder) {
				b.AddCopy(copyAt(500, 510, "9090"))
				b.Poke(pokeAt(0x1100, 800, "eb02", "eb04"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..500 known 9090",
				"500..800 conflicting snapshot-mismatch 9090 eb02",
				"800..1001 known eb04",
				"1001.. unconfirmed beyond-horizon eb04"),
		},
		{
			name: "a further copy alone: it reaches both ways",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{})
				b.AddCopy(copyAt(500, 510, "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..1001 known 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "a copy from before the recording proves nothing later",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{})
				b.AddCopy(copyAt(50, 60, "9090"))
			},
			addr: 0x1100, n: 2,
			want: lines(
				"0..1001 unconfirmed outside-recording 9090",
				"1001.. unconfirmed beyond-horizon 9090"),
		},
		{
			name: "a program without code: a copy has it, but may be of another",
			facts: func(b *Builder) {
				b.Symbol(SymbolEvent{Time: 300, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"})
				b.AddCopy(Snapshot{From: 500, To: 510, Segments: []Segment{{0x9000, unhex("5589")}}})
				b.Symbol(SymbolEvent{Time: 600, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Unregister: true})
			},
			addr: 0x9000, n: 2,
			want: lines(
				"0..300 unmapped",
				"300..600 unconfirmed bpf-no-info 5589",
				"600.. retired unregistered 5589"),
		},
		{
			name: "vmlinux says what nothing else does, and is never more than unconfirmed",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{From: first, To: copied, Segments: []Segment{snapshotOf(textLo, 0x100, 0x90)}})
				b.Seed([]Segment{snapshotOf(textLo-0x1000, 0x3000, 0xcc)})
				b.Poke(pokeAt(0x1102, 300, "9090", "eb02"))
			},
			addr: 0x10fe, n: 4,
			want: lines(
				"0..100 unconfirmed outside-recording 9090cccc",
				"100..1001 unconfirmed from-vmlinux 9090cccc",
				"1001.. unconfirmed beyond-horizon 9090cccc"),
		},
		{
			name: "vmlinux: a poke ranks above it",
			facts: func(b *Builder) {
				b.SetSnapshot(Snapshot{})
				b.Seed([]Segment{snapshotOf(textLo-0x1000, 0x3000, 0xcc)})
				b.Poke(pokeAt(0x1102, 300, "9090", "eb02"))
			},
			addr: 0x1102, n: 2,
			want: lines(
				"0..100 unconfirmed outside-recording 9090",
				"100..300 known 9090",
				"300..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02"),
		},
		{
			name:  "nothing says that anything is there",
			facts: func(b *Builder) {},
			addr:  0x5000, n: 4,
			want: lines("0.. unmapped"),
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

// thunky is a snapshot with a call thunk at 0x1100, and padding at 0x11f7 and, too short, at 0x1300.
func thunky() Snapshot {
	s := snapshotOf(textLo, textHi-textLo, 0xc3)
	copy(s.Data[0x100:], unhex("6548c13d1122334405"))
	copy(s.Data[0x1f7:], unhex("909090909090909090"))
	copy(s.Data[0x300:], unhex("9090909090909090"))
	return Snapshot{From: first, To: copied, Segments: []Segment{s}}
}

// wholeKernel is a copy of 2 MiB of text at 0x100000, large enough to show whether
// the kernel writes call thunks: with code at 0x101100 and padding at 0x1011f7.
func wholeKernel(code string) Segment {
	s := snapshotOf(0x100000, 0x200000, 0xc3)
	copy(s.Data[0x1100:], unhex(code))
	copy(s.Data[0x11f7:], unhex("909090909090909090"))
	return s
}

// TestSymbol: names have lifetimes, like bytes; what was there last names what
// is there no more.
func TestSymbol(t *testing.T) {
	b := kernel()
	for _, e := range []SymbolEvent{
		{Time: 300, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a"},
		{Time: 400, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_aa_a", Unregister: true},
		{Time: 500, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_bb_b"},
		{Time: 600, Addr: 0x9000, Len: 2, Kind: SymbolBPF, Name: "bpf_prog_bb_b", Unregister: true},
	} {
		b.Symbol(e)
	}
	im := mustBuild(t, b)
	for _, tt := range []struct {
		addr, t uint64
		want    string
	}{
		{0x9001, 299, ""}, {0x9001, 300, "bpf_prog_aa_a"}, {0x9001, 450, "bpf_prog_aa_a"},
		{0x9000, 500, "bpf_prog_bb_b"}, {0x9000, 900, "bpf_prog_bb_b"}, {0x9002, 500, ""}, {0x8fff, 500, ""},
	} {
		if s, _ := im.At(tt.t).Symbol(tt.addr); s.Name != tt.want {
			t.Errorf("%#x at %d: %q, want %q", tt.addr, tt.t, s.Name, tt.want)
		}
	}
	if got := im.At(450).Lookup("bpf_prog_bb_b"); len(got) != 1 || got[0].From != 500 {
		t.Errorf("a name of another time: %+v", got)
	}
}

// TestReadAcross: a block over several fragments has the least standing, the
// common validity, and leading bytes as far as facts give them.
func TestReadAcross(t *testing.T) {
	b := kernel()
	b.Poke(pokeAt(0x1ffe, 300, "9090", "eb02"))
	im := mustBuild(t, b)
	buf := make([]byte, 8)
	got := im.At(400).Read(0x1ffc, buf)
	want := Block{Standing: Unmapped, Given: 4, Validity: Validity{300, 1001}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if s := hex.EncodeToString(buf); s != "9090eb0200000000" {
		t.Errorf("bytes %s", s)
	}
	if n := testing.AllocsPerRun(100, func() { im.At(400).Read(0x1ffc, buf) }); n != 0 {
		t.Errorf("Read allocates %v times", n)
	}
}

// TestDoubles: what two CPUs did at the same time is no double write, even if it is
// the same.
func TestDoubles(t *testing.T) {
	for cpu, want := range []int{1, 0} {
		b := kernel()
		b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
		b.Poke(pokeOn(cpu, 0x1100, 300, "9090", "eb02"))
		if got := mustBuild(t, b).Stats().Doubles; got != want {
			t.Errorf("CPU 0 and %d: %d double writes, want %d", cpu, got, want)
		}
	}
}

// TestOnly: an image that was made for a few places answers for them as the
// whole one does, and says nothing of the rest.
func TestOnly(t *testing.T) {
	facts := func(b *Builder) *Image {
		b.Poke(pokeAt(0x1100, 300, "9090", "eb02"))
		b.Poke(pokeAt(0x1101, 400, "02", "04"))
		b.Poke(pokeAt(0x1200, 300, "9090", "eb02"))
		return mustBuild(t, b)
	}
	whole := facts(kernel())
	b := kernel()
	b.Only([]Range{{0x1000, 0x1101}, {0x1300, 0x1400}, {0x3000, 0x3010}})
	im := facts(b)
	for _, at := range []struct{ addr, n uint64 }{{0x10f0, 0x11}, {0x1300, 16}, {0x3000, 4}} {
		if d := cmp.Diff(history(whole, at.addr, at.n), history(im, at.addr, at.n)); d != "" {
			t.Errorf("%#x (-whole +only):\n%s", at.addr, d)
		}
	}
	for _, addr := range []uint64{0x1101, 0x1200, 0x300e, 0x5000} {
		if d := cmp.Diff("0.. unknown outside-image\n", history(im, addr, 8)); d != "" {
			t.Errorf("%#x (-want +got):\n%s", addr, d)
		}
	}
}
