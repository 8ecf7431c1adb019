// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// Places of a made-up powerpc kernel.
const (
	ppcText     = 0xc000000000010000
	ppcEntry    = ppcText + 0x10  // the three words of an interrupt's entry
	ppcFlusher  = ppcText + 0x100 // entry_flush_fallback
	ppcRFI      = ppcText + 0x140
	ppcUser     = ppcText + 0x180 // do_uaccess_flush
	ppcMasked   = ppcText + 0x200 // where the code of entries ends
	ppcReturn   = ppcText + 0x300 // a return from an interrupt
	ppcExit     = ppcText + 0x340
	ppcVFSRead  = ppcText + 0x400
	ppcVFSWrite = ppcText + 0x440 // compiled by GCC 5
	ppcStoring  = ppcText + 0x4c0 // the same, and the store is kept
	ppcRenamed  = ppcText + 0x480 // with a stub out of line
	ppcSchedule = ppcText + 0x500
	ppcCaller   = ppcText + 0x600 // ftrace_caller
	ppcProbed   = ppcText + 0x700
	ppcEvil     = ppcText + 0x800
	ppcCallback = ppcText + 0x900 // optimized_callback
	ppcEmulate  = ppcText + 0x940
	ppcTemplate = ppcText + 0xa00
	ppcSlots    = ppcText + 0x1000 // optinsn_slot
	ppcOOL      = ppcText + 0x2000 // ftrace_ool_stub_text
	ppcModule   = 0xc008000000900000
	ppcInsnPage = 0xc008000000000000

	ppcNOP  = 0x60000000
	ppcTrap = 0x7fe00008
	ppcMFLR = 0x7c0802a6
	ppcSTD  = 0xfbe1fff8 // std r31,-8(r1)
	ppcRFID = 0x4c000024
)

func ppcBL(from, to uint64) uint32 { return ppcB(from, to) | 1 }
func ppcB(from, to uint64) uint32  { return 0x48000000 | uint32(to-from)&0x03fffffc }

// A wordPoke is a change of one word.
type wordPoke struct {
	addr     uint64 // with long: the two are addresses of the kernel, of eight bytes, or 0
	old, new uint32
}

// long says that a change is of eight bytes.
const long = 1

