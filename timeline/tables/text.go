// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"cmp"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/textreplay/textreplay/kcore"
)

const pageSize = 4096

// A page is a page of a copy of text.
type page struct {
	pageRow
	content []byte
}

// pagesIn cuts a copy of text into pages, by offset from base.
func pagesIn(segments []kcore.Segment, base uint64, machine elf.Machine) []page {
	var out []page
	for _, s := range segments {
		for at, rest := s.Addr, s.Data; len(rest) > 0; {
			n := min(int(pageSize-at%pageSize), len(rest))
			p := page{content: rest[:n]}
			p.Offset = int64(at - base)
			p.Hash = hashPage(p.content, base, machine)
			out = append(out, p)
			at, rest = at+uint64(n), rest[n:]
		}
	}
	slices.SortFunc(out, func(a, b page) int { return cmp.Compare(a.Offset, b.Offset) })
	return out
}

// setOf returns the name of a set of pages, which follows from its content.
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

// imageMax is up to how far behind _text an absolute address counts as one of the kernel.
// The largest kernels have some 70 MiB.
const imageMax = 128 << 20

// relocations calls visit with the place of each absolute address of the kernel in a page,
// in ascending order, and its offset from _text. The kernel was moved as a whole when it
// booted, so these change with the place (handle_relocations() of
// arch/x86/boot/compressed/misc.c). Which four bytes are taken for an address does not
// matter for the answer: the offset says exactly what they were.
func relocations(content []byte, base uint64, machine elf.Machine, visit func(at int, to uint32)) {
	if machine != elf.EM_X86_64 || base == 0 {
		return
	}
	for i := 0; i+4 <= len(content); {
		if to := binary.LittleEndian.Uint32(content[i:]) - uint32(base); to < imageMax {
			visit(i, to)
			i += 4
		} else {
			i++
		}
	}
}

// hashPage returns the hash of what a textRow has of a page.
func hashPage(content []byte, base uint64, machine elf.Machine) (sum [16]byte) {
	// The length, then the page with the offsets in the places of the addresses, then the
	// places, of which there is at most one in four bytes.
	var moved [2 + pageSize + pageSize]byte
	binary.LittleEndian.PutUint16(moved[:], uint16(len(content)))
	n := 2 + copy(moved[2:], content)
	relocations(content, base, machine, func(at int, to uint32) {
		binary.LittleEndian.PutUint32(moved[2+at:], to)
		binary.LittleEndian.PutUint16(moved[n:], uint16(at))
		n += 2
	})
	full := sha256.Sum256(moved[:n])
	return [16]byte(full[:])
}

// textRowOf returns the row of a page.
func textRowOf(p *page, base uint64, machine elf.Machine) textRow {
	row := textRow{Hash: p.Hash, Offset: p.Offset, Page: slices.Clone(p.content)}
	relocations(p.content, base, machine, func(at int, to uint32) {
		clear(row.Page[at:][:4])
		row.RelocAt, row.RelocTo = append(row.RelocAt, int32(at)), append(row.RelocTo, int32(to))
	})
	return row
}

// A Shipped is kernel text as it was linked, of a vmlinux file.
type Shipped struct {
	BuildID string // hex; "" if the file has none
	pages   []page
	base    uint64
	machine elf.Machine
}

// ReadShipped reads the executable sections of a vmlinux file.
func ReadShipped(path string) (*Shipped, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	s := &Shipped{machine: f.Machine}
	symbols, err := f.Symbols()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, x := range symbols {
		if x.Name == "_text" {
			s.base = x.Value
		}
	}
	if s.base == 0 {
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
	s.pages = pagesIn(segments, s.base, s.machine)
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
