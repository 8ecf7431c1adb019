// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "unsafe"

// Leaves are where the versions of a fragment are stored (store.go). A leaf is a cache line. There are two
// forms. A leaf has seven versions, and can have any times:
//
//	│ since since since since since since since │ code ... │
//	  8 bytes each                                1 byte each
//
// A dense leaf has ten. It has the time of one version, and of the others how much later they are, plus 1, in
// 40 bits: up to 18 minutes. That is enough for nearly all fragments with more than seven versions, as they
// change often:
//
//	│ since │ low low low low low low low low low │ high ... │ code ... │
//	  8       4 bytes each, of versions 1 to 9      1 each     1 each, of 0 to 9
//
// All leaves of a fragment are of the same form, so that it is known in which one its k-th version is.

// A leaf is a cache line of versions, by time.
type leaf struct {
	since [leafSize]uint64        // MaxTime behind the last version
	code  [leafSize + 1]stateCode // the last is not used
}

const leafSize = 7

// A denseLeaf is a leaf of the other form.
type denseLeaf struct {
	since uint64 // of version 0; in a fragment's first leaf, whose version 0 is from 0 on, that of version 1
	low   [denseSize - 1]uint32
	high  [denseSize - 1]uint8 // of mostLater behind the last version
	code  [denseSize]stateCode
	_     uint8
}

const (
	denseSize = 10
	// mostLater is behind all times that a dense leaf can have.
	mostLater = 1<<40 - 1
)

// Both forms are equally large.
var _ [unsafe.Sizeof(leaf{})]byte = [unsafe.Sizeof(denseLeaf{})]byte{}

// dense returns the dense leaf that is stored in l.
func (l *leaf) dense() *denseLeaf { return (*denseLeaf)(unsafe.Pointer(l)) }

// later returns 1 + how much later version j is than since; j is not 0.
func (d *denseLeaf) later(j uint32) uint64 {
	return uint64(d.low[j-1]) | uint64(d.high[j-1])<<32
}

// time returns from when version j holds. In a fragment's first leaf, version 0 has the time of version 1.
func (d *denseLeaf) time(j uint32) uint64 {
	if j == 0 {
		return d.since
	}
	return d.since + d.later(j) - 1
}

// at returns the index of the last version that is not after t, 0 if all are. In a fragment's last leaf, it may be
// behind the last version.
func (d *denseLeaf) at(t uint64) uint32 {
	if t < d.since {
		return 0 // in a fragment's first leaf
	}
	t = t - d.since + 1
	return notAfter(d.later(1), t) + notAfter(d.later(2), t) + notAfter(d.later(3), t) +
		notAfter(d.later(4), t) + notAfter(d.later(5), t) + notAfter(d.later(6), t) +
		notAfter(d.later(7), t) + notAfter(d.later(8), t) + notAfter(d.later(9), t)
}

// denseLeaves is set in versions.leaf if the leaves are dense.
const denseLeaves = 1 << 31

// areDense reports whether the leaves of h are dense.
func (h *versions) areDense() bool { return h.leaf >= denseLeaves }

// firstLeaf returns the index of the first leaf.
func (h *versions) firstLeaf() uint32 { return h.leaf &^ denseLeaves }

// place returns in which leaf version k is, and which of its versions it is.
func (h *versions) place(k uint32) (i, j uint32) {
	if h.areDense() {
		return h.leaf - denseLeaves + k/denseSize, k % denseSize
	}
	return h.leaf + k/leafSize, k % leafSize
}

// perLeaf returns how many versions each leaf has, but for the last one.
func (h *versions) perLeaf() uint32 {
	if h.areDense() {
		return denseSize
	}
	return leafSize
}

// leafCount returns how many leaves there are.
func (h *versions) leafCount() uint32 {
	return uint32((uint64(h.count) + uint64(h.perLeaf()) - 1) / uint64(h.perLeaf()))
}

// stored returns what is stored of version k of h: from when until when it holds, and its code.
func (im *tables) stored(h *versions, k uint32) (since, until uint64, code stateCode) {
	i, j := h.place(k)
	l, per := &im.leaves[i], uint32(leafSize)
	if h.areDense() {
		d := l.dense()
		per, code = denseSize, d.code[j]
		if k > 0 {
			since = d.time(j)
		}
		if j+1 < denseSize {
			until = d.time(j + 1)
		}
	} else {
		since, code = l.since[j], l.code[j]
		if j+1 < leafSize {
			until = l.since[j+1]
		}
	}
	switch {
	case k+1 >= h.count:
		until = MaxTime
	case j+1 == per:
		until = im.leaves[i+1].since[0] // of a dense leaf, since is in the same place
	}
	return since, until, code
}

