// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/arch/arm64/arm64asm"
)

// arm64 decodes A64. arm64asm knows the instructions and their aliases up to
// Armv8.0; the table of arm64_table.go those that it lacks, or of which it
// knows less than objdump.
type arm64 struct{}

func (arm64) directives() (word, xword string) { return ".word", ".xword" }

func (arm64) next(code []byte, addr uint64, sym Symbolizer) (Inst, bool) {
	if len(code) < 4 || addr&3 != 0 {
		return Inst{}, false
	}
	code = code[:4:4]
	word := binary.LittleEndian.Uint32(code)
	inst := Inst{Addr: addr, Bytes: code}
	b := make([]byte, 0, 64)
	if !a64Unallocated(word) {
		if b, ok := appendA64Entry(b, word); ok {
			inst.Text = string(b)
			return inst, true
		}
		if b, ok := appendA64System(b, word); ok {
			inst.Text = string(b)
			return inst, true
		}
		if dec, ok := decodeA64(code); ok {
			text := arm64Text{dec: &dec, addr: addr, sym: sym}
			text.write(&inst, b)
			return inst, true
		}
	}
	inst.Text = fmt.Sprintf(".inst 0x%08x", word)
	inst.Data = true
	return inst, true
}

// arm64asmLock is held while arm64asm decodes: arm64asm writes which rows of its
// table it used to a variable that all goroutines share.
var arm64asmLock sync.Mutex

// decodeA64 decodes an instruction with arm64asm.
func decodeA64(code []byte) (arm64asm.Inst, bool) {
	arm64asmLock.Lock()
	defer arm64asmLock.Unlock()
	dec, err := arm64asm.Decode(code)
	return dec, err == nil
}

// a64Unallocated reports whether arm64asm or the tables would take a word for
// an instruction that it is not. The sections are those of the Arm Architecture
// Reference Manual.
func a64Unallocated(word uint32) bool {
	field := func(lo, n int) uint32 { return word >> lo & (1<<n - 1) }
	switch {
	case word&0x1f800000 == 0x12000000: // logical (immediate)
		// A run of ones as long as the element would be all of it.
		n := bits.Len32(field(22, 1)<<6 | ^field(10, 6)&0x3f)
		return field(10, 6)|^uint32(0)<<max(n-1, 0) == ^uint32(0)
	case word&0x1f200000 == 0x0b200000: // add/subtract (extended register)
		return field(10, 3) > 4
	case word&0x3fe08000 == 0x08c08000: // ldar and its like
		return field(16, 4) != 15 || field(10, 5) != 31
	case word&0xfe400000 == 0x68400000: // ldpsw into one register, or into its own base
		rt, rn, rt2 := field(0, 5), field(5, 5), field(10, 5)
		writeBack := field(23, 1) == 1
		return rt == rt2 || writeBack && rn != 31 && (rn == rt || rn == rt2)
	case word&0xfb200c00 == 0x19000400: // memory copy and memory set
		rd, rn, rs := field(0, 5), field(5, 5), field(16, 5)
		isSet := field(22, 2) == 3 // sets bytes to what is in rs
		return rd == rn || rd == rs || rn == rs || rd == 31 || rn == 31 || rs == 31 && !isSet
	}
	return false
}

// arm64Text writes an instruction that arm64asm decoded.
//
// arm64asm.GNUSyntax does that too, but it does not know where the instruction
// lies, and it spaces memory operands in another way than objdump.
type arm64Text struct {
	dec  *arm64asm.Inst
	addr uint64
	sym  Symbolizer
}

// write sets inst's text and target. It builds the text in b.
func (f *arm64Text) write(inst *Inst, b []byte) {
	args := f.dec.Args[:]
	name := strings.ToLower(f.dec.Op.String())
	switch f.dec.Op {
	case arm64asm.B:
		if cond, ok := args[0].(arm64asm.Cond); ok {
			name += "." + condName(cond)
			args = args[1:]
		}
	case arm64asm.BFM:
		if f.dec.Enc>>5&0x1f == 31 { // bits of the zero register
			args = f.clearBits()
			name = "bfc"
		}
	case arm64asm.RET:
		if args[0] == arm64asm.X30 {
			args = nil
		}
	case arm64asm.ISB:
		if args[0] == arm64asm.Imm_option(15) {
			args = nil
		}
	case arm64asm.MOV:
		if f.isMoveWide() {
			name = "orr"
			zero := arm64asm.WZR
			if f.dec.Enc>>31 == 1 {
				zero = arm64asm.XZR
			}
			args = []arm64asm.Arg{args[0], zero, args[1]}
		}
	}
	b = append(b, name...)
	sep := " "
	for _, arg := range args {
		if arg == nil {
			break
		}
		start := len(b)
		b = append(b, sep...)
		n := len(b)
		if b = f.appendArg(b, arg, inst); len(b) == n { // an operand that goes without saying
			b = b[:start]
			continue
		}
		sep = ", "
	}
	if name == "mov" {
		b = f.appendDecimal(b)
	}
	inst.Text = string(b)
}

