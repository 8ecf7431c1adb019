// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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
	text, err := os.Open(filepath.Join(dir, "insns.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	vectors := uint64(0)
	for sc := bufio.NewScanner(text); sc.Scan(); {
		f := strings.Fields(sc.Text())
		switch f[0] {
		case "I":
			ip, err := strconv.ParseUint(f[2], 16, 64)
			code, err2 := hex.DecodeString(f[4])
			if err != nil || err2 != nil || len(code) != 4 {
				t.Fatalf("insns.txt: %q", sc.Text())
			}
			insns = append(insns, instruction{ip, code})
		case "E":
			if vectors, err = strconv.ParseUint(f[1], 16, 64); err != nil {
				t.Fatalf("insns.txt: %q", sc.Text())
			}
		}
	}
	log, err := os.Open(filepath.Join(dir, "trace.bin"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r := bufio.NewReaderSize(log, 1<<20)
	var raw [16]byte
	for {
		if _, err := io.ReadFull(r, raw[:]); err != nil {
			break
		}
		value, id, w := binary.LittleEndian.Uint64(raw[:]), binary.LittleEndian.Uint32(raw[8:]), binary.LittleEndian.Uint32(raw[12:])
		for int(w&0xff) >= len(byCPU) {
			byCPU = append(byCPU, nil)
		}
		steps := &byCPU[w&0xff]
		if w>>8&0xff == 0 {
			*steps = append(*steps, armStep{id: id, time: value})
			continue
		}
		// value is ELR_EL1 at the entry of a vector, which is the last step.
		n := len(*steps)
		entry := insns[(*steps)[n-1].id].ip - vectors
		if n == 1 {
			continue
		}
		last := &(*steps)[n-2]
		if entry >= 0x400 {
			last.event = userMode
			continue
		}
		kind := [4]byte{etmDataFault, etmIRQ, etmFIQ, etmSystemError}[entry>>7&3]
		if x := &insns[last.id]; value == x.ip && entry>>7&3 == 0 {
			// It ended in this exception.
			if isBRK(word(x.bytes)) {
				kind = etmInstDebug
				traps++
			}
			*steps = append((*steps)[:n-2], (*steps)[n-1])
			if n == 2 {
				continue
			}
			last = &(*steps)[n-3]
			if last.event != none {
				// An exception right at the return of another: the trace has both, with
				// no instruction between, which this encoder does not write.
				t.Fatalf("two exceptions at %x", value)
			}
		}
		last.event, last.kind, last.from = interrupt, kind, value
	}
	return insns, byCPU, traps
}
