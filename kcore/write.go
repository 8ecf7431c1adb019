// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bufio"
	"cmp"
	"debug/elf"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
)

// ELFSymbol is a symbol for [WriteCore] and [WriteExec].
type ELFSymbol struct {
	Name string // without NUL bytes
	Addr uint64
	Size uint64 // in bytes, 0 if it is not known
	Bind elf.SymBind
	Type elf.SymType
}

// WriteCore writes an ELF core file (ET_CORE) with a PT_LOAD for each segment
// that is not empty, by address, readable and executable, without a physical
// address. [NewCore] reads it back. If syms is not empty the file has a
// .symtab too, of absolute symbols.
//
// "objdump -d FILE" and "gdb -c FILE" take such a file as they take a copy of
// /proc/kcore; neither reads the symbols of a core, while readelf and debug/elf
// do. [WriteExec] is for those who want names. As /proc/kcore has it, a first
// program header is a PT_NOTE with the registers of a process, for gdb, all 0
// (read_kcore_iter, fs/proc/kcore.c); files of machines whose registers are not
// known here are without.
//
// The segments' Data are written as they are, without another copy of them.
// Errors are those of w, or say what ELF cannot hold: overlapping segments,
// addresses or offsets beyond 32 bits in a 32-bit file, an unknown class or
// byte order, a NUL in a name.
func WriteCore(w io.Writer, machine elf.Machine, class elf.Class, data elf.Data, segs []Segment, syms []ELFSymbol) error {
	return writeELF(w, elf.ET_CORE, machine, class, data, segs, syms)
}

// WriteExec writes what WriteCore writes in the form of a statically linked
// program (ET_EXEC), as vmlinux is one: with a section .text for each segment,
// to which the symbols belong. "objdump -d FILE" and "gdb FILE" then show the
// code with its names. It can hold no more than 65,000 segments.
func WriteExec(w io.Writer, machine elf.Machine, class elf.Class, data elf.Data, segs []Segment, syms []ELFSymbol) error {
	return writeELF(w, elf.ET_EXEC, machine, class, data, segs, syms)
}

const (
	// segAlign is the page size by which segments are aligned: their offset
	// and address are equal modulo segAlign, so that a reader can map them.
	segAlign = 4096

	// maxTextSections leaves room for the other sections below the first
	// number that needs extended numbering (SHN_LORESERVE, 0xff00).
	maxTextSections = 65_000
)

// The section names, and where they are in .shstrtab.
const (
	shstrtab    = "\x00.text\x00.symtab\x00.strtab\x00.shstrtab\x00"
	nameText    = 1
	nameSymtab  = nameText + len(".text\x00")
	nameStrtab  = nameSymtab + len(".symtab\x00")
	nameShstrtb = nameStrtab + len(".strtab\x00")
)

func writeELF(w io.Writer, typ elf.Type, machine elf.Machine, class elf.Class, data elf.Data, segs []Segment, syms []ELFSymbol) error {
	f, ok := layoutOf(class, data)
	if !ok {
		return fmt.Errorf("kcore: no ELF file has class %d and byte order %d", class, data)
	}
	segs, err := f.checkSegments(segs)
	if err != nil {
		return err
	}
	locals, names, err := f.checkSymbols(syms)
	if err != nil {
		return err
	}
	if typ == elf.ET_EXEC && len(segs) > maxTextSections {
		return fmt.Errorf("kcore: %d segments, at most %d can be sections", len(segs), maxTextSections)
	}

	// The parts, in the order of the file: ELF header, program headers, note,
	// segments, symbols, their names, the sections' names, section headers.
	progs := len(segs)
	var note []byte
	if typ == elf.ET_CORE && len(segs) > 0 {
		note = f.registers(machine)
	}
	if note != nil {
		progs++
	}
	noteOff := uint64(f.ehdr) + uint64(f.phdr)*uint64(progs)
	size := noteOff + uint64(len(note))
	offs := make([]uint64, len(segs))
	for i, s := range segs {
		size += (s.Addr - size) % segAlign
		offs[i] = size
		size += uint64(len(s.Data))
	}
	var sections []section
	if len(syms) > 0 || typ == elf.ET_EXEC {
		sections = []section{{}}
		if typ == elf.ET_EXEC {
			for i, s := range segs {
				sections = append(sections, section{
					name: nameText, typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
					addr: s.Addr, off: offs[i], size: uint64(len(s.Data)), align: 1,
				})
			}
		}
		for _, s := range []section{
			{name: nameSymtab, typ: elf.SHT_SYMTAB, size: uint64(f.sym) * (uint64(len(syms)) + 1), align: 8,
				link: uint32(len(sections)) + 1, info: locals, entsize: uint64(f.sym)},
			{name: nameStrtab, typ: elf.SHT_STRTAB, size: names, align: 1},
			{name: nameShstrtb, typ: elf.SHT_STRTAB, size: uint64(len(shstrtab)), align: 1},
		} {
			size = alignUp(size, s.align)
			s.off = size
			size += s.size
			sections = append(sections, s)
		}
	}
	phnum := uint16(min(progs, pnXnum))
	if phnum == pnXnum {
		if sections == nil {
			sections = []section{{}}
		}
		sections[0].info = uint32(progs)
	}
	var shoff uint64
	if sections != nil {
		shoff = alignUp(size, 8)
		size = shoff + uint64(f.shdr)*uint64(len(sections))
	}
	if !f.wide && size > math.MaxUint32 {
		return fmt.Errorf("kcore: 32-bit file of %d bytes", size)
	}

	e := &encoder{layout: f, w: bufio.NewWriterSize(w, 64<<10)}
	e.header(typ, machine, class, data, phnum, shoff, len(sections))
	if note != nil {
		e.prog(elf.PT_NOTE, 0, noteOff, 0, uint64(len(note)), 4)
	}
	for i, s := range segs {
		e.prog(elf.PT_LOAD, elf.PF_R|elf.PF_X, offs[i], s.Addr, uint64(len(s.Data)), segAlign)
	}
	e.bytes(note)
	for i, s := range segs {
		e.padTo(offs[i])
		e.bytes(s.Data)
	}
	if len(sections) > 1 {
		tabs := sections[len(sections)-3:]
		e.padTo(tabs[0].off)
		e.symbols(typ, segs, syms)
		e.padTo(tabs[1].off)
		e.bytes([]byte{0})
		for s := range localsFirst(syms) {
			e.string(s.Name)
			e.bytes([]byte{0})
		}
		e.padTo(tabs[2].off)
		e.string(shstrtab)
	}
	if sections != nil {
		e.padTo(shoff)
	}
	e.sections(sections)
	return e.w.Flush()
}

