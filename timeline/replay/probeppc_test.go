// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Functions of a kernel of powerpc, and what calls return to.
const (
	ppcMap     = 0x1200 // __get_locked_pte
	ppcUnmap   = 0x1240 // radix__local_flush_tlb_page_psize
	ppcWriter  = 0x1300 // patch_mem
	ppcKsyms   = "0000000000001000 T _stext\n0000000000001200 T __get_locked_pte\n0000000000001240 T radix__local_flush_tlb_page_psize\n0000000000001300 T patch_mem\n0000000000001340 T rest\n0000000000002000 T _etext\n"
	ppcOld     = "00000060" // nop
	ppcNew     = "10000048" // b
	ppcWritten = 0x48000010
)

// newPPCTape returns a tape of a powerpc kernel whose patch_mem keeps the address, the value
// and the size in these registers, with the events that names are the fields of.
func newPPCTape(t *testing.T, registers [3]uint32, before, after string) *tape {
	t.Helper()
	text := make([]byte, tapeTextHi-tapeTextLo)
	for i := 0; i < len(text); i += 4 {
		binary.LittleEndian.PutUint32(text[i:], 0x60000000)
	}
	move := func(to, from uint32) uint32 { return 31<<26 | from<<21 | to<<16 | from<<11 | 444<<1 }
	call := func(from, to int64) uint32 { return 18<<26 | uint32(to-from)&0x3fffffc | 1 }
	binary.LittleEndian.PutUint32(text[ppcMap-tapeTextLo:], 0x7fe00008) // its probe
	for i, word := range []uint32{
		move(registers[0], 3), move(registers[1], 4), move(registers[2], 5),
		call(ppcWriter+12, ppcMap), 0x60000000, call(ppcWriter+20, ppcUnmap), 0x4e800020,
	} {
		binary.LittleEndian.PutUint32(text[ppcWriter-tapeTextLo+4*i:], word)
	}
	format := func(name string, id int, fields string) string {
		s := fmt.Sprintf("name: %s\nID: %d\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n", name, id)
		for i, f := range strings.Fields("__probe_ip lr mm uaddr " + fields) {
			s += fmt.Sprintf("\tfield:u64 %s;\toffset:%d;\tsize:8;\tsigned:0;\n", f, 8+8*i)
		}
		return s + "\nprint fmt: \"%lx\"\n"
	}
	w := newTape(t)
	w.arch, w.machine, w.release = "ppc64le", elf.EM_PPC64, "6.12.0"
	w.copied, w.text, w.kallsyms = true, text, ppcKsyms
	w.tracing = format("clr", probeID-1, after) + format("map", probeID, before)
	w.addProbes("tp:clr", "tp:map")
	return w
}

// words writes a sample with these fields.
func (t *tape) words(id, time uint64, fields ...uint64) {
	raw := make([]byte, 8)
	for _, f := range fields {
		raw = binary.LittleEndian.AppendUint64(raw, f)
	}
	t.sample(id, time, raw)
}

