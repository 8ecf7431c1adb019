// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"cmp"
	"fmt"
	"slices"
)

// A BPFSource says which function and which line of source the machine code
// of a BPF program comes from: it joins the tables of a [BPFProg] with the BTF
// that the recording has for it. Each BTF is parsed once, when it is first
// needed. A BPFSource serves one goroutine at a time.
type BPFSource struct {
	r    *Recording
	btfs map[uint32]*parsedBTF
	err  error // the BPF_BTF section could not be read to its end
}

type parsedBTF struct {
	data   []byte
	at     int // offset in the section
	parsed bool
	types  *btfTypes
	err    error
}

// BPFSource returns the sources of the recording's BPF programs. It parses
// nothing yet.
func (r *Recording) BPFSource() *BPFSource {
	s := &BPFSource{r: r, btfs: make(map[uint32]*parsedBTF)}
	base, _ := r.Feature(FeatureBPFBTF)
	for b, err := range r.BPFBTFs() {
		if err != nil {
			s.err = err
			break
		}
		if _, ok := s.btfs[b.ID]; !ok {
			s.btfs[b.ID] = &parsedBTF{data: b.Data, at: cap(base) - cap(b.Data[:0:cap(b.Data)])}
		}
	}
	return s
}

// FuncName returns the name of a function by the id of its type, in the BTF with the id btf, as
// BPFProg.BTFID has it. The error wraps [ErrNoFeature] where the recording has no BTF of this id, and
// [ErrMalformed] where it cannot be parsed, or the type is not a function.
func (s *BPFSource) FuncName(btf, typ uint32) (string, error) {
	types, err := s.btf(btf)
	if err != nil {
		return "", err
	}
	name, err := types.function(typ)
	if err != nil {
		return "", fmt.Errorf("type %d of BTF %d %v: %w", typ, btf, err, ErrMalformed)
	}
	return name, nil
}

// btf returns the types with the given id.
func (s *BPFSource) btf(id uint32) (*btfTypes, error) {
	b := s.btfs[id]
	if b == nil {
		if s.err != nil {
			return nil, s.err
		}
		return nil, fmt.Errorf("BTF %d: %w", id, ErrNoFeature)
	}
	if !b.parsed {
		b.parsed = true
		b.types, b.err = parseBTF(b.data)
		if b.err != nil {
			b.err = s.r.featureErr(FeatureBPFBTF, b.at, "BTF %d: %v", id, b.err)
		}
	}
	return b.types, b.err
}

// Offsets and sizes in struct bpf_func_info and struct bpf_line_info.
const (
	funcInfoType  = 4 // u32 insn_off
	funcInfoSize  = 8 // u32 type_id
	lineInfoFile  = 4 // u32 insn_off
	lineInfoText  = 8
	lineInfoPlace = 12 // the line, and in its lower 10 bits the column
	lineInfoSize  = 16
)

// FuncNames returns the names of the program's functions, as their source has
// them: one for each element of p.Ksyms, its main function first. It returns
// none for a program without func_info or BTF; errors are those of
// [BPFSource.FuncName].
func (s *BPFSource) FuncNames(p *BPFProg) ([]string, error) {
	if p.BTFID == 0 || p.FuncInfo.Count == 0 {
		return nil, nil
	}
	if p.FuncInfo.RecSize < funcInfoSize || p.Ksyms != nil && int(p.FuncInfo.Count) != len(p.Ksyms) {
		return nil, fmt.Errorf("program %d: %d entries of %d bytes for %d functions: %w", p.ID, p.FuncInfo.Count, p.FuncInfo.RecSize, len(p.Ksyms), ErrMalformed)
	}
	names := make([]string, 0, p.FuncInfo.Count)
	for b := p.FuncInfo.Data; len(b) > 0; b = b[p.FuncInfo.RecSize:] {
		name, err := s.FuncName(p.BTFID, s.r.endian.u32(b[funcInfoType:]))
		if err != nil {
			return nil, fmt.Errorf("program %d: %w", p.ID, err)
		}
		names = append(names, name)
	}
	return names, nil
}

