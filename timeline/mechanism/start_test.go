// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// startMoved is how far the made-up kernel of these tests was moved when it booted.
const startMoved = 0x1a000000

// A startCase is a place where the text differs from the file. In was and is, a word in
// braces is a displacement of 32 bits, relative to its end: to a function of
// startFunctions, to self, or without a name to the place of the instructions, plus a
// number of bytes. {@function} is an absolute address of 32 bits.
type startCase struct {
	name    string
	was, is string
	site    string // the section that lists the place
	repl    string // of an alternative, what may be put there
	want    Cause  // 0: a finding
}

var startCases = []startCase{
	{"alternative", "90 90 90", "0f 01 ca", ".altinstructions", "0f 01 ca", CauseAlternative},
	{"alternative kept, NOPs joined", "90 90 90 90", "0f 1f 40 00", ".altinstructions", "0f 01 ca", CauseAlternative},
	{"many NOPs are a jump", "909090909090909090909090", "eb 0a cccccccccccccccccccc", ".altinstructions", "0f 01 ca", CauseAlternative},
	{"alternative with a call", "90 90 90 90 90", "e8 {native_op}", ".altinstructions", "e8 {native_op}", CauseAlternative},
	{"alternative with a call of another", "90 90 90 90 90", "e8 {other_op}", ".altinstructions", "e8 {native_op}", 0},
	{"alternative with a shorter jump", "90 90 90 90 90", "eb 1e 0f 1f 00", ".altinstructions", "e9 {self+32}", CauseAlternative},
	{"other instructions at an alternative", "90 90 90", "0f 01 cb", ".altinstructions", "0f 01 ca", 0},
	{"instructions without an alternative", "90 90 90", "0f 01 ca", "", "", 0},
	{"paravirt call", "ff 15 {pv_ops}", "e8 {native_op} 90", ".parainstructions", "", CauseParavirt},
	{"paravirt call that does nothing", "ff 15 {pv_ops}", "66 0f 1f 44 00 00", ".parainstructions", "", CauseParavirt},
	{"paravirt call into a function", "ff 15 {pv_ops}", "e8 {native_op+3} 90", ".parainstructions", "", 0},
	{"paravirt jump", "ff 25 {pv_ops}", "e9 {native_op} 90", ".parainstructions", "", CauseParavirt},
	{"paravirt instruction of old kernels", "ff 15 {pv_ops}", "fa 0f 1f 44 00 00", ".parainstructions", "", CauseParavirt},
	{"paravirt with another instruction", "ff 15 {pv_ops}", "f4 0f 1f 44 00 00", ".parainstructions", "", 0},
	{"call of pv_ops in no list", "ff 15 {pv_ops}", "e8 {native_op} 90", "", "", 0},
	{"retpoline", "e8 {__x86_indirect_thunk_rax}", "ff d0 0f 1f 00", ".retpoline_sites", "", CauseRetpoline},
	{"retpoline with LFENCE", "e8 {__x86_indirect_thunk_rax}", "0f ae e8 ff d0", ".retpoline_sites", "", CauseRetpoline},
	{"retpoline of r11", "2e e8 {__x86_indirect_thunk_r11}", "41 ff d3 0f 1f 00", ".retpoline_sites", "", CauseRetpoline},
	{"retpoline through another register", "e8 {__x86_indirect_thunk_rax}", "ff d1 0f 1f 00", ".retpoline_sites", "", 0},
	{"retpoline to a jump", "e8 {__x86_indirect_thunk_rax}", "ff e0 0f 1f 00", ".retpoline_sites", "", 0},
	{"return", "e9 {__x86_return_thunk}", "c3 cc cc cc cc", ".return_sites", "", CauseReturn},
	{"return through another thunk", "e9 {__x86_return_thunk}", "e9 {srso_return_thunk}", ".return_sites", "", CauseReturn},
	{"return elsewhere", "e9 {__x86_return_thunk}", "e9 {native_op}", ".return_sites", "", 0},
	{"no return", "e9 {native_op}", "c3 cc cc cc cc", "", "", 0},
	{"counted call", "e8 {counted}", "e8 {counted-16}", ".call_sites", "", CauseCallDepth},
	{"counted call of another", "e8 {counted}", "e8 {native_op-16}", ".call_sites", "", 0},
	{"lock", "f0 ff 07", "3e ff 07", ".smp_locks", "", CauseLock},
	{"no lock", "f0 ff 07", "2e ff 07", ".smp_locks", "", 0},
	{"endbr", "f3 0f 1e fa", "66 0f 1f 00", ".ibt_endbr_seal", "", CauseEndbr},
	{"endbr in no list", "f3 0f 1e fa", "66 0f 1f 00", "", "", 0},
	{"constant", "48 b8 efcdab8967452301", "48 b8 00f0ffffffff7f00", "runtime_ptr_X", "", CauseConstant},
	{"another constant", "48 b8 efcdab8967452301", "48 b8 00f0ffffffff7f01", "runtime_ptr_X", "", 0},
	{"static key", "0f 1f 44 00 00", "e9 {+32}", "__jump_table", "", CauseStaticKey},
	{"static key off", "e9 {+32}", "0f 1f 44 00 00", "__jump_table", "", CauseStaticKey},
	{"short static key", "eb 1e", "66 90", "__jump_table", "", CauseStaticKey},
	{"static key elsewhere", "0f 1f 44 00 00", "e9 {+36}", "__jump_table", "", 0},
	{"static call", "e8 {__SCT__op}", "e8 {native_op}", ".static_call_sites", "", CauseStaticCall},
	{"static call of what no static call has", "e8 {__SCT__op}", "e8 {other_op}", ".static_call_sites", "", 0},
	{"ftrace", "e8 {__fentry__}", "0f 1f 44 00 00", "__mcount_loc", "", CauseFtrace},
	{"traced", "e8 {__fentry__}", "e8 {ftrace_caller}", "__mcount_loc", "", CauseFtrace},
	{"traced by a BPF program", "e8 {__fentry__}", "e8 {bpf_trampoline_7}", "__mcount_loc", "", CauseFtrace},
	{"by one with a jump", "e8 {__fentry__}", "e9 {bpf_trampoline_7}", "__mcount_loc", "", CauseFtrace},
	{"a jump that no tracer makes", "e8 {__fentry__}", "e9 {ftrace_caller}", "__mcount_loc", "", 0},
	{"hooked", "e8 {__fentry__}", "e9 {native_op}", "__mcount_loc", "", 0},
	{"moved address", "48 c7 c0 {@native_op}", "48 c7 c0 {@native_op}", "", "", 0},
	{"a trap", "55", "cc", "", "", 0},
}

