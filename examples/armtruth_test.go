// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"encoding/binary"
	"testing"
)

// An armStep is an instruction that an arm64 CPU executed.
type armStep struct {
	id    uint32
	event event  // what came after it
	kind  byte   // of an interrupt: its type in a trace
	time  uint64 // CNTVCT
	from  uint64 // of an interrupt: where it returns to
}

func word(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

func isBRK(w uint32) bool { return w&0xffe0001f == 0xd4200000 }

// readArmExecution reads what each CPU executed from the log in dir, which testdata/etm/README.md
// describes. It leaves out instructions that ended in an exception, as a trace does, and counts
// those of them that are BRK.
func readArmExecution(t *testing.T, dir string) (insns []instruction, byCPU [][]armStep, traps int) {
	t.Helper()
	list := readList(t, dir)
	insns = list.insns
	vectors := uint64(0)
	for ip := range list.entryNames(t) {
		vectors = ip
	}
	eachRecord(t, dir, func(_ []byte, rec logged) {
		for int(rec.cpu) >= len(byCPU) {
			byCPU = append(byCPU, nil)
		}
		steps := &byCPU[rec.cpu]
		if rec.kind == 0 {
			*steps = append(*steps, armStep{id: rec.id, time: rec.value})
			return
		}
		// rec.value is ELR_EL1 at the entry of a vector, which is the last step.
		n := len(*steps)
		entry := insns[(*steps)[n-1].id].ip - vectors
		if n == 1 {
			return
		}
		last := &(*steps)[n-2]
		if entry >= 0x400 {
			last.event = userMode
			return
		}
		kind := [4]byte{etmDataFault, etmIRQ, etmFIQ, etmSystemError}[entry>>7&3]
		if x := &insns[last.id]; rec.value == x.ip && entry>>7&3 == 0 {
			// It ended in this exception.
			if isBRK(word(x.bytes)) {
				kind = etmInstDebug
				traps++
			}
			*steps = append((*steps)[:n-2], (*steps)[n-1])
			if n == 2 {
				return
			}
			last = &(*steps)[n-3]
			if last.event != none {
				// An exception right at the return of another: the trace has both, with
				// no instruction between, which this encoder does not write.
				t.Fatalf("two exceptions at %x", rec.value)
			}
		}
		last.event, last.kind, last.from = interrupt, kind, rec.value
	})
	return insns, byCPU, traps
}
