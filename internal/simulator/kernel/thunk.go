// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"math/rand/v2"
)

// thunk returns what a call thunk before f consists of: SARQ $5 of the call depth
// (arch/x86/kernel/callthunks.c).
func (k *Kernel) thunk(f *Func) []byte {
	const depth = 0x21a40
	if k.CallThunks == OldThunks {
		b := []byte{0x65, 0x48, 0xc1, 0x3c, 0x25}
		return append(binary.LittleEndian.AppendUint32(b, depth), 5)
	}
	b := []byte{0x65, 0x48, 0xc1, 0x3d}
	at := f.Addr - 9
	return append(binary.LittleEndian.AppendUint32(b, uint32(depth-at-8)), 5)
}

// writeThunk writes the call thunk of a function that gets its first caller, with no
// record.
func (k *Kernel) writeThunk(f *Func) {
	if k.CallThunks == NoThunks || f.padding == 0 {
		return
	}
	b := k.thunk(f)
	k.write(f.Addr-uint64(len(b)), b)
}

// bootThunks writes the thunks of the functions that are called when the kernel boots.
func (k *Kernel) bootThunks(r *rand.Rand) {
	if k.CallThunks == NoThunks {
		return
	}
	for _, f := range k.Text.Funcs {
		if f.padding != 0 && r.IntN(4) > 0 {
			b := k.thunk(f)
			copy(k.Text.bytesAt(f.Addr-uint64(len(b))), b)
		}
	}
}

func (k *Kernel) funcAt(addr uint64) *Func {
	for _, f := range k.Text.Funcs {
		if f.Addr == addr {
			return f
		}
	}
	return nil
}
