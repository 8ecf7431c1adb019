// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bpfProgInfo is struct bpf_prog_info of uapi/linux/bpf.h, as of Linux 6.0. The recording has
// the struct as the kernel fills it in. So the recorder calls bpf(2) itself: libraries return
// the fields, not the struct.
type bpfProgInfo struct {
	Type, ID                        uint32
	Tag                             [8]byte
	JitedProgLen, XlatedProgLen     uint32
	JitedProgInsns, XlatedProgInsns uint64
	LoadTime                        uint64
	CreatedByUID, NrMapIDs          uint32
	MapIDs                          uint64
	Name                            [16]byte
	Ifindex, GPLCompatible          uint32
	NetnsDev, NetnsIno              uint64
	NrJitedKsyms, NrJitedFuncLens   uint32
	JitedKsyms, JitedFuncLens       uint64
	BTFID, FuncInfoRecSize          uint32
	FuncInfo                        uint64
	NrFuncInfo, NrLineInfo          uint32
	LineInfo, JitedLineInfo         uint64
	NrJitedLineInfo                 uint32
	LineInfoRecSize                 uint32
	JitedLineInfoRecSize            uint32
	NrProgTags                      uint32
	ProgTags                        uint64
	RunTimeNs, RunCnt               uint64
	RecursionMisses                 uint64
	VerifiedInsns                   uint32
	AttachBTFObjID, AttachBTFID     uint32
	_                               uint32
}

// The arrays that a recording has, as bits of perf_bpil.arrays (enum
// perf_bpil_array_types of tools/perf/util/bpf-utils.h).
const (
	bpilJitedInsns    = 1 << 0
	bpilJitedKsyms    = 1 << 3
	bpilJitedFuncLens = 1 << 4
	bpilFuncInfo      = 1 << 5
	bpilLineInfo      = 1 << 6
	bpilJitedLineInfo = 1 << 7
	bpilProgTags      = 1 << 8
)

const bpfTagSize = 8 // BPF_TAG_SIZE

// bpf(2) commands of enum bpf_cmd.
const (
	bpfProgGetNextID  = 11
	bpfProgGetFDByID  = 13
	bpfObjGetInfoByFD = 15
	bpfBTFGetFDByID   = 19
)

// Limits, far above what the verifier allows (a million instructions, 256 functions).
const (
	maxBPFCode  = 64 << 20
	maxBPFFuncs = 1 << 16
	maxBPFLines = 1 << 20
	maxBPFRec   = 1 << 8   // bytes of a record of the tables
	maxBTF      = 16 << 20 // BTF_MAX_SIZE
)

// bpf calls bpf(2). attr points to the part of union bpf_attr that cmd reads.
func bpf(cmd int, attr unsafe.Pointer, size uintptr) (int, error) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(attr), size)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return -1, errno
		}
		return int(n), nil
	}
}

// nextProgram returns the lowest id above id of a BPF program that is loaded, or
// [unix.ENOENT].
func nextProgram(id uint32) (uint32, error) {
	attr := struct{ start, next, flags uint32 }{start: id}
	if _, err := bpf(bpfProgGetNextID, unsafe.Pointer(&attr), unsafe.Sizeof(attr)); err != nil {
		return 0, err
	}
	return attr.next, nil
}

var errNoCode = errors.New("the kernel shows no machine code (kptr_restrict)")

// A program is a BPF program that is loaded.
type program struct {
	info  bpfProgInfo
	code  []byte
	ksyms []uint64
	lens  []uint32
	tags  [][bpfTagSize]byte
	// The tables of its functions and of the lines of source that its code is of. Their types
	// and strings are in its BTF. They are empty if the program was loaded without BTF.
	funcInfo, lineInfo, jitedLines bpfTable
}

// A bpfTable is an array of n records of size bytes each.
type bpfTable struct {
	n, size uint32
	data    []byte
}

// make allocates a table, if n and size are within the limits. Otherwise the table stays empty.
func (t *bpfTable) make(n, size uint32) {
	if n <= maxBPFLines && size <= maxBPFRec {
		*t = bpfTable{n, size, make([]byte, n*size)}
	}
}

