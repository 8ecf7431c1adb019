// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"sort"
)

// How neighbours among the pokes of a place fit: each should find what the one before it left (rule
// old-bytes). If it does not, a change between them was not recorded, or their times are in the
// wrong order (rule clocks).

// A link is how two successive pokes of a place fit together.
type link uint8

const (
	linkFits   link = iota // they fit, or nothing shows that they do not
	linkLost               // they do not, but a change between may have gone unrecorded
	linkBroken             // they do not, and nothing is missing
)

// follows reports whether y's old bytes are x's new ones, as far as both go.
func (d *build) follows(x, y *poke) bool {
	p, q := &d.edits[x.edit], &d.edits[y.edit]
	n := min(p.nlen, q.olen)
	return n == 0 || p.new == q.old || bytes.Equal(d.arena[p.new:][:n], d.arena[q.old:][:n])
}

// loadTime is how long before its birth a BPF program may be poked, in nanoseconds: the
// kernel may have other programs of the same object to compile between the two.
const loadTime = 1e9

// onlyPoked reports whether nothing but pokes can have written [lo, hi) in [from, to]:
// it is kernel text, or one lifetime has it all the time. The kernel writes code that
// comes to life with no record before its birth. It pokes the tail calls of a BPF program
// when that is written, a moment before the birth.
func (d *build) onlyPoked(lo, hi, from, to uint64) bool {
	if d.textLo <= lo && hi <= d.textHi {
		return true
	}
	for l := range d.lifetimes.meanwhile(lo, hi, Later(from, loadTime), to) { // a moment before, or since
		if l.From > from && !d.justBefore(l, lo, hi, from) {
			continue
		}
		switch l.Kind {
		case OutOfLine, BPFProgram:
			return true
		case ModuleText:
			return len(d.gaps[gapsOfModule].between(from, to)) == 0
		}
	}
	return false
}

// justBefore reports whether a poke of [lo, hi) at time t, not more than loadTime before the birth
// of l, may be of l: it is a BPF program, and nothing else was there since.
func (d *build) justBefore(l *Lifetime, lo, hi, t uint64) bool {
	if l.Kind != BPFProgram {
		return false
	}
	for _, lives := range [...]*livesByPlace{&d.lifetimes, &d.brief} {
		for o := range lives.meanwhile(lo, hi, l.From, t-min(t, 1)) { // a change at its very end may be of it
			if o != l {
				return false
			}
		}
	}
	return true
}

// unexplained says that pokes a and b of a place do not fit together as neighbours:
// whether a change between may have gone unrecorded.
func (d *build) unexplained(a, b *poke) link {
	t, u := min(a.time, b.time), max(a.time, b.time)
	x := &d.edits[a.edit]
	addr := d.sites[x.site].addr
	if len(d.gaps[gapsOfText].between(t, u)) > 0 || !d.onlyPoked(addr, addr+uint64(max(x.olen, x.nlen)), t, u) {
		return linkLost
	}
	return linkBroken
}

// farthest is how many pokes of a place are looked at for what one found or left.
const farthest = 16

// found says how the first n bytes that p found fit what the pokes list[:i] left. A
// place's pokes have several lengths where a kprobe is optimised:
//
//	list[0]   ├─────────┤
//	list[1]   ├─┤
//	p         ├─────────┤   found the first byte of list[1], the others of list[0]
func (d *build) found(list []poke, i int, p *poke, n int) link {
	old := d.oldOf(p)[:n]
	if i == 0 {
		if b := d.copiedText(p, n); b != nil && !bytes.Equal(b, old) && len(d.gaps[gapsOfText].between(d.snapshot.From, p.time)) == 0 {
			return linkBroken
		}
	}
	for done, j := 0, i-1; j >= max(0, i-farthest) && done < n; j-- {
		new := d.newOf(&list[j])
		if len(new) == 0 {
			break // it was gone
		}
		if m := min(len(new), n); m > done {
			if !bytes.Equal(new[done:m], old[done:m]) {
				return d.unexplained(&list[j], p)
			}
			done = m
		}
	}
	return linkFits
}

// left says how the first n bytes that p left fit what the pokes list[i:] found.
func (d *build) left(list []poke, i int, p *poke, n int) link {
	new := d.newOf(p)[:n]
	for done, j := 0, i; j < min(len(list), i+farthest) && done < n; j++ {
		old := d.oldOf(&list[j])
		if len(old) == 0 {
			break
		}
		if m := min(len(old), n); m > done {
			if !bytes.Equal(old[done:m], new[done:m]) {
				return d.unexplained(p, &list[j])
			}
			done = m
		}
	}
	return linkFits
}

// copiedText returns what the snapshot, if it was certainly taken before p, has at p's place in
// kernel text: n bytes, or nil. It does not ask apart, as textOrders does: what it returns decides which
// records show that clocks differ.
func (d *build) copiedText(p *poke, n int) []byte {
	addr := d.sites[d.edits[p.edit].site].addr
	segs, taken := d.snapshot.Segments, d.snapshot.To
	if d.differ { // another CPU's clock says by when it was taken
		taken = Later(taken, d.apartUnseen())
	}
	if p.time <= taken || addr < d.textLo || addr+uint64(n) > d.textHi {
		return nil
	}
	i := sort.Search(len(segs), func(i int) bool { return segs[i].End() > addr })
	if i == len(segs) || segs[i].Addr > addr || addr+uint64(n) > segs[i].End() {
		return nil
	}
	return segs[i].Data[addr-segs[i].Addr:][:n]
}

func (d *build) oldOf(p *poke) []byte { e := &d.edits[p.edit]; return d.arena[e.old:][:e.olen] }

func (d *build) newOf(p *poke) []byte { e := &d.edits[p.edit]; return d.arena[e.new:][:e.nlen] }

// inPlace returns how many bytes two pokes both replace, 0 if one of them makes code
// or retires it.
func (d *build) inPlace(p, q *poke) int {
	x, y := &d.edits[p.edit], &d.edits[q.edit]
	if x.olen != x.nlen || y.olen != y.nlen {
		return 0
	}
	return int(min(x.olen, y.olen))
}
