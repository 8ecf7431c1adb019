// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

// A Cursor reads an image as a decoder of a trace does: the same code again and again,
// mostly forward in time. It caches answers, and gives the same ones as a [View]. A Cursor
// must not be used by several goroutines at once; any number of cursors may read one
// image.
type Cursor struct {
	im *Image

	// The answer for never-poked core text, and the image's index of it.
	unpatched unpatchedText
	said      Block
	from      uint64 // said.Since
	span      uint64 // said.Until - said.Since

	last int // the fragment that the last read began in

	// Other answers, by their address modulo the number of sets. The newer one of a set
	// is first.
	cached [cacheSets][2]cachedBlock

	// The version of each fragment that was read last, by the index of the fragment
	// modulo the size.
	seen [seenSize]struct{ fragment, version uint32 }
}

// A cachedBlock is an answer for up to 16 bytes, which is more than an instruction has.
type cachedBlock struct {
	addr     uint64
	validity Validity
	n, given uint8 // n is 0 if there is no answer
	standing Standing
	reason   Reason
	bytes    [cachedBytes]byte
}

const (
	cacheSets   = 2048
	cachedBytes = 16
	seenSize    = 1024
)

// Cursor returns a new cursor of the image. It takes some 200 KiB of memory.
func (im *Image) Cursor() *Cursor {
	c := &Cursor{im: im, unpatched: im.unpatchedText}
	if im.unpatched.count > 0 {
		c.enterUnpatched(im.first)
	}
	for i := range c.seen {
		c.seen[i].fragment = 0xffffffff
	}
	return c
}

// Read is [View.Read] at time t. Times need not ascend.
func (c *Cursor) Read(addr, t uint64, buf []byte) Block {
	if at := addr - c.unpatched.base; t-c.from < c.span && c.unpatched.has(at, len(buf)) {
		return Block{c.said.Standing, c.said.Reason, c.unpatched.read(at, buf), c.said.Validity}
	}
	return c.read(addr, t, buf)
}

// read is Read for all addresses but those of never-poked core text.
func (c *Cursor) read(addr, t uint64, buf []byte) Block {
	set := &c.cached[addr%cacheSets]
	j := &set[0]
	if j.addr != addr {
		j = &set[1]
	}
	if j.addr == addr && int(j.n) == len(buf) && j.validity.at(t) && len(buf) > 0 {
		copy(buf, j.bytes[:])
		return Block{j.standing, j.reason, int(j.given), j.validity}
	}
	if t-c.from >= c.span && c.im.unpatched.count > 0 {
		c.enterUnpatched(t)
	}
	b := c.im.read(addr, t, buf, c.find(addr), c)
	if len(buf) <= cachedBytes {
		if set[0].addr != addr {
			set[1] = set[0]
		}
		j = &set[0]
		*j = cachedBlock{addr, b.Validity, uint8(len(buf)), uint8(b.Given), b.Standing, b.Reason, j.bytes}
		copy(j.bytes[:], buf)
	}
	return b
}

// enterUnpatched looks up the answer for never-poked core text at time t.
func (c *Cursor) enterUnpatched(t uint64) {
	h := c.im.at(&c.im.unpatched, t)
	c.said = Block{Standing: h.standing, Reason: h.reason, Validity: Validity{h.since, h.until}}
	c.from, c.span = h.since, h.until-h.since
}

// find is Image.find. It tries the last fragment and the next two first: between two
// poked fragments there is one that is not poked.
func (c *Cursor) find(addr uint64) int {
	f := c.im.fragments
	for i := c.last; i < len(f) && i < c.last+3; i++ {
		if addr-f[i].addr < uint64(f[i].size) {
			c.last = i
			return i
		}
	}
	c.last = c.im.find(addr)
	return c.last
}

// at is Image.at for the i-th fragment.
func (c *Cursor) at(i int, f *fragment, t uint64) versionAt {
	im := c.im
	s := &c.seen[i%seenSize]
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
