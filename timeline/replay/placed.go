// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"
	"encoding/binary"
	"math"
	"slices"

	"github.com/textreplay/textreplay/internal/memory"
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// placedPokes are the in-place pokes of a recording, in the order of the file, for the
// windows. Most questions need no window, so runs of pokes are only noted, and read
// from the file when they are needed. The pokes of short runs take less memory:
//
//	file   │ poke poke ... poke │ COMM │ poke │ poke poke ... poke │
//	runs   │ run                │             │ run                │
//	pokes  │                             p    │
type placedPokes struct {
	pokes []timeline.InPlacePoke
	runs  []pokeRun
}

// pokeRecords are successive plain records of text pokes, in memory that is mapped.
type pokeRecords struct {
	rec  *perfdata.Recording
	data []byte
}

// all yields the pokes of records. A poke is valid until the next one, and has the fields
// that [perfdata.Recording.PlainTextPoke] sets.
func (r pokeRecords) all(yield func(*perfdata.TextPoke) bool) {
	r.unknown(nil, new(shortPokes), yield)
}

// shortPokes are pokes that are decoded at once.
type shortPokes [64]perfdata.ShortPoke

// unknown is all without the pokes that are known. known is not asked about the first poke, and may be nil.
func (r pokeRecords) unknown(known KnownPokes, scratch *shortPokes, yield func(*perfdata.TextPoke) bool) {
	var p perfdata.TextPoke
	var like perfdata.PokeRun // of the last poke that was decoded alone
	for data := r.data; len(data) >= pokeBytes; {
		n, _ := like.Decode(data, 0, scratch[:])
		for i := 0; i < n; i++ {
			if known != nil {
				if i += known(scratch[i:n], like.OldLen, like.NewLen); i == n {
					break
				}
			}
			// Nothing else of it differs.
			raw, end := data[i*like.Size:], pokeBytes+like.OldLen
			p.Addr, p.Time, p.Old, p.New = scratch[i].Addr, scratch[i].Time, raw[pokeBytes:end:end], raw[end:end+like.NewLen:end+like.NewLen]
			if !yield(&p) {
				return
			}
		}
		if data = data[n*like.Size:]; n == len(scratch) || len(data) < pokeBytes {
			continue
		}
		size := int(binary.LittleEndian.Uint16(data[6:]))
		if size > len(data) || !r.rec.PlainTextPoke(data[:size], &p) {
			return // the file was changed meanwhile: Check finds out
		}
		like, _ = r.rec.PokeRun(data[:size])
		if !yield(&p) {
			return
		}
		data = data[size:]
	}
}

// A pokeRun is successive TEXT_POKE records of one thread on one CPU, whose times do not
// go back.
type pokeRun struct {
	pokeRecords
	lastLen     int // of the last record
	before      int // how many of placedPokes.pokes come before it
	records     int
	cpu, tid    uint32
	first, last uint64 // times
	sameTime    bool   // two successive records have the same time
	inPlace     bool   // any of the pokes is in place
	places      pokePlaces
}

// pokePlaces sums up which addresses pokes change, and to what.
type pokePlaces struct {
	lo, hi   uint64 // the lowest and the highest address
	end      uint64 // where the last one ends
	any      bool
	makes    bool // births or deaths
	other    bool // these, traps, or more different branches than there is room for
	branches [3]targetOf
	n        int // of branches
}

// newPokeRun returns the run of an item. data has its records.
func newPokeRun(rec *perfdata.Recording, r *item, data []byte) pokeRun {
	return pokeRun{pokeRecords: pokeRecords{rec, data}, lastLen: r.lastLen, records: r.records, cpu: r.cpu, tid: r.tid,
		first: r.first, last: r.last, sameTime: r.sameTime, places: r.places}
}

