// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"debug/elf"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
)

// What audit checks on arm64 and powerpc, where instructions are words and kprobes' slots are filled as
// any text is changed.

// An armedProbe is a kprobe whose trap is in text.
type armedProbe struct {
	insn string // that the trap replaced
	slot uint64 // that holds the same instruction; 0 if it is not known which
	time uint64 // of the change
}

// probeSlots is what the slots of kprobes hold, and the probes that they serve.
type probeSlots struct {
	armed  map[uint64]armedProbe          // by the probe's address
	serves map[uint64]uint64              // the armed probe's address, by the slot's
	holds  map[uint64]string              // the instruction, by the slot's address
	spare  map[string]map[uint64]struct{} // the slots that hold an instruction and serve no armed probe
}

func newProbeSlots() probeSlots {
	return probeSlots{make(map[uint64]armedProbe), make(map[uint64]uint64), make(map[uint64]string), make(map[string]map[uint64]struct{})}
}

// free makes slot one that holds an instruction and serves no probe.
func (s *probeSlots) free(slot uint64, insn string) {
	if s.spare[insn] == nil {
		s.spare[insn] = make(map[uint64]struct{})
	}
	s.spare[insn][slot] = struct{}{}
}

// release forgets the armed probe at addr, and returns it.
func (s *probeSlots) release(addr uint64) (armedProbe, bool) {
	probe, ok := s.armed[addr]
	if delete(s.armed, addr); ok && probe.slot != 0 {
		delete(s.serves, probe.slot)
		s.free(probe.slot, s.holds[probe.slot])
	}
	return probe, ok
}

// arm notes that p puts the trap of a kprobe into text. Its slot is the only one that holds the
// instruction and serves no other probe.
func (a *auditor) arm(p *perfdata.TextPoke) {
	if a.x86() {
		return
	}
	s, probe := &a.probes, armedProbe{insn: string(p.Old), time: p.Time}
	s.release(p.Addr)
	if slots := s.spare[probe.insn]; len(slots) == 1 {
		for probe.slot = range slots {
			s.serves[probe.slot] = p.Addr
		}
		delete(slots, probe.slot)
	}
	s.armed[p.Addr] = probe
}

// disarm checks that p restores the instruction that was there when the probe was armed
// (arch_disarm_kprobe).
func (a *auditor) disarm(p *perfdata.TextPoke) Fault {
	probe, ok := a.probes.release(p.Addr)
	if ok && probe.insn != string(p.New) {
		a.since = probe.time
		return NoForm
	}
	return 0
}

// fill checks that the slot which p fills is not that of an armed probe. The kernel frees a slot after
// the probe is disarmed and unregistered (arch_remove_kprobe).
func (a *auditor) fill(p *perfdata.TextPoke) Fault {
	s := &a.probes
	if addr, ok := s.serves[p.Addr]; ok {
		a.since = s.armed[addr].time
		return SlotChanged
	}
	delete(s.spare[s.holds[p.Addr]], p.Addr)
	s.holds[p.Addr] = string(p.New)
	s.free(p.Addr, s.holds[p.Addr])
	return 0
}

// isProfiled reports whether a call of powerpc's ftrace is behind the instructions that save the link
// register, as ftrace itself checks (ftrace_init_nop of arch/powerpc/kernel/trace/ftrace.c). It
// reports true if it is not known what is there.
func (a *auditor) isProfiled(p *perfdata.TextPoke) bool {
	if a.machine != elf.EM_PPC64 {
		return true
	}
	before, ok := a.word(p.Addr-4, p.Time)
	if ok && before == patching.PowerpcNOP { // GCC 5 has a store in between, which ftrace removes
		before, ok = a.word(p.Addr-8, p.Time)
	}
	return !ok || before == patching.PowerpcMFLR || before == ppcSaveLink
}

// relocation checks where the branch or the stub leads that p gives a module which is being loaded.
func (a *auditor) relocation(p *perfdata.TextPoke, is effect) (Fault, uint64) {
	if is.leads() { // to the module itself
		if to := a.at(is.target, p.Time); a.inCore(is.target) || to.kind.dynamic() {
			return WrongTarget, is.target
		}
		return 0, 0
	}
	// The address of a function is complete when the stub has its magic number.
	stub := p.Addr - 4*ppcStubMagicAt
	if !a.beginsStub(a.ppc.stub, stub, len(a.ppc.stub), p.Time) && !a.beginsStub(ppcStubPCREL, stub, len(ppcStubPCREL), p.Time) {
		return 0, 0
	}
	target, ok := a.stubTarget(stub, p.Time)
	if !ok {
		return 0, 0
	}
	if to := a.at(target, p.Time); to.kind.dynamic() || to.kind == text && target != to.lo {
		return WrongTarget, target
	}
	return 0, 0
}

// loadsTOC reports whether a module's load of r2 is written, behind a call that is not known.
func (a *auditor) loadsTOC(p *perfdata.TextPoke) bool {
	_, new, ok := a.words(p)
	_, known := a.word(p.Addr-4, p.Time)
	return ok && new == a.ppc.loadTOC && !known
}

// followLoading checks that the change that a thread makes after a load of r2 in a module is of the call
// in front of it: apply_relocate_add writes one after the other.
func (a *auditor) followLoading(p *perfdata.TextPoke) {
	v, ok := a.loading[p.TID]
	if !ok {
		return
	}
	delete(a.loading, p.TID)
	if old, _, ok := a.words(p); !ok || old != ppcCallOfItself || p.Addr != v.Addr-4 {
		a.a.add(v)
	}
}
