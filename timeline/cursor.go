// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

// A Cursor reads an image as a decoder does: the same code again and again,
// mostly forward in time. It remembers where it was and which versions it met,
// and gives the same answers as a [View]. A Cursor is for one goroutine; any
// number of them may read one image.
type Cursor struct {
	im   *Image
	last int // the fragment that the last read began in
	// The version of each fragment that was met last, by the fragment's index
	// modulo the size.
	seen [cursorSize]struct{ fragment, version uint32 }
}

const cursorSize = 1024

// Cursor returns a cursor of the image.
func (im *Image) Cursor() *Cursor {
	c := &Cursor{im: im}
	for i := range c.seen {
		c.seen[i].fragment = 0xffffffff
	}
	return c
}

// Read is [View.Read] at time t. Times may go in any direction.
func (c *Cursor) Read(addr, t uint64, buf []byte) Block {
	im := c.im
	i := c.last
	if i >= len(im.fragments) || addr-im.fragments[i].addr >= uint64(im.fragments[i].size) {
		if i++; i >= len(im.fragments) || addr-im.fragments[i].addr >= uint64(im.fragments[i].size) {
			i = im.find(addr)
		}
		c.last = i
	}
	return im.read(addr, t, buf, i, c)
}

// at is Image.at for the i-th fragment.
func (c *Cursor) at(i int, f *fragment, t uint64) held {
	im := c.im
	s := &c.seen[i%cursorSize]
	if s.fragment == uint32(i) {
		v := im.version(&f.versions, s.version)
		if t < v.until && (t >= v.since || s.version == 0) {
			return v
		}
		if t >= v.until && s.version+1 < f.count {
			if v = im.version(&f.versions, s.version+1); t < v.until {
				s.version++
				return v
			}
		}
	}
	k := im.indexAt(&f.versions, t)
	s.fragment, s.version = uint32(i), k
	return im.version(&f.versions, k)
}