// A BPFLine is machine code that comes from one line of source.
type BPFLine struct {
	Addr   uint64 // of the first byte of the code
	Len    uint32 // bytes; 0 where all code was optimised away
	Insn   uint32 // index of the program's own instruction that it begins with
	File   string
	Line   uint32 // 1 is the first
	Column uint32 // 1 is the first, 0 if not known
	Text   string // the line itself
}

// BPFLines are lines in the order of their addresses.
type BPFLines []BPFLine

// At returns the line that the code at an address comes from, and whether it
// comes from any; a function's first instructions do not.
func (l BPFLines) At(addr uint64) (BPFLine, bool) {
	i, _ := slices.BinarySearchFunc(l, addr, func(line BPFLine, addr uint64) int {
		if line.Addr <= addr {
			return -1
		}
		return 1
	})
	if i == 0 || addr-l[i-1].Addr >= uint64(l[i-1].Len) {
		return BPFLine{}, false
	}
	return l[i-1], true
}

// Lines returns the lines of source that the program's machine code comes from.
// It returns none for a program without line_info, jited_line_info or BTF;
// errors are those of [BPFSource.FuncName], and [ErrMalformed] for tables that
// contradict each other.
func (s *BPFSource) Lines(p *BPFProg) (BPFLines, error) {
	if p.BTFID == 0 || p.LineInfo.Count == 0 || p.JitedLineInfo.Count == 0 {
		return nil, nil
	}
	if p.LineInfo.Count != p.JitedLineInfo.Count || p.LineInfo.RecSize < lineInfoSize || p.JitedLineInfo.RecSize < 8 {
		return nil, fmt.Errorf("program %d: %d lines of %d bytes at %d addresses of %d bytes: %w", p.ID,
			p.LineInfo.Count, p.LineInfo.RecSize, p.JitedLineInfo.Count, p.JitedLineInfo.RecSize, ErrMalformed)
	}
	types, err := s.btf(p.BTFID)
	if err != nil {
		return nil, err
	}
	e := s.r.endian
	lines := make(BPFLines, 0, p.LineInfo.Count)
	last := int64(-1)
	jited := p.JitedLineInfo.Data
	for b := p.LineInfo.Data; len(b) > 0; b = b[p.LineInfo.RecSize:] {
		insn := int64(e.u32(b))
		if insn <= last {
			return nil, fmt.Errorf("program %d: instruction %d follows %d in its lines: %w", p.ID, insn, last, ErrMalformed)
		}
		last = insn
		file, err := types.text(e.u32(b[lineInfoFile:]))
		if err != nil {
			return nil, fmt.Errorf("program %d: lines: %w: %v", p.ID, ErrMalformed, err)
		}
		text, err := types.text(e.u32(b[lineInfoText:]))
		if err != nil {
			return nil, fmt.Errorf("program %d: lines: %w: %v", p.ID, ErrMalformed, err)
		}
		place := e.u32(b[lineInfoPlace:])
		lines = append(lines, BPFLine{
			Addr: e.u64(jited), Insn: uint32(insn), File: file, Line: place >> 10, Column: place & (1<<10 - 1), Text: text,
		})
		jited = jited[p.JitedLineInfo.RecSize:]
	}
	slices.SortStableFunc(lines, func(a, b BPFLine) int { return cmp.Compare(a.Addr, b.Addr) })
	lines.measure(p)
	return lines, nil
}

// measure sets the lengths of lines that are sorted by address: up to the next
// one, and within a function.
func (l BPFLines) measure(p *BPFProg) {
	for f := range p.Funcs() {
		end := f.Addr + uint64(f.Len)
		i, _ := slices.BinarySearchFunc(l, f.Addr, func(line BPFLine, addr uint64) int { return cmp.Compare(line.Addr, addr) })
		for ; i < len(l) && l[i].Addr < end; i++ {
			next := end
			if i+1 < len(l) {
				next = min(end, l[i+1].Addr)
			}
			l[i].Len = uint32(next - l[i].Addr)
		}
	}
}
