// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"

	"github.com/textreplay/textreplay/kcore"
)

// Machine returns the ELF machine of the recorded kernel: the snapshot's, or
// what the recording's ARCH says; EM_NONE where nothing says so.
func (r *Replay) Machine() elf.Machine { return r.isa }

// machineOf is Machine for a core file, which may be nil, and an architecture
// as uname -m names it.
func machineOf(core *kcore.Core, arch string) elf.Machine {
	if core != nil {
		return core.Machine
	}
	switch arch {
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
