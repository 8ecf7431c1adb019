// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// TestLibiptClocks: where clocks differ, a CPU may run the old side of a change long after the
// time of its record, or the new one before it. The trace says which; the adapter decodes both,
// while a change is in flight, with both decoders of libipt.
func TestLibiptClocks(t *testing.T) {
	exe := ptdecode(t)
	const at = uint64(genperf.TextAddr)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: at, CPUs: 2,
		Text: bytes.Repeat([]byte{0x90}, 4096), Symbols: []kcore.ELFSymbol{{Name: "f", Addr: at}, {Name: "end", Addr: at + 4095}}}
	var insns []instruction
	add := func(addr uint64, code ...byte) uint32 {
		insns = append(insns, instruction{ip: at + addr, bytes: code})
		return uint32(len(insns) - 1)
	}
	put := func(addr uint64, code ...byte) uint32 {
		copy(k.Text[addr:], code)
		return add(addr, code...)
	}
	// A static key: a NOP, or a jump to a block elsewhere. Only one way has a conditional branch, so
	// the trace shows which one was taken.
	nop := put(0x40, 0x0f, 0x1f, 0x44, 0, 0)
	test := put(0x45, 0x74, 0x02)
	off := put(0x47, 0xff, 0xe0)
	jump := add(0x40, 0xe9, 0x16, 0, 0, 0)
	on := put(0x5b, 0xff, 0xe2)
	// A static call, whose sides differ in the last bytes of the instruction only: CALL is e8 in both.
	call1 := put(0x80, 0xe8, 0x7b, 0, 0, 0)
	call2 := add(0x80, 0xe8, 0x8b, 0, 0, 0)
	back := put(0x85, 0xff, 0xe6)
	test1 := put(0x100, 0x74, 0x02)
	fn1 := put(0x102, 0xc3)
	fn2 := put(0x110, 0xc3)

	path := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	tickNanoseconds(t, w)
	poke := func(time uint64, cpu uint32, addr uint64, old, new []byte) {
		if err := w.TextPoke(&perfdata.TextPoke{Addr: at + addr, Old: old, New: new, SampleID: w.ID(time, cpu, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	const change = uint64(5e9)
	poke(2_000_000_000, 0, 16, []byte{0x90, 0x90}, []byte{0x90, 1})
	poke(2_999_000_000, 1, 16, []byte{0x90, 2}, []byte{0x90, 3}) // it was made after the next one
	poke(3_000_000_000, 0, 16, []byte{0x90, 1}, []byte{0x90, 2})
	poke(change, 0, 0x40, insns[nop].bytes, insns[jump].bytes)
	poke(change, 0, 0x80, insns[call1].bytes, insns[call2].bytes)
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	// Each run of the loop executes both sites, 10 µs after the one before, from 20 ms before the
	// records of the changes to 20 ms after them. CPUs see the changes at another time.
	for _, seen := range []int64{-900_000, -1_000, 0, 1_000, 900_000, 15_000_000} {
		var steps []step
		for time := change - 20e6; time < change+20e6; time += 10_000 {
			ids := []uint32{nop, test, off, call1, test1, fn1, back}
			if int64(time-change) >= seen {
				ids = []uint32{jump, on, call2, fn2, back}
			}
			for _, id := range ids {
				steps = append(steps, step{id: id, tsc: time})
			}
		}
		for _, form := range []traceForm{{6, 0, 1 << 10}, {6, 100_000, 1 << 12}} {
			file := filepath.Join(t.TempDir(), "cpu.pt")
			if err := os.WriteFile(file, encodeTrace(insns, steps, form), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, mode := range [][]string{nil, {"-b"}} {
				t.Run(fmt.Sprint(seen, form.tsc, mode), func(t *testing.T) {
					decode(t, exe, path, []string{file}, insns, [][]step{steps}, mode...)
				})
			}
		}
	}
}

// TestLibiptBackAndForth: between two packets with a time, a place gets back the instruction that it
// had before an earlier change, whose window is open, too. The adapter is offered it as the new side
// of the later change.
func TestLibiptBackAndForth(t *testing.T) {
	exe := ptdecode(t)
	const at = uint64(genperf.TextAddr)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: at, CPUs: 1,
		Text: bytes.Repeat([]byte{0x90}, 4096), Symbols: []kcore.ELFSymbol{{Name: "f", Addr: at}, {Name: "end", Addr: at + 4095}}}
	var insns []instruction
	put := func(addr uint64, code ...byte) uint32 {
		copy(k.Text[addr:], code)
		insns = append(insns, instruction{ip: at + addr, bytes: code})
		return uint32(len(insns) - 1)
	}
	// The jump leads to a conditional branch: where the trace has no outcome, it was not taken.
	jump := put(0x40, 0xeb, 0x02)
	nop := put(0x40, 0x66, 0x90)
	off := put(0x42, 0xff, 0xe0)
	test := put(0x44, 0x74, 0x00)
	on := put(0x46, 0xff, 0xe0)
	path := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(path)
	if err != nil {
		t.Fatal(err)
	}
	tickNanoseconds(t, w)
	const toJump, start, toNop, end = 2_000_010_000, 2_000_010_100, 2_000_030_500, 2_000_050_000
	for _, err := range []error{
		w.Poke(toJump, at+0x40, insns[nop].bytes, insns[jump].bytes),
		w.Poke(toNop, at+0x40, insns[jump].bytes, insns[nop].bytes),
		w.End(9e9),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var steps []step
	for time := uint64(start); time < end; time += 10 {
		ids := []uint32{jump, test, on}
		if time >= toNop {
			ids = []uint32{nop, off}
		}
		for _, id := range ids {
			steps = append(steps, step{id: id, tsc: time})
		}
	}
	file := filepath.Join(t.TempDir(), "cpu.pt")
	if err := os.WriteFile(file, encodeTrace(insns, steps, traceForm{6, 1000, 1 << 10}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range [][]string{nil, {"-b"}} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			decode(t, exe, path, []string{file}, insns, [][]step{steps}, mode...)
		})
	}
}

// tickNanoseconds writes the record by which a tick of the time-stamp counter is a nanosecond.
func tickNanoseconds(t *testing.T, w *genperf.Recorder) {
	t.Helper()
	conv := binary.LittleEndian.AppendUint32(nil, uint32(perfdata.RecordTimeConv))
	conv = append(conv, 0, 0, 56, 0)
	for _, v := range []uint64{0, 1, 0, 0, 0} { // a tick is a nanosecond
		conv = binary.LittleEndian.AppendUint64(conv, v)
	}
	if err := w.WriteRecord(append(conv, 1, 0, 0, 0, 0, 0, 0, 0)); err != nil {
		t.Fatal(err)
	}
}
