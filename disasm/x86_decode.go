// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"encoding/binary"
	"strings"
	"sync"
)

// x86Form is what follows an opcode. It is 0 for opcodes that are decoded with x86asm and
// the table of x86_table.go: those that need a mandatory prefix, that are not valid with
// every ModRM byte, or that are rare in kernel text.
type x86Form uint8

const (
	formPlain x86Form = 1 << iota // valid
	formModRM
	formImm8
	formImm16
	formImm32  // 16 bits with the operand-size prefix, unless REX.W is set
	formImm64  // formImm32, but 64 bits with REX.W
	formGroup  // of shifts, or of TEST, NOT, ..: what ModRM selects
	formBranch // not with the operand-size prefix
)

var x86Forms, x86Forms0F = func() (one, two [256]x86Form) {
	set := func(t *[256]x86Form, f x86Form, lo, hi int) {
		for i := lo; i <= hi; i++ {
			t[i] = f | formPlain
		}
	}
	for op := 0; op < 0x40; op += 8 { // add, or, adc, sbb, and, sub, xor, cmp
		set(&one, formModRM, op, op+3)
		set(&one, formImm8, op+4, op+4)
		set(&one, formImm32, op+5, op+5)
	}
	set(&one, 0, 0x50, 0x5f)                   // push, pop
	set(&one, formModRM, 0x63, 0x63)           // movslq
	set(&one, formImm32, 0x68, 0x68)           // push
	set(&one, formModRM|formImm32, 0x69, 0x69) // imul
	set(&one, formImm8, 0x6a, 0x6a)            // push
	set(&one, formModRM|formImm8, 0x6b, 0x6b)  // imul
	set(&one, formImm8, 0x70, 0x7f)            // jcc
	set(&one, formModRM|formImm8, 0x80, 0x80)
	set(&one, formModRM|formImm32, 0x81, 0x81)
	set(&one, formModRM|formImm8, 0x83, 0x83)
	set(&one, formModRM, 0x84, 0x8b)                    // test, xchg, mov
	set(&one, formModRM|formGroup, 0x8d, 0x8d)          // lea
	set(&one, 0, 0x90, 0x99)                            // xchg, cltq, cqto
	set(&one, 0, 0x9c, 0x9d)                            // pushf, popf
	set(&one, 0, 0xa4, 0xa7)                            // movs, cmps
	set(&one, formImm8, 0xa8, 0xa8)                     // test
	set(&one, formImm32, 0xa9, 0xa9)                    // test
	set(&one, 0, 0xaa, 0xaf)                            // stos, lods, scas
	set(&one, formImm8, 0xb0, 0xb7)                     // mov
	set(&one, formImm64, 0xb8, 0xbf)                    // mov
	set(&one, formModRM|formImm8|formGroup, 0xc0, 0xc1) // shifts
	set(&one, formImm16, 0xc2, 0xc2)                    // ret
	set(&one, 0, 0xc3, 0xc3)                            // ret
	set(&one, formModRM|formImm8|formGroup, 0xc6, 0xc6) // mov
	set(&one, formModRM|formImm32|formGroup, 0xc7, 0xc7)
	set(&one, 0, 0xc9, 0xc9)                    // leave
	set(&one, 0, 0xcc, 0xcc)                    // int3
	set(&one, formImm8, 0xcd, 0xcd)             // int
	set(&one, 0, 0xcf, 0xcf)                    // iret
	set(&one, formModRM|formGroup, 0xd0, 0xd3)  // shifts
	set(&one, formImm32|formBranch, 0xe8, 0xe9) // call, jmp
	set(&one, formImm8|formBranch, 0xeb, 0xeb)  // jmp
	set(&one, 0, 0xf4, 0xf4)                    // hlt
	set(&one, formModRM|formGroup, 0xf6, 0xf7)
	set(&one, 0, 0xf8, 0xfd)                   // clc, stc, cli, sti, cld, std
	set(&one, formModRM|formGroup, 0xff, 0xff) // inc, dec, call, jmp, push

	set(&two, formModRM|formGroup, 0x00, 0x01)  // sldt, lgdt, invlpg, ..
	set(&two, 0, 0x0b, 0x0b)                    // ud2
	set(&two, formModRM|formGroup, 0x1f, 0x1f)  // nop
	set(&two, 0, 0x30, 0x33)                    // wrmsr, rdtsc, rdmsr, rdpmc
	set(&two, formModRM, 0x40, 0x4f)            // cmov
	set(&two, formImm32|formBranch, 0x80, 0x8f) // jcc
	set(&two, formModRM, 0x90, 0x9f)            // setcc
	set(&two, 0, 0xa2, 0xa2)                    // cpuid
	set(&two, formModRM, 0xa3, 0xa3)            // bt
	set(&two, formModRM|formImm8, 0xa4, 0xa4)   // shld
	set(&two, formModRM, 0xa5, 0xa5)
	set(&two, formModRM, 0xab, 0xab)          // bts
	set(&two, formModRM|formImm8, 0xac, 0xac) // shrd
	set(&two, formModRM, 0xad, 0xad)
	set(&two, formModRM|formGroup, 0xae, 0xae)          // fxsave, xsave, clflush, ..
	set(&two, formModRM, 0xaf, 0xb1)                    // imul, cmpxchg
	set(&two, formModRM, 0xb3, 0xb3)                    // btr
	set(&two, formModRM, 0xb6, 0xb7)                    // movz
	set(&two, formModRM|formImm8|formGroup, 0xba, 0xba) // bt, bts, ..
	set(&two, formModRM, 0xbb, 0xbb)                    // btc
	set(&two, formModRM, 0xbe, 0xbf)                    // movs
	set(&two, formModRM, 0xc0, 0xc1)                    // xadd
	set(&two, formModRM|formGroup, 0xc7, 0xc7)          // cmpxchg16b
	return one, two
}()

