// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"errors"
	"sort"
)

// ErrWhole is returned by [DecodePart] if only the whole image can be decoded.
var ErrWhole = errors.New("timeline: the whole image is needed")

// DecodePart is [DecodeImage] for the addresses in ranges, as if [Builder.Only] had named them.
// It reads only what the answers for these addresses need. Before it reads bytes of a table it
// calls check, with the table's index in Encoded.Tables and the place of the bytes in it. It
// returns the error of check. Where facts contradict each other, it returns [ErrWhole].
func DecodePart(e Encoded, segments []Segment, names []Names, ranges []Range, check func(table, from, to int) error) (*Image, error) {
	whole, saved, err := decodeTables(e, names)
	if err != nil {
		return nil, err
	}
	p := partDecoder{whole: whole, check: check, tables: e.Tables}
	for _, i := range []int{tableLives, tableNames} {
		p.need(i, 0, len(e.Tables[i].Data), 1)
	}
	im := &Image{names: whole.names, only: asked(ranges)}
	// Fragments are copied. They lead to the other tables in place.
	im.leaves, im.nodes, im.states, im.arena = whole.leaves, whole.nodes, whole.states, whole.arena
	if err := im.take(&e.Meta, segments); err != nil {
		return nil, err
	}
	if im.unpatched.count > 0 {
		p.versions(&im.unpatched, 0)
	}
	next := 0
	for _, r := range im.only {
		i := sort.Search(len(whole.fragments), func(i int) bool {
			f := p.fragment(i)
			return f.addr > r.Lo || r.Lo-f.addr < uint64(f.size)
		})
		for i = max(i, next); i < len(whole.fragments) && p.err == nil; i++ {
			f := p.fragment(i)
			if f.addr >= r.Hi {
				break
			}
			if f.versions != im.unpatched {
				p.versions(&f.versions, f.size)
			}
			im.fragments = append(im.fragments, *f)
		}
		next = i
	}
	if p.err != nil {
		return nil, p.err
	}
	// The few fragments are found without the index of pages.
	if err := im.CheckValid(); err != nil {
		return nil, err
	}
	if err := im.takeLives(&saved, names); err != nil {
		return nil, err
	}
	return im, nil
}

// A partDecoder reads some fragments of encoded tables, and keeps the first error.
type partDecoder struct {
	whole  *Image
	tables []EncodedTable
	check  func(table, from, to int) error
	err    error
}

// need checks n elements of a table from the i-th on, each of size bytes. It reports whether they
// may be read.
func (p *partDecoder) need(table, i, n, size int) bool {
	if p.err == nil && (i < 0 || n < 0 || i > len(p.tables[table].Data)/size || n > len(p.tables[table].Data)/size-i) {
		p.err = invalidf("a fragment leads nowhere")
	}
	if p.err == nil {
		p.err = p.check(table, i*size, (i+n)*size)
	}
	return p.err == nil
}

// fragment returns the i-th fragment, or an empty one after an error.
func (p *partDecoder) fragment(i int) *fragment {
	if !p.need(tableFragments, i, 1, sizeOf[fragment]()) {
		return &fragment{}
	}
	return &p.whole.fragments[i]
}

// versions checks what the versions of a fragment of so many bytes lead to.
func (p *partDecoder) versions(v *versions, size uint32) {
	if !p.need(tableStates, int(v.states), 1, sizeOf[storedState]()) {
		return
	}
	if !p.whole.goodVersions(v) {
		p.err = invalidf("a fragment leads nowhere")
		return
	}
	states := int(p.whole.statesOf(v))
	p.need(tableLeaves, int(v.firstLeaf()), int(v.leafCount()), sizeOf[leaf]())
	if v.leafCount() > sideBySide {
		nodes := 0
		sizes, top := levels(v.leafCount())
		for _, n := range sizes[:top+1] {
			nodes += int(n)
		}
		p.need(tableNodes, int(v.node), nodes, sizeOf[node]())
	}
	if !p.need(tableStates, int(v.states), states, sizeOf[storedState]()) {
		return
	}
	for i := range p.whole.states[v.states:][:states] {
		s := &p.whole.states[int(v.states)+i].state
		switch {
		case s.standing == Conflicting || s.standing == InFlight:
			p.err = ErrWhole
			return
		case s.content <= maxContent && size > 0:
			p.need(tableArena, int(s.content), int(size), 1)
		case s.content <= maxContent: // of fragments whose size is not known here
			p.err = ErrWhole
			return
		}
	}
}
