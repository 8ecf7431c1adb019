// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

var allWindows = flag.Bool("windows", false, "TestAlternativesAgainstGo: look at every window of large recordings, not only at some 50,000")

// TestAlternativesAgainstGo: textreplay_alternatives, which lists the sides of each change, and
// [replay.Cursor.Alternatives], which lists instructions, say the same at all edges of every
// window: the same instructions, the same one first, and traps with the same effects during
// the same time.
func TestAlternativesAgainstGo(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(corpus.Root(), "testdata", "*", "*.data"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("%v %v", dirs, err)
	}
	windows := 0
	for _, dir := range dirs {
		t.Run(filepath.Base(filepath.Dir(dir)), func(t *testing.T) { windows += compareAlternatives(t, dir) })
	}
	t.Run("made-up arm64", func(t *testing.T) {
		if n := compareAlternatives(t, arm64Recording(t)); n < 50 {
			t.Errorf("%d windows", n)
		}
	})
	if windows < 1000 {
		t.Errorf("%d windows", windows)
	}
	for _, name := range []string{"x86_64/storm", "x86_64/rich", "x86_64/z72", "arm64/rich", "arm64/probe", "arm64/probe612"} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			n := compareAlternatives(t, filepath.Join(corpus.Large(t, name), "rec.data"))
			if strings.HasPrefix(name, "x86_64") && n == 0 {
				t.Error("no windows")
			}
		})
	}
}

// arm64Recording makes a recording of an arm64 kernel that records its pokes, as no kernel does
// today: NOP, B, BL and BRK replace one another.
func arm64Recording(t *testing.T) string {
	const base = uint64(0xffff800080000000)
	word := func(w uint32) []byte { return binary.LittleEndian.AppendUint32(nil, w) }
	codes := [][]byte{word(0xd503201f), word(0x14000003), word(0x94000004), word(0xd4200080)}
	k := &genperf.Kernel{Machine: elf.EM_AARCH64, Arch: "aarch64", Release: "6.12.0", Order: binary.LittleEndian, Addr: base, CPUs: 1}
	k.Text = bytes.Repeat(codes[0], 1024)
	k.Symbols = []kcore.ELFSymbol{{Name: "f", Addr: base}}
	text := bytes.Clone(k.Text)
	dir := filepath.Join(t.TempDir(), "rec.data")
	rec, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	now := uint64(2_000_000_000)
	for range 200 {
		now += 1000 + rng.Uint64N(1000)
		i := 4 * rng.IntN(20)
		to := codes[rng.IntN(len(codes))]
		if bytes.Equal(to, text[i:i+4]) {
			continue
		}
		if err := rec.Poke(now, base+uint64(i), bytes.Clone(text[i:i+4]), to); err != nil {
			t.Fatal(err)
		}
		copy(text[i:], to)
	}
	if err := rec.End(now + 1_000_000); err != nil {
		t.Fatal(err)
	}
	return dir
}

