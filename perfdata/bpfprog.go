// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"fmt"
	"iter"
)

// A BPFProg is a BPF program as the recorder asked the kernel for it, by the id
// of its BPF_EVENT: struct perf_bpil of tools/perf/util/bpf-utils.h around
// struct bpf_prog_info of include/uapi/linux/bpf.h. All slices of bytes alias
// the recording's memory and are read-only.
//
// The code is that of the moment at which perf asked, which is later than the
// program's BPF_EVENT.
type BPFProg struct {
	Type     uint32 // BPF_PROG_TYPE_*
	ID       uint32
	Tag      [8]byte
	Name     string // at most 15 bytes, "" if it has none
	JitedLen uint32 // bytes of machine code of all its functions
	LoadTime uint64 // nanoseconds since boot, CLOCK_BOOTTIME
	BTFID    uint32 // of its BTF, 0 if it has none

	// Insns is the machine code of all functions, one after the other. It is
	// nil where the recorder did not ask or was not allowed to see it.
	Insns    []byte
	Ksyms    []uint64  // the functions' addresses; zeros where the recorder was not allowed to see them
	FuncLens []uint32  // their lengths in bytes
	ProgTags [][8]byte // their tags

	// Fields that perf does not ask for, but other recorders may.
	Xlated []byte   // the program's own instructions, after the verifier
	MapIDs []uint32 // of the maps that it uses

	FuncInfo      BPFInfoTable // struct bpf_func_info
	LineInfo      BPFInfoTable // struct bpf_line_info
	JitedLineInfo BPFInfoTable // u64 addresses, one for each of LineInfo
}

// A BPFInfoTable is an array of records that the kernel may make longer.
// [BPFSource] reads them.
type BPFInfoTable struct {
	RecSize uint32 // bytes of a record
	Count   uint32 // records
	Data    []byte // RecSize * Count bytes, in the recording's byte order
}

// A BPFFunc is one function of a [BPFProg].
type BPFFunc struct {
	Addr uint64
	Len  uint32  // bytes
	Code []byte  // Len bytes; nil where the recording has none
	Tag  [8]byte // zero where the recording has none
}

// Funcs returns the program's functions, its main one first. Those whose
// address the recorder was not allowed to see are left out.
func (p *BPFProg) Funcs() iter.Seq[BPFFunc] {
	return func(yield func(BPFFunc) bool) {
		code := p.Insns
		for i, n := range p.FuncLens {
			f := BPFFunc{Len: n}
			if i < len(p.Ksyms) {
				f.Addr = p.Ksyms[i]
			}
			if i < len(p.ProgTags) {
				f.Tag = p.ProgTags[i]
			}
			if uint64(n) <= uint64(len(code)) {
				f.Code, code = code[:n:n], code[n:]
			} else {
				code = nil
			}
			if f.Addr != 0 && !yield(f) {
				return
			}
		}
	}
}

// Offsets in struct bpf_prog_info.
const (
	infoType     = 0
	infoID       = 4
	infoTag      = 8
	infoLoadTime = 40
	infoName     = 64
	infoBTFID    = 128
	infoSize     = 192 // the end of the last field read here
	bpfNameLen   = 16
	bpfTagSize   = 8
	bpilHeader   = 16 // u32 info_len, data_len; u64 arrays
)

// The arrays that may follow a bpf_prog_info, as bits of perf_bpil.arrays
// (enum perf_bpil_array_types).
const (
	arrayJitedInsns = iota
	arrayXlatedInsns
	arrayMapIDs
	arrayJitedKsyms
	arrayJitedFuncLens
	arrayFuncInfo
	arrayLineInfo
	arrayJitedLineInfo
	arrayProgTags
	numArrays
)

