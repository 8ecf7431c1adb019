// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import "encoding/binary"

// Class is what an instruction does to the flow of control. A conditional call,
// return or indirect jump of ppc64 has the class of the unconditional one.
type Class uint8

const (
	// Other: the next instruction is executed next, unless the instruction raises an
	// exception. That includes those that always do, such as UD2.
	Other        Class = iota
	Call               // to Target; the return address is pushed or linked
	Jump               // to Target
	CondJump           // to Target or to the next instruction
	Return             // to the caller
	IndirectCall       // to an address in a register or in memory
	IndirectJump       // to an address in a register or in memory
	Trap               // to the handler of a software interrupt or breakpoint: INT3, INT, BRK, trap
	Syscall            // into the kernel, or into a hypervisor: SYSCALL, SVC, HVC, sc
	// SyscallReturn: back from those and from any exception, or into a guest: IRET, SYSRET,
	// ERET, rfid, VMRESUME.
	SyscallReturn
)

var classNames = [...]string{"other", "call", "jump", "conditional-jump", "return", "indirect-call", "indirect-jump", "trap", "syscall", "syscall-return"}

// String returns the name of the class, for example "conditional-jump".
func (c Class) String() string { return classNames[c] }

// Decode is [Disassembler.Next] for decoders of traces: it builds no text. It returns Addr,
// Bytes, Class, Target and HasTarget of the first instruction of code, which lies at addr. It
// does not allocate, but for some rare instructions of x86-64, such as those of SSE that have an
// operand in memory.
//
// On x86-64 the result is that of Next without Text. Where instructions are words, Decode does
// not check that a word is an instruction: Data is set only if code has no whole word or addr is
// no multiple of 4. If code is empty, the result has no Bytes.
func (d *Disassembler) Decode(code []byte, addr uint64) Inst {
	if len(code) == 0 {
		return Inst{Addr: addr}
	}
	f := d.arch.decode(code, addr)
	if f.n == 0 {
		return Inst{Addr: addr, Bytes: code[:1:1], Data: true}
	}
	return Inst{Addr: addr, Bytes: code[:f.n:f.n], Target: f.target, HasTarget: f.hasTarget, Class: f.class}
}

// Len returns the length in bytes of the first instruction of code, that of the Bytes of
// [Disassembler.Decode], and takes less time. It is 0 if code is empty.
func (d *Disassembler) Len(code []byte, addr uint64) int {
	if _, ok := d.arch.(x86); ok && len(code) >= maxInst {
		if n := knownLens().common(binary.LittleEndian.Uint64(code)); n > 0 {
			return n
		}
	}
	return len(d.Decode(code, addr).Bytes)
}

// Lens sets lens to the lengths of the successive instructions of code, which lies at addr: each
// is that of [Disassembler.Len] at its place. It stops at the end of code or of lens. Lens returns how
// many instructions there are, and how many bytes of code they have.
func (d *Disassembler) Lens(lens []uint8, code []byte, addr uint64) (n, size int) {
	var known *x86Lens
	if _, ok := d.arch.(x86); ok {
		known = knownLens()
	}
	for ; n < len(lens) && size < len(code); n++ {
		l := 0
		if known != nil && len(code)-size >= maxInst {
			w := binary.LittleEndian.Uint64(code[size:])
			if isPadding(w) && len(lens)-n >= 8 {
				copy(lens[n:], eightOnes)
				n, size = n+7, size+8
				continue
			}
			l = known.common(w)
		}
		if l == 0 {
			l = len(d.Decode(code[size:], addr+uint64(size)).Bytes)
		}
		lens[n] = uint8(l)
		size += l
	}
	return n, size
}

// LensOfTwo is [Disassembler.Lens] for two pieces of code of x86-64, which it decodes in turn: a CPU can
// decode an instruction of one while it waits for the length of one of the other. It stops where one
// of the pieces, or its lens, may end: what follows is for Lens. For other machines it does nothing.
func (d *Disassembler) LensOfTwo(lens [2][]uint8, code [2][]byte, addr [2]uint64) (n, size [2]int) {
	if _, ok := d.arch.(x86); !ok {
		return n, size
	}
	known := knownLens()
	lens0, lens1, code0, code1 := lens[0], lens[1], code[0], code[1]
	var n0, n1, at0, at1 int
	for len(lens0)-n0 >= 8 && len(lens1)-n1 >= 8 && len(code0)-at0 >= maxInst && len(code1)-at1 >= maxInst {
		w0, w1 := binary.LittleEndian.Uint64(code0[at0:]), binary.LittleEndian.Uint64(code1[at1:])
		l0, l1 := known.short(w0), known.short(w1)
		if isPadding(w0) {
			copy(lens0[n0:], eightOnes)
			n0, at0 = n0+8, at0+8
		} else {
			if l0 == 0 {
				l0 = d.Len(code0[at0:], addr[0]+uint64(at0))
			}
			lens0[n0] = uint8(l0)
			n0, at0 = n0+1, at0+l0
		}
		if isPadding(w1) {
			copy(lens1[n1:], eightOnes)
			n1, at1 = n1+8, at1+8
		} else {
			if l1 == 0 {
				l1 = d.Len(code1[at1:], addr[1]+uint64(at1))
			}
			lens1[n1] = uint8(l1)
			n1, at1 = n1+1, at1+l1
		}
	}
	return [2]int{n0, n1}, [2]int{at0, at1}
}

