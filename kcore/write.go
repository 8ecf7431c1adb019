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
// that is not empty, by descending address, readable and executable, without a
// physical address. [NewCore] reads it back. If syms is not empty the file has a
// .symtab too, of absolute symbols. segs may be in any order.
//
// "objdump -d FILE" and "gdb -c FILE" take such a file as they take a copy of
// /proc/kcore; neither reads the symbols of a core, while readelf and debug/elf
// do. Use [WriteExec] to get names. As in /proc/kcore, the first program header
// is a PT_NOTE with the registers of a process, all 0, for gdb
// (read_kcore_iter, fs/proc/kcore.c). It is left out for machines whose
// registers this package does not know.
//
// Data of the segments are written without copying them. Errors are those of w,
// or say what ELF cannot represent: overlapping segments, addresses or offsets
// beyond 32 bits in a 32-bit file, an unknown class or byte order, a NUL in a
// name.
func WriteCore(w io.Writer, machine elf.Machine, class elf.Class, data elf.Data, segs []Segment, syms []ELFSymbol) error {
	return (&elfFile{typ: elf.ET_CORE, machine: machine, class: class, data: data, segs: whole(segs), syms: syms}).write(w)
}

// WriteCoreFrom writes the file that [WriteCore] writes of segments whose contents read
// gives. sizes has the length of each segment in bytes, by its address. read must fill b
// with the bytes at addr. It is called for each segment from the beginning to the end, in
// parts of at most 64 KiB, so WriteCoreFrom takes no more memory than one of them. Errors
// of read are returned; what was written until then is not a whole file.
func WriteCoreFrom(w io.Writer, machine elf.Machine, class elf.Class, data elf.Data, sizes map[uint64]uint64, read func(b []byte, addr uint64) error) error {
	f := &elfFile{typ: elf.ET_CORE, machine: machine, class: class, data: data, read: read}
	for addr, n := range sizes {
		f.segs = append(f.segs, elfSegment{addr: addr, size: n})
	}
	return f.write(w)
}

