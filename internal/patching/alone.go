// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"bytes"
	"debug/elf"
	"slices"
)

// returnZero is what __static_call_transform writes for a call to
// __static_call_return0: XOR EAX,EAX padded to five bytes, by kernel (xor5rax,
// arch/x86/kernel/static_call.c).
var returnZero = [][]byte{
	{0x2e, 0x2e, 0x2e, 0x31, 0xc0},
	{0x66, 0x66, 0x48, 0x31, 0xc0}, // before 5.18
}

// inlined are the other instructions that static calls are replaced by.
var inlined = [][]byte{
	{0x67, 0x48, 0x0f, 0xb9, 0x3a}, // UD1 for __WARN_trap (warninsn)
	{0x3e, 0x3e, 0xc6, 0x07, 0x00}, // MOVB $0,(%RDI) for a paravirtual unlock (unlockinsn)
}

// IsInlinedCall reports whether code is an instruction that x86 kernels write in place
// of a static call of a certain function, such as __static_call_return0.
func IsInlinedCall(code []byte) bool {
	is := func(z []byte) bool { return bytes.Equal(z, code) }
	return IsReturnZero(code) || slices.ContainsFunc(inlined, is)
}

// IsReturnZero reports whether code is what x86 kernels write in place of a call of
// __static_call_return0.
func IsReturnZero(code []byte) bool {
	return slices.ContainsFunc(returnZero, func(z []byte) bool { return bytes.Equal(z, code) })
}

// Alone reports whether the kernel writes a place by itself, never in a batch
// with others, as far as the bytes show it. On x86 two mechanisms queue places
// for text_poke_bp_batch: jump labels (NOP and JMP) and ftrace's sites (NOP and
// CALL, JMP for direct calls). Static calls, their trampolines and optimised
// kprobes write one place at a time (text_poke_bp); only they write RET, Jcc,
// "return 0", and JMP over INT3.
//
// A CALL, and a JMP in place of another JMP, can be either. Then callees are the
// addresses that they lead to, 0 if there is none: a place that leads to a
// function of the kernel's own text other than ftrace's is a static call's.
//
// The poke must be one of timeline.PokeBatch.
func Alone(machine elf.Machine, addr uint64, old, new []byte) (alone bool, callees [2]uint64) {
	if machine != elf.EM_X86_64 {
		return false, callees
	}
	was, is := queued(addr, old), queued(addr, new)
	for i, e := range []TrapEffect{was, is} {
		switch e.Kind {
		case TrapReturn, TrapBranch, TrapProbe:
			return true, callees
		case TrapUnknown:
			code := [][]byte{old, new}[i]
			return IsReturnZero(code), callees
		}
	}
	if was.Kind == TrapCall || is.Kind == TrapCall || was.Kind == TrapJump && is.Kind == TrapJump {
		callees = [2]uint64{was.Target, is.Target}
	}
	return false, callees
}

// queued is emulateX86, and faster for what nearly all pokes write.
func queued(addr uint64, code []byte) TrapEffect {
	if len(code) == 5 && code[0] == 0x0f && code[1] == 0x1f {
		return TrapEffect{Kind: TrapNop} // 0f 1f 44 00 00
	}
	return emulateX86(addr, code)
}
