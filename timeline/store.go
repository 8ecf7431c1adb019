// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math/bits"
	"slices"
)

// The store keeps the versions of the fragments of an image. A question about a random
// address and time must touch only a few cache lines, however many versions there are,
// and as few of them as possible must be loaded one after the other.
//
// Take a fragment that flips between a NOP and a CALL, with versions v0 to v9:
//
//	time        0    100  300  310  400  500  600  700  900  1001
//	version     v0   v1   v2   v3   v4   v5   v6   v7   v8   v9
//	state       n0   n    c    n    c    n    c    n    c    c1
//
// Step by step:
//
//  1. States. A state is a version without its time: standing, reason, source and
//     content. The ten versions have four: n0, n, c, c1. Each is stored once, and
//     contents of up to 8 bytes are stored in it:
//
//	states      ... │ n0 │ n │ c │ c1 │ ...              16 bytes each, a cache line
//
//  2. Leaves. Seven versions share a cache line: seven times, and seven codes, the
//     index of each version's state among the four. (Where times are near each other,
//     ten do, see leaf.go.)
//
//	leaf 0      │ 0 100 300 310 400 500 600 │ 0 1 2 1 2 1 2 │
//	leaf 1      │ 700 900 1001 ∞ ∞ ∞ ∞      │ 1 2 3         │
//
//  3. Nodes. A fragment with more than four leaves has a tree of their first times,
//     eight to a node, one cache line each:
//
//	nodes                 │ t0       t8       t16 ... │            top
//	            │ t0 t1 ... t7 │ │ t8 t9 ... t15 │ ...             last level
//	leaves        0  1      7      8  9      15
//
//  4. A question finds the leaf by the tree, the version by comparing the seven times
//     of the leaf without a branch, and the state by its code. The line of the states
//     is known from the fragment, so it is loaded at the same time as the leaf.
//
// All tables are slices of plain numbers, which refer to each other by index, so an
// image can be written to a file and mapped again as it is (encode.go).

// tables are the tables of an image.
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

// sizes are how many rows tables have that grow with the versions of fragments.
type sizes struct{ leaves, nodes, states, conflicts, claims int }

func (im *tables) sizes() sizes {
	return sizes{len(im.leaves), len(im.nodes), len(im.states), len(im.conflicts), len(im.claims)}
}

// bytes returns how many bytes these rows have.
func (s sizes) bytes() int {
	return s.leaves*sizeOf[leaf]() + s.nodes*sizeOf[node]() + s.states*sizeOf[storedState]() + s.conflicts*sizeOf[conflict]() + s.claims*sizeOf[claim]()
}

// cut drops the rows that were appended since the tables had the sizes to.
func (im *tables) cut(to sizes) {
	im.leaves, im.nodes, im.states = im.leaves[:to.leaves], im.nodes[:to.nodes], im.states[:to.states]
	im.conflicts, im.claims = im.conflicts[:to.conflicts], im.claims[:to.claims]
}

// versions says where the versions of a fragment are stored.
type versions struct {
	leaf   uint32 // the first leaf, in tables.leaves, and denseLeaves if they are dense
	count  uint32 // how many versions, at least one
	node   uint32 // the top of the tree, in tables.nodes, if there are more than sideBySide leaves
	states uint32 // the first state, in tables.states
}

// sideBySide is up to how many leaves are searched without a tree: their lines are loaded
// at the same time, but the line of a tree would be loaded before them.
const sideBySide = 4

// A node is a cache line of first times. The last level of a tree has the first times of
// all leaves; each level above it has the first times of the nodes below; the top is a
// single node. The levels are stored one after the other, from the top down.
type node [fan]uint64 // MaxTime behind the last

const fan = 8

// A stateCode is the index of a state among those of its fragment. They are few, since a
// site flips between few contents. If a fragment has more states than there are codes,
// one state is stored for each version, and the codes are not used.
type stateCode = uint8

const ownState stateCode = 255

// A state is a version without its time.
type state struct {
	content  uint32 // arena offset, snapshotContent, noContent; of conflicting ones: index of the conflict
	standing Standing
	reason   Reason
	source   Source
	states   uint8 // see storedState
}

// A storedState is a state as it is stored. states of the first one of a fragment is
// their number, or ownState.
type storedState struct {
	bytes uint64 // the content as a little-endian word, if it is of the arena and short, see state.short
	state
}

const shortContent = 8

// stateLine is how many states a cache line has. The states of a fragment that fit into
// one line are not stored across two.
const stateLine = 4

// A versionAt is a version with its validity.
type versionAt struct {
	since, until uint64
	storedState
}

var emptyNode = node{MaxTime, MaxTime, MaxTime, MaxTime, MaxTime, MaxTime, MaxTime, MaxTime}

// notAfter returns 1 if a <= t, else 0, without a branch.
func notAfter(a, t uint64) uint32 {
	_, after := bits.Sub64(t, a, 0)
	return 1 - uint32(after)
}

// at returns the version of h that holds at t.
func (im *tables) at(h *versions, t uint64) versionAt { return im.version(h, im.indexAt(h, t)) }

// indexAt returns the index among h's versions of the one that holds at t.
func (im *tables) indexAt(h *versions, t uint64) uint32 {
	i := uint32(0)
	if h.count > h.perLeaf() {
		i = im.leafAt(h, t)
	}
	if h.areDense() {
		return min(i*denseSize+im.leaves[h.firstLeaf()+i].dense().at(t), h.count-1)
	}
	s := &im.leaves[h.leaf+i].since
	k := i*leafSize + notAfter(s[1], t) + notAfter(s[2], t) + notAfter(s[3], t) +
		notAfter(s[4], t) + notAfter(s[5], t) + notAfter(s[6], t)
	return min(k, h.count-1) // the times behind the last version are MaxTime too
}

