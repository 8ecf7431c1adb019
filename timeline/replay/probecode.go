// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

// probeCode reads the code of the writers in perf's copy of kernel text. What it finds
// is kept by the address that a call returns to.
type probeCode struct {
	core  *kcore.Core     // nil: no writer can be decoded
	k     *kcore.Kallsyms // nil: there is none
	order binary.ByteOrder
	arm   map[uint64]arm64Decoded
	ppc   map[uint64]ppcDecoded
	regs  map[[2]uint64]string // by the two addresses of placeRegister
	bpf   map[uint64]bool      // by function: only BPF calls it
	// What is found out about arm64's __text_poke, see probecopy.go.
	copiers map[[2]uint64]copierDecoded
	passes  map[[2]uint64]uint64
	copying map[uint64]bool
	used    []timeline.Range // the code and the data that was read
	named   []uint64         // addresses of symbols that were looked up by name
}

// An arm64Decoded is what the code of a caller says; ok is false if it is no known writer.
type arm64Decoded struct {
	w  patching.ARM64Writer
	ok bool
}

// A ppcDecoded is the same for powerpc.
type ppcDecoded struct {
	w  patching.PPC64Writer
	ok bool
}

// newProbeCode returns a probeCode for the copy of a kernel. core and k may be nil.
func newProbeCode(core *kcore.Core, k *kcore.Kallsyms) probeCode {
	c := probeCode{core: core, k: k, arm: make(map[uint64]arm64Decoded), ppc: make(map[uint64]ppcDecoded),
		regs: make(map[[2]uint64]string), bpf: make(map[uint64]bool),
		copiers: make(map[[2]uint64]copierDecoded), passes: make(map[[2]uint64]uint64), copying: make(map[uint64]bool)}
	if core != nil {
		c.order = core.ByteOrder()
	}
	return c
}

// longestWriter is more than any writer's code has, in bytes.
const longestWriter = 16 << 10

// function returns the function of the kernel that has the instruction before lr.
func (c *probeCode) function(lr uint64) (addr uint64, code []byte) {
	if c.core == nil || c.k == nil {
		return 0, nil
	}
	sym, size, ok := c.k.Find(lr - 4)
	if !ok || sym.Module != "" || size == 0 || size > longestWriter {
		return 0, nil
	}
	return sym.Addr, c.read(sym.Addr, int(size))
}

// read returns n bytes of perf's copy, nil if it does not have them.
func (c *probeCode) read(addr uint64, n int) []byte {
	r := timeline.Range{Lo: addr, Hi: addr + uint64(n)}
	if len(c.used) < maxOthers && !slices.Contains(c.used, r) {
		c.used = append(c.used, r)
	}
	return c.core.Bytes(addr, n)
}

// one returns the address of the only symbol of this name in the kernel, 0 if there are
// several or none.
func (c *probeCode) one(name string) uint64 {
	if c.k == nil {
		return 0
	}
	found := c.k.LookupIn("", name)
	if len(found) != 1 {
		return 0
	}
	if addr := found[0].Addr; len(c.named) < maxOthers && !slices.Contains(c.named, addr) {
		c.named = append(c.named, addr)
	}
	return found[0].Addr
}

// arm64 decodes the writer whose call of __set_fixmap returns to lr.
func (c *probeCode) arm64(lr uint64) arm64Decoded {
	d, ok := c.arm[lr]
	if !ok {
		if addr, code := c.function(lr); code != nil && c.core.Machine == elf.EM_AARCH64 {
			f := patching.ARM64Function{Addr: addr, Code: code, Map: c.one("__set_fixmap"), CopyNoFault: c.one("copy_to_kernel_nofault")}
			if f.Map != 0 && f.CopyNoFault != 0 {
				d.w, d.ok = f.Writer(lr)
			}
		}
		if len(c.arm) < maxOthers {
			c.arm[lr] = d
		}
	}
	return d
}