// TestPPC64Probes: the events name the registers that they have. They may be any in which
// patch_mem keeps its arguments; if they are others, nothing is known of the change.
func TestPPC64Probes(t *testing.T) {
	old := uint64(0x60000000) | 0x4e800020<<32
	for _, tt := range []struct {
		name          string
		registers     [3]uint32
		before, after string
		want          string // at 600
	}{
		{"registers of 6.12.95, without their names", [3]uint32{31, 29, 28}, "va now new dw", "new dw", "known  " + ppcNew},
		{"the same with names", [3]uint32{31, 29, 28}, "r31 at31 r29 r28", "r29 r28", "known  " + ppcNew},
		{"registers of 6.12.107", [3]uint32{31, 28, 29}, "r31 at31 r28 r29", "r28 r29", "known  " + ppcNew},
		{"others", [3]uint32{30, 27, 26}, "r30 at30 r27 r26", "r27 r26", "known  " + ppcNew},
		{"the events have other registers", [3]uint32{31, 28, 29}, "r31 at31 r27 r26", "r27 r26", "unconfirmed writer-unknown " + ppcOld},
		{"the address is in another register", [3]uint32{30, 28, 29}, "r31 at31 r28 r29", "r28 r29", "unconfirmed writer-unknown " + ppcOld},
		{"the size is in another register", [3]uint32{31, 28, 29}, "r31 at31 r28 r26", "r28 r26", "unconfirmed writer-unknown " + ppcOld},
		{"the fields of 6.12.95 on 6.12.107", [3]uint32{31, 28, 29}, "va now new dw", "new dw", "known  " + ppcNew},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newPPCTape(t, tt.registers, tt.before, tt.after)
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 400)
			value, long := uint64(ppcWritten), uint64(0)
			if tt.registers[1] < tt.registers[2] && tt.after == "new dw" {
				value, long = long, value // new is r29, dw is r28
			}
			w.words(31, 480, ppcMap, ppcWriter+16, 0x77000, 0x8000, 0x1100, old, value, long)
			w.words(21, 500, ppcUnmap, ppcWriter+24, 0x77000, 0x8000, value, long)
			w.ticks(600, 1000)
			w.reading(160, 0, 0)
			w.reading(950, 1, 0)
			r := w.replay()
			var b [4]byte
			s := r.Image.At(600).Read(0x1100, b[:])
			if got := fmt.Sprintf("%v %v %x", s.Standing, s.Reason, b); got != tt.want {
				t.Errorf("%s; %v %v", got, r.Report.Coverage.Pokes, r.Report.Warnings)
			}
		})
	}
}

// ppcChange begins a recording, in which the word at 0x1100 is changed until 500.
func (t *tape) ppcChange() {
	t.comm(10, 0, 0, 7, "perf-exec")
	t.ticks(100, 100)
	t.comm(10, 150, perfdata.MiscCommExec, 7, "true")
	t.ticks(200, 400)
	t.words(31, 480, ppcMap, ppcWriter+16, 0x77000, 0x8000, 0x1100, 0x60000000, ppcWritten, 0)
	t.words(21, 500, ppcUnmap, ppcWriter+24, 0x77000, 0x8000, ppcWritten, 0)
}

// TestPPC64Map: the function that maps the alias is get_locked_pte, which was a macro before 7.2.
func TestPPC64Map(t *testing.T) {
	for _, function := range []string{"__get_locked_pte", "get_locked_pte", "another"} {
		w := newPPCTape(t, [3]uint32{31, 29, 28}, "r31 at31 r29 r28", "r29 r28")
		w.kallsyms = strings.Replace(w.kallsyms, "__get_locked_pte", function, 1)
		w.ppcChange()
		w.ticks(600, 1000)
		w.reading(160, 0, 0)
		w.reading(950, 1, 0)
		r := w.replay()
		var b [4]byte
		known := r.Image.At(600).Read(0x1100, b[:]).Standing == timeline.Known
		snap := w.snapshot()
		p, err := PlanProbes(snap.Core, snap.Kallsyms)
		if good := function != "another"; known != good || good != (err == nil) || good && !strings.HasPrefix(p.Definitions[1], "p:tp/map "+function+" lr=") {
			t.Errorf("%s: known %v, planned %v, %v; %v", function, known, p, err, r.Report.Coverage.Pokes)
		}
	}
}

