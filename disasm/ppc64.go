// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/arch/ppc64/ppc64asm"
)

// ppc64 decodes the 64-bit Power ISA. ppc64asm knows the instructions; their
// extended mnemonics are made here, and the table of ppc64_table.go has the
// instructions that it lacks.
type ppc64 struct {
	order binary.ByteOrder
}

// ppc64asmReady makes ppc64asm decode once before many goroutines may: the
// first time, it allocates a variable that all of them share.
var ppc64asmReady = sync.OnceFunc(func() {
	_, _ = ppc64asm.Decode([]byte{0x60, 0, 0, 0}, binary.BigEndian)
})

func newPPC64(order binary.ByteOrder) ppc64 {
	ppc64asmReady()
	return ppc64{order}
}

func (ppc64) directives() (word, xword string) { return ".long", ".quad" }

func (p ppc64) next(code []byte, addr uint64, sym Symbolizer) (Inst, bool) {
	if len(code) < 4 || addr&3 != 0 {
		return Inst{}, false
	}
	word := p.order.Uint32(code)
	inst := Inst{Addr: addr, Bytes: code[:4:4]}
	b := make([]byte, 0, 48)
	for i := range ppc64Entries {
		if e := &ppc64Entries[i]; word&e.mask == e.value {
			inst.Text = string(e.append(b, word, appendPPC64Operand))
			return inst, true
		}
	}
	dec, err := ppc64asm.Decode(code[:min(len(code), 8)], p.order)
	// The word 0 comes back without an error.
	if err != nil || dec.Op == 0 || ppc64Invalid(&dec) {
		inst.Text = fmt.Sprintf(".long 0x%x", word)
		inst.Data = true
		return inst, true
	}
	inst.Bytes = code[:dec.Len:dec.Len]
	text := ppc64Text{dec: &dec, addr: addr, sym: sym}
	text.write(&inst, b)
	return inst, true
}

// ppc64Text writes an instruction that ppc64asm decoded.
//
// ppc64asm.GNUSyntax does that too, but it knows only few of the extended
// mnemonics and names none of the special-purpose registers.
type ppc64Text struct {
	dec  *ppc64asm.Inst
	addr uint64
	sym  Symbolizer

	name string
	args []ppc64asm.Arg // those to show
}

// write sets inst's text and target. It builds the text in b.
func (f *ppc64Text) write(inst *Inst, b []byte) {
	f.args = f.dec.Args[:]
	for i, a := range f.args {
		if a == nil {
			f.args = f.args[:i]
			break
		}
	}
	f.name = f.dec.Op.String()
	if f.branch(inst) {
		b = append(b, f.name...)
		b = f.appendArgs(b)
		if inst.HasTarget {
			if len(f.args) > 0 {
				b = append(b, ',')
			} else {
				b = append(b, ' ')
			}
			b = appendAddr(b, inst.Target, f.sym)
		}
		inst.Text = string(b)
		return
	}
	place, relative := f.prefixed()
	f.extend()
	b = append(b, f.name...)
	b = f.appendArgs(b)
	if relative {
		b = append(b, "  # "...)
		b = appendAddr(b, place, f.sym)
	}
	inst.Text = string(b)
}

// field returns n bits of the instruction from bit lo on, which is counted from
// the least significant one.
func (f *ppc64Text) field(lo, n int) uint32 { return f.dec.Enc >> lo & (1<<n - 1) }

// The bits of a conditional branch's BO field, Power ISA, book I, section 2.4.
const (
	boIgnoreCond = 0x10
	boCondTrue   = 0x08
	boKeepCTR    = 0x04
	boCTRZero    = 0x02
)

// branch sets the name, operands and target of a branch. It returns false if the
// instruction is not a branch.
func (f *ppc64Text) branch(inst *Inst) bool {
	var where string // what the conditional branch's mnemonic ends with
	enc := f.dec.Enc
	switch f.field(26, 6) {
	case 18: // b
		f.target(inst, int64(int32(enc<<6)>>6&^3))
		f.args = nil
		return true
	case 16: // bc
		f.target(inst, int64(int16(enc&^3)))
	case 19:
		switch f.field(1, 10) {
		case 16:
			where = "lr"
		case 528:
			where = "ctr"
		case 560:
			where = "tar"
		default:
			return false
		}
	default:
		return false
	}
	suffix := where
	if enc&1 != 0 {
		suffix += "l"
	}
	if where == "" && enc&2 != 0 {
		suffix += "a"
	}
	bo, bi := f.field(21, 5), f.field(16, 5)
	cond := f.args[1]
	hint := [4]string{"", "", "-", "+"} // by the bits that predict the branch
	at := bo&boCondTrue>>2 | bo&1
	generic := []ppc64asm.Arg{ppc64asm.Imm(bo), cond}
	hasBH := where != "" && f.field(11, 2) != 0
	if hasBH {
		generic = append(generic, ppc64asm.Imm(f.field(11, 2)))
	}
	counts := [2]string{"dnz", "dz"}[bo&boCTRZero/boCTRZero]
	switch {
	case hasBH:
	case bo == boIgnoreCond|boKeepCTR:
		if where != "" && bi == 0 {
			f.name, f.args = "b"+suffix, nil
			return true
		}
	case bo&(boIgnoreCond|boKeepCTR) == boKeepCTR: // on a condition
		names := [8]string{"ge", "le", "ne", "ns", "lt", "gt", "eq", "so"}
		f.name = "b" + names[bi&3|bo&boCondTrue>>1] + suffix + hint[bo&3]
		f.args = nil
		if field := bi >> 2; field != 0 {
			f.args = []ppc64asm.Arg{ppc64asm.CR0 + ppc64asm.CondReg(field)}
		}
		return true
	case where == "ctr": // which cannot be counted at the same time
	case bo&(boIgnoreCond|boKeepCTR) == boIgnoreCond && bi == 0:
		f.name, f.args = "b"+counts+suffix+hint[at], nil
		return true
	case bo&(boIgnoreCond|boKeepCTR) == 0: // counts and looks at a condition
		f.name = "b" + counts + [2]string{"f", "t"}[bo&boCondTrue/boCondTrue] + suffix
		f.args = []ppc64asm.Arg{cond}
		return true
	}
	f.name, f.args = "bc"+suffix, generic
	if bo&(boIgnoreCond|boKeepCTR) == boIgnoreCond {
		f.name += hint[at]
	}
	return true
}

