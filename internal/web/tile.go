// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"encoding/base64"
	"math"
	"math/bits"
	"sort"
	"sync"

	"github.com/textreplay/textreplay/timeline"
)

// The map is a plane: time from left to right, positions of the axis from top to bottom.
// On level (zx, zy) it is cut into 2^zx times 2^zy tiles, each of tileCells times
// tileCells cells. A tile has the number of changes in each cell, and, if there are few,
// the changes themselves.
const (
	tileCells = 128
	// A tile with more changes than this has their numbers in Cells, else a mark for each.
	mostMarks = 400
	// maxZoom bounds the levels, so that the arithmetic of tiles fits in 64 bits. 2^40 tiles are
	// 1 ns wide each in a recording of 18 minutes.
	maxZoom = 40
)

// A plane is what is needed to draw tiles. It is safe for concurrent use.
type plane struct {
	t        *trail
	x        *axis
	from, to uint64   // the time that the map shows, in ns
	pos      []uint64 // of each site on the axis, ascending
	windows  *timeline.Windows

	mu    sync.Mutex
	tiles map[tileKey]*tile
	order []tileKey // of tiles, the oldest first
}

// mostTiles is how many tiles a plane keeps.
const mostTiles = 512

type tileKey struct {
	zx, zy uint8
	ix, iy uint64
}

// A tile is a part of the map as it is sent to the browser.
type tile struct {
	N uint32 `json:"n"` // how many changes
	// Cells is base64 of the cells with changes, row by row from the top. For each: how many
	// cells without changes are before it (7 bits a byte, the lowest first; bit 7 says that
	// another byte follows), the class of the changes, and the level of their number.
	Cells string `json:"cells,omitempty"`
	Marks []mark `json:"marks,omitempty"`
}

// A mark is one change. Times and positions are decimal numbers in text, because
// JavaScript's numbers have 53 bits.
type mark struct {
	Time  string `json:"t"`
	Pos   uint64 `json:"p"`
	Size  uint32 `json:"n"`
	Class uint8  `json:"c"`
	Site  string `json:"a"`
	// From and To are the estimate of the time in which a CPU may meet a trap; empty if there is
	// none.
	From string `json:"f,omitempty"`
	To   string `json:"u,omitempty"`
}

func newPlane(t *trail, x *axis, from, to uint64) *plane {
	p := &plane{t: t, x: x, from: from, to: max(to, from+1), tiles: make(map[tileKey]*tile)}
	p.pos = make([]uint64, len(t.sites))
	for i := range t.sites {
		p.pos[i] = x.pos(t.sites[i].addr)
	}
	return p
}

// valid reports whether there is such a tile.
func (k tileKey) valid() bool {
	return k.zx <= maxZoom && k.zy <= maxZoom && k.ix < 1<<k.zx && k.iy < 1<<k.zy
}

// part returns i/2^z of n, rounded down.
func part(n, i uint64, z uint8) uint64 {
	hi, lo := bits.Mul64(n, i)
	if z == 0 {
		return lo
	}
	return hi<<(64-z) | lo>>z
}

// tile returns a tile, from the cache if it is there.
func (p *plane) tile(k tileKey) *tile {
	p.mu.Lock()
	t := p.tiles[k]
	p.mu.Unlock()
	if t != nil {
		return t
	}
	t = p.draw(k)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tiles[k] == nil {
		if len(p.order) == mostTiles {
			delete(p.tiles, p.order[0])
			p.order = p.order[1:]
		}
		p.tiles[k] = t
		p.order = append(p.order, k)
	}
	return t
}