// TestPPC64Programs: kernel text remains known when a function writes that only BPF calls, and
// ftrace for modules that are being loaded.
func TestPPC64Programs(t *testing.T) {
	const writes, calls = 0x1500, 0x1600
	call := func(from, to int64) uint32 { return 18<<26 | uint32(to-from)&0x3fffffc | 1 }
	for _, tt := range []struct {
		caller string
		known  bool
	}{{"bpf_arch_text_copy", true}, {"ftrace_init_nop", true}, {"ftrace_make_nop", false}} {
		w := newPPCTape(t, [3]uint32{31, 29, 28}, "r31 at31 r29 r28", "r29 r28")
		w.kallsyms = strings.Replace(w.kallsyms, "0000000000002000", "0000000000001500 T patch_instructions\n0000000000001540 T between\n"+
			"0000000000001600 T bpf_arch_text_invalidate\n0000000000001640 T "+tt.caller+"\n0000000000001680 T after\n0000000000002000", 1)
		for at, to := range map[int64]int64{writes + 8: ppcMap, writes + 16: ppcUnmap, calls: writes, calls + 0x40: writes} {
			binary.LittleEndian.PutUint32(w.text[at-tapeTextLo:], call(at, to))
		}
		w.ppcChange()
		w.words(31, 600, ppcMap, writes+12, 0x77000, 0x8000, 0, 0, 0, 0)
		w.words(21, 610, ppcUnmap, writes+20, 0x77000, 0x8000, 0, 0)
		w.ticks(700, 1000)
		w.reading(160, 0, 0)
		w.reading(950, 2, 0)
		r := w.replay()
		var b [4]byte
		if s := r.Image.At(800).Read(0x1100, b[:]); (s.Standing == timeline.Known) != tt.known {
			t.Errorf("%s: %v %v; %v", tt.caller, s.Standing, s.Reason, r.Report.Coverage.Pokes)
		}
	}
}

// TestPPC64Slots: an instruction that a thread writes outside kernel text is the slot of a kprobe if
// the thread's next change replaces that instruction by a trap.
func TestPPC64Slots(t *testing.T) {
	const slot, site, mm, uaddr = 0xc008000000000008, 0x1180, 0x77000, 0x8000
	const insn, trap = uint64(0x7c0802a6), uint64(0x7fe00008)
	change := func(w *tape, before, after, time, place, was, is uint64) {
		w.words(before, time, ppcMap, ppcWriter+16, mm, uaddr, place, was, is, 0)
		w.words(after, time+10, ppcUnmap, ppcWriter+24, mm, uaddr, is, 0)
	}
	for _, tt := range []struct {
		name  string
		tape  func(w *tape)
		hits  uint64
		known bool
	}{
		{"the probe is armed with its instruction", func(w *tape) {
			change(w, 31, 21, 480, slot, 0, insn)
			change(w, 31, 21, 500, site, insn, trap)
		}, 2, true},
		{"another change of such an instruction", func(w *tape) {
			change(w, 31, 21, 480, slot, 0, insn)
			change(w, 31, 21, 500, site, insn, 0x48000010)
		}, 2, false},
		{"a probe of another instruction", func(w *tape) {
			change(w, 31, 21, 480, slot, 0, insn)
			change(w, 31, 21, 500, site, 0x60000000, trap)
		}, 2, false},
		{"another change between", func(w *tape) {
			change(w, 31, 21, 480, slot, 0, insn)
			change(w, 31, 21, 491, site+8, 0x60000000, 0x48000010)
			change(w, 31, 21, 502, site, insn, trap)
		}, 3, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newPPCTape(t, [3]uint32{31, 29, 28}, "va now new dw", "new dw")
			binary.LittleEndian.PutUint32(w.text[site-tapeTextLo:], uint32(insn))
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 400)
			tt.tape(w)
			w.ticks(600, 1000)
			w.reading(160, 0, 0)
			w.reading(950, tt.hits, 0)
			r := w.replay()
			var b [4]byte
			s := r.Image.At(600).Read(slot, b[:])
			if known := s.Standing == timeline.Known; known != tt.known || known && binary.LittleEndian.Uint32(b[:]) != uint32(insn) {
				t.Errorf("%v %v % x; %v", s.Standing, s.Reason, b, r.Report.Warnings)
			}
		})
	}
}