// ppcRecord writes a recording of these changes, a millisecond apart, and reads it.
func ppcRecord(t *testing.T, order genperf.ByteOrder, pokes []wordPoke) *replay.Replay {
	t.Helper()
	text := make([]byte, 0x3000)
	for i := 0; i < len(text); i += 4 {
		order.PutUint32(text[i:], ppcNOP)
	}
	var symbols []kcore.ELFSymbol
	function := func(addr uint64, name string, words ...uint32) {
		symbols = append(symbols, kcore.ELFSymbol{Name: name, Addr: addr})
		for i, w := range words {
			order.PutUint32(text[addr-ppcText+uint64(4*i):], w)
		}
	}
	const blr, addis, addi = ppcBLR, 0x3c4c0133, 0x38420000
	function(ppcText, "exc_real_0x100_system_reset", 0, 0, 0, 0, ppcMFLR10, ppcBL(ppcEntry+4, ppcFlusher), ppcMTLR10)
	function(ppcFlusher, "entry_flush_fallback", blr)
	function(ppcRFI, "rfi_flush_fallback", blr)
	function(ppcUser, "do_uaccess_flush", ppcNOP, ppcNOP, ppcNOP, blr)
	function(ppcMasked, "__end_soft_masked", blr)
	function(ppcReturn, "fast_interrupt_return_srr", ppcNOP, ppcNOP, ppcNOP, ppcRFID, ppcB(ppcReturn+16, ppcRFI))
	function(ppcExit, "interrupt_return_hsrr_user", blr, ppcNOP, ppcNOP, ppcNOP, ppcNOP, ppcNOP, ppcNOP, blr)
	function(ppcVFSRead, "vfs_read", addis, addi, ppcMFLR, ppcNOP, ppcSTD, blr)
	function(ppcVFSWrite, "vfs_write", addis, addi, ppcMFLR, ppcNOP, ppcNOP, blr)
	function(ppcRenamed, "do_renameat2", ppcNOP, ppcSTD, blr)
	function(ppcStoring, "ksys_read", ppcMFLR, ppcSaveLink, ppcNOP, blr)
	function(ppcSchedule, "schedule", ppcNOP, ppcNOP, ppcNOP, ppcNOP, blr)
	function(ppcCaller, "ftrace_caller", blr, ppcNOP)
	function(ppcCaller+0x40, "ftrace_regs_caller", blr)
	function(ppcProbed, "probed", ppcSTD, ppcB(ppcProbed+4, ppcProbed+12), ppcNOP, blr)
	function(ppcEvil, "evil", blr)
	function(ppcCallback, "optimized_callback", addis, addi, blr)
	function(ppcEmulate, "emulate_step", addis, addi, blr)
	function(ppcTemplate, "optprobe_template_entry", 0x7c0802a6, 0xf8210000)
	function(ppcTemplate+8, "optprobe_template_op_address")
	function(ppcTemplate+28, "optprobe_template_call_handler")
	function(ppcTemplate+32, "optprobe_template_insn")
	function(ppcTemplate+52, "optprobe_template_call_emulate")
	function(ppcTemplate+56, "optprobe_template_ret")
	function(ppcTemplate+60, "optprobe_template_end", blr)
	function(ppcSlots, "optinsn_slot")
	function(ppcOOL, "ftrace_ool_stub_text", ppcMFLR, ppcNOP, ppcMTLR, ppcB(ppcOOL+12, ppcRenamed+4), ppcMFLR, ppcNOP, ppcMTLR, ppcB(ppcOOL+28, ppcEvil+4))
	function(ppcOOL+0x40, "ftrace_ool_stub_text_end", 0x123450, 0xc0000000, ppcMFLR, ppcNOP, ppcMTLR, ppcB(ppcOOL+0x54, ppcSchedule+4)) // with a pointer in front
	function(ppcOOL+0x80, "last", blr)
	arch := "ppc64le"
	if order.Uint16([]byte{0, 1}) == 1 {
		arch = "ppc64"
	}
	slices.SortFunc(symbols, func(a, b kcore.ELFSymbol) int { return int(int64(a.Addr) - int64(b.Addr)) })
	return recordWords(t, &genperf.Kernel{Machine: elf.EM_PPC64, Arch: arch, Release: "6.12.0", Order: order, Addr: ppcText, Text: text, Symbols: symbols, CPUs: 2}, ppcInsnPage, pokes)
}

// recordWords writes a recording of these changes of a kernel, and of a page of kprobes' slots, and
// reads it.
func recordWords(t *testing.T, k *genperf.Kernel, page uint64, pokes []wordPoke) *replay.Replay {
	t.Helper()
	order := k.Order
	dir := filepath.Join(t.TempDir(), "rec.data")
	r, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	const ms = 1_000_000
	r.KSymbol(&perfdata.KSymbol{Addr: page, Len: 0x1000, Kind: perfdata.KSymbolOOL, Name: []byte("kprobe_insn_page"), SampleID: r.ID(1900*ms, 0, 100)})
	for i, p := range pokes {
		old, new := order.AppendUint32(nil, p.old), order.AppendUint32(nil, p.new)
		addr := p.addr &^ long
		if addr != p.addr {
			old, new = order.AppendUint64(nil, kernelAddress(p.old)), order.AppendUint64(nil, kernelAddress(p.new))
		}
		if err := r.Poke((2000+uint64(i))*ms, addr, old, new); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.End(6000 * ms); err != nil {
		t.Fatal(err)
	}
	rp, err := replay.Load(dir, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rp.Close() })
	return rp
}

// kernelAddress returns the address of the kernel with these low bits; 0 if they are 0.
func kernelAddress(low uint32) uint64 {
	if low == 0 {
		return 0
	}
	return 0xc000000000000000 | uint64(low)
}

// ppcStubOf are the changes by which the loader makes a stub of a module.
func ppcStubOf(stub, target uint64) []wordPoke {
	lo, hi := uint32(target), uint32(target>>32)
	return []wordPoke{
		{stub, 0, 0x3d620000}, {stub + 4, 0, 0x396b0000}, {stub + 8, 0, 0xf8410018}, {stub + 12, 0, 0xe98b0020}, {stub + 16, 0, 0x7d8903a6}, {stub + 20, 0, 0x4e800420},
		{stub, 0x3d620000, 0x3d620001}, {stub + 4, 0x396b0000, 0x396b7a00}, {stub + 32, 0, lo}, {stub + 36, 0, hi}, {stub + 28, 0, ppcStubMagic},
	}
}