// leafAt returns which of several leaves of h holds t.
func (im *tables) leafAt(h *versions, t uint64) uint32 {
	n := h.leafCount()
	if n <= sideBySide {
		l := im.leaves[h.firstLeaf():][:n]
		i := uint32(0)
		for k := 1; k < len(l); k++ {
			i += notAfter(l[k].since[0], t) // of a dense leaf, since is in the same place
		}
		return i
	}
	sizes, top := levels(n)
	i, first := uint32(0), h.node // i is in the level that begins at first
	for ; top > 0; top-- {
		i = min(i*fan+im.nodes[first+i].at(t), sizes[top-1]-1)
		first += sizes[top]
	}
	return min(i*fan+im.nodes[first+i].at(t), n-1)
}

// levels returns how many nodes each level of the tree over so many leaves has, the last
// level first, and the index of the top level.
func levels(leaves uint32) (sizes [11]uint32, top int) { // 8^11 is more than 2^32
	n := (leaves + fan - 1) / fan
	for sizes[0] = n; n > 1; {
		n = (n + fan - 1) / fan
		top++
		sizes[top] = n
	}
	return sizes, top
}

// nodesFor returns about how many nodes the trees over so many leaves of some places have. Each level
// of a tree is larger by a part of a node.
func nodesFor(leaves, places int) int { return leaves/fan + leaves/(fan*fan) + 4*places }

// at returns the index of the last time that is not after t, 0 if all are.
func (n *node) at(t uint64) uint32 {
	return notAfter(n[1], t) + notAfter(n[2], t) + notAfter(n[3], t) + notAfter(n[4], t) +
		notAfter(n[5], t) + notAfter(n[6], t) + notAfter(n[7], t)
}

// version returns the k-th version of h.
func (im *tables) version(h *versions, k uint32) versionAt {
	// This load does not wait for the leaf, nor does that of the state below, which is
	// usually of the same line.
	states := im.states[h.states].states
	var v versionAt
	var code stateCode
	v.since, v.until, code = im.stored(h, k)
	s := min(uint32(code), uint32(states)-1)
	if states == uint8(ownState) {
		s = k
	}
	v.storedState = im.states[h.states+s]
	return v
}

// A version is valid from its time to that of the next one of its fragment. A
// historyBuilder emits versions in this form.
type version struct {
	since uint64
	state
}

// store stores the versions of a fragment of size bytes. A chain's pokes are of edits.
func (im *tables) store(list fragmentHistory, edits []edit, size uint32) versions {
	h := versions{
		leaf:   uint32(len(im.leaves)),
		count:  uint32(list.len()),
		node:   uint32(len(im.nodes)),
		states: uint32(len(im.states)),
	}
	w := leafWriter{tables: im, first: h.states, dense: list.fitDense()}
	if w.dense {
		h.leaf |= denseLeaves
	}
	w.versions(list.before)
	w.chain(list.chain, edits)
	w.versions(list.after)
	w.end()
	if w.own {
		im.states = slices.Grow(im.states[:h.states], int(h.count))
		im.ownStates(list.before)
		for i := range list.chain {
			im.states = append(im.states, storedState{state: ofChain(&edits[list.chain[i].edit])})
		}
		im.ownStates(list.after)
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
	if h.leafCount() > sideBySide {
		im.storeTree(h)
	}
	return h
}

// ownStates appends the state of each version.
func (im *tables) ownStates(list []version) {
	for i := range list {
		im.states = append(im.states, storedState{state: list[i].state})
	}
}

// ofChain returns the state that a poke of a chain, which makes the edit e, leaves.
func ofChain(e *edit) state { return state{content: e.new, standing: Known, source: SourcePoke} }

// codeFor returns the index of s among the states from first on. It appends s if it is not
// among them.
func (im *tables) codeFor(first uint32, s state) stateCode {
	for i := range im.states[first:] {
		if im.states[first:][i].state == s {
			return stateCode(i)
		}
	}
	n := len(im.states[first:])
	if n == int(ownState)-1 { // so that a number of states is never ownState
		return ownState
	}
	im.states = append(im.states, storedState{state: s})
	return stateCode(n)
}

// alignStates moves the states from first on, which are the newest, to the next cache
// line, if they fit into one line but are stored across two. It returns by how many states
// it moved them.
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

// short reports whether a state of a fragment of this size has its bytes in it.
func (s *state) short(size uint32) bool {
	return size <= shortContent && s.standing.HasBytes() && s.standing != InFlight && s.content < snapshotContent
}

// storeTree stores the tree over the leaves of h, which are the newest.
func (im *tables) storeTree(h versions) {
	sizes, top := levels(h.leafCount())
	for _, n := range sizes[:top+1] {
		for range n {
			im.nodes = append(im.nodes, emptyNode)
		}
	}
	// From the last level up.
	at := uint32(len(im.nodes)) - sizes[0]
	for i := range im.leaves[h.firstLeaf():] {
		im.nodes[at:][i/fan][i%fan] = im.leaves[h.firstLeaf():][i].since[0]
	}
	for k := 1; k <= top; k++ {
		below := im.nodes[at:][:sizes[k-1]]
		at -= sizes[k]
		for i := range below {
			im.nodes[at:][i/fan][i%fan] = below[i][0]
		}
	}
}
