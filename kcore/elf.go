// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"debug/elf"
	"encoding/binary"
	"math"
)

// debug/elf reads section headers first and refuses a file that ends before
// them, and it always copies the bytes. So this package reads and writes the
// few fields of a core itself.

// pnXnum in e_phnum means that the number of program headers is in
// sh_info of section 0 (PN_XNUM, the generic ABI's extended numbering).
const pnXnum = 0xffff

// layout says where the fields of one ELF class are.
type layout struct {
	order   binary.ByteOrder
	wide    bool   // addresses and offsets have 8 bytes, not 4
	maxAddr uint64 // end of the address space

	ehdr, phdr, shdr, sym int // sizes of Elf32_Ehdr or Elf64_Ehdr, and so on

	// Offsets in the ELF header.
	phoff, shoff, phentsize int // e_phnum follows e_phentsize

	// Offsets in a program header.
	pOffset, pVaddr, pFilesz int

	// Offset of sh_info in a section header.
	shInfo int
}

// layoutOf returns the layout of a class and byte order; false if one of them is unknown.
func layoutOf(class elf.Class, data elf.Data) (layout, bool) {
	var f layout
	switch class {
	case elf.ELFCLASS32:
		f = layout{
			maxAddr: 1 << 32,
			ehdr:    52, phdr: 32, shdr: 40, sym: 16,
			phoff: 28, shoff: 32, phentsize: 42,
			pOffset: 4, pVaddr: 8, pFilesz: 16,
			shInfo: 28,
		}
	case elf.ELFCLASS64:
		f = layout{
			wide: true,
			// The last byte is left out, so that the end of a range never
			// overflows.
			maxAddr: math.MaxUint64,
			ehdr:    64, phdr: 56, shdr: 64, sym: 24,
			phoff: 32, shoff: 40, phentsize: 54,
			pOffset: 8, pVaddr: 16, pFilesz: 32,
			shInfo: 44,
		}
	default:
		return layout{}, false
	}
	switch data {
	case elf.ELFDATA2LSB:
		f.order = binary.LittleEndian
	case elf.ELFDATA2MSB:
		f.order = binary.BigEndian
	default:
		return layout{}, false
	}
	return f, true
}

// word reads an address, offset or size.
func (f *layout) word(b []byte) uint64 {
	if f.wide {
		return f.order.Uint64(b)
	}
	return uint64(f.order.Uint32(b))
}