// ppcSlotOf are the changes that make the slot of an optimised kprobe.
func ppcSlotOf(slot uint64) []wordPoke {
	pokes := []wordPoke{{slot, ppcNOP, 0x7c0802a6}, {slot + 4, ppcNOP, 0xf8210000}}
	load := func(at uint64, reg uint32) {
		for i, w := range []uint32{0x3c000000 | reg<<21 | 0xc000, 0x60000000 | reg<<21 | reg<<16, 0x780007c6 | reg<<21 | reg<<16, 0x64000000 | reg<<21 | reg<<16 | 0x1234, 0x60000000 | reg<<21 | reg<<16 | 0x5678} {
			pokes = append(pokes, wordPoke{at + uint64(4*i), ppcNOP, w})
		}
	}
	load(slot+8, 3)
	pokes = append(pokes, wordPoke{slot + 28, ppcNOP, ppcBL(slot+28, ppcCallback+8)}, wordPoke{slot + 52, ppcNOP, ppcBL(slot+52, ppcEmulate+8)})
	load(slot+32, 4)
	return append(pokes, wordPoke{slot + 56, ppcNOP, ppcB(slot+56, ppcProbed+4)})
}

// TestPowerpc: what powerpc's kernels do is accounted for, and what they never do is not. Each case
// is audited as it is, and then with one change that writes other bytes.
func TestPowerpc(t *testing.T) {
	const slot = ppcInsnPage + 8
	type bad struct {
		what  string
		i     int // the change that is another one
		to    wordPoke
		fault Fault
		found int // the change that is a finding; 0: that one
		// excused: another change contradicts it, and others may be missing. No recording that a
		// test makes up says that powerpc's kernel records all changes.
		excused bool
	}
	for _, tt := range []struct {
		name  string
		pokes []wordPoke
		want  string
		bad   []bad
	}{
		{"entry_flush is switched off", []wordPoke{
			{ppcEntry + 4, ppcBL(ppcEntry+4, ppcFlusher), ppcNOP}, {ppcEntry + 8, ppcMTLR10, ppcNOP}, {ppcEntry, ppcMFLR10, ppcNOP},
		}, "feature-fixup:3", []bad{
			{"another word", 2, wordPoke{ppcEntry, ppcMFLR10, ppcSTD}, NoForm, 0, false},
			{"a call of another function", 0, wordPoke{ppcEntry + 4, ppcBL(ppcEntry+4, ppcFlusher), ppcBL(ppcEntry+4, ppcEvil)}, NotEntry, 0, false},
			{"into the middle of the fallback", 0, wordPoke{ppcEntry + 4, ppcBL(ppcEntry+4, ppcFlusher), ppcBL(ppcEntry+4, ppcFlusher+4)}, NotEntry, 0, false},
		}},
		{"entry_flush writes its NOPs again, and others", []wordPoke{
			{ppcSchedule, ppcNOP, ppcNOP}, {ppcSchedule, ppcNOP, ppcBarrier}, {ppcSchedule, ppcBarrier, ppcNOP},
		}, "feature-fixup:3", []bad{
			{"an instruction that is nobody's", 1, wordPoke{ppcSchedule, ppcNOP, 0x38600000}, NoForm, 0, false},
			{"beside other code", 1, wordPoke{ppcVFSRead + 12, ppcNOP, ppcFlush}, NoForm, 0, false},
			{"what only entries have", 1, wordPoke{ppcSchedule, ppcNOP, ppcMFLR10}, NoForm, 0, false},
		}},
		{"rfi_flush is switched on, with the fallback and without", []wordPoke{
			{ppcReturn, ppcNOP, ppcOverFlush}, {ppcReturn, ppcOverFlush, ppcBarrier}, {ppcReturn + 4, ppcNOP, ppcFlush}, {ppcReturn + 8, ppcNOP, ppcFlushTrigger},
		}, "feature-fixup:4", []bad{
			{"a word that is not at this place", 3, wordPoke{ppcReturn + 8, ppcNOP, ppcMFLR10}, NoForm, 0, false},
			{"a call over another one", 1, wordPoke{ppcReturn, ppcOverFlush, ppcBL(ppcReturn, ppcEvil)}, NoForm, 0, false},
		}},
		{"uaccess_flush", []wordPoke{{ppcUser + 12, ppcBLR, ppcNOP}, {ppcUser, ppcNOP, ppcBarrier}, {ppcUser + 4, ppcNOP, ppcFlush}}, "feature-fixup:3", []bad{
			{"elsewhere", 0, wordPoke{ppcSchedule + 16, ppcBLR, ppcNOP}, NoForm, 0, false},
		}},
		{"stf_barrier on the way out", []wordPoke{
			{ppcExit + 4, ppcNOP, 0x7db14ba6}, {ppcExit + 8, ppcNOP, 0x7db04aa6}, {ppcExit + 12, ppcNOP, ppcSync},
			{ppcExit + 16, ppcNOP, ppcLoadPACA13}, {ppcExit + 20, ppcNOP, ppcBarrier}, {ppcExit + 24, ppcNOP, 0x7db14aa6},
		}, "feature-fixup:6", []bad{
			{"a load from another place", 3, wordPoke{ppcExit + 16, ppcNOP, ppcLoadPACA13 | 8}, NoForm, 0, false},
			{"beside it", 3, wordPoke{ppcExit + 12, ppcSync, ppcLoadPACA13}, NoForm, 0, false},
		}},
		{"a function is traced", []wordPoke{
			{ppcVFSRead + 12, ppcNOP, ppcBL(ppcVFSRead+12, ppcCaller)}, {ppcVFSRead + 12, ppcBL(ppcVFSRead+12, ppcCaller), ppcNOP},
			{ppcVFSWrite + 16, ppcNOP, ppcBL(ppcVFSWrite+16, ppcCaller+0x40)},
			{ppcStoring + 8, ppcNOP, ppcBL(ppcStoring+8, ppcCaller)},
		}, "ftrace:4", []bad{
			{"it calls another function", 0, wordPoke{ppcVFSRead + 12, ppcNOP, ppcBL(ppcVFSRead+12, ppcEvil)}, WrongTarget, 0, false},
			{"it calls the middle of ftrace's", 0, wordPoke{ppcVFSRead + 12, ppcNOP, ppcBL(ppcVFSRead+12, ppcCaller+4)}, WrongTarget, 0, false},
			{"a call inside a function", 0, wordPoke{ppcSchedule + 4, ppcNOP, ppcBL(ppcSchedule+4, ppcCaller)}, NotEntry, 0, false},
		}},
		{"a function is traced, with a stub out of line", []wordPoke{
			{ppcOOL + 4, ppcNOP, ppcBL(ppcOOL+4, ppcCaller)}, {ppcRenamed, ppcNOP, ppcB(ppcRenamed, ppcOOL)}, {ppcRenamed, ppcB(ppcRenamed, ppcOOL), ppcNOP},
		}, "ftrace:3", []bad{
			{"by the stub of another one", 1, wordPoke{ppcRenamed, ppcNOP, ppcB(ppcRenamed, ppcOOL+16)}, WrongTarget, 0, false},
			{"by no stub", 1, wordPoke{ppcRenamed, ppcNOP, ppcB(ppcRenamed, ppcEvil)}, WrongTarget, 0, false},
		}},
		{"the pointer in front of such a stub", []wordPoke{
			{ppcOOL + 0x40 + long, 0x123450, 0x123458}, {ppcModule + 0x700 + long, 0, 0x123450},
		}, "ftrace:2", []bad{
			{"no address of the kernel's", 0, wordPoke{ppcOOL + 0x40, 0x123450, 0x123458}, NoForm, 0, false},
			{"in front of other code", 0, wordPoke{ppcRenamed - 8 + long, 0x123450, 0x123458}, NoForm, 0, false},
			{"one of a module that had another value", 1, wordPoke{ppcModule + 0x700 + long, 0x123458, 0x123450}, NoForm, 0, false},
		}},
		{"the locks of a module that is loaded, and stubs that ftrace will use", []wordPoke{
			{ppcModule + 0x40, ppcISync, ppcLWSync}, {ppcModule + 0x620, 0, ppcNOP},
		}, "feature-fixup:1 relocation:1", []bad{
			{"the lock of a function of the kernel", 0, wordPoke{ppcSchedule, ppcISync, ppcLWSync}, NoForm, 0, false},
			{"no barrier is left", 0, wordPoke{ppcModule + 0x40, ppcISync, ppcNOP}, NoForm, 0, false},
			{"no data of a stub", 1, wordPoke{ppcModule + 0x624, 0, ppcNOP}, NoForm, 0, false},
			{"another word", 1, wordPoke{ppcModule + 0x620, 0, ppcTrap - 1}, NoForm, 0, false},
		}},
		{"the stub of a module of a kernel without r2", []wordPoke{
			{ppcModule + 0x600, 0, 0x06100000}, {ppcModule + 0x604, 0, 0x39800000}, {ppcModule + 0x608, 0, 0x7d8903a6}, {ppcModule + 0x60c, 0, 0x4e800420},
			{ppcModule + 0x600, 0x06100000, 0x0613f700}, {ppcModule + 0x604, 0x39800000, 0x3980fe00},
			{ppcModule + 0x620, 0, uint32(ppcVFSRead & 0xffffffff)}, {ppcModule + 0x624, 0, uint32(ppcVFSRead >> 32)}, {ppcModule + 0x61c, 0, ppcStubMagic},
		}, "relocation:9", []bad{
			{"another word of the stub", 2, wordPoke{ppcModule + 0x608, 0, 0x7d8803a6}, NoForm, 0, false},
			{"more than its offset", 4, wordPoke{ppcModule + 0x600, 0x06100000, 0x06300000}, NoForm, 0, false},
			{"into the middle of a function", 6, wordPoke{ppcModule + 0x620, 0, uint32(ppcVFSRead&0xffffffff) + 8}, WrongTarget, 8, false},
		}},
		{"the store of GCC 5 is removed", []wordPoke{{ppcModule + 0x24, ppcSaveLink, ppcNOP}, {ppcModule + 0x28, ppcBL(ppcModule+0x28, ppcModule+0x600), ppcNOP}}, "ftrace:2", []bad{
			{"that of another function", 0, wordPoke{ppcSchedule + 4, ppcSaveLink, ppcNOP}, NoForm, 0, false},
		}},
		{"a static key", []wordPoke{{ppcSchedule, ppcNOP, ppcB(ppcSchedule, ppcSchedule+16)}, {ppcSchedule, ppcB(ppcSchedule, ppcSchedule+16), ppcNOP}}, "static-key:2", []bad{
			{"into another function", 0, wordPoke{ppcSchedule, ppcNOP, ppcB(ppcSchedule, ppcEvil)}, WrongTarget, 0, false},
		}},
		{"a kprobe", []wordPoke{
			{slot, 0, ppcSTD}, {ppcProbed, ppcSTD, ppcTrap}, {ppcProbed, ppcTrap, ppcSTD}, {slot, ppcSTD, ppcNOP},
		}, "kprobe:4", []bad{
			{"its slot is changed while it is armed", 2, wordPoke{slot, ppcSTD, ppcNOP}, SlotChanged, 0, true},
			{"its slot holds a return from an interrupt", 0, wordPoke{slot, 0, ppcRFID}, SlotChanged, 0, false},
			{"another instruction is left", 2, wordPoke{ppcProbed, ppcTrap, ppcNOP}, NoForm, 0, true},
			{"a branch is left", 2, wordPoke{ppcProbed, ppcTrap, ppcB(ppcProbed, ppcEvil)}, NoForm, 0, true},
		}},
		{"a kprobe on a branch", []wordPoke{
			{slot, 0, ppcB(ppcProbed+4, ppcProbed+12)}, {ppcProbed + 4, ppcB(ppcProbed+4, ppcProbed+12), ppcTrap}, {ppcProbed + 4, ppcTrap, ppcB(ppcProbed+4, ppcProbed+12)},
		}, "kprobe:3", []bad{
			{"another branch is left", 2, wordPoke{ppcProbed + 4, ppcTrap, ppcB(ppcProbed+4, ppcEvil)}, NoForm, 0, true},
		}},
		{"an optimised kprobe", append(append([]wordPoke{{slot, 0, ppcSTD}, {ppcProbed, ppcSTD, ppcTrap}}, ppcSlotOf(ppcSlots+60)...),
			wordPoke{ppcProbed, ppcTrap, ppcB(ppcProbed, ppcSlots+60)}, wordPoke{ppcProbed, ppcB(ppcProbed, ppcSlots+60), ppcTrap}, wordPoke{ppcProbed, ppcTrap, ppcSTD},
		), "kprobe:3 optimised-kprobe:17", []bad{
			{"another word of the template", 3, wordPoke{ppcSlots + 64, ppcNOP, 0xf8210008}, SlotChanged, 0, false},
			{"a load into another register", 4, wordPoke{ppcSlots + 68, ppcNOP, 0x3ca0c000}, SlotChanged, 0, false},
			{"another handler", 9, wordPoke{ppcSlots + 88, ppcNOP, ppcBL(ppcSlots+88, ppcEvil)}, SlotChanged, 0, false},
			{"a return to a module", 16, wordPoke{ppcSlots + 116, ppcNOP, ppcB(ppcSlots+116, ppcText-0x1000)}, SlotChanged, 0, false},
		}},
		{"a module is loaded", slices.Concat([]wordPoke{{ppcModule + 0x40, ppcCallOfItself, ppcBL(ppcModule+0x40, ppcModule+0x100)}, {ppcModule + 0x48, ppcBranchToItself, ppcB(ppcModule+0x48, ppcModule+0x100)}},
			ppcStubOf(ppcModule+0x600, ppcVFSRead),
			[]wordPoke{{ppcModule + 0x84, ppcNOP, 0xe8410018}, {ppcModule + 0x80, ppcCallOfItself, ppcBL(ppcModule+0x80, ppcModule+0x600)},
				{ppcModule + 0x40, ppcBL(ppcModule+0x40, ppcModule+0x100), ppcNOP}}), // of _mcount
			"ftrace:1 relocation:15", []bad{
				{"a call of the kernel's text", 0, wordPoke{ppcText - 0x1000, ppcCallOfItself, ppcBL(ppcText-0x1000, ppcEvil)}, WrongTarget, 0, false},
				{"a call that becomes a branch", 0, wordPoke{ppcModule + 0x40, ppcCallOfItself, ppcB(ppcModule+0x40, ppcModule+0x100)}, NoForm, 0, false},
				{"a call that gets no target", 0, wordPoke{ppcModule + 0x40, ppcCallOfItself, ppcNOP}, NoForm, 0, false},
				{"a load of r2 behind a call of the module", 13, wordPoke{ppcModule + 0x44, ppcNOP, 0xe8410018}, NoForm, 0, false},
				{"a stub that is changed again", 14, wordPoke{ppcModule + 0x600, 0x3d620001, 0x3d620005}, NoForm, 0, false},
				{"a call that had a target", 14, wordPoke{ppcModule + 0x80, ppcBL(ppcModule+0x80, ppcModule+0x500), 0x38600000}, NoForm, 0, false},
				{"a load of r2 behind such a call", 14, wordPoke{ppcModule + 0x80, ppcBL(ppcModule+0x80, ppcModule+0x500), ppcBL(ppcModule+0x80, ppcModule+0x600)}, NoForm, 13, true},
				{"another word of the stub", 5, wordPoke{ppcModule + 0x60c, 0, 0xe98b0028}, NoForm, 0, false},
				{"another half of the stub", 8, wordPoke{ppcModule + 0x600, 0x3d620000, 0x3d820001}, NoForm, 0, false},
				{"into the middle of a function", 10, wordPoke{ppcModule + 0x620, 0, uint32(ppcVFSRead&0xffffffff) + 8}, WrongTarget, 12, false},
				{"without magic", 12, wordPoke{ppcModule + 0x61c, 0, ppcStubMagic + 1}, NoForm, 0, false},
				{"a load of r2 behind another instruction", 14, wordPoke{ppcModule + 0x90, ppcCallOfItself, ppcBL(ppcModule+0x90, ppcModule+0x600)}, NoForm, 13, true},
				{"another load", 13, wordPoke{ppcModule + 0x84, ppcNOP, 0xe8410028}, NoForm, 0, false},
			}},
	} {
		r := ppcRecord(t, binary.LittleEndian, tt.pokes)
		c := NewClassifier(r, nil)
		a := c.Audit(nil)
		var by []string
		for m, n := range a.By {
			if n > 0 && Mechanism(m) != Other {
				by = append(by, fmt.Sprintf("%v:%d", Mechanism(m), n))
			}
		}
		slices.Sort(by)
		counted := strings.Join(by, " ")
		want := tt.want
		if a.Unaccounted+a.Excused != 0 || counted != addPage(want) {
			t.Errorf("%s: %s, want %s; %d findings, gaps %v", tt.name, counted, addPage(want), a.Unaccounted, a.Gaps)
			for _, v := range a.Violations {
				t.Logf("  %v at %#x: %x -> %x", v.Fault, v.Addr, v.Old, v.New)
			}
		}
		for change := range r.Changes() {
			if change.Poke == nil {
				continue
			}
			m := c.Of(change)
			if got, lasts := c.Lasting(change); got != m || change.Time < lasts.From || change.Time >= lasts.To {
				t.Errorf("%s: Lasting says %v for %v, Of %v", tt.name, got, lasts, m)
			}
		}
		for _, b := range tt.bad {
			pokes := slices.Clone(tt.pokes)
			pokes[b.i] = b.to
			found := pokes[cmp.Or(b.found, b.i)].addr &^ long
			a := NewClassifier(ppcRecord(t, binary.LittleEndian, pokes), nil).Audit(nil)
			if !slices.ContainsFunc(a.Violations, func(v Violation) bool { return v.Fault == b.fault && v.Addr == found && v.Excused == b.excused }) {
				t.Errorf("%s: %s: no finding %v at %#x", tt.name, b.what, b.fault, found)
				for _, v := range a.Violations {
					t.Logf("  %v at %#x: %x -> %x, excused %v", v.Fault, v.Addr, v.Old, v.New, v.Excused)
				}
			}
		}
	}
}