// startFunctions are those that the places lead to, by their offset in text.
var startFunctions = []string{"_stext", "native_op", "other_op", "pv_ops", "__x86_indirect_thunk_rax", "__x86_indirect_thunk_r11",
	"__x86_return_thunk", "srso_return_thunk", "counted", "__SCT__op", "__fentry__", "ftrace_caller"}

const startCaseAt, startCaseSize = 0x1000, 64

// startKernel makes the recording of a kernel and the file that it was linked to.
// lists says whether the file says which words move.
func startKernel(t *testing.T, lists bool) (*replay.Replay, []byte) {
	t.Helper()
	le := binary.LittleEndian
	lo := uint64(genperf.LinkedText + startMoved)
	size := startCaseAt + startCaseSize*(len(startCases)+1)
	size = (size + 0xfff) &^ 0xfff
	memory, file := bytes.Repeat([]byte{0x90}, size), bytes.Repeat([]byte{0x90}, size)
	offsets := make(map[string]uint64)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: le, Addr: lo, CPUs: 1}
	symbol := func(name string, off uint64) {
		offsets[name] = off
		k.Symbols = append(k.Symbols, kcore.ELFSymbol{Name: name, Addr: lo + off, Size: 32, Type: elf.STT_FUNC})
	}
	for i, name := range startFunctions {
		symbol(name, uint64(i)*64)
		for _, b := range [][]byte{memory, file} {
			copy(b[i*64:], "\x55\x48\x89\xe5\x5d\xc3")
		}
	}
	const trampolineAt = 0x1000000 // from the start of text
	offsets["bpf_trampoline_7"] = trampolineAt
	copy(memory[offsets["counted"]-16:], "\x65\x48\xc1\x3d\x00\x00\x00\x00\x05") // sarq $5, %gs:...
	stub := offsets["__SCT__op"]
	file[stub], memory[stub] = 0xe9, 0xe9
	le.PutUint32(file[stub+1:], uint32(offsets["other_op"]-stub-5))
	le.PutUint32(memory[stub+1:], uint32(offsets["native_op"]-stub-5))

	var moved [3][]uint64
	// code assembles instructions at place, which is relative to text; base is where text
	// begins. It adds the absolute addresses to list.
	code := func(text string, base, place uint64, list *[]uint64) []byte {
		var out []byte
		for part := range strings.FieldsSeq(text) {
			name, isWord := strings.CutPrefix(part, "{")
			if !isWord {
				b, err := hex.DecodeString(part)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				out = append(out, b...)
				continue
			}
			name = strings.TrimSuffix(name, "}")
			from := place + uint64(len(out)) + 4
			abs, isAbs := strings.CutPrefix(name, "@")
			var n int64
			var to uint64
			if i := strings.IndexAny(abs, "+-"); i >= 0 {
				var err error
				if n, err = strconv.ParseInt(abs[i:], 10, 64); err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				abs = abs[:i]
			}
			switch to = offsets[abs]; {
			case isAbs:
				if list != nil {
					*list = append(*list, genperf.LinkedText+place+uint64(len(out)))
				}
				to += base
				from = 0
			case abs == "":
				to = place
			}
			out = le.AppendUint32(out, uint32(to+uint64(n)-from))
		}
		return out
	}
	sections := map[string][]byte{}
	const listsAt = 0x100000 // from the start of text; each has 64 KiB
	names := []string{".altinstructions", ".altinstr_replacement", ".parainstructions", ".retpoline_sites", ".return_sites", ".call_sites",
		".smp_locks", ".ibt_endbr_seal", "runtime_ptr_X", "__jump_table", ".static_call_sites", "__mcount_loc"}
	at := func(name string) uint64 {
		return listsAt + uint64(slices.Index(names, name))<<16
	}
	rel := func(name string, to uint64) {
		sections[name] = le.AppendUint32(sections[name], uint32(to-at(name)-uint64(len(sections[name]))))
	}
	// The first operand of the runtime constant.
	copy(file[startCaseAt-64:], "\xef\xcd\xab\x89\x67\x45\x23\x01")
	copy(memory[startCaseAt-64:], "\x00\xf0\xff\xff\xff\xff\x7f\x00")
	rel("runtime_ptr_X", startCaseAt-64)
	for i := range startCases {
		x := &startCases[i]
		place := uint64(startCaseAt + i*startCaseSize)
		symbol(fmt.Sprintf("case_%d", i), place)
		offsets["self"] = place
		was, is := code(x.was, genperf.LinkedText, place, &moved[2]), code(x.is, lo, place, nil)
		copy(file[place:], was)
		copy(memory[place:], is)
		switch x.site {
		case "":
		case ".altinstructions":
			repl := code(x.repl, 0, at(".altinstr_replacement")+uint64(len(sections[".altinstr_replacement"])), nil)
			rel(x.site, place)
			rel(x.site, at(".altinstr_replacement")+uint64(len(sections[".altinstr_replacement"])))
			sections[".altinstr_replacement"] = append(sections[".altinstr_replacement"], repl...)
			sections[x.site] = append(sections[x.site], 1, 0, byte(len(was)), byte(len(repl)))
		case ".parainstructions":
			moved[0] = append(moved[0], genperf.LinkedText+at(x.site)+uint64(len(sections[x.site])))
			sections[x.site] = le.AppendUint64(sections[x.site], genperf.LinkedText+place)
			sections[x.site] = append(sections[x.site], 0, byte(len(was)), 0, 0, 0, 0, 0, 0)
		case "runtime_ptr_X":
			rel(x.site, place+2)
		case "__jump_table":
			rel(x.site, place)
			rel(x.site, place+32)
			sections[x.site] = append(sections[x.site], make([]byte, 8)...)
		case ".static_call_sites":
			rel(x.site, place)
			rel(x.site, 0)
		case "__mcount_loc":
			sections[x.site] = le.AppendUint64(sections[x.site], genperf.LinkedText+place)
		default:
			rel(x.site, place)
		}
	}
	symbol("_etext", uint64(size))
	for name, bounds := range map[string][2]string{"__jump_table": {"__start___jump_table", "__stop___jump_table"},
		".static_call_sites": {"__start_static_call_sites", "__stop_static_call_sites"},
		"__mcount_loc":       {"__start_mcount_loc", "__stop_mcount_loc"}} {
		k.Symbols = append(k.Symbols, kcore.ELFSymbol{Name: bounds[0], Addr: lo + at(name), Type: elf.STT_OBJECT},
			kcore.ELFSymbol{Name: bounds[1], Addr: lo + at(name) + uint64(len(sections[name])), Type: elf.STT_OBJECT})
	}
	slices.SortStableFunc(k.Symbols, func(a, b kcore.ELFSymbol) int { return cmp.Compare(a.Addr, b.Addr) })
	k.Text = memory
	dir := filepath.Join(t.TempDir(), "rec.data")
	rec, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	rec.KSymbol(&perfdata.KSymbol{Addr: lo + trampolineAt, Len: 4096, Kind: perfdata.KSymbolBPF, Name: []byte("bpf_trampoline_7"), SampleID: rec.ID(0, 0, 0)})
	if err := rec.End(genperf.Copied + 1e9); err != nil {
		t.Fatal(err)
	}
	r, err := replay.Load(dir, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	all := []genperf.KernelSection{{Name: ".text", Addr: genperf.LinkedText, Code: true, Data: file}}
	for _, name := range names {
		all = append(all, genperf.KernelSection{Name: name, Addr: genperf.LinkedText + at(name), Data: sections[name]})
	}
	if !lists {
		return r, genperf.KernelFile(elf.EM_X86_64, all, nil)
	}
	return r, genperf.KernelFile(elf.EM_X86_64, all, &moved)
}

