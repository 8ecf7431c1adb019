// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// An entry is a record of the audit trail.
type entry struct {
	time  uint64
	seq   uint32         // its place in the recording
	batch uint32         // of pokes in place: the batch it belongs to, from 1
	loss  *timeline.Loss // of a loss; there is no record then
	rec   perfdata.Record
}

// A trail is all changes of kernel text in the order of time, with what tells
// who made them.
type trail struct {
	rec     *perfdata.Recording
	entries []entry
	batches []batch
	comms   map[uint32]string // names of threads, as of the entry last gone to
}

// newTrail collects the records in one pass.
func newTrail(r *timeline.Replay) *trail {
	t := &trail{rec: r.Recording, comms: make(map[uint32]string)}
	counts := r.Report.Records
	n := uint64(len(r.Report.Losses))
	kept := []perfdata.RecordType{perfdata.RecordTextPoke, perfdata.RecordKSymbol, perfdata.RecordBPFEvent,
		perfdata.RecordComm, perfdata.RecordFork}
	for _, typ := range kept {
		n += counts[typ]
	}
	t.entries = make([]entry, 0, n)
	// Records that were compressed do not stay where they are.
	volatile := counts[perfdata.RecordCompressed]+counts[perfdata.RecordCompressed2] > 0

	cpus := make(map[uint64]int64) // of event ids
	s := t.rec.Scan(perfdata.Only(append(kept, perfdata.RecordIDIndex)...))
	var index perfdata.IDIndex
	for s.Next() {
		rec := *s.Record()
		if rec.Type == perfdata.RecordIDIndex {
			if t.rec.IDIndex(&rec, &index) == nil {
				for _, e := range index.Entries {
					cpus[e.ID] = e.CPU
				}
			}
			continue
		}
		var id perfdata.SampleID
		if t.rec.SampleID(&rec, &id) != nil {
			continue // the report's warnings tell of it
		}
		if volatile {
			rec.Raw = bytes.Clone(rec.Raw)
		}
		t.entries = append(t.entries, entry{time: id.Time, seq: uint32(len(t.entries)), rec: rec})
	}
	for i := range r.Report.Losses {
		l := &r.Report.Losses[i]
		t.entries = append(t.entries, entry{time: l.To, seq: uint32(len(t.entries)), loss: l})
	}
	t.dropCopies(cpus)
	slices.SortFunc(t.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.seq, b.seq))
	})
	t.dropDoubles()
	t.findBatches()
	return t
}

// dropCopies keeps, of events on one CPU that took the same records, those of
// the lowest id.
func (t *trail) dropCopies(cpus map[uint64]int64) {
	type taker struct {
		typ perfdata.RecordType
		cpu int64
	}
	source := func(e *entry) (taker, uint64) {
		var id perfdata.SampleID
		if e.loss != nil || e.rec.Type == perfdata.RecordComm || e.rec.Type == perfdata.RecordFork ||
			t.rec.SampleID(&e.rec, &id) != nil || id.ID == 0 {
			return taker{}, 0
		}
		cpu, ok := cpus[id.ID]
		if !ok && id.Has&perfdata.SampleCPU != 0 {
			cpu = int64(id.CPU)
		}
		return taker{e.rec.Type, cpu}, id.ID
	}
	lowest := make(map[taker]uint64)
	several := false
	for i := range t.entries {
		k, id := source(&t.entries[i])
		if id == 0 {
			continue
		}
		if have, ok := lowest[k]; !ok {
			lowest[k] = id
		} else if id != have {
			several = true
			lowest[k] = min(have, id)
		}
	}
	if !several {
		return
	}
	t.entries = slices.DeleteFunc(t.entries, func(e entry) bool {
		k, id := source(&e)
		return id != 0 && id != lowest[k]
	})
}

// dropDoubles drops records that perf wrote twice: equal in every byte, time and id
// included.
func (t *trail) dropDoubles() {
	out := t.entries[:0]
	for _, e := range t.entries {
		double := false
		for k := len(out) - 1; k >= 0 && out[k].time == e.time && e.time != 0 && e.loss == nil && !double; k-- {
			double = out[k].loss == nil && bytes.Equal(out[k].rec.Raw, e.rec.Raw)
		}
		if !double {
			out = append(out, e)
		}
	}
	t.entries = out
}

// The kernel patches up to this many sites at once (TP_VEC_MAX of
// arch/x86/kernel/alternative.c: a page of 16-byte entries).
const batchMost = 256

// A batch is a run of pokes that the kernel seems to have made at once.
type batch struct {
	sites int
	end   uint64 // time of the last
}

// batchGap is the longest time between two records of a batch. No record marks
// where a batch begins or ends; between two of one batch no other CPU has to be
// waited for.
const batchGap = 1e6

// findBatches numbers runs of pokes that look like one call of
// text_poke_bp_batch: one thread, ascending addresses, directly after one another.
func (t *trail) findBatches() {
	var last perfdata.TextPoke
	for i := range t.entries {
		e := &t.entries[i]
		if e.rec.Type != perfdata.RecordTextPoke {
			continue
		}
		var p perfdata.TextPoke
		if t.rec.TextPoke(&e.rec, &p) != nil || timeline.KindOfPoke(p.Old, p.New) != timeline.PokeBatch {
			last = perfdata.TextPoke{}
			continue
		}
		n := len(t.batches)
		if last.New == nil || t.batches[n-1].sites == batchMost || p.TID != last.TID || p.Addr <= last.Addr || p.Time-last.Time > batchGap {
			t.batches = append(t.batches, batch{})
			n++
		}
		t.batches[n-1].sites++
		t.batches[n-1].end = p.Time
		e.batch = uint32(n)
		last = p
	}
}

// visit goes through the changes, keeping track of the threads' names.
func (t *trail) visit(change func(e *entry) error) error {
	for i := range t.entries {
		e := &t.entries[i]
		switch {
		case e.loss != nil:
		case e.rec.Type == perfdata.RecordComm:
			var c perfdata.Comm
			if t.rec.Comm(&e.rec, &c) == nil {
				t.comms[c.TID] = string(c.Comm)
			}
			continue
		case e.rec.Type == perfdata.RecordFork:
			var f perfdata.Task
			if t.rec.Task(&e.rec, &f) == nil {
				t.comms[f.TID] = t.comms[f.PTID]
			}
			continue
		}
		if err := change(e); err != nil {
			return err
		}
	}
	return nil
}
