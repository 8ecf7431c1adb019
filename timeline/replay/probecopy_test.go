// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// More functions of the kernel of newProbeTape, which write BPF programs.
const (
	copyPoke   = 0x1500 // __text_poke
	copyMap    = 0x1600 // patch_map
	copyMemcpy = 0x1700 // text_poke_memcpy
	copyMemset = 0x1740 // text_poke_memset
	copyInsns  = 0x1780 // aarch64_insn_copy
	copySet    = 0x17a0 // aarch64_insn_set
	copyCaller = 0x17c0

	copyKallsyms = "0000000000001500 t __text_poke\n0000000000001600 t patch_map\n0000000000001700 t text_poke_memcpy\n" +
		"0000000000001740 t text_poke_memset\n0000000000001780 T aarch64_insn_copy\n00000000000017a0 T aarch64_insn_set\n" +
		"00000000000017c0 T bpf_arch_text_copy\n0000000000001800 T after\n0000000000002000 T _etext\n"
)

// newCopyTape returns a tape of a kernel of arm64 that has __text_poke, with a probe there too.
// The event has 16 bytes of what is written, and the function if function is set.
func newCopyTape(t *testing.T, function bool) *tape {
	w := newProbeTape(t)
	call := func(from, to int64) uint32 { return 0x94000000 | uint32((to-from)/4)&0x3ffffff }
	for at, words := range map[int][]uint32{
		copyPoke: {
			0xd4200080, 0xd503201f, // the probe, nop
			0xa9ba7bfd,                         // stp x29, x30, [sp, #-96]!
			0xaa0003f6, 0xaa0103f5, 0xaa0203f7, // mov x22, x0; mov x21, x1; mov x23, x2
			0x8b1402a0, // add x0, x21, x20
			call(copyPoke+0x1c, copyMap),
			0xaa1303e3, 0xaa1403e2, 0xaa1703e1, // mov x3, x19; mov x2, x20; mov x1, x23
			0xd63f02c0, // blr x22
			0x52804080, // mov w0, #516
			call(copyPoke+0x34, probeMap),
			0x54ffff08, // b.hi
			0xd65f03c0, // ret
		},
		copyMap: {
			0xa9be7bfd, 0xf9000bf3, // stp x29, x30, [sp, #-32]!; str x19, [sp, #16]
			0xaa0003f3, // mov x19, x0
			0x52804080, call(copyMap+0x10, probeMap), 0xd65f03c0,
		},
		copyMemcpy: {0xa9bf7bfd, 0x8b020021, 0xaa0303e2, call(copyMemcpy+0xc, probeCopyTo), 0xd65f03c0}, // add x1, x1, x2; mov x2, x3
		copyMemset: {0xd65f03c0},
		copyInsns:  {0xa9bf7bfd, 0x90000000, 0x911c0000, call(copyInsns+0xc, copyPoke), 0xd65f03c0}, // adrp x0; add x0, x0, #0x700
		copySet:    {0xa9bf7bfd, 0x90000000, 0x911d0000, call(copySet+0xc, copyPoke), 0xd65f03c0},
		copyCaller: {call(copyCaller, copyInsns), call(copyCaller+4, copySet)},
	} {
		for i, x := range words {
			binary.LittleEndian.PutUint32(w.text[at-tapeTextLo+4*i:], x)
		}
	}
	w.kallsyms = strings.TrimSuffix(w.kallsyms, "0000000000002000 T _etext\n") + copyKallsyms
	fields, at := "", 16
	for _, name := range []string{"func", "addr", "len"} {
		if name != "func" || function {
			fields += fmt.Sprintf("\tfield:u64 %s;\toffset:%d;\tsize:8;\tsigned:0;\n", name, at)
			at += 8
		}
	}
	w.tracing = fmt.Sprintf("name: poke\nID: %d\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"+
		"\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n%s\tfield:u64 b[];\toffset:%d;\tsize:16;\tsigned:0;\n\nprint fmt: \"%%lx\"\n",
		probeID-1, fields, at) + w.tracing
	w.events = w.events[:1]
	w.addProbes("tp:poke", "tp:map")
	return w
}

