// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"
)

// x86 decodes x86-64. The work is shared: x86asm knows the instructions and
// their operands; the table of x86_table.go those that it lacks; and the
// prefixes and the ModRM byte are read here, since what objdump shows of them
// (redundant prefixes, displacements of zero, unused index registers) is not
// in x86asm's result.
type x86 struct{}

// maxInst is the length of the longest instruction.
const maxInst = 15

// x86Raw is an instruction taken apart into its encoding.
type x86Raw struct {
	code   []byte // no more than maxInst bytes
	legacy int    // legacy prefixes, which come first
	rex    byte   // 0 if there is none
	vex    byte   // 0xc5, 0xc4 or 0x62 (EVEX), 0 if there is none
	opmap  byte   // opcode map: 0, 1 (0f), 2 (0f 38), 3 (0f 3a); a VEX prefix can name others
	opcode byte
	modrm  int  // index of the byte after the opcode
	rep    byte // the last of the prefixes f2 and f3
	data16 bool // operand-size prefix
	addr32 bool // address-size prefix
	seg    byte // the last of the prefixes 64 (fs) and 65 (gs); the others mean nothing
}

// The bits of a REX prefix.
const (
	rexW = 8
	rexR = 4
	rexX = 2
	rexB = 1
)

// parseX86 reads the prefixes and the opcode. It returns false if code ends before that.
func parseX86(code []byte) (x86Raw, bool) {
	r := x86Raw{code: code[:min(len(code), maxInst)]}
	c := r.code
	pos := 0
prefixes:
	for ; pos < len(c); pos++ {
		switch c[pos] {
		case 0x26, 0x2e, 0x36, 0x3e, 0xf0:
		case 0x64, 0x65:
			r.seg = c[pos]
		case 0x66:
			r.data16 = true
		case 0x67:
			r.addr32 = true
		case 0xf2, 0xf3:
			r.rep = c[pos]
		default:
			break prefixes
		}
	}
	r.legacy = pos
	at := func(i int) byte {
		if i < len(c) {
			return c[i]
		}
		return 0
	}
	switch at(pos) {
	case 0xc5:
		r.vex, r.opmap = 0xc5, 1
		r.rex = ^at(pos+1) >> 7 << 2
		pos += 2
	case 0xc4:
		r.vex, r.opmap = 0xc4, at(pos+1)&0x1f
		r.rex = ^at(pos+1)>>5 | at(pos+2)>>7<<3
		pos += 3
	case 0x62:
		r.vex, r.opmap = 0x62, at(pos+1)&7
		r.rex = ^at(pos+1)>>5 | at(pos+2)>>7<<3
		pos += 4
	default:
		if at(pos)&0xf0 == 0x40 {
			r.rex = at(pos)
			pos++
		}
		if at(pos) == 0x0f {
			r.opmap = 1
			pos++
			switch at(pos) {
			case 0x38:
				r.opmap = 2
				pos++
			case 0x3a:
				r.opmap = 3
				pos++
			}
		}
	}
	r.opcode = at(pos)
	r.modrm = pos + 1
	return r, pos < len(c)
}

func (x86) directives() (word, xword string) { return ".long", ".quad" }

func (x86) next(code []byte, addr uint64, sym Symbolizer) (Inst, bool) {
	raw, ok := parseX86(code)
	if !ok {
		return Inst{}, false
	}
	dec, name, ok := raw.fromTable()
	if !ok {
		if dec, ok = raw.decode(); !ok {
			return Inst{}, false
		}
	}
	n := 0
	for n < len(dec.Args) && dec.Args[n] != nil {
		n++
	}
	// The operands are set here: what a method stores in its receiver is on the heap.
	text := x86Text{raw: &raw, dec: &dec, name: name, addr: addr, sym: sym, args: dec.Args[:n]}
	return text.inst(), true
}

