// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package disasm turns bytes of kernel text into instructions, named through
// the symbols of one moment.
//
// The syntax is that of "objdump -d" of GNU binutils, which is what kernel
// engineers compare with, but with one space between mnemonic and operands. A
// branch shows where it goes, and an operand that is relative to the instruction
// where it points:
//
//	call ffffffff81234560 <vfs_read+0x10>
//	mov 0x1bfb19e(%rip),%rax  # ffffffff827fb1b8 <initial_gs>
//	bl ffff800080234560 <vfs_read+0x10>
//	beq cr7,c000000000234560 <vfs_read+0x10>
//
// Three architectures are decoded, each by a package of golang.org/x/arch, with
// tables here for the instructions that it does not know, and other text where
// objdump's differs:
//
//   - x86-64, by x86asm, in AT&T's syntax.
//   - arm64, by arm64asm. The comments in which objdump gives a condition's other
//     names are left out. Of SVE and SME there is what saves and restores their
//     state, and no half-precision arithmetic.
//   - ppc64 in both byte orders, by ppc64asm: the Power ISA up to 3.1 without
//     those of embedded and of older processors.
//
// Nothing is skipped: bytes that are no instruction are shown as data. Only the
// caller can know which bytes are data that look like instructions, such as the
// pointers that arm64 kernels keep before a function's first instruction for
// ftrace; see [Disassembler.AllWithData].
package disasm

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strconv"
)

// ErrUnsupportedArch is wrapped by the error of [New] for an architecture that
// the package cannot decode.
var ErrUnsupportedArch = errors.New("unsupported architecture")

// Symbolizer returns the name of the symbol that covers addr and the address
// at which that symbol begins; ok is false if there is none. The caller decides
// whose symbols these are and of which moment.
type Symbolizer func(addr uint64) (name string, base uint64, ok bool)

// Inst is one instruction, or bytes that are none.
type Inst struct {
	Addr  uint64
	Bytes []byte // aliases the code that was decoded
	Text  string // in the syntax of the package's documentation
	// Target is where a direct call or jump goes, and where an abort goes for
	// XBEGIN, whose Class is Other. HasTarget is false for all other instructions,
	// indirect branches among them.
	Target    uint64
	HasTarget bool
	// Class is what the instruction does to the flow of control; Other for data.
	Class Class
	// Data is true where Bytes did not decode or are said to be data. Text is
	// then an assembler directive: ".byte 0x..".
	Data bool
}

// Disassembler decodes the instructions of one architecture. It holds no state
// and may be used from many goroutines at once.
type Disassembler struct {
	arch  arch
	order binary.ByteOrder
}

type arch interface {
	// next decodes the first instruction of code, which is not empty. Where
	// instructions are words it returns one that does not decode as data. ok is
	// false if there is nothing whole: then the caller shows a byte of data.
	next(code []byte, addr uint64, sym Symbolizer) (inst Inst, ok bool)

	// decode decodes the first instruction of code, which is not empty, without its
	// text. The length is 0 if there is nothing whole.
	decode(code []byte, addr uint64) flow

	// directives returns the directives of the architecture's assembler for words
	// of 4 and of 8 bytes.
	directives() (word, xword string)
}

// New returns a Disassembler for the machine and byte order of an ELF file.
// The error wraps [ErrUnsupportedArch] where there is none.
func New(machine elf.Machine, order binary.ByteOrder) (*Disassembler, error) {
	var a arch
	switch {
	case machine == elf.EM_X86_64 && order == binary.LittleEndian:
		a = x86{}
	case machine == elf.EM_AARCH64 && (order == binary.LittleEndian || order == binary.BigEndian):
		a = arm64{} // its instructions are little-endian all the same
	case machine == elf.EM_PPC64 && (order == binary.LittleEndian || order == binary.BigEndian):
		a = newPPC64(order)
	default:
		return nil, fmt.Errorf("disasm: %w: %v, %v", ErrUnsupportedArch, machine, order)
	}
	return &Disassembler{arch: a, order: order}, nil
}

