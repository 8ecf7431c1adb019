// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"
	"sort"
)

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

// A pageOffset is where in its page a fragment begins.
type pageOffset uint16

// grain is of how many bytes of core text tables.coldGrains tells with one bit
// whether they are cold: never poked, and in pageIndex.text.
const grain = 4

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
	im.text = s.Data[im.pageBase-s.Addr:]
	// A question looks at the grains by eight bytes.
	bits := make([]byte, uint64(len(im.pages)-1)*pageSize/grain/8+8)
	for i := range im.fragments {
		f := &im.fragments[i]
		if f.seg != seg || f.versions != im.cold || f.addr < im.pageBase {
			continue
		}
		lo := (f.addr - im.pageBase + grain - 1) / grain
		hi := min((f.addr+uint64(f.size)-im.pageBase)/grain, uint64(len(bits)-8)*8)
		for lo < hi {
			if lo%8 == 0 && hi-lo >= 8 {
				bits[lo/8] = 0xff
				lo += 8
				continue
			}
			bits[lo/8] |= 1 << (lo % 8)
			lo++
		}
	}
	im.coldGrains = bits
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

// isCold reports whether the n bytes at pageBase+at are cold: then they stand
// at text[at:]. For some that are it says no.
func (im *Image) isCold(at uint64, n int) bool {
	i := at / grain
	if i/8+8 > uint64(len(im.coldGrains)) || uint(n-1) >= 56*grain {
		return false
	}
	bits := binary.LittleEndian.Uint64(im.coldGrains[i/8:]) >> (i % 8)
	return ^bits<<(63-(at%grain+uint64(n)-1)/grain) == 0
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
