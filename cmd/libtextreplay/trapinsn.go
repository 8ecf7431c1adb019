// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package main

import (
	"debug/elf"

	"github.com/textreplay/textreplay/internal/patching"
)

// trapInsn returns the instruction by which the machine's kernel traps while it writes text,
// nil if its bytes are not known here.
func trapInsn(machine elf.Machine) []byte {
	switch machine {
	case elf.EM_X86_64, elf.EM_386:
		return []byte{patching.INT3}
	}
	return nil
}