// An x86Lens has the lengths of instructions, by the two bytes from the opcode on. The second half of lens
// is of those after 0f. An entry has the length from the opcode on, 0 for instructions that short does not
// know, and these flags.
type x86Lens struct {
	lens     [2 << 16]uint8
	rex, two [1 << 8]uint8 // 8, the bits of a byte, for a REX prefix; for 0f
}

const (
	lenMask   = 0xf
	notWithW  = 0x40 // short does not know the instruction with REX.W
	mayNoBase = 0x80 // the SIB byte may say that a displacement is there instead of a base; or the length is 0
)

// knownLens returns the table, which is made when it is first needed: most commands need none.
var knownLens = sync.OnceValue(func() *x86Lens {
	var modRM [256]uint8 // how many bytes a ModRM byte has with its SIB byte and displacement
	for i := range modRM {
		mod, rm := i>>6, i&7
		modRM[i] = 1
		switch {
		case mod == 1:
			modRM[i] += 1
		case mod == 2, mod == 0 && rm == 5:
			modRM[i] += 4
		}
		if mod != 3 && rm == 4 {
			modRM[i]++ // SIB
			if mod == 0 {
				modRM[i] |= mayNoBase
			}
		}
	}
	t := new(x86Lens)
	for op := 0x40; op < 0x50; op++ {
		t.rex[op] = 8
	}
	t.two[0x0f] = 8
	for i := range t.lens {
		t.lens[i] = mayNoBase
	}
	for i := range 2 << 8 {
		op, two := uint8(i), i>>8 != 0
		form := x86Forms[op]
		if two {
			form = x86Forms0F[op]
		}
		if form == 0 {
			continue
		}
		flags := uint8(0)
		if form&formImm64 != 0 || two && op == 0x1f { // groupForm depends on REX.W for no other
			flags = notWithW
		}
		for next := range 1 << 8 {
			n, operands := uint8(1), form
			if form&formModRM != 0 {
				n += modRM[next]
			}
			if form&formGroup != 0 {
				if operands, _ = groupForm(form, op, uint8(next), two, false, false, false); operands == 0 {
					continue
				}
			}
			switch {
			case operands&formImm8 != 0:
				n++
			case operands&formImm16 != 0:
				n += 2
			case operands&(formImm32|formImm64) != 0:
				n += 4
			}
			t.lens[i>>8<<16|next<<8|i&0xff] = n | flags
		}
	}
	return t
})

// short returns the length in bytes of the most common instructions, 0 for all others. w is the
// first 8 bytes of code that has at least maxInst bytes.
//
// [Disassembler.Lens] waits for each result before it can begin with the next instruction. So
// what most instructions need is calculated without branches, which would often be mispredicted.
func (t *x86Lens) short(w uint64) int {
	rex, two, noBase := uint64(0), uint64(0), uint64(0)
	if w&0xf0 == 0x40 {
		rex = 1
	}
	rexW := w >> 3 & rex
	w >>= rex * 8
	if uint8(w) == 0x0f {
		two = 1
	}
	w >>= two * 8
	e := uint64(t.lens[two<<16|uint64(uint16(w))])
	if e&lenMask == 0 || e/notWithW&rexW != 0 {
		return 0
	}
	if w>>16&7 == 5 {
		noBase = 4
	}
	return int(rex + two + e&lenMask + e/mayNoBase*noBase)
}

// usual is short in fewer steps, for fewer instructions: ok is false for the others.
func (t *x86Lens) usual(w uint64) (n uint8, ok bool) {
	rex := t.rex[uint8(w)]
	w >>= rex & 63
	two := t.two[uint8(w)]
	w >>= two & 63
	e := t.lens[uint32(two)<<13|uint32(uint16(w))]
	return e&lenMask + (rex+two)/8, e&(rex<<3|mayNoBase) == 0
}

