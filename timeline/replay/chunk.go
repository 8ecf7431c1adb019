// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Nearly all records are text pokes and samples, and the scan needs little of each: the
// poke, and what the ring buffer must know of the times. So other goroutines decode them,
// in chunks of the file, and sum up runs. A run is successive records of one type and one
// event id whose times do not go back:
//
//	file     │ poke poke poke │ COMM │ poke poke │ sample sample sample │ ...
//	chunk    │ run            │ other│ run       │ run                  │
//	pokes    │ p p p                   p p                              │
//
// A chunk is the records that begin in a region of the file. Regions are equally long. Only who
// has decoded the region before knows where the first record of a region begins. So a
// goroutine guesses, by the looks of the records:
//
//	file     │ record │ record │ record │ record │ record │ record │ record │ ...
//	regions  ├──────────────────────┼──────────────────────┼───────────────────
//	chunk 1                         ·   ├────────────────────────┤
//
// The scan goes through the chunks in the order of the file, and knows where each begins. It
// decodes a chunk again if the guess was wrong. It enters a run in a few steps (enterRun), if
// everything about it is plain. Otherwise, and for all other records, it does what it always
// does (step), and its Scanner decides what is a record. So the chunks change nothing but the
// speed: if the Scanner is not where the next chunk begins, the chunks are given up.

// A chunk is the records that begin in one region of a file.
type chunk struct {
	at, end int  // in chunks.rest; at is below 0 if nothing looked like a record
	isLast  bool // no chunk follows: behind it is no record of the kernel
	items   []item
	pokes   *timeline.Pokes   // nil if the image has them already
	tasks   []taskTime        // of runs of samples
	times   []uint64          // of runs of pokes, if chunks.reused is set
	failed  any               // what the goroutine panicked with
	plain   perfdata.TextPoke // PlainTextPoke and PlainSample set some of its fields

	samples [decodedAtOnce]perfdata.ShortSample // scratch
	short   [decodedAtOnce]timeline.ShortPoke   // the same, if pokes is nil

	seen [seenTasks]seenTask
	gen  uint32 // counts runs, over all uses of the chunk
}

// A chunking says how large chunks are, and when they pay.
type chunking struct {
	bytes   int // of a region, a multiple of 8
	least   int // how many bytes must follow
	run     int // records that a run must have on average
	keep    int // the least number of records in a run whose pokes are decoded later
	records int // how many records must be read as runs, or the next chunks are tried later
	batch   int // bytes of a batch of records that were compressed; 0: they are read one by one
}

var usualChunking = chunking{bytes: 1 << 18, least: 1 << 20, run: 4, keep: 16, records: 1 << 12, batch: 1 << 19}

const seenTasks = 256

// A taskTime is the first time of a thread in a run.
type taskTime struct {
	tid  uint32
	time uint64
}

// A seenTask notes that a run's tasks have a thread.
type seenTask struct{ tid, gen uint32 }

// An item is a run, or another record (of type 0).
type item struct {
	at, end int // in the chunk's bytes
	typ     perfdata.RecordType
	records int
	lastLen int // of the last record

	id          uint64
	cpu         uint32
	tid         uint32 // of pokes
	first, last uint64 // times
	before      uint64 // the time before the last one
	step        uint64 // the longest time between two
	sameTime    bool   // two successive ones have the same time

	pokesEnd        int // in chunk.pokes
	kinds           patching.Kinds
	places          pokePlaces
	tasks, tasksEnd int // in chunk.tasks
	times, timesEnd int // in chunk.times
}

// chunks decodes the chunks of a file, as many at the same time as there are CPUs.
type chunks struct {
	s      *scan
	rest   []byte
	from   io.ReaderAt // has rest, too
	reused bool        // the memory of rest is used again, so nothing may point to it later
	places bool        // item.places is wanted
	buffer buffer      // of the caller

	crew
	// These are used with its lock.
	next  int // where in rest the next chunk begins
	begun int // how many regions were begun, and how many were handed over or passed
	taken int
	ready map[int]*chunk
	free  []*chunk
}

// newChunks returns the chunks of what a Scanner has ahead.
func newChunks(s *scan, rest []byte, from io.ReaderAt) *chunks {
	c := &chunks{s: s, rest: rest, from: from, places: s.keepPlaced, ready: make(map[int]*chunk), free: s.freeChunks}
	c.crew.init()
	return c
}