// TestStart: of each place that differs from the file, either a mechanism explains it, or
// it is a finding.
func TestStart(t *testing.T) {
	r, file := startKernel(t, true)
	tables, err := ReadTables(r, bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewClassifier(r, tables).CompareStart(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[int][]Violation)
	lo, _ := r.Image.Text()
	for _, v := range s.violations {
		if v.Addr < lo+startCaseAt {
			t.Errorf("a finding at %#x: % x -> % x", v.Addr-lo, v.Old, v.New)
			continue
		}
		i := int(v.Addr-lo-startCaseAt) / startCaseSize
		found[i] = append(found[i], v)
	}
	var want [numCauses]bool
	for i, x := range startCases {
		finding := x.want == 0 && x.was != x.is
		if got := len(found[i]) > 0; got != finding {
			t.Errorf("%s: found %v, want a finding: %v", x.name, found[i], finding)
		}
		want[x.want] = true
	}
	for c := CauseAlternative; c < numCauses; c++ {
		if got := s.By[c] > 0; got != want[c] && c != CauseCallDepth {
			t.Errorf("%v explains %d bytes, want some: %v", c, s.By[c], want[c])
		}
	}
	if s.Compared == 0 || s.Differing == 0 || s.Missing != 0 {
		t.Errorf("%+v", s)
	}
	// They are a part of the audit.
	a := NewClassifier(r, tables).Audit(s)
	if a.Unaccounted != s.runs || a.Start != s || a.Violations[0].Fault != NotAsLinked {
		t.Errorf("an audit with %d findings, of %d", a.Unaccounted, s.runs)
	}
}

// TestStartMoved: a file that does not say which words move is compared all the same.
func TestStartMoved(t *testing.T) {
	r, file := startKernel(t, false)
	s, err := NewClassifier(r, nil).CompareStart(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if s.By[CauseMoved] == 0 || s.By[CauseParavirt] == 0 {
		t.Errorf("moved addresses explain %d bytes, paravirt %d", s.By[CauseMoved], s.By[CauseParavirt])
	}
	lo, _ := r.Image.Text()
	for i, x := range startCases {
		for _, v := range s.violations {
			if x.name == "moved address" && (v.Addr-lo-startCaseAt)/startCaseSize == uint64(i) {
				t.Errorf("%s: % x -> % x", x.name, v.Old, v.New)
			}
		}
	}
}

// TestStartDamaged: damaged files are errors or findings, and other architectures are not
// compared.
func TestStartDamaged(t *testing.T) {
	r, file := startKernel(t, true)
	c := NewClassifier(r, nil)
	for n := 0; n < len(file); n += 1 + n/64 {
		c.CompareStart(bytes.NewReader(file[:n])) // must return
		damaged := bytes.Clone(file)
		damaged[n] ^= 0xff
		c.CompareStart(bytes.NewReader(damaged))
	}
	arm := load(t, filepath.Join(corpus.Root(), "testdata", "arm64"))
	if _, err := NewClassifier(arm, nil).CompareStart(bytes.NewReader(file)); !errors.Is(err, disasm.ErrUnsupportedArch) {
		t.Errorf("arm64: %v", err)
	}
}

// TestRealStart compares recordings with the real kernel's file. See realVmlinux.
func TestRealStart(t *testing.T) {
	f := realVmlinux(t)
	for _, rec := range []string{"x86_64/rich", "x86_64/uponline", "x86_64/modfull"} {
		r := load(t, corpus.Large(t, rec))
		tables, err := ReadTables(r, f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewClassifier(r, tables).CompareStart(f)
		if err != nil {
			t.Fatal(err)
		}
		if s.Compared < 14<<20 || s.Differing < 400000 || s.Unexplained != 0 || s.By[CauseMoved] != 0 {
			t.Errorf("%s: %+v", rec, s)
		}
	}
}
