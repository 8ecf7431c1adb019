// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"sort"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A trail is the changes of a recording as columns of plain numbers: 26 bytes a text
// poke. The i-th entry of each column is the i-th poke in the order of time. What is in no
// column, such as the bytes, is read from the recording's file when a page shows it. Only the
// bytes of changes that probes recorded are in memory too.
//
// A trail is immutable and safe for concurrent use.
type trail struct {
	r *replay.Replay

	time   []uint64 // in ns
	site   []uint32 // in sites
	at     []uint32 // where the record is, see recordAt; in probed if there are probes
	writer []uint16 // in writers
	cpu    []uint16 // noCPU if it was not recorded
	kind   []uint8  // a timeline.PokeKind
	class  []uint8  // a mechanism.Mechanism

	// The pokes of the k-th site are bySite[first[k]:first[k+1]], in the order of time.
	sites  []site   // by address
	reach  []uint64 // the end of the site that reaches furthest of the first ones up to this one
	first  []uint32
	bySite []uint32

	writers []writer
	events  []event // all other changes, in the order of time

	files []string // of the recording
	bases []int64  // offset of each, in bytes, if they followed one another
	// What the recording has and the trail does not: pokes, symbols and BPF programs, and
	// pokes and events whose writer is not known because there are too many writers.
	dropped, droppedEvents, nameless uint64
	// probed has the bytes of the changes that probes recorded: they have no records. Each is the
	// two lengths as little-endian u16, then the old and the new bytes. nil: there are records.
	probed []byte
}

// A site is an address that pokes change.
type site struct {
	addr uint64
	size uint32 // of the longest poke, in bytes
}

// end returns the address behind the site, which has a byte at least; the last address for one at the end
// of the address space.
func (s *site) end() uint64 {
	if end := s.addr + uint64(max(s.size, 1)); end > s.addr {
		return end
	}
	return math.MaxUint64
}

// A writer is a thread that changed kernel text, under one name.
type writer struct {
	comm     string
	pid, tid uint32
	known    bool // pid and tid were recorded
}

func (w writer) String() string {
	switch {
	case !w.known:
		return w.comm
	case w.comm == "":
		return fmt.Sprintf("?[%d]", w.tid)
	}
	return fmt.Sprintf("%s[%d]", w.comm, w.tid)
}

// An event is a change that is not a poke: a symbol, a BPF program or a loss.
type event struct {
	time   uint64
	kind   eventKind
	addr   uint64
	n      uint64 // of a symbol its length in bytes
	name   string
	writer uint16
	cpu    uint16
	up     bool   // it was registered or loaded
	number uint64 // of a symbol its type, of a program its id, of a loss the number of records
	since  uint64 // of a loss: the records were lost between since and time
	tag    [8]byte
}

type eventKind uint8

const (
	eventSymbol eventKind = iota
	eventBPF
	eventLoss
)

const (
	noCPU    = math.MaxUint16
	noRecord = math.MaxUint32
	// unitOf is the alignment of records in a file, in bytes.
	unitOf = 8
	// mostPokes and mostEvents bound the memory that a hostile recording can take.
	mostPokes  = 1 << 27
	mostEvents = 1 << 20
	// mostProbed bounds the bytes of changes that probes recorded: trail.at has offsets in them.
	mostProbed = noRecord - 1<<17
	// someone is the writer of pokes when there are too many writers to tell apart.
	someone = math.MaxUint16
)

var usualLimits = trailLimits{mostPokes, mostEvents, mostProbed, someone}

// missing says in words what the trail leaves out.
func (t *trail) missing() (out []string) {
	if t.dropped > 0 {
		out = append(out, fmt.Sprintf("The recording has %s than these pages can hold. No list, count or picture has them; the instructions are right nevertheless.", count(t.dropped, "more text poke", "more text pokes")))
	}
	if t.droppedEvents > 0 {
		out = append(out, fmt.Sprintf("The recording registers %s than these pages can hold. They are not in the log.", count(t.droppedEvents, "more symbol or BPF program", "more symbols and BPF programs")))
	}
	if t.nameless > 0 {
		out = append(out, fmt.Sprintf("More threads than these pages can tell apart changed text: %s by an unknown writer here.", count(t.nameless, "change is", "changes are")))
	}
	return out
}