// work decodes chunks until there are no more. The lock is held.
func (c *chunks) work() {
	var b buffer
	for {
		for c.isFarAhead(c.begun-c.taken) && !c.ended {
			c.changed.Wait()
		}
		if !c.decodeNext(&b) {
			return
		}
	}
}

// decodeNext decodes the next region, from where its first record seems to begin. It returns false if
// there is none. The lock is held when it is called and when it returns.
func (c *chunks) decodeNext(b *buffer) bool {
	k := c.begun
	if c.ended || k*c.s.chunking.bytes >= len(c.rest) {
		return false
	}
	c.begun++
	x := c.newChunk()
	c.lock.Unlock()
	c.decode(x, b, k, unknownBegin)
	c.lock.Lock()
	if c.ready[k] = x; k < c.taken {
		c.drop(k)
	}
	c.changed.Broadcast()
	return true
}

// newChunk returns a chunk to fill. The lock is held.
func (c *chunks) newChunk() (x *chunk) {
	n := len(c.free)
	if n == 0 {
		return &chunk{pokes: c.s.b.NewPokes()}
	}
	x, c.free = c.free[n-1], c.free[:n-1]
	return x
}

// drop lets the chunk of a region be used again, if it is ready. The lock is held.
func (c *chunks) drop(k int) {
	if x := c.ready[k]; x != nil {
		delete(c.ready, k)
		c.free = append(c.free, x)
	}
}

// take returns the next chunk, nil if there is none. It is valid until it is given back.
// While another goroutine decodes it, the caller decodes later ones instead of waiting.
func (c *chunks) take() *chunk {
	c.lock.Lock()
	defer c.lock.Unlock()
	for !c.ended && c.next < len(c.rest) {
		k := c.next / c.s.chunking.bytes
		for ; c.taken < k; c.taken++ {
			c.drop(c.taken) // no record begins there
		}
		c.begun = max(c.begun, k)
		x := c.ready[k]
		if x == nil && c.begun > k {
			if (c.isFarAhead(c.begun-c.taken) || !c.decodeNext(&c.buffer)) && c.ready[k] == nil {
				c.changed.Wait()
			}
			continue
		}
		if x == nil || x.at != c.next {
			if x == nil {
				x = c.newChunk()
				c.begun++
			} else {
				c.s.misjudged++
			}
			c.lock.Unlock()
			c.decode(x, &c.buffer, k, c.next)
			c.lock.Lock()
		}
		delete(c.ready, k)
		c.next, c.ended = x.end, x.isLast
		if c.taken++; c.width == 0 && !c.ended {
			c.start(c.work) // not before: where one chunk is the last, nothing was in vain
		}
		if c.begun-c.taken <= c.width+1 || c.ended {
			c.changed.Broadcast() // not for each chunk: to wake a goroutine takes time
		}
		return x
	}
	return nil
}

// giveBack lets a chunk be used again.
func (c *chunks) giveBack(x *chunk) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.free = append(c.free, x)
}

// stop is that of crew. The scan's next chunks use the memory of these.
func (c *chunks) stop() {
	c.crew.stop()
	for _, x := range c.ready {
		c.free = append(c.free, x)
	}
	c.s.freeChunks = c.free
}

// A buffer has a part of chunks.rest, which was read from the file. That takes less time than to map its
// pages, and what is decoded is in a cache.
type buffer struct {
	at   int // in rest
	data []byte
	room []byte // that data begins in
}

// read reads n bytes from at on, or all that there are.
func (c *chunks) read(b *buffer, at, n int) {
	if b.room == nil {
		b.room = make([]byte, c.s.chunking.bytes+mostOfRecord)
	}
	b.at, b.data = at, b.room[:0]
	c.extend(b, min(n, len(c.rest)-at))
}

// extend reads more, so that b has n bytes.
func (c *chunks) extend(b *buffer, n int) {
	had := len(b.data)
	b.data = slices.Grow(b.data, n-had)[:n]
	more := b.data[had:]
	if got, _ := c.from.ReadAt(more, int64(b.at+had)); got < len(more) {
		copy(more, c.rest[b.at+had:]) // the file was cut short, and whoever touches that finds out
	}
}