// TestARM64: on arm64, too, a probe restores what it replaced, its slot is left alone, and the kernel's
// functions call nothing but ftrace.
func TestARM64(t *testing.T) {
	const (
		base   = 0xffff800080010000
		read   = base + 0x100
		evil   = base + 0x200
		caller = base + 0x300
		page   = 0xffff800078000000
		nop    = 0xd503201f
		movx9  = 0xaa1e03e9 // mov x9,x30
		ret    = 0xd65f03c0
		brk4   = 0xd4200080
		brk6   = 0xd42000c0
	)
	bl := func(from, to uint64) uint32 { return 0x94000000 | uint32(to-from)>>2&0x03ffffff }
	text := make([]byte, 0x1000)
	var symbols []kcore.ELFSymbol
	for _, f := range []struct {
		addr  uint64
		name  string
		words []uint32
	}{{base, "primary_entry", []uint32{ret}}, {read, "vfs_read", []uint32{movx9, nop, movx9, ret}}, {evil, "evil", []uint32{ret}}, {caller, "ftrace_caller", []uint32{ret}}} {
		symbols = append(symbols, kcore.ELFSymbol{Name: f.name, Addr: f.addr})
		for i, w := range f.words {
			binary.LittleEndian.PutUint32(text[f.addr-base+uint64(4*i):], w)
		}
	}
	audit := func(pokes []wordPoke) *Audit {
		k := &genperf.Kernel{Machine: elf.EM_AARCH64, Arch: "aarch64", Release: "6.12.0", Order: binary.LittleEndian, Addr: base, Text: text, Symbols: symbols, CPUs: 2}
		return NewClassifier(recordWords(t, k, page, pokes), nil).Audit(nil)
	}
	healthy := []wordPoke{{page, 0, movx9}, {page + 4, 0, brk6}, {read + 8, movx9, brk4}, {read + 8, brk4, movx9},
		{read + 4, nop, bl(read+4, caller)}, {read + 4, bl(read+4, caller), nop}}
	if a := audit(healthy); a.Unaccounted+a.Excused != 0 {
		t.Errorf("findings: %v", a.Violations)
	}
	for _, b := range []struct {
		i     int
		to    wordPoke
		fault Fault
	}{
		{3, wordPoke{read + 8, brk4, nop}, NoForm},
		{3, wordPoke{page, movx9, nop}, SlotChanged},
		{4, wordPoke{read + 4, nop, bl(read+4, evil)}, WrongTarget},
		{4, wordPoke{read + 4, nop, bl(read+4, 0xffff800078800000)}, UnknownCallee},
		{5, wordPoke{read + 4, bl(read+4, caller), movx9}, NoForm},
	} {
		pokes := slices.Clone(healthy)
		pokes[b.i] = b.to
		if a := audit(pokes); !slices.ContainsFunc(a.Violations, func(v Violation) bool { return v.Fault == b.fault && v.Addr == b.to.addr }) {
			t.Errorf("%x -> %x at %#x: no finding %v: %v", b.to.old, b.to.new, b.to.addr, b.fault, a.Violations)
		}
	}
}

