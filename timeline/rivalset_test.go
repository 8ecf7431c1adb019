// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRivalSet: each poke has the group that was put last, whether it was found directly or by workers,
// each of which finds those of other sites; others have none.
func TestRivalSet(t *testing.T) {
	const sites, pokesOfSite, editsOfSite = 40, 200, 30
	rnd := rand.New(rand.NewPCG(1, 2))
	d := &build{Builder: &Builder{sites: make([]site, sites)}}
	lists := make([][]poke, sites) // the pokes of a site are apart from one another, as they arrive
	for order := range uint32(sites * pokesOfSite) {
		i := order % sites
		edit := i*editsOfSite + rnd.Uint32N(editsOfSite)
		lists[i] = append(lists[i], poke{time: uint64(order), edit: edit, order: 3 * order})
	}
	for i := range uint32(sites * editsOfSite) {
		d.edits = append(d.edits, edit{site: i / editsOfSite})
	}
	want, wantSites := make(map[uint32][]poke), make(map[uint32]bool)
	find := func(w *build, i uint32) {
		from := rnd.IntN(pokesOfSite - 1)
		list := lists[i][from : from+2+rnd.IntN(pokesOfSite-1-from)]
		w.rival(list...)
		var group []poke
		for _, p := range list {
			if !slices.ContainsFunc(group, func(o poke) bool { return o.edit == p.edit }) {
				group = append(group, p)
			}
		}
		for _, p := range list {
			want[p.order] = group
		}
		wantSites[i] = true
	}
	check := func(w *build, i uint32) {
		t.Helper()
		if got := w.hasRivals(i); got != wantSites[i] {
			t.Fatalf("site %d has rivals: %t, want %t", i, got, wantSites[i])
		}
		for _, p := range lists[i] {
			for order := p.order; order < p.order+3; order++ { // two of them are of no poke
				got := w.rivalsWith(order)
				if !slices.Equal(got, want[order]) {
					t.Fatalf("site %d, order %d: %v, want %v", i, order, got, want[order])
				}
			}
		}
	}
	for i := uint32(0); i < sites; i += 5 {
		find(d, i)
	}
	a, b := *d, *d
	a.perSite, b.perSite = new(siteRivals), new(siteRivals)
	for i := uint32(0); i < sites; i += 2 {
		w := &a
		if i%4 == 0 {
			w = &b
		}
		w.perSite.next()
		check(w, i)
		for range 2 { // the second group may have pokes of the first
			find(w, i)
			check(w, i)
		}
	}
	d.rivals.take(a.perSite, sites)
	d.rivals.take(b.perSite, sites)
	for i := range uint32(sites) {
		check(d, i)
	}
	if got := d.rivals.of(noPoke); got != nil {
		t.Errorf("no poke has %v", got)
	}
}