// A textPoke is a call of __text_poke at a time, which takes 10.
type textPoke struct {
	time, addr, function uint64
	code                 string // in hex
	sizes                []uint64
	length               uint64 // what it says, if not the length of code
}

// textPoke writes the samples of a call. CPU 1 has ids that end in 1.
func (t *tape) textPoke(p textPoke, function bool) {
	code := fromHex(p.code)
	le := binary.LittleEndian
	raw := make([]byte, 8)
	raw = le.AppendUint64(raw, copyPoke)
	caller := uint64(copyInsns + 0x10)
	if function {
		raw = le.AppendUint64(raw, p.function)
		caller = 0x1444
	} else if p.function == copyMemset {
		caller = copySet + 0x10
	}
	raw = le.AppendUint64(le.AppendUint64(raw, p.addr), cmp.Or(p.length, uint64(len(code))))
	t.sample(21, p.time, append(raw, slices.Concat(code, make([]byte, 16))[:16]...))
	at, time := p.addr, p.time
	sizes := p.sizes
	if sizes == nil {
		sizes = []uint64{uint64(len(code))}
	}
	for _, size := range sizes {
		before, after := make([]byte, 56+80), make([]byte, 56+80)
		for i, x := range []uint64{probeMap, 516, at + 0x800000, copyMap + 0x14, at} {
			le.PutUint64(before[8+8*i:], x)
		}
		le.PutUint64(before[56+8:], copyPoke+0x20)
		le.PutUint64(before[56+16:], size)
		for i, x := range []uint64{probeMap, 516, 0, copyPoke + 0x38} {
			le.PutUint64(after[8+8*i:], x)
		}
		le.PutUint64(after[56+8:], caller)
		t.sample(31, time+1, before)
		t.sample(31, time+2, after)
		at, time = at+size, time+2
	}
}