// addPage counts the page of slots, which each recording has.
func addPage(want string) string {
	if !strings.Contains(want, "kprobe:") || strings.HasPrefix(want, "optimised") {
		parts := append(strings.Fields(want), "kprobe:1")
		slices.Sort(parts)
		return strings.Join(parts, " ")
	}
	parts := strings.Fields(want)
	for i, p := range parts {
		var n int
		if k, _ := fmt.Sscanf(p, "kprobe:%d", &n); k == 1 {
			parts[i] = fmt.Sprintf("kprobe:%d", n+1)
		}
	}
	return strings.Join(parts, " ")
}

// TestBigEndianStub: on big-endian kernels a stub also loads r2, and r2 is kept elsewhere.
func TestBigEndianStub(t *testing.T) {
	const stub = ppcModule + 0x600
	pokes := []wordPoke{{stub, 0, 0x3d620000}, {stub + 4, 0, 0x396b0000}, {stub + 8, 0, 0xf8410028}, {stub + 12, 0, 0xe98b0020}, {stub + 16, 0, 0xe84b0028}, {stub + 20, 0, 0x7d8903a6},
		{stub + 24, 0, 0x4e800420}, {stub, 0x3d620000, 0x3d62ffff}, {stub + 4, 0x396b0000, 0x396b7a00}}
	for i := range uint64(6) {
		pokes = append(pokes, wordPoke{stub + 32 + 4*i, 0, 0xc0000000 + uint32(i)})
	}
	pokes = append(pokes, wordPoke{stub + 28, 0, ppcStubMagic}, wordPoke{ppcModule + 0x84, ppcNOP, 0xe8410028}, wordPoke{ppcModule + 0x80, ppcCallOfItself, ppcBL(ppcModule+0x80, stub)})
	a := NewClassifier(ppcRecord(t, binary.BigEndian, pokes), nil).Audit(nil)
	if a.Unaccounted+a.Excused != 0 || a.By[Relocation] != uint64(len(pokes)) {
		t.Errorf("%d changes by relocation, want %d; findings %v", a.By[Relocation], len(pokes), a.Violations)
	}
	pokes[4].new = 0xe98b0020 // the word of little-endian kernels
	if a := NewClassifier(ppcRecord(t, binary.BigEndian, pokes), nil).Audit(nil); a.Unaccounted == 0 {
		t.Error("a stub with another word is accounted for")
	}
}

// TestCorpusPowerpc: a real kernel of powerpc has no findings. What its scenario did is counted.
func TestCorpusPowerpc(t *testing.T) {
	a := audited(t, corpus.Large(t, "ppc64le/probe"))
	for m, want := range map[Mechanism]uint64{Ftrace: 73942, Relocation: 306, StaticKey: 230, FeatureFixup: 219, BPFProgram: 24, Kprobe: 12} {
		if a.By[m] != want {
			t.Errorf("%d changes by %v, want %d", a.By[m], m, want)
		}
	}
	if a.By[Other] != 0 {
		t.Errorf("%d changes by none", a.By[Other])
	}
}
