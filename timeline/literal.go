// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"debug/elf"
	"encoding/binary"
)

// OpsLiteral is 8 bytes of data in kernel text: the pointer to the ftrace_ops of
// a function, right before its entry, by which ftrace_caller finds whom to call
// (CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS of arm64, Linux 6.3;
// ftrace_rec_set_ops in arch/arm64/kernel/ftrace.c). It changes by itself when
// the function is moved from one ops to another, and its bytes must not be
// taken for instructions.
type OpsLiteral struct {
	Addr uint64
	Func uint64 // the function's, 8 bytes on
	Ops  uint64 // the pointer
}

// Words at the entry of an arm64 function that can be traced.
const (
	arm64BTIC  = 0xd503245f
	arm64Saves = 0xaa1e03e9 // mov x9, x30: keeps the return address of the caller
)

// OpsLiteral returns the literal of which the byte at addr is at v's time; ok is
// false where it is of none. No record names these places: they are known by
// what stands there. A pointer of the kernel, whose upper half is no
// instruction of arm64, right before a function, which begins with what the
// compiler and ftrace leave at an entry (-fpatchable-function-entry=4,2).
func (r *Replay) OpsLiteral(v View, addr uint64) (l OpsLiteral, ok bool) {
	if r.isa != elf.EM_AARCH64 || !since(r.Report.Kernel, 6, 3) {
		return l, false
	}
	l.Addr = addr &^ 7
	l.Func = l.Addr + 8
	var buf [20]byte // with a bti before the two words of the entry
	given := v.Read(l.Addr, buf[:]).Given
	const pointer = 0xfff // how all of the kernel's begin
	l.Ops = r.Recording.ByteOrder().Uint64(buf[:])
	if given < 16 || l.Ops>>52 != pointer || l.Ops&7 != 0 {
		return l, false
	}
	entry := buf[8:given]
	if binary.LittleEndian.Uint32(entry) == arm64BTIC {
		entry = entry[4:]
	}
	if len(entry) < 8 {
		return l, false
	}
	first, site := binary.LittleEndian.Uint32(entry), binary.LittleEndian.Uint32(entry[4:])
	const bl = 0b100101
	if first != arm64Saves && first != arm64NOP && first&arm64BRKMask != arm64BRK || site != arm64NOP && site>>26 != bl {
		return l, false
	}
	s, ok := v.Symbol(l.Func)
	return l, ok && s.Addr == l.Func && s.Module != "bpf"
}