// target sets the target of a direct branch, relative unless the bit AA is set.
func (f *ppc64Text) target(inst *Inst, offset int64) {
	inst.Target, inst.HasTarget = uint64(offset), true
	if f.dec.Enc&2 == 0 {
		inst.Target += f.addr
	}
}

// prefixed sets the operands of a prefixed load, store or add. If its address is
// relative to the instruction, relative is true and place is the address.
func (f *ppc64Text) prefixed() (place uint64, relative bool) {
	if f.dec.Len != 8 || f.dec.Enc>>24&1 != 0 {
		return 0, false
	}
	last := len(f.args) - 1
	if last < 3 {
		return 0, false
	}
	r, ok := f.args[last].(ppc64asm.Imm)
	if !ok {
		return 0, false
	}
	relative = r == 1
	f.args = f.args[:last]
	offset := int64(int32(f.dec.Enc<<14)>>14)<<16 | int64(f.dec.SuffixEnc&0xffff)
	if f.dec.Op == ppc64asm.PADDI {
		switch {
		case relative:
			f.name = "pla"
			f.args = []ppc64asm.Arg{f.args[0], ppc64asm.Imm(offset)}
		case f.args[1] == ppc64asm.R0:
			f.name = "pli"
			f.args = []ppc64asm.Arg{f.args[0], ppc64asm.Imm(offset)}
		}
	} else if relative {
		f.args = []ppc64asm.Arg{f.args[0], ppc64asm.Imm(offset)}
	}
	return f.addr + uint64(offset), relative
}

// appendArgs appends the operands.
func (f *ppc64Text) appendArgs(b []byte) []byte {
	sep := byte(' ')
	for i := 0; i < len(f.args); i++ {
		b = append(b, sep)
		sep = ','
		switch arg := f.args[i].(type) {
		case ppc64asm.Reg:
			if arg == ppc64asm.R0 && f.meansZero(i) {
				b = append(b, '0')
				continue
			}
			b = append(b, arg.String()...)
		case ppc64asm.CondReg:
			b = appendCondReg(b, arg)
		case ppc64asm.Imm:
			b = strconv.AppendInt(b, int64(arg), 10)
		case ppc64asm.SpReg:
			b = strconv.AppendUint(b, uint64(arg), 10)
		case ppc64asm.Offset:
			b = strconv.AppendInt(b, int64(arg), 10)
			if i+1 < len(f.args) { // the register that it is added to
				i++
				b = append(b, '(')
				if reg := f.args[i]; reg == ppc64asm.R0 {
					b = append(b, '0')
				} else {
					b = append(b, reg.String()...)
				}
				b = append(b, ')')
			}
		default:
			b = append(b, arg.String()...)
		}
	}
	return b
}

// appendCondReg appends a field of the condition register, or a bit of it.
func appendCondReg(b []byte, c ppc64asm.CondReg) []byte {
	if c >= ppc64asm.CR0 {
		b = append(b, "cr"...)
		return strconv.AppendUint(b, uint64(c-ppc64asm.CR0), 10)
	}
	n := c - ppc64asm.Cond0LT
	if n >= 4 {
		b = append(b, "4*cr"...)
		b = strconv.AppendUint(b, uint64(n/4), 10)
		b = append(b, '+')
	}
	return append(b, [4]string{"lt", "gt", "eq", "so"}[n%4]...)
}

// meansZero reports whether r0 as operand i means the number 0: where an
// address is the sum of two registers, the first of them, and in isel.
func (f *ppc64Text) meansZero(i int) bool {
	op := f.dec.Op.String()
	switch {
	case op == "icbt":
		return i == 1
	case strings.HasPrefix(op, "dcb"), strings.HasPrefix(op, "icb"):
		return i == 0
	case op == "copy", op == "paste.":
		return i == 0
	case op == "isel", op == "mtvsrdd":
		return i == 1
	case f.field(26, 6) != 31: // not an indexed load or store
		return false
	case strings.HasPrefix(op, "l"), strings.HasPrefix(op, "st"), strings.HasPrefix(op, "hash"):
		return i == 1 && !strings.HasSuffix(op, "ux")
	}
	return false
}
