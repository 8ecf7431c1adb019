// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

// A Cursor reads an image as a decoder of a trace does: the same code again and again,
// mostly forward in time. It caches answers, and gives the same ones as a [View]. A cursor
// of [Windows.Cursor] says as well where a CPU may meet a trap. A Cursor must not be used
// by several goroutines at once; any number of cursors may read one image. They share no
// lock.
type Cursor struct {
	im      *Image
	windows *windowIndex // nil if the cursor knows no windows
	pokes   *Windows     // to which windows refers

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

// A cachedBlock is an answer for up to 16 bytes, which is more than an instruction has. It
// is a cache line.
type cachedBlock struct {
	addr     uint64
	validity Validity
	same     Validity // during which the same windows are open; unbounded if the cursor knows none
	n, given uint8    // n is 0 if there is no answer
	standing Standing
	reason   Reason
	open     bool // a window is open, or may be
	bytes    [cachedBytes]byte
}

func (j *cachedBlock) block() Block {
	b := Block{Standing: j.standing, Reason: j.reason, Given: int(j.given), Validity: j.validity}
	if !j.open {
		b.NoTrap = j.same
	}
	return b
}

const (
	cacheSets   = 2048
	cachedBytes = 16
	seenSize    = 1024
)

// Cursor returns a new cursor of the image, which knows no windows. It takes some 300 KiB
// of memory.
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

// Cursor returns a new cursor of an image, which knows the windows w: its answers say when
// a CPU may meet a trap, see [Block.NoTrap] and [Cursor.AppendWindows]. w must be of the
// same recording as the image. The first call makes an index of w, which takes some 30
// bytes of memory for each poke.
func (w *Windows) Cursor(im *Image) *Cursor {
	c := im.Cursor()
	c.windows, c.pokes = w.index(), w.indexOf
	// What the image never saw poked may be poked all the same: an image leaves out pokes
	// beyond its limits.
	c.unpatched = c.windows.without(c.unpatched)
	c.said.NoTrap = Validity{0, MaxTime}
	return c
}

// AppendWindows appends to dst the windows that are open over any byte of [addr, addr+n) at
// any time from first to last, both included, by the time of their pokes; none if n is 0. Their
// Estimate is empty. It does not allocate if dst has room. A cursor that knows no windows appends none.
func (c *Cursor) AppendWindows(dst []Window, addr, n, first, last uint64) []Window {
	if c.windows == nil {
		return dst
	}
	return c.windows.appendOpen(dst, c.pokes, addr, n, min(first, MaxTime-1), last)
}

// SameWindows returns the time around t during which the same windows are open over
// [addr, addr+n), whether any or none. Over no bytes none is open at all times.
func (c *Cursor) SameWindows(addr, n, t uint64) Validity {
	if c.windows == nil {
		return Validity{0, MaxTime}
	}
	_, same := c.windows.at(addr, n, min(t, MaxTime-1))
	return same
}

// Read is [View.Read] at time t. Times need not ascend. As in [Image.At], MaxTime is the time
// before it, here and in the other methods.
func (c *Cursor) Read(addr, t uint64, buf []byte) Block {
	if at := addr - c.unpatched.base; t-c.from < c.span && c.unpatched.has(at, len(buf)) {
		b := c.said
		b.Given = c.unpatched.read(at, buf)
		return b
	}
	return c.read(addr, t, buf)
}

// read is Read for all addresses but those of never-poked core text.
func (c *Cursor) read(addr, t uint64, buf []byte) Block {
	t = min(t, MaxTime-1)
	set := &c.cached[addr%cacheSets]
	j := &set[0]
	if j.addr != addr {
		j = &set[1]
	}
	if j.addr == addr && int(j.n) == len(buf) && j.validity.At(t) && len(buf) > 0 {
		copy(buf, j.bytes[:])
		if !j.same.At(t) {
			j.open, j.same = c.opennessAt(addr, len(buf), t)
		}
		return j.block()
	}
	if t-c.from >= c.span && c.im.unpatched.count > 0 {
		c.enterUnpatched(t)
	}
	b := c.im.read(addr, t, buf, c.find(addr), c)
	open, same := c.opennessAt(addr, len(buf), t)
	if !open {
		b.NoTrap = same
	}
	if len(buf) <= cachedBytes {
		if set[0].addr != addr {
			set[1] = set[0]
		}
		j = &set[0]
		*j = cachedBlock{addr, b.Validity, same, uint8(len(buf)), uint8(b.Given), b.Standing, b.Reason, open, j.bytes}
		copy(j.bytes[:], buf)
	}
	return b
}

// opennessAt returns whether a CPU may meet a trap in [addr, addr+n) at time t, and the
// time around t during which that is so, for the same reason.
func (c *Cursor) opennessAt(addr uint64, n int, t uint64) (open bool, same Validity) {
	if c.windows == nil {
		return true, Validity{0, MaxTime}
	}
	return c.windows.at(addr, uint64(n), t)
}

// enterUnpatched looks up the answer for never-poked core text at time t.
func (c *Cursor) enterUnpatched(t uint64) {
	h := c.im.at(&c.im.unpatched, t)
	c.said.Standing, c.said.Reason, c.said.Validity = h.standing, h.reason, Validity{h.since, h.until}
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