// isPadding reports whether 8 bytes are eight NOPs or INT3, which functions have before them.
func isPadding(w uint64) bool { return w == 0x9090909090909090 || w == 0xcccccccccccccccc }

const eightOnes = "\x01\x01\x01\x01\x01\x01\x01\x01"

// flow is what Decode returns about an instruction.
type flow struct {
	n         int // its length in bytes, 0 if there is none
	target    uint64
	hasTarget bool
	class     Class
}

// to sets the target.
func (f *flow) to(target uint64) { f.target, f.hasTarget = target, true }

func (arm64) decode(code []byte, addr uint64) flow {
	if len(code) < 4 || addr&3 != 0 {
		return flow{}
	}
	f := flow{n: 4}
	word := binary.LittleEndian.Uint32(code)
	to := func(offset int32) { f.to(addr + uint64(int64(offset))) }
	switch word >> 25 {
	case 0b0001010, 0b0001011: // b
		f.class = Jump
		to(int32(word<<6) >> 4)
	case 0b1001010, 0b1001011: // bl
		f.class = Call
		to(int32(word<<6) >> 4)
	case 0b0101010: // b.cond, bc.cond
		if word>>24&1 == 0 {
			f.class = CondJump
			to(int32(word<<8) >> 13 << 2)
		}
	case 0b0011010, 0b1011010: // cbz, cbnz
		f.class = CondJump
		to(int32(word<<8) >> 13 << 2)
	case 0b0011011, 0b1011011: // tbz, tbnz
		f.class = CondJump
		to(int32(word<<13) >> 18 << 2)
	case 0b1101010: // exceptions
		switch {
		case word&0xffe0001f == 0xd4200000: // brk
			f.class = Trap
		case word&0xffe0001c == 0xd4000000 && word&3 != 0: // svc, hvc, smc
			f.class = Syscall
		}
	case 0b1101011: // branches to registers
		switch word >> 21 & 0xf {
		case 0b0000, 0b1000:
			f.class = IndirectJump
		case 0b0001, 0b1001:
			f.class = IndirectCall
		case 0b0010:
			f.class = Return
		case 0b0100:
			f.class = SyscallReturn
		}
		if word>>16&0x1f != 0x1f {
			f.class = Other
		}
	}
	return f
}

func (p ppc64) decode(code []byte, addr uint64) flow {
	if len(code) < 4 || addr&3 != 0 {
		return flow{}
	}
	f := flow{n: 4}
	word := p.order.Uint32(code)
	to := func(offset int32) {
		if f.to(uint64(int64(offset))); word&2 == 0 { // not absolute
			f.target += addr
		}
	}
	links := word&1 != 0
	always := word>>21&0x14 == 0x14 // the BO field asks for no condition and no counter
	switch word >> 26 {
	case 1: // a prefix
		if len(code) >= 8 {
			f.n = 8
		}
	case 2: // tdi
		f.class = Trap
	case 3: // twi
		f.class = Trap
	case 16: // bc
		switch {
		case links:
			f.class = Call
		case always:
			f.class = Jump
		default:
			f.class = CondJump
		}
		to(int32(int16(word &^ 3)))
	case 17: // sc, scv
		if word&3 != 0 {
			f.class = Syscall
		}
	case 18: // b
		if f.class = Jump; links {
			f.class = Call
		}
		to(int32(word&^3<<6) >> 6)
	case 19:
		switch word >> 1 & 0x3ff {
		case 16: // bclr
			if f.class = Return; links {
				f.class = IndirectCall
			}
		case 528, 560: // bcctr, bctar
			if f.class = IndirectJump; links {
				f.class = IndirectCall
			}
		case 18, 82, 274, 306, 370: // rfid, rfscv, hrfid, urfid, stop
			if word>>1&0x3ff != 370 {
				f.class = SyscallReturn
			}
		}
	case 31:
		switch word >> 1 & 0x3ff {
		case 4, 68: // tw, td
			f.class = Trap
		}
	}
	return f
}