// clearBits returns the operands of bfc: the alias of bfm for bits of the zero
// register, which arm64asm does not know.
func (f *arm64Text) clearBits() []arm64asm.Arg {
	size := uint32(32) << (f.dec.Enc >> 31)
	immr, imms := f.dec.Enc>>16&0x3f, f.dec.Enc>>10&0x3f
	return []arm64asm.Arg{
		f.dec.Args[0],
		arm64asm.Imm{Imm: (size - immr) % size, Decimal: true},
		arm64asm.Imm{Imm: imms + 1, Decimal: true},
	}
}

// immediate returns the number that mov puts into a register.
func (f *arm64Text) immediate() (uint64, bool) {
	switch a := f.dec.Args[1].(type) {
	case arm64asm.Imm:
		return uint64(a.Imm), true
	case arm64asm.Imm64:
		return a.Imm, true
	}
	return 0, false
}

// isMoveWide reports whether the instruction is an orr whose immediate movz or
// movn can make too: then mov means those, not orr.
func (f *arm64Text) isMoveWide() bool {
	if f.dec.Enc&0x7f800000 != 0x32000000 || f.dec.Enc&31 == 31 { // no orr, or into sp
		return false
	}
	imm, ok := f.immediate()
	if !ok {
		return false
	}
	size := 32 << (f.dec.Enc >> 31)
	all := ^uint64(0) >> (64 - size)
	for shift := 0; shift < size; shift += 16 {
		if other := ^(uint64(0xffff) << shift) & all; imm&other == 0 || imm&other == other {
			return true
		}
	}
	return false
}

// appendDecimal appends, as a comment, the immediate that mov puts into a
// register: the text has it in hexadecimal and without a sign.
func (f *arm64Text) appendDecimal(b []byte) []byte {
	imm, ok := f.immediate()
	if !ok {
		return b
	}
	signed := int64(imm)
	if f.dec.Enc>>31 == 0 {
		signed = int64(int32(imm))
	}
	b = append(b, "  // #"...)
	return strconv.AppendInt(b, signed, 10)
}

// appendArg appends an operand. It sets inst's target if that is the operand.
func (f *arm64Text) appendArg(b []byte, arg arm64asm.Arg, inst *Inst) []byte {
	switch arg := arg.(type) {
	case arm64asm.PCRel:
		from := f.addr
		if f.dec.Op == arm64asm.ADRP {
			from &^= 1<<12 - 1
		}
		place := from + uint64(arg)
		switch f.dec.Op {
		case arm64asm.B, arm64asm.BL, arm64asm.CBZ, arm64asm.CBNZ, arm64asm.TBZ, arm64asm.TBNZ:
			inst.Target, inst.HasTarget = place, true
		}
		return appendAddr(b, place, f.sym)
	case arm64asm.Cond:
		return append(b, condName(arg)...)
	case arm64asm.MemImmediate, arm64asm.MemExtend:
		s := strings.ReplaceAll(arg.String(), ", ", ",")
		return append(b, strings.ToLower(strings.ReplaceAll(s, ",", ", "))...)
	case arm64asm.Imm:
		switch f.dec.Op {
		case arm64asm.FCMEQ, arm64asm.FCMGE, arm64asm.FCMGT, arm64asm.FCMLE, arm64asm.FCMLT,
			arm64asm.FCMP, arm64asm.FCMPE:
			return append(b, "#0.0"...)
		}
	}
	return append(b, strings.ToLower(arg.String())...)
}

var a64Conds = [16]string{
	"eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le", "al", "nv",
}

func condName(c arm64asm.Cond) string {
	v := c.Value & 15
	if c.Invert {
		v ^= 1
	}
	return a64Conds[v]
}
