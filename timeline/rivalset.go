// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// A rivalSet has the pokes whose order is not known, in groups (rivals.go). After losses, or where the
// number of CPUs is not known, nearly all pokes may be in some group. So a poke takes four bytes
// here, besides the group. Pages that have none take nothing:
//
//	pages   │ nil │ 0 0 1 0 4 ... │ nil │       by order of arrival: where the group of a poke is, 0 if it has none
//	                    │   │
//	pokes             │ 2 p q │ 3 p q r │ ...   each group behind its size
type rivalSet struct {
	pages [][]uint32
	pokes []poke
	sites []bool // by site: it has some; nil: none has
}

// rivalPage is how many pokes a page has.
const rivalPage = 1 << 8

// of returns the group of a poke, by its order of arrival, or nil.
func (r *rivalSet) of(order uint32) []poke {
	if k := int(order / rivalPage); k < len(r.pages) && r.pages[k] != nil {
		return groupAt(r.pokes, r.pages[k][order%rivalPage])
	}
	return nil
}

// any reports whether there is a group.
func (r *rivalSet) any() bool { return len(r.pokes) > 0 }

// ofSite reports whether pokes of a site are in a group.
func (r *rivalSet) ofSite(site uint32) bool { return r.sites != nil && r.sites[site] }

// groupAt returns the group that is at a place of pokes, or nil if that is 0.
func groupAt(pokes []poke, at uint32) []poke {
	if at == 0 {
		return nil
	}
	n := pokes[at-1].order
	return pokes[at : at+n : at+n]
}

// appendGroup appends a group, and returns its place.
func appendGroup(pokes, group []poke) (all []poke, at uint32) {
	for len(pokes)+1+len(group) > cap(pokes) {
		pokes = doubled(pokes[:cap(pokes)])[:len(pokes)]
	}
	pokes = append(pokes, poke{order: uint32(len(group))})
	return append(pokes, group...), uint32(len(pokes))
}

// put makes the group at a place that of a poke, by its order of arrival.
func (r *rivalSet) put(order, at uint32) {
	k := int(order / rivalPage)
	if k >= len(r.pages) {
		r.pages = append(r.pages, make([][]uint32, k+1-len(r.pages))...)
	}
	if r.pages[k] == nil {
		r.pages[k] = make([]uint32, rivalPage)
	}
	r.pages[k][order%rivalPage] = at
}

// has notes that a site, one of so many, has groups.
func (r *rivalSet) has(site uint32, sites int) {
	if r.sites == nil {
		r.sites = make([]bool, sites)
	}
	r.sites[site] = true
}

// A siteRivals has what a worker finds at sites, one after the other, for a rivalSet that others read
// meanwhile.
type siteRivals struct {
	pokes []poke
	found []foundRival
	sites []uint32
	at    map[uint32]uint32 // of the current site: the places of groups in pokes
}

// A foundRival is a poke, by its order of arrival, and where its group is.
type foundRival struct{ order, at uint32 }

// next is called before each site.
func (s *siteRivals) next() {
	if len(s.at) > rivalPage {
		s.at = nil // clearing a large one takes long
	}
	clear(s.at)
}

// take puts what a worker has found into r.
func (r *rivalSet) take(s *siteRivals, sites int) {
	if len(s.pokes) == 0 {
		return
	}
	base := uint32(len(r.pokes))
	if base == 0 {
		r.pokes = s.pokes
	} else {
		r.pokes = append(slices.Grow(r.pokes, len(s.pokes)), s.pokes...)
	}
	for _, f := range s.found {
		r.put(f.order, base+f.at)
	}
	for _, i := range s.sites {
		r.has(i, sites)
	}
}

// rivalsWith returns the pokes of which it is not known whether they came before the poke of this
// order of arrival or after it, with itself; nil if its order is known.
func (d *build) rivalsWith(order uint32) []poke {
	if s := d.perSite; s != nil {
		if at, ok := s.at[order]; ok {
			return groupAt(s.pokes, at)
		}
	}
	return d.rivals.of(order)
}

// hasRivals reports whether the order of any pokes of a site is not known. Of a worker of eachSite, it
// must be the current site.
func (d *build) hasRivals(site uint32) bool {
	return d.perSite != nil && len(d.perSite.at) > 0 || d.rivals.ofSite(site)
}

// add makes different the group of the pokes of list, which are of the current site.
func (s *siteRivals) add(site uint32, list, different []poke) {
	if s.at == nil {
		s.at = make(map[uint32]uint32)
	}
	if len(s.at) == 0 {
		s.sites = append(s.sites, site)
	}
	var at uint32
	s.pokes, at = appendGroup(s.pokes, different)
	for i := range list {
		s.at[list[i].order] = at
		s.found = append(doubled(s.found), foundRival{list[i].order, at})
	}
}