// TestWrittenPrograms: what the samples of __text_poke prove of the code of a BPF program or a
// trampoline at 0x9010, which is there from 500 until 900.
func TestWrittenPrograms(t *testing.T) {
	const code, other = "e9031eaac0035fd6", "c0035fd6e9031eaa"
	const long = code + other + code // 24 bytes, of which samples have 16
	const plt = "4a00005840011fd6"
	before := textPoke{400, 0x9010, copyMemcpy, code, nil, 0}
	tampered := func(at int, x uint32) func(w *tape) {
		return func(w *tape) { binary.LittleEndian.PutUint32(w.text[at-tapeTextLo:], x) }
	}
	at := func(p textPoke, time uint64) textPoke { p.time = time; return p }
	with := func(p textPoke, addr uint64, code string, sizes ...uint64) textPoke {
		p.addr, p.code, p.sizes = addr, code, sizes
		return p
	}
	fill := at(before, 420)
	fill.function = copyMemset
	for _, tt := range []struct {
		name       string
		pokes      []textPoke
		trampoline bool
		loose      bool // a sample has no partner
		set        func(w *tape)
		want       string // the first 8 bytes at 700; "" if they are not known
	}{
		{"a program is written before its symbol", []textPoke{before}, false, false, nil, code},
		{"a trampoline after it", []textPoke{at(before, 600)}, true, false, nil, code},
		{"or before it", []textPoke{before}, true, false, nil, code},
		{"a program is part of what is written", []textPoke{with(before, 0x9008, other+code)}, false, false, nil, code},
		{"the last write counts", []textPoke{with(at(before, 300), 0x9010, other), before}, false, false, nil, code},
		{"one of other places does not", []textPoke{before, with(at(before, 420), 0x9080, other)}, false, false, nil, code},
		{"a fill", []textPoke{before, fill}, false, false, nil, ""},
		{"two writes after the symbol", []textPoke{at(before, 550), at(before, 600)}, true, false, nil, ""},
		{"another image is written behind a trampoline", []textPoke{at(before, 600), with(at(before, 620), 0x9040, other)}, true, false, nil, code},
		{"part of a trampoline is written again", []textPoke{at(before, 600), with(at(before, 620), 0x9014, other)}, true, false, nil, ""},
		{"a word is patched before the symbol", []textPoke{before, {420, 0x9010, 0, wordB + wordNOP, nil, 0}}, false, false, nil, ""},
		{"and after it", []textPoke{at(before, 550), {600, 0x9010, 0, wordB + code[:8], nil, 0}}, true, false, nil, wordB + code[8:]},
		{"a write that may be missing", []textPoke{before}, false, true, nil, ""},
		{"in two pages", []textPoke{with(before, 0x9010, code, 4, 4)}, false, false, nil, code},
		{"the second page is missing", []textPoke{with(before, 0x9010, code, 4)}, false, false, nil, ""},
		{"a write that was not ended counts as one", []textPoke{at(before, 300), with(before, 0x9010, other, 4)}, false, false, nil, ""},
		{"a page that is longer than the rest", []textPoke{with(before, 0x9010, code, 12)}, false, false, nil, ""},
		{"a page that no kernel has", []textPoke{{400, 0x9010, copyMemcpy, code, []uint64{1 << 60}, 1 << 60}}, false, false, nil, ""},
		{"more than the sample has", []textPoke{with(before, 0x9010, long)}, false, false, nil, code},
		{"only bytes that the sample does not have", []textPoke{with(before, 0x9000, long)}, false, false, nil, ""},
		{"the target of the PLT is not recorded", []textPoke{with(before, 0x9008, plt+code)}, false, false, nil, code},
		{"the program's own PLT", []textPoke{with(before, 0x9010, plt+code)}, false, false, nil, plt},
		{"the offset is another one", []textPoke{before}, false, false, tampered(copyPoke+0x24, 0xaa1503e2), ""},
		{"the bytes are elsewhere", []textPoke{before}, false, false, tampered(copyPoke+0x28, 0xaa1503e1), ""},
		{"another function is called", []textPoke{before}, false, false, tampered(copyPoke+0x2c, 0xd63f02a0), ""},
		{"the size is not saved", []textPoke{before}, false, false, tampered(copyMap+4, 0xd503201f), ""},
		{"what copies does not add the offset", []textPoke{before}, false, false, tampered(copyMemcpy+4, 0xd503201f), ""},
		{"the entry is not one that ftrace can trace", []textPoke{before}, false, false, tampered(copyPoke+4, 0xd503245f), ""},
	} {
		for _, function := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, function %v", tt.name, function), func(t *testing.T) {
				w := newCopyTape(t, function)
				if tt.set != nil {
					tt.set(w)
				}
				w.comm(10, 0, 0, 7, "perf-exec")
				w.ticks(100, 100)
				w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
				w.change(31, 180, 190, 0x1100, wordNOP, wordB) // it gives the offset of the kernel
				w.ticks(200, 200)
				hits := uint64(3)
				name, size := "bpf_prog_aa_a", uint32(16)
				if tt.trampoline {
					name, size = "bpf_trampoline_1", 4096 // whatever its code takes
				}
				born := false
				for _, p := range tt.pokes {
					if p.function == 0 { // it patches a word
						w.change(31, p.time+1, p.time+2, p.addr, p.code[8:], p.code[:8])
						hits += 2
						continue
					}
					if p.time > 500 && !born {
						w.ksymbol(11, 500, 0x9010, size, perfdata.KSymbolBPF, 0, name)
						born = true
					}
					w.textPoke(p, function)
					hits += 2 * uint64(max(1, len(p.sizes)))
				}
				if tt.loose { // its partner may have been of a write before the symbol
					w.before(31, 420, 0x1180, wordNOP)
					w.change(31, 430, 440, 0x1180, wordNOP, wordB)
					hits += 3
				}
				if !born {
					w.ksymbol(11, 500, 0x9010, size, perfdata.KSymbolBPF, 0, name)
				}
				w.ticks(800, 800)
				w.ksymbol(11, 900, 0x9010, size, perfdata.KSymbolBPF, perfdata.KSymbolUnregister, name)
				w.ticks(1000, 1000)
				w.reading(160, 1, 0)
				w.reading(950, hits, 0)
				r := w.replay()
				var b [8]byte
				v := r.Image.At(700)
				s := v.Read(0x9010, b[:])
				got := ""
				if s.Standing == timeline.Known {
					got = fmt.Sprintf("%x", b)
				}
				if got != tt.want {
					t.Errorf("got %s (%v), want %s\n%s%v", got, s.Standing, tt.want, r.Image.Dump(0x9010, 16), r.Report.Coverage.Pokes)
				}
				if tt.want == plt {
					if s := v.Read(0x9018, b[:4]); s.Standing == timeline.Known {
						t.Error("the target of the PLT is known")
					}
				}
				if s := r.Image.At(700).Read(0x1100, b[:4]); !tt.loose && s.Standing != timeline.Known {
					t.Errorf("kernel text is %v (%v) after it", s.Standing, s.Reason)
				}
			})
		}
	}
}

