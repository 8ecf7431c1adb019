// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package kernelsource finds the lines of source of kernel text, by the debug
// information (DWARF) of the kernel's vmlinux file.
//
// The debug information of a kernel has hundreds of megabytes. A [File] reads the tables
// when it is first asked, and of these only the compilation units that it is asked about.
package kernelsource

import (
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"sync"
)

// ErrNoDebugInfo is wrapped by the error of Open if the file has no debug information,
// as the kernels of distributions have not: it is in a package for debugging.
var ErrNoDebugInfo = errors.New("no debug information")

// A Frame is a place in the source. Several belong to one address if functions are
// inlined there.
type Frame struct {
	Func   string // name of the function, "" if unknown
	File   string // as the compiler recorded it
	Line   int    // from 1; 0 if unknown
	Column int    // from 1; 0 if unknown
}

// A File is a vmlinux file with debug information. It is safe for concurrent use, but for
// Close.
type File struct {
	f     *elf.File
	moved uint64 // what running addresses are above linked ones, modulo 2^64

	mu    sync.Mutex
	once  bool
	err   error
	data  *dwarf.Data
	units []unitRange
	cache map[dwarf.Offset]*unit
}

// Open opens a vmlinux file of a kernel whose text began at the address text when it
// ran (_stext). The caller closes the File. The error wraps ErrNoDebugInfo if the file has
// no debug information or no text.
func Open(path string, text uint64) (*File, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	sec := f.Section(".text")
	if f.Section(".debug_info") == nil && f.Section(".zdebug_info") == nil || sec == nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrNoDebugInfo)
	}
	linked := sec.Addr
	symbols, _ := f.Symbols() // without any, .text begins with _stext
	for _, s := range symbols {
		if s.Name == "_stext" {
			linked = s.Value
		}
	}
	return &File{f: f, moved: text - linked, cache: make(map[dwarf.Offset]*unit)}, nil
}

// Close closes the file. No Frames may be asked for then, or at the same time.
func (f *File) Close() error { return f.f.Close() }

// A unitRange is a range of linked addresses, [lo, hi), of a compilation unit, whose first
// entry is at the offset at.
type unitRange struct {
	lo, hi uint64
	at     dwarf.Offset
}

// A unit is a compilation unit that has been read.
type unit struct {
	lines []row
	funcs []*function
}

// A row of a line table is of the addresses from addr to the next row's.
type row struct {
	addr         uint64
	file         string
	line, column int
	end          bool
}

// A function is a subprogram, or a place where one is inlined.
type function struct {
	name    string
	ranges  [][2]uint64 // linked addresses, from the first to behind the last
	inlined []*function
	// Where it is inlined.
	callFile             string
	callLine, callColumn int
}

const (
	mostUnits  = 256 // that are kept
	mostInline = 64  // frames of an address
)

// Frames returns the places in the source of the code at addr, an address of the running
// kernel: the function whose code it is comes first, then the ones that it is inlined
// into. It returns nil if the file does not say. The error is that of reading the debug
// information, and is the same for all addresses.
func (f *File) Frames(addr uint64) ([]Frame, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.once {
		f.once = true
		f.err = f.read()
	}
	if f.err != nil {
		return nil, f.err
	}
	pc := addr - f.moved
	i := sort.Search(len(f.units), func(i int) bool { return f.units[i].lo > pc })
	if i--; i < 0 || pc >= f.units[i].hi {
		return nil, nil
	}
	u := f.unit(f.units[i].at)
	return u.frames(pc), nil
}

// read reads the addresses of all compilation units.
func (f *File) read() (err error) {
	if f.data, err = f.f.DWARF(); err != nil {
		return err
	}
	offsets, err := f.unitOffsets()
	if err != nil {
		return err
	}
	r := f.data.Reader()
	for _, at := range offsets {
		r.Seek(at)
		e, err := r.Next()
		if err != nil || e == nil || e.Tag != dwarf.TagCompileUnit {
			continue // a damaged unit says nothing, and others may
		}
		ranges, err := f.data.Ranges(e)
		if err != nil {
			continue
		}
		for _, x := range ranges {
			if x[0] < x[1] {
				f.units = append(f.units, unitRange{x[0], x[1], e.Offset})
			}
		}
	}
	slices.SortFunc(f.units, func(a, b unitRange) int { return cmp.Compare(a.lo, b.lo) })
	return nil
}

// unitOffsets returns where the first entry of each compilation unit is, by the headers
// of the units alone (DWARF 5, 7.5.1).
func (f *File) unitOffsets() ([]dwarf.Offset, error) {
	sec := f.f.Section(".debug_info")
	if sec == nil {
		sec = f.f.Section(".zdebug_info")
	}
	in := sec.Open()
	order := f.f.ByteOrder
	var out []dwarf.Offset
	var h [24]byte
	for at := uint64(0); ; {
		if _, err := in.Seek(int64(at), io.SeekStart); err != nil {
			return nil, err
		}
		n, err := io.ReadFull(in, h[:])
		if n == 0 {
			return out, nil
		}
		if n < 12 || err != nil && err != io.ErrUnexpectedEOF {
			return out, nil // what is cut off
		}
		length, head, wide := uint64(order.Uint32(h[:])), uint64(4), uint64(4)
		if length == 0xffffffff {
			length, head, wide = order.Uint64(h[4:]), 12, 8
		}
		size := head + 2 + wide + 1 // version, abbreviations, size of an address
		if version := order.Uint16(h[head:]); version >= 5 {
			size++ // type of the unit
		}
		if length > 1<<40 {
			return out, nil
		}
		out = append(out, dwarf.Offset(at+size))
		at += head + length
	}
}

