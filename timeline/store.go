// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "math/bits"

// How an image keeps the versions of its fragments. A question about a random
// place and time must not cost more than a few cache lines, however many
// versions there are, and as few of these as can be must wait for one another:
// the versions of a fragment lie seven to a line, each a time and a small number
// for its state; where a fragment has many lines a tree of their
// first times leads to the right one; and the states, which with short contents
// have the bytes in them, lie in a line whose place is known as soon as the
// fragment is.

// tables are what an image is made of: plain numbers that refer to one another
// by index.
type tables struct {
	fragments []fragment // by address
	leaves    []leaf
	nodes     []node
	states    []storedState
	conflicts []conflict
	claims    []claim // of conflicts, one after the other
	arena     []byte
	pages     []uint32 // of core text, from Image.pageBase on: how many fragments begin before each; one more at the end
	ranks     []rank   // of the lines of these pages
}

// versions are those of a fragment.
type versions struct {
	leaf   uint32 // tables.leaves[leaf:], as many as count takes
	count  uint32 // versions, at least one
	node   uint32 // tables.nodes[node:], where there are more than sideBySide leaves
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
// states than there are codes, each version has its state, and the
// codes say nothing.
type stateCode uint8

const ownState stateCode = 255

// A state is a version without its time.
type state struct {
	content  uint32 // arena offset, snapshotContent, noContent; of conflicting ones: index of the conflict
	standing Standing
	reason   Reason
	source   Source
	states   uint8 // see storedState
}

// A storedState is one as it is stored. The first of a fragment says how many
// there are, or ownState.
type storedState struct {
	bytes uint64 // the content, as a little-endian word, where it is one of the arena of at most shortContent bytes
	state
}

const shortContent = 8

// stateLine is how many states a cache line has. Those of a fragment that fit in
// one do not lie in two.
const stateLine = 4

// A versionAt is one with its validity.
type versionAt struct {
	since, until uint64
	storedState
}

var emptyNode = node{MaxTime, MaxTime, MaxTime, MaxTime, MaxTime, MaxTime, MaxTime, MaxTime}

func leavesFor(count uint32) uint32 { return (count + leafSize - 1) / leafSize }

// notAfter returns 1 where a <= t, else 0, without a branch.
func notAfter(a, t uint64) uint32 {
	_, after := bits.Sub64(t, a, 0)
	return 1 - uint32(after)
}

// at returns the version of h that holds at t.
func (im *tables) at(h *versions, t uint64) versionAt { return im.version(h, im.indexAt(h, t)) }

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
func (im *tables) version(h *versions, k uint32) versionAt {
	// This does not wait for the leaf. Nor need the state itself then, which
	// is of the same line as a rule.
	states := im.states[h.states].states
	i, j := h.leaf+k/leafSize, k%leafSize
	l := &im.leaves[i]
	v := versionAt{since: l.since[j], until: MaxTime}
	switch {
	case j+1 < leafSize:
		v.until = l.since[j+1]
	case k+1 < h.count:
		v.until = im.leaves[i+1].since[0]
	}
	s := min(uint32(l.code[j]), uint32(states)-1)
	if states == uint8(ownState) {
		s = k
	}
	v.storedState = im.states[h.states+s]
	return v
}

// A version holds from its time to that of the next one of its fragment. This
// is how a historyBuilder makes them, before they are stored.
type version struct {
	since uint64
	state
}

// store keeps the versions of a fragment of so many bytes.
func (im *tables) store(list []version, size uint32) versions {
	h := versions{
		leaf:   uint32(len(im.leaves)),
		count:  uint32(len(list)),
		node:   uint32(len(im.nodes)),
		states: uint32(len(im.states)),
	}
	own := false
	var codes [2]stateCode // of the last two versions
	for i := 0; i < len(list); i += leafSize {
		im.leaves = append(im.leaves, leaf{})
		l := &im.leaves[len(im.leaves)-1]
		part := list[i:min(i+leafSize, len(list))]
		for k := range part {
			l.since[k] = part[k].since
			n := i + k
			if n < 2 || list[n].state != list[n-2].state { // most go back to what was before
				codes[n%2] = im.code(h.states, part[k].state)
				own = own || codes[n%2] == ownState
			}
			l.code[k] = codes[n%2]
		}
		for k := len(part); k < leafSize; k++ {
			l.since[k] = MaxTime
		}
	}
	if own {
		im.states = im.states[:h.states]
		for i := range list {
			im.states = append(im.states, storedState{state: list[i].state})
		}
	}
	h.states += im.alignStates(h.states)
	states := im.states[h.states:]
	states[0].states = uint8(min(len(states), int(ownState)))
	for i := range states {
		if s := &states[i]; s.short(size) {
			for k, b := range im.arena[s.content:][:size] {
				s.bytes |= uint64(b) << (8 * k)
			}
		}
	}
	if leavesFor(h.count) > sideBySide {
		im.storeTree(h)
	}
	return h
}

// code returns the place of s among the states from first on, where it is put
// if it is not there.
func (im *tables) code(first uint32, s state) stateCode {
	for i := range im.states[first:] {
		if im.states[first:][i].state == s {
			return stateCode(i)
		}
	}
	n := len(im.states[first:])
	if n == int(ownState)-1 { // a number of states is no ownState
		return ownState
	}
	im.states = append(im.states, storedState{state: s})
	return stateCode(n)
}

// alignStates moves the states from first on, the newest, up to the next line
// where they fit in one and lie in two. It returns how far.
func (im *tables) alignStates(first uint32) uint32 {
	n := uint32(len(im.states)) - first
	at := first % stateLine
	if n > stateLine || at+n <= stateLine {
		return 0
	}
	by := stateLine - at
	var line [stateLine]storedState
	copy(line[:], im.states[first:])
	im.states = append(im.states[:first], make([]storedState, by)...)
	im.states = append(im.states, line[:n]...)
	return by
}

// short reports whether the bytes of s, a state of a fragment of this size, are
// in it.
func (s *state) short(size uint32) bool {
	return size <= shortContent && s.standing.HasBytes() && s.standing != InFlight && s.content < snapshotContent
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
