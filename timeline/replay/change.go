// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"iter"
	"math"
	"slices"
	"unsafe"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A Change is an entry of a recording's audit trail: a record of a change of kernel text,
// or the loss of such records. Exactly one of Poke, KSymbol, BPF and Loss is set. Times are
// in nanoseconds of the recording's clock.
type Change struct {
	Time uint64 // of a loss its end; 0 for what was there before the recording
	Poke *perfdata.TextPoke
	// Began is the time before which a poke had not begun, if probes recorded it: Time is
	// when it had ended. 0 for others. Such a Poke has no record: its SampleID is that of
	// the sample at the end.
	Began   uint64
	Kind    timeline.PokeKind // of a poke
	KSymbol *perfdata.KSymbol
	BPF     *perfdata.BPFEvent
	Loss    *Loss
	// Comm is the name, at that time, of the thread that made the change; "" if it is
	// not known.
	Comm string
	// Batch is the batch of a poke; nil if there is none, or for other records.
	Batch *Batch
	// Sequence is the sequence that a poke is a step of; nil if there is none.
	Sequence *Sequence
}

// IsTaskID reports whether the kernel can have given a number to a process or a thread (pid_t). Of one that has ended it
// records -1 (perf_event_pid_type of kernel/events/core.c), and damage makes others.
func IsTaskID(n uint32) bool { return n <= math.MaxInt32 }

// SampleID returns the trailer of the record, with thread, CPU and time; nil for a
// loss.
func (c *Change) SampleID() *perfdata.SampleID {
	switch {
	case c.Poke != nil:
		return &c.Poke.SampleID
	case c.KSymbol != nil:
		return &c.KSymbol.SampleID
	case c.BPF != nil:
		return &c.BPF.SampleID
	}
	return nil
}

// A Batch is the pokes that the kernel seems to have made at once, in one call of
// text_poke_bp_batch (arch/x86/kernel/alternative.c), see
// [timeline.Windows.Batches]. On an architecture whose instructions are words it is a
// run of pokes of one thread, at ascending addresses and without a pause. No record
// says where a batch begins or ends, so a Batch is a guess for readers and proves
// nothing. [timeline.Window] has what is proven.
type Batch struct {
	Number   int    // 1 is the first of the recording
	Sites    int    // how many pokes
	From, To uint64 // times of its first and its last poke
}

// longestPause is the longest time between two records of a run, in ns.
const longestPause = 1e6

// A trail is the records of the audit trail, and what is needed to read them.
type trail struct {
	r       *Replay
	alone   bool       // changes have no batch and no sequence
	known   KnownPokes // leaves out pokes; may be nil
	pokes   shortPokes // scratch
	without *coreText  // if not nil: the records that are not needed
	entries []trailEntry
	runs    []uint64         // the last times of entries that are runs of pokes
	order   []uint32         // the indices of entries by time
	copies  copies           // of records that were compressed
	loaded  int              // bytes of records that were read since the recording was unloaded
	head    [recordRoom]byte // the first record of a run that was read from its file
	again   []byte           // a run that was
	writes  []*probeWrite
	batches []Batch
}

// A trailEntry is a record of the trail or a loss, or a COMM or FORK, which give the
// threads' names.
//
// There are as many as records, so an entry is packed: raw and typ return what it is of.
type trailEntry struct {
	time  uint64
	first *byte  // of the record, or of the run
	size  uint32 // in bytes
	batch uint32 // index of the batch + 1; 0: of none
	// If there is no record: the index of a loss in Report.Losses, or the one of a change
	// that a probe recorded in trail.writes, as -1 minus it.
	other int32
	misc  uint16
	kind  uint8
}

// recordEntry returns the entry of a record, or of a run of them. typ is one of those that collect
// keeps, or runOfPokes.
func recordEntry(time uint64, raw []byte, typ perfdata.RecordType, misc uint16) trailEntry {
	return trailEntry{time: time, first: unsafe.SliceData(raw), size: uint32(len(raw)), kind: uint8(typ), misc: misc}
}

// raw returns the bytes of the record, or of the run.
func (e *trailEntry) raw() []byte { return unsafe.Slice(e.first, e.size) }

// typ returns the type of the record, runOfPokes for a run; 0 if there is no record.
func (e *trailEntry) typ() perfdata.RecordType { return perfdata.RecordType(e.kind) }

