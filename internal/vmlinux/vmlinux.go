// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package vmlinux reads the file that a kernel was linked to, and moves its text to
// where the kernel ran.
//
// The kernel adds the distance to the absolute addresses in its text when it boots at
// another address (handle_relocations, arch/x86/boot/compressed/misc.c). There are two
// lists of these addresses:
//
//   - a vmlinux file that was linked with --emit-relocs, as distributions keep it next to
//     their debug information, has them as relocation sections;
//
//   - the kernel that is unpacked from a boot image has no symbols and no relocation
//     sections. Their essence follows the ELF file (arch/x86/tools/relocs.c):
//
//     0 | 64-bit addresses | 0 | inverse 32-bit | 0 | 32-bit | end of the file
//
//     Each entry is the linked address of a word, as 32 bits, sign-extended.
package vmlinux

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A File is a kernel's ELF file. It is not safe for concurrent use.
type File struct {
	*elf.File
	in      io.ReaderAt
	lists   *lists // nil until they are read
	symbols []elf.Symbol
	percpu  elf.SectionIndex // of per-CPU variables, if their addresses are offsets; else 0
}

// lists are the linked addresses of the words that are moved, from the end of a boot
// image's kernel.
type lists struct{ quads, inverse, words []uint64 }

// maxLists bounds the size of the lists. Linux 6.1 has 0.9 MB.
const maxLists = 64 << 20

// A FormatError says why a file is no kernel's ELF file.
type FormatError struct{ Reason string }

func (e *FormatError) Error() string { return e.Reason }

// New reads the headers of a kernel's file. The File reads from in until it is no longer
// used. Errors do not name the file.
func New(in io.ReaderAt) (*File, error) {
	begin := make([]byte, len(elf.ELFMAG))
	n, err := in.ReadAt(begin, 0)
	switch begin = begin[:n]; {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, err
	case n == 0:
		return nil, &FormatError{"the file is empty"}
	case strings.HasPrefix(string(begin), "MZ"): // x86 and arm64
		return nil, &FormatError{"a boot image, which has the kernel's ELF file in it, compressed"}
	case string(begin) != elf.ELFMAG:
		return nil, &FormatError{fmt.Sprintf("not an ELF file: begins with %q", begin)}
	}
	f, err := elf.NewFile(in)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, &FormatError{"the file was cut: it ends before its headers do"}
	}
	if err != nil {
		return nil, err
	}
	return &File{File: f, in: in}, nil
}

// Stext returns the linked address of _stext. The kernel in a boot image has no symbols
// (objcopy -S, arch/x86/boot/compressed/Makefile); x86 has _stext at the start of .text
// (arch/x86/kernel/vmlinux.lds.S).
func (f *File) Stext() (uint64, error) {
	symbols, err := f.Symbols()
	text := f.Section(".text")
	switch {
	case errors.Is(err, elf.ErrNoSymbols) && f.Machine == elf.EM_X86_64 && text != nil:
		// Programs have no symbols either.
		if text.Addr>>63 == 0 {
			return 0, &FormatError{fmt.Sprintf("not a kernel: its text is linked at %#x", text.Addr)}
		}
		return text.Addr, nil
	case errors.Is(err, elf.ErrNoSymbols):
		return 0, &FormatError{"the file has no symbols, so nothing says where _stext is"}
	case err != nil:
		return 0, err
	}
	for _, s := range symbols {
		if s.Name == "_stext" {
			return s.Value, nil
		}
	}
	return 0, &FormatError{"no symbol _stext"}
}

// Moved returns the data of a section as it is when the kernel runs by bytes above its
// linked address, modulo 2^64. The caller owns the data. ok is false if nothing says which
// words are absolute addresses: the data is then as it was linked. On other architectures
// than x86-64 it always is: these kernels move no addresses in text.
func (f *File) Moved(s *elf.Section, by uint64) (data []byte, ok bool, err error) {
	if data, err = s.Data(); err != nil || by == 0 {
		return data, err == nil, err
	}
	if f.Machine != elf.EM_X86_64 {
		return data, f.Section(".rela"+s.Name) != nil, nil // arm64 and others do not move addresses in text
	}
	if rela := f.Section(".rela" + s.Name); rela != nil {
		table, err := rela.Data()
		if err != nil {
			return nil, false, err
		}
		if err := f.readSymbols(); err != nil {
			return nil, false, err
		}
		return data, true, f.relocate(table, s.Addr, data, by)
	}
	if f.lists == nil {
		if f.lists, err = f.readLists(); err != nil {
			return nil, false, err
		}
	}
	l := f.lists
	for _, x := range []struct {
		at   []uint64
		size int
		by   uint64
	}{{l.quads, 8, by}, {l.inverse, 4, -by}, {l.words, 4, by}} {
		from, _ := slices.BinarySearch(x.at, s.Addr)
		for _, at := range x.at[from:] {
			if at-s.Addr >= uint64(len(data)) {
				break
			}
			if err := add(data, at-s.Addr, x.size, x.by); err != nil {
				return nil, false, err
			}
		}
	}
	return data, len(l.words) > 0, nil
}

