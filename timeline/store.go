// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "math/bits"

// How an image keeps the versions of its fragments. A question about a random
// place and time must not cost more than a few cache lines, however many
// versions there are: the versions of a fragment lie seven to a line, each a time and a
// small number that stands for its state, and where a fragment has many lines
// a tree of their first times leads to the right one.

// tables are what an image is made of: plain numbers that refer to one another
// by index.
type tables struct {
	fragments []fragment // by address
	leaves    []leaf
	nodes     []node
	states    []state
	conflicts []conflict
	claims    []claim // of conflicts, one after the other
	arena     []byte
	offsets   []pageOffset // of fragments
	pages     []uint32     // of core text, from Image.pageBase on: how many fragments begin before each; one more at the end
}

// versions are those of a fragment.
type versions struct {
	leaf   uint32 // tables.leaves[leaf:], as many as count takes
	count  uint32 // versions, at least one
	node   uint32 // tables.nodes[node:], where there are several leaves
	states uint32 // tables.states[states:]
}

// A leaf is a cache line of versions, by time.
type leaf struct {
	since [leafSize]uint64        // MaxTime behind the last version
	code  [leafSize + 1]stateCode // the last is not used
}

const leafSize = 7

// sideBySide is up to how many leaves are looked at without the tree: their
// lines come out of memory side by side, the tree's line would come before.
const sideBySide = 4

// A node is a cache line of first times. Those of all leaves of a fragment, in
// as many nodes as they take, are the last level of its tree; each level above
// has the first times of the nodes below it, up to one that is a single node.
// The levels lie one after the other, from the top down.
type node [fan]uint64 // MaxTime behind the last

const fan = 8

// A stateCode is the place of a state among those of its fragment: they are
// few, since a site flips between few contents. Where a fragment has more
// states than there are codes, the code of all is ownState, and each version has a
// state of its own.
type stateCode uint8

const ownState stateCode = 255

// A state is a version without its time.
type state struct {
	content  uint32 // arena offset, snapshotContent, noContent; of conflicting ones: index of the conflict
	standing Standing
	reason   Reason
	source   Source
	_        uint8 // so that states can be compared as words
}

// A held version is one with its validity.
type held struct {
	since, until uint64
	state
}

var emptyNode = node{MaxTime, MaxTime, MaxTime, MaxTime, MaxTime, MaxTime, MaxTime, MaxTime}

func leavesFor(count uint32) uint32 { return (count + leafSize - 1) / leafSize }

// notAfter returns 1 where a <= t, else 0, without a branch.
func notAfter(a, t uint64) uint32 {
	_, after := bits.Sub64(t, a, 0)
	return 1 - uint32(after)
}

// at returns the version of h that holds at t.
func (im *tables) at(h *versions, t uint64) held { return im.version(h, im.indexAt(h, t)) }

// indexAt returns the place of the version of h that holds at t.
func (im *tables) indexAt(h *versions, t uint64) uint32 {
	i := uint32(0)
	if h.count > leafSize {
		i = im.leafAt(h, t)
	}
	s := &im.leaves[h.leaf+i].since
	k := i*leafSize + notAfter(s[1], t) + notAfter(s[2], t) + notAfter(s[3], t) +
		notAfter(s[4], t) + notAfter(s[5], t) + notAfter(s[6], t)
	return min(k, h.count-1) // MaxTime is also what stands behind the last
}

// leafAt returns which of several leaves of h holds t.
func (im *tables) leafAt(h *versions, t uint64) uint32 {
	if n := leavesFor(h.count); n <= sideBySide {
		l := im.leaves[h.leaf : h.leaf+n]
		i := uint32(0)
		for k := 1; k < len(l); k++ {
			i += notAfter(l[k].since[0], t)
		}
		return i
	}
	sizes, top := levels(h.count)
	i, first := uint32(0), h.node // in the level at hand, which begins at first
	for ; top > 0; top-- {
		i = min(i*fan+im.nodes[first+i].at(t), sizes[top-1]-1)
		first += sizes[top]
	}
	return min(i*fan+im.nodes[first+i].at(t), leavesFor(h.count)-1)
}