// has reports whether there are n bytes from b.at on. If so, b has them.
func (c *chunks) has(b *buffer, n int) bool {
	if n > len(c.rest)-b.at {
		return false
	}
	if n > len(b.data) {
		c.extend(b, n)
	}
	return true
}

const (
	unknownBegin = -1
	mostOfRecord = 1 << 16 // bytes
	// behindRegion is how many bytes behind a region are read with it. Most records are shorter.
	behindRegion = 1 << 9
	// guessedBy is how many records in a row must look like some.
	guessedBy = 4
)

// guess returns where in data the first record seems to begin, or unknownBegin.
func (c *chunks) guess(data []byte) int {
	for at := 0; at < min(len(data), mostOfRecord); at += 8 {
		if c.seemsRecords(data[at:]) {
			return at
		}
	}
	return unknownBegin
}

// seemsRecords reports whether data seem to begin with records.
func (c *chunks) seemsRecords(data []byte) bool {
	for range guessedBy {
		if len(data) < 8 {
			return false
		}
		h := binary.LittleEndian.Uint64(data)
		size, typ := sizeOf(h), perfdata.RecordType(h)
		if size == 0 || size > len(data) || typ == 0 {
			return false
		}
		if (typ == perfdata.RecordTextPoke || typ == perfdata.RecordSample) && !c.s.rec.IsExact(data[:size]) {
			return false
		}
		data = data[size:]
	}
	return true
}

// sizeOf returns the size of the record with a header, 0 if it is not one that a chunk can have.
func sizeOf(h uint64) int {
	size := int(h >> 48)
	if size < 8 || size&7 != 0 || uint32(h) >= 64 && (uint32(h) != uint32(perfdata.RecordFinishedRound) || size != 8) {
		return 0
	}
	return size
}

// decode finds the runs of the chunk of region k, which begins at begin.
func (c *chunks) decode(x *chunk, b *buffer, k, begin int) {
	defer func() {
		if r := recover(); r != nil {
			x.failed, x.isLast = r, true
		}
	}()
	x.at, x.isLast, x.failed = begin, false, nil
	x.empty()
	region := k * c.s.chunking.bytes
	end := min(region+c.s.chunking.bytes, len(c.rest))
	from := max(begin, region)
	c.read(b, from, end-from+behindRegion)
	if begin == unknownBegin {
		at := c.guess(b.data[:end-from])
		if at == unknownBegin {
			return
		}
		x.at = from + at
		b.at, b.data = x.at, b.data[at:]
	}
	x.end = x.at + c.decodeRegion(x, b, end-x.at)
}

// empty removes what was decoded.
func (x *chunk) empty() {
	x.items, x.tasks, x.times = x.items[:0], x.tasks[:0], x.times[:0]
	if x.pokes != nil {
		x.pokes.Reset()
	}
}

// pokeRoom returns room for as many pokes.
func (x *chunk) pokeRoom(n int) []timeline.ShortPoke {
	if x.pokes == nil {
		return x.short[:n]
	}
	return x.pokes.Room(n)
}

// decodeRegion decodes the records of b that begin before end. It returns where the last one ends.
func (c *chunks) decodeRegion(x *chunk, b *buffer, end int) (at int) {
	run := new(item) // the newest item, of type 0 if it is not a run
	var like perfdata.PokeRun
	var likeSample perfdata.SampleRun
	for at < end {
		if like.Size > 0 {
			if at = c.pokesLike(x, run, &like, b.data[:end], at); at == end {
				break
			}
		}
		if run.typ == perfdata.RecordSample && likeSample.ID == run.id && likeSample.CPU == run.cpu {
			if at = c.samplesLike(x, run, &likeSample, b.data[:end], at); at == end {
				break
			}
		}
		size, h := 0, uint64(0)
		if c.has(b, at+8) {
			h = binary.LittleEndian.Uint64(b.data[at:])
			size = sizeOf(h)
		}
		if size == 0 || !c.has(b, at+size) {
			x.isLast = true
			break
		}
		raw := b.data[at : at+size : at+size]
		typ, mode := perfdata.RecordType(h), uint16(h>>32)&perfdata.MiscCPUModeMask
		var next *item
		if mode != perfdata.MiscGuestKernel && mode != perfdata.MiscGuestUser {
			switch typ {
			case perfdata.RecordTextPoke:
				next = c.poke(x, run, raw, at)
			case perfdata.RecordSample:
				next = c.sample(x, run, raw, at)
			}
		}
		if next == nil {
			next = x.item(item{at: at, records: 1})
		}
		run = next
		at += size
		run.end, run.lastLen = at, size
		if like.Size = 0; run.typ == perfdata.RecordTextPoke {
			like, _ = c.s.rec.PokeRun(raw)
		}
		if run.typ == perfdata.RecordSample && (likeSample.ID != run.id || likeSample.CPU != run.cpu) {
			likeSample, _ = c.s.rec.SampleRun(raw)
		}
	}
	return at
}

