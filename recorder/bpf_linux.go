// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bpfProgInfo is struct bpf_prog_info of uapi/linux/bpf.h, as of Linux 5.18. The
// recording has it as the kernel fills it in, so it is asked for with bpf(2) itself:
// libraries return its fields, not the struct.
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
	bpilProgTags      = 1 << 8
)

const bpfTagSize = 8 // BPF_TAG_SIZE

// bpf(2) commands of enum bpf_cmd.
const (
	bpfProgGetNextID  = 11
	bpfProgGetFDByID  = 13
	bpfObjGetInfoByFD = 15
)

// Limits, far above what the verifier allows (a million instructions, 256 functions).
const (
	maxBPFCode  = 64 << 20
	maxBPFFuncs = 1 << 16
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

var errNoCode = errors.New("the kernel shows no machine code (kptr_restrict, or no CAP_SYS_ADMIN)")

// A program is a BPF program that is loaded.
type program struct {
	info  bpfProgInfo
	code  []byte
	ksyms []uint64
	lens  []uint32
	tags  [][bpfTagSize]byte
}

// fetchProgram asks the kernel for the program of an id. The error is [unix.ENOENT] if it
// is gone.
func fetchProgram(id uint32) (*program, error) {
	attr := struct{ id, next, flags uint32 }{id: id}
	fd, err := bpf(bpfProgGetFDByID, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var sizes bpfProgInfo
	if err := progInfo(fd, &sizes); err != nil {
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
	if err := progInfo(fd, i); err != nil {
		return nil, err
	}
	// The kernel sets a pointer to null if the caller may not see what it points to.
	if i.JitedProgInsns == 0 || i.JitedKsyms == 0 || p.ksyms[0] == 0 {
		return nil, errNoCode
	}
	return p, nil
}

// pinned returns the address of a slice's memory, which stays where it is until Unpin.
func pinned[T any](pin *runtime.Pinner, s []T) uint64 {
	if len(s) == 0 {
		return 0
	}
	pin.Pin(&s[0])
	return uint64(uintptr(unsafe.Pointer(&s[0])))
}

func progInfo(fd int, info *bpfProgInfo) error {
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

// write writes a program as perf does (struct perf_bpil: the info, and the arrays one
// after the other, each padded to 8 bytes; a pointer in the info is the offset of its
// array).
func (p *program) write(w io.Writer) error {
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
		place(bpilProgTags, &i.ProgTags, p.tags)
	}
	i.XlatedProgLen, i.NrMapIDs, i.NrFuncInfo, i.NrLineInfo, i.NrJitedLineInfo = 0, 0, 0, 0, 0
	b := binary.NativeEndian.AppendUint32(nil, uint32(unsafe.Sizeof(i)))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(data)))
	b = binary.NativeEndian.AppendUint64(b, arrays)
	b = append(b, unsafe.Slice((*byte)(unsafe.Pointer(&i)), unsafe.Sizeof(i))...)
	_, err := w.Write(append(b, data...))
	return err
}
