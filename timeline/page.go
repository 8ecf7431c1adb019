// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "sort"

const pageSize = 4096

// A pageIndex leads from an address in core kernel text, where nearly all
// questions are about and nearly all fragments are, to its fragment; and from
// one in never-poked text to the snapshot, past all fragments.
type pageIndex struct {
	pageBase uint64
	// text is the snapshot from pageBase on, where one segment has all of it.
	text []byte
	// cold are the versions that all never-poked core text shares.
	cold versions
}

// A pageOffset is where in its page a fragment begins, times two, plus one
// where it is cold: never poked, in Image.text, and followed by the next
// fragment without a hole.
type pageOffset uint16

const coldOffset pageOffset = 1

// indexPages makes the index.
func (im *Image) indexPages() {
	im.offsets = make([]pageOffset, len(im.fragments))
	for i := range im.fragments {
		im.offsets[i] = pageOffset(im.fragments[i].addr % pageSize << 1)
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

// markCold marks the fragments that need not be looked at.
func (im *Image) markCold() {
	if im.cold.count == 0 {
		return
	}
	for k := range im.cold.count {
		if v := im.version(&im.cold, k); v.content != snapshotContent || !v.standing.HasBytes() || v.standing == InFlight {
			return
		}
	}
	seg := int32(-1)
	for i := range im.segments {
		if s := &im.segments[i]; s.Addr <= im.pageBase && im.pageBase < s.end() {
			seg, im.text = int32(i), s.Data[im.pageBase-s.Addr:]
		}
	}
	for i := range im.fragments {
		f := &im.fragments[i]
		end := f.addr + uint64(f.size)
		if f.seg == seg && f.versions == im.cold && i+1 < len(im.fragments) && im.fragments[i+1].addr == end {
			im.offsets[i] |= coldOffset
		}
	}
}

// coldText returns n bytes or more of the snapshot at addr where all of them
// are cold, and in one page; else nil.
func (im *Image) coldText(addr uint64, n int) []byte {
	at := addr - im.pageBase
	p := at / pageSize
	if p+1 >= uint64(len(im.pages)) {
		return nil
	}
	i, hi := im.inPage(uint32(p), at%pageSize)
	if i == 0 || im.offsets[i-1]&coldOffset == 0 {
		return nil
	}
	end := uint64(pageSize)
	if i < hi {
		end = uint64(im.offsets[i] >> 1)
	}
	if uint64(n) > end-at%pageSize {
		return nil
	}
	return im.text[at:][:n]
}

// inPage returns how many fragments begin up to this offset of page p of core
// text, and up to its end.
func (im *Image) inPage(p uint32, offset uint64) (i, hi uint32) {
	i, hi = im.pages[p], im.pages[p+1]
	last := pageOffset(offset<<1) | coldOffset
	for n := hi - i; n > 0; {
		half := (n + 1) / 2
		if im.offsets[i+half-1] <= last {
			i += half
			n -= half
		} else {
			n = half - 1
		}
	}
	return i, hi
}

// find returns the index of the first fragment that ends after addr.
func (im *Image) find(addr uint64) int {
	i := 0 // how many begin up to addr
	if at := addr - im.pageBase; at/pageSize+1 < uint64(len(im.pages)) {
		k, _ := im.inPage(uint32(at/pageSize), at%pageSize)
		i = int(k)
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
