// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sort"

	"github.com/parquet-go/parquet-go"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/vmlinux"
	"github.com/textreplay/textreplay/kcore"
)

const pageSize = 4096

// A page is a page of a copy of text.
type page struct {
	pageRow
	content []byte
	moved   []relocation // by place
	patch   *patch       // nil if the page itself is stored
}

// A relocation is an absolute address of the kernel in a page, or in a segment: where it is,
// and its offset from _text. The kernel was moved as a whole when it booted, so these
// addresses change with the place (handle_relocations() of arch/x86/boot/compressed/misc.c).
type relocation struct {
	at int
	to uint32
}

// pagesIn cuts a copy of text into pages, and returns them by offset from base.
func pagesIn(segments []kcore.Segment, base uint64, machine elf.Machine) []page {
	pages := 0
	for _, s := range segments {
		pages += len(s.Data)/pageSize + 2 // the first one and the last one may be shorter
	}
	out := make([]page, 0, pages)
	for _, s := range segments {
		moved := relocations(s.Data, s.Addr, base, machine)
		for at := 0; at < len(s.Data); {
			n := min(int(pageSize-(s.Addr+uint64(at))%pageSize), len(s.Data)-at)
			p := page{content: s.Data[at:][:n]}
			p.Offset = int64(s.Addr + uint64(at) - base)
			for len(moved) > 0 && moved[0].at < at {
				moved = moved[1:] // a part of it is in the page before
			}
			k := 0
			for ; k < len(moved) && moved[k].at+4 <= at+n; k++ {
				moved[k].at -= at
			}
			p.moved, moved = moved[:k:k], moved[k:]
			if k := len(out) - 1; k >= 0 && len(p.moved)+len(out[k].moved) == 0 && bytes.Equal(p.content, out[k].content) {
				p.Hash = out[k].Hash // as behind the text of a kernel: INT3s
			} else {
				p.Hash = p.hash()
			}
			out = append(out, p)
			at += n
		}
	}
	slices.SortFunc(out, func(a, b page) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}

// setOf returns the key of a set of pages: a hash of their offsets and contents.
func setOf(pages []page) string {
	h := sha256.New()
	for i := range pages {
		var at [8]byte
		binary.LittleEndian.PutUint64(at[:], uint64(pages[i].Offset))
		h.Write(at[:])
		h.Write(pages[i].Hash[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// imageMax is the offset from _text below which an absolute address is taken to be the kernel's.
// The largest kernels have some 70 MiB.
const imageMax = 128 << 20

// codePerRelocation is how many bytes of kernel text have one relocation: some 200, or fewer.
const codePerRelocation = 160

// relocations returns the absolute addresses of the kernel that are operands of the
// instructions in code, by place. They are found by the lengths of the instructions, which
// are the same wherever the kernel is. What is found decides only whether pages of two
// machines are equal, and not what they are: the offset says exactly what the four bytes were.
func relocations(code []byte, addr, base uint64, machine elf.Machine) (out []relocation) {
	if machine != elf.EM_X86_64 || base == 0 {
		return nil
	}
	d, err := disasm.New(machine, binary.LittleEndian)
	if err != nil {
		return nil
	}
	// A CPU decodes two instructions at once that do not wait for one another. So the second half is
	// decoded along with the first one, from its beginning on. Where an instruction of the first half
	// ends at the end of one of the second, all that follows is the same.
	half := middle(code)
	first := sweep{d: d, code: code, addr: addr, low: uint32(base), out: make([]relocation, 0, len(code)/codePerRelocation)}
	second := sweep{d: d, code: code, addr: addr, low: uint32(base), at: half, out: make([]relocation, 0, len(code)/codePerRelocation/2)}
	var begins [mostApart]bool // the instructions of second, from half on
	n, _ := d.Lens(second.lens[:], code[half:], addr+uint64(half))
	for k, at := 0, 0; k < n && at < mostApart; k++ {
		begins[at] = true
		at += int(second.lens[k])
	}
	var spots [2][]disasm.Spot
	for k := range spots {
		spots[k] = make([]disasm.Spot, len(first.lens))
	}
	for half >= spotsFrom && first.at < half && second.at < len(code) {
		for first.at < spotsFrom {
			first.decode(1)
		}
		if first.passINT3s(half - maxInst); second.at >= half+mostApart {
			second.passINT3s(len(code))
		}
		n, to := d.SpotsOfTwo(spots, code, addr, [2]int{first.at, second.at}, [2]int{half + maxInst, len(code)}, first.low, imageMax)
		if to == [2]int{first.at, second.at} {
			break
		}
		first.at, second.at = to[0], to[1]
		for _, x := range spots[0][:n[0]] {
			first.look(x.End, x.Len)
		}
		for _, x := range spots[1][:n[1]] {
			second.look(x.End, x.Len)
		}
	}
	for first.at < len(code) && (first.at < half || first.at >= half+mostApart || !begins[first.at-half]) {
		first.decode(first.untilJoin(half))
	}
	if first.at < half+mostApart && first.at < len(code) {
		for second.at < len(code) {
			second.passINT3s(len(code))
			second.decode(len(second.lens))
		}
		k := sort.Search(len(second.out), func(i int) bool { return second.out[i].at >= first.at })
		first.out = append(first.out, second.out[k:]...)
	}
	return first.out
}

// int3s is a page of INT3s. A kernel has many of them between the parts of its text.
var int3s = bytes.Repeat([]byte{0xcc}, pageSize)

// middle returns the place up to which code has half of its instructions, about.
func middle(code []byte) int {
	isCode := func(at int) bool { // looks at a few bytes of the page only
		return code[at] != 0xcc || code[at+pageSize/2] != 0xcc || code[at+pageSize-1] != 0xcc
	}
	pages := 0
	for at := 0; at+pageSize <= len(code); at += pageSize {
		if isCode(at) {
			pages++
		}
	}
	for at, n := 0, 0; at+pageSize <= len(code); at += pageSize {
		if isCode(at) {
			n++
		}
		if 2*n > pages {
			return at
		}
	}
	return len(code) / 2
}

// maxInst is the most bytes of an instruction of x86-64.
const maxInst = 15

// spotsFrom is the first place from which SpotsOfTwo passes instructions.
const spotsFrom = 8

// mostApart is how many bytes after the half the two sweeps meet, or they do not.
const mostApart = 1 << 10

// A sweep finds relocations in successive instructions.
type sweep struct {
	d    *disasm.Disassembler
	code []byte
	addr uint64
	low  uint32 // of the address of _text
	at   int    // up to where
	out  []relocation
	lens [4096]uint8
}

// passINT3s passes whole pages of INT3s up to end, which have no addresses.
func (s *sweep) passINT3s(end int) {
	for s.at+pageSize <= end && bytes.Equal(s.code[s.at:][:pageSize], int3s) {
		s.at += pageSize
	}
}

// untilJoin returns how many instructions can be decoded at once without passing a place where
// the other sweep may be.
func (s *sweep) untilJoin(half int) int {
	switch left := half - s.at; {
	case left > maxInst:
		return min(left/maxInst, len(s.lens))
	case left > -mostApart:
		return 1
	}
	return len(s.lens)
}

// decode decodes at most n instructions.
func (s *sweep) decode(n int) {
	n, _ = s.d.Lens(s.lens[:n], s.code[s.at:], s.addr+uint64(s.at))
	s.pass(n)
}

// pass passes n instructions, whose lengths are in lens.
func (s *sweep) pass(n int) {
	for _, size := range s.lens[:n] {
		s.at += int(size)
		s.look(s.at, int(size))
	}
}

// look finds the address that the instruction of this size that ends at end has. Few have two.
func (s *sweep) look(end, size int) {
	is := func(at int) bool {
		to := binary.LittleEndian.Uint32(s.code[at:]) - s.low
		if to < imageMax {
			s.out = append(s.out, relocation{at, to})
		}
		return to < imageMax
	}
	// At the end: an immediate or a displacement. Before it: a displacement with an
	// immediate of 4, 2 or 1 bytes behind it.
	switch {
	case size < 5:
	case size >= 9 && is(end-8):
		is(end - 4)
	case is(end - 4):
	case size >= 6 && is(end-5):
	case size >= 7:
		is(end - 6)
	}
}

// hash returns the hash of what a textRow has of a page.
func (p *page) hash() (sum [16]byte) {
	// The length, then the page with the offsets in the places of the addresses, then the
	// places. There is at most one in four bytes.
	var moved [2 + pageSize + pageSize]byte
	binary.LittleEndian.PutUint16(moved[:], uint16(len(p.content)))
	n := 2 + copy(moved[2:], p.content)
	for _, m := range p.moved {
		binary.LittleEndian.PutUint32(moved[2+m.at:], m.to)
		binary.LittleEndian.PutUint16(moved[n:], uint16(m.at))
		n += 2
	}
	full := sha256.Sum256(moved[:n])
	return [16]byte(full[:])
}

// row returns the row of a page.
func (p *page) row() textRow { return p.rowIn(nil) }

// rowIn is row in the memory of buffer.
func (p *page) rowIn(buffer []byte) textRow {
	row := textRow{Hash: p.Hash, Offset: p.Offset, Page: append(buffer[:0], p.content...)}
	for _, m := range p.moved {
		clear(row.Page[m.at:][:4])
	}
	row.RelocAt, row.RelocTo = columnsOf(p.moved)
	return row
}

// writeText writes pages as the table text. It returns how many there are.
func writeText(w io.Writer, pages []*page) (int64, error) {
	out := newColumnWriter[textRow](w)
	if n := len(pages); n > 0 {
		out.writeHashes("page_hash", n, func(i int) *[16]byte { return &pages[i].Hash })
		out.writePlain("text_offset", n, func(i int) int64 { return pages[i].Offset })
		out.writePages("page", pages)
		out.writeLists("reloc_at", n, func(i int) []relocation { return pages[i].moved }, func(m *relocation) int32 { return int32(m.at) })
		out.writeLists("reloc_to", n, func(i int) []relocation { return pages[i].moved }, func(m *relocation) int32 { return int32(m.to) })
		out.endGroup()
	}
	return int64(len(pages)), out.close()
}

// writeHashes writes n rows of a column of hashes.
func (c *columnWriter) writeHashes(name string, n int, value func(i int) *[16]byte) {
	c.oneColumn(name, n, pageRows, func(_ *pageColumn, p *dataPage, lo, hi int) {
		out, least, greatest := c.page[:0], value(lo), value(lo)
		for i := lo; i < hi; i++ {
			v := value(i)
			if bytes.Compare(v[:], least[:]) < 0 {
				least = v
			}
			if bytes.Compare(v[:], greatest[:]) > 0 {
				greatest = v
			}
			out = append(out, v[:]...)
		}
		c.page, p.encoded = out, out
		p.least, p.greatest = parquet.FixedLenByteArrayValue(least[:]), parquet.FixedLenByteArrayValue(greatest[:])
	})
}

// writePages writes a column of the contents of pages, without the addresses in them.
func (c *columnWriter) writePages(name string, pages []*page) {
	c.oneColumn(name, len(pages), textPageBytes/pageSize, func(_ *pageColumn, p *dataPage, lo, hi int) {
		c.lens = c.lens[:0]
		for _, page := range pages[lo:hi] {
			c.lens = append(c.lens, int32(len(page.content)))
		}
		c.lengths(p)
		out := slices.Grow(c.page, (hi-lo)*pageSize)
		var least, greatest []byte
		for i, page := range pages[lo:hi] {
			own := len(out)
			out = append(out, page.content...)
			v := out[own:]
			for _, m := range page.moved {
				clear(v[m.at:][:4])
			}
			if i == 0 || bytes.Compare(v, least) < 0 {
				least = v
			}
			if i == 0 || bytes.Compare(v, greatest) > 0 {
				greatest = v
			}
		}
		c.page, p.encoded = out, out
		p.least, p.greatest = parquet.ByteArrayValue(least), parquet.ByteArrayValue(greatest)
	})
}

// writeLists writes n rows of a column of lists of numbers: one number for each relocation of a row.
func (c *columnWriter) writeLists(name string, n int, of func(i int) []relocation, value func(m *relocation) int32) {
	var again, there []byte // whether a value is of the row before, and whether it is there
	c.oneColumn(name, n, listPageRows, func(_ *pageColumn, p *dataPage, lo, hi int) {
		out, least, greatest := c.page[:0], int32(math.MaxInt32), int32(math.MinInt32)
		again, there = again[:0], there[:0]
		for i := lo; i < hi; i++ {
			list := of(i)
			if len(list) == 0 {
				again, there = append(again, 0), append(there, 0)
				p.nulls++
			}
			for k := range list {
				v := value(&list[k])
				least, greatest = min(least, v), max(greatest, v)
				out = binary.LittleEndian.AppendUint32(out, uint32(v))
				again, there = append(again, byte(min(k, 1))), append(there, 1)
			}
		}
		c.page, p.encoded, p.values = out, out, len(there)
		p.repetitions, p.definitions = c.levels(again), c.levels(there)
		p.least, p.greatest = parquet.Int32Value(least), parquet.Int32Value(greatest)
	})
}

// listPageRows is the most rows of a page of a column of lists. A page of text has 1,024 addresses at most.
const listPageRows = 1 << 12

// columnsOf returns the columns that relocations are stored in.
func columnsOf(moved []relocation) (at, to []int32) {
	for _, m := range moved {
		at, to = append(at, int32(m.at)), append(to, int32(m.to))
	}
	return at, to
}

// A Shipped is kernel text as it was linked, of a vmlinux file.
type Shipped struct {
	BuildID string // hex; "" if the file has none
	path    string // the file
	pages   []page
}

// ID returns the name of the text in the manifests of a [Dir].
func (s *Shipped) ID() string { return "shipped-" + setOf(s.pages) }

// ReadShipped reads the executable sections of a vmlinux file. The file must have a symbol table
// with _text.
func ReadShipped(path string) (*Shipped, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := vmlinux.New(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &Shipped{path: path}
	base := uint64(0)
	symbols, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, x := range symbols {
		if x.Name == "_text" {
			base = x.Value
		}
	}
	if base == 0 {
		return nil, fmt.Errorf("%s: no symbol _text", path)
	}
	var segments []kcore.Segment
	for _, sec := range f.Sections {
		switch {
		case sec.Type == elf.SHT_NOTE:
			if data, err := sec.Data(); err == nil && s.BuildID == "" {
				s.BuildID = buildIDIn(f.ByteOrder, data)
			}
		case sec.Type == elf.SHT_PROGBITS && sec.Flags&(elf.SHF_ALLOC|elf.SHF_EXECINSTR) == elf.SHF_ALLOC|elf.SHF_EXECINSTR && sec.Size > 0:
			data, err := sec.Data()
			if err != nil {
				return nil, fmt.Errorf("%s: section %s: %w", path, sec.Name, err)
			}
			segments = append(segments, kcore.Segment{Addr: sec.Addr, Data: data})
		}
	}
	if len(segments) == 0 {
		return nil, errors.New(path + ": no section has code")
	}
	s.pages = pagesIn(segments, base, f.Machine)
	return s, nil
}

// buildIDIn returns the build id in a section of notes, "" if there is none.
func buildIDIn(order binary.ByteOrder, notes []byte) string {
	for len(notes) >= 12 {
		name, desc, typ := order.Uint32(notes), order.Uint32(notes[4:]), order.Uint32(notes[8:])
		size := (uint64(name)+3)&^3 + (uint64(desc)+3)&^3
		if uint64(len(notes)-12) < size {
			return ""
		}
		if typ == 3 && name == 4 && string(notes[12:15]) == "GNU" {
			return hex.EncodeToString(notes[16:][:desc])
		}
		notes = notes[12+size:]
	}
	return ""
}