// WriteExec writes the same contents as WriteCore as a statically linked
// program (ET_EXEC), as vmlinux is: with a section .text for each segment, to
// which the symbols belong. "objdump -d FILE" and "gdb FILE" then show the code
// with its names. It can hold no more than 65,000 segments.
func WriteExec(w io.Writer, machine elf.Machine, class elf.Class, data elf.Data, segs []Segment, syms []ELFSymbol) error {
	return (&elfFile{typ: elf.ET_EXEC, machine: machine, class: class, data: data, segs: whole(segs), syms: syms}).write(w)
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

// An elfFile is a file to be written. It is checked, then laid out, then written:
//
//	ELF header
//	program headers: one for the note, one for each segment
//	note             of a core: registers
//	segments         each at an offset that equals its address modulo segAlign
//	.symtab          if there are symbols, or in a program
//	.strtab
//	.shstrtab
//	section headers  if there are sections, or too many program headers
type elfFile struct {
	typ     elf.Type
	machine elf.Machine
	class   elf.Class
	data    elf.Data
	segs    []elfSegment
	syms    []ELFSymbol
	read    func(b []byte, addr uint64) error // nil: the segments have their data

	// From check.
	layout
	locals uint32 // index of the first symbol that is not local
	names  uint64 // size of .strtab

	// From place.
	note     []byte
	noteOff  uint64
	offs     []uint64 // of the segments
	sections []section
	shoff    uint64 // of the section headers, 0 if there are none
	size     uint64 // of the file
}

// An elfSegment is a segment to be written.
type elfSegment struct {
	addr, size uint64
	data       []byte
}

// whole returns segments that have their data.
func whole(segs []Segment) []elfSegment {
	out := make([]elfSegment, len(segs))
	for i, s := range segs {
		out[i] = elfSegment{s.Addr, uint64(len(s.Data)), s.Data}
	}
	return out
}

// write checks the file, lays it out and writes it to w.
func (f *elfFile) write(w io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	f.place()
	if !f.wide && f.size > math.MaxUint32 {
		return fmt.Errorf("kcore: 32-bit file of %d bytes", f.size)
	}
	e := &encoder{layout: f.layout, w: bufio.NewWriterSize(w, 64<<10)}
	e.header(f)
	e.programs(f)
	e.bytes(f.note)
	for i, s := range f.segs {
		e.padTo(f.offs[i])
		if f.read == nil {
			e.bytes(s.data)
			continue
		}
		if err := e.fill(s, f.read); err != nil {
			return err
		}
	}
	if len(f.sections) > 1 {
		e.tables(f)
	}
	if f.sections != nil {
		e.padTo(f.shoff)
		e.sections(f.sections)
	}
	return e.w.Flush()
}

// fill writes a segment, part by part.
func (e *encoder) fill(s elfSegment, read func(b []byte, addr uint64) error) error {
	var buf [16 * segAlign]byte
	for done := uint64(0); done < s.size; {
		b := buf[:min(uint64(len(buf)), s.size-done)]
		if err := read(b, s.addr+done); err != nil {
			return err
		}
		if _, err := e.w.Write(b); err != nil {
			return err // there may be gigabytes more to read
		}
		done += uint64(len(b))
		e.off += uint64(len(b))
	}
	return nil
}

// check returns an error if ELF cannot hold the file. It sorts the segments.
func (f *elfFile) check() error {
	var ok bool
	if f.layout, ok = layoutOf(f.class, f.data); !ok {
		return fmt.Errorf("kcore: no ELF file has class %d and byte order %d", f.class, f.data)
	}
	var err error
	if f.segs, err = f.checkSegments(f.segs); err != nil {
		return err
	}
	if f.locals, f.names, err = f.checkSymbols(f.syms); err != nil {
		return err
	}
	if f.typ == elf.ET_EXEC && len(f.segs) > maxTextSections {
		return fmt.Errorf("kcore: %d segments, at most %d can be sections", len(f.segs), maxTextSections)
	}
	return nil
}

// place lays the file out.
func (f *elfFile) place() {
	if f.typ == elf.ET_CORE && len(f.segs) > 0 {
		f.note = f.registers(f.machine)
	}
	f.noteOff = uint64(f.ehdr) + uint64(f.phdr)*uint64(f.programs())
	f.size = f.noteOff + uint64(len(f.note))
	f.offs = make([]uint64, len(f.segs))
	for i, s := range f.segs {
		f.size += (s.addr - f.size) % segAlign
		f.offs[i] = f.size
		f.size += s.size
	}
	if len(f.syms) > 0 || f.typ == elf.ET_EXEC {
		f.placeSections()
	}
	if n := f.programs(); n >= pnXnum {
		if f.sections == nil {
			f.sections = []section{{}}
		}
		f.sections[0].info = uint32(n)
	}
	if f.sections != nil {
		f.shoff = alignUp(f.size, 8)
		f.size = f.shoff + uint64(f.shdr)*uint64(len(f.sections))
	}
}

// programs returns the number of program headers.
func (f *elfFile) programs() int {
	if f.note != nil {
		return len(f.segs) + 1
	}
	return len(f.segs)
}

// placeSections makes the sections: the null section, one for each segment of a
// program, and the three tables.
func (f *elfFile) placeSections() {
	f.sections = []section{{}}
	if f.typ == elf.ET_EXEC {
		for i, s := range f.segs {
			f.sections = append(f.sections, section{
				name: nameText, typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR,
				addr: s.addr, off: f.offs[i], size: s.size, align: 1,
			})
		}
	}
	for _, s := range []section{
		{name: nameSymtab, typ: elf.SHT_SYMTAB, size: uint64(f.sym) * (uint64(len(f.syms)) + 1), align: 8,
			link: uint32(len(f.sections)) + 1, info: f.locals, entsize: uint64(f.sym)},
		{name: nameStrtab, typ: elf.SHT_STRTAB, size: f.names, align: 1},
		{name: nameShstrtb, typ: elf.SHT_STRTAB, size: uint64(len(shstrtab)), align: 1},
	} {
		f.size = alignUp(f.size, s.align)
		s.off = f.size
		f.size += s.size
		f.sections = append(f.sections, s)
	}
}

// checkSegments returns the segments that are to be written, by address.
func (f *layout) checkSegments(segs []elfSegment) ([]elfSegment, error) {
	segs = slices.DeleteFunc(slices.Clone(segs), func(s elfSegment) bool { return s.size == 0 })
	slices.SortFunc(segs, func(a, b elfSegment) int { return cmp.Compare(a.addr, b.addr) })
	for i, s := range segs {
		if s.addr > f.maxAddr || s.size > f.maxAddr-s.addr {
			return nil, fmt.Errorf("kcore: segment at %#x reaches past the end of the address space", s.addr)
		}
		if i > 0 && s.addr-segs[i-1].addr < segs[i-1].size {
			return nil, fmt.Errorf("kcore: segments at %#x and %#x overlap", segs[i-1].addr, s.addr)
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

// header writes the ELF header.
func (e *encoder) header(f *elfFile) {
	ident := [elf.EI_NIDENT]byte{elf.EI_CLASS: byte(f.class), elf.EI_DATA: byte(f.data), elf.EI_VERSION: byte(elf.EV_CURRENT)}
	copy(ident[:], elf.ELFMAG)
	e.bytes(ident[:])
	e.u16(uint16(f.typ))
	e.u16(uint16(f.machine))
	e.u32(uint32(elf.EV_CURRENT))
	e.word(0) // e_entry
	e.word(uint64(e.ehdr))
	e.word(f.shoff)
	e.u32(0) // e_flags
	e.u16(uint16(e.ehdr))
	e.u16(uint16(e.phdr))
	e.u16(uint16(min(f.programs(), pnXnum)))
	e.u16(uint16(e.shdr))
	e.u16(uint16(len(f.sections)))
	e.u16(uint16(max(len(f.sections)-1, 0))) // .shstrtab is the last
}

// programs writes the program headers.
func (e *encoder) programs(f *elfFile) {
	if f.note != nil {
		e.prog(elf.PT_NOTE, 0, f.noteOff, 0, uint64(len(f.note)), 4)
	}
	for i := range f.segs {
		if f.typ == elf.ET_CORE {
			// perf (6.1) takes the segments of a core from the last one to the first, and ignores
			// those of kernel text that come before the one with _stext (dso__load_kcore of
			// tools/perf/util/symbol.c).
			i = len(f.segs) - 1 - i
		}
		e.prog(elf.PT_LOAD, elf.PF_R|elf.PF_X, f.offs[i], f.segs[i].addr, f.segs[i].size, segAlign)
	}
}

// tables writes .symtab, .strtab and .shstrtab, which are the last sections.
func (e *encoder) tables(f *elfFile) {
	tables := f.sections[len(f.sections)-3:]
	e.padTo(tables[0].off)
	e.symbols(f)
	e.padTo(tables[1].off)
	e.bytes([]byte{0})
	for s := range localsFirst(f.syms) {
		e.string(s.Name)
		e.bytes([]byte{0})
	}
	e.padTo(tables[2].off)
	e.string(shstrtab)
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

// symbols writes .symtab. The segments of a program are its sections from 1 on.
func (e *encoder) symbols(f *elfFile) {
	var null [24]byte
	e.bytes(null[:e.sym])
	name := uint32(1)
	for s := range localsFirst(f.syms) {
		shndx := uint16(elf.SHN_ABS)
		if f.typ == elf.ET_EXEC {
			if i := slices.IndexFunc(f.segs, func(x elfSegment) bool { return x.addr <= s.Addr && s.Addr-x.addr < x.size }); i >= 0 {
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