// levels returns how many nodes the levels of the tree over so many versions
// have, the last level first, and which is the topmost.
func levels(count uint32) (sizes [11]uint32, top int) { // 8^11 is more than 2^32
	n := (leavesFor(count) + fan - 1) / fan
	for sizes[0] = n; n > 1; {
		n = (n + fan - 1) / fan
		top++
		sizes[top] = n
	}
	return sizes, top
}

// at returns the place of the last time that is not after t, 0 where all are.
func (n *node) at(t uint64) uint32 {
	return notAfter(n[1], t) + notAfter(n[2], t) + notAfter(n[3], t) + notAfter(n[4], t) +
		notAfter(n[5], t) + notAfter(n[6], t) + notAfter(n[7], t)
}

// version returns the k-th version of h.
func (im *tables) version(h *versions, k uint32) held {
	i, j := h.leaf+k/leafSize, k%leafSize
	l := &im.leaves[i]
	v := held{since: l.since[j], until: MaxTime}
	switch {
	case j+1 < leafSize:
		v.until = l.since[j+1]
	case k+1 < h.count:
		v.until = im.leaves[i+1].since[0]
	}
	s := uint32(l.code[j])
	if s == uint32(ownState) {
		s = k
	}
	v.state = im.states[h.states+s]
	return v
}

// A version holds from its time to that of the next one of its fragment. This
// is how a chain makes them, before they are stored.
type version struct {
	since uint64
	state
}

// store keeps the versions of a fragment.
func (im *tables) store(list []version) versions {
	h := versions{
		leaf:   uint32(len(im.leaves)),
		count:  uint32(len(list)),
		node:   uint32(len(im.nodes)),
		states: uint32(len(im.states)),
	}
	own := false
	for i := 0; i < len(list); i += leafSize {
		im.leaves = append(im.leaves, leaf{})
		l := &im.leaves[len(im.leaves)-1]
		part := list[i:min(i+leafSize, len(list))]
		for k := range part {
			l.since[k] = part[k].since
			l.code[k] = im.code(h.states, part[k].state)
			own = own || l.code[k] == ownState
		}
		for k := len(part); k < leafSize; k++ {
			l.since[k] = MaxTime
		}
	}
	if own {
		im.states = im.states[:h.states]
		for i := range list {
			im.states = append(im.states, list[i].state)
		}
		for i := range im.leaves[h.leaf:] {
			l := &im.leaves[h.leaf:][i]
			for k := range l.code {
				l.code[k] = ownState
			}
		}
	}
	if h.count > leafSize {
		im.storeTree(h)
	}
	return h
}

// code returns the place of s among the states from first on, where it is put
// if it is not there.
func (im *tables) code(first uint32, s state) stateCode {
	for i := range im.states[first:] {
		if im.states[first:][i] == s {
			return stateCode(i)
		}
	}
	n := len(im.states[first:])
	if n == int(ownState) {
		return ownState
	}
	im.states = append(im.states, s)
	return stateCode(n)
}

// storeTree keeps the tree over the leaves of h, which are the newest.
func (im *tables) storeTree(h versions) {
	sizes, top := levels(h.count)
	for _, n := range sizes[:top+1] {
		for range n {
			im.nodes = append(im.nodes, emptyNode)
		}
	}
	// From the last level up.
	at := uint32(len(im.nodes)) - sizes[0]
	for i := range im.leaves[h.leaf:] {
		im.nodes[at:][i/fan][i%fan] = im.leaves[h.leaf:][i].since[0]
	}
	for k := 1; k <= top; k++ {
		below := im.nodes[at:][:sizes[k-1]]
		at -= sizes[k]
		for i := range below {
			im.nodes[at:][i/fan][i%fan] = below[i][0]
		}
	}
}