// pokesLike adds the text pokes from at on that are like the last one of the run. It returns where
// they end.
func (c *chunks) pokesLike(x *chunk, run *item, like *perfdata.PokeRun, data []byte, at int) int {
	before := run.records
	for len(data)-at >= like.Size {
		pokes := x.pokeRoom(min(decodedAtOnce, (len(data)-at)/like.Size))
		n, steps := like.Decode(data[at:], run.last, pokes)
		run.addShort(pokes[:n], steps)
		if c.places {
			for i := range pokes[:n] {
				raw := data[at+i*like.Size:][pokeBytes:]
				run.places.add(pokes[i].Addr, raw[:like.OldLen], raw[like.OldLen:][:like.NewLen])
			}
		}
		at += n * like.Size
		if x.pokes != nil {
			if c.reused {
				for i := range pokes[:n] {
					x.times = append(x.times, pokes[i].Time)
				}
				run.timesEnd = len(x.times)
			}
			run.kinds.AddShort(c.s.arch.machine, pokes[:n], like.OldLen, like.NewLen)
			x.pokes.PutShort(n, like.OldLen, like.NewLen, int(run.cpu))
			run.pokesEnd = x.pokes.Len()
		}
		if n < len(pokes) {
			break
		}
	}
	if run.records > before {
		run.end, run.lastLen = at, like.Size
	}
	return at
}

// samplesLike adds the samples from at on that are like the last one of the run. It returns where they
// end.
func (c *chunks) samplesLike(x *chunk, run *item, like *perfdata.SampleRun, data []byte, at int) int {
	for at < len(data) {
		n := like.Decode(data[at:], run.last, x.samples[:])
		last, before, longest, shortest := run.last, run.before, run.step, uint64(1)
		for i := range x.samples[:n] {
			p := &x.samples[i]
			longest, shortest = max(longest, p.Time-last), min(shortest, p.Time-last)
			before, last = last, p.Time
			at += int(p.Size)
			x.meet(run, p.TID, p.Time)
		}
		if n > 0 {
			run.records += n
			run.before, run.last, run.step, run.sameTime = before, last, longest, run.sameTime || shortest == 0
			run.end, run.lastLen = at, int(x.samples[n-1].Size)
		}
		if n < len(x.samples) {
			break
		}
	}
	return at
}

// meet notes that a thread has a sample at t, if it is the run's first one of the thread.
func (x *chunk) meet(run *item, tid uint32, t uint64) {
	if s := &x.seen[tid%seenTasks]; *s != (seenTask{tid, x.gen}) {
		*s = seenTask{tid, x.gen}
		x.tasks = append(x.tasks, taskTime{tid, t})
		run.tasksEnd = len(x.tasks)
	}
}

// decodedAtOnce is how many records are decoded in one loop: so many that the first-level cache has
// what was decoded still when it is counted.
const decodedAtOnce = 128

// item appends an item.
func (x *chunk) item(i item) *item {
	x.items = append(x.items, i) // no pointer to another one is used from here on
	return &x.items[len(x.items)-1]
}

// extends reports whether a record continues a run.
func (r *item) extends(typ perfdata.RecordType, id *perfdata.SampleID) bool {
	return r.typ == typ && r.id == id.ID && r.cpu == id.CPU && id.Time >= r.last
}

// add adds the time of a record to a run.
func (r *item) add(t uint64) {
	r.records++
	r.step, r.sameTime = max(r.step, t-r.last), r.sameTime || t == r.last
	r.before, r.last = r.last, t
}