// record returns the record of an entry, without its place.
func (e *trailEntry) record() perfdata.Record {
	return perfdata.Record{Type: e.typ(), Misc: e.misc, Raw: e.raw()}
}

// write returns the change that a probe recorded, nil if the entry is not one.
func (t *trail) write(e *trailEntry) *probeWrite {
	if e.typ() != 0 || e.other >= 0 {
		return nil
	}
	return t.writes[-1-e.other]
}

// isLoss reports whether the entry is a loss.
func (e *trailEntry) isLoss() bool { return e.typ() == 0 && e.other >= 0 }

// Changes yields all changes of kernel text in the order of time: text pokes,
// symbols that are registered and unregistered, BPF programs that are loaded and
// unloaded, and losses, at their ends. Changes of one time keep the order of the
// recording.
//
// A change that several events of a CPU recorded, or that perf wrote twice, is yielded
// once. Records that cannot be read are left out: Report.Warnings has them.
//
// Each loop reads the recording again and keeps about 40 bytes of memory for each
// record, and a copy of the record if it was compressed. A Change, and what it points to, is
// valid until the next one.
func (r *Replay) Changes() iter.Seq[*Change] {
	return func(yield func(*Change) bool) {
		t := &trail{r: r}
		t.collect()
		t.dropDoubles()
		t.findBatches()
		t.visit(yield)
	}
}

// ChangesAlone yields what [Replay.Changes] does, without batches and sequences, which takes
// less time.
func (r *Replay) ChangesAlone() iter.Seq[*Change] { return r.ChangesBut(nil) }

// KnownPokes returns how many of pokes, from the first one on, a reader of changes needs no more of. The
// bytes are little-endian numbers, oldLen and newLen of them. The change before each was made by the same
// thread on the same CPU, whose name has not changed.
type KnownPokes func(pokes []perfdata.ShortPoke, oldLen, newLen int) (n int)

// ChangesBut is [Replay.ChangesAlone] without the text pokes that are known. It asks known
// about most of the pokes that follow one of the same writer. The order of all is that of
// ChangesAlone.
func (r *Replay) ChangesBut(known KnownPokes) iter.Seq[*Change] {
	return func(yield func(*Change) bool) {
		t := &trail{r: r, alone: true, known: known}
		t.collect()
		t.dropDoubles()
		t.visit(yield)
	}
}

// collect reads the records in one pass and sorts them by time.
func (t *trail) collect() {
	known := t.r.scanned()
	kept := []perfdata.RecordType{perfdata.RecordTextPoke, perfdata.RecordKSymbol, perfdata.RecordBPFEvent,
		perfdata.RecordComm, perfdata.RecordFork}
	var id perfdata.SampleID
	pass := secondPass{s: known, types: kept, places: t.without != nil}
	t.copies.on = pass.reuses()
	pass.record = func(x *perfdata.Record) bool {
		if t.without != nil && t.without.skips(x) || known.rec.SampleID(x, &id) != nil || !t.wants(x, &id) {
			return true
		}
		t.entries = append(t.entries, recordEntry(id.Time, t.copies.of(x.Raw), x.Type, x.Misc))
		return true
	}
	switch {
	case t.without != nil:
		pass.run = func(run *pokeRun) bool { return t.without.skipsRun(&run.places) }
	case t.alone:
		pass.run = func(run *pokeRun) bool {
			first := t.firstOf(run.pokeRecords)
			if known.rec.SampleID(&first, &id) != nil {
				return false
			}
			if !t.wants(&first, &id) {
				return true // nor the others: all are of one event and one CPU
			}
			kept := pokeRecords{run.rec, t.copies.of(run.data)}
			if run.sameTime {
				t.addRun(kept, nil)
			} else {
				t.addWholeRun(kept.data, run.first, run.last)
			}
			return true
		}
	}
	if t.without == nil {
		n := uint64(len(t.r.Report.Losses))
		for _, typ := range kept {
			n += known.counts[typ]
		}
		if t.alone {
			n += known.again.runs - known.again.records
		}
		t.entries = make([]trailEntry, 0, n)
	}
	pass.read()
	for w := range known.probedWrites() {
		t.writes = append(t.writes, w)
		t.entries = append(t.entries, trailEntry{time: w.ended, other: int32(-len(t.writes))})
	}
	for i := range t.r.Report.Losses {
		t.entries = append(t.entries, trailEntry{time: t.r.Report.Losses[i].To, other: int32(i)})
	}
	if t.sort(); len(t.runs) > 0 && t.untangle() {
		t.sort()
	}
}