// common is short, also for instructions with a prefix that has no effect on the length.
func (t *x86Lens) common(w uint64) int {
	if n := t.short(w); n > 0 {
		return n
	}
	return t.afterPrefix(w)
}

// afterPrefix is short for instructions behind such a prefix: a segment, or LOCK.
func (t *x86Lens) afterPrefix(w uint64) int {
	switch uint8(w) {
	case 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0xf0:
		if n := t.short(w >> 8); n > 0 {
			return 1 + n
		}
	}
	return 0
}

func (x86) decode(code []byte, addr uint64) flow {
	if f := fastX86(code, addr); f.n != 0 {
		return f
	}
	// With x86asm.
	raw, ok := parseX86(code)
	if !ok {
		return flow{}
	}
	n, ok := raw.tableLen()
	if !ok {
		dec, ok := raw.decode()
		if !ok {
			return flow{}
		}
		n = dec.Len
	}
	return raw.flow(n, addr)
}

// fastX86 decodes the instructions that are most frequent in kernel text. The length is 0 if
// code does not begin with one.
func fastX86(code []byte, addr uint64) (f flow) {
	if len(code) > maxInst {
		code = code[:maxInst]
	}
	var op byte
	var data16, rexW, rep bool
	pos := 0
	for ; ; pos++ {
		if pos >= len(code) || pos > 4 {
			return flow{}
		}
		switch op = code[pos]; op {
		case 0x66:
			data16 = true
			continue
		case 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0xf0: // segments, lock
			continue
		case 0xf2, 0xf3:
			rep = true
			continue
		}
		break
	}
	if op&0xf0 == 0x40 {
		rexW = op&8 != 0
		if pos++; pos >= len(code) {
			return flow{}
		}
		op = code[pos]
	}
	pos++
	var form x86Form
	two := op == 0x0f
	if two {
		if pos >= len(code) {
			return flow{}
		}
		op = code[pos]
		pos++
		form = x86Forms0F[op]
	} else {
		form = x86Forms[op]
	}
	if form == 0 || data16 && form&formBranch != 0 {
		return flow{}
	}
	if form&formModRM != 0 {
		if pos >= len(code) {
			return flow{}
		}
		modrm := code[pos]
		pos++
		mod, rm := modrm>>6, modrm&7
		if mod != 3 {
			if rm == 4 {
				if pos >= len(code) {
					return flow{}
				}
				if mod == 0 && code[pos]&7 == 5 {
					pos += 4
				}
				pos++
			} else if mod == 0 && rm == 5 {
				pos += 4
			}
			switch mod {
			case 1:
				pos++
			case 2:
				pos += 4
			}
		}
		if form&formGroup != 0 {
			if form, f.class = groupForm(form, op, modrm, two, rep || data16, data16, rexW); form == 0 {
				return flow{}
			}
		}
	}
	switch {
	case form&formImm8 != 0:
		pos++
	case form&formImm16 != 0:
		pos += 2
	case form&formImm64 != 0 && rexW:
		pos += 8
	case form&(formImm32|formImm64) != 0:
		if pos += 4; data16 && !rexW {
			pos -= 2
		}
	}
	if pos > len(code) {
		return flow{}
	}
	f.n = pos
	if two {
		if op&0xf0 == 0x80 {
			f.class = CondJump
			f.to(addr + uint64(pos) + uint64(int64(int32(binary.LittleEndian.Uint32(code[pos-4:])))))
		}
		return f
	}
	switch op {
	case 0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x7b, 0x7c, 0x7d, 0x7e, 0x7f:
		f.class = CondJump
		f.to(addr + uint64(pos) + uint64(int64(int8(code[pos-1]))))
	case 0xeb:
		f.class = Jump
		f.to(addr + uint64(pos) + uint64(int64(int8(code[pos-1]))))
	case 0xe8:
		f.class = Call
		f.to(addr + uint64(pos) + uint64(int64(int32(binary.LittleEndian.Uint32(code[pos-4:])))))
	case 0xe9:
		f.class = Jump
		f.to(addr + uint64(pos) + uint64(int64(int32(binary.LittleEndian.Uint32(code[pos-4:])))))
	case 0xc2, 0xc3:
		f.class = Return
	case 0xcc, 0xcd:
		f.class = Trap
	case 0xcf:
		f.class = SyscallReturn
	}
	return f
}

