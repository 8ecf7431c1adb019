// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

// Words of powerpc (arch/powerpc/include/asm/ppc-opcode.h).
const (
	PowerpcNOP  = 0x60000000
	PowerpcTrap = 0x7fe00008 // BREAKPOINT_INSTRUCTION
	PowerpcMFLR = 0x7c0802a6 // mflr r0
)

// An I-form branch of powerpc is its opcode, 24 bits of distance in words, and
// two flags.
const (
	PowerpcB      = 0x48000000
	ppcBranchMask = 0xfc000003
	PowerpcLink   = 1
)

func ppcIsB(word uint32) bool { return word&ppcBranchMask == PowerpcB }

// IsPowerpcBL reports whether a word is a relative branch that links: a call.
func IsPowerpcBL(word uint32) bool { return word&ppcBranchMask == PowerpcB|PowerpcLink }
