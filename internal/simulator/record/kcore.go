// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/internal/simulator/kernel"
	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// A Copy is what perf copies into a kcore_dir.
type Copy struct {
	KCore, Kallsyms, Modules []byte
	// Ranges are the addresses that KCore has, from the first to behind the last.
	Ranges [][2]uint64
	// From and To are the true times at which reading began and ended.
	From, To uint64
}

// A segment is a range of memory that a copy has.
type segment struct {
	addr uint64
	data []byte
}

// CopyKernel copies kernel text and everything that kallsyms or the list of modules
// names, page after page, as kcore_copy (tools/perf/util/symbol-elf.c) does. It
// returns nil if modules or symbols changed meanwhile.
func CopyKernel(p *kernel.Proc, k *kernel.Kernel, pause uint64) *Copy {
	c := &Copy{From: k.Now}
	kallsyms, modules := k.Kallsyms(), k.Modules()
	ranges := [][2]uint64{{k.Text.Lo, pageUp(k.Text.Hi)}}
	if lo, hi := moduleRange(kallsyms, modules); lo < hi {
		ranges = append(ranges, [2]uint64{lo, hi})
	}
	var segments []segment
	for _, r := range ranges {
		s := segment{addr: r[0]}
		for a := r[0]; a < r[1]; a += kernel.PageSize {
			s.data = append(s.data, k.Read(a, kernel.PageSize)...)
			p.Pause(pause/4, pause)
		}
		segments = append(segments, s)
	}
	if k.Kallsyms() != kallsyms || k.Modules() != modules {
		return nil
	}
	c.Kallsyms, c.Modules, c.To = []byte(kallsyms), []byte(modules), k.Now
	c.KCore, c.Ranges = coreFile(k.Format.Order, segments), ranges
	return c
}

func pageUp(a uint64) uint64 { return (a + kernel.PageSize - 1) &^ (kernel.PageSize - 1) }

// moduleRange returns the range of all modules and of all symbols in brackets.
func moduleRange(kallsyms, modules string) (lo, hi uint64) {
	lo = ^uint64(0)
	var last uint64
	add := func(hex string) {
		if a, err := strconv.ParseUint(strings.TrimPrefix(hex, "0x"), 16, 64); err == nil {
			lo, last = min(lo, a), max(last, a)
		}
	}
	for line := range strings.Lines(kallsyms) {
		if f := strings.Fields(line); len(f) == 4 {
			add(f[0])
		}
	}
	for line := range strings.Lines(modules) {
		f := strings.Fields(line)
		add(f[5])
	}
	return lo &^ (kernel.PageSize - 1), pageUp(last) + kernel.PageSize
}

// coreFile encodes segments as an ELF core file.
func coreFile(order rawperf.ByteOrder, segments []segment) []byte {
	const ehdrSize, phdrSize = 64, 56
	data := byte(1)
	if order == rawperf.ByteOrder(binary.BigEndian) {
		data = 2
	}
	var b []byte
	u16 := func(v ...uint16) {
		for _, x := range v {
			b = order.AppendUint16(b, x)
		}
	}
	u32 := func(v ...uint32) {
		for _, x := range v {
			b = order.AppendUint32(b, x)
		}
	}
	u64 := func(v ...uint64) {
		for _, x := range v {
			b = order.AppendUint64(b, x)
		}
	}
	b = append(b, 0x7f, 'E', 'L', 'F', 2, data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	u16(4, 62) // ET_CORE, EM_X86_64
	u32(1)
	u64(0, ehdrSize, 0)
	u32(0)
	u16(ehdrSize, phdrSize, uint16(len(segments)), 0, 0, 0)
	offset := pageUp(uint64(ehdrSize + phdrSize*len(segments)))
	for _, s := range segments {
		u32(1, 7) // PT_LOAD, RWX
		u64(offset, s.addr, 0, uint64(len(s.data)), uint64(len(s.data)), 0)
		offset += uint64(len(s.data))
	}
	b = append(b, bytes.Repeat([]byte{0}, int(pageUp(uint64(len(b)))-uint64(len(b))))...)
	for _, s := range segments {
		b = append(b, s.data...)
	}
	return b
}
