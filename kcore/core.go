// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/textreplay/textreplay/internal/mapfile"
)

// Core is an ELF core file (ET_CORE) whose PT_LOAD segments are copies of
// kernel memory: the output of perf's kcore_copy, a copy of /proc/kcore, or the
// output of [WriteCore]. ELF32 and ELF64 of either byte order are read. A Core
// may be read from many goroutines at once; Close must come after all reads.
type Core struct {
	Machine elf.Machine
	Class   elf.Class // ELFCLASS32 or ELFCLASS64
	Data    elf.Data  // ELFDATA2LSB or ELFDATA2MSB

	// Segments are the file's PT_LOADs, sorted by address; none is empty, no
	// two overlap, and Addr+len(Data) does not overflow.
	//
	// Where several PT_LOADs give the same address from the same place of the
	// file (perf writes arm64's kernel text that way) there is one segment;
	// where they give it from different places the file contradicts itself, and
	// the address is in no segment. Segments that touch are not joined.
	Segments []Segment

	notes    [][]byte // the contents of the PT_NOTEs; they alias the file's mapping
	warnings []error
	file     *mapfile.File // nil for a core in memory
}

// Segment is a run of kernel memory.
type Segment struct {
	Addr uint64 // virtual address of Data[0]
	// Data is what the file holds for the segment. It aliases the file's
	// mapping (or the slice given to NewCore): it must not be written to, and
	// not be used after Close.
	Data []byte
}

// OpenCore maps the core file at path; its pages are read when they are first
// used. If the file is cut short while it is mapped, an access to a lost page
// ends the program, unless it is inside of a [Guard]. In the file's last page,
// lost bytes read as zeros. See [Core.Check]. Errors are *[FormatError],
// *[os.PathError] or *[ChangedError].
func OpenCore(path string) (*Core, error) {
	f, err := mapfile.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	if len(f.Data) == 0 {
		f.Close()
		return nil, &FormatError{File: path, Msg: "empty file, want an ELF core"}
	}
	var c *Core
	err = Guard(func() (err error) {
		c, err = NewCore(f.Data)
		return err
	})
	if err != nil {
		f.Close()
		return nil, inFile(err, path)
	}
	for i, w := range c.warnings {
		c.warnings[i] = inFile(w, path)
	}
	c.file = f
	return c, nil
}

// NewCore parses a core file in memory. The result aliases data, which must
// not change afterwards.
//
// A file that is not an ELF core, or whose header is cut short, is a
// *[FormatError]. If the file is cut short after its header, the bytes that are
// left can be read, and Warnings says what is missing.
func NewCore(data []byte) (*Core, error) {
	c := &Core{}
	f, headers, err := c.readHeader(data)
	if err != nil {
		return nil, err
	}
	loads, clash := disjoint(c.readProgramHeaders(data, f, headers))
	if clash.ranges > 0 {
		c.warn(headers.off, "segments disagree about %#x bytes in %d ranges, the first at address %#x, which are left out",
			clash.bytes, clash.ranges, clash.first)
	}
	c.Segments = make([]Segment, len(loads))
	for i, l := range loads {
		c.Segments[i] = Segment{Addr: l.addr, Data: data[l.off:][: l.end-l.addr : l.end-l.addr]}
	}
	return c, nil
}

// programHeaders says where the program headers of a file are: count of them, of size bytes
// each, from the offset off on. They may reach beyond the file.
type programHeaders struct{ off, size, count uint64 }

