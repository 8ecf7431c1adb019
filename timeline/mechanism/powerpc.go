// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// Words that powerpc's kernels write (arch/powerpc/include/asm/ppc-opcode.h).
const (
	ppcBranchToItself = patching.PowerpcB // what the assembler leaves for a relocation
	ppcCallOfItself   = ppcBranchToItself | patching.PowerpcLink
	ppcBLR            = 0x4e800020
	ppcMTLR           = 0x7c0803a6 // mtlr r0
	ppcSaveLink       = 0xf8010010 // std r0,16(r1)
	ppcMFLR10         = 0x7d4802a6 // mflr r10
	ppcMTLR10         = 0x7d4803a6 // mtlr r10
	ppcBarrier        = 0x63ff0000 // ori r31,r31,0: no speculation past it
	ppcFlush          = 0x63de0000 // ori r30,r30,0: flushes the first-level cache
	ppcFlushTrigger   = 0x7c12dba6 // mtspr TRIG2,r0: the same
	ppcEIEIO          = 0x7e0006ac // eieio with the hint of bit 6
	ppcSync           = 0x7c0004ac
	ppcLoadPACA10     = 0xe94d0000 // ld r10,0(r13)
	ppcLoadPACA13     = 0xe9ad0000 // ld r13,0(r13)
	ppcOverFlush      = 0x48000010 // b +16
	ppcStubMagic      = 0x73747562 // "stub"
	ppcISync          = 0x4c00012c
	ppcLWSync         = 0x7c2004ac
)

// powerpc is byWords for powerpc.
func (c *Classifier) powerpc(p *perfdata.TextPoke, at *place, was, is effect) (Mechanism, Fault) {
	switch {
	case bytes.Equal(p.Old, p.New), c.isFixup(p, at), c.isBarrier(p):
		return FeatureFixup, 0
	case c.isRelocation(p), c.isStubWord(p), c.isReserved(p, at):
		return Relocation, 0
	case leadsToItself(p.Addr, was):
		return Other, NoForm // a relocation keeps the kind of branch
	case isTracing(p.Addr, was, is), isTracing(p.Addr, is, was), c.isSaveRemoved(p), c.isStubOps(p):
		return Ftrace, 0
	case was.kind == nop && is.kind == jump, was.kind == jump && is.kind == nop:
		if c.isOutOfLine(p, was.target|is.target) {
			return Ftrace, 0
		}
		return StaticKey, 0
	}
	return Other, NoForm
}

// leadsToItself reports whether e is a branch at addr to itself.
func leadsToItself(addr uint64, e effect) bool { return e.leads() && e.target == addr }

// isTracing reports whether ftrace may exchange e, at addr, for another instruction: a call for another
// one, for a NOP, or for a branch over the next instruction (functions compiled with -pg), or the mflr
// in front of a call for a NOP.
func isTracing(addr uint64, e, other effect) bool {
	switch e.kind {
	case call:
		return other.kind == call || other.kind == nop || other.kind == jump && other.target == addr+8
	case saveLink:
		return other.kind == nop
	}
	return false
}

// isSaveRemoved reports whether ftrace removes the store of the link register that GCC 5 puts between
// mflr and the call of _mcount (ftrace_init_nop of arch/powerpc/kernel/trace/ftrace.c).
func (c *Classifier) isSaveRemoved(p *perfdata.TextPoke) bool {
	old, new, ok := c.words(p)
	if !ok || old != ppcSaveLink || new != patching.PowerpcNOP {
		return false
	}
	before, known := c.word(p.Addr-4, p.Time)
	return !known || before == patching.PowerpcMFLR
}

// word returns the instruction at addr at time t; false if it is not known.
func (c *Classifier) word(addr, t uint64) (uint32, bool) {
	var code [4]byte
	c.read = true
	if c.r.Image.At(t).Read(addr, code[:]).Given < len(code) {
		return 0, false
	}
	return c.order.Uint32(code[:]), true
}

