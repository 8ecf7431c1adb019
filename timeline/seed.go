// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// Seed sets the text of the kernel as it was linked, which the vmlinux file has. It is
// the fact of the lowest rank: its bytes are used only where neither a snapshot nor a
// poke gives any, and are at most [Unconfirmed], since the kernel patches itself at boot.
// The data must neither change nor be unmapped while an image is in use. Segments must be
// sorted by address and must not overlap.
func (b *Builder) Seed(segments []Segment) { b.seed = segments }

// fromSeed reports whether the seed, and not the snapshot, has a fragment's bytes.
func (d *build) fromSeed(f *fragment) bool { return f.seg >= 0 && d.isSeed != nil && d.isSeed[f.seg] }

// seeded returns the snapshot's segments and, between them, those parts of the seed that
// the snapshot does not have, by address. of[i] reports whether segments[i] is the seed's.
func (b *Builder) seeded() (segments []Segment, of []bool) {
	type piece struct {
		Segment
		seed bool
	}
	var all []piece
	for _, s := range b.snapshot.Segments {
		all = append(all, piece{s, false})
	}
	for _, s := range b.seed {
		at := s.Addr
		rest := func(to uint64) {
			if at < to {
				all = append(all, piece{Segment{at, s.Data[at-s.Addr : to-s.Addr]}, true})
			}
		}
		for _, o := range Overlapping(b.snapshot.Segments, s.Addr, s.End()) {
			rest(o.Addr)
			at = o.End()
		}
		rest(s.End())
	}
	slices.SortFunc(all, func(x, y piece) int {
		if x.Addr < y.Addr {
			return -1
		}
		return 1
	})
	for _, p := range all {
		segments, of = append(segments, p.Segment), append(of, p.seed)
	}
	return segments, of
}
