// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"encoding/binary"
	"slices"
	"testing"
)

// A step is an instruction that a CPU executed.
type step struct {
	id    uint32 // of the instruction
	event event  // what came after it
	tsc   uint64
	from  uint64 // of an interrupt: where it came
}

type event uint8

const (
	none      event = iota
	interrupt       // or an exception: the next step is its handler
	userMode        // the next step comes from user mode
)

// Exceptions that push an error code.
var pushesError = []string{
	"asm_exc_page_fault", "asm_exc_general_protection", "asm_exc_invalid_tss", "asm_exc_segment_not_present",
	"asm_exc_stack_segment", "asm_exc_alignment_check", "asm_exc_double_fault", "asm_exc_control_protection",
}

// readExecution reads what each CPU executed from the log in dir: trace.bin and insns.txt,
// which the README.md of x86_64/exec describes. Instructions that were begun and ended in a
// fault, and the further iterations of a repeated one, are left out, as in a trace.
func readExecution(t *testing.T, dir string) (insns []instruction, byCPU [][]step) {
	t.Helper()
	list := readList(t, dir)
	insns = list.insns
	entries := list.entryNames(t)

	// One instruction of each CPU waits for the frame that an interrupt may have pushed.
	type cpu struct {
		steps  []step
		have   bool
		next   step
		frame  [4]uint64
		pushed int
	}
	var cpus []*cpu
	enter := func(c *cpu) {
		if !c.have {
			return
		}
		c.have = false
		x := &insns[c.next.id]
		name, entry := entries[x.ip]
		if !entry && c.pushed > 0 {
			entry, name = true, "irq_entry"
		}
		if len(c.steps) == 0 {
			c.steps = append(c.steps, c.next)
			return
		}
		last := &c.steps[len(c.steps)-1]
		a := &insns[last.id]
		if to, ok := directTarget(a); ok && to == x.ip {
			entry = false
		}
		switch {
		case entry && name == "entry_SYSCALL_64":
			last.event = userMode
		case entry:
			frame := c.frame[:]
			if slices.Contains(pushesError, name) {
				frame = frame[1:]
			}
			rip, cs := frame[0], frame[1]
			if cs&3 == 3 {
				last.event = userMode
				break
			}
			if a.bytes[0] == 0xcc && rip == a.ip+1 && name == "asm_exc_int3" {
				break // where the last instruction leads
			}
			if rip == a.ip && (name == "asm_exc_page_fault" || name == "asm_exc_general_protection" || name == "asm_exc_invalid_op" || repeats(a.bytes)) {
				// Not retired.
				c.steps = c.steps[:len(c.steps)-1]
				if len(c.steps) == 0 {
					c.steps = append(c.steps, c.next)
					return
				}
				last = &c.steps[len(c.steps)-1]
			}
			last.event, last.from = interrupt, rip
		case x.ip == a.ip && last.event == none && repeats(a.bytes):
			return
		}
		c.steps = append(c.steps, c.next)
	}

	eachRecord(t, dir, func(_ []byte, rec logged) {
		for int(rec.cpu) >= len(cpus) {
			cpus = append(cpus, new(cpu))
		}
		c := cpus[rec.cpu]
		if rec.kind == 1 { // a word of the frame
			c.frame[rec.index&3] = rec.value
			c.pushed++
			return
		}
		enter(c)
		c.have, c.next, c.pushed, c.frame = true, step{id: rec.id, tsc: rec.value}, 0, [4]uint64{}
	})
	for _, c := range cpus {
		enter(c)
		byCPU = append(byCPU, c.steps)
	}
	return insns, byCPU
}

// directTarget returns where a direct branch or call leads.
func directTarget(x *instruction) (uint64, bool) {
	b := x.bytes
	i := 0
	for i < len(b)-1 && (slices.Contains([]byte{0x66, 0xf2, 0xf3, 0x2e, 0x3e, 0x65, 0x64, 0xf0, 0x36, 0x26}, b[i]) || b[i]&0xf0 == 0x40) {
		i++
	}
	end := x.ip + uint64(len(b))
	switch {
	case b[i] == 0xeb && len(b) >= i+2:
		return end + uint64(int64(int8(b[len(b)-1]))), true
	case (b[i] == 0xe8 || b[i] == 0xe9) && len(b) >= i+5:
		return end + uint64(int64(int32(binary.LittleEndian.Uint32(b[len(b)-4:])))), true
	}
	return 0, false
}

// repeats reports whether an instruction is a string instruction with a REP prefix.
func repeats(b []byte) bool {
	rep := slices.ContainsFunc(b, func(c byte) bool { return c == 0xf2 || c == 0xf3 })
	return rep && slices.ContainsFunc(b, func(c byte) bool {
		return c >= 0xa4 && c <= 0xa7 || c == 0xaa || c == 0xab || c >= 0x6c && c <= 0x6f
	})
}