// words returns the instructions before and after a change; false if it is not of one.
func (c *Classifier) words(p *perfdata.TextPoke) (old, new uint32, ok bool) {
	if len(p.Old) != 4 || len(p.New) != 4 {
		return 0, 0, false
	}
	return c.order.Uint32(p.Old), c.order.Uint32(p.New), true
}

// bytesOf returns a word as the kernel has it in memory.
func (c *Classifier) bytesOf(word uint32) []byte {
	code := make([]byte, 4)
	c.order.PutUint32(code, word)
	return code
}

// inCore reports whether addr is in core kernel text.
func (c *Classifier) inCore(addr uint64) bool { return c.lo <= addr && addr < c.hi }

// A fixup is a place of one of the tables of arch/powerpc/lib/feature-fixups.c. The kernel rewrites
// it when a mitigation is switched (rfi_flush, entry_flush, uaccess_flush, stf_barrier in debugfs;
// barrier_nospec), word by word. So each of its words is at any time one of a few, or a NOP.
type fixup struct {
	words [][]uint32
	// only limits the places where the kernel has it; nil if it is in any text.
	only func(c *Classifier, addr uint64, at *place) bool
}

// ppcFallback is a call of one of the functions that flush the cache in software.
const ppcFallback = ppcCallOfItself

// ppcFixups are do_stf_entry_barrier_fixups with do_entry_flush_fixups, do_rfi_flush_fixups,
// do_uaccess_flush_fixups, do_stf_exit_barrier_fixups and do_barrier_nospec_fixups_range.
var ppcFixups = []fixup{
	{[][]uint32{{ppcMFLR10, ppcBarrier, ppcFlushTrigger, ppcEIEIO, ppcSync}, {ppcFallback, ppcFlush, ppcLoadPACA10},
		{ppcMTLR10, ppcFlushTrigger, ppcBarrier}}, (*Classifier).isInterruptEntry},
	{[][]uint32{{ppcOverFlush, ppcBarrier, ppcFlushTrigger}, {ppcFlush}, {ppcFlushTrigger}}, (*Classifier).isInterruptExit},
	{[][]uint32{{ppcBarrier, ppcFlushTrigger}, {ppcFlush}, {ppcFlushTrigger}, {ppcBLR}}, isUserFlush},
	{[][]uint32{
		{0x7db14ba6, 0x7db243a6, ppcEIEIO}, // mtspr HSPRG1,r13; mtspr SPRG2,r13
		{0x7db04aa6, 0x7db142a6},           // mfspr r13,HSPRG0; mfspr r13,SPRG1
		{ppcSync}, {ppcLoadPACA13}, {ppcBarrier},
		{0x7db14aa6, 0x7db242a6}, // mfspr r13,HSPRG1; mfspr r13,SPRG2
	}, (*Classifier).isInterruptExit},
	{[][]uint32{{ppcBarrier}}, nil},
}

// isInterruptEntry reports whether addr is where interrupts and system calls enter the kernel
// (arch/powerpc/kernel/exceptions-64s.S, interrupt_64.S).
func (c *Classifier) isInterruptEntry(addr uint64, _ *place) bool {
	return c.inCore(addr) && (c.ppc.entryEnd == 0 || addr < c.ppc.entryEnd)
}

// isInterruptExit reports whether addr is in core text, where all returns from interrupts are.
func (c *Classifier) isInterruptExit(addr uint64, _ *place) bool { return c.inCore(addr) }

// isUserFlush reports whether addr is in do_uaccess_flush, the only place of its table.
func isUserFlush(c *Classifier, addr uint64, at *place) bool {
	return at.kind == text && at.module == "" && at.name == "do_uaccess_flush"
}

