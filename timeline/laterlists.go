// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
)

// A module that only a later list has was at its place when the list was made, at some moment of an interval. Its load
// names no address. So where other code is certain to have been there, the module came after that, or had gone before
// it, also if its load is recorded earlier:
//
//	lost                            ░░░░░░
//	load of m recorded     │
//	slot certain     ├──────────────┤
//	list that has m                           ├───┤
//	m                               ├──────────────────

// maxFitted is how many lifetimes are looked at in all to fit modules to other code.
const maxFitted = 1 << 22

// fitModules returns the modules with those of later lists at times when no other code is certain to be at their places.
// lives are the lifetimes without the modules of later lists.
func (d *build) fitModules(lives []*Lifetime) []Module {
	dynamic := slices.DeleteFunc(slices.Clone(lives), func(l *Lifetime) bool { return !l.dynamic() })
	out := make([]Module, 0, len(d.Builder.modules))
	var pages lifetimeIndex
	for _, m := range d.Builder.modules {
		hi := min(m.TextEnd, m.End)
		if !m.isFitted() || m.Addr >= hi || pages.looked > maxFitted {
			out = append(out, m)
			continue
		}
		near, ok := pages.around(dynamic, &Lifetime{Lo: m.Addr, Hi: hi})
		if !ok {
			out = append(out, m)
			continue
		}
		var other []Range // times when other code is there
		for _, l := range near {
			end := l.Hi
			if l.Kind == BPFImage {
				end = l.Lo + 1 // its length is a bound
			}
			if l.Lo < hi && m.Addr < end {
				other = append(other, d.liveSet.certain(l, nil)...)
			}
		}
		out = append(out, d.fit(&m, other)...)
	}
	return out
}

// isFitted reports whether other code may show when the module was there.
func (m *Module) isFitted() bool { return m.Later && len(m.Listed) > 0 }

// needsFitting reports whether a module of a later list may have the addresses of dynamic code.
func (d *build) needsFitting() bool {
	var places []Range
	for i := range d.Builder.modules {
		if m := &d.Builder.modules[i]; m.isFitted() {
			places = append(places, Range{m.Addr, min(m.TextEnd, m.End)})
		}
	}
	places = JoinRanges(places)
	return len(places) > 0 && slices.ContainsFunc(d.symbols, func(e SymbolEvent) bool {
		return wanted(places, e.Addr, Later(e.Addr, uint64(e.Len)))
	})
}

// fit returns the modules that the lists of m show if other code is at its place at these times: for each time between
// these in which a list must have been made, the module that was there then. It returns m alone if it cannot have been
// elsewhere before or afterwards, since all loads and unloads are recorded.
func (d *build) fit(m *Module, other []Range) []Module {
	end := cmp.Or(m.Freed, MaxTime)
	free := freeTimes(other, Interval{m.Loaded, end}, d.first)
	seen := make([][]Interval, len(free)) // the lists that must have been made then
	for _, v := range slices.Concat(m.Listed, m.again) {
		at, times := 0, 0
		for k, f := range free {
			if v.From < f.To && f.From < v.To {
				at = k
				times++
			}
		}
		switch times {
		case 0:
			return []Module{*m}
		case 1:
			seen[at] = append(seen[at], v)
		}
	}
	var out []Module
	for k, f := range free {
		if len(seen[k]) == 0 {
			continue
		}
		x, lost := *m, d.liveSet.later
		x.Listed, x.again = seen[k][:1], seen[k][1:]
		if f.From > m.Loaded {
			if len(lost.between(f.From, x.Listed[0].To)) == 0 {
				return []Module{*m}
			}
			x.Loaded = f.From
		}
		if f.To < end {
			if len(lost.between(max(f.From, seen[k][len(seen[k])-1].From), f.To)) == 0 {
				return []Module{*m}
			}
			x.Freed = f.To
		}
		out = append(out, x)
	}
	return out
}

// freeTimes returns the parts of v in which no other code is there. other are times in which it is. What was there
// before the recording, which begins at first, may have come after a list that was made before.
func freeTimes(other []Range, v Interval, first uint64) (out []Interval) {
	for i := range other {
		other[i].Lo = max(other[i].Lo, first)
	}
	other = slices.DeleteFunc(other, func(r Range) bool { return r.Hi <= max(v.From, first) || v.To <= r.Lo })
	for _, r := range JoinRanges(other) {
		if v.From < r.Lo {
			out = append(out, Interval{v.From, r.Lo})
		}
		v.From = Later(r.Hi, 1) // behind the death of that time
	}
	if v.From < v.To {
		out = append(out, v)
	}
	return out
}

// goneBefore reports whether a module of a later list had gone by the time of the first record.
func (m *Module) goneBefore(first uint64) bool {
	return m.Later && m.Freed != 0 && m.Freed <= first
}
