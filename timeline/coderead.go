// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
)

// A CodeRead is the code of a BPF image, for example a trampoline, that was read from
// memory at some moment of [From, To], or that was seen to be written there. From is a time at
// which the kernel had written the code: from then on it changes with text pokes only, or, if
// the kernel records none, with recorded changes (Builder.Probed). An image whose code the kernel
// rewrites without a record, as that of a dispatcher, must not be added. A program may have one,
// too. It counts if the program has no info.
type CodeRead struct {
	Addr     uint64 // of the image
	Data     []byte // without what is behind the code
	From, To uint64 // in nanoseconds of the recording's clock
}

// CodeRead adds the code of a BPF image. It belongs to the image that is alive during all
// of [c.From, c.To]; without one it counts for nothing. Of several for one image the first
// to be added counts. Build copies the data.
func (b *Builder) CodeRead(c CodeRead) { b.codeReads = append(b.codeReads, c) }

// readCode is a CodeRead whose image was found.
type readCode struct {
	hi       uint64 // the end of the code
	from, to uint64
	off      uint32 // in the arena
}

// joinCodeReads finds the image of each CodeRead.
//
//	image       ├────────────────────────────────┤
//	its code          ├── read at some moment ──┤
//	            From: a poke leads to it        To
//	bytes       unknown│ known                   │ retired
func (d *build) joinCodeReads(lives []*Lifetime) {
	d.readOf = make(map[*Lifetime]readCode)
	if len(d.codeReads) == 0 {
		return
	}
	images := make(map[uint64][]*Lifetime) // by address, in the order of their births
	for _, l := range lives {
		if l.Kind == BPFImage || l.Kind == BPFProgram {
			images[l.Lo] = append(images[l.Lo], l)
		}
	}
	for _, list := range images {
		slices.SortStableFunc(list, func(a, b *Lifetime) int { return cmp.Compare(a.From, b.From) })
	}
	for _, c := range d.codeReads {
		// Only one image was at the address then: the last one that was born by then.
		list := images[c.Addr]
		i, _ := slices.BinarySearchFunc(list, Later(c.From, 1), func(l *Lifetime, t uint64) int { return cmp.Compare(l.From, t) })
		if i == 0 {
			continue
		}
		l := list[i-1]
		if _, ok := d.readOf[l]; ok || uint64(len(c.Data)) > l.Hi-l.Lo || Later(c.To, d.skew) >= l.To || !d.limits.hold(d.arena, len(c.Data)) {
			continue
		}
		d.readOf[l] = readCode{hi: c.Addr + uint64(len(c.Data)), from: Later(c.From, d.skew), to: Later(c.To, d.skew), off: uint32(len(d.arena))}
		d.arena = append(d.arena, c.Data...)
	}
}

// readCode returns what was read of an image at the place of c's fragment. ok is false if
// nothing was.
func (c *historyBuilder) readCode(l *Lifetime) (init initial, ok bool) {
	x, ok := c.readOf[l]
	if !ok || c.f.addr >= x.hi {
		return initial{}, false
	}
	return initial{content: x.off + uint32(c.f.addr-l.Lo), lo: l.Lo, source: SourceSnapshot,
		from: x.from, to: x.to, seen: c.seenBy(x.to, 0)}, true
}
