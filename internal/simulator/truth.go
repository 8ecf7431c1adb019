// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"github.com/textreplay/textreplay/internal/simulator/kernel"
)

// A change is one byte that a store changes. There are very many.
type change struct {
	store  uint32
	offset uint16
	value  byte
}

// A truePage has the history of each byte of a page.
type truePage struct {
	changes []change // by offset, then by time
	start   [kernel.PageSize + 1]uint32
	lives   []*kernel.Life
	memory  [kernel.PageSize]byte // while the history is made
}

// of returns the history of the byte at an offset. Before its first change it is 0.
func (p *truePage) of(offset int) []change { return p.changes[p.start[offset]:p.start[offset+1]] }

// sort orders the changes, which are in the order of time, by their offsets.
func (p *truePage) sort() {
	for i := range p.changes {
		p.start[p.changes[i].offset+1]++
	}
	for o := range kernel.PageSize {
		p.start[o+1] += p.start[o]
	}
	next := p.start
	sorted := make([]change, len(p.changes))
	for _, c := range p.changes {
		sorted[next[c.offset]] = c
		next[c.offset]++
	}
	p.changes = sorted
}

// A truth is the kernel's, arranged by pages.
type truth struct {
	clock *kernel.Clock
	from  uint64 // what was earlier is not looked at
	until uint64 // what was later is not looked at; 0: all is
	pages map[uint64]*truePage
	// times are those of all stores: each changes bytes at some true time of its interval.
	times []kernel.Interval
}

func newTruth(k *kernel.Kernel) *truth {
	t := &truth{clock: &k.Clock, pages: make(map[uint64]*truePage)}
	page := func(addr uint64) *truePage {
		n := addr / kernel.PageSize
		p := t.pages[n]
		if p == nil {
			p = new(truePage)
			t.pages[n] = p
		}
		return p
	}
	t.times = make([]kernel.Interval, len(k.Truth.Stores))
	for i := range k.Truth.Stores {
		s := &k.Truth.Stores[i]
		t.times[i].From, t.times[i].To = k.Clock.Tick(s.From, s.To)
		for j := 0; j < len(s.Data); {
			at := s.Addr + uint64(j)
			p := page(at)
			for o := int(at % kernel.PageSize); o < kernel.PageSize && j < len(s.Data); o, j = o+1, j+1 {
				if p.memory[o] != s.Data[j] {
					p.memory[o] = s.Data[j]
					p.changes = append(p.changes, change{uint32(i), uint16(o), s.Data[j]})
				}
			}
		}
	}
	for _, p := range t.pages {
		p.sort()
	}
	for _, l := range k.Truth.Lives {
		for a := l.Addr &^ (kernel.PageSize - 1); a < l.Addr+l.Len; a += kernel.PageSize {
			p := page(a)
			p.lives = append(p.lives, l)
		}
	}
	return t
}

// A span is a time of the recording's clock as true time.
type span struct {
	surely, maybe []kernel.Interval
}

func (t *truth) span(since, until uint64) span {
	return span{t.cut(t.clock.Surely(since, until)), t.cut(t.clock.Maybe(since, until))}
}

// cut leaves out what was earlier or later than is looked at.
func (t *truth) cut(times []kernel.Interval) (out []kernel.Interval) {
	if t.from == 0 && t.until == 0 {
		return times
	}
	for _, iv := range times {
		if iv.From = max(iv.From, t.from); t.until != 0 {
			iv.To = min(iv.To, t.until)
		}
		if iv.From < iv.To {
			out = append(out, iv)
		}
	}
	return out
}

// looksAt reports whether a true time is one of those that are looked at.
func (t *truth) looksAt(at uint64) bool { return t.from <= at && (t.until == 0 || at < t.until) }

// contradicts returns the true time at which a byte surely was something else than
// value during a span; ok is false if there is none.
func (t *truth) contradicts(addr uint64, value byte, s span) (at uint64, was byte, ok bool) {
	var history []change
	if p := t.pages[addr/kernel.PageSize]; p != nil {
		history = p.of(int(addr % kernel.PageSize))
	}
	for _, iv := range s.surely {
		var from uint64
		var now byte
		for i := range len(history) + 1 {
			end := ^uint64(0)
			if i < len(history) {
				end = t.times[history[i].store].From
			}
			if now != value && max(iv.From, from) < min(iv.To, end) {
				return max(iv.From, from), now, true
			}
			if end >= iv.To {
				break
			}
			from, now = t.times[history[i].store].To, history[i].value
		}
	}
	if len(s.surely) > 0 || len(s.maybe) == 0 {
		return 0, 0, false
	}
	// The span is shorter than the clocks' differences: it must have been so at some
	// time.
	var from uint64
	var now byte
	for i := range len(history) + 1 {
		end := ^uint64(0)
		if i < len(history) {
			end = t.times[history[i].store].To
		}
		for _, iv := range s.maybe {
			if now == value && max(iv.From, from) <= min(iv.To, end) {
				return 0, 0, false
			}
		}
		if i < len(history) {
			from, now = t.times[history[i].store].From, history[i].value
		}
	}
	return s.maybe[0].From, now, true
}

// dead returns a part of [addr, addr+n), within one page, that was not alive all the
// time of a span. A coarse clock shows one time for the end of one piece of code and the
// beginning of the next.
func (t *truth) dead(addr, n uint64, s span) (at uint64, ok bool) {
	if len(s.surely) == 0 {
		return 0, false
	}
	var lives []*kernel.Life
	if p := t.pages[addr/kernel.PageSize]; p != nil {
		lives = p.lives
	}
	for end := addr + n; addr < end; {
		next := end // up to where all code that is at addr reaches
		for _, iv := range s.surely {
			for at := iv.From; at < iv.To; {
				until := at
				for _, l := range lives {
					from, to := t.clock.Tick(l.From, min(l.To, iv.To))
					if l.Addr <= addr && addr < l.Addr+l.Len && from <= at && until < to {
						until, next = to, min(next, l.Addr+l.Len)
					}
				}
				if until == at {
					return addr, true
				}
				at = until
			}
		}
		addr = next
	}
	return 0, false
}
