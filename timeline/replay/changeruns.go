// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"slices"

	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// runOfPokes is the type of a trailEntry that is not a record but a run of text pokes: successive
// records of one thread on one CPU, whose times ascend. other is its index in trail.runs. No other
// entry is between its records in the order of time, nor has the time of one of them: untangle
// cuts runs where one is, and leaves out of them what may be a double.
const runOfPokes perfdata.RecordType = 1<<8 - 1

// last returns the last time of an entry.
func (t *trail) last(e *trailEntry) uint64 {
	if e.typ() == runOfPokes {
		return t.runs[e.other]
	}
	return e.time
}

// addRecord adds a record of a run as an entry of its own.
func (t *trail) addRecord(raw []byte, time uint64) {
	misc := binary.LittleEndian.Uint16(raw[4:])
	t.entries = append(t.entries, recordEntry(time, raw, perfdata.RecordTextPoke, misc))
}

// addRun adds the records of a run, in as few entries as can be: it cuts the run at these times,
// which ascend, and where two records have the same time.
func (t *trail) addRun(run pokeRecords, cuts []uint64) {
	var (
		p                   perfdata.TextPoke
		begin, newest, next int    // the beginnings of the piece, of the newest record and of the next one
		first, before, last uint64 // the times of the piece's first record, of the one before the newest, and of the newest
		whole               = true // the newest record is not an entry of its own
	)
	flush := func(end int, last uint64) {
		if begin < end {
			t.addWholeRun(run.data[begin:end], first, last)
		}
	}
	for data := run.data; len(data) >= pokeBytes; {
		size := int(binary.LittleEndian.Uint16(data[6:]))
		if size > len(data) || !run.rec.PlainTextPoke(data[:size], &p) {
			break // the file was changed meanwhile: Check finds out
		}
		at := next
		next += size
		data = data[size:]
		same := at > 0 && p.Time == last
		cut := false // another entry has this time, or one between the last two
		alone := same
		for len(cuts) > 0 && cuts[0] <= p.Time {
			cut, alone = true, alone || cuts[0] == p.Time
			cuts = cuts[1:]
		}
		switch {
		case same && whole:
			flush(newest, before)
			t.addRecord(run.data[newest:at], last)
			begin = at
		case cut || alone:
			flush(at, last)
			begin = at
		}
		if alone {
			t.addRecord(run.data[at:next], p.Time)
			begin = next
		} else if begin == at {
			first = p.Time
		}
		whole, newest, before, last = !alone, at, last, p.Time
	}
	flush(next, last)
}

// addWholeRun adds records of these first and last times as one entry. Each has a time of its own.
func (t *trail) addWholeRun(data []byte, first, last uint64) {
	t.runs = append(t.runs, last)
	e := recordEntry(first, data, runOfPokes, 0)
	e.other = int32(len(t.runs) - 1)
	t.entries = append(t.entries, e)
}

// addEach adds each record of a run as an entry of its own.
func (t *trail) addEach(run pokeRecords) {
	at := 0
	for p := range run.all {
		size := int(binary.LittleEndian.Uint16(run.data[at+6:]))
		t.addRecord(run.data[at:at+size], p.Time)
		at += size
	}
}

// untangle cuts runs into pieces that lie between the other entries in time, and makes single
// entries of runs that overlap. It reports whether it has changed anything, and the entries must
// be sorted again.
func (t *trail) untangle() bool {
	cuts := make(map[uint32][]uint64) // by entry; nil: into single records
	open := -1                        // the run that ends last of those so far
	for k, i := range t.order {
		e := &t.entries[i]
		isRun := e.typ() == runOfPokes
		overlaps := open >= 0 && e.time <= t.last(&t.entries[open])
		switch {
		case overlaps && isRun:
			cuts[i], cuts[uint32(open)] = nil, nil
		case overlaps:
			if was, ok := cuts[uint32(open)]; !ok || was != nil {
				cuts[uint32(open)] = append(was, e.time)
			}
		case isRun && k > 0 && t.inOrder(k-1).time == e.time:
			cuts[i] = []uint64{e.time}
		}
		if isRun && (open < 0 || t.last(e) > t.last(&t.entries[open])) {
			open = int(i)
		}
	}
	if len(cuts) == 0 {
		return false
	}
	entries := t.entries
	n := len(entries)
	for i, at := range cuts {
		if n += len(at); at == nil { // records of a run have nearly the same size
			raw := entries[i].raw()
			n += len(raw) / max(pokeBytes, int(binary.LittleEndian.Uint16(raw[6:])))
		}
	}
	t.entries = make([]trailEntry, 0, n+n/64)
	for i := range entries {
		at, tangled := cuts[uint32(i)]
		if tangled {
			t.read(&entries[i])
		}
		switch run := (pokeRecords{t.r.Recording, entries[i].raw()}); {
		case !tangled:
			t.entries = append(t.entries, entries[i])
		case at == nil:
			t.addEach(run)
		default:
			t.addRun(run, at)
		}
	}
	return true
}

// visitRun yields the pokes of a run, whose thread has this name. It reports whether to go on.
func (t *trail) visitRun(e *trailEntry, comm func(tid uint32) string, yield func(*Change) bool) bool {
	run := pokeRecords{t.r.Recording, t.reread(e)}
	var p perfdata.TextPoke
	first := run.firstRecord()
	if t.r.Recording.TextPoke(&first, &p) != nil { // the rest of what all records of a run have in common
		return true
	}
	c := Change{Comm: comm(p.TID)}
	next := true
	run.unknown(t.known, &t.pokes, func(q *perfdata.TextPoke) bool {
		p.Addr, p.Old, p.New, p.PID, p.TID, p.Time, p.ID, p.CPU = q.Addr, q.Old, q.New, q.PID, q.TID, q.Time, q.ID, q.CPU
		c.Poke, c.Time, c.Kind = &p, p.Time, t.r.kindOf(&p)
		next = yield(&c)
		return next
	})
	return next
}

// rereadFrom is from how many bytes on a run is read from its file. To map its pages takes longer than to copy
// them into memory that the cache has, and much longer in a virtual machine.
const rereadFrom = 1 << 14

// reread returns the bytes of a run, which are valid until the next one.
func (t *trail) reread(e *trailEntry) []byte {
	raw := e.raw()
	if len(raw) >= rereadFrom && !t.copies.on {
		if t.again = slices.Grow(t.again[:0], len(raw)); mapfile.Reread(raw, t.again[:len(raw)]) {
			return t.again[:len(raw)]
		}
	}
	t.read(e)
	return raw
}

// firstOf is firstRecord for a run that is read later, see reread.
func (t *trail) firstOf(run pokeRecords) perfdata.Record {
	head := t.head[:]
	if len(run.data) < rereadFrom || t.copies.on || !mapfile.Reread(run.data[:len(head)], head) {
		return run.firstRecord()
	}
	if size := int(binary.LittleEndian.Uint16(head[6:])); size > len(head) {
		return run.firstRecord()
	}
	return pokeRecords{run.rec, head}.firstRecord()
}

// sort sorts the entries by time, and keeps the order of those of one time.
func (t *trail) sort() {
	t.order = make([]uint32, 0, len(t.entries))
	timeline.InTimeOrder(t.entries, func(e *trailEntry) uint64 { return e.time }, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			t.order = append(t.order, uint32(i))
		}
	})
}