// TestWrittenProgramsCount: the report counts a program without an info whose functions were all written.
func TestWrittenProgramsCount(t *testing.T) {
	const code = "e9031eaac0035fd6"
	type function struct {
		addr    uint64
		written bool
	}
	for _, tt := range []struct {
		name     string
		programs [][]function
		want     int
	}{
		{"its only function", [][]function{{{0x9010, true}}}, 1},
		{"no write", [][]function{{{0x9010, false}}}, 0},
		{"two functions", [][]function{{{0x9010, true}, {0x9040, true}}}, 1},
		{"one of two functions", [][]function{{{0x9010, true}, {0x9040, false}}}, 0},
		{"each program by itself", [][]function{{{0x9010, true}}, {{0x9040, false}}, {{0x9080, true}}}, 2},
		{"a load without a function", [][]function{{{0x9010, true}}, nil}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newCopyTape(t, true)
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
			w.change(31, 180, 190, 0x1100, wordNOP, wordB)
			hits, time := uint64(3), uint64(200)
			for id, functions := range tt.programs {
				for _, f := range functions {
					if f.written {
						w.textPoke(textPoke{time, f.addr, copyMemcpy, code, nil, 0}, true)
						hits += 2
					}
					time += 20
				}
				for _, f := range functions {
					w.ksymbol(11, time, f.addr, 16, perfdata.KSymbolBPF, 0, fmt.Sprintf("bpf_prog_%x", f.addr))
				}
				w.bpfLoad(11, time+1, uint32(id))
				w.bpfLoad(11, time+1, uint32(id)) // perf wrote it twice
				time += 20
			}
			w.ticks(800, 1000)
			w.reading(160, 1, 0)
			w.reading(950, hits, 0)
			if got := w.replay().Report.BPF; got.Programs != len(tt.programs) || got.WithBytes != tt.want {
				t.Errorf("%d of %d programs have bytes, want %d of %d", got.WithBytes, got.Programs, tt.want, len(tt.programs))
			}
		})
	}
}

// TestWrittenAcrossPages: what is written over a part of a program counts where that is in the next 64 KiB
// too.
func TestWrittenAcrossPages(t *testing.T) {
	const addr, code, other = 0x1fff8, "e9031eaac0035fd6e9031eaac0035fd6", "c0035fd6e9031eaa"
	for _, again := range []bool{false, true} {
		w := newCopyTape(t, true)
		w.comm(10, 0, 0, 7, "perf-exec")
		w.ticks(100, 100)
		w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
		w.change(31, 180, 190, 0x1100, wordNOP, wordB)
		w.ticks(200, 200)
		hits := uint64(5)
		w.textPoke(textPoke{400, addr, copyMemcpy, code, nil, 0}, true)
		if again {
			w.textPoke(textPoke{420, addr + 8, copyMemcpy, other, nil, 0}, true)
			hits += 2
		}
		w.ksymbol(11, 500, addr, 16, perfdata.KSymbolBPF, 0, "bpf_prog_aa_a")
		w.ticks(800, 1000)
		w.reading(160, 1, 0)
		w.reading(950, hits, 0)
		r := w.replay()
		var b [8]byte
		for at := range uint64(2) {
			got := r.Image.At(700).Read(addr+8*at, b[:])
			if known := got.Standing == timeline.Known; known == again || known && !bytes.Equal(b[:], fromHex(code[16*at:][:16])) {
				t.Errorf("written again: %v, +%d: %v %x", again, 8*at, got.Standing, b)
			}
		}
	}
}

