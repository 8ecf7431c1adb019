// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"github.com/textreplay/textreplay/perfdata"
)

// A secondPass reads a recording once more. Nothing is made of its records but what run and record make
// of them. They are called in the order of the file.
type secondPass struct {
	s     *scan // that reads it first; it knows the runs of what was not compressed
	types []perfdata.RecordType
	// run takes a run of text pokes as a whole, or returns false. Then record gets each record of it.
	// run is nil if all are wanted one by one.
	run    func(r *pokeRun) bool
	places bool // run uses pokeRun.places
	// record gets each other record of these types. If it returns false, the pass ends. Records, and runs,
	// that were compressed are valid only until the next one: see reuses.
	record func(rec *perfdata.Record) bool
}

// reuses reports whether the memory of records is used again, as that of those is that were compressed.
func (p *secondPass) reuses() bool {
	return p.s.counts[perfdata.RecordCompressed]+p.s.counts[perfdata.RecordCompressed2] > 0
}

// read makes the pass.
func (p *secondPass) read() {
	types := p.types
	if p.s.chunking.batch > 0 {
		types = append(slices.Clip(types), perfdata.RecordCompressed, perfdata.RecordCompressed2)
	}
	var runs []pokeRun
	if p.run != nil {
		runs = p.s.placed.runs
	}
	sc := p.s.rec.Scan(perfdata.Only(types...), perfdata.Rejoin())
	for sc.Next() {
		rec := sc.Record()
		if isCompressed(rec.Type) {
			p.readBatches(sc) // all that follow
			return
		}
		if len(runs) > 0 && &rec.Raw[0] == &runs[0].data[0] {
			taken, tried := p.takeRuns(sc, runs, len(rec.Raw))
			if runs = runs[tried:]; taken > 0 {
				continue
			}
		}
		if !p.record(rec) {
			return
		}
	}
}

// takeRuns takes the first of these runs, whose first record is the current one and has this size, and those
// that follow one another behind it. So the Scanner need not touch the mapping for each. Those that were tried
// are one more if that one was not taken.
func (p *secondPass) takeRuns(sc *perfdata.Scanner, runs []pokeRun, size int) (taken, tried int) {
	for tried < len(runs) {
		run := &runs[tried]
		if rest := sc.Rest(); tried > 0 && (len(rest) == 0 || &rest[0] != &run.data[0]) {
			break
		}
		if tried++; !p.run(run) {
			break
		}
		sc.Pass(len(run.data)-size, run.lastLen)
		taken, size = tried, 0
	}
	return taken, tried
}

// readBatches is read for the further records of a recording, from the first compressed one on.
func (p *secondPass) readBatches(sc *perfdata.Scanner) {
	wants := uint64(0) // types, as bits
	for _, typ := range p.types {
		wants |= 1 << typ
	}
	c := newBatchQueue(p.s, sc)
	c.again, c.places, c.singly = true, p.places, p.run == nil
	defer c.stop() // before the recording can be closed
	taken := 0     // records of a batch that were taken as runs
	enter := func(r *item, data []byte, _ int) bool {
		if r.typ == 0 {
			return false
		}
		if wants>>r.typ&1 == 1 {
			if r.typ != perfdata.RecordTextPoke || r.records < p.s.chunking.keep {
				return false
			}
			if run := newPokeRun(p.s.rec, r, data[r.at:r.end]); !p.run(&run) {
				return false
			}
		}
		taken += r.records
		return true
	}
	step := func(rec *perfdata.Record, _ int) bool {
		return rec.Type >= 64 || wants>>rec.Type&1 == 0 || p.record(rec)
	}
	for x := c.take(); x != nil; x = c.take() {
		if x.failed != nil {
			panic(x.failed)
		}
		if taken = 0; !x.each(p.s.rec.ByteOrder(), enter, step) {
			return
		}
		c.giveBack(x, taken)
	}
}

// copies are copies of records whose memory is used again, behind one another in a few pieces of memory.
type copies struct {
	on    bool // otherwise nothing is copied
	room  []byte
	bytes int // of all
}

// of returns a copy of data, or data if that is not used again.
func (c *copies) of(data []byte) []byte {
	if !c.on {
		return data
	}
	at := len(c.room)
	if len(data) > cap(c.room)-at { // the next piece is about as long as all before
		at, c.room = 0, make([]byte, 0, max(len(data), min(max(c.bytes, leastCopied), mostCopied)))
	}
	c.room = append(c.room, data...)
	c.bytes += len(data)
	return c.room[at:len(c.room):len(c.room)]
}

// The bytes of a piece of copies.
const leastCopied, mostCopied = 1 << 16, 1 << 25