// readHeader reads the ELF header.
func (c *Core) readHeader(data []byte) (f layout, at programHeaders, err error) {
	fail := func(off uint64, format string, args ...any) (layout, programHeaders, error) {
		return f, at, &FormatError{File: "kcore", Off: int64(off), Msg: fmt.Sprintf(format, args...)}
	}
	if len(data) < elf.EI_NIDENT || string(data[:4]) != elf.ELFMAG {
		return fail(0, "not an ELF file")
	}
	c.Class, c.Data = elf.Class(data[elf.EI_CLASS]), elf.Data(data[elf.EI_DATA])
	fileSize := uint64(len(data))
	f, ok := layoutOf(c.Class, c.Data)
	if !ok {
		return fail(elf.EI_CLASS, "unknown ELF class %d or byte order %d", c.Class, c.Data)
	}
	if len(data) < f.ehdr {
		return fail(fileSize, "ELF header cut short")
	}
	if t := elf.Type(f.order.Uint16(data[16:])); t != elf.ET_CORE {
		return fail(16, "ELF file of type %v, want ET_CORE", t)
	}
	c.Machine = elf.Machine(f.order.Uint16(data[18:]))

	at = programHeaders{f.word(data[f.phoff:]), uint64(f.order.Uint16(data[f.phentsize:])), uint64(f.order.Uint16(data[f.phentsize+2:]))}
	if at.count == pnXnum {
		// The count did not fit: it is in sh_info of section 0.
		shoff := f.word(data[f.shoff:])
		if shoff <= fileSize && fileSize-shoff >= uint64(f.shdr) {
			at.count = uint64(f.order.Uint32(data[shoff+uint64(f.shInfo):]))
		} else {
			c.warn(min(shoff, fileSize), "section header 0, which counts the program headers, is not there: there are %d or more", at.count)
		}
	}
	if at.count > 0 && at.size < uint64(f.phdr) {
		return fail(uint64(f.phentsize), "program headers of %d bytes, want at least %d", at.size, f.phdr)
	}
	return f, at, nil
}

// readProgramHeaders returns the segments as far as they are in the file and below the end of
// the address space, and keeps the notes.
func (c *Core) readProgramHeaders(data []byte, f layout, headers programHeaders) (loads []load) {
	fileSize := uint64(len(data))
	var short, wrapped struct {
		segs  int
		bytes uint64
	}
	for i := range headers.count {
		// Neither product nor sum overflows: i is below 2^32, the header's
		// size below 2^16, and past the first test headers.off lies in the file.
		off := headers.off + i*headers.size
		if headers.off > fileSize || off > fileSize || fileSize-off < uint64(f.phdr) {
			c.warn(min(off, fileSize), "file cut short: %d of %d program headers are not there", headers.count-i, headers.count)
			break
		}
		h := data[off:]
		switch elf.ProgType(f.order.Uint32(h)) {
		case elf.PT_NOTE:
			at := min(f.word(h[f.pOffset:]), fileSize)
			c.notes = append(c.notes, data[at:][:min(f.word(h[f.pFilesz:]), fileSize-at)])
			continue
		case elf.PT_LOAD:
		default:
			continue
		}
		l := load{addr: f.word(h[f.pVaddr:]), off: min(f.word(h[f.pOffset:]), fileSize)}
		size := f.word(h[f.pFilesz:])
		if have := fileSize - l.off; size > have {
			short.segs++
			short.bytes += size - have
			size = have
		}
		if have := f.maxAddr - l.addr; size > have {
			wrapped.segs++
			wrapped.bytes += size - have
			size = have
		}
		if size > 0 {
			l.end = l.addr + size
			loads = append(loads, l)
		}
	}
	if short.segs > 0 {
		c.warn(fileSize, "file cut short: %#x bytes of %d segments are not there", short.bytes, short.segs)
	}
	if wrapped.segs > 0 {
		c.warn(headers.off, "%d segments reach past the end of the address space by %#x bytes, which are left out", wrapped.segs, wrapped.bytes)
	}
	return loads
}