// isFixup reports whether a change is of a place that feature fixups rewrite.
func (c *Classifier) isFixup(p *perfdata.TextPoke, at *place) bool {
	old, new, ok := c.words(p)
	if !ok || at.kind != text && at.kind != unnamed {
		return false
	}
	for i := range ppcFixups {
		f := &ppcFixups[i]
		if f.only != nil && !f.only(c, p.Addr, at) {
			continue
		}
		for k := range f.words {
			if c.mayBe(f, k, old, p.Addr, p.Time) && c.mayBe(f, k, new, p.Addr, p.Time) && c.fitsAround(f, k, p) {
				return true
			}
		}
	}
	return false
}

// isBarrier reports whether a change makes the barrier of a lock in a module that is being loaded the one of
// this CPU (do_lwsync_fixups, called by module_finalize of arch/powerpc/kernel/module.c).
func (c *Classifier) isBarrier(p *perfdata.TextPoke) bool {
	old, new, ok := c.words(p)
	return ok && !c.inCore(p.Addr) && old == ppcISync && new == ppcLWSync
}

// isReserved reports whether a change marks a stub of a module that is being loaded as one of ftrace's: where
// other stubs have their data, it has a NOP (setup_ftrace_ool_stubs of arch/powerpc/kernel/module_64.c, Linux
// 6.13 to 6.18).
func (c *Classifier) isReserved(p *perfdata.TextPoke, at *place) bool {
	old, new, ok := c.words(p)
	return ok && at.kind == unnamed && !c.inCore(p.Addr) && p.Addr%8 == 0 && old == 0 && new == patching.PowerpcNOP
}

// isStubOps reports whether a change is of the pointer in front of a traced function's stub (struct
// ftrace_ool_stub, ftrace_rec_update_ops of arch/powerpc/kernel/trace/ftrace.c, Linux 6.13). It leads to data of
// the kernel. Of a module that is being loaded the stub is not known, and there was no pointer.
func (c *Classifier) isStubOps(p *perfdata.TextPoke) bool {
	const space = 0xc // of the kernel's addresses
	if len(p.Old) != 8 || len(p.New) != 8 || p.Addr%8 != 0 {
		return false
	}
	old, new := c.order.Uint64(p.Old), c.order.Uint64(p.New)
	if new>>60 != space || new%8 != 0 || old != 0 && (old>>60 != space || old%8 != 0) {
		return false
	}
	first, ok := c.word(p.Addr+8, p.Time)
	third, ok3 := c.word(p.Addr+16, p.Time)
	if !ok && !ok3 {
		return !c.inCore(p.Addr) && old == 0
	}
	return ok && ok3 && first == patching.PowerpcMFLR && third == ppcMTLR
}

// mayBe reports whether word k of a fixup's place, at addr, may be this one.
func (c *Classifier) mayBe(f *fixup, k int, word uint32, addr, t uint64) bool {
	if word == patching.PowerpcNOP {
		return true
	}
	for _, w := range f.words[k] {
		switch {
		case w == ppcFallback && patching.IsPowerpcBL(word):
			return c.isFlushFallback(addr, word, t)
		case w != word:
		case w == ppcOverFlush: // over the return, to a branch to the software flush
			b, ok := c.word(addr+16, t)
			return ok && c.isFlushFallback(addr+16, b|patching.PowerpcLink, t)
		default:
			return true
		}
	}
	return false
}

// isFlushFallback reports whether a call leads to a function of arch/powerpc/kernel/exceptions-64s.S
// that flushes in software, such as entry_flush_fallback.
func (c *Classifier) isFlushFallback(addr uint64, word uint32, t uint64) bool {
	e := decodePowerpc(c.order, addr, c.bytesOf(word))
	if e.kind != call {
		return false
	}
	to := c.at(e.target, t)
	return to.kind == text && to.module == "" && to.lo == e.target &&
		(strings.HasSuffix(to.name, "flush_fallback") || to.name == "stf_barrier_fallback")
}