// addShort is add for each of pokes.
func (r *item) addShort(pokes []timeline.ShortPoke, steps perfdata.Steps) {
	n := len(pokes)
	if n == 0 {
		return
	}
	if r.before = r.last; n > 1 {
		r.before = pokes[n-2].Time
	}
	r.records += n
	r.last, r.step, r.sameTime = pokes[n-1].Time, max(r.step, steps.Longest), r.sameTime || steps.Shortest == 0
}

// poke adds a text poke to the run, or to a new one. It returns nil if the poke
// is not plain. scan.passPoke decodes it in the same way.
func (c *chunks) poke(x *chunk, run *item, raw []byte, at int) *item {
	p := &x.plain
	if len(raw) > recordRoom || !c.s.rec.PlainTextPoke(raw, p) {
		return nil // larger ones are noted one by one, see scan.widest
	}
	if run.extends(perfdata.RecordTextPoke, &p.SampleID) && run.tid == p.TID {
		run.add(p.Time) // another record of this id and length was exact
	} else if p.Time == 0 || !c.s.rec.IsExact(raw) {
		return nil
	} else {
		run = x.item(item{at: at, typ: perfdata.RecordTextPoke, records: 1, id: p.ID, cpu: p.CPU, tid: p.TID, first: p.Time, last: p.Time, times: len(x.times)})
	}
	if x.pokes != nil {
		if c.reused {
			x.times = append(x.times, p.Time)
			run.timesEnd = len(x.times)
		}
		x.pokes.Put(p.Addr, p.Time, p.Old, p.New, int(p.CPU))
		run.pokesEnd = x.pokes.Len()
		run.kinds[patching.KindOfPoke(c.s.arch.machine, binary.LittleEndian, p.Old, p.New)]++
	}
	if c.places {
		run.places.add(p.Addr, p.Old, p.New)
	}
	return run
}

// sample is poke for samples.
func (c *chunks) sample(x *chunk, run *item, raw []byte, at int) *item {
	id := &x.plain.SampleID
	if !c.s.rec.PlainSample(raw, id) || !c.s.rec.IsExact(raw) {
		return nil
	}
	t := id.Time
	if run.extends(perfdata.RecordSample, id) {
		run.add(t)
	} else if t == 0 {
		return nil
	} else {
		n := len(x.tasks)
		run = x.item(item{at: at, typ: perfdata.RecordSample, records: 1, id: id.ID, cpu: id.CPU, first: t, last: t, tasks: n, tasksEnd: n})
		x.gen++
	}
	x.meet(run, id.TID, t)
	return run
}

// readChunks reads records in chunks, as far as they go. It reports how many it has read
// as runs.
func (s *scan) readChunks(sc *perfdata.Scanner, account func(bytes int)) (records int) {
	rest := sc.Rest()
	if len(rest) < s.chunking.least || !s.mayEnterRuns() {
		return 0
	}
	c := newChunks(s, rest, sc.RestReader())
	defer c.stop()
	for {
		x := c.take()
		if x == nil {
			return records
		}
		if x.failed != nil {
			panic(x.failed)
		}
		n, ok := s.readChunk(sc, c, x, account)
		records += n
		c.giveBack(x)
		if !ok {
			return records
		}
	}
}

// readChunk reads the records of a chunk. It reports how many it has entered as runs, and
// whether the next chunk can follow.
func (s *scan) readChunk(sc *perfdata.Scanner, c *chunks, x *chunk, account func(bytes int)) (records int, ok bool) {
	file := sc.Record().File
	add := pokeAdder{s.b, x.pokes, 0, 0}
	defer add.flush()
	for i := range x.items {
		r := &x.items[i]
		if s.enterRun(r, x, c.rest[x.at:], file) {
			add.enter(r)
			sc.Pass(r.end-r.at, r.lastLen)
			account(r.end - r.at)
			records += r.records
			s.inRuns += r.records
			continue
		}
		add.pass(r)
		for want := len(c.rest) - x.at - r.end; len(sc.Rest()) > want; {
			if !sc.Next() {
				return records, false
			}
			rec := sc.Record() // where the file is damaged, it may be one far behind
			s.stepBetween(rec, &add)
			account(len(rec.Raw))
		}
		if len(sc.Rest()) != len(c.rest)-x.at-r.end || sc.Record().File != file {
			return records, false
		}
	}
	return records, records >= s.chunking.run*(len(x.items)-1)
}