// TestPPC64Disarmed: the probes of powerpc are disarmed one by one. Changes then have a BEFORE
// without an AFTER; and the other way round while they are armed again. If they were never
// armed, only the copy of text shows that.
func TestPPC64Disarmed(t *testing.T) {
	const site, mm, uaddr = 0x1180, 0x77000, 0x8000
	nops := uint64(0x60000000) | 0x60000000<<32
	before := func(w *tape, id, time, lr, place uint64) {
		w.words(id, time, ppcMap, lr, mm, uaddr, place, nops, ppcWritten, 0)
	}
	after := func(w *tape, id, time uint64) { w.words(id, time, ppcUnmap, ppcWriter+24, mm, uaddr, ppcWritten, 0) }
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		hits uint64 // after 500
		want string
	}{
		{"the event after the store is disarmed first", func(w *tape) {
			before(w, 31, 500, ppcWriter+16, ppcUnmap)
			before(w, 31, 510, ppcWriter+16, ppcMap)
			after(w, 20, 700)
			after(w, 20, 720)
		}, 2, "480 known, 600 unconfirmed probe-disarmed, 710 unconfirmed probe-disarmed"},
		{"a change of another place without an end", func(w *tape) {
			before(w, 31, 500, ppcWriter+16, 0x1190)
		}, 1, "480 known, 600 unconfirmed probe-unpaired, 710 unconfirmed probe-unpaired"},
		{"ftrace's branch arms the probe", func(w *tape) {
			binary.LittleEndian.PutUint32(w.text[ppcMap-tapeTextLo+8:], 0x7c0802a6)
			binary.LittleEndian.PutUint32(w.text[ppcMap-tapeTextLo+12:], 0x48000000|(0x1900-ppcMap-12)|1)
			binary.LittleEndian.PutUint32(w.text[ppcMap-tapeTextLo:], 0x60000000)
		}, 0, "480 known, 600 known, 710 known"},
		{"a branch to ftrace's code arms the probe", func(w *tape) {
			w.kallsyms = strings.Replace(w.kallsyms, "0000000000002000", "0000000000001800 T ftrace_stub_out_of_line\n0000000000002000", 1)
			binary.LittleEndian.PutUint32(w.text[ppcMap-tapeTextLo:], 0x48000000|(0x1804-ppcMap))
		}, 0, "480 known, 600 known, 710 known"},
		{"a branch of the compiler's does not show that they were armed", func(w *tape) {
			binary.LittleEndian.PutUint32(w.text[ppcMap-tapeTextLo:], 0x48000010)
		}, 0, "480 unconfirmed probe-early, 600 unconfirmed probe-early, 710 unconfirmed probe-early"},
		{"nor does a call behind the function's prologue", func(w *tape) {
			for i, word := range []uint32{0x7c0802a6, 0x60000000, 0xf8010010, 0x48000000 | (0x1900 - ppcMap - 12) | 1} {
				binary.LittleEndian.PutUint32(w.text[ppcMap-tapeTextLo+4*i:], word)
			}
		}, 0, "480 unconfirmed probe-early, 600 unconfirmed probe-early, 710 unconfirmed probe-early"},
		{"they were never armed", func(w *tape) {
			binary.LittleEndian.PutUint32(w.text[ppcMap-tapeTextLo:], 0x60000000)
		}, 0, "480 unconfirmed probe-early, 600 unconfirmed probe-early, 710 unconfirmed probe-early"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newPPCTape(t, [3]uint32{31, 28, 29}, "r31 at31 r28 r29", "r28 r29")
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 300)
			before(w, 31, 400, ppcWriter+16, site) // so the events have an address
			after(w, 21, 410)
			tt.tape(w)
			w.ticks(900, 1000)
			w.reading(160, 0, 0)
			w.reading(450, 1, 0)
			w.reading(950, 1+tt.hits, 0)
			r := w.replay()
			var got []string
			for _, at := range []uint64{480, 600, 710} {
				var b [4]byte
				s := r.Image.At(at).Read(0x1100, b[:])
				got = append(got, strings.TrimSpace(fmt.Sprintf("%d %v %v", at, s.Standing, s.Reason)))
			}
			unpaired := slices.ContainsFunc(r.Report.Coverage.Pokes.Limits, func(l Limit) bool { return l.Reason == timeline.ProbeUnpaired })
			if strings.Join(got, ", ") != tt.want || unpaired != strings.Contains(tt.want, "unpaired") {
				t.Errorf("%q\n%v", got, r.Report.Coverage.Pokes)
			}
		})
	}
}