// bpilArrays says where bpf_prog_info has an array's place and count, and
// either where it has the size of an element or what that is
// (bpil_array_desc of tools/perf/util/bpf-utils.c).
var bpilArrays = [numArrays]struct {
	name                  string
	array, count, recSize int
	fixed                 uint32
}{
	arrayJitedInsns:    {name: "jited_prog_insns", array: 24, count: 16, fixed: 1},
	arrayXlatedInsns:   {name: "xlated_prog_insns", array: 32, count: 20, fixed: 1},
	arrayMapIDs:        {name: "map_ids", array: 56, count: 52, fixed: 4},
	arrayJitedKsyms:    {name: "jited_ksyms", array: 112, count: 104, fixed: 8},
	arrayJitedFuncLens: {name: "jited_func_lens", array: 120, count: 108, fixed: 4},
	arrayFuncInfo:      {name: "func_info", array: 136, count: 144, recSize: 132},
	arrayLineInfo:      {name: "line_info", array: 152, count: 148, recSize: 172},
	arrayJitedLineInfo: {name: "jited_line_info", array: 160, count: 168, recSize: 176},
	arrayProgTags:      {name: "prog_tags", array: 184, count: 180, fixed: bpfTagSize},
}

// BPFProgs returns the programs of the BPF_PROG_INFO section, none if there is
// no such section.
//
// Each one is checked: its arrays must be where their number and sizes put
// them, and the lengths of its functions add up to its code. One that fails
// comes as a [*FormatError] in its place; where it still says how long it is,
// the next one follows.
func (r *Recording) BPFProgs() iter.Seq2[*BPFProg, error] {
	return func(yield func(*BPFProg, error) bool) {
		c, err := r.feature(FeatureBPFProgInfo)
		if err != nil {
			return
		}
		for range c.u32() {
			at := c.off
			infoLen, dataLen, arrays := c.u32(), c.u32(), c.u64()
			if c.short || uint64(infoLen)+uint64(dataLen) > uint64(c.rest()) {
				yield(nil, r.featureErr(FeatureBPFProgInfo, at, "a program of %d and %d bytes does not fit in the section", infoLen, dataLen))
				return
			}
			info, data := c.take(int(infoLen)), c.take(int(dataLen))
			p, err := r.endian.parseBPFProg(info, data, arrays)
			if err != nil {
				p, err = nil, r.featureErr(FeatureBPFProgInfo, at, "program: %v", err)
			}
			if !yield(p, err) {
				return
			}
		}
		if err := r.shortErr(FeatureBPFProgInfo, c); err != nil {
			yield(nil, err)
		}
	}
}

// A bpilArray is one array of a program.
type bpilArray struct {
	count, size uint32
	data        []byte // nil if it is not there
}

func (e endian) parseBPFProg(infoBytes, data []byte, arrays uint64) (*BPFProg, error) {
	// A shorter info is that of an older perf.
	var info [infoSize]byte
	copy(info[:], infoBytes)
	a, err := e.bpilArrays(&info, len(infoBytes), data, arrays, bpilAlign)
	if err != nil {
		var packed error
		if a, packed = e.bpilArrays(&info, len(infoBytes), data, arrays, 1); packed != nil {
			return nil, err
		}
	}
	p := &BPFProg{
		Type:          e.u32(info[infoType:]),
		ID:            e.u32(info[infoID:]),
		Tag:           [8]byte(info[infoTag:]),
		Name:          string(untilNUL(info[infoName : infoName+bpfNameLen])),
		JitedLen:      e.u32(info[bpilArrays[arrayJitedInsns].count:]),
		LoadTime:      e.u64(info[infoLoadTime:]),
		BTFID:         e.u32(info[infoBTFID:]),
		Ksyms:         e.u64s(a[arrayJitedKsyms].data),
		FuncInfo:      a[arrayFuncInfo].table(),
		LineInfo:      a[arrayLineInfo].table(),
		JitedLineInfo: a[arrayJitedLineInfo].table(),
	}
	var sum uint64
	for b := a[arrayJitedFuncLens].data; len(b) >= 4; b = b[4:] {
		n := e.u32(b)
		sum += uint64(n)
		p.FuncLens = append(p.FuncLens, n)
	}
	for b := a[arrayProgTags].data; len(b) >= bpfTagSize; b = b[bpfTagSize:] {
		p.ProgTags = append(p.ProgTags, [8]byte(b))
	}
	if a[arrayJitedInsns].count > 0 {
		p.Insns = a[arrayJitedInsns].data
	}
	if a[arrayXlatedInsns].count > 0 {
		p.Xlated = a[arrayXlatedInsns].data
	}
	for b := a[arrayMapIDs].data; len(b) >= 4; b = b[4:] {
		p.MapIDs = append(p.MapIDs, e.u32(b))
	}
	if p.FuncLens != nil && sum != uint64(p.JitedLen) {
		return nil, fmt.Errorf("id %d: functions of %d bytes together, code of %d", p.ID, sum, p.JitedLen)
	}
	if p.FuncLens != nil && p.Ksyms != nil && len(p.FuncLens) != len(p.Ksyms) {
		return nil, fmt.Errorf("id %d: %d functions at %d addresses", p.ID, len(p.FuncLens), len(p.Ksyms))
	}
	if p.FuncLens != nil && p.ProgTags != nil && len(p.FuncLens) != len(p.ProgTags) {
		return nil, fmt.Errorf("id %d: %d functions with %d tags", p.ID, len(p.FuncLens), len(p.ProgTags))
	}
	return p, nil
}