// fillsSlot reports whether the first of two writes that follow one another fills the slot of a
// kprobe.
//
// On arm64 the second one adds BRK 6, at which the kernel takes over again (arch_prepare_ss_slot
// of arch/arm64/kernel/probes/kprobes.c). Nothing else has BRK 6. On powerpc it arms the probe:
// its trap replaces the instruction that the slot has got (arch_prepare_kprobe and arch_arm_kprobe
// of arch/powerpc/kernel/kprobes.c).
func (c *probeCode) fillsSlot(a, b *probeWrite) bool {
	const brk6, trap = 0xd42000c0, 0x7fe00008
	if c.core == nil || b.len != 4 || a.ended > b.began {
		return false
	}
	word := c.order.Uint32(b.new[:])
	switch c.core.Machine {
	case elf.EM_AARCH64:
		return a.len == 4 && a.addr+4 == b.addr && word == brk6
	case elf.EM_PPC64:
		return word == trap && b.hasOld && [4]byte(a.new[:4]) == [4]byte(b.old[:4])
	}
	return false
}

// slotLen returns the length in bytes of a slot whose first write is given. That of arm64 has a
// second word; powerpc traces a single step, and needs none.
func (c *probeCode) slotLen(w *probeWrite) uint32 {
	if c.core.Machine == elf.EM_AARCH64 {
		return 8
	}
	return uint32(w.len)
}

// textIndices returns the indices of the aliases through which writers that can be decoded
// change text. The kernel uses others for page tables and for firmware.
func (c *probeCode) textIndices() map[uint64]bool {
	function := c.one("__set_fixmap")
	if c.core == nil || c.core.Machine != elf.EM_AARCH64 || function == 0 {
		return nil
	}
	out := make(map[uint64]bool)
	for lr := range c.callsARM64(function) {
		if d := c.arm64(lr); d.ok {
			out[d.w.Index] = true
		}
	}
	return out
}

// callsARM64 yields what the calls of a function in kernel text return to.
func (c *probeCode) callsARM64(function uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for at, x := range c.words() {
			if x>>26 == 0x25 && at+uint64(int64(int32(x<<6)>>6)*4) == function && !yield(at+4) {
				return
			}
		}
	}
}

// words yields the instructions of kernel text, as far as the copy has it.
func (c *probeCode) words() iter.Seq2[uint64, uint32] {
	return func(yield func(uint64, uint32) bool) {
		lo, hi, ok := c.k.Text()
		if !ok {
			return
		}
		for _, s := range c.core.Segments {
			from, to := max(lo, s.Addr), min(hi, s.Addr+uint64(len(s.Data)))
			for at := (from + 3) &^ 3; at+4 <= to && at >= from; at += 4 {
				if !yield(at, c.order.Uint32(s.Data[at-s.Addr:])) {
					return
				}
			}
		}
	}
}

// lockedPTE returns the name of powerpc's function that maps the alias: get_locked_pte was a macro
// before.
func (c *probeCode) lockedPTE() string {
	if before := "__get_locked_pte"; c.one(before) != 0 {
		return before
	}
	return "get_locked_pte"
}

// ppc64 decodes the writer whose call of get_locked_pte returns to lr.
func (c *probeCode) ppc64(lr uint64) (patching.PPC64Writer, bool) {
	d, ok := c.ppc[lr]
	if !ok {
		// Its address, and all else of it, must be that of the one function that is known
		// to take these arguments.
		if addr, code := c.function(lr); code != nil && c.core.Machine == elf.EM_PPC64 && addr == c.one("patch_mem") {
			d.w, d.ok = patching.DecodePPC64Writer(c.order, addr, code, lr)
		}
		if len(c.ppc) < maxOthers {
			c.ppc[lr] = d
		}
	}
	return d.w, d.ok
}

// sameFunction reports whether two calls are of one function.
func (c *probeCode) sameFunction(a, b uint64) bool {
	x, code := c.function(a)
	y, _ := c.function(b)
	return code != nil && x == y
}