// newTrail reads the changes of a recording, up to limits.
func newTrail(r *replay.Replay, limits trailLimits) (*trail, error) {
	t := &trail{r: r, files: r.Recording.Files()}
	t.findBases()
	stop := unloading(r.Recording.Unload)
	defer stop()
	p := newTrailReader(t, limits)
	// Reading the file, and not its mapping, keeps it out of the process's memory.
	s := r.Recording.Scan(perfdata.Unmapped(), perfdata.Only(perfdata.RecordTextPoke, perfdata.RecordKSymbol,
		perfdata.RecordBPFEvent, perfdata.RecordComm, perfdata.RecordFork))
	for s.Next() {
		p.read(s.Record())
	}
	// A recording that cannot be read to its end is shown as far as it goes: the report
	// has the reason.
	for i := range r.Report.Losses {
		l := &r.Report.Losses[i]
		e := event{time: l.To, kind: eventLoss, since: l.From, number: l.Records, cpu: noCPU, writer: someone}
		if l.CPU >= 0 && l.CPU < noCPU {
			e.cpu = uint16(l.CPU)
		}
		p.events = append(p.events, p.pending(e))
	}
	if r.Report.Records[perfdata.RecordTextPoke] == 0 && !r.ListsOutOfLine() {
		p.readProbed()
	}
	p.finish()
	return t, nil
}

// findBases finds where each file of the recording begins, if one followed the other.
func (t *trail) findBases() {
	at := int64(0)
	for _, name := range t.files {
		t.bases = append(t.bases, at)
		if info, err := os.Stat(name); err == nil {
			at += (info.Size() + unitOf - 1) / unitOf * unitOf
		}
	}
}

// recordAt returns the offset of a record from the start of the first file, in units of unitOf
// bytes, or noRecord: a recording with compressed records has none that can be read again.
func (t *trail) recordAt(rec *perfdata.Record) uint32 {
	if rec.File >= len(t.bases) || len(rec.Raw) == 0 || t.r.Report.Records[perfdata.RecordCompressed]+t.r.Report.Records[perfdata.RecordCompressed2] > 0 {
		return noRecord
	}
	at := t.bases[rec.File] + rec.Offset
	if at%unitOf != 0 || at/unitOf >= noRecord {
		return noRecord
	}
	return uint32(at / unitOf)
}

// indexSites makes first, reach and bySite, the last in memory that is not needed any more.
func (t *trail) indexSites(memory []uint32) {
	t.reach = make([]uint64, len(t.sites))
	last := uint64(0)
	for i := range t.sites {
		last = max(last, t.sites[i].end())
		t.reach[i] = last
	}
	t.first = make([]uint32, len(t.sites)+1)
	for _, s := range t.site {
		t.first[s+1]++
	}
	for i := range t.sites {
		t.first[i+1] += t.first[i]
	}
	next := slices.Clone(t.first)
	t.bySite = memory[:len(t.site)]
	for i, s := range t.site {
		t.bySite[next[s]] = uint32(i)
		next[s]++
	}
}

// writerOf returns the writer of this number.
func (t *trail) writerOf(i uint16) writer {
	if int(i) < len(t.writers) {
		return t.writers[i]
	}
	return writer{}
}

// between returns the pokes of the times [from, to), as indices of the columns. If to is
// timeline.MaxTime, it is not a bound.
func (t *trail) between(from, to uint64) (lo, hi int) {
	lo = sort.Search(len(t.time), func(i int) bool { return t.time[i] >= from })
	if to == timeline.MaxTime {
		return lo, len(t.time)
	}
	hi = lo + sort.Search(len(t.time)-lo, func(i int) bool { return t.time[lo+i] >= to })
	return lo, hi
}

// sitesIn yields the sites that have a byte in [lo, hi), as indices, by address.
func (t *trail) sitesIn(lo, hi uint64) iter.Seq[int] {
	return func(yield func(int) bool) {
		from, to := t.sitesAround(lo, hi)
		for k := from; k < to; k++ {
			if t.sites[k].end() > lo && !yield(k) {
				return
			}
		}
	}
}

// sitesAround returns the shortest range of sites that has all with a byte in [lo, hi). It can have
// others, where a site reaches over those behind it.
func (t *trail) sitesAround(lo, hi uint64) (from, to int) {
	from = sort.Search(len(t.reach), func(i int) bool { return t.reach[i] > lo })
	to = from + sort.Search(len(t.sites)-from, func(i int) bool { return t.sites[from+i].addr >= hi })
	return from, to
}

// changesIn returns the changes of the sites that have a byte in [lo, hi), as indices of the columns,
// by time.
func (t *trail) changesIn(lo, hi uint64) (out []logEntry) {
	for k := range t.sitesIn(lo, hi) {
		for _, i := range t.ofSite(k, 0, timeline.MaxTime) {
			out = append(out, logEntry(i))
		}
	}
	slices.Sort(out)
	return out
}

// ofSite returns the pokes of a site at the times [from, to), as indices of the columns. If to is
// timeline.MaxTime, it is not a bound. The caller must not change the slice.
func (t *trail) ofSite(k int, from, to uint64) []uint32 {
	all := t.bySite[t.first[k]:t.first[k+1]]
	lo := sort.Search(len(all), func(i int) bool { return t.time[all[i]] >= from })
	if to == timeline.MaxTime {
		return all[lo:]
	}
	hi := lo + sort.Search(len(all)-lo, func(i int) bool { return t.time[all[lo+i]] >= to })
	return all[lo:hi]
}