// A pokeAdder adds the pokes of a chunk to the builder: those of the runs that were entered, as many at
// a time as follow one another.
type pokeAdder struct {
	b              *timeline.Builder
	pokes          *timeline.Pokes
	added, entered int // of the pokes; those between are of runs that were entered
}

// enter notes that a run was entered.
func (a *pokeAdder) enter(r *item) {
	if r.typ == perfdata.RecordTextPoke {
		a.entered = r.pokesEnd
	}
}

// pass passes the pokes of a run that was not entered.
func (a *pokeAdder) pass(r *item) {
	if r.typ == perfdata.RecordTextPoke {
		a.flush()
		a.added, a.entered = r.pokesEnd, r.pokesEnd
	}
}

// flush adds the pokes of the runs that were entered.
func (a *pokeAdder) flush() {
	if a.added < a.entered {
		a.b.Add(a.pokes, a.added, a.entered)
		a.added = a.entered
	}
}

// stepBetween is step for a record between runs.
func (s *scan) stepBetween(rec *perfdata.Record, add *pokeAdder) {
	if rec.Type == perfdata.RecordTextPoke || rec.Type == perfdata.RecordSample {
		add.flush() // before the record adds its own
	}
	s.step(rec)
}

// mayEnterRuns reports whether enterRun can succeed for any run.
func (s *scan) mayEnterRuns() bool {
	return s.located && s.machine == 0 && !s.guests.ids && s.rec.HasPlain() && s.codeReads == nil
}

// enterRun does what passPoke or passSample does for each record of a run, but for the
// pokes, which the caller adds. If the run is not plain, or an item is no run, it does nothing and
// returns false.
func (s *scan) enterRun(r *item, x *chunk, data []byte, file int) bool {
	if r.typ == 0 || !s.mayEnterRuns() || file >= len(s.files) {
		return false
	}
	isSample := r.typ == perfdata.RecordSample
	q := &s.pokes
	if isSample {
		q = &s.samples
	}
	if !q.find(s, r.id, r.typ) {
		return false
	}
	ch := q.ch
	buf := ch.buffer
	if ch.pinned && ch.cpu != int64(r.cpu) || buf.backward || r.first < buf.last || buf.second == 0 {
		return false
	}
	if !isSample && (r.first < max(buf.side, buf.copied) || r.first < buf.tasks.newest) {
		return false
	}
	ch.see(r.first, isSample)
	ch.see(r.last, isSample)
	s.counts[r.typ] += uint64(r.records)
	buf.round += uint64(r.end - r.at)
	buf.seeRun(r, isSample)
	s.passTime(r.first, r.last)
	s.report.First = min(s.report.First, r.first)
	s.files[file].see(r.first, isSample)
	s.files[file].see(r.last, isSample)
	if isSample {
		for _, t := range x.tasks[r.tasks:r.tasksEnd] {
			s.tasks.meet(t.tid, t.time)
		}
		return true
	}
	s.tasks.meet(r.tid, r.first)
	s.waiter.meet(r.tid, r.first)
	for kind, n := range r.kinds {
		s.report.Pokes.count(timeline.PokeKind(kind), uint64(n))
	}
	reused := r.times < r.timesEnd
	switch {
	case reused:
		buf.tasks.seeAll(x.times[r.times:r.timesEnd])
	case r.records == 1:
		buf.tasks.see(r.last)
	case r.records == 2:
		buf.tasks.see(r.first)
		buf.tasks.see(r.last)
	default:
		buf.tasks.wait(timesInFile{pokes: pokeRecords{s.rec, data[r.at:r.end]}, n: r.records}, r.last)
	}
	if r.records >= s.chunking.keep && (reused || s.keepPlaced) {
		s.again.runs++
		s.again.records += uint64(r.records)
	}
	if s.keepPlaced {
		s.placed.keep(s, r, data[r.at:r.end], reused)
	}
	return true
}

// seeRun is see for each record of a run. None is older than what r has seen.
func (b *ringBuffer) seeRun(r *item, isSample bool) {
	b.see(r.first, isSample)
	if r.records == 1 {
		return
	}
	if !isSample {
		b.sideBefore, b.side = r.before, r.last
	}
	b.longest, b.last = max(b.longest, r.step), r.last
}
