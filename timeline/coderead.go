// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

// A CodeRead is the code of a BPF image, for example a trampoline, that was read from
// memory at some moment of [From, To]. From is a time at which the kernel had written the
// code: from then on it changes with text pokes only. An image whose code the kernel
// rewrites without a record, as that of a dispatcher, must not be added.
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
	for _, c := range d.codeReads {
		for _, l := range lives {
			if l.Kind != BPFImage || l.Lo != c.Addr || uint64(len(c.Data)) > l.Hi-l.Lo ||
				c.From < l.From || later(c.To, d.skew) >= l.To {
				continue
			}
			if _, ok := d.readOf[l]; ok || !d.limits.hold(d.arena, len(c.Data)) {
				break
			}
			d.readOf[l] = readCode{hi: c.Addr + uint64(len(c.Data)), from: later(c.From, d.skew), to: later(c.To, d.skew), off: uint32(len(d.arena))}
			d.arena = append(d.arena, c.Data...)
			break
		}
	}
}

// readCode returns what was read of an image at the place of c's fragment. ok is false if
// nothing was.
func (c *historyBuilder) readCode(l *Lifetime) (init initial, ok bool) {
	x, ok := c.readOf[l]
	if !ok || c.f.addr >= x.hi {
		return initial{}, false
	}
	return initial{content: x.off + uint32(c.f.addr-l.Lo), source: SourceSnapshot,
		from: x.from, to: x.to, seen: c.seenBy(x.to, 0)}, true
}
