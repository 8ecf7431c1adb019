// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package genperf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// LinkedText is where x86-64 kernels are linked to run.
const LinkedText = 0xffffffff81000000

// A KernelSection is a section of a kernel's file.
type KernelSection struct {
	Name string
	Addr uint64
	Code bool
	Data []byte
}

// KernelFile returns the file that a kernel was linked to, as it is in a boot image:
// without symbols, and with the lists of addresses that move with the kernel at the end,
// if moved is not nil: the linked addresses of 64-bit words, of inverse 32-bit words, and
// of 32-bit words.
func KernelFile(machine elf.Machine, sections []KernelSection, moved *[3][]uint64) []byte {
	le := binary.LittleEndian
	names := "\x00"
	var data bytes.Buffer
	data.Write(make([]byte, 64))
	headers := []elf.Section64{{}}
	for _, s := range sections {
		flags := elf.SHF_ALLOC
		if s.Code {
			flags |= elf.SHF_EXECINSTR
		}
		headers = append(headers, elf.Section64{Name: uint32(len(names)), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(flags),
			Addr: s.Addr, Off: uint64(data.Len()), Size: uint64(len(s.Data))})
		names += s.Name + "\x00"
		data.Write(s.Data)
	}
	headers = append(headers, elf.Section64{Name: uint32(len(names)), Type: uint32(elf.SHT_STRTAB), Off: uint64(data.Len())})
	names += ".shstrtab\x00"
	headers[len(headers)-1].Size = uint64(len(names))
	data.WriteString(names)
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64, Shentsize: 64,
		Shoff: uint64(data.Len()), Shnum: uint16(len(headers)), Shstrndx: uint16(len(headers) - 1)}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	binary.Write(&data, le, headers)
	if moved != nil {
		for _, list := range moved {
			binary.Write(&data, le, uint32(0))
			for _, addr := range list {
				binary.Write(&data, le, uint32(addr))
			}
		}
	}
	out := data.Bytes()
	var head bytes.Buffer
	binary.Write(&head, le, &h)
	copy(out, head.Bytes())
	return out
}
