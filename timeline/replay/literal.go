// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/timeline"
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

// OpsLiteral returns the literal of which the byte at addr is at v's time; ok is
// false where it is of none. No record names these places: they are known by
// what is there. A pointer of the kernel, whose upper half is no
// instruction of arm64, right before a function, which begins with what the
// compiler and ftrace leave at an entry (-fpatchable-function-entry=4,2).
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
