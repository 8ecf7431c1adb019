// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package disasm turns bytes of kernel text into instructions, named through
// the symbols of one moment.
//
// The syntax is AT&T's as "objdump -d" of GNU binutils prints it, which is what
// kernel engineers compare with, but with one space between mnemonic and
// operands. A branch shows where it goes, and a RIP-relative operand where it
// points:
//
//	call ffffffff81234560 <vfs_read+0x10>
//	mov 0x1bfb19e(%rip),%rax  # ffffffff827fb1b8 <initial_gs>
//
// Bytes that are no instruction are shown as data, one at a time; nothing is
// skipped. x86-64 is decoded by golang.org/x/arch/x86/x86asm, with tables here
// for the instructions that it does not know.
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

// Inst is one instruction, or one byte that is not part of an instruction.
type Inst struct {
	Addr  uint64
	Bytes []byte // aliases the code that was decoded
	Text  string // in the syntax of the package's documentation
	// Target is where a direct call or jump goes. HasTarget is false for all
	// other instructions, indirect branches among them.
	Target    uint64
	HasTarget bool
	Data      bool // Bytes did not decode: Text is ".byte 0x.."
}

// Disassembler decodes the instructions of one architecture. It holds no state
// and may be used from many goroutines at once.
type Disassembler struct {
	arch arch
}

// arch decodes the first instruction of code, which is not empty. ok is false
// if there is none: then the caller shows a byte of data.
type arch interface {
	next(code []byte, addr uint64, sym Symbolizer) (inst Inst, ok bool)
}

// New returns a Disassembler for the machine and byte order of an ELF file.
// The error wraps [ErrUnsupportedArch] where there is none.
func New(machine elf.Machine, order binary.ByteOrder) (*Disassembler, error) {
	if machine == elf.EM_X86_64 && order == binary.LittleEndian {
		return &Disassembler{arch: x86{}}, nil
	}
	return nil, fmt.Errorf("disasm: %w: %v, %v", ErrUnsupportedArch, machine, order)
}

// Next returns the first instruction of code, which lies at addr. sym names
// addresses and may be nil.
//
// If the bytes are no instruction, or code ends within it, the result is one
// byte of data. So each call takes at least one byte, unless code is empty:
// then the result has no Bytes.
func (d *Disassembler) Next(code []byte, addr uint64, sym Symbolizer) Inst {
	if len(code) == 0 {
		return Inst{Addr: addr}
	}
	if sym == nil {
		sym = func(uint64) (string, uint64, bool) { return "", 0, false }
	}
	if inst, ok := d.arch.next(code, addr, sym); ok {
		return inst
	}
	return Inst{Addr: addr, Bytes: code[:1:1], Text: fmt.Sprintf(".byte %#02x", code[0]), Data: true}
}

// All yields the instructions of code from first to last. Their Bytes, put
// together, are code.
func (d *Disassembler) All(code []byte, addr uint64, sym Symbolizer) iter.Seq[Inst] {
	return func(yield func(Inst) bool) {
		for len(code) > 0 {
			inst := d.Next(code, addr, sym)
			if !yield(inst) {
				return
			}
			code = code[len(inst.Bytes):]
			addr += uint64(len(inst.Bytes))
		}
	}
}

// appendAddr appends an address with its name: "ffffffff81234560 <vfs_read+0x10>".
func appendAddr(b []byte, addr uint64, sym Symbolizer) []byte {
	b = strconv.AppendUint(b, addr, 16)
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
