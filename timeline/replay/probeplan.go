// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/kcore"
)

// A ProbePlan says how to record the changes of text of a kernel, by kprobe events on
// functions that each change goes through.
type ProbePlan struct {
	Machine elf.Machine
	// Definitions are lines for kprobe_events of tracefs, and Events the names of these
	// events, in the order in which perf must open them.
	Definitions, Events []string
	// Writers are the functions whose changes can be read from the samples. Others also
	// map text for writing; of their changes only the time and perhaps the place is known.
	Writers, Others []ProbeWriter
	// Checks is set if the kernel records text pokes, so that the samples serve to check
	// these only.
	Checks bool
}

// IsPart reports whether the event of this index in Events is hit by some of the changes only: by those of BPF
// programs.
func (p *ProbePlan) IsPart(event int) bool { return p.Definitions[event] == defineCopy }

// A ProbeWriter is a function that changes text.
type ProbeWriter struct {
	Name string
	Text string // what its code says, or why it could not be decoded
}

// ErrNoProbes is wrapped by the errors of [PlanProbes] for a kernel whose changes probes
// cannot record.
var ErrNoProbes = errors.New("probes cannot record this kernel's changes of text")

// noProbes returns an error that wraps ErrNoProbes.
func noProbes(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrNoProbes, fmt.Sprintf(format, args...))
}

// The definitions of the events. Their fields are those that probeEventOf looks for.
const (
	defineARM64  = "p:tp/map __set_fixmap idx=%x0:x64 phys=%x1:x64 lr=%x30:x64 va=+24($stack):x64 now=+0(+24($stack)):x64 x19=%x19:x64 at19=+0(%x19):x64 st=+0($stack):x64[10]"
	defineX20    = "p:tp/map __set_fixmap idx=%x0:x64 phys=%x1:x64 lr=%x30:x64 x20=%x20:x64 at20=+0(%x20):x64 st=+0($stack):x64[10]"
	defineCopy   = "p:tp/poke __text_poke func=%x0:x64 addr=%x1:x64 len=%x3:u64 b=+0(%x2):x64[60]"
	definePPC    = "p:tp/map %[4]s lr=%%link:x64 mm=%%gpr3:x64 uaddr=%%gpr4:x64 r%[1]d=%%gpr%[1]d:x64 at%[1]d=+0(%%gpr%[1]d):x64 r%[2]d=%%gpr%[2]d:x64 r%[3]d=%%gpr%[3]d:x64"
	defineWrites = "p:tp/poke __text_poke addr=%si:x64 len=%cx:u64 b=+0(%dx):x8[16] now=+0(%si):x8[16]"
	defineAfter  = "p:tp/clr radix__local_flush_tlb_page_psize lr=%%link:x64 mm=%%gpr3:x64 uaddr=%%gpr4:x64 r%[2]d=%%gpr%[2]d:x64 r%[3]d=%%gpr%[3]d:x64"
)

// PlanProbes checks the code of a kernel, and returns the probes that record its changes
// of text. core has the kernel's text, k its symbols with their addresses. The error wraps
// [ErrNoProbes] if there is no plan for this kernel.
func PlanProbes(core *kcore.Core, k *kcore.Kallsyms) (*ProbePlan, error) {
	if _, _, ok := k.Text(); !ok {
		return nil, noProbes("kallsyms does not say where kernel text is")
	}
	c := newProbeCode(core, k)
	p := &ProbePlan{Machine: core.Machine}
	switch core.Machine {
	case elf.EM_AARCH64:
		return p, p.arm64(&c)
	case elf.EM_PPC64:
		return p, p.ppc64(&c)
	case elf.EM_X86_64:
		return p, p.x86(&c)
	case elf.EM_S390:
		return nil, noProbes("s390 writes text in functions that kprobes refuse (docs/probes.md)")
	case elf.EM_RISCV:
		return nil, noProbes("riscv writes text in functions that kprobes refuse (docs/probes.md)")
	}
	return nil, noProbes("the writers of %v are not known", core.Machine)
}

// x86 plans to compare text pokes with what __text_poke writes. Since 5.19 its arguments are
// a function, the address, the bytes and their number; the kernel then has
// text_poke_memcpy, one of these functions.
func (p *ProbePlan) x86(c *probeCode) error {
	if c.one("__text_poke") == 0 || c.one("text_poke_memcpy") == 0 {
		return noProbes("kernels of x86-64 record text pokes, and this one has no __text_poke of 5.19 or newer to compare them with")
	}
	p.Checks = true
	p.Definitions, p.Events = []string{defineWrites}, []string{"tp:poke"}
	p.Writers = []ProbeWriter{{"__text_poke", "its text pokes are recorded, and textreplay verify compares them with what it writes"}}
	return nil
}