// likelyPerLeaf returns how many versions a leaf is going to have where there are many: all times of a short
// recording fit into dense leaves.
func (b *Builder) likelyPerLeaf() int {
	if b.horizon-b.first < mostLater {
		return denseSize
	}
	return leafSize
}

// fitDense reports whether the versions fit into dense leaves, and into fewer of them.
func (h *fragmentHistory) fitDense() bool {
	n := h.len()
	if n <= leafSize || h.since(0) != 0 {
		return false
	}
	for k := 0; k < n; k += denseSize {
		if h.since(min(k+denseSize, n)-1)-h.since(max(k, 1)) > mostLater-2 {
			return false
		}
	}
	return true
}

// since returns from when version k holds.
func (h *fragmentHistory) since(k int) uint64 {
	if k < len(h.before) {
		return h.before[k].since
	}
	if k -= len(h.before); k < len(h.chain) {
		return h.chain[k].time
	}
	return h.after[k-len(h.chain)].since
}

// A leafWriter writes the leaves of one fragment.
type leafWriter struct {
	*tables
	first uint32 // the first state of the fragment
	own   bool   // there are more states than codes
	dense bool
	begun bool // a leaf was written

	// Versions that are not written yet: the first n.
	n     int
	since [denseSize]uint64
	code  [denseSize]stateCode
}

// size returns how many versions a leaf has.
func (w *leafWriter) size() int {
	if w.dense {
		return denseSize
	}
	return leafSize
}

// room returns where the next versions are to be put.
func (w *leafWriter) room() (since []uint64, code []stateCode) {
	if w.n == w.size() {
		w.flush()
	}
	return w.since[w.n:w.size()], w.code[w.n:w.size()]
}

// flush writes a leaf.
func (w *leafWriter) flush() {
	w.leaves = append(w.leaves, leaf{})
	l := &w.leaves[len(w.leaves)-1]
	if w.dense {
		first := w.since[0]
		if !w.begun {
			first = w.since[1]
		}
		for j := w.n; j < denseSize; j++ {
			w.since[j], w.code[j] = first+mostLater-1, 0
		}
		d := l.dense()
		d.since, d.code = first, w.code
		for j, t := range w.since[1:] {
			later := t - first + 1
			d.low[j], d.high[j] = uint32(later), uint8(later>>32)
		}
	} else {
		copy(l.since[:w.n], w.since[:])
		for j := w.n; j < leafSize; j++ {
			l.since[j] = MaxTime
		}
		copy(l.code[:w.n], w.code[:])
	}
	w.begun, w.n = true, 0
}

// versions appends versions.
func (w *leafWriter) versions(list []version) {
	var codes [2]stateCode // of the last two
	for i := 0; i < len(list); {
		since, code := w.room()
		n := min(len(list)-i, len(since))
		for k := range n {
			if i < 2 || list[i].state != list[i-2].state { // most go back to the one before the last
				codes[i%2] = w.codeFor(w.first, list[i].state)
				w.own = w.own || codes[i%2] == ownState
			}
			since[k], code[k] = list[i].since, codes[i%2]
			i++
		}
		w.n += n
	}
}

// chain appends a version for each of pokes.
func (w *leafWriter) chain(pokes []poke, edits []edit) {
	var now, next struct { // the edits of two pokes, which take turns in most chains
		edit uint32
		code stateCode
	}
	now.edit, next.edit = noEdit, noEdit
	for len(pokes) > 0 {
		since, code := w.room()
		part := pokes[:min(len(pokes), len(since))]
		since, code = since[:len(part)], code[:len(part)]
		for k := range part {
			p := &part[k]
			if now, next = next, now; now.edit != p.edit {
				now.edit = p.edit
				now.code = w.codeFor(w.first, ofChain(&edits[p.edit]))
				w.own = w.own || now.code == ownState
			}
			since[k], code[k] = p.time, now.code
		}
		w.n += len(part)
		pokes = pokes[len(part):]
	}
}

// end writes the last leaf.
func (w *leafWriter) end() {
	if w.n > 0 {
		w.flush()
	}
}