// unit returns the compilation unit whose first entry is at an offset. What cannot be read
// of it is missing.
func (f *File) unit(at dwarf.Offset) *unit {
	if u := f.cache[at]; u != nil {
		return u
	}
	if len(f.cache) >= mostUnits {
		clear(f.cache)
	}
	u := &unit{}
	f.cache[at] = u
	r := f.data.Reader()
	r.Seek(at)
	e, err := r.Next()
	if err != nil || e == nil {
		return u
	}
	files := f.readLines(u, e)
	if e.Children {
		f.readFunctions(r, &u.funcs, files, 0)
	}
	return u
}

// readLines reads the line table of a unit, and returns the names of its files.
func (f *File) readLines(u *unit, e *dwarf.Entry) []*dwarf.LineFile {
	lr, err := f.data.LineReader(e)
	if err != nil || lr == nil {
		return nil
	}
	var le dwarf.LineEntry
	for lr.Next(&le) == nil {
		name := ""
		if le.File != nil {
			name = le.File.Name
		}
		u.lines = append(u.lines, row{le.Address, name, le.Line, le.Column, le.EndSequence})
	}
	// Of one address, the last row counts; but the end of a sequence is before the
	// sequence that begins there.
	slices.SortStableFunc(u.lines, func(a, b row) int {
		if c := cmp.Compare(a.addr, b.addr); c != 0 || a.end == b.end {
			return c
		}
		if a.end {
			return -1
		}
		return 1
	})
	return lr.Files()
}

// readFunctions reads the children of the entry that r is in: functions, and what is
// inlined into them.
func (f *File) readFunctions(r *dwarf.Reader, out *[]*function, files []*dwarf.LineFile, depth int) {
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == 0 {
			return
		}
		switch {
		case e.Tag == dwarf.TagSubprogram || e.Tag == dwarf.TagInlinedSubroutine:
			x := &function{name: f.nameOf(e, 0)}
			x.ranges, _ = f.data.Ranges(e)
			if n, ok := e.Val(dwarf.AttrCallFile).(int64); ok && n >= 0 && n < int64(len(files)) && files[n] != nil {
				x.callFile = files[n].Name
			}
			line, _ := e.Val(dwarf.AttrCallLine).(int64)
			column, _ := e.Val(dwarf.AttrCallColumn).(int64)
			x.callLine, x.callColumn = int(line), int(column)
			into := &x.inlined
			if len(x.ranges) == 0 {
				into = new([]*function) // a declaration, or one that is only inlined
			} else {
				*out = append(*out, x)
			}
			if e.Children && depth < mostInline {
				f.readFunctions(r, into, files, depth+1)
			} else {
				r.SkipChildren()
			}
		case e.Children && e.Tag == dwarf.TagLexDwarfBlock && depth < 4*mostInline:
			f.readFunctions(r, out, files, depth+1)
		default:
			r.SkipChildren()
		}
	}
}

// nameOf returns the name of a function, or that of the function that an entry is an
// instance of.
func (f *File) nameOf(e *dwarf.Entry, depth int) string {
	if name, ok := e.Val(dwarf.AttrName).(string); ok {
		return name
	}
	for _, attr := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		at, ok := e.Val(attr).(dwarf.Offset)
		if !ok || depth > 8 {
			continue
		}
		r := f.data.Reader()
		r.Seek(at)
		if of, err := r.Next(); err == nil && of != nil {
			return f.nameOf(of, depth+1)
		}
	}
	return ""
}

// has reports whether a linked address is in the function.
func (x *function) has(pc uint64) bool {
	return slices.ContainsFunc(x.ranges, func(r [2]uint64) bool { return r[0] <= pc && pc < r[1] })
}

// frames returns the places of a linked address, the innermost first.
func (u *unit) frames(pc uint64) []Frame {
	var line Frame
	i := sort.Search(len(u.lines), func(i int) bool { return u.lines[i].addr > pc })
	if i--; i >= 0 && !u.lines[i].end {
		line = Frame{File: u.lines[i].file, Line: u.lines[i].line, Column: u.lines[i].column}
	}
	var outer []*function // outermost first
	for list := u.funcs; len(outer) < mostInline; {
		i := slices.IndexFunc(list, func(x *function) bool { return x.has(pc) })
		if i < 0 {
			break
		}
		outer = append(outer, list[i])
		list = list[i].inlined
	}
	if len(outer) == 0 {
		if line.File == "" {
			return nil
		}
		return []Frame{line}
	}
	var out []Frame
	for i := len(outer) - 1; i >= 0; i-- {
		line.Func = outer[i].name
		out = append(out, line)
		line = Frame{File: outer[i].callFile, Line: outer[i].callLine, Column: outer[i].callColumn}
	}
	return out
}