// read notes that the record of an entry is read, or its run. Entries are anywhere in the file, so the
// memory of all of it is released from time to time.
func (t *trail) read(e *trailEntry) {
	if t.loaded += int(e.size); t.loaded > unloadAbove && !t.copies.on {
		t.r.Recording.Unload()
		t.loaded = 0
	}
}

// inOrder returns the entry number i in the order of time.
func (t *trail) inOrder(i int) *trailEntry { return &t.entries[t.order[i]] }

// IsChange reports whether [Replay.Changes] yields a text poke, a symbol or a BPF event,
// unless perf wrote it twice. id is the record's trailer. IsChange is for a program that reads
// the records itself, which is faster and takes less memory than Changes.
//
// The first call of a Replay whose image is from an index reads the recording once more.
func (r *Replay) IsChange(rec *perfdata.Record, id *perfdata.SampleID) bool {
	return kindOfRecord(rec.Type) != 0 && (&trail{r: r}).wants(rec, id)
}

// KindOf returns the kind of a poke.
func (r *Replay) KindOf(p *perfdata.TextPoke) timeline.PokeKind { return r.kindOf(p) }

// wants reports whether the trail needs a record: one that the image is made of, or
// one of the image's machine that names a thread.
func (t *trail) wants(rec *perfdata.Record, id *perfdata.SampleID) bool {
	s := t.r.scanned()
	if kind := kindOfRecord(rec.Type); kind != 0 && (id.Time != 0 || kind == takesPokes) {
		return s.isChosen(rec, id, kind)
	}
	// perf synthesized it, or it is a COMM or FORK.
	return s.machineOf(rec, id) == s.machine
}

// dropDoubles drops records that perf wrote twice. They are equal in every byte, also
// in time and id.
func (t *trail) dropDoubles() {
	out := t.order[:0]
	for lo := 0; lo < len(t.order); {
		time := t.inOrder(lo).time
		hi := lo + 1
		for hi < len(t.order) && t.inOrder(hi).time == time {
			hi++
		}
		now := t.order[lo:hi]
		if lo = hi; len(now) > 1 && time != 0 {
			now = t.withoutDoubles(now)
		}
		out = append(out, now...)
	}
	t.order = out
}

// withoutDoubles drops the doubles among entries of one time. It takes linear time,
// because a damaged recording can have very many of them. A poke that was undone
// between is not a double.
func (t *trail) withoutDoubles(entries []uint32) []uint32 {
	type left struct {
		raw string
		new []byte
	}
	met := make(map[string]bool, len(entries))
	places := make(map[uint64]left) // by address: the newest poke
	var p perfdata.TextPoke
	return slices.DeleteFunc(entries, func(i uint32) bool {
		e := &t.entries[i]
		if e.typ() == 0 {
			return false
		}
		raw := string(e.raw())
		double := met[raw]
		met[raw] = true
		if e.typ() == perfdata.RecordTextPoke && t.poke(e, &p) == nil {
			was := places[p.Addr]
			n := min(len(was.new), len(p.Old))
			double = double && (was.raw == raw || !bytes.Equal(was.new[:n], p.Old[:n]))
			if !double {
				places[p.Addr] = left{raw, p.New}
			}
		}
		return double
	})
}

// kindOf returns the kind of a poke, by its old and new bytes.
func (r *Replay) kindOf(p *perfdata.TextPoke) timeline.PokeKind {
	return patching.KindOfPoke(r.arch.machine, r.Recording.ByteOrder(), p.Old, p.New)
}

// findBatches finds the batches and numbers them.
func (t *trail) findBatches() {
	if t.r.arch.hasWords() {
		t.findRuns()
		return
	}
	// Entries and batches are both in the order of time.
	next := 0
	var poke perfdata.TextPoke
	for p, begins := range t.r.Windows().Batches() {
		if p.Kind != timeline.PokeBatch {
			continue
		}
		if begins {
			t.batches = append(t.batches, Batch{Number: len(t.batches) + 1, From: p.Time})
		}
		b := &t.batches[len(t.batches)-1]
		b.Sites++
		b.To = p.Time
		for next < len(t.order) && t.inOrder(next).time < p.Time {
			next++
		}
		for i := next; i < len(t.order); i++ {
			e := t.inOrder(i)
			if e.time != p.Time {
				break
			}
			if e.batch == 0 && e.typ() == perfdata.RecordTextPoke && t.poke(e, &poke) == nil && poke.Addr == p.Addr {
				e.batch = uint32(b.Number)
				break
			}
		}
	}
}

