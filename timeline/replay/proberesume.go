// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/timeline"
)

// ProbeMayResumeAt reports whether the trap handler may return to addr at time t if the trap
// that it handles is that of a kprobe at the address probe. If several probes are close to one
// another, that shows which of them a CPU met.
//
// The handler returns to the probe's slot, which has a copy of the instruction, or to where
// the instruction leads, if it emulates it, or to the instruction itself, if the probe is gone
// (kprobe_int3_handler, arch/x86/kernel/kprobes/core.c). A probe whose handler changes the
// address, as those of error injection do, may return elsewhere: then the answer is wrong. If the
// instruction is not known, the handler may return anywhere.
func (c *Cursor) ProbeMayResumeAt(probe, addr, t uint64) bool {
	if addr == probe || c.decoder == nil {
		return true
	}
	if s, ok := c.replay.TrampolineAt(addr, t); ok && len(s.Places) > 0 && (s.Kind == KprobeSlot || s.Kind == OptprobeSlot) {
		return slices.Contains(s.Places, probe)
	}
	if c.isOutOfLine(addr, t) {
		return true
	}
	inst, ok := c.probed(probe, t)
	if !ok {
		return true
	}
	next := probe + uint64(len(inst.Bytes))
	switch inst.Class {
	case disasm.Other:
		return addr == next
	case disasm.Call, disasm.Jump:
		return addr == inst.Target
	case disasm.CondJump:
		return addr == inst.Target || addr == next
	}
	return true
}

// isOutOfLine reports whether addr is in a slot or a trampoline at time t.
func (c *Cursor) isOutOfLine(addr, t uint64) bool {
	l, _ := c.image.At(t).LifetimeAt(addr)
	return l != nil && l.Kind == timeline.OutOfLine
}

// maxProbeVersions is how many versions of its place probed looks at.
const maxProbeVersions = 16

// probed returns the instruction that the kprobe at addr is on, as it was before t without the
// probe: without its trap, and without the jump of an optimised probe. It returns false if that
// is not known.
func (c *Cursor) probed(addr, t uint64) (disasm.Inst, bool) {
	for range maxProbeVersions {
		var code [instRoom]byte
		b := c.Read(addr, t, code[:])
		if b.Given == 0 {
			return disasm.Inst{}, false
		}
		inst := c.decoder.Decode(code[:b.Given], addr)
		optimised := inst.Class == disasm.Jump && c.isOutOfLine(inst.Target, t)
		if len(inst.Bytes) < len(code) { // what follows the instruction does not matter
			var only [instRoom]byte
			b = c.Read(addr, t, only[:len(inst.Bytes)])
		}
		if inst.Class != disasm.Trap && !optimised {
			return inst, !inst.Data && b.Standing == timeline.Known // or it may be another one
		}
		if b.Since == 0 {
			break
		}
		t = b.Since - 1
	}
	return disasm.Inst{}, false
}
