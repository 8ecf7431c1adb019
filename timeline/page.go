// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"
	"sort"
)

const pageSize = 4096

// A pageIndex leads from an address in core kernel text, where nearly all
// questions are about and nearly all fragments are, to its fragment.
type pageIndex struct {
	pageBase uint64
	// unpatched are the versions that all never-poked core text shares.
	unpatched versions
	unpatchedText
}

// unpatchedText leads from an address in never-poked core text to the snapshot, past
// all fragments.
type unpatchedText struct {
	base uint64
	text []byte // from base on
	// unpatched is a bitmap: bit i is set if granule i from base on was never poked. It
	// has unpatchedSpare bytes more, which mean nothing.
	unpatched []byte
}

const (
	// A granule of text is small, so that what is next to a poked place is
	// unpatched.
	granule        = 4
	unpatchedSpare = 3
	// maxUnpatched is how many bytes has looks at: the bits of their granules are
	// in four bytes, from whatever bit of the first on.
	maxUnpatched = (32-7)*granule - (granule - 1)
)

// A rank is how many fragments begin in a page before one of its lines.
type rank uint16

const (
	rankLine  = 64
	pageLines = pageSize / rankLine
)

// indexPages makes the index.
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

// markCold finds the bytes for which no fragment need be looked at.
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

// mark sets the bits of the granules that lie in [lo, hi).
func (c *unpatchedText) mark(lo, hi uint64) {
	lo = (lo + granule - 1) / granule
	hi = min(hi/granule, uint64(len(c.unpatched)-unpatchedSpare)*8)
	for lo < hi {
		n := min(8-lo%8, hi-lo)
		c.unpatched[lo/8] |= byte(1<<n-1) << (lo % 8)
		lo += n
	}
}

// coldSegment returns which segment of the snapshot has all never-poked core
// text, -1 where none is all that is known of it.
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

// has reports whether the n bytes at base+at are unpatched. For some that are it
// says no.
func (c *unpatchedText) has(at uint64, n int) bool {
	i := at / (granule * 8)
	if i+unpatchedSpare >= uint64(len(c.unpatched)) || uint(n-1) >= maxUnpatched {
		return false
	}
	want := uint32(2)<<((at%granule+uint64(n)-1)/granule) - 1
	return ^binary.LittleEndian.Uint32(c.unpatched[i:])>>(at/granule%8)&want == 0
}

// read reads unpatched bytes.
func (c *unpatchedText) read(at uint64, buf []byte) int {
	if len(buf) == 16 { // as those who decode x86 ask for
		*(*[16]byte)(buf) = [16]byte(c.text[at:])
		return 16
	}
	return copy(buf, c.text[at:])
}

// find returns the index of the first fragment that ends after addr.
func (im *Image) find(addr uint64) int {
	i := 0 // how many begin up to addr
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
