// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"
	"sort"
)

const pageSize = 4096

// A pageIndex finds the fragment of an address in core kernel text, where nearly all
// fragments are and about which nearly all questions are.
type pageIndex struct {
	pageBase uint64
	// unpatched are the versions that all fragments of never-poked core text share.
	unpatched versions
	unpatchedText
}

// unpatchedText finds the bytes of an address in never-poked core text, without looking
// for its fragment.
type unpatchedText struct {
	base uint64
	text []byte // from base on
	// unpatched is a bitmap: bit i is set if granule i from base on was never poked.
	// unpatchedSpare bytes follow, which are zero.
	unpatched []byte
}

const (
	// A granule is so small that text close to a poke still counts as unpatched.
	granule        = 4
	unpatchedSpare = 3
	// maxUnpatched is the greatest n of unpatchedText.has: the bits of n bytes' granules
	// are in four bytes of the bitmap, whichever bit of the first of them they begin at.
	maxUnpatched = (32-7)*granule - (granule - 1)
)

// A rank is the number of fragments that begin in a page before one of its lines of 64
// bytes.
type rank uint16

const (
	rankLine  = 64
	pageLines = pageSize / rankLine
)

// indexPages makes the index from the fragments.
func (im *Image) indexPages() {
	if im.textLo >= im.textHi {
		return
	}
	im.pageBase = im.textLo &^ (pageSize - 1)
	n := min((im.textHi-im.pageBase+pageSize-1)/pageSize, uint64(len(im.fragments))*64+64)
	im.pages = make([]uint32, n+1)
	im.ranks = make([]rank, n*pageLines)
	i := sort.Search(len(im.fragments), func(i int) bool { return im.fragments[i].addr >= im.pageBase })
	for p := range im.pages {
		start := im.pageBase + uint64(p)*pageSize
		for i < len(im.fragments) && im.fragments[i].addr < start {
			i++
		}
		im.pages[p] = uint32(i)
		if uint64(p) == n {
			break
		}
		for k := range uint64(pageLines) {
			for i < len(im.fragments) && im.fragments[i].addr < start+k*rankLine {
				i++
			}
			im.ranks[uint64(p)*pageLines+k] = rank(uint32(i) - im.pages[p])
		}
	}
	im.markUnpatched()
}

// markUnpatched makes the bitmap of never-poked core text.
func (im *Image) markUnpatched() {
	seg := im.unpatchedSegment()
	if seg < 0 {
		return
	}
	s := &im.segments[seg]
	im.base, im.text = im.pageBase, s.Data[im.pageBase-s.Addr:]
	im.unpatchedText.unpatched = make([]byte, (len(im.pages)-1)*(pageSize/granule/8)+unpatchedSpare)
	for i := range im.fragments {
		f := &im.fragments[i]
		if f.seg == seg && f.versions == im.unpatched && f.addr >= im.base {
			im.mark(f.addr-im.base, f.addr-im.base+uint64(f.size))
		}
	}
}

// mark sets the bits of the granules that lie in [lo, hi), counted from base.
func (c *unpatchedText) mark(lo, hi uint64) {
	lo = (lo + granule - 1) / granule
	hi = min(hi/granule, uint64(len(c.unpatched)-unpatchedSpare)*8)
	for ; lo < hi && lo%8 != 0; lo++ {
		c.unpatched[lo/8] |= 1 << (lo % 8)
	}
	for ; lo+8 <= hi; lo += 8 {
		c.unpatched[lo/8] = 0xff
	}
	for ; lo < hi; lo++ {
		c.unpatched[lo/8] |= 1 << (lo % 8)
	}
}

// unpatchedSegment returns the index of the segment of the snapshot that has all
// never-poked core text, or -1 if other facts say something of it.
func (im *Image) unpatchedSegment() int32 {
	if im.unpatched.count == 0 {
		return -1
	}
	for k := range im.unpatched.count {
		if v := im.version(&im.unpatched, k); v.content != snapshotContent || !v.standing.HasBytes() || v.standing == InFlight {
			return -1
		}
	}
	for i := range im.segments {
		if s := &im.segments[i]; s.Addr <= im.pageBase && im.pageBase < s.End() {
			return int32(i)
		}
	}
	return -1
}

// has reports whether the n bytes at base+at are unpatched. It may report false for some
// that are.
func (c *unpatchedText) has(at uint64, n int) bool {
	i := at / (granule * 8)
	if i+unpatchedSpare >= uint64(len(c.unpatched)) || uint(n-1) >= maxUnpatched {
		return false
	}
	want := uint32(2)<<((at%granule+uint64(n)-1)/granule) - 1
	return ^binary.LittleEndian.Uint32(c.unpatched[i:])>>(at/granule%8)&want == 0
}

// read copies the unpatched bytes at base+at to buf.
func (c *unpatchedText) read(at uint64, buf []byte) int {
	if len(buf) == 16 { // as decoders of x86 do
		*(*[16]byte)(buf) = [16]byte(c.text[at:])
		return 16
	}
	return copy(buf, c.text[at:])
}

// find returns the index of the first fragment that ends after addr.
func (im *Image) find(addr uint64) int {
	i := 0 // how many begin at addr or below
	if at := addr - im.pageBase; at/rankLine < uint64(len(im.ranks)) {
		i = int(im.pages[at/pageSize]) + int(im.ranks[at/rankLine])
		for i < len(im.fragments) && im.fragments[i].addr <= addr {
			i++
		}
	} else {
		i = sort.Search(len(im.fragments), func(i int) bool { return im.fragments[i].addr > addr })
	}
	if i > 0 {
		if f := &im.fragments[i-1]; addr-f.addr < uint64(f.size) {
			return i - 1
		}
	}
	return i
}
