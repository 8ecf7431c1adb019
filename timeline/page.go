// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"sort"
)

const pageSize = 4096

// A pageIndex leads from an address in core kernel text, where nearly all
// questions are about and nearly all fragments are, to its fragment.
type pageIndex struct {
	pageBase uint64
	// cold are the versions that all never-poked core text shares.
	cold versions
	coldText
}

// coldText leads from an address in never-poked core text to the snapshot, past
// all fragments.
type coldText struct {
	base uint64
	text []byte // from base on
	// cold tells of each eight bytes from base on, with a bit, whether all of
	// them are: the i-th word of those from the (8*i)-th on.
	cold []uint16
}

// A pageOffset is where in its page a fragment begins.
type pageOffset uint16

// indexPages makes the index.
func (im *Image) indexPages() {
	im.offsets = make([]pageOffset, len(im.fragments))
	for i := range im.fragments {
		im.offsets[i] = pageOffset(im.fragments[i].addr % pageSize)
	}
	if im.textLo >= im.textHi {
		return
	}
	im.pageBase = im.textLo &^ (pageSize - 1)
	n := min((im.textHi-im.pageBase+pageSize-1)/pageSize, uint64(len(im.fragments))*64+64)
	im.pages = make([]uint32, n+1)
	i := sort.Search(len(im.fragments), func(i int) bool { return im.fragments[i].addr >= im.pageBase })
	for p := range im.pages {
		start := im.pageBase + uint64(p)*pageSize
		for i < len(im.fragments) && im.fragments[i].addr < start {
			i++
		}
		im.pages[p] = uint32(i)
	}
	im.markCold()
}

// markCold finds the bytes for which no fragment need be looked at.
func (im *Image) markCold() {
	seg := im.coldSegment()
	if seg < 0 {
		return
	}
	s := &im.segments[seg]
	im.base, im.text = im.pageBase, s.Data[im.pageBase-s.Addr:]
	im.coldText.cold = make([]uint16, uint64(len(im.pages)-1)*(pageSize/64)+1)
	for i := range im.fragments {
		f := &im.fragments[i]
		if f.seg == seg && f.versions == im.cold && f.addr >= im.base {
			im.mark((f.addr-im.base+7)/8, (f.addr-im.base+uint64(f.size))/8)
		}
	}
	im.coldText.cold = im.coldText.cold[:len(im.coldText.cold)-1]
}

// mark sets the bits [lo, hi).
func (c *coldText) mark(lo, hi uint64) {
	for hi = min(hi, uint64(len(c.cold)-1)*8); lo < hi; {
		w, n := lo/8, min(8-lo%8, hi-lo)
		bits := uint16(1<<n-1) << (lo % 8)
		c.cold[w] |= bits
		if w > 0 {
			c.cold[w-1] |= bits << 8
		}
		lo += n
	}
}

// coldSegment returns which segment of the snapshot has all never-poked core
// text, -1 where none is all that is known of it.
func (im *Image) coldSegment() int32 {
	if im.cold.count == 0 {
		return -1
	}
	for k := range im.cold.count {
		if v := im.version(&im.cold, k); v.content != snapshotContent || !v.standing.HasBytes() || v.standing == InFlight {
			return -1
		}
	}
	for i := range im.segments {
		if s := &im.segments[i]; s.Addr <= im.pageBase && im.pageBase < s.end() {
			return int32(i)
		}
	}
	return -1
}

// has reports whether the n bytes at base+at are cold. For some that are it
// says no.
func (c *coldText) has(at uint64, n int) bool {
	i := at / 64
	if i >= uint64(len(c.cold)) || uint(n-1) >= 56 {
		return false
	}
	want := uint32(2)<<((at%8+uint64(n)-1)/8) - 1
	return ^uint32(c.cold[i])>>(at/8%8)&want == 0
}

// read reads cold bytes.
func (c *coldText) read(at uint64, buf []byte) int {
	if len(buf) == 16 { // as those who decode x86 ask for
		*(*[16]byte)(buf) = [16]byte(c.text[at:])
		return 16
	}
	return copy(buf, c.text[at:])
}

// inPage returns how many fragments begin up to this offset of page p of core
// text.
func (im *Image) inPage(p uint32, offset pageOffset) uint32 {
	i := im.pages[p]
	for n := im.pages[p+1] - i; n > 0; {
		half := (n + 1) / 2
		if im.offsets[i+half-1] <= offset {
			i += half
			n -= half
		} else {
			n = half - 1
		}
	}
	return i
}

// find returns the index of the first fragment that ends after addr.
func (im *Image) find(addr uint64) int {
	i := 0 // how many begin up to addr
	if at := addr - im.pageBase; at/pageSize+1 < uint64(len(im.pages)) {
		i = int(im.inPage(uint32(at/pageSize), pageOffset(at%pageSize)))
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