// placeRegister returns the name of the register that has the address of the change at the
// call of __set_fixmap that returns to lr; "" if the code does not show it. The function that
// makes this call returns to caller.
func (c *probeCode) placeRegister(lr, caller uint64) string {
	key := [2]uint64{lr, caller}
	reg, ok := c.regs[key]
	if !ok {
		if addr, code := c.function(lr); code != nil && c.core.Machine == elf.EM_AARCH64 {
			switch {
			case patching.ARM64Keeps(addr, code, lr, 19):
				reg = "x19"
			case patching.ARM64Saves(addr, code, lr, 20, 24):
				// What the caller passed is in its register 20, which is saved there.
				if c.passes20(caller, addr) {
					reg = "stack"
				}
			case patching.ARM64Leaves(code, 20):
				if at, ok := patching.ARM64Frame(addr, code, lr, 30); ok && at == 8 && c.passes20(caller, addr) {
					reg = "x20"
				}
			}
		}
		if len(c.regs) < maxOthers {
			c.regs[key] = reg
		}
	}
	return reg
}

// passes20 reports whether the call of callee that returns to lr passes register 20 as the first
// argument.
func (c *probeCode) passes20(lr, callee uint64) bool {
	at, code := c.function(lr)
	return code != nil && patching.ARM64Passes(at, code, lr, callee, 20)
}

// writesPrograms reports whether the writer that returns to lr is a function that only
// functions of BPF call, by name: what it writes is BPF programs. On arm64 it is the function whose
// call of the one that maps pages returns to caller: __text_poke, whose callers are called by BPF,
// or what the compiler made it a part of.
func (c *probeCode) writesPrograms(lr, caller uint64) bool {
	if c.core == nil {
		return false
	}
	switch c.core.Machine {
	case elf.EM_PPC64:
		addr, code := c.function(lr)
		return code != nil && c.onlyBPF(addr, len(code), 0)
	case elf.EM_AARCH64:
		at, _ := c.function(lr)
		f := c.arm64Function(caller)
		return f.Code != nil && at != 0 && patching.ARM64Target(f.Addr, f.Code, caller-4) == at && c.onlyBPF(f.Addr, len(f.Code), 1)
	}
	return false
}

// onlyBPF reports whether all calls of a function of size bytes are in functions of BPF and others that
// change no text that is known, or in functions that are only called by such, up to levels of them.
func (c *probeCode) onlyBPF(addr uint64, size, levels int) (only bool) {
	only, ok := c.bpf[addr]
	if ok {
		return only
	}
	defer func() { c.bpf[addr] = only }()
	lo, hi, ok := c.k.Text()
	if !ok || hi-lo > 1<<30 || c.core.Bytes(lo, int(hi-lo)) == nil {
		return false
	}
	callers := make(map[uint64]bool)
	for at, x := range c.words() {
		var to uint64
		switch c.core.Machine {
		case elf.EM_PPC64:
			if x>>26 != 18 || x&2 != 0 {
				continue
			}
			to = at + uint64(int64(int32(x<<6)>>6)&^3)
			if to == addr+8 { // past the two instructions that set the table of contents
				to = addr
			}
		default:
			if x>>26&0x1f != 5 { // B, BL
				continue
			}
			to = at + uint64(int64(int32(x<<6)>>6)*4)
		}
		if to == addr && (at < addr || at >= addr+uint64(size)) {
			callers[at] = true
		}
	}
	for at := range callers {
		sym, n, found := c.k.Find(at)
		if !found || !writesNoText(sym.Name) && (levels == 0 || n > longestWriter || !c.onlyBPF(sym.Addr, int(n), levels-1)) {
			return false
		}
	}
	return len(callers) > 0
}

// writesNoText reports whether a function of this name changes no text that is known: those of BPF,
// and the one with which ftrace prepares the text of a module that is being loaded
// (ftrace_init_nop of arch/powerpc/kernel/trace/ftrace.c, which changes the kernel's own only when it
// boots).
func writesNoText(name string) bool {
	return strings.HasPrefix(name, "bpf_") || strings.HasPrefix(name, "arch_prepare_bpf_") || name == "ftrace_init_nop"
}
