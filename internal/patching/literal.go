// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import "encoding/binary"

// Words at the entry of an arm64 function that can be traced.
const (
	arm64BTIC  = 0xd503245f
	arm64Saves = 0xaa1e03e9 // mov x9, x30: keeps the return address of the caller
)

// OpsLiteral reads the pointer to an ftrace_ops that code begins with: 8 bytes
// of data before the entry of an arm64 function that can be traced. ok is false
// where code shows no such pointer or no such entry. order is that of data.
func OpsLiteral(order binary.ByteOrder, code []byte) (ops uint64, ok bool) {
	const pointer = 0xfff // how all of the kernel's begin
	if len(code) < 16 {
		return 0, false
	}
	if ops = order.Uint64(code); ops>>52 != pointer || ops&7 != 0 {
		return 0, false
	}
	entry := code[8:]
	if binary.LittleEndian.Uint32(entry) == arm64BTIC {
		entry = entry[4:]
	}
	if len(entry) < 8 {
		return 0, false
	}
	first, site := binary.LittleEndian.Uint32(entry), binary.LittleEndian.Uint32(entry[4:])
	const bl = 0b100101
	return ops, (first == arm64Saves || first == arm64NOP || first&arm64BRKMask == arm64BRK) && (site == arm64NOP || site>>26 == bl)
}