// compareAlternatives returns how many windows were compared.
func compareAlternatives(t *testing.T, path string) int {
	r, err := replay.Load(path, replay.Options{Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dis, err := disasm.New(r.Machine(), r.Recording.ByteOrder())
	if err != nil {
		t.Skipf("skipped: no instructions of %v are decoded", r.Machine())
	}
	var h history
	h.init(r)
	cur := r.Cursor()
	windows, asked, traps, wrong := 0, 0, 0, 0
	total, step := 0, 1
	for _, proven := range r.Windows().Proven() {
		if proven.From < proven.To {
			total++
		}
	}
	if !*allWindows {
		step += total / 50_000
	}
	i := 0
	for p, proven := range r.Windows().Proven() {
		if proven.From >= proven.To || p.Len == 0 {
			continue
		}
		if i++; i%step != 0 {
			continue
		}
		windows++
		times := []uint64{proven.From, p.Time - 1, p.Time, proven.To - 1}
		slices.Sort(times)
		for _, at := range slices.Compact(times) {
			if at < proven.From || at >= proven.To {
				continue
			}
			asked++
			got, n := libraryList(h.alternatives(p.Addr, at), dis, p.Addr)
			traps += n
			if want := goList(cur.Alternatives(p.Addr, at, at)); got != want {
				if wrong++; wrong <= 5 {
					t.Errorf("%x at %d, window [%d, %d) of %d:\nC  %v\nGo %v", p.Addr, at, proven.From, proven.To, p.Time, got, want)
				}
			}
		}
	}
	// Changes that are in flight have both sides and no window.
	inFlight, both := 0, 0
	for a, v := range r.Image.Fragments() {
		var first [1]byte
		if cur.Read(a.Lo, v.Since, first[:]).Standing != timeline.InFlight || r.Machine() == elf.EM_AARCH64 && a.Lo%4 != 0 {
			continue
		}
		if inFlight++; inFlight > 20_000 {
			continue // of large recordings only so many
		}
		for _, at := range []uint64{v.Since, v.Until - 1} {
			list := h.alternatives(a.Lo, at)
			got, _ := libraryList(list, dis, a.Lo)
			both += min(1, len(list)/2)
			if want := goList(cur.Alternatives(a.Lo, at, at)); got != want {
				if wrong++; wrong <= 5 {
					t.Errorf("%x at %d, in flight:\nC  %v\nGo %v", a.Lo, at, got, want)
				}
			}
		}
	}
	if inFlight > 100 && both < 100 { // a change may write what is there
		t.Errorf("%d answers with both sides of a change in flight", both)
	}
	t.Logf("%d of %d windows, %d in flight, %d questions, %d traps, %d differ", windows, total, inFlight, asked, traps, wrong)
	return windows
}

// A trapAs is a trap, by its effect.
type trapAs struct {
	kind         uint8
	target, next uint64
}

// libraryList returns the list of the C library in one form.
func libraryList(list []alternative, dis *disasm.Disassembler, addr uint64) (string, int) {
	var insts []string
	traps := make(map[trapAs]timeline.Validity)
	for _, a := range list {
		if a.choice == trap {
			addTrap(traps, trapAs{a.effect, a.target, a.next}, a.from, a.until)
			continue
		}
		s := fmt.Sprintf("%x", dis.Decode(bytes.Clone(a.bytes[:a.n]), addr).Bytes)
		if !slices.Contains(insts, s) {
			insts = append(insts, s)
		}
	}
	return oneForm(insts, traps), len(traps)
}

// goList returns that of the Go package in the same form.
func goList(list []replay.Alternative) string {
	var insts []string
	traps := make(map[trapAs]timeline.Validity)
	for _, a := range list {
		if a.Trap {
			addTrap(traps, trapAs{uint8(a.Effect.Kind), a.Effect.Target, a.Effect.Next}, a.Since, a.Until)
		} else {
			insts = append(insts, fmt.Sprintf("%x", a.Inst.Bytes))
		}
	}
	return oneForm(insts, traps)
}

// addTrap adds the window of a trap: the Go package lists traps of one effect once.
func addTrap(traps map[trapAs]timeline.Validity, as trapAs, since, until uint64) {
	if v, ok := traps[as]; ok {
		since, until = min(since, v.Since), max(until, v.Until)
	}
	traps[as] = timeline.Validity{Since: since, Until: until}
}

// oneForm prints instructions, the first one first and the others by their bytes, and traps.
func oneForm(insts []string, traps map[trapAs]timeline.Validity) string {
	if len(insts) > 1 {
		slices.Sort(insts[1:])
	}
	return fmt.Sprintf("%v, traps %v", insts, traps)
}

// TestAlternativesOfGone: the window of a change ends with its thread's next sleep, or never. Its sides end when the
// code is unregistered, before other code comes there.
func TestAlternativesOfGone(t *testing.T) {
	nop, jump := []byte{0x0f, 0x1f, 0x44, 0, 0}, []byte{0xe9, 0x10, 0, 0, 0}
	const at, program = uint64(genperf.TextAddr), uint64(0xffffffffc0001000)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: at, CPUs: 1,
		Text: bytes.Repeat([]byte{0x90}, 4096), Symbols: []kcore.ELFSymbol{{Name: "f", Addr: at}, {Name: "end", Addr: at + 4095}}}
	path := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	symbol := func(time uint64, flags uint16, name string) {
		if err := w.KSymbol(&perfdata.KSymbol{Addr: program, Len: 64, Kind: perfdata.KSymbolBPF, Flags: flags, Name: []byte(name), SampleID: w.ID(time, 0, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	symbol(2_000_000_000, 0, "bpf_prog_aa_a")
	if err := w.TextPoke(&perfdata.TextPoke{Addr: program, Old: nop, New: jump, SampleID: w.ID(3_000_000_000, 0, 100)}); err != nil {
		t.Fatal(err)
	}
	symbol(4_000_000_000, perfdata.KSymbolUnregister, "bpf_prog_aa_a")
	symbol(5_000_000_000, 0, "bpf_prog_bb_b")
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	h := loaded(t, path)
	for _, time := range []uint64{2_999_999_999, 3_000_000_001, 3_500_000_000} {
		list, sides := h.alternatives(program, time), 0
		for _, a := range list {
			if a.choice != trap {
				sides++
				if a.from < 2_000_000_000 || a.until > 4_000_000_000 {
					t.Errorf("at %d: % x from %d until %d", time, a.bytes[:a.n], a.from, a.until)
				}
			}
		}
		if sides != 2 {
			t.Errorf("at %d: %d sides: %v", time, sides, list)
		}
	}
}

// TestAlternativesOfClocks: where clocks differ, a change is in flight around the time of its record. All of its sides
// are there all the time, and only what is there before is the old one.
func TestAlternativesOfClocks(t *testing.T) {
	nop, jump := []byte{0x0f, 0x1f, 0x44, 0, 0}, []byte{0xe9, 0x10, 0, 0, 0}
	const at = uint64(genperf.TextAddr)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: at, CPUs: 2,
		Text: bytes.Repeat([]byte{0x90}, 4096), Symbols: []kcore.ELFSymbol{{Name: "f", Addr: at}, {Name: "end", Addr: at + 4095}}}
	copy(k.Text[0x40:], nop)
	copy(k.Text[0x80:], nop)
	path := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	poke := func(time uint64, cpu uint32, addr uint64, old, new []byte) {
		if err := w.TextPoke(&perfdata.TextPoke{Addr: at + addr, Old: old, New: new, SampleID: w.ID(time, cpu, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	poke(2_000_000_000, 0, 16, []byte{0x0f, 1}, []byte{0x0f, 2})
	poke(2_995_000_000, 1, 16, []byte{0x0f, 3}, []byte{0x0f, 4}) // it was made after the next one
	poke(3_000_000_000, 0, 16, []byte{0x0f, 2}, []byte{0x0f, 3})
	poke(5_000_000_000, 0, 0x40, nop, jump)
	poke(6_000_000_000, 0, 0x80, nop, jump)
	poke(6_010_000_000, 0, 0x80, jump, nop)
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	h := loaded(t, path)
	asked := 0
	for _, site := range []struct{ addr, from, to uint64 }{{0x40, 4_940e6, 5_060e6}, {0x80, 5_940e6, 6_070e6}} {
		for time := site.from; time < site.to; time += 1e6 {
			var b [5]byte
			if h.read(at+site.addr, time, b[:]).Standing != timeline.InFlight {
				continue
			}
			asked++
			got := h.alternatives(at+site.addr, time)
			if len(got) == 0 || !bytes.HasPrefix(got[0].bytes[:], b[:]) || got[0].choice == trap {
				t.Fatalf("%#x at %d: %v does not begin with % x, which is read", site.addr, time, got, b)
			}
			for _, want := range [][]byte{nop, jump} {
				i := slices.IndexFunc(got, func(a alternative) bool { return a.choice != trap && bytes.Equal(a.bytes[:a.n], want) })
				if i < 0 {
					t.Fatalf("%#x at %d: % x is not among %v", site.addr, time, want, got)
				}
				if a := &got[i]; time < a.from || time >= a.until || (a.choice == before) == bytes.Equal(want, b[:]) {
					t.Fatalf("%#x at %d: % x is %v", site.addr, time, want, *a)
				}
			}
		}
	}
	if asked < 150 {
		t.Errorf("%d times in flight", asked)
	}
}

// TestAlternativesComeBack: an instruction that is there before one change and comes back with a later
// one is listed for each of them, while the windows of both are open: with the time of the first alone,
// it would seem to be gone.
func TestAlternativesComeBack(t *testing.T) {
	nop, jump := []byte{0x66, 0x90}, []byte{0xeb, 0x10}
	const at, first, second = uint64(genperf.TextAddr), uint64(5_000_000_000), uint64(5_000_020_000)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: at, CPUs: 1,
		Text: bytes.Repeat([]byte{0x90}, 4096), Symbols: []kcore.ELFSymbol{{Name: "f", Addr: at}, {Name: "end", Addr: at + 4095}}}
	copy(k.Text[0x40:], nop)
	path := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{w.Poke(first, at+0x40, nop, jump), w.Poke(first+1000, at+0x80, []byte{0x90, 0x90}, nop),
		w.Poke(second, at+0x40, jump, nop), w.End(9e9)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h := loaded(t, path)
	type side struct {
		choice       uint8
		code         byte
		from, change uint64
	}
	var got []side
	for _, a := range h.alternatives(at+0x40, second-1) {
		if a.choice != trap {
			got = append(got, side{a.choice, a.bytes[0], a.from, a.change})
		}
	}
	for _, want := range []side{{after, jump[0], first, first}, {after, nop[0], second, second}} {
		if !slices.Contains(got, want) {
			t.Errorf("%v is not among %v", want, got)
		}
	}
	if n := len(h.windows(at+0x40, at+0x41, second-1, second)); n < 2 {
		t.Errorf("%d windows are open", n)
	}
}

// loaded returns the history of a recording, with its windows, until the test ends.
func loaded(t *testing.T, path string) *history {
	t.Helper()
	r, err := replay.Load(path, replay.Options{Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	h := new(history)
	h.init(r)
	return h
}