// bpilAlign is what perf pads each array to since 5.16 (get_bpf_prog_info_linear
// of tools/perf/util/bpf-utils.c). Before, it packed the arrays one behind the
// other and padded only the last one (bpf_program__get_prog_info_linear of
// tools/lib/bpf/libbpf.c). Nothing in the file names the layout, but info has
// the place of each array.
const bpilAlign = 8

// bpilArrays finds the arrays in data. perf lays them out in the order of their
// bits, each one padded to align bytes, and all of them together to bpilAlign.
// The error names the first array whose place in info is another one.
func (e endian) bpilArrays(info *[infoSize]byte, infoLen int, data []byte, arrays, align uint64) (a [numArrays]bpilArray, err error) {
	var next uint64
	for i, d := range bpilArrays {
		if arrays>>i&1 == 0 {
			continue
		}
		if infoLen < max(d.array+8, d.count+4, d.recSize+4) {
			return a, fmt.Errorf("info of %d bytes has no %s", infoLen, d.name)
		}
		count, size := e.u32(info[d.count:]), d.fixed
		if size == 0 {
			size = e.u32(info[d.recSize:])
		}
		n := uint64(count) * uint64(size)
		if n > uint64(len(data)) || next+n > uint64(len(data)) {
			return a, fmt.Errorf("%s: %d elements of %d bytes at %d do not fit in %d bytes", d.name, count, size, next, len(data))
		}
		a[i] = bpilArray{count: count, size: size}
		// The kernel marks what the recorder may not see by a null pointer, of
		// which perf subtracts the start of the data.
		if place := int64(e.u64(info[d.array:])); place >= 0 {
			if uint64(place) != next {
				return a, fmt.Errorf("%s is at %d instead of %d", d.name, place, next)
			}
			a[i].data = data[next : next+n : next+n]
		}
		next = roundUp(next+n, align)
	}
	next = roundUp(next, bpilAlign)
	if arrays>>numArrays == 0 && next != uint64(len(data)) {
		return a, fmt.Errorf("arrays of %d bytes in %d", next, len(data))
	}
	return a, nil
}

// roundUp rounds n up to a multiple of align, a power of two.
func roundUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }

func (a bpilArray) table() BPFInfoTable {
	if a.data == nil {
		return BPFInfoTable{}
	}
	return BPFInfoTable{RecSize: a.size, Count: a.count, Data: a.data}
}

// A BPFBTF is the BTF, the type information, of BPF programs.
type BPFBTF struct {
	ID   uint32 // as BPFProg.BTFID has it
	Data []byte // raw BTF; aliases the recording's memory
}

// BPFBTFs returns the BTFs of the BPF_BTF section, none if there is no such
// section. A section that ends too early gives a [*FormatError] last.
func (r *Recording) BPFBTFs() iter.Seq2[BPFBTF, error] {
	return func(yield func(BPFBTF, error) bool) {
		c, err := r.feature(FeatureBPFBTF)
		if err != nil {
			return
		}
		for range c.u32() {
			at := c.off
			id, size := c.u32(), c.u32()
			if c.short || uint64(size) > uint64(c.rest()) {
				yield(BPFBTF{}, r.featureErr(FeatureBPFBTF, at, "BTF of %d bytes does not fit in the section", size))
				return
			}
			if !yield(BPFBTF{ID: id, Data: c.take(int(size))}, nil) {
				return
			}
		}
		if err := r.shortErr(FeatureBPFBTF, c); err != nil {
			yield(BPFBTF{}, err)
		}
	}
}