// firstRecord returns the first record, without its place.
func (r pokeRecords) firstRecord() perfdata.Record {
	size, misc := binary.LittleEndian.Uint16(r.data[6:]), binary.LittleEndian.Uint16(r.data[4:])
	return perfdata.Record{Type: perfdata.RecordTextPoke, Misc: misc, Raw: r.data[:size:size]}
}

// A targetOf is a near call or jump.
type targetOf struct {
	op     byte
	target uint64
}

// add adds a poke.
func (p *pokePlaces) add(addr uint64, old, new []byte) {
	if !p.any {
		p.lo, p.any = addr, true
	}
	p.lo, p.hi, p.end = min(p.lo, addr), max(p.hi, addr), max(p.end, addr+uint64(max(len(old), len(new))))
	op, target, ok := branch(addr, new)
	switch {
	case len(old) == 0 || len(new) == 0:
		p.makes, p.other = true, true
	case !ok && isTrap(old, new):
		p.other = true
	case ok && !slices.Contains(p.branches[:p.n], targetOf{op, target}):
		if p.n == len(p.branches) {
			p.other = true
			return
		}
		p.branches[p.n] = targetOf{op, target}
		p.n++
	}
}

// keep keeps the pokes of a run. data has its records; reused says that it will have others later.
func (p *placedPokes) keep(s *scan, r *item, data []byte, reused bool) {
	run := newPokeRun(s.rec, r, data)
	run.before = len(p.pokes)
	for kind, n := range r.kinds {
		run.inPlace = run.inPlace || n > 0 && timeline.PokeKind(kind).InPlace()
	}
	if run.inPlace {
		s.writers.pokes(r.tid)
	}
	if r.records >= s.chunking.keep && !reused {
		p.runs = append(p.runs, run)
		return
	}
	if run.inPlace {
		p.grow(r.records, s.share())
	}
	p.pokes = s.appendRun(p.pokes, &run)
}

// grow makes room for n more pokes, and for as many as the rest of the recording has if it goes on like
// the share of it that was read. That may be wrong, so the room is never much larger than what is there.
func (p *placedPokes) grow(n int, share float64) {
	const most = 8
	had := len(p.pokes) + n
	if had <= cap(p.pokes) {
		return
	}
	room := min(max(float64(had)/share*17/16, float64(had)*5/4), most*float64(had))
	p.pokes = append(make([]timeline.InPlacePoke, 0, int(room)), p.pokes...)
}

// appendRun appends the in-place pokes of a run.
func (s *scan) appendRun(to []timeline.InPlacePoke, r *pokeRun) []timeline.InPlacePoke {
	if !r.inPlace {
		return to
	}
	p := timeline.Poke{CPU: int(r.cpu)}
	tracer := s.arch.machine == elf.EM_X86_64
	var last timeline.InPlacePoke // the last one between a NOP and a call, and where the call leads
	target := uint64(0)
	for q := range r.all {
		if callee, ok := nopOrCall(q); ok && tracer {
			if callee != target {
				p.Addr, p.Time, p.Old, p.New = q.Addr, q.Time, q.Old, q.New
				last, target = s.inPlace(&p, r.tid, timeline.PokeBatch), callee
			}
			last.Time, last.Addr = q.Time, q.Addr
			to = append(to, last)
			continue
		}
		if kind := patching.KindOfPoke(s.arch.machine, binary.LittleEndian, q.Old, q.New); kind.InPlace() {
			p.Addr, p.Time, p.Old, p.New = q.Addr, q.Time, q.Old, q.New
			to = append(to, s.inPlace(&p, r.tid, kind))
		}
	}
	return to
}

// nopOrCall returns the callee of a poke of five bytes that replaces a NOP of x86 by a call, or a
// call by a NOP, as most do. What inPlace finds out of such a poke depends on the callee alone.
func nopOrCall(p *perfdata.TextPoke) (callee uint64, ok bool) {
	if len(p.Old) != 5 || len(p.New) != 5 {
		return 0, false
	}
	was, is := p.Old, p.New
	if was[0] != 0x0f {
		was, is = is, was
	}
	if was[0] != 0x0f || was[1] != 0x1f || is[0] != 0xe8 {
		return 0, false
	}
	callee = p.Addr + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(is[1:]))))
	return callee, callee != 0
}