// draw makes a tile. It visits each change of the tile. Of the others, it visits at most those at
// the same times or those of the same sites, whichever are cheaper.
func (p *plane) draw(k tileKey) *tile {
	span := p.to - p.from
	t0, t1 := p.from+part(span, k.ix, k.zx), p.from+part(span, k.ix+1, k.zx)
	y0, y1 := part(p.x.height, k.iy, k.zy), part(p.x.height, k.iy+1, k.zy)
	if k.ix+1 == 1<<k.zx {
		t1 = timeline.MaxTime // the newest change too
	}
	t := p.t
	s0 := sort.Search(len(p.pos), func(i int) bool { return p.pos[i] >= y0 })
	s1 := s0 + sort.Search(len(p.pos)-s0, func(i int) bool { return p.pos[s0+i] >= y1 })
	i0, i1 := t.between(t0, t1)
	if s0 == s1 || i0 == i1 {
		return &tile{}
	}
	row := make([]uint16, s1-s0)
	for s := range row {
		row[s] = uint16(min((p.pos[s0+s]-y0)*tileCells/(y1-y0), tileCells-1))
	}
	// The first time after each column.
	var edge [tileCells]uint64
	for c := range edge {
		edge[c] = p.from + part(span, k.ix*tileCells+uint64(c)+1, k.zx+7)
	}
	edge[tileCells-1] = timeline.MaxTime

	var n [tileCells * tileCells]uint32
	var class [tileCells * tileCells]uint8
	total := uint32(0)
	var listed []uint32
	visit := func(i int, cell int) {
		n[cell]++
		if c := p.t.class[i]; c > class[cell] {
			class[cell] = c
		}
		if total++; total <= mostMarks {
			listed = append(listed, uint32(i))
		}
	}
	// The changes of a site are anywhere in the columns. A look at one of them takes as long
	// as at many in a row.
	const inRow = 16
	if int(t.first[s1]-t.first[s0]) < (i1-i0)/inRow {
		for s := s0; s < s1; s++ {
			c := 0
			for _, i := range t.ofSite(s, t0, t1) {
				for t.time[i] >= edge[c] && c < tileCells-1 {
					c++
				}
				visit(int(i), int(row[s-s0])*tileCells+c)
			}
		}
	} else {
		// There can be millions: column by column, without a look at each time.
		for c, lo := 0, i0; c < tileCells; c++ {
			hi := i1
			if c < tileCells-1 {
				hi = lo + sort.Search(i1-lo, func(i int) bool { return t.time[lo+i] >= edge[c] })
			}
			classes := t.class[lo:hi]
			for i, s := range t.site[lo:hi] {
				s := int(s) - s0
				if uint(s) >= uint(len(row)) {
					continue
				}
				cell := int(row[s])*tileCells + c
				n[cell]++
				class[cell] = max(class[cell], classes[i])
				total++
			}
			lo = hi
		}
		for i := i0; i < i1 && total <= mostMarks; i++ {
			if s := int(t.site[i]); s0 <= s && s < s1 {
				listed = append(listed, uint32(i))
			}
		}
	}
	out := &tile{N: total}
	if total <= mostMarks {
		out.Marks = p.marks(listed)
		return out
	}
	out.Cells = base64.StdEncoding.EncodeToString(encodeCells(&n, &class))
	return out
}

// encodeCells encodes the cells that have changes as tile.Cells has them, before base64.
func encodeCells(n *[tileCells * tileCells]uint32, class *[tileCells * tileCells]uint8) (cells []byte) {
	skipped := 0
	for i := range n {
		if n[i] == 0 {
			skipped++
			continue
		}
		for ; skipped >= 128; skipped >>= 7 {
			cells = append(cells, byte(skipped)|128)
		}
		cells = append(cells, byte(skipped), class[i], level(n[i]))
		skipped = 0
	}
	return cells
}

// level returns about 1 + 16*log2(n), at most 255: the logarithm is linear between powers of 2.
// n is at least 1.
func level(n uint32) byte {
	e := bits.Len32(n) - 1
	frac := 0
	if e > 0 {
		frac = int(uint64(n-1<<e) << 4 >> e)
	}
	return byte(min(16*e+frac+1, 255))
}

func (p *plane) marks(listed []uint32) []mark {
	out := make([]mark, 0, len(listed))
	for _, i := range listed {
		s := &p.t.sites[p.t.site[i]]
		m := mark{Time: dec(p.t.time[i]), Pos: p.pos[p.t.site[i]], Size: s.size, Class: p.t.class[i], Site: hexAddr(s.addr)}
		if w, ok := p.windowOf(int(i)); ok {
			m.From, m.To = dec(w.From), dec(w.To)
		}
		out = append(out, m)
	}
	return out
}

// windowOf returns the estimate of the window of the i-th poke, if it has one.
func (p *plane) windowOf(i int) (timeline.Interval, bool) {
	if p.windows == nil || !timeline.PokeKind(p.t.kind[i]).InPlace() {
		return timeline.Interval{}, false
	}
	addr, t := p.t.sites[p.t.site[i]].addr, p.t.time[i]
	for _, w := range p.windows.At(addr, 1, t) {
		if w.Switch == t && w.Addr == addr {
			return w.Estimate, true
		}
	}
	return timeline.Interval{}, false
}

// nearest returns the change in [t0, t1) and [y0, y1) that is nearest to a point, as an
// index of the columns. Distances count in parts of the rectangle.
func (p *plane) nearest(t, y, t0, t1, y0, y1 uint64) (int, bool) {
	s0, _ := p.t.sitesAround(p.x.addr(y0), math.MaxUint64)
	s1 := s0 + sort.Search(len(p.pos)-s0, func(i int) bool { return p.pos[s0+i] >= y1 })
	away := func(a, b, n uint64) float64 { return float64(max(a, b)-min(a, b)) / float64(max(n, 1)) }
	best, at := 4.0, -1
	try := func(i int) {
		s := p.t.site[i]
		if p.pos[s]+uint64(p.t.sites[s].size) <= y0 {
			return // another one reaches over it
		}
		if d := away(p.t.time[i], t, t1-t0) + away(p.pos[s], y, y1-y0); d < best {
			best, at = d, i
		}
	}
	i0, i1 := p.t.between(t0, t1)
	if int(p.t.first[s1]-p.t.first[s0]) < i1-i0 {
		for s := s0; s < s1; s++ {
			for _, i := range p.t.ofSite(s, t0, t1) {
				try(int(i))
			}
		}
	} else {
		for i := i0; i < i1; i++ {
			if s := int(p.t.site[i]); s0 <= s && s < s1 {
				try(i)
			}
		}
	}
	return at, at >= 0
}