// add adds by to the little-endian word of 4 or 8 bytes at data[at].
func add(data []byte, at uint64, size int, by uint64) error {
	if at > uint64(len(data)) || uint64(len(data))-at < uint64(size) {
		return fmt.Errorf("a relocation at offset %#x is outside of its section", at)
	}
	if size == 8 {
		binary.LittleEndian.PutUint64(data[at:], binary.LittleEndian.Uint64(data[at:])+by)
	} else {
		binary.LittleEndian.PutUint32(data[at:], binary.LittleEndian.Uint32(data[at:])+uint32(by))
	}
	return nil
}

// readSymbols reads the symbols and finds the section of per-CPU variables, once. Their addresses
// are offsets only if the section is linked at 0. Since 6.15, and without SMP, it is not (percpu_init,
// arch/x86/tools/relocs.c, until 6.14).
func (f *File) readSymbols() (err error) {
	if f.symbols != nil {
		return nil
	}
	if f.symbols, err = f.Symbols(); err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return err
	}
	for i, s := range f.Sections {
		if s.Name == ".data..percpu" && s.Addr == 0 {
			f.percpu = elf.SectionIndex(i)
		}
	}
	return nil
}

// relocate applies a relocation section to the data of the section at addr. It chooses
// entries as do_reloc64 does (arch/x86/tools/relocs.c). Addresses of per-CPU variables are
// offsets, which do not move. So an address of one that is relative to the instruction moves
// the other way.
func (f *File) relocate(table []byte, addr uint64, data []byte, by uint64) error {
	for ; len(table) >= 24; table = table[24:] {
		at := binary.LittleEndian.Uint64(table) - addr
		info := binary.LittleEndian.Uint64(table[8:])
		percpu, absolute := false, false
		if i := info >> 32; 0 < i && i <= uint64(len(f.symbols)) {
			sym := &f.symbols[i-1]
			percpu = f.percpu != 0 && sym.Section == f.percpu && !atPerCPU(sym.Name)
			absolute = sym.Section == elf.SHN_ABS
		}
		size := 4
		switch elf.R_X86_64(info & 0xffffffff) {
		case elf.R_X86_64_64:
			size = 8
		case elf.R_X86_64_32, elf.R_X86_64_32S:
		case elf.R_X86_64_PC32, elf.R_X86_64_PLT32:
			if !percpu {
				continue
			}
			if err := add(data, at, 4, -by); err != nil {
				return err
			}
			continue
		default:
			continue
		}
		if percpu || absolute {
			continue
		}
		if err := add(data, at, size, by); err != nil {
			return err
		}
	}
	return nil
}

// atPerCPU reports whether a symbol in the section of per-CPU variables is an address and
// no offset (is_percpu_sym, arch/x86/tools/relocs.c).
func atPerCPU(name string) bool {
	return name == "__init_begin" || name == "__per_cpu_load" || strings.HasPrefix(name, "init_per_cpu_")
}

// readLists reads the lists after the ELF file; they are empty if there are none.
func (f *File) readLists() (*lists, error) {
	end, err := f.end()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f.in, int64(end), maxLists))
	if err != nil {
		return nil, err
	}
	var all [][]uint64
	for ; len(data) >= 4; data = data[4:] {
		switch v := binary.LittleEndian.Uint32(data); {
		case v == 0:
			all = append(all, nil)
		case len(all) == 0:
			return &lists{}, nil // something else
		default:
			all[len(all)-1] = append(all[len(all)-1], uint64(int64(int32(v))))
		}
	}
	for _, l := range all {
		slices.Sort(l)
	}
	switch len(all) {
	case 2: // per-CPU variables have had addresses like others since 6.15
		return &lists{quads: all[0], words: all[1]}, nil
	case 3:
		return &lists{all[0], all[1], all[2]}, nil
	}
	return &lists{}, nil
}

// end returns the size of the ELF file: where the last of its parts ends.
func (f *File) end() (uint64, error) {
	var h elf.Header64
	if err := binary.Read(io.NewSectionReader(f.in, 0, 64), f.ByteOrder, &h); err != nil {
		return 0, err
	}
	end := h.Shoff + uint64(h.Shentsize)*uint64(h.Shnum)
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS {
			end = max(end, s.Offset+s.FileSize)
		}
	}
	if end > 1<<40 {
		return 0, fmt.Errorf("an ELF file of %d bytes", end)
	}
	return end, nil
}
