// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"
	"encoding/binary"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/kcore"
)

// An architecture is that of the recorded kernel. Its methods decide everything that
// replay does differently per architecture.
type architecture struct {
	name    string      // as uname -m prints it; "" if unknown
	machine elf.Machine // EM_NONE if unknown
}

// architectureOf returns the architecture of the kernel in core, or without a core the
// one that name names. core may be nil. For a guest, only the core gives the
// architecture.
func architectureOf(core *kcore.Core, name string) architecture {
	a := architecture{name: name, machine: machineNamed(name)}
	if core != nil {
		a.machine = core.Machine
		if name == "" {
			a.name = nameOf(core)
		}
	}
	return a
}

// recordsPokes reports whether kernels of the architecture record their changes of text
// in place. Only arch/x86 calls perf_event_text_poke, and ftrace for its trampolines
// (kernel/trace/ftrace.c).
func (a architecture) recordsPokes() bool { return a.name == "x86_64" }

// hasOwnClocks reports whether each CPU of the architecture may have a clock of its own, which
// perf's own clock is then made of (CONFIG_HAVE_UNSTABLE_SCHED_CLOCK).
func (a architecture) hasOwnClocks() bool { return a.name == "" || a.name == "x86_64" }

// silent reports whether kernels of the architecture do not record all changes of text.
func (a architecture) silent() bool { return a.name != "" && !a.recordsPokes() }

// hasCallThunks reports whether kernels of the architecture can have call thunks
// (arch/x86/kernel/callthunks.c).
func (a architecture) hasCallThunks() bool { return a.name == "x86_64" }

// mapsModuleText reports whether perf may map only a module's text, which may begin inside the
// module: on s390 (arch__fix_module_text_start() in tools/perf/arch/s390/util/machine.c).
func (a architecture) mapsModuleText() bool { return a.name == "" || a.name == "s390x" }

// instructions returns the function of [timeline.Builder.Instructions], nil if the rules need none.
func (a architecture) instructions() func(code []byte, addr uint64) int {
	if a.name != "x86_64" {
		return nil
	}
	d, err := disasm.New(elf.EM_X86_64, binary.LittleEndian)
	if err != nil {
		return nil
	}
	return func(code []byte, addr uint64) int {
		if inst := d.Decode(code, addr); !inst.Data {
			return len(inst.Bytes)
		}
		return 0
	}
}

// tellArchitecture tells the builder what kernels of the architecture do.
func (s *scan) tellArchitecture() {
	s.b.SilentPokes(s.arch.silent())
	s.b.CallThunks(s.arch.hasCallThunks())
	s.b.Instructions(s.arch.instructions())
}

// hasWords reports whether instructions are words. Such kernels replace each word with
// one store, not in batches.
func (a architecture) hasWords() bool {
	switch a.machine {
	case elf.EM_AARCH64, elf.EM_PPC64, elf.EM_S390:
		return true
	}
	return false
}

// hasOpsLiterals reports whether text can hold pointers to ftrace_ops
// (arch/arm64/kernel/ftrace.c).
func (a architecture) hasOpsLiterals() bool { return a.machine == elf.EM_AARCH64 }

// hasSequences reports whether one change can take several pokes
// (-mprofile-kernel of powerpc).
func (a architecture) hasSequences() bool { return a.machine == elf.EM_PPC64 }

// probedARM64 and probedPPC64 report whether probes can record the changes of text of such
// kernels (rule probes), with the events of arm64 or of powerpc.
func (a architecture) probedARM64() bool { return a.name == "aarch64" }
func (a architecture) probedPPC64() bool { return a.name == "ppc64" || a.name == "ppc64le" }

// readsTrampolines reports whether replay can read the code of slots and trampolines.
func (a architecture) readsTrampolines() bool { return a.name == "x86_64" }

// architecture returns the architecture that Report.Arch names.
func (r *Report) architecture() architecture { return architectureOf(nil, r.Arch) }

// LongestCall is how many bytes a call before a return address takes at most in x86-64 kernel text.
const LongestCall = 5

// Machine returns the ELF machine of the recorded kernel, from the snapshot or from the
// recording's ARCH. It returns EM_NONE if unknown.
func (r *Replay) Machine() elf.Machine { return r.arch.machine }

// machineNamed returns the machine of an architecture that uname -m names.
func machineNamed(name string) elf.Machine {
	switch name {
	case "x86_64":
		return elf.EM_X86_64
	case "aarch64", "aarch64_be", "arm64":
		return elf.EM_AARCH64
	case "ppc64", "ppc64le":
		return elf.EM_PPC64
	case "s390x":
		return elf.EM_S390
	}
	return elf.EM_NONE
}

// nameOf returns the architecture of a core file as uname -m prints it, or "" if it is
// unknown.
func nameOf(core *kcore.Core) string {
	switch core.Machine {
	case elf.EM_X86_64:
		return "x86_64"
	case elf.EM_AARCH64:
		return "aarch64"
	case elf.EM_S390:
		return "s390x"
	case elf.EM_PPC64:
		if core.Data == elf.ELFDATA2LSB {
			return "ppc64le"
		}
		return "ppc64"
	}
	return ""
}
