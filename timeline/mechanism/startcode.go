// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"bytes"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/patching"
)

// Whether two pieces of code do the same, up to what the kernel does to instructions when it boots.

// like reports whether two pieces of code do the same, up to what the kernel does to
// instructions when it boots: it moves branches, shortens jumps, joins NOPs, and changes
// indirect branches, returns and calls of pv_ops.
func (s *starter) like(want []byte, wantAt uint64, got []byte, gotAt uint64) bool {
	after := false // an instruction behind which nothing runs
	// next returns the next instruction that is no NOP.
	next := func(code *[]byte, at *uint64) (disasm.Inst, bool) {
		for len(*code) > 0 {
			in := s.dis.Decode(*code, *at)
			if in.Data {
				return in, false
			}
			*code, *at = (*code)[len(in.Bytes):], *at+uint64(len(in.Bytes))
			if patching.IsNOP(in.Bytes) || after && in.Bytes[0] == patching.INT3 {
				continue
			}
			if n := in.Target - *at; in.Class == disasm.Jump && 0 < n && n <= uint64(len(*code)) &&
				bytes.Count((*code)[:n], []byte{patching.INT3}) == int(n) {
				*code, *at = (*code)[n:], in.Target // many NOPs (add_nop, since Linux 6.7)
				continue
			}
			return in, true
		}
		return disasm.Inst{}, true
	}
	for {
		w, ok1 := next(&want, &wantAt)
		g, ok2 := next(&got, &gotAt)
		if !ok1 || !ok2 {
			return false
		}
		if len(g.Bytes) == 3 && bytes.Equal(g.Bytes, lfence) && !bytes.Equal(w.Bytes, lfence) {
			if g, ok2 = next(&got, &gotAt); !ok2 {
				return false
			}
		}
		switch {
		case len(w.Bytes) == 0:
			return len(g.Bytes) == 0
		case len(g.Bytes) == 0:
			// A call of pv_ops that does nothing is removed.
			if !s.callsPV(&w) {
				return false
			}
			continue
		case !s.sameInst(&w, &g):
			return false
		}
		after = g.Bytes[0] == 0xc3 || g.Bytes[0] == 0xe9 || g.Bytes[0] == 0xeb || g.Bytes[0] == 0xff
	}
}

// sameInst reports whether g is what the kernel makes of w.
func (s *starter) sameInst(w, g *disasm.Inst) bool {
	if bytes.Equal(w.Bytes, g.Bytes) {
		return true
	}
	we, ge := s.effectOf(w), s.effectOf(g)
	if we.leads() && we == ge {
		return true
	}
	if n := len(w.Bytes); n == len(g.Bytes) && !we.leads() {
		// An operand that is relative to the instruction.
		for i := 2; i+4 <= n; i++ {
			if bytes.Equal(w.Bytes[:i], g.Bytes[:i]) && bytes.Equal(w.Bytes[i+4:], g.Bytes[i+4:]) &&
				w.Addr+rel32(w.Bytes[i:]) == g.Addr+rel32(g.Bytes[i:]) {
				return true
			}
		}
	}
	name := ""
	if we.leads() {
		name = s.Classifier.at(we.target, s.t).name
	}
	switch {
	case s.callsPV(w):
		return ge.kind == call && s.begins(ge.target)
	case s.jumpsPV(w):
		return ge.kind == jump && s.begins(ge.target)
	case isReturnThunk(name):
		return ge.kind == ret || ge.kind == jump && isReturnThunk(s.Classifier.at(ge.target, s.t).name)
	case strings.HasPrefix(name, "__x86_indirect_"):
		reg := registerOf(name)
		if reg < 0 {
			return false
		}
		if ge.leads() {
			to := s.Classifier.at(ge.target, s.t)
			return ge.kind == we.kind && (registerOf(to.name) == reg || to.kind == otherOutOfLine)
		}
		return isIndirect(g.Bytes, reg, we.kind == call)
	case we.kind == call && ge.kind == call:
		// Call depth tracking: the call leads into the padding before the function.
		return ge.target < we.target && we.target-ge.target <= 16 && bytes.HasPrefix(s.memory(ge.target, 16), callDepthPad)
	}
	return false
}

