// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import "bytes"

// An area is the part of the address space that modules and other code that comes and
// goes share.
type area struct {
	base uint64
	used []bool
}

// alloc reserves n pages that follow one another: mostly the first that are free, so
// that addresses are used again.
func (a *area) alloc(p *Proc, n int) uint64 {
	start := 0
	if p.Chance(1, 4) {
		start = p.IntN(len(a.used))
	}
	for _, from := range []int{start, 0} {
		run := 0
		for i := from; i < len(a.used); i++ {
			if run++; a.used[i] {
				run = 0
			}
			if run == n {
				for j := i - n + 1; j <= i; j++ {
					a.used[j] = true
				}
				return a.base + uint64(i-n+1)*PageSize
			}
		}
	}
	return 0
}

func (a *area) free(addr uint64, n int) {
	for i := range n {
		a.used[int((addr-a.base)/PageSize)+i] = false
	}
}

// allocPages reserves and maps pages for code; 0 if there are none.
func (k *Kernel) allocPages(p *Proc, n int) uint64 {
	addr := k.area.alloc(p, n)
	if addr != 0 {
		k.mapPages(addr, n)
	}
	return addr
}

// freePages gives pages back.
func (k *Kernel) freePages(addr uint64, n int) {
	if k.PatternPages {
		k.write(addr, bytes.Repeat(int3, n*PageSize))
	} else {
		k.unmapPages(addr, n)
	}
	k.area.free(addr, n)
}

// A packArea is a run of pages that BPF programs share, in chunks (bpf_prog_pack).
type packArea struct {
	base uint64
	used []bool
}

const (
	packPages = 3
	packChunk = 64
)

// allocCode reserves room for n bytes of BPF code; 0 if there is none.
func (k *Kernel) allocCode(p *Proc, n int) uint64 {
	if !k.ProgramPack {
		return k.allocPages(p, (n+PageSize-1)/PageSize)
	}
	if k.pack == nil {
		base := k.allocPages(p, packPages)
		if base == 0 {
			return 0
		}
		k.write(base, bytes.Repeat(int3, packPages*PageSize))
		k.pack = &packArea{base, make([]bool, packPages*PageSize/packChunk)}
	}
	a := area{k.pack.base, k.pack.used}
	start := 0
	if p.Chance(1, 3) {
		start = p.IntN(len(a.used))
	}
	need, run := (n+packChunk-1)/packChunk, 0
	for i := start; i < len(a.used); i++ {
		if run++; a.used[i] {
			run = 0
		}
		if run == need {
			for j := i - need + 1; j <= i; j++ {
				a.used[j] = true
			}
			return k.pack.base + uint64(i-need+1)*packChunk
		}
	}
	return 0
}

// freeCode gives room of n bytes back. The pack is filled with INT3 there.
func (k *Kernel) freeCode(addr uint64, n int) {
	if !k.ProgramPack {
		k.freePages(addr, (n+PageSize-1)/PageSize)
		return
	}
	chunks := (n + packChunk - 1) / packChunk
	k.write(addr, bytes.Repeat(int3, chunks*packChunk))
	for i := range chunks {
		k.pack.used[int(addr-k.pack.base)/packChunk+i] = false
	}
}
