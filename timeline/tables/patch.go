// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import "bytes"

// A patch is how a page differs from a page that is stored, its base. A kernel patches itself
// when it boots, and not in the same way each time. So most pages of a further boot are those
// of another one with a few other bytes.
//
// A byte of the page is, in this order: a byte of an address in moved; the one of bytes, if
// its place is in at; what it is in the base.
type patch struct {
	base  *base
	at    []int32 // ascending
	bytes []byte  // one for each of at
	moved []relocation
}

// A base is a page that is stored.
type base struct {
	hash    [16]byte
	file    uint32 // where it is, of a storedText
	content []byte // the bytes at the places of addresses have no meaning
	moved   []relocation
}

// valid reports whether the addresses are in the page. A file may be damaged.
func (b *base) valid() bool {
	end := 0
	for _, m := range b.moved {
		if m.at < end || m.at+4 > len(b.content) {
			return false
		}
		end = m.at + 4
	}
	return len(b.content) <= pageSize
}

// maxPatch is the most bytes in which a page may differ from its base. After compression, a patch
// takes about two bytes for each of them, and a page about 1,900 bytes.
const maxPatch = pageSize / 8

// usePatch sets p.patch to the smallest patch of one of these bases, and reports whether there
// is a small one.
func (p *page) usePatch(bases []*base) bool {
	for _, b := range bases {
		x := p.differences(b)
		if x == nil {
			continue
		}
		if was := p.patch; was == nil || x.size() < was.size() || x.size() == was.size() && bytes.Compare(b.hash[:], was.base.hash[:]) < 0 {
			p.patch = x
		}
	}
	return p.patch != nil
}

func (x *patch) size() int { return len(x.at) + 4*len(x.moved) }

// differences returns the patch that makes p of b, nil if it has more than maxPatch bytes.
func (p *page) differences(b *base) *patch {
	if p.isFar(b) {
		return nil
	}
	x := &patch{base: b}
	own, theirs := placesOf(p.content, p.moved), placesOf(b.content, b.moved)
	for i := range p.content {
		if own[i] != theirs[i] && own[i] < 256 {
			x.at, x.bytes = append(x.at, int32(i)), append(x.bytes, byte(own[i]))
		}
	}
	for _, m := range p.moved {
		if [4]uint64(own[m.at:]) != [4]uint64(theirs[m.at:]) {
			x.moved = append(x.moved, m)
		}
	}
	if x.size() > maxPatch {
		return nil
	}
	return x
}

// isFar reports whether p obviously has more than maxPatch other bytes than b. What is left are the pages that
// are worth a comparison of their addresses.
func (p *page) isFar(b *base) bool {
	if len(b.content) != len(p.content) {
		return true
	}
	left := maxPatch + 4*len(p.moved) // the bytes of these say nothing: b does not have them
	for i, x := range b.content {
		if p.content[i] != x {
			if left--; left < 0 {
				return true
			}
		}
	}
	return false
}

// placesOf returns what a page has at each offset, independent of where the kernel was loaded: a
// byte, or for a byte of an address a number above 255, unique to the address and the byte in it.
func placesOf(content []byte, moved []relocation) (out [pageSize]uint64) {
	for i, b := range content {
		out[i] = uint64(b)
	}
	for _, m := range moved {
		for k := range uint64(4) {
			out[m.at+int(k)] = (k+1)<<32 | uint64(m.to)
		}
	}
	return out
}
