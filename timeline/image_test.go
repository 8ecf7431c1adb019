// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The usual kernel of tests: its text is [0x1000, 0x2000), its snapshot all 0x90,
// copied between 100 and 200; the recording goes from 100 to 1000.

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

func pokeOn(cpu int, addr, t uint64, old, new string) *Poke {
	p := pokeAt(addr, t, old, new)
	p.CPU = cpu
	return p
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

// TestReadOver: a block over a place that is not known, and over the known text
// behind it, has the least standing, and no bytes from that place on.
func TestReadOver(t *testing.T) {
	b := kernel()
	b.Poke(pokeAt(0x1102, 300, "9090", "eb02"))
	b.Poke(pokeAt(0x1102, 600, "eb04", "9090")) // contradicts the one before
	im := mustBuild(t, b)
	for _, tt := range []struct {
		time  uint64
		want  Block
		bytes string
	}{
		{200, Block{Standing: Known, Given: 6, Validity: Validity{100, 300}}, "909090909090"},
		// The last byte is as known at 400 as it was before: only one of two is disputed.
		{400, Block{Standing: Conflicting, Reason: OldBytesMismatch, Given: 2, Validity: Validity{300, 600}}, "909000000000"},
		{700, Block{Standing: Known, Given: 6, Validity: Validity{600, 1001}}, "909090909090"},
		{1001, Block{Standing: Unconfirmed, Reason: BeyondHorizon, Given: 6, Validity: Validity{1001, MaxTime}}, "909090909090"},
	} {
		buf := bytes.Repeat([]byte{0xff}, 6)
		if d := cmp.Diff(tt.want, im.At(tt.time).Read(0x1100, buf)); d != "" {
			t.Errorf("at %d (-want +got):\n%s", tt.time, d)
		}
		if s := hex.EncodeToString(buf); s != tt.bytes {
			t.Errorf("at %d: bytes %s, want %s", tt.time, s, tt.bytes)
		}
	}
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
	for _, tt := range []struct {
		addr, t uint64
		want    Interval
	}{
		{0x9001, 299, Interval{0, 300}}, {0x9001, 300, Interval{300, 400}}, {0x9001, 450, Interval{400, 500}},
		{0x9000, 599, Interval{500, 600}}, {0x9000, 600, Interval{600, MaxTime}}, {0x9002, 500, Interval{0, MaxTime}},
	} {
		if same := im.At(tt.t).SameNames(tt.addr); same != tt.want {
			t.Errorf("names of %#x are the same as at %d for %v, want %v", tt.addr, tt.t, same, tt.want)
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

// TestDuplicateCount: what two CPUs did at the same time is no duplicate, even if it is
// the same.
func TestDuplicateCount(t *testing.T) {
	for cpu, want := range []int{1, 0} {
		b := kernel()
		b.Poke(pokeOn(0, 0x1100, 300, "9090", "eb02"))
		b.Poke(pokeOn(cpu, 0x1100, 300, "9090", "eb02"))
		if got := mustBuild(t, b).Stats().Duplicates; got != want {
			t.Errorf("CPU 0 and %d: %d duplicates, want %d", cpu, got, want)
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
	for _, addr := range []uint64{0x1102, 0x1200, 0x300e, 0x5000} { // the poke at 0x1100 is as a whole in the image
		if d := cmp.Diff("0.. unknown outside-image\n", history(im, addr, 8)); d != "" {
			t.Errorf("%#x (-want +got):\n%s", addr, d)
		}
	}
}

// TestValidityAt: an interval that is what two intervals without a common time have in common
// has no time.
func TestValidityAt(t *testing.T) {
	for _, tt := range []struct {
		v    Validity
		t    uint64
		want bool
	}{
		{Validity{10, 20}, 9, false},
		{Validity{10, 20}, 10, true},
		{Validity{10, 20}, 19, true},
		{Validity{10, 20}, 20, false},
		{Validity{0, MaxTime}, 0, true},
		{Validity{}, 0, false},
		{Validity{10, 10}, 10, false},
		{Validity{20, 10}, 5, false},
		{Validity{20, 10}, 15, false},
		{Validity{20, 10}, 25, false},
	} {
		if got := tt.v.At(tt.t); got != tt.want {
			t.Errorf("%v at %d: %v", tt.v, tt.t, got)
		}
	}
}

// TestNoText: a range of text or of a module that ends before it begins has no text.
func TestNoText(t *testing.T) {
	b := kernel()
	b.Text(0x1800, 0x1400)
	b.Module(Module{Name: "m", Addr: 0x1c00, TextEnd: 0x1a00, End: 0x1b00})
	im, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	if block := im.At(500).Read(0x1600, make([]byte, 4)); block.Standing == Known {
		t.Errorf("%+v", block)
	}
	segments := []Segment{snapshotOf(0x1000, 0x1000, 0x90)}
	for _, r := range []Range{{0x1800, 0x1400}, {0x1800, 0x1800}, {MaxTime, 0}} {
		if got := Overlapping(segments, r.Lo, r.Hi); len(got) > 0 {
			t.Errorf("%+v: %+v", r, got)
		}
	}
}

// TestMaxTime: the names and the bytes at the end of time are those of the time before it: code whose
// end is not recorded is there.
func TestMaxTime(t *testing.T) {
	b := kernel()
	b.Symbol(SymbolEvent{Time: 300, Addr: 0x3000, Len: 16, Kind: SymbolOutOfLine, Name: "kprobe_insn_page", CPU: -1})
	b.Poke(&Poke{Addr: 0x3000, Time: 310, New: []byte{0x90, 0xcc}, CPU: -1})
	b.Module(Module{Name: "m", Addr: 0x4000, TextEnd: 0x4100, End: 0x4200})
	im, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	last, end := im.At(MaxTime-1), im.At(MaxTime)
	for _, addr := range []uint64{0x1000, 0x3000, 0x4000} {
		var x, y [2]byte
		if got, want := end.Read(addr, x[:]), last.Read(addr, y[:]); got != want || x != y {
			t.Errorf("%#x: %+v %x, want %+v %x", addr, got, x, want, y)
		}
		alive, _ := end.LifetimeAt(addr)
		if want, _ := last.LifetimeAt(addr); alive != want || (alive != nil) != (addr == 0x3000) {
			t.Errorf("%#x: %+v, want %+v", addr, alive, want)
		}
		if got := end.InModule(addr); got != (addr == 0x4000) {
			t.Errorf("%#x: in a module: %v", addr, got)
		}
	}
}

// TestVersionsAtOnce: an interval without length has the version of its time.
func TestVersionsAtOnce(t *testing.T) {
	b := kernel()
	b.Poke(&Poke{Addr: 0x1000, Time: 300, Old: []byte{0x90}, New: []byte{0xcc}, CPU: -1})
	im, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, t1 := range []uint64{0, 299, 300} {
		var buf [1]byte
		n := 0
		for block := range im.Versions(0x1000, buf[:], 300, t1) {
			if n++; !block.At(300) || buf[0] != 0xcc {
				t.Errorf("until %d: %+v %x", t1, block, buf)
			}
		}
		if n != 1 {
			t.Errorf("until %d: %d versions", t1, n)
		}
	}
}