// checkSegments returns the segments that are to be written, by address.
func (f *layout) checkSegments(segs []Segment) ([]Segment, error) {
	segs = slices.DeleteFunc(slices.Clone(segs), func(s Segment) bool { return len(s.Data) == 0 })
	slices.SortFunc(segs, func(a, b Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	for i, s := range segs {
		if s.Addr > f.maxAddr || uint64(len(s.Data)) > f.maxAddr-s.Addr {
			return nil, fmt.Errorf("kcore: segment at %#x reaches past the end of the address space", s.Addr)
		}
		if i > 0 && s.Addr-segs[i-1].Addr < uint64(len(segs[i-1].Data)) {
			return nil, fmt.Errorf("kcore: segments at %#x and %#x overlap", segs[i-1].Addr, s.Addr)
		}
	}
	return segs, nil
}

// checkSymbols returns the index in .symtab of the first symbol that is not
// local, and the size of .strtab.
func (f *layout) checkSymbols(syms []ELFSymbol) (locals uint32, names uint64, err error) {
	locals, names = 1, 1 // the null symbol and its name
	for _, s := range syms {
		if strings.IndexByte(s.Name, 0) >= 0 {
			return 0, 0, fmt.Errorf("kcore: symbol name %q holds a NUL", s.Name)
		}
		if !f.wide && (s.Addr|s.Size) > math.MaxUint32 {
			return 0, 0, fmt.Errorf("kcore: symbol %s at %#x, size %#x, in a 32-bit file", s.Name, s.Addr, s.Size)
		}
		names += uint64(len(s.Name)) + 1
		if s.Bind == elf.STB_LOCAL {
			locals++
		}
	}
	if names > math.MaxUint32 {
		return 0, 0, fmt.Errorf("kcore: %d bytes of symbol names", names)
	}
	return locals, names, nil
}

// section is what a section header says. The zero section is the first of
// every table.
type section struct {
	name            int // offset in .shstrtab
	typ             elf.SectionType
	flags           elf.SectionFlag
	addr, off, size uint64
	link, info      uint32
	align, entsize  uint64
}

// localsFirst yields the symbols in the order that ELF asks for.
func localsFirst(syms []ELFSymbol) iter.Seq[ELFSymbol] {
	return func(yield func(ELFSymbol) bool) {
		for _, local := range []bool{true, false} {
			for _, s := range syms {
				if (s.Bind == elf.STB_LOCAL) == local && !yield(s) {
					return
				}
			}
		}
	}
}

// encoder writes fields in the layout's byte order. Errors stay in w until it
// is flushed.
type encoder struct {
	layout
	w   *bufio.Writer
	off uint64 // bytes written
	buf [8]byte
}

func (e *encoder) bytes(b []byte) {
	e.w.Write(b)
	e.off += uint64(len(b))
}

func (e *encoder) string(s string) {
	e.w.WriteString(s)
	e.off += uint64(len(s))
}

func (e *encoder) u16(v uint16) {
	e.order.PutUint16(e.buf[:], v)
	e.bytes(e.buf[:2])
}

func (e *encoder) u32(v uint32) {
	e.order.PutUint32(e.buf[:], v)
	e.bytes(e.buf[:4])
}

func (e *encoder) word(v uint64) {
	if !e.wide {
		e.u32(uint32(v))
		return
	}
	e.order.PutUint64(e.buf[:], v)
	e.bytes(e.buf[:8])
}

var zeros [segAlign]byte

// padTo writes zeros up to offset off, which is less than segAlign away.
func (e *encoder) padTo(off uint64) { e.bytes(zeros[:off-e.off]) }

// header writes the ELF header. shnum is the number of section headers.
func (e *encoder) header(typ elf.Type, machine elf.Machine, class elf.Class, data elf.Data, phnum uint16, shoff uint64, shnum int) {
	ident := [elf.EI_NIDENT]byte{elf.EI_CLASS: byte(class), elf.EI_DATA: byte(data), elf.EI_VERSION: byte(elf.EV_CURRENT)}
	copy(ident[:], elf.ELFMAG)
	e.bytes(ident[:])
	e.u16(uint16(typ))
	e.u16(uint16(machine))
	e.u32(uint32(elf.EV_CURRENT))
	e.word(0) // e_entry
	e.word(uint64(e.ehdr))
	e.word(shoff)
	e.u32(0) // e_flags
	e.u16(uint16(e.ehdr))
	e.u16(uint16(e.phdr))
	e.u16(phnum)
	e.u16(uint16(e.shdr))
	e.u16(uint16(shnum))
	e.u16(uint16(max(shnum-1, 0))) // .shstrtab is the last
}

// prog writes a program header.
func (e *encoder) prog(typ elf.ProgType, flags elf.ProgFlag, off, addr, size, align uint64) {
	e.u32(uint32(typ))
	if e.wide {
		e.u32(uint32(flags))
	}
	e.word(off)
	e.word(addr)
	e.word(0) // p_paddr
	e.word(size)
	e.word(size)
	if !e.wide {
		e.u32(uint32(flags))
	}
	e.word(align)
}

// registers returns a note with a struct elf_prstatus of zeros
// (include/linux/elfcore.h), nil where its size is not known.
func (f *layout) registers(machine elf.Machine) []byte {
	const fixed = 112 + 8 // bytes before the registers, and behind them
	var n uint32
	switch machine {
	case elf.EM_X86_64, elf.EM_S390:
		n = fixed + 27*8
	case elf.EM_AARCH64:
		n = fixed + 34*8
	case elf.EM_PPC64:
		n = fixed + 48*8
	default:
		return nil
	}
	if !f.wide {
		return nil
	}
	const ntPRSTATUS = 1
	const name = "CORE\x00"
	note := make([]byte, 20+n) // Elf64_Nhdr, the name in words of 4 bytes, the content
	f.order.PutUint32(note, uint32(len(name)))
	f.order.PutUint32(note[4:], n)
	f.order.PutUint32(note[8:], ntPRSTATUS)
	copy(note[12:], name)
	return note
}

// sections writes the section headers.
func (e *encoder) sections(sections []section) {
	for _, s := range sections {
		e.u32(uint32(s.name))
		e.u32(uint32(s.typ))
		e.word(uint64(s.flags))
		e.word(s.addr)
		e.word(s.off)
		e.word(s.size)
		e.u32(s.link)
		e.u32(s.info)
		e.word(s.align)
		e.word(s.entsize)
	}
}

// symbols writes .symtab. The segments are the sections from 1 on if typ is
// ET_EXEC.
func (e *encoder) symbols(typ elf.Type, segs []Segment, syms []ELFSymbol) {
	var null [24]byte
	e.bytes(null[:e.sym])
	name := uint32(1)
	for s := range localsFirst(syms) {
		shndx := uint16(elf.SHN_ABS)
		if typ == elf.ET_EXEC {
			if i := segmentAt(segs, s.Addr); i >= 0 {
				shndx = uint16(i) + 1
			}
		}
		info := elf.ST_INFO(s.Bind, s.Type)
		e.u32(name)
		if e.wide {
			e.bytes([]byte{info, byte(elf.STV_DEFAULT)})
			e.u16(shndx)
			e.word(s.Addr)
			e.word(s.Size)
		} else {
			e.word(s.Addr)
			e.word(s.Size)
			e.bytes([]byte{info, byte(elf.STV_DEFAULT)})
			e.u16(shndx)
		}
		name += uint32(len(s.Name)) + 1
	}
}

func alignUp(n, align uint64) uint64 { return (n + align - 1) / align * align }
