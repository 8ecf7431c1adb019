// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// A ProbeReader makes changes of text from the samples of probes, one after the other, for a
// program that prints them as they are recorded. It keeps only what later samples need, and
// says nothing about what the samples prove: [Load] does, with the hit counters. It is not
// safe for concurrent use.
type ProbeReader struct {
	log     probeLog
	rec     *perfdata.Recording
	of      map[*perfdata.Event]*probeEvent
	indices map[uint64]bool
	lo, hi  uint64 // kernel text
	votes   map[uint64]int
	total   int
	lost    map[uint32]uint64 // by CPU
}

// NewProbeReader returns a reader for the kernel whose text is core and whose symbols are k.
func NewProbeReader(core *kcore.Core, k *kcore.Kallsyms) *ProbeReader {
	r := &ProbeReader{votes: make(map[uint64]int), lost: make(map[uint32]uint64)}
	r.log.cpus, r.log.mms = make(map[int64]*probeCPU), make(map[uint64]bool)
	r.log.writer = newProbeCode(core, k)
	if k != nil {
		r.lo, r.hi, _ = k.Text()
	}
	if r.hi > 0 {
		r.indices = r.log.writer.textIndices()
	}
	return r
}

// Begin says that the next samples are of rec, whose formats are given: the feature
// TRACING_DATA. It returns whether rec has probes on the writers of text. A change may begin
// in one recording and end in the next one.
func (r *ProbeReader) Begin(rec *perfdata.Recording, formats []byte) bool {
	r.rec, r.log.events, r.of = rec, nil, make(map[*perfdata.Event]*probeEvent)
	for _, e := range rec.Events() {
		if x := probeEventOf(e, formats); x != nil && x.role != probeWrites {
			r.log.events = append(r.log.events, x)
			r.of[e] = x
		}
	}
	return len(r.of) > 0
}

// Change takes a sample or a LOST record, in the order of the file, and returns the change that it ends, in the form of a TEXT_POKE
// record. It returns nil if the sample ends none, or if the place or the bytes of the change
// are not known. The caller owns the result.
func (r *ProbeReader) Change(rec *perfdata.Record) *perfdata.TextPoke {
	var id perfdata.SampleID
	if r.rec == nil || len(r.of) == 0 || rec.Type != perfdata.RecordSample && rec.Type != perfdata.RecordLost || r.rec.SampleID(rec, &id) != nil {
		return nil
	}
	if rec.Type == perfdata.RecordLost {
		var l perfdata.Lost
		if r.rec.Lost(rec, &l) == nil {
			r.lost[id.CPU] += l.Lost
		}
		return nil
	}
	e := r.of[id.Event]
	var s perfdata.Sample
	if e == nil || id.Has&pairedBy != pairedBy || r.rec.Sample(rec, &s) != nil {
		return nil
	}
	raw, err := s.Raw()
	if err != nil || len(raw) < e.size {
		return nil
	}
	p := &r.log
	p.sample(r.rec.ByteOrder(), e, &id, raw, r.lost[id.CPU])
	// What Load needs to judge the whole is not kept.
	e.times, p.loose, p.back, p.others, p.disarmed, p.copies = nil, nil, nil, nil, nil, nil
	if len(p.writes) == 0 {
		return nil
	}
	w := p.writes[0]
	p.writes = p.writes[:0]
	if w.isOther(r.indices) || w.lost > 1 {
		return nil
	}
	if off, ok := w.vote(r.lo, r.hi); ok && (len(r.votes) < maxOthers || r.votes[off] > 0) {
		r.votes[off]++
		r.total++
		p.elect(r.votes, r.total)
	}
	if w.phys != 0 {
		p.place(&w, r.lo, r.hi)
	}
	if p.disarms(&w) || !w.known() {
		return nil
	}
	poke := w.record()
	return &poke
}
