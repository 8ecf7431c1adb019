// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"

	"github.com/textreplay/textreplay/kcore"
)

// An architecture is that of the recorded kernel. All that replay does
// differently for one or another is decided by its methods.
type architecture struct {
	name    string      // as uname -m prints it; "" if the recording does not say
	machine elf.Machine // EM_NONE if it does not say
}

// architectureOf returns the architecture of a kernel: the one of its copy, or
// without a copy the one that is named. core may be nil. A guest's architecture
// is named by its copy alone.
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

// recordsPokes reports whether the kernels of the architecture are known to
// record their changes of text in place: perf_event_text_poke is called by
// arch/x86 alone, and for ftrace's trampolines (kernel/trace/ftrace.c).
func (a architecture) recordsPokes() bool { return a.name == "x86_64" }

// silent reports whether they are known not to record all of them.
func (a architecture) silent() bool { return a.name != "" && !a.recordsPokes() }

// hasCallThunks reports whether its kernels can have call thunks
// (arch/x86/kernel/callthunks.c).
func (a architecture) hasCallThunks() bool { return a.name == "x86_64" }

// hasWords reports whether instructions are words, each replaced by one store,
// in no batches.
func (a architecture) hasWords() bool {
	switch a.machine {
	case elf.EM_AARCH64, elf.EM_PPC64, elf.EM_S390:
		return true
	}
	return false
}

// hasOpsLiterals reports whether there can be pointers to ftrace_ops in text
// (arch/arm64/kernel/ftrace.c).
func (a architecture) hasOpsLiterals() bool { return a.machine == elf.EM_AARCH64 }

// hasSequences reports whether one change can take several pokes
// (-mprofile-kernel of powerpc).
func (a architecture) hasSequences() bool { return a.machine == elf.EM_PPC64 }

// hasServices reports whether the code of slots and trampolines can be read.
func (a architecture) readsTrampolines() bool { return a.name == "x86_64" }

// Machine returns the ELF machine of the recorded kernel: the snapshot's, or
// what the recording's ARCH says; EM_NONE where nothing says so.
func (r *Replay) Machine() elf.Machine { return r.arch.machine }

// machineNamed returns the machine of an architecture as uname -m names it.
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

// nameOf names the architecture of a core file as uname -m does; "" if it is
// none that is known here.
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