// fitsAround reports whether the words around p, which changes word k of a place, may be there.
func (c *Classifier) fitsAround(f *fixup, k int, p *perfdata.TextPoke) bool {
	for j := range f.words {
		if j == k {
			continue
		}
		addr := p.Addr + uint64(4*j) - uint64(4*k)
		if w, ok := c.word(addr, p.Time); !ok || !c.mayBe(f, j, w, addr, p.Time) {
			return false
		}
	}
	return true
}

// isRelocation reports whether a change is one that the loader of modules makes for R_PPC64_REL24
// (apply_relocate_add, restore_r2 of arch/powerpc/kernel/module_64.c). In the module's file each
// branch leads to itself, as none in running code does. It gets a target, and before that, the NOP
// behind a call of another module or the kernel becomes a load of r2.
func (c *Classifier) isRelocation(p *perfdata.TextPoke) bool {
	old, new, ok := c.words(p)
	switch {
	case !ok || c.inCore(p.Addr):
		return false
	case old == ppcCallOfItself:
		return patching.IsPowerpcBL(new)
	case old == ppcBranchToItself:
		return patching.IsPowerpcBL(new|patching.PowerpcLink) && !patching.IsPowerpcBL(new)
	case old == patching.PowerpcNOP && new == c.ppc.loadTOC:
		call, ok := c.word(p.Addr-4, p.Time)
		return !ok || call == ppcCallOfItself
	}
	return false
}

// A stub of a module leads to a function that is too far away for a branch (struct
// ppc64_stub_entry of arch/powerpc/kernel/module_64.c). create_stub writes its words from the first
// on, then the low halves of the first two, its data, and its magic number.
//
//	addis r11,r2,HIGH; addi r11,r11,LOW; std r2,24(r1); ld r12,32(r11); mtctr r12; bctr; -; magic; data
var (
	ppcStub2 = []uint32{0x3d620000, 0x396b0000, 0xf8410018, 0xe98b0020, 0x7d8903a6, 0x4e800420}
	ppcStub1 = []uint32{0x3d620000, 0x396b0000, 0xf8410028, 0xe98b0020, 0xe84b0028, 0x7d8903a6, 0x4e800420}
	// pla r12,ADDR; mtctr r12; bctr: of kernels that use no r2 (CONFIG_PPC_KERNEL_PCREL)
	ppcStubPCREL = []uint32{0x06100000, 0x39800000, 0x7d8903a6, 0x4e800420}
)

// ppcStubHalves are the bits of a stub's first two words that depend on where it is and leads.
func ppcStubHalves(stub []uint32) [2]uint32 {
	if stub[0] == ppcStubPCREL[0] {
		return [2]uint32{0x3ffff, 0xffff}
	}
	return [2]uint32{0xffff, 0xffff}
}

// ppcStubData and ppcStubMagicAt are where a stub has its data and its magic number, in words.
const (
	ppcStubMagicAt = 7
	ppcStubData    = 8
)

// isStubWord reports whether a change is of a module's stub that is being made.
func (c *Classifier) isStubWord(p *perfdata.TextPoke) bool {
	old, new, ok := c.words(p)
	if !ok || c.inCore(p.Addr) {
		return false
	}
	return c.isWordOf(c.ppc.stub, p, old, new) || c.isWordOf(ppcStubPCREL, p, old, new)
}

// isWordOf is isStubWord for stubs of these instructions.
func (c *Classifier) isWordOf(insns []uint32, p *perfdata.TextPoke, old, new uint32) bool {
	for k := range ppcStubData + c.ppc.stubData {
		stub := p.Addr - uint64(4*k)
		if stub%8 != 0 || !c.beginsStub(insns, stub, min(k, len(insns)), p.Time) {
			continue
		}
		switch {
		case k < len(insns) && old == 0:
			if new == insns[k] {
				return true
			}
		case k < 2 && old == insns[k]: // its low half
			if c.beginsStub(insns, stub, len(insns), p.Time) {
				return true
			}
		case k == ppcStubMagicAt:
			if old == 0 && new == ppcStubMagic {
				return true
			}
		case k >= ppcStubData && old == 0:
			return true
		}
	}
	return false
}