// arm64 plans for the callers of __set_fixmap.
func (p *ProbePlan) arm64(c *probeCode) error {
	function := c.one("__set_fixmap")
	if function == 0 || c.one("copy_to_kernel_nofault") == 0 {
		return noProbes("it has no functions __set_fixmap and copy_to_kernel_nofault")
	}
	met := make(map[string]bool)
	calls := slices.Collect(c.callsARM64(function))
	registers := make(map[string]bool)
	for _, lr := range calls {
		sym, _, ok := c.k.Find(lr - 4)
		if !ok {
			continue
		}
		if d := c.arm64(lr); d.ok {
			p.Writers = append(p.Writers, ProbeWriter{sym.Name, fmt.Sprintf("%d bytes at the stack pointer + %d", d.w.Len, d.w.Offset)})
			met[sym.Name] = true
			registers[c.writerRegister(lr, calls)] = true
		} else if !met[sym.Name] {
			met[sym.Name] = true
			p.Others = append(p.Others, ProbeWriter{sym.Name, "not of the form that is known"})
		}
	}
	p.Others = slices.DeleteFunc(p.Others, func(o ProbeWriter) bool {
		return slices.ContainsFunc(p.Writers, func(w ProbeWriter) bool { return w.Name == o.Name })
	})
	if len(p.Writers) == 0 {
		return noProbes("no caller of __set_fixmap could be decoded as a writer of text")
	}
	define := defineARM64
	switch {
	case registers["x20"]:
		define = defineX20
	case !registers["x19"] && !registers["stack"]:
		return noProbes("no writer of text could be decoded as one that keeps the address where a probe can read it")
	}
	if c.one("__text_poke") != 0 {
		p.Definitions, p.Events = append(p.Definitions, defineCopy), append(p.Events, "tp:poke")
	}
	p.Definitions, p.Events = append(p.Definitions, define), append(p.Events, "tp:map")
	return nil
}

// writerRegister returns the name of the register that has the address at BEFORE, of the writer
// whose AFTER returns to lr (placeRegister); "" if the code does not show it. calls is what all
// calls of __set_fixmap return to. The writer makes the BEFORE itself, or calls a function that does.
func (c *probeCode) writerRegister(lr uint64, calls []uint64) string {
	at, code := c.function(lr)
	for _, before := range calls {
		mapper, _ := c.function(before)
		if mapper == 0 || c.arm64(before).ok {
			continue
		}
		if mapper == at {
			for caller := range c.callsARM64(at) {
				if reg := c.placeRegister(before, caller); reg != "" {
					return reg
				}
			}
			continue
		}
		for i := uint64(0); i+4 <= uint64(len(code)); i += 4 {
			if patching.ARM64Target(at, code, at+i) == mapper {
				if reg := c.placeRegister(before, at+i+4); reg != "" {
					return reg
				}
			}
		}
	}
	return ""
}

// ppc64 plans for patch_mem.
func (p *ProbePlan) ppc64(c *probeCode) error {
	name := c.lockedPTE()
	function, unmap := c.one(name), c.one("radix__local_flush_tlb_page_psize")
	if function == 0 || unmap == 0 || c.one("patch_mem") == 0 {
		return noProbes("it has no functions patch_mem, get_locked_pte and radix__local_flush_tlb_page_psize (powerpc has them since 6.13 or in distributions' 6.12, with the radix MMU)")
	}
	var w patching.PPC64Writer
	met := make(map[string]bool)
	for at, x := range c.words() {
		if x>>26 != 18 || x&3 != 1 {
			continue
		}
		if to := at + uint64(int64(int32(x<<6)>>6)&^3); to != function && to != function+8 {
			continue
		}
		sym, _, ok := c.k.Find(at)
		if !ok || met[sym.Name] {
			continue
		}
		met[sym.Name] = true
		d, ok := c.ppc64(at + 4)
		switch {
		case ok:
			w = d
			p.Writers = append(p.Writers, ProbeWriter{sym.Name, fmt.Sprintf("the address is in r%d, the word in r%d, whether it is 8 bytes long in r%d", d.Addr, d.Value, d.Doubleword)})
		case c.writesPrograms(at+4, 0):
			p.Others = append(p.Others, ProbeWriter{sym.Name, "writes BPF programs only"})
		default:
			p.Others = append(p.Others, ProbeWriter{sym.Name, "not of the form that is known"})
		}
	}
	if len(p.Writers) == 0 {
		return noProbes("patch_mem could not be decoded as a writer of text")
	}
	p.Definitions = []string{fmt.Sprintf(defineAfter, w.Addr, w.Value, w.Doubleword), fmt.Sprintf(definePPC, w.Addr, w.Value, w.Doubleword, name)}
	p.Events = []string{"tp:clr", "tp:map"}
	return nil
}
