// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"sort"
)

// A liveList is a sorted list of disjoint lifetimes. It has them in chunks, so that no
// insertion moves more than one chunk, however many there are:
//
//	chunks   [ a b c ]  [ d e f g ]  [ h i ]
type liveList struct {
	chunks [][]*Lifetime // none is empty
	moved  int           // how many lifetimes insertions and deletions have moved
}

// chunkSize is how many lifetimes a chunk has at most.
const chunkSize = 512

// overlapping returns those that share addresses with [lo, hi).
func (s *liveList) overlapping(lo, hi uint64) (out []*Lifetime) {
	k := sort.Search(len(s.chunks), func(k int) bool { c := s.chunks[k]; return c[len(c)-1].Hi > lo })
	for ; k < len(s.chunks); k++ {
		c := s.chunks[k]
		for i := sort.Search(len(c), func(i int) bool { return c[i].Hi > lo }); i < len(c); i++ {
			if c[i].Lo >= hi {
				return out
			}
			out = append(out, c[i])
		}
	}
	return out
}

// place returns the chunk and the index in it of the first lifetime that begins at lo or
// later; the last chunk and its length if there is none.
func (s *liveList) place(lo uint64) (k, i int) {
	k = sort.Search(len(s.chunks), func(k int) bool { c := s.chunks[k]; return c[len(c)-1].Lo >= lo })
	if k == len(s.chunks) {
		k--
	}
	c := s.chunks[k]
	return k, sort.Search(len(c), func(i int) bool { return c[i].Lo >= lo })
}

func (s *liveList) insert(l *Lifetime) {
	if len(s.chunks) == 0 {
		s.chunks = append(s.chunks, []*Lifetime{l})
		return
	}
	k, i := s.place(l.Lo)
	s.moved += len(s.chunks[k]) - i
	c := slices.Insert(s.chunks[k], i, l)
	if s.chunks[k] = c; len(c) > chunkSize {
		s.moved += len(s.chunks) - k
		s.chunks[k] = slices.Clone(c[:len(c)/2])
		s.chunks = slices.Insert(s.chunks, k+1, slices.Clone(c[len(c)/2:]))
	}
}

// remove takes l out.
func (s *liveList) remove(l *Lifetime) {
	if len(s.chunks) == 0 {
		return
	}
	k, i := s.place(l.Lo)
	if i == len(s.chunks[k]) || s.chunks[k][i] != l {
		return
	}
	s.moved += len(s.chunks[k]) - i
	if s.chunks[k] = slices.Delete(s.chunks[k], i, i+1); len(s.chunks[k]) == 0 {
		s.moved += len(s.chunks) - k
		s.chunks = slices.Delete(s.chunks, k, k+1)
	}
}

// all yields them in the order of their addresses.
func (s *liveList) all(yield func(*Lifetime) bool) {
	for _, c := range s.chunks {
		for _, l := range c {
			if !yield(l) {
				return
			}
		}
	}
}

// A lifetimeIndex finds lifetimes by the pages that they are in.
type lifetimeIndex struct {
	pages map[uint64][]*Lifetime
	wide  []*Lifetime // of more than widePages pages
	n     int         // how many are indexed
	// looked is how many lifetimes were found in all.
	looked int
}

const (
	widePages = 16
	// maxAround is how many lifetimes are looked at for one. A kernel has fewer in a few pages.
	maxAround = 1 << 14
)

// around returns those of all, to which lifetimes are only ever appended, that may share
// addresses with l. ok is false if there are too many.
func (x *lifetimeIndex) around(all []*Lifetime, l *Lifetime) (out []*Lifetime, ok bool) {
	if x.pages == nil {
		x.pages = make(map[uint64][]*Lifetime)
	}
	for ; x.n < len(all); x.n++ {
		o := all[x.n]
		if o.Hi-o.Lo > widePages*pageSize {
			x.wide = append(x.wide, o)
			continue
		}
		for n := o.Lo / pageSize; n <= o.Hi/pageSize; n++ {
			x.pages[n] = append(x.pages[n], o)
		}
	}
	if l.Hi-l.Lo > widePages*pageSize {
		return all, len(all) <= maxAround
	}
	out = slices.Clip(x.wide)
	for n := l.Lo / pageSize; n <= l.Hi/pageSize; n++ {
		out = append(out, x.pages[n]...)
	}
	x.looked += len(out)
	return out, len(out) <= maxAround
}