// beginsStub reports whether the first n words at addr are those of a module's stub of these instructions.
func (c *Classifier) beginsStub(insns []uint32, addr uint64, n int, t uint64) bool {
	var code [4 * ppcStubData]byte
	c.read = true
	if c.r.Image.At(t).Read(addr, code[:4*n]).Given < 4*n {
		return false
	}
	halves := ppcStubHalves(insns)
	for k := range n {
		w := c.order.Uint32(code[4*k:])
		if k < 2 {
			w &^= halves[k]
		}
		if w != insns[k] {
			return false
		}
	}
	return true
}

// stubTarget returns where a module's stub at addr leads; false if there is none that is known. Stubs
// of ftrace have other instructions, but the same data.
func (c *Classifier) stubTarget(addr, t uint64) (uint64, bool) {
	if w, ok := c.word(addr+4*ppcStubMagicAt, t); !ok || w != ppcStubMagic {
		return 0, false
	}
	var data [8]byte
	if c.r.Image.At(t).Read(addr+4*ppcStubData, data[:]).Given < len(data) {
		return 0, false
	}
	return c.order.Uint64(data[:]), true
}

// isOutOfLine reports whether target is the stub of a traced function (struct ftrace_ool_stub of
// arch/powerpc/include/asm/ftrace.h, Linux 6.13), whose last word leads back behind the change.
func (c *Classifier) isOutOfLine(p *perfdata.TextPoke, target uint64) bool {
	first, ok := c.word(target, p.Time)
	third, ok3 := c.word(target+8, p.Time)
	back, ok4 := c.word(target+12, p.Time)
	if !ok || !ok3 || !ok4 || first != patching.PowerpcMFLR || third != ppcMTLR {
		return false
	}
	e := decodePowerpc(c.order, target+12, c.bytesOf(back))
	return e.kind == jump && e.target == p.Addr+4
}

// canSingleStep reports whether a probe can be on an instruction (can_single_step of
// arch/powerpc/include/asm/probes.h).
func canSingleStep(word uint32) bool {
	const (
		tdi, twi, sc, system, extended = 2, 3, 17, 19, 31
	)
	xop := word >> 1 & 0x3ff
	switch word >> 26 {
	case tdi, twi, sc:
		return false
	case system:
		switch xop {
		case 18, 38, 39, 50, 51, 82, 274, 306, 370, 402, 434, 466, 498: // returns from interrupts, sleep
			return false
		}
	case extended:
		switch xop {
		case 4, 68, 146, 178: // tw, td, mtmsr, mtmsrd
			return false
		}
	}
	return true
}

// A ppcKernel is what a powerpc kernel's own symbols say about it.
type ppcKernel struct {
	stub     []uint32 // of a module's stubs
	stubData int      // words of data of a stub
	loadTOC  uint32   // what loads r2 behind a call
	entryEnd uint64   // where the code ends through which interrupts enter; 0 if it is not known
	// The slots of optimised kprobes and the template that the kernel copies there, and the
	// addresses in it of what the kernel replaces (arch/powerpc/kernel/optprobes_head.S).
	slots, template, templateEnd              uint64
	probe, callback, instruction, emulate, to uint64
}

func newPPCKernel(order binary.ByteOrder, k *kcore.Kallsyms) (p ppcKernel) {
	p.stub, p.stubData, p.loadTOC = ppcStub2, 2, 0xe8410018 // ld r2,24(r1)
	if order == binary.BigEndian {                          // it has the first version of the ABI, in distributions
		p.stub, p.stubData, p.loadTOC = ppcStub1, 6, 0xe8410028 // ld r2,40(r1)
	}
	if k == nil {
		return p
	}
	find := map[string]*uint64{"__end_soft_masked": &p.entryEnd, "optinsn_slot": &p.slots,
		"optprobe_template_entry": &p.template, "optprobe_template_end": &p.templateEnd,
		"optprobe_template_op_address": &p.probe, "optprobe_template_call_handler": &p.callback,
		"optprobe_template_insn": &p.instruction, "optprobe_template_call_emulate": &p.emulate,
		"optprobe_template_ret": &p.to}
	for _, s := range k.All() {
		if addr := find[s.Name]; addr != nil && s.Module == "" {
			*addr = s.Addr
		}
	}
	return p
}

