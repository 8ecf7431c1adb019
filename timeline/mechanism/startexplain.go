// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"bytes"
	"strings"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
)

// Which mechanism explains that text at the start differs from the file: explains decides for the
// places in one of the kernel's lists, elsewhere for all others.

// explains reports whether the mechanism of a site can have written what is there.
func (s *starter) explains(x *site) bool {
	got := s.memory(x.addr, x.n)
	switch x.kind {
	case CauseAlternative:
		return s.like(x.repl, x.replAt, got, x.addr) || s.like(s.file(x.addr, x.n), x.addr, got, x.addr)
	case CauseParavirt:
		if s.isNative(s.file(x.addr, x.n), got) {
			return true
		}
		fallthrough
	case CauseRetpoline, CauseReturn, CauseCallDepth:
		return s.like(s.file(x.addr, x.n), x.addr, got, x.addr)
	case CauseConstant:
		return bytes.Equal(got, x.repl)
	case CauseLock:
		return got[0] == 0x3e && s.file(x.addr, 1)[0] == 0xf0 // a DS prefix: alternatives_smp_unlock
	case CauseEndbr:
		return s.endbr(x.addr, s.r.Image.First())
	}
	is := s.decode(x.addr, part(got, 0, 5))
	at := s.Classifier.at(x.addr, s.t)
	switch x.kind {
	case CauseStaticKey:
		is = s.decode(x.addr, got)
		return is.kind == nop || is == effect{jump, s.tables.JumpLabels[x.addr]}
	case CauseStaticCall:
		if x.n == 6 {
			is = s.decode(x.addr, got)
		}
		why, _ := s.auditor.staticCall(&perfdata.TextPoke{Addr: x.addr, New: got}, at, is)
		return why == 0
	case CauseFtrace:
		return is.kind == nop || is.kind == call && s.tracer(is.target) ||
			is.kind == jump && s.Classifier.at(is.target, s.t).kind == trampoline // FTRACE_OPS_FL_JMP
	}
	return false
}

// tracer reports whether a tracer's call may lead to addr.
func (s *starter) tracer(addr uint64) bool {
	switch to := s.Classifier.at(addr, s.t); to.kind {
	case ftraceText, ftraceOutOfLine, trampoline:
		return true
	default:
		return to.kind == text && to.module == "" && strings.HasPrefix(to.name, "__fentry__")
	}
}

// elsewhere explains the differing byte at addr, which is in none of the lists. It returns
// the cause, 0 if there is none, and the address behind the last byte that the cause
// explains.
func (s *starter) elsewhere(addr uint64) (Cause, uint64) {
	at := s.Classifier.at(addr, s.t)
	switch {
	case at.kind == staticCallText:
		// The jump of a trampoline, or what replaces the jump to a function that does nothing.
		lo := at.lo
		if why, to := s.jumps(lo, addr, CauseStaticCall); why != 0 {
			return why, to
		}
		if is := s.decode(lo, s.memory(lo, 5)); addr < lo+5 && (is.kind == ret || is.kind == inlined) {
			return CauseStaticCall, lo + 5
		}
	case at.kind == ftraceText:
		for lo := addr - 4; lo <= addr; lo++ {
			was, is := s.decode(lo, s.file(lo, 5)), s.decode(lo, s.memory(lo, 5))
			if was.kind != unknown && (is.kind == nop || is.leads() && s.begins(is.target)) {
				return CauseFtrace, lo + 5
			}
		}
	case at.kind == text && strings.HasPrefix(at.name, "bpf_dispatcher_") && addr < at.lo+9:
		for lo := at.lo; lo <= addr; lo++ {
			if is := s.decode(lo, s.memory(lo, 5)); addr < lo+5 && is.leads() && s.Classifier.at(is.target, s.t).kind.dynamic() {
				return CauseBPF, lo + 5
			}
		}
	case at.kind == text && (strings.HasPrefix(at.name, "xen_hypercall_") || at.name == "hypercall_page" || at.name == "hyperv_hypercall_page"):
		return CauseHypercall, max(at.hi, addr+1)
	}
	if why, to := s.probe(addr, at); why != 0 {
		return why, to
	}
	return s.pad(addr)
}

// jumps explains a jump at lo that leads to the beginning of a function.
func (s *starter) jumps(lo, addr uint64, why Cause) (Cause, uint64) {
	if is := s.decode(lo, s.memory(lo, 5)); lo <= addr && addr < lo+5 && is.kind == jump && s.begins(is.target) {
		return why, lo + 5
	}
	return 0, 0
}

// begins reports whether code begins at addr.
func (s *starter) begins(addr uint64) bool {
	at := s.Classifier.at(addr, s.t)
	return at.kind != unnamed && at.lo == addr
}

// probe explains the trap of a kprobe, and the jump of an optimised one.
func (s *starter) probe(addr uint64, at *place) (Cause, uint64) {
	if at.kind != text || !s.probes {
		return 0, 0
	}
	for lo := addr; lo+4 >= addr && lo >= at.lo; lo-- {
		if !s.beginsLinked(lo, at) {
			continue
		}
		if lo == addr && s.memory(lo, 1)[0] == patching.INT3 {
			return CauseKprobe, lo + 1
		}
		if is := s.decode(lo, s.memory(lo, 5)); is.kind == jump {
			if k := s.Classifier.at(is.target, s.t).kind; k == optprobeSlots {
				return CauseKprobe, lo + 5
			}
		}
	}
	return 0, 0
}

// beginsLinked reports whether an instruction of the file begins at addr.
func (s *starter) beginsLinked(addr uint64, at *place) bool {
	for in := range s.dis.All(s.file(at.lo, addr-at.lo+15), at.lo, nil) {
		if in.Addr >= addr {
			return in.Addr == addr
		}
	}
	return false
}

// callDepthPad is how the code before a function begins that counts the depth of calls:
// sarq $5, %gs:... (SKL_CALL_THUNK_TEMPLATE, arch/x86/kernel/callthunks.c).
var callDepthPad = []byte{0x65, 0x48, 0xc1}

// pad explains code in the padding before a function.
func (s *starter) pad(addr uint64) (Cause, uint64) {
	entry := (addr + 16) &^ 15
	lo := entry - 16
	got := s.memory(lo, 16)
	i := bytes.Index(got, callDepthPad)
	if i < 0 || uint64(i) > addr-lo || !s.begins(entry) {
		return 0, 0
	}
	for _, b := range s.skipNOPs(s.file(lo, 16), 0) {
		if b != 0x90 && b != patching.INT3 {
			return 0, 0
		}
	}
	return CauseCallDepth, entry
}

// skipNOPs returns code from the first instruction at or after i that is no NOP.
func (s *starter) skipNOPs(code []byte, i int) []byte {
	for i < len(code) {
		n := len(s.dis.Decode(code[i:], 0).Bytes)
		if n == 0 || !patching.IsNOP(code[i:i+n]) {
			break
		}
		i += n
	}
	return code[i:]
}
