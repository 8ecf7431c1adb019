// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

// Pokes are prepared changes of text, in the order of arrival. A reader that uses several
// CPUs fills one Pokes in each goroutine, and gives them to [Builder.Add] one after the
// other. A Pokes is not safe for concurrent use.
type Pokes struct {
	b *batch
	r []Range // Builder.only
}

// NewPokes returns an empty Pokes for this builder, after [Builder.Only].
func (b *Builder) NewPokes() *Pokes {
	return &Pokes{&batch{pokes: make([]queued, 0, batchSize)}, b.only}
}

// Len returns how many there are.
func (p *Pokes) Len() int { return len(p.b.pokes) }

// Reset removes all.
func (p *Pokes) Reset() { p.b.reset() }

// Put appends a change as [Builder.Poke] does: it copies old and new, and ignores
// what Poke ignores. time is in nanoseconds of the recording's clock; a negative cpu means
// that it is not known.
func (p *Pokes) Put(addr, time uint64, old, new []byte, cpu int) {
	if isImpossible(addr, old, new) || p.r != nil && !wanted(p.r, addr, addr+uint64(max(len(old), len(new)))) {
		return
	}
	p.b.put(addr, time, old, new, cpu)
}

// PutShort is Put for bytes that are given as little-endian numbers: 1 to 8 old ones, and 1 to 8
// new ones.
func (p *Pokes) PutShort(addr, time, old, new uint64, oldLen, newLen, cpu int) {
	end := addr + uint64(max(oldLen, newLen))
	if end < addr || p.r != nil && !wanted(p.r, addr, end) {
		return
	}
	q := p.b.next()
	q.addr, q.time = addr, time
	q.oldWord, q.newWord = old, new
	q.olen, q.nlen, q.cpu, q.is = uint16(oldLen), uint16(newLen), cpuNumber(cpu), 0
}

// Add adds the pokes [from, to) of p, as if they were given to [Builder.Poke] one after
// the other. It may take p's memory: p can then only be Reset.
func (b *Builder) Add(p *Pokes, from, to int) {
	if n := to - from; n == len(p.b.pokes) && n <= batchSize && (n > batchSize/2 || len(b.batch().pokes) == 0) {
		if len(b.batch().pokes) > 0 {
			b.enqueue() // or all that follow would be copied, too
		}
		b.queue.current, p.b = p.b, b.batch() // no copy
		if to > batchSize/2 || len(b.queue.current.bytes) >= batchBytes {
			b.enqueue()
		}
		return
	}
	for _, q := range p.b.pokes[from:to] {
		x := b.batch()
		if q.is&isLong != 0 {
			bytes := p.b.bytes[q.oldWord:][:int(q.olen)+int(q.nlen)]
			q.oldWord = uint64(len(x.bytes))
			x.bytes = append(x.bytes, bytes...)
		}
		x.pokes = append(x.pokes, q)
		if len(x.pokes) == batchSize || len(x.bytes) >= batchBytes {
			b.enqueue()
		}
	}
}