// decode decodes the instruction with x86asm.
func (r *x86Raw) decode() (x86asm.Inst, bool) {
	if r.vex == 0 {
		// Moves to and from control and debug registers are between registers, whatever the mode in
		// the ModRM byte; x86asm reads an address there. The test registers (24 to 27) are gone.
		if r.opmap == 1 && r.opcode&^7 == 0x20 && (r.opcode > 0x23 || r.modrm >= len(r.code) || r.code[r.modrm] < 0xc0) {
			return x86asm.Inst{}, false
		}
		dec, err := x86asm.Decode(r.code, 64)
		// A prefix that nothing follows comes back as an instruction without Op.
		return dec, err == nil && dec.Op != 0
	}
	// x86asm does not take a VEX prefix that follows others, such as that of a
	// segment; those that change the opcode must not come before it. And it
	// takes the maps 5 and 6 (half-precision numbers) for 1 and 2.
	if r.opmap > 3 || r.rep != 0 || r.data16 || bytes.IndexByte(r.code[:r.legacy], 0xf0) >= 0 {
		return x86asm.Inst{}, false
	}
	dec, err := x86asm.Decode(r.code[r.legacy:], 64)
	dec.Len += r.legacy
	dec.Prefix = x86asm.Prefixes{} // it holds the bytes of the VEX prefix
	// Where code ends, x86asm ends some instructions too early.
	return dec, err == nil && dec.Op != 0 && dec.Len == r.vexLen()
}

// vexLen returns the length of an instruction with a VEX or EVEX prefix: maps
// and opcodes say whether an immediate byte follows. It is 0 if code ends
// before.
func (r *x86Raw) vexLen() int {
	n := r.modrm
	if r.opmap != 1 || r.opcode != 0x77 { // vzeroupper and vzeroall have no ModRM
		m, ok := r.mem()
		if !ok {
			return 0
		}
		n = m.end
	}
	switch {
	case r.opmap == 3,
		r.opmap == 1 && (r.opcode >= 0x70 && r.opcode <= 0x73 || r.opcode == 0xc2 || r.opcode >= 0xc4 && r.opcode <= 0xc6):
		n++
	}
	if n > len(r.code) {
		return 0
	}
	return n
}

// x86Mem is what a ModRM byte, its SIB byte and displacement say.
type x86Mem struct {
	isReg   bool // the operand is register number base, not memory
	base    int  // register number, or ripBase or noBase
	index   int  // register number or noIndex
	hasSIB  bool
	riz     bool // there is a SIB byte that names no index where it could
	scale   int
	disp    int64
	hasDisp bool // the displacement is there, even if it is 0
	end     int  // index of the byte that follows
}

const (
	noBase  = -1
	ripBase = -2
	noIndex = -1
)

// mem decodes the ModRM byte, its SIB byte and displacement. It returns false if code ends
// before.
func (r *x86Raw) mem() (x86Mem, bool) {
	c := r.code
	pos := r.modrm
	if pos >= len(c) {
		return x86Mem{}, false
	}
	mod, rm := c[pos]>>6, c[pos]&7
	pos++
	rexBase := int(r.rex & rexB << 3)
	m := x86Mem{base: int(rm) | rexBase, index: noIndex, scale: 1}
	if mod == 3 {
		m.isReg = true
		m.end = pos
		return m, true
	}
	if rm == 4 {
		if pos >= len(c) {
			return x86Mem{}, false
		}
		sib := c[pos]
		pos++
		m.hasSIB = true
		m.scale = 1 << (sib >> 6)
		m.base = int(sib&7) | rexBase
		m.index = int(sib>>3&7) | int(r.rex&rexX)<<2
		if m.index == 4 {
			m.index = noIndex
			m.riz = m.base&7 != 4 || m.scale != 1
		}
		if sib&7 == 5 && mod == 0 {
			m.base = noBase
			mod = 2 // a displacement of 32 bits
			m.riz = m.riz && m.scale != 1
		}
	} else if rm == 5 && mod == 0 {
		m.base = ripBase
		mod = 2
	}
	switch mod {
	case 1:
		if pos+1 > len(c) {
			return x86Mem{}, false
		}
		m.disp, m.hasDisp = int64(int8(c[pos])), true
		pos++
	case 2:
		if pos+4 > len(c) {
			return x86Mem{}, false
		}
		m.disp, m.hasDisp = int64(int32(binary.LittleEndian.Uint32(c[pos:]))), true
		pos += 4
	}
	m.end = pos
	return m, true
}
