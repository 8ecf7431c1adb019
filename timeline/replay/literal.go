// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/timeline"
)

// OpsLiteral is 8 bytes of data in kernel text: a pointer to the ftrace_ops of a
// function, right before the function's entry. ftrace_caller uses it
// (CONFIG_DYNAMIC_FTRACE_WITH_CALL_OPS of arm64, Linux 6.3; ftrace_rec_set_ops in
// arch/arm64/kernel/ftrace.c). It changes when the function gets other ops. No record
// shows this change. The bytes are not instructions.
type OpsLiteral struct {
	Addr uint64
	Func uint64 // address of the function, 8 bytes after the literal
	Ops  uint64 // the pointer to the ftrace_ops
}

// OpsLiteral returns the literal that the byte at addr belongs to at v's time, or false
// if there is none. No record names these places, so OpsLiteral looks at the bytes. A
// literal is a kernel pointer right before a function. Its upper half is not an instruction
// of arm64. The function begins with what the compiler and ftrace put at an entry
// (-fpatchable-function-entry=4,2).
func (r *Replay) OpsLiteral(v timeline.View, addr uint64) (l OpsLiteral, ok bool) {
	if !r.arch.hasOpsLiterals() || !patching.Since(r.Report.Kernel, 6, 3) {
		return l, false
	}
	l.Addr = addr &^ 7
	l.Func = l.Addr + 8
	var buf [20]byte // with a bti before the two words of the entry
	given := v.Read(l.Addr, buf[:]).Given
	if l.Ops, ok = patching.OpsLiteral(r.Recording.ByteOrder(), buf[:given]); !ok {
		return l, false
	}
	s, ok := v.Symbol(l.Func)
	return l, ok && s.Addr == l.Func && s.Module != "bpf"
}