// all returns all in-place pokes in the order of the file.
func (p *placedPokes) all(s *scan) []timeline.InPlacePoke {
	if len(p.runs) == 0 {
		return p.pokes
	}
	n := len(p.pokes)
	for i := range p.runs {
		n += p.runs[i].records
	}
	all, at := memory.Uncleared[timeline.InPlacePoke](n), 0
	for i := range p.runs {
		r := &p.runs[i]
		all = append(all, p.pokes[at:r.before]...)
		at = r.before
		all = s.appendRun(all, r)
	}
	return append(all, p.pokes[at:]...)
}

// mayHaveWindow reports whether [timeline.Windows.At] may find a window for these
// arguments. It looks only at the pokes around t: a window is that of a poke among the
// [timeline.WindowReach] ones before t, or among as many after t. If the CPUs' clocks differ,
// these are counted from the uncertainty before t, and after it, on.
func (s *scan) mayHaveWindow(addr, n, t uint64) bool {
	if s.arch.hasWords() {
		return true // a window may reach further
	}
	earliest, latest := uint64(math.MaxUint64), uint64(0)
	for i := range s.placed.pokes {
		p := &s.placed.pokes[i]
		earliest, latest = min(earliest, p.Time), max(latest, p.Time)
	}
	for i := range s.placed.runs {
		r := &s.placed.runs[i]
		earliest, latest = min(earliest, r.first), max(latest, r.last)
	}
	const least, most, factor = 1 << 16, 1 << 60, 4 // ns
	skew := s.report.ClockUncertainty
	back, forth := uint64(least), uint64(least)
	for {
		from, to := t-min(t, back), timeline.Later(t, forth)
		if max(back, forth) >= most {
			from, to = 0, timeline.MaxTime
		}
		before, after, hit := s.placed.around(s, addr, n, [2]uint64{from, to}, [2]uint64{t - min(t, skew), timeline.Later(t, skew)})
		enoughBefore := from <= earliest || different(before) >= timeline.WindowReach
		enoughAfter := to >= latest || different(after) >= timeline.WindowReach
		switch {
		case hit:
			return true
		case enoughBefore && enoughAfter:
			return false
		}
		if !enoughBefore {
			back *= factor
		}
		if !enoughAfter {
			forth *= factor
		}
	}
}

// around returns the times of the in-place pokes of the time during that were made before near,
// and of those after it. hit is set if a poke during that time changes any of [addr, addr+n).
func (p *placedPokes) around(s *scan, addr, n uint64, during, near [2]uint64) (before, after []uint64, hit bool) {
	from, to := during[0], during[1]
	see := func(time, lo, size uint64) {
		switch {
		case time < from || time > to:
			return
		case time <= near[0]:
			before = append(before, time)
		case time > near[1]:
			after = append(after, time)
		}
		hit = hit || (lo < addr || lo-addr < n) && addr < lo+size
	}
	for i := range p.pokes {
		q := &p.pokes[i]
		see(q.Time, q.Addr, uint64(q.Len))
	}
	for i := range p.runs {
		r := &p.runs[i]
		if !r.inPlace || r.last < from || r.first > to {
			continue
		}
		for q := range r.all {
			if patching.KindOfPoke(s.arch.machine, binary.LittleEndian, q.Old, q.New).InPlace() {
				see(q.Time, q.Addr, uint64(max(len(q.Old), len(q.New))))
			}
		}
	}
	return before, after, hit
}

// different returns how many different times there are: pokes of one time may be duplicates.
func different(times []uint64) int {
	slices.Sort(times)
	return len(slices.Compact(times))
}