func (s *starter) effectOf(in *disasm.Inst) effect {
	code := in.Bytes
	for len(code) > 1 && (code[0] == 0x2e || code[0] == 0x3e) {
		code = code[1:] // a segment prefix, which means nothing
	}
	return s.decode(in.Addr+uint64(len(in.Bytes)-len(code)), code)
}

var lfence = []byte{0x0f, 0xae, 0xe8}

// native are the instructions that Linux before 5.18 puts in place of a call through
// pv_ops, if there is no hypervisor that needs the call (patch_data_xxl,
// arch/x86/kernel/paravirt_patch.c). Newer kernels have them as alternatives.
var native = [][]byte{
	{0xfa},                               // cli
	{0xfb},                               // sti
	{0x9c, 0x58},                         // pushf; pop %rax
	{0x57, 0x9d},                         // push %rdi; popf
	{0x0f, 0x20, 0xd0},                   // mov %cr2,%rax
	{0x0f, 0x20, 0xd8},                   // mov %cr3,%rax
	{0x0f, 0x22, 0xdf},                   // mov %rdi,%cr3
	{0x0f, 0x09},                         // wbinvd
	{0x0f, 0x01, 0xf8},                   // swapgs
	{0x48, 0x89, 0xf8},                   // mov %rdi,%rax
	{0xc6, 0x07, 0x00},                   // movb $0,(%rdi): queued_spin_unlock
	{0x31, 0xc0},                         // xor %eax,%eax: vcpu_is_preempted
	{0x48, 0xcf},                         // iretq
	{0x0f, 0x01, 0xf8, 0x48, 0x0f, 0x07}, // swapgs; sysretq
}

// isNative reports whether got is one of the native instructions in place of want, a call
// or jump through pv_ops, with NOPs behind it.
func (s *starter) isNative(want, got []byte) bool {
	if len(want) < 6 || want[0] != 0xff {
		return false
	}
	for _, code := range native {
		if bytes.HasPrefix(got, code) && len(s.skipNOPs(got, len(code))) == 0 {
			return true
		}
	}
	return false
}

// callsPV reports whether an instruction is a call through a pointer in memory. All such
// calls that the kernel changes are through pv_ops.
func (s *starter) callsPV(in *disasm.Inst) bool {
	return len(in.Bytes) >= 6 && in.Bytes[0] == 0xff && (in.Bytes[1] == 0x15 || in.Bytes[1] == 0x14)
}

// jumpsPV is callsPV for a jump.
func (s *starter) jumpsPV(in *disasm.Inst) bool {
	return len(in.Bytes) >= 6 && in.Bytes[0] == 0xff && (in.Bytes[1] == 0x25 || in.Bytes[1] == 0x24)
}

// isReturnThunk reports whether a function is one that a mitigation puts in place of RET
// (arch/x86/lib/retpoline.S).
func isReturnThunk(name string) bool {
	return strings.HasSuffix(name, "return_thunk") || name == "__x86_return_skl"
}

// registers are the names of the thunks' registers, by their numbers in instructions.
var registers = [...]string{"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"}

// registerOf returns the number of the register through which a thunk such as
// __x86_indirect_thunk_rax jumps; -1 if the function is not a thunk.
func registerOf(name string) int {
	if !strings.HasPrefix(name, "__x86_indirect_") {
		return -1
	}
	return slices.Index(registers[:], name[strings.LastIndexByte(name, '_')+1:])
}

// isIndirect reports whether code is call *%reg or jmp *%reg.
func isIndirect(code []byte, reg int, call bool) bool {
	for len(code) > 0 && (code[0] == 0x2e || code[0] == 0x3e) {
		code = code[1:]
	}
	var want []byte
	if reg >= 8 {
		want = append(want, 0x41)
	}
	modrm := byte(0xe0)
	if call {
		modrm = 0xd0
	}
	return bytes.Equal(code, append(want, 0xff, modrm|byte(reg&7)))
}