// fetchProgram asks the kernel for the program of an id. The error is [unix.ENOENT] if it
// is gone.
func fetchProgram(id uint32) (*program, error) {
	fd, err := objFD(bpfProgGetFDByID, id)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var sizes bpfProgInfo
	if err := objInfo(fd, &sizes); err != nil {
		return nil, err
	}
	p := new(program)
	if sizes.JitedProgLen == 0 {
		p.info = sizes // interpreted: it has no machine code
		return p, nil
	}
	if sizes.JitedProgLen > maxBPFCode || sizes.NrJitedKsyms > maxBPFFuncs || sizes.NrJitedFuncLens > maxBPFFuncs || sizes.NrProgTags > maxBPFFuncs {
		return nil, fmt.Errorf("BPF program %d: %d bytes of code in %d functions", id, sizes.JitedProgLen, sizes.NrJitedFuncLens)
	}
	p.code = make([]byte, sizes.JitedProgLen)
	p.ksyms = make([]uint64, sizes.NrJitedKsyms)
	p.lens = make([]uint32, sizes.NrJitedFuncLens)
	p.tags = make([][bpfTagSize]byte, sizes.NrProgTags)
	var pin runtime.Pinner
	defer pin.Unpin()
	i := &p.info
	i.JitedProgLen, i.JitedProgInsns = sizes.JitedProgLen, pinned(&pin, p.code)
	i.NrJitedKsyms, i.JitedKsyms = sizes.NrJitedKsyms, pinned(&pin, p.ksyms)
	i.NrJitedFuncLens, i.JitedFuncLens = sizes.NrJitedFuncLens, pinned(&pin, p.lens)
	i.NrProgTags, i.ProgTags = sizes.NrProgTags, pinned(&pin, p.tags)
	p.funcInfo.make(sizes.NrFuncInfo, sizes.FuncInfoRecSize)
	p.lineInfo.make(sizes.NrLineInfo, sizes.LineInfoRecSize)
	p.jitedLines.make(sizes.NrJitedLineInfo, sizes.JitedLineInfoRecSize)
	i.NrFuncInfo, i.FuncInfoRecSize, i.FuncInfo = p.funcInfo.ask(&pin)
	i.NrLineInfo, i.LineInfoRecSize, i.LineInfo = p.lineInfo.ask(&pin)
	i.NrJitedLineInfo, i.JitedLineInfoRecSize, i.JitedLineInfo = p.jitedLines.ask(&pin)
	if err := objInfo(fd, i); err != nil {
		return nil, err
	}
	// The kernel sets a pointer to null if the caller may not see what it points to.
	if i.JitedProgInsns == 0 || i.JitedKsyms == 0 || p.ksyms[0] == 0 {
		return nil, errNoCode
	}
	return p, nil
}

// ask returns the fields of bpfProgInfo that ask the kernel to fill the table.
func (t *bpfTable) ask(pin *runtime.Pinner) (n, size uint32, addr uint64) {
	return t.n, t.size, pinned(pin, t.data)
}

// pinned returns the address of a slice's memory, which stays where it is until Unpin.
func pinned[T any](pin *runtime.Pinner, s []T) uint64 {
	if len(s) == 0 {
		return 0
	}
	pin.Pin(&s[0])
	return uint64(uintptr(unsafe.Pointer(&s[0])))
}

// objFD opens the program or the BTF of an id.
func objFD(cmd int, id uint32) (fd int, err error) {
	attr := struct{ id, next, flags uint32 }{id: id}
	return bpf(cmd, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
}

// objInfo asks the kernel to fill in info, a struct of its interface.
func objInfo[T any](fd int, info *T) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(info)
	attr := struct {
		fd, len uint32
		info    uint64
	}{uint32(fd), uint32(unsafe.Sizeof(*info)), uint64(uintptr(unsafe.Pointer(info)))}
	_, err := bpf(bpfObjGetInfoByFD, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	return err
}

// bpfBTFInfo is struct bpf_btf_info of uapi/linux/bpf.h.
type bpfBTFInfo struct {
	BTF      uint64
	Size, ID uint32
}

// fetchBTF asks the kernel for the types with an id, which is that of a program.
func fetchBTF(id uint32) ([]byte, error) {
	fd, err := objFD(bpfBTFGetFDByID, id)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var info bpfBTFInfo
	if err := objInfo(fd, &info); err != nil {
		return nil, err
	}
	if info.Size > maxBTF {
		return nil, fmt.Errorf("BTF %d has %d bytes", id, info.Size)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	b := make([]byte, info.Size)
	info = bpfBTFInfo{BTF: pinned(&pin, b), Size: uint32(len(b))}
	if err := objInfo(fd, &info); err != nil {
		return nil, err
	}
	return b, nil
}

// encode returns a program as perf writes it (struct perf_bpil: the info, and the arrays one
// after the other, each padded to 8 bytes; a pointer in the info is the offset of its
// array).
func (p *program) encode() []byte {
	i := p.info
	var data []byte
	arrays := uint64(0)
	place := func(bit uint64, pointer *uint64, v any) {
		arrays |= bit
		*pointer = uint64(len(data))
		data, _ = binary.Append(data, binary.NativeEndian, v) // of plain numbers: it cannot fail
		data = append(data, make([]byte, -len(data)&7)...)
	}
	if len(p.code) > 0 {
		place(bpilJitedInsns, &i.JitedProgInsns, p.code)
		place(bpilJitedKsyms, &i.JitedKsyms, p.ksyms)
		place(bpilJitedFuncLens, &i.JitedFuncLens, p.lens)
		for _, t := range []struct {
			bit     uint64
			pointer *uint64
			table   *bpfTable
		}{{bpilFuncInfo, &i.FuncInfo, &p.funcInfo}, {bpilLineInfo, &i.LineInfo, &p.lineInfo}, {bpilJitedLineInfo, &i.JitedLineInfo, &p.jitedLines}} {
			if t.table.n > 0 {
				place(t.bit, t.pointer, t.table.data)
			}
		}
		place(bpilProgTags, &i.ProgTags, p.tags)
	} else {
		i.NrFuncInfo, i.NrLineInfo, i.NrJitedLineInfo = 0, 0, 0
	}
	i.XlatedProgLen, i.NrMapIDs = 0, 0
	b := binary.NativeEndian.AppendUint32(nil, uint32(unsafe.Sizeof(i)))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(data)))
	b = binary.NativeEndian.AppendUint64(b, arrays)
	b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&i)), unsafe.Sizeof(i))...)
	return append(b, data...)
}