// findRuns finds the batches of an architecture whose instructions are words: pokes of
// one thread at ascending addresses, without a pause.
func (t *trail) findRuns() {
	var last perfdata.TextPoke
	sequences := t.r.Sequences()
	for _, i := range t.order {
		e := &t.entries[i]
		if t.write(e) == nil && e.typ() != perfdata.RecordTextPoke {
			continue
		}
		var p perfdata.TextPoke
		if t.poke(e, &p) != nil || t.r.kindOf(&p) != timeline.PokeBatch || sequences.stepwise(p.Addr, p.Time) {
			last = perfdata.TextPoke{}
			continue
		}
		n := len(t.batches)
		if last.New == nil || p.TID != last.TID || p.Addr <= last.Addr || p.Time-last.Time > longestPause {
			t.batches = append(t.batches, Batch{Number: n + 1, From: p.Time})
			n++
		}
		t.batches[n-1].Sites++
		t.batches[n-1].To = p.Time
		e.batch = uint32(n)
		last = p
	}
}

// poke decodes the poke of an entry.
func (t *trail) poke(e *trailEntry, p *perfdata.TextPoke) error {
	if w := t.write(e); w != nil {
		*p = w.record()
		return nil
	}
	rec := e.record()
	return t.r.Recording.TextPoke(&rec, p)
}

// visit decodes and yields the changes. It follows the threads' names.
func (t *trail) visit(yield func(*Change) bool) {
	rec := t.r.Recording
	comms := make(map[uint32]string)
	last, lastComm := uint32(0), "" // of comms: the one that was needed last
	var sequences *Sequences
	if !t.alone {
		sequences = t.r.Sequences()
	}
	var (
		c    Change
		x    perfdata.Record
		poke perfdata.TextPoke
		sym  perfdata.KSymbol
		bpf  perfdata.BPFEvent
		comm perfdata.Comm
		fork perfdata.Task
		err  error
	)
	commOf := func(tid uint32) string {
		if tid != last {
			last, lastComm = tid, comms[tid]
		}
		return lastComm
	}
	if rec.Size() > unloadAbove {
		defer rec.Unload()
	}
	for _, i := range t.order {
		e := &t.entries[i]
		if e.typ() == runOfPokes {
			if !t.visitRun(e, commOf, yield) {
				return
			}
			continue
		}
		t.read(e)
		c, x = Change{Time: e.time}, e.record()
		write := t.write(e)
		switch {
		case e.isLoss():
			c.Loss = &t.r.Report.Losses[e.other]
		case e.typ() == perfdata.RecordComm:
			if rec.Comm(&x, &comm) == nil {
				comms[comm.TID] = string(comm.Comm)
				last, lastComm = comm.TID, comms[comm.TID]
			}
			continue
		case e.typ() == perfdata.RecordFork:
			if rec.Task(&x, &fork) == nil {
				comms[fork.TID] = comms[fork.PTID]
				last, lastComm = fork.TID, comms[fork.TID]
			}
			continue
		case write != nil, e.typ() == perfdata.RecordTextPoke:
			c.Poke, err = &poke, t.poke(e, &poke)
			if write != nil {
				c.Began = write.began
			}
			c.Kind = t.r.kindOf(&poke)
			if !t.alone {
				c.Sequence = sequences.Of(poke.Addr, poke.Time)
			}
			if e.batch != 0 {
				c.Batch = &t.batches[e.batch-1]
			}
		case e.typ() == perfdata.RecordKSymbol:
			c.KSymbol, err = &sym, rec.KSymbol(&x, &sym)
		case e.typ() == perfdata.RecordBPFEvent:
			c.BPF, err = &bpf, rec.BPFEvent(&x, &bpf)
		}
		if err != nil {
			err = nil
			continue
		}
		if id := c.SampleID(); id != nil && id.Time != 0 && id.Has&perfdata.SampleTID != 0 {
			c.Comm = commOf(id.TID)
		}
		if !yield(&c) {
			return
		}
	}
}