// hasSlots reports whether it is known where the slots of optimised kprobes are.
func (p *ppcKernel) hasSlots() bool { return p.slots != 0 && p.templateEnd > p.template }

// isSlotFill reports whether a change fills the slot of a probe: arm64 and powerpc write slots as any
// text (arch_prepare_ss_slot of arch/arm64/kernel/probes/kprobes.c, arch_prepare_kprobe of
// arch/powerpc/kernel/kprobes.c, arch_prepare_optimized_kprobe of arch/powerpc/kernel/optprobes.c).
func (c *Classifier) isSlotFill(p *perfdata.TextPoke, at *place) bool {
	switch {
	case c.machine == elf.EM_AARCH64:
		return at.kind == kprobeSlots
	case c.machine != elf.EM_PPC64 || len(p.New) < 4:
		return false
	case at.kind == kprobeSlots:
		return canSingleStep(c.order.Uint32(p.New))
	}
	return at.kind == optprobeSlots && c.isTemplate(p)
}

// leavesSlots reports whether a branch of powerpc does not lead to the slot of an optimised kprobe. Then
// a kprobe's trap was put over it, or removed.
func (c *Classifier) leavesSlots(e effect, t uint64) bool {
	return c.machine == elf.EM_PPC64 && c.ppc.hasSlots() && e.leads() && c.at(e.target, t).kind != optprobeSlots
}

// isTemplate reports whether a change puts a word into the slot of an optimised kprobe that belongs
// at that place of a slot.
func (c *Classifier) isTemplate(p *perfdata.TextPoke) bool {
	_, new, ok := c.words(p)
	if !ok || !c.ppc.hasSlots() {
		return false
	}
	at := c.ppc.template + (p.Addr-c.ppc.slots)%(c.ppc.templateEnd-c.ppc.template)
	if w, ok := c.word(at, p.Time); ok && w == new {
		return true
	}
	e := decodePowerpc(c.order, p.Addr, p.New)
	switch at {
	case c.ppc.callback:
		return e.kind == call && c.isFunction(e.target, "optimized_callback", p.Time)
	case c.ppc.emulate:
		return e.kind == call && c.isFunction(e.target, "emulate_step", p.Time)
	case c.ppc.to:
		return e.kind == jump && c.inCore(e.target)
	}
	return isLoad(new, 3, at-c.ppc.probe) || isLoad(new, 4, at-c.ppc.instruction)
}

// isFunction reports whether addr is an entry of a function: its first instruction, or the one behind
// those that set up r2.
func (c *Classifier) isFunction(addr uint64, name string, t uint64) bool {
	to := c.at(addr, t)
	return to.kind == text && to.module == "" && to.name == name && (addr == to.lo || addr == to.lo+8)
}

// isLoad reports whether a word is the one at this offset in the five that load 64 bits into a
// register: lis, ori, sldi by 32, oris, ori (patch_imm64_load_insns).
func isLoad(word, reg uint32, offset uint64) bool {
	const lis, ori, sldi, oris = 0x3c000000, 0x60000000, 0x780007c6, 0x64000000
	both := reg<<21 | reg<<16
	switch offset {
	case 0:
		return word&^0xffff == lis|reg<<21
	case 4, 16:
		return word&^0xffff == ori|both
	case 8:
		return word == sldi|both
	case 12:
		return word&^0xffff == oris|both
	}
	return false
}
