// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A model answers for one byte at one time by looking at every fact, with no
// index and no sharing: the rules written down once more, the slow way.
type model struct {
	lo, hi   uint64 // text
	fill     []byte // snapshot of text
	from, to uint64 // copy interval
	end      uint64 // horizon
	losses   []gap
	pokes    []Poke
	page     SymbolEvent // an out-of-line page
	died     uint64      // its death, 0: none
}

// A reply is what can be said of a byte.
type reply struct {
	standing Standing
	value    byte
	other    byte // of conflicting ones: what the later fact says
}

// answer gives the reply for the byte at a, time t.
func (m *model) answer(a, t uint64) reply {
	var hits []Poke // that cover the byte, in order of time
	for _, p := range m.pokes {
		if a >= p.Addr && a < p.Addr+uint64(max(len(p.Old), len(p.New))) {
			hits = append(hits, p)
		}
	}
	slices.SortStableFunc(hits, func(x, y Poke) int { return int(int64(x.Time) - int64(y.Time)) })
	hits = slices.CompactFunc(hits, func(x, y Poke) bool {
		return x.Addr == y.Addr && x.Time == y.Time && bytes.Equal(x.Old, y.Old) && bytes.Equal(x.New, y.New)
	})
	if a >= m.lo && a < m.hi {
		return m.alive(a, t, 0, MaxTime, true, hits)
	}
	born, died := m.page.Time, m.died
	if died == 0 {
		died = MaxTime
	}
	if a < m.page.Addr || a >= m.page.Addr+uint64(m.page.Len) {
		born, died = MaxTime, MaxTime
	}
	var inside, after []Poke
	for _, p := range hits {
		switch {
		case p.Time >= died || p.Time < born:
			after = append(after, p)
		default:
			inside = append(inside, p)
		}
	}
	if t >= born && t < died {
		return m.alive(a, t, born, died, false, inside)
	}
	// Nothing is alive: the last poke of the time without life, or the last
	// bytes of the life before it.
	for i := len(after) - 1; i >= 0; i-- {
		p := after[i]
		if p.Time > t || t >= died && p.Time < born {
			continue
		}
		if b, ok := at(p.New, p.Addr, a); ok {
			return reply{Retired, b, 0}
		}
		if b, ok := at(p.Old, p.Addr, a); ok {
			return reply{Retired, b, 0}
		}
	}
	if t >= died {
		for i := len(inside) - 1; i >= 0; i-- {
			if b, ok := at(inside[i].New, inside[i].Addr, a); ok {
				return reply{Retired, b, 0}
			}
			if b, ok := at(inside[i].Old, inside[i].Addr, a); ok {
				return reply{Retired, b, 0}
			}
		}
		return reply{standing: Unknown}
	}
	return reply{standing: Unmapped}
}

// at returns the byte for address a of data that stands at addr.
func at(data []byte, addr, a uint64) (byte, bool) {
	if k := a - addr; k < uint64(len(data)) {
		return data[k], true
	}
	return 0, false
}

// hidden returns the first and the last interval that shares time with
// (t1, t2) and in which a change may have gone unrecorded.
func (m *model) hidden(t1, t2 uint64) (start, end uint64, any bool) {
	start = MaxTime
	for _, g := range append([]gap{{from: 0, to: m.from}, {from: m.end + 1, to: MaxTime}}, m.losses...) {
		if g.from < t2 && g.to > t1 && g.from < g.to {
			start, end, any = min(start, g.from), max(end, g.to), true
		}
	}
	return start, end, any
}

// alive gives the reply for a byte of something that lives from e0 to e1.
func (m *model) alive(a, t, e0, e1 uint64, copied bool, hits []Poke) reply {
	last, have := byte(0), false
	dead, torn, weak := false, false, false
	since, proven := e0, e0
	if copied {
		last, have = m.fill[a-m.lo], true
		var during []Poke
		for _, p := range hits {
			if p.Time <= m.to {
				during = append(during, p)
			}
		}
		if len(during) > 0 {
			if !m.plausible(a, last, during) {
				torn = true
			} else if _, ok := at(during[0].Old, during[0].Addr, a); ok {
				have = false
			}
		}
		if have {
			if t < m.from && (len(hits) == 0 || t < hits[0].Time) {
				return reply{Unconfirmed, last, 0}
			}
			since, proven = m.from, m.from
			if _, _, lost := m.hidden(m.from, m.to); lost {
				weak, proven = true, m.to
			}
		}
	}
	i := 0
	for ; i < len(hits) && hits[i].Time <= t; i++ {
		p := hits[i]
		now, hasNew := at(p.New, p.Addr, a)
		was, hasOld := at(p.Old, p.Addr, a)
		switch {
		case hasNew && len(p.New) > 0:
			last, have = now, true
			if len(p.Old) == 0 {
				dead = false
			}
		default:
			if hasOld {
				last, have = was, true
			}
			dead = true
		}
		since, proven, torn, weak = p.Time, p.Time, false, false
	}
	if dead {
		return reply{Retired, last, 0}
	}
	until, old, checks := e1, byte(0), false
	if i < len(hits) {
		until = hits[i].Time
		old, checks = at(hits[i].Old, hits[i].Addr, a)
	}
	start, end, lost := m.hidden(since, until)
	switch {
	case !checks && !have:
		return reply{standing: Unknown}
	case !checks:
		if weak || lost && t >= start {
			return reply{Unconfirmed, last, 0}
		}
		return reply{Known, last, 0}
	case !have:
		if lost && t < end {
			return reply{Unconfirmed, old, 0}
		}
		return reply{Known, old, 0}
	case torn || last != old:
		if !lost || t < end {
			return reply{Conflicting, last, old}
		}
		return reply{Known, old, 0}
	}
	if !weak && (!lost || t < start) || t >= max(proven, end) {
		return reply{Known, last, 0}
	}
	return reply{Unconfirmed, last, 0}
}

