// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"bytes"

	"golang.org/x/arch/x86/x86asm"
)

// endbr is endbr64, which x86asm does not know.
var endbr = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// CodeEnd returns the length in bytes of the x86-64 code that begins at code[0], which is
// at addr. The code ends with a return, or a jump out of it, if no jump before leads behind
// that. A BPF trampoline ends so; what follows in its memory is not part of it. ok is
// false if code has no such end, or an instruction that cannot be decoded.
func CodeEnd(code []byte, addr uint64) (n int, ok bool) {
	far := 0 // the farthest place that a jump leads to
	for n < len(code) {
		if bytes.HasPrefix(code[n:], endbr) {
			n += len(endbr)
			continue
		}
		in, err := x86asm.Decode(code[n:], 64)
		if err != nil || in.Op == x86asm.INT && code[n] == INT3 {
			return 0, false
		}
		n += in.Len
		rel, branches := in.Args[0].(x86asm.Rel)
		target := n + int(rel)
		inside := branches && target >= 0 && target < len(code)
		switch {
		case in.Op == x86asm.CALL:
		case in.Op == x86asm.RET, in.Op == x86asm.JMP && !inside:
			if far < n {
				return n, true
			}
		case inside:
			far = max(far, target)
		}
	}
	return 0, false
}
