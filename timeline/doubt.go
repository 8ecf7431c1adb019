// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"sort"
)

// doubtModules finds the first contradiction in the text of each module: a poke whose
// old bytes are not what the facts before it give, or the birth or the death of other
// code inside of it. It shows that the module was unloaded with no record, so nothing of
// it is known from its last confirmed moment on (rule modules).
func (d *build) doubtModules(lives []*Lifetime) {
	for _, l := range lives {
		l.doubted = MaxTime
		if l.Kind == ModuleText && !l.undated {
			d.doubtModule(l)
		}
	}
}

// doubtModule sets l.doubted to the last confirmed moment before the first contradiction.
func (d *build) doubtModule(l *Lifetime) {
	lo, _ := slices.BinarySearchFunc(d.order, l.Lo, func(s uint32, a uint64) int { return cmp.Compare(d.sites[s].addr, a) })
	hi, _ := slices.BinarySearchFunc(d.order, l.Hi, func(s uint32, a uint64) int { return cmp.Compare(d.sites[s].addr, a) })
	d.gather(d.order[lo:hi])
	now := make(map[uint64]byte) // poked bytes
	// Up to the latest moment at which the snapshot can have been made, it may be from
	// before a poke or after it. So until then pokes are compared with other pokes only. So
	// are those of a module that came later: the snapshot has what was there before.
	copied := false
	at := func(a uint64) (byte, bool) {
		b, ok := now[a]
		if ok || !copied || l.later {
			return b, ok
		}
		segs := d.snapshot.Segments
		if i := sort.Search(len(segs), func(i int) bool { return segs[i].End() > a }); i < len(segs) && segs[i].Addr <= a {
			return segs[i].Data[a-segs[i].Addr], true
		}
		return 0, false
	}
	confirmed := l.From
	for i := range d.cluster {
		p := &d.cluster[i]
		if p.time < l.From || p.time >= l.To {
			continue
		}
		e := &d.edits[p.edit]
		addr := d.sites[e.site].addr
		old, new := d.arena[e.old:][:e.olen], d.arena[e.new:][:e.nlen]
		if !copied && p.time > d.snapshot.To {
			copied, confirmed = true, d.snapshot.To
		}
		if !d.holds(addr, old, at) && (copied || !d.pokeLost(l, p.time)) {
			l.doubted = max(l.From, confirmed)
			return
		}
		if e.olen > 0 {
			confirmed = p.time
		}
		for k, b := range new {
			now[addr+uint64(k)] = b
		}
	}
	switch {
	case l.Ended != ModuleContradicted:
	case l.To <= d.snapshot.To: // by a birth or a death inside, at l.To
		l.doubted = l.From // the copy may be of later
	default:
		l.doubted = max(l.From, confirmed, d.snapshot.To)
	}
}

// pokeLost reports whether only a lost poke can explain a contradiction in the text of a
// module at t, because it is certain that the module was there until then. The lost poke may
// have the same time as the two that contradict each other. Some CPUs record before all do: then it may
// be one of those that did not yet.
func (d *build) pokeLost(l *Lifetime, t uint64) bool {
	until := Later(t, 1)
	return len(d.gaps[gapsOfText].between(min(max(l.From, d.first), t), until)) > 0 && len(l.unsure.between(l.From, until)) == 0
}

// holds reports whether no known byte at addr contradicts these bytes.
func (d *build) holds(addr uint64, want []byte, at func(uint64) (byte, bool)) bool {
	for k := range want {
		if b, ok := at(addr + uint64(k)); ok && b != want[k] {
			return false
		}
	}
	return true
}