// plausible reports whether the byte can have been read while the pokes went on.
func (m *model) plausible(a uint64, got byte, pokes []Poke) bool {
	for _, p := range pokes {
		was, hasOld := at(p.Old, p.Addr, a)
		now, hasNew := at(p.New, p.Addr, a)
		if hasOld && got == was || hasNew && got == now || hasOld && hasNew && a == p.Addr && got == 0xcc {
			return true
		}
	}
	return false
}

// genModel draws a small, dense history: few places, few times, so that facts
// overlap, tie and contradict. Pokes are of single bytes, of which the answer
// does not depend on neighbours.
func genModel(t *rapid.T) *model {
	m := &model{lo: 0x1000, hi: 0x1008, from: 10, to: 16, end: 90}
	value := rapid.SampledFrom([]byte{0x90, 0xcc, 0xe8})
	for range m.hi - m.lo {
		m.fill = append(m.fill, value.Draw(t, "snapshot"))
	}
	for range rapid.IntRange(0, 3).Draw(t, "losses") {
		from := rapid.Uint64Range(10, 90).Draw(t, "from")
		m.losses = append(m.losses, gap{from, from + rapid.Uint64Range(1, 8).Draw(t, "length"), AfterLoss})
	}
	m.page = SymbolEvent{Time: rapid.Uint64Range(20, 40).Draw(t, "birth"), Addr: 0x2000, Len: 4, Kind: SymbolOutOfLine, Name: "page"}
	if rapid.Bool().Draw(t, "dies") {
		m.died = m.page.Time + rapid.Uint64Range(1, 40).Draw(t, "life")
	}
	some := func(name string) []byte {
		if rapid.IntRange(0, 5).Draw(t, name+" empty") == 0 {
			return nil
		}
		return []byte{value.Draw(t, name)}
	}
	for range rapid.IntRange(0, 12).Draw(t, "pokes") {
		base := rapid.SampledFrom([]uint64{0x1000, 0x2000}).Draw(t, "base")
		p := Poke{
			Addr: base + rapid.Uint64Range(0, 3).Draw(t, "offset"),
			Time: rapid.Uint64Range(10, 90).Draw(t, "time"),
			Old:  some("old"), New: some("new"),
		}
		if len(p.Old)+len(p.New) > 0 {
			m.pokes = append(m.pokes, p)
		}
	}
	return m
}

func (m *model) image(t interface{ Fatal(...any) }) *Image {
	b := NewBuilder()
	b.Extent(m.from, m.end)
	b.Text(m.lo, m.hi)
	b.SetSnapshot(Snapshot{From: m.from, To: m.to, Segments: []Segment{{m.lo, m.fill}}})
	for _, g := range m.losses {
		b.Gap(GapPokes, g.from, g.to, g.reason)
	}
	b.Symbol(m.page)
	if m.died != 0 {
		e := m.page
		e.Time, e.Unregister = m.died, true
		b.Symbol(e)
	}
	for i := range m.pokes {
		b.Poke(&m.pokes[i])
	}
	im, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func replyOf(im *Image, a, t uint64) reply {
	for s := range im.At(t).Spans(a, 1) {
		switch {
		case s.Standing == Conflicting:
			return reply{s.Standing, s.Candidates[0].Bytes[0], s.Candidates[1].Bytes[0]}
		case s.Standing.HasBytes():
			return reply{s.Standing, s.Bytes[0], 0}
		default:
			return reply{standing: s.Standing}
		}
	}
	panic("no span")
}

// TestModel holds images against the model: same standing, same bytes, for
// every byte at every time of random histories; and every validity holds.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genModel(t)
		im := m.image(t)
		for _, a := range []uint64{0x1000, 0x1001, 0x1002, 0x1003, 0x1004, 0x2000, 0x2001, 0x2002, 0x2003, 0x3000} {
			for q := uint64(0); q <= 100; q++ {
				want, got := m.answer(a, q), replyOf(im, a, q)
				if want != got {
					t.Fatalf("byte %#x at %d: want %v, got %v\n%s\n%+v", a, q, want, got, history(im, a, 1), *m)
				}
				var buf [1]byte
				b := im.At(q).Read(a, buf[:])
				if q < b.Since || q >= b.Until {
					t.Fatalf("byte %#x at %d: validity [%d, %d) is not of that time", a, q, b.Since, b.Until)
				}
				for _, other := range []uint64{b.Since, b.Until - 1} {
					if o := m.answer(a, other); o != want {
						t.Fatalf("byte %#x is %v at %d, but %v at %d inside its validity [%d, %d)", a, want, q, o, other, b.Since, b.Until)
					}
				}
			}
		}
	})
}

func (r reply) String() string {
	return fmt.Sprintf("%v %02x %02x", r.standing, r.value, r.other)
}