// ByteOrder returns the order of Data.
func (c *Core) ByteOrder() binary.ByteOrder {
	if c.Data == elf.ELFDATA2MSB {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

// Note returns the content of the first ELF note of a name; nil if there is none. /proc/kcore
// has VMCOREINFO, lines of text about the kernel. perf's copies have no notes. The result
// aliases the file's mapping, as Segments do.
func (c *Core) Note(name string) []byte {
	order := c.ByteOrder()
	for _, data := range c.notes {
		for len(data) >= 12 {
			n, d := uint64(order.Uint32(data)), uint64(order.Uint32(data[4:]))
			data = data[12:]
			at := (n + 3) &^ 3
			if at+d > uint64(len(data)) {
				break
			}
			if n > 0 && string(data[:n-1]) == name {
				return data[at:][:d:d]
			}
			data = data[min(at+(d+3)&^3, uint64(len(data))):]
		}
	}
	return nil
}

func (c *Core) warn(off uint64, format string, args ...any) {
	c.warnings = append(c.warnings, &FormatError{File: "kcore", Off: int64(off), Msg: fmt.Sprintf(format, args...)})
}

// Bytes returns the n bytes at addr if one segment holds them all, else nil.
// They alias the segment's Data.
func (c *Core) Bytes(addr uint64, n int) []byte {
	if n <= 0 {
		return nil
	}
	i := segmentAt(c.Segments, addr)
	if i < 0 {
		return nil
	}
	s := c.Segments[i]
	off := addr - s.Addr
	if uint64(len(s.Data))-off < uint64(n) {
		return nil
	}
	return s.Data[off:][:n:n]
}

// segmentAt returns the index of the segment that holds addr, or -1. The
// segments are sorted by address and do not overlap.
func segmentAt(segs []Segment, addr uint64) int {
	i := sort.Search(len(segs), func(i int) bool { return segs[i].Addr > addr }) - 1
	if i < 0 || addr-segs[i].Addr >= uint64(len(segs[i].Data)) {
		return -1
	}
	return i
}

// Warnings returns the errors in a file that can still be used, as
// *[FormatError] values.
func (c *Core) Warnings() []error { return c.warnings }

// Close unmaps the file. Reading the bytes of a segment after that ends the
// program. Close may be called more than once.
func (c *Core) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// Check returns a *[ChangedError] if the file has changed since it was opened:
// what was read from it until now may be wrong.
func (c *Core) Check() error {
	if c.file == nil {
		return nil
	}
	return c.file.Check(false)
}

// Unload frees the memory that holds pages of the mapped file. Nothing becomes invalid: a
// page that is used later is read from the file again.
func (c *Core) Unload() {
	if c.file != nil {
		c.file.Unload()
	}
}

// load is a PT_LOAD's addresses [addr, end) and the place of its first byte
// in the file.
type load struct {
	addr, end uint64
	off       uint64
}

// clash counts the addresses for which PT_LOADs give different bytes.
type clash struct {
	ranges       int
	first, bytes uint64
}

// disjoint returns the loads sorted by address. It merges duplicates and leaves
// out addresses with different bytes, see [Core.Segments]. It reorders loads.
func disjoint(loads []load) ([]load, clash) {
	slices.SortStableFunc(loads, func(a, b load) int { return cmp.Compare(a.addr, b.addr) })
	overlap := false
	for i := 1; i < len(loads) && !overlap; i++ {
		overlap = loads[i].addr < loads[i-1].end
	}
	if !overlap {
		return loads, clash{}
	}

	// Loads with the same distance from offset to address agree wherever they
	// overlap: they become one.
	slices.SortFunc(loads, func(a, b load) int {
		return cmp.Or(cmp.Compare(a.addr-a.off, b.addr-b.off), cmp.Compare(a.addr, b.addr))
	})
	merged := loads[:1]
	for _, l := range loads[1:] {
		last := &merged[len(merged)-1]
		if last.addr-last.off == l.addr-l.off && l.addr < last.end {
			last.end = max(last.end, l.end)
		} else {
			merged = append(merged, l)
		}
	}

	// Loads that still overlap give different bytes. Go over all starts and
	// ends by address: where exactly one load is open, the sum of the open
	// loads' indices is its index.
	type edge struct {
		at    uint64
		delta int // +1 a start, -1 an end
		index int
	}
	edges := make([]edge, 0, 2*len(merged))
	for i, l := range merged {
		edges = append(edges, edge{l.addr, +1, i}, edge{l.end, -1, i})
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })

	var out []load
	var lost clash
	open, sum := 0, 0
	for i, e := range edges {
		if i > 0 && edges[i-1].at < e.at {
			from := edges[i-1].at
			switch {
			case open == 1:
				l := merged[sum]
				out = append(out, load{addr: from, end: e.at, off: l.off + (from - l.addr)})
			case open > 1:
				if lost.ranges == 0 {
					lost.first = from
				}
				lost.ranges++
				lost.bytes += e.at - from
			}
		}
		open += e.delta
		sum += e.delta * e.index
	}
	return out, lost
}
