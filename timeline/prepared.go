// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// Pokes are prepared changes of text, in the order of arrival. A reader that uses several
// CPUs fills one Pokes in each goroutine, and gives them to [Builder.Add] one after the
// other. A Pokes is not safe for concurrent use.
type Pokes struct {
	b    *batch
	skip bool // no image is asked for, see Builder.Only
}

// NewPokes returns an empty Pokes for this builder, after [Builder.Only].
func (b *Builder) NewPokes() *Pokes {
	return &Pokes{newBatch(), b.skips()}
}

// Len returns how many there are.
func (p *Pokes) Len() int { return len(p.b.pokes) }

// Reset removes all.
func (p *Pokes) Reset() { p.b.reset() }

// Put appends a change as [Builder.Poke] does: it copies old and new, and ignores
// what Poke ignores. time is in nanoseconds of the recording's clock; a negative cpu means
// that it is not known.
func (p *Pokes) Put(addr, time uint64, old, new []byte, cpu int) {
	if isImpossible(addr, old, new) || p.skip {
		return
	}
	p.b.put(addr, time, old, new, cpu, 0)
}

// ShortPoke is a change whose bytes, 1 to 8 old ones and 1 to 8 new ones, are little-endian numbers. It is
// the type of perfdata.ShortPoke, so that a reader can decode into a [Pokes.Room].
type ShortPoke = struct{ Addr, Time, Old, New uint64 }

// Room returns room for n changes behind the ones that p has. What is written there is not a part of p
// before [Pokes.PutShort] appends it.
func (p *Pokes) Room(n int) []ShortPoke {
	p.b.pokes = slices.Grow(p.b.pokes, n)
	return p.b.pokes[len(p.b.pokes):][:n]
}

// PutShort is [Pokes.Put] for the first n changes in the last Room. All have oldLen old bytes and newLen new
// ones, and are of the same CPU.
func (p *Pokes) PutShort(n, oldLen, newLen, cpu int) {
	if p.skip {
		return
	}
	x := p.b
	if x.pokes = x.pokes[:len(x.pokes)+n]; n > 0 {
		x.group(traits{uint16(oldLen), uint16(newLen), cpuNumber(cpu), 0})
	}
}

// Add adds the pokes [from, to) of p, as if they were given to [Builder.Poke] one after
// the other. It may take p's memory: p can then only be Reset.
func (b *Builder) Add(p *Pokes, from, to int) {
	if n := to - from; n == len(p.b.pokes) && n <= 2*batchSize && (n > batchSize/2 || len(b.batch().pokes) == 0) {
		if len(b.batch().pokes) > 0 {
			b.enqueue() // or all that follow would be copied, too
		}
		b.queue.current, p.b = p.b, b.batch() // no copy
		if to > batchSize/2 || len(b.queue.current.bytes) >= batchBytes {
			b.enqueue()
		}
		return
	}
	for g := range p.b.groupsOf(from, to) {
		for g.from < g.to {
			x := b.batch()
			n := min(g.to-g.from, batchSize-len(x.pokes))
			if g.is&isLong != 0 {
				n = 1
			}
			x.pokes = append(x.pokes, p.b.pokes[g.from:][:n]...)
			if g.is&isLong != 0 {
				q := &x.pokes[len(x.pokes)-1]
				bytes := p.b.bytes[q.Old:][:int(g.olen)+int(g.nlen)]
				q.Old = uint64(len(x.bytes))
				x.bytes = append(x.bytes, bytes...)
			}
			x.group(g.traits)
			g.from += n
			if len(x.pokes) == batchSize || len(x.bytes) >= batchBytes {
				b.enqueue()
			}
		}
	}
}