// groupForm returns the form and the class of an instruction whose ModRM byte belongs to the
// opcode; two is set if op follows 0f. The form is 0 if fastX86 does not decode it.
func groupForm(form x86Form, op, modrm byte, two, prefix, data16, rexW bool) (x86Form, Class) {
	register, digit := modrm >= 0xc0, modrm>>3&7
	valid := true
	switch {
	case two:
		valid = plainGroup0F(op, modrm, prefix) && !(op == 0x1f && rexW) // x86asm has no NOP with REX.W
	case op == 0x8d: // lea
		valid = !register
	case op == 0xc6 || op == 0xc7: // mov
		valid = digit == 0
	case op == 0xff:
		switch {
		case digit == 7 || register && digit&1 != 0 && digit > 1 || data16 && digit > 1:
			valid = false
		case digit == 2 || digit == 3:
			return form, IndirectCall
		case digit == 4 || digit == 5:
			return form, IndirectJump
		}
	case op < 0xe0: // shifts
		valid = digit != 6
	case digit == 0 && op == 0xf7: // test
		return formImm32, Other
	case digit == 0:
		return formImm8, Other
	default:
		valid = digit != 1
	}
	if !valid {
		return 0, Other
	}
	return form, Other
}

// plainGroup0F reports whether an opcode after 0f is valid for certain with this ModRM byte.
// For some it is false although they are valid, such as those with other prefixes.
func plainGroup0F(op, modrm byte, prefix bool) bool {
	mem, digit := modrm < 0xc0, modrm>>3&7
	switch op {
	case 0x1f:
		return digit == 0
	case 0x00:
		return mem && !prefix && digit <= 5
	case 0x01:
		return mem && !prefix && digit != 5
	case 0xae:
		return mem && !prefix
	case 0xba:
		return digit >= 4
	case 0xc7:
		return mem && !prefix && digit == 1
	}
	return false
}

// tableLen is the length of what [x86Raw.fromTable] returns.
func (r *x86Raw) tableLen() (n int, ok bool) {
	if r.vex != 0 {
		dec, _, ok := r.fromTable()
		return dec.Len, ok
	}
	e, m := r.encoding()
	if e == nil {
		return 0, false
	}
	n = m.end + strings.Count(e.args, "i") // bytes of immediates
	return n, n <= len(r.code)
}

// flow returns what Decode returns about an instruction of n bytes. It may change r.
func (r *x86Raw) flow(n int, addr uint64) flow {
	f := flow{n: n}
	modrm := byte(0)
	if r.modrm < n {
		modrm = r.code[r.modrm]
	}
	relative := func(c Class) {
		f.class = c
		// The operand is all that follows the opcode.
		var rel int64
		switch n - r.modrm {
		case 1:
			rel = int64(int8(r.code[n-1]))
		case 2:
			rel = int64(int16(binary.LittleEndian.Uint16(r.code[n-2:])))
		case 4:
			rel = int64(int32(binary.LittleEndian.Uint32(r.code[n-4:])))
		}
		f.to(addr + uint64(n) + uint64(rel))
	}
	if r.vex != 0 {
		return f
	}
	switch op := uint16(r.opmap)<<8 | uint16(r.opcode); {
	case op >= 0x70 && op <= 0x7f, op >= 0xe0 && op <= 0xe3, op >= 0x180 && op <= 0x18f:
		relative(CondJump)
	case op == 0xe8:
		relative(Call)
	case op == 0xe9, op == 0xeb:
		relative(Jump)
	case op == 0xc7 && modrm == 0xf8: // xbegin: an abort, which is no jump, goes to its target
		r.modrm++
		relative(Other)
	case op == 0xc2, op == 0xc3, op == 0xca, op == 0xcb:
		f.class = Return
	case op == 0xff && (modrm>>3&7 == 2 || modrm>>3&7 == 3):
		f.class = IndirectCall
	case op == 0xff && (modrm>>3&7 == 4 || modrm>>3&7 == 5):
		f.class = IndirectJump
	case op == 0xcc, op == 0xcd, op == 0xf1:
		f.class = Trap
	case op == 0xcf, op == 0x107, op == 0x135: // iret, sysret, sysexit
		f.class = SyscallReturn
	case op == 0x1aa: // rsm
		f.class = SyscallReturn
	case op == 0x105, op == 0x134: // syscall, sysenter
		f.class = Syscall
	case op == 0x101 && (modrm == 0xc1 || modrm == 0xd9): // vmcall, vmmcall
		f.class = Syscall
	case op == 0x101 && (modrm == 0xc2 || modrm == 0xc3 || modrm == 0xd8): // vmlaunch, vmresume, vmrun
		f.class = SyscallReturn
	case op == 0x101 && modrm == 0xca && r.rep != 0: // erets, eretu
		f.class = SyscallReturn
	case op == 0x101 && modrm == 0xec && r.rep == 0xf3: // uiret
		f.class = SyscallReturn
	}
	return f
}
