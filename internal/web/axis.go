// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/textreplay/textreplay/timeline"
)

// An axis puts the addresses that the image has facts about one after the other, without
// the terabytes between them. A position is how many bytes are below an address.
//
//	addresses   ├ kernel text ┤ ............ ├ module ┤ .... ├ BPF ┤
//	positions   0             n1                     n2            n3 = height
type axis struct {
	areas  []area // by address
	height uint64 // at least 1
}

// An area is a range of addresses without a large hole.
type area struct {
	lo, hi uint64
	pos    uint64 // of lo
	kind   string // "kernel", "module", "bpf", "out-of-line", "other"
	name   string
}

const (
	pageSize = 1 << 12
	// mostAreas bounds what is sent to the map: with more, larger holes are part of an area.
	mostAreas = 256
)

func newAxis(im *timeline.Image, sites []site) *axis {
	textLo, textHi := im.Text()
	var ranges []timeline.Range
	add := func(lo, hi uint64) {
		if lo >= hi || lo < textHi && textLo < hi {
			return // kernel text is one area
		}
		hi = max(hi, (hi+pageSize-1)&^(pageSize-1)) // unless it is at the end of the address space
		ranges = append(ranges, timeline.Range{Lo: lo &^ (pageSize - 1), Hi: hi})
	}
	for lo, hi := range im.At(im.First()).Ranges() {
		add(lo, hi)
	}
	for i := range sites {
		// Places whose facts the image gave up.
		if s := &sites[i]; len(ranges) == 0 || !slices.ContainsFunc(ranges[len(ranges)-1:], func(r timeline.Range) bool { return r.Lo <= s.addr && s.addr < r.Hi }) {
			add(s.addr, s.addr+uint64(max(s.size, 1)))
		}
	}
	if textLo < textHi {
		ranges = append(ranges, timeline.Range{Lo: textLo, Hi: textHi})
	}
	x := &axis{}
	for hole := uint64(1 << 16); ; hole *= 2 {
		x.areas = x.areas[:0]
		for _, r := range timeline.JoinRanges(slices.Clone(ranges)) {
			if n := len(x.areas); n > 0 && r.Lo-x.areas[n-1].hi < hole && x.areas[n-1].lo != textLo && r.Lo != textLo {
				x.areas[n-1].hi = r.Hi
				continue
			}
			x.areas = append(x.areas, area{lo: r.Lo, hi: r.Hi})
		}
		if len(x.areas) <= mostAreas || hole >= 1<<63 {
			break
		}
	}
	for i := range x.areas {
		a := &x.areas[i]
		a.pos = x.height
		x.height += a.hi - a.lo
		a.kind, a.name = describeArea(im, a, textLo)
	}
	x.height = max(x.height, 1)
	return x
}

// describeArea names an area after the code that was in it.
func describeArea(im *timeline.Image, a *area, textLo uint64) (kind, name string) {
	if a.lo == textLo {
		return "kernel", "kernel text"
	}
	var modules []string
	var has [5]bool
	for l := range im.Lifetimes {
		if l.Hi <= a.lo || l.Lo >= a.hi {
			continue
		}
		switch {
		case l.IsModule():
			if l.Name != "" && !slices.Contains(modules, l.Name) && len(modules) < 4 {
				modules = append(modules, l.Name)
			}
		case l.Kind == timeline.BPFProgram || l.Kind == timeline.BPFImage:
			has[0] = true
		case l.Kind == timeline.OutOfLine:
			has[1] = true
		}
	}
	switch {
	case len(modules) == 4:
		return "module", strings.Join(modules[:3], ", ") + ", ..."
	case len(modules) > 0:
		return "module", strings.Join(modules, ", ")
	case has[0] && has[1]:
		return "bpf", "BPF, out of line"
	case has[0]:
		return "bpf", "BPF"
	case has[1]:
		return "out-of-line", "out of line"
	}
	return "other", "other"
}

// pos returns the position of an address. If the axis does not have the address, it is that of
// the next one; the height if there is none.
func (x *axis) pos(addr uint64) uint64 {
	i := sort.Search(len(x.areas), func(i int) bool { return x.areas[i].hi > addr })
	if i == len(x.areas) {
		return x.height
	}
	a := &x.areas[i]
	return a.pos + max(addr, a.lo) - a.lo
}

// addr returns the address at a position; the last address of the axis if pos is too large.
func (x *axis) addr(pos uint64) uint64 {
	if len(x.areas) == 0 {
		return 0
	}
	i := sort.Search(len(x.areas), func(i int) bool { return x.areas[i].pos > pos })
	a := &x.areas[max(i, 1)-1]
	return a.lo + min(pos-a.pos, a.hi-a.lo-1)
}

// A lifespan is the lifetime of a module, a BPF program or out-of-line code.
type lifespan struct {
	Name, Kind string
	Lo, Hi     uint64
	From, To   uint64 // in ns; 0 and timeline.MaxTime: not bounded
	Program    uint32 // id of a BPF program, 0 if unknown
}

// lifespans returns the lifetimes of dynamic code and of modules' text, by time.
func lifespans(im *timeline.Image) []lifespan {
	const most = 1 << 18
	var out []lifespan
	for l := range im.Lifetimes {
		kind := ""
		switch l.Kind {
		case timeline.ModuleText:
			kind = "module"
		case timeline.BPFProgram:
			kind = "BPF program"
		case timeline.BPFImage:
			kind = "BPF trampoline"
		case timeline.OutOfLine:
			kind = "out of line"
		default:
			continue
		}
		if len(out) == most {
			break
		}
		out = append(out, lifespan{l.Name, kind, l.Lo, l.Hi, l.From, l.To, l.Program})
	}
	slices.SortStableFunc(out, func(a, b lifespan) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Lo, b.Lo))
	})
	return out
}