// Next returns the first instruction of code, which lies at addr. sym names
// addresses and may be nil.
//
// If the bytes are no instruction, or code ends within it, the result is data.
// On x86-64 that is one byte. On the others it is a word of 4 bytes (".inst" or
// ".long"), or one byte if code has less of them or if addr is no multiple of
// 4, where no instruction can be. So each call takes at least one byte, unless
// code is empty: then the result has no Bytes.
func (d *Disassembler) Next(code []byte, addr uint64, sym Symbolizer) Inst {
	if len(code) == 0 {
		return Inst{Addr: addr}
	}
	if sym == nil {
		sym = noSymbols
	}
	if inst, ok := d.arch.next(code, addr, sym); ok {
		if !inst.Data {
			inst.Class = d.arch.decode(inst.Bytes, addr).class
		}
		return inst
	}
	return dataByte(code, addr)
}

func noSymbols(uint64) (string, uint64, bool) { return "", 0, false }

func dataByte(code []byte, addr uint64) Inst {
	return Inst{Addr: addr, Bytes: code[:1:1], Text: fmt.Sprintf(".byte %#02x", code[0]), Data: true}
}

// data returns the first 8, 4 or 1 bytes of code as data, even if they would
// decode: the largest size that is there and aligned. A word of 8 bytes is
// named as an address, in the byte order of the architecture:
//
//	.xword 0xffff800081c67f58 <ftrace_nop_ops>
//
// As with [Disassembler.Next], sym may be nil, and code may be empty.
func (d *Disassembler) data(code []byte, addr uint64, sym Symbolizer) Inst {
	word, xword := d.arch.directives()
	switch {
	case len(code) >= 8 && addr&7 == 0:
		value := d.order.Uint64(code)
		text := fmt.Appendf(nil, "%s 0x%016x", xword, value)
		if sym != nil {
			text = appendName(text, value, sym)
		}
		return Inst{Addr: addr, Bytes: code[:8:8], Text: string(text), Data: true}
	case len(code) >= 4 && addr&3 == 0:
		text := fmt.Sprintf("%s 0x%08x", word, d.order.Uint32(code))
		return Inst{Addr: addr, Bytes: code[:4:4], Text: text, Data: true}
	case len(code) > 0:
		return dataByte(code, addr)
	}
	return Inst{Addr: addr}
}

// All yields the instructions of code, which lies at addr, from first to last.
// Their Bytes, put together, are code.
func (d *Disassembler) All(code []byte, addr uint64, sym Symbolizer) iter.Seq[Inst] {
	return d.AllWithData(code, addr, sym, func(uint64) bool { return false })
}

// AllWithData is All for code in which there is data: isData reports whether the
// byte at an address is. Such bytes are shown as words, even if they would decode,
// and no instruction has any of them: one that would reach into data is data
// itself.
//
// An arm64 kernel with DYNAMIC_FTRACE_WITH_CALL_OPS has 8 bytes of data right
// before each function that can be traced, the pointer to its ftrace_ops.
func (d *Disassembler) AllWithData(code []byte, addr uint64, sym Symbolizer, isData func(addr uint64) bool) iter.Seq[Inst] {
	next := func(code []byte, addr uint64) Inst {
		if isData(addr) {
			n := 1
			for n < min(len(code), 8) && isData(addr+uint64(n)) {
				n++
			}
			return d.data(code[:n], addr, sym)
		}
		inst := d.Next(code, addr, sym)
		for i := 1; i < len(inst.Bytes); i++ {
			if isData(addr + uint64(i)) {
				return d.Next(code[:i], addr, sym)
			}
		}
		return inst
	}
	return func(yield func(Inst) bool) {
		code, addr := code, addr
		for len(code) > 0 {
			inst := next(code, addr)
			if !yield(inst) {
				return
			}
			code = code[len(inst.Bytes):]
			addr += uint64(len(inst.Bytes))
		}
	}
}

// appendAddr appends an address in hexadecimal with its name: "ffffffff81234560 <vfs_read+0x10>".
func appendAddr(b []byte, addr uint64, sym Symbolizer) []byte {
	return appendName(strconv.AppendUint(b, addr, 16), addr, sym)
}

// appendName appends the name of an address, if it has one: " <vfs_read+0x10>".
func appendName(b []byte, addr uint64, sym Symbolizer) []byte {
	name, base, ok := sym(addr)
	if !ok || base > addr {
		return b
	}
	b = append(b, " <"...)
	b = append(b, name...)
	if addr > base {
		b = append(b, "+0x"...)
		b = strconv.AppendUint(b, addr-base, 16)
	}
	return append(b, '>')
}
