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

// A Spot is an instruction of a piece of code: where it ends, and its length in bytes.
type Spot struct{ End, Len int }

// SpotsOfTwo passes the instructions of code of x86-64 from two places on. It decodes them in turn: a CPU can
// decode an instruction at one while it waits for the length of one at the other. addr is the address of code.
// Spots are the instructions that may have an operand of 4 bytes in [low, low+size): such a number ends where
// the instruction ends, or 1, 2 or 4 bytes before that. SpotsOfTwo sets spots to them and stops where the next
// instruction may pass one of ends, or one of spots may be full. It returns how many there are and up to where
// it came. The places must be 8 or more. For other machines it does nothing.
func (d *Disassembler) SpotsOfTwo(spots [2][]Spot, code []byte, addr uint64, from, ends [2]int, low, size uint32) (n, to [2]int) {
	if _, ok := d.arch.(x86); !ok {
		return n, from
	}
	known := knownLens()
	steps := min(len(spots[0]), len(spots[1]))
	spots0, spots1 := spots[0][:steps], spots[1][:steps]
	end0, end1 := min(ends[0], len(code))-maxInst, min(ends[1], len(code))-maxInst
	n0, n1, at0, at1 := 0, 0, from[0], from[1]
	for i := 0; i < steps && at0 <= end0 && at1 <= end1; i++ {
		l0, ok0 := known.usual(word(code, at0))
		l1, ok1 := known.usual(word(code, at1))
		if !ok0 {
			l0 = uint8(d.Len(code[at0:], addr+uint64(at0)))
		}
		if !ok1 {
			l1 = uint8(d.Len(code[at1:], addr+uint64(at1)))
		}
		at0, at1 = at0+int(l0), at1+int(l1)
		spots0[n0], spots1[n1] = Spot{at0, int(l0)}, Spot{at1, int(l1)}
		n0, n1 = n0+mayHave(word(code, at0-8), low, size), n1+mayHave(word(code, at1-8), low, size)
	}
	return [2]int{n0, n1}, [2]int{at0, at1}
}

func word(code []byte, at int) uint64 { return binary.LittleEndian.Uint64(code[at : at+8]) }

// mayHave returns 1 if a number of 4 bytes that ends at the end of w, or 1, 2 or 4 bytes before that, is in
// [low, low+size), 0 otherwise.
func mayHave(w uint64, low, size uint32) (n int) {
	if min(uint32(w)-low, uint32(w>>16)-low, uint32(w>>24)-low, uint32(w>>32)-low) < size {
		n = 1
	}
	return n
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