// TestManyWrites: the writes of a program are found without a look at all that its page ever had, and if
// that is not possible, nothing is known of it.
func TestManyWrites(t *testing.T) {
	const n = 50_000
	a := writtenCode{pages: make(map[uint64]*pageWrites), steps: 20 * n}
	var births []codeBirth
	for i := range uint64(n) {
		lo := 0x10000 + i%1000*16
		a.add(&probeCopied{timeline.Range{Lo: lo, Hi: lo + 16}, 10 * i, 10*i + 1, []byte{1}, false})
		births = append(births, codeBirth{Range: timeline.Range{Lo: lo, Hi: lo + 16}, time: 10*i + 5})
	}
	for i := range births {
		if w, _ := a.of(&births[i], births[i].time+50); w == nil || w.Lo != births[i].Lo || w.ended > births[i].time {
			t.Fatalf("birth %d: %+v", i, w)
		}
	}
	last := &births[n-1]
	a.steps = n / 2
	if w, _ := a.of(&codeBirth{Range: timeline.Range{Lo: 0x1fff0, Hi: 0x20000}, time: last.time}, timeline.MaxTime); w != nil {
		t.Errorf("where nothing was written: %+v", w)
	}
	a.steps = n / 2
	if w, _ := a.of(&codeBirth{Range: timeline.Range{Lo: births[0].Lo, Hi: births[0].Hi}, time: 0}, timeline.MaxTime); w != nil {
		t.Errorf("an endless search: %+v", w)
	}
	a.steps = 0
	if w, _ := a.of(last, timeline.MaxTime); w != nil {
		t.Errorf("no search is left: %+v", w)
	}
}

// TestManyPrograms: kernel text remains known however often BPF programs are written and gone.
func TestManyPrograms(t *testing.T) {
	w := newCopyTape(t, true)
	w.comm(10, 0, 0, 7, "perf-exec")
	w.ticks(100, 100)
	w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
	w.change(31, 180, 190, 0x1100, wordNOP, wordB)
	const n = 1500
	for i := range uint64(n) {
		w.textPoke(textPoke{200 + 5*i, 0x9000 + 64*i, copyMemset, wordB + wordB, nil, 0}, true)
	}
	end := uint64(200 + 5*n)
	w.ticks(end, end+100)
	w.reading(160, 1, 0)
	w.reading(end+50, 3+2*n, 0)
	r := w.replay()
	var b [4]byte
	if s := r.Image.At(end).Read(0x1104, b[:]); s.Standing != timeline.Known {
		t.Errorf("%v %v: %v", s.Standing, s.Reason, r.Report.Coverage.Pokes)
	}
}

// TestWrittenProgramsOracle: the code in the infos of a recording's BPF programs is what
// __text_poke wrote, as far as its samples have it.
func TestWrittenProgramsOracle(t *testing.T) {
	r, err := Load(filepath.Join(corpus.Large(t, "arm64/probe612"), "rec.data"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	copies, compared := r.scanned().probes.copies, 0
	for p, err := range r.Recording.BPFProgs() {
		if err != nil {
			t.Fatal(err)
		}
		for f := range p.Funcs() {
			// Programs come to the places of others: the longest common beginning is its own.
			best := 0
			for _, c := range copies {
				if c.Lo > f.Addr || f.Addr >= c.Hi || f.Addr-c.Lo >= uint64(len(c.bytes)) {
					continue
				}
				code := c.bytes[f.Addr-c.Lo:]
				code = code[:min(len(code), len(f.Code))]
				if bytes.HasPrefix(f.Code, code) {
					best = max(best, len(code))
				}
			}
			if best < min(len(f.Code), 480-64) {
				t.Errorf("the code of program %d at %#x was not written as it is", p.ID, f.Addr)
			}
			compared += best
		}
	}
	if compared < 1000 {
		t.Errorf("%d bytes compared", compared)
	}
	t.Logf("%d bytes of programs", compared)
}
