// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"runtime"
	"runtime/debug"
	"sync"

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
// The scan goes through the chunks in the order of the file. It enters a run in a few
// steps (enterRun), if everything about it is plain. Otherwise, and for all other records,
// it does what it always does (step), and its Scanner decides what is a record. So the
// chunks change nothing but the speed: if the Scanner is not where the next chunk
// begins, the chunks are given up.

// A chunk is some successive records of a file.
type chunk struct {
	at, end int // in chunks.rest
	items   []item
	pokes   *timeline.Pokes
	tasks   []taskTime        // of runs of samples
	failed  any               // what the goroutine panicked with
	plain   perfdata.TextPoke // PlainTextPoke and PlainSample set some of its fields

	samples [decodedAtOnce]perfdata.ShortSample // scratch

	seen [seenTasks]seenTask
	gen  uint32 // counts runs, over all uses of the chunk
}

// A chunking says how large chunks are, and when they pay.
type chunking struct {
	records, bytes int // of a chunk at most
	least          int // how many bytes must follow
	run            int // records that a run must have on average
	keep           int // the least number of records in a run whose pokes are decoded later
}

var usualChunking = chunking{records: 1 << 12, bytes: 1 << 18, least: 1 << 20, run: 4, keep: 16}

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

	pokes, pokesEnd int // in chunk.pokes
	kinds           [timeline.PokeRemoved + 1]uint32
	places          pokePlaces
	tasks, tasksEnd int // in chunk.tasks
}

// chunks decodes the chunks of a file, as many at the same time as there are CPUs.
type chunks struct {
	s     *scan
	rest  []byte
	width int // how many goroutines decode besides the caller

	onFault bool
	group   sync.WaitGroup
	walking sync.Mutex // is held by whoever finds the end of a chunk
	lock    sync.Mutex
	changed sync.Cond // signals that one of the following has changed
	next    int       // where in rest the next chunk begins
	touched int       // up to where in rest memory was touched
	sum     int       // what touch returned
	begun   int       // how many chunks were begun, and how many were handed over
	taken   int
	ended   bool // no chunk follows the begun ones
	ready   map[int]*chunk
	free    []*chunk
}

// newChunks returns the chunks of rest, which a Scanner has ahead.
func newChunks(s *scan, rest []byte) *chunks {
	c := &chunks{s: s, rest: rest, ready: make(map[int]*chunk), free: s.freeChunks}
	c.changed.L = &c.lock
	c.width = runtime.GOMAXPROCS(0) - 1
	c.onFault = debug.SetPanicOnFault(false)
	debug.SetPanicOnFault(c.onFault)
	for range c.width {
		c.group.Go(c.work)
	}
	return c
}

// work decodes chunks until there are no more.
func (c *chunks) work() {
	debug.SetPanicOnFault(c.onFault)
	c.lock.Lock()
	defer c.lock.Unlock()
	for {
		for c.isFarAhead() && !c.ended {
			c.changed.Wait()
		}
		if !c.decodeNext() {
			return
		}
	}
}

// isFarAhead reports whether so many chunks wait to be taken that no more are decoded.
func (c *chunks) isFarAhead() bool { return c.begun-c.taken > 3*c.width+1 }

// decodeNext decodes the next chunk. It returns false if there is none. The lock is held
// when it is called and when it returns.
func (c *chunks) decodeNext() bool {
	if c.ended {
		return false
	}
	from := max(c.touched, c.next)
	c.touched = from + c.s.chunking.bytes
	c.lock.Unlock()
	n := c.touch(from)
	x, k := c.begin()
	if x != nil {
		c.decode(x)
	}
	c.lock.Lock()
	c.sum += n
	if x == nil {
		return false
	}
	c.ready[k] = x
	c.changed.Broadcast()
	return true
}

// touch loads the next lines of memory that will be needed. To find the end of a record takes
// its size, so whoever goes from record to record waits for each line; these loads wait
// for nothing. It returns a number so that the loads are not left out.
func (c *chunks) touch(from int) (sum int) {
	defer func() {
		recover() // the file was cut short: whoever needs the bytes finds out
	}()
	const cacheLine = 64
	b := c.rest[min(from, len(c.rest)):min(from+c.s.chunking.bytes, len(c.rest))]
	for ; len(b) >= 4*cacheLine; b = b[4*cacheLine:] {
		sum += int(b[0]) + int(b[cacheLine]) + int(b[2*cacheLine]) + int(b[3*cacheLine])
	}
	return sum
}

// begin begins the next chunk, finds its end, and returns the chunk's number. It returns nil if there
// is none. One goroutine at a time goes from record to record; the others need not wait for it to
// take chunks or to decode them.
func (c *chunks) begin() (x *chunk, k int) {
	c.walking.Lock()
	defer c.walking.Unlock()
	c.lock.Lock()
	if c.ended {
		c.lock.Unlock()
		return nil, 0
	}
	if n := len(c.free); n > 0 {
		x, c.free = c.free[n-1], c.free[:n-1]
	} else {
		x = &chunk{pokes: c.s.b.NewPokes()}
	}
	k = c.begun
	x.at, x.end, x.failed = c.next, c.next, nil
	c.lock.Unlock()
	isLast := c.findEnd(x)
	c.lock.Lock()
	defer c.lock.Unlock()
	c.next = x.end
	c.begun++
	if isLast {
		c.ended = true
		c.changed.Broadcast()
	}
	return x, k
}

// findEnd sets the end of a chunk. It reports whether no chunk follows.
func (c *chunks) findEnd(x *chunk) (isLast bool) {
	defer func() {
		if r := recover(); r != nil {
			x.failed = r
			isLast = true
		}
	}()
	last, lastSize := uint64(0), 0 // the header of the record before
	for n := 0; n < c.s.chunking.records && x.end-x.at < c.s.chunking.bytes; n++ {
		b := c.rest[x.end:]
		if len(b) < 8 {
			return true
		}
		h := binary.LittleEndian.Uint64(b)
		if h == last && 0 < lastSize && lastSize <= len(b) {
			x.end += lastSize // so a CPU need not wait for h before it loads the next one
			continue
		}
		size := int(h >> 48)
		if size < 8 || size&7 != 0 || size > len(b) || uint32(h) >= 64 && (uint32(h) != uint32(perfdata.RecordFinishedRound) || size != 8) {
			return true
		}
		x.end += size
		last, lastSize = h, size
	}
	return false
}

// take returns the next chunk, nil if there is none. It is valid until it is given back.
// While another goroutine decodes it, the caller decodes later ones instead of waiting.
func (c *chunks) take() *chunk {
	c.lock.Lock()
	defer c.lock.Unlock()
	for {
		if x := c.ready[c.taken]; x != nil {
			delete(c.ready, c.taken)
			c.taken++
			c.changed.Broadcast()
			return x
		}
		if c.ended && c.taken == c.begun {
			return nil
		}
		if c.isFarAhead() || !c.decodeNext() {
			if c.ended && c.taken == c.begun || c.ready[c.taken] != nil {
				continue
			}
			c.changed.Wait()
		}
	}
}

// giveBack lets a chunk be used again.
func (c *chunks) giveBack(x *chunk) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.free = append(c.free, x)
}

// stop returns when no goroutine uses the recording.
func (c *chunks) stop() {
	c.lock.Lock()
	c.ended = true
	c.changed.Broadcast()
	c.lock.Unlock()
	c.group.Wait()
	for _, x := range c.ready {
		c.free = append(c.free, x)
	}
	c.s.freeChunks = c.free
}

// decode finds the runs of a chunk.
func (c *chunks) decode(x *chunk) {
	defer func() {
		if r := recover(); r != nil {
			x.failed = r
		}
	}()
	if x.failed != nil {
		return
	}
	x.items, x.tasks = x.items[:0], x.tasks[:0]
	x.pokes.Reset()
	data := c.rest[x.at:x.end]
	run := new(item) // the newest item, of type 0 if it is not a run
	var like perfdata.PokeRun
	var likeSample perfdata.SampleRun
	for at := 0; at < len(data); {
		if like.Size > 0 {
			if at = c.pokesLike(x, run, &like, data, at); at == len(data) {
				break
			}
		}
		if run.typ == perfdata.RecordSample && likeSample.ID == run.id && likeSample.CPU == run.cpu {
			if at = c.samplesLike(x, run, &likeSample, data, at); at == len(data) {
				break
			}
		}
		h := binary.LittleEndian.Uint64(data[at:])
		size := int(h >> 48)
		raw := data[at : at+size : at+size]
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
}

// pokesLike adds the text pokes from at on that are like the last one of the run. It returns where
// they end.
func (c *chunks) pokesLike(x *chunk, run *item, like *perfdata.PokeRun, data []byte, at int) int {
	before := run.records
	for len(data)-at >= like.Size {
		pokes := x.pokes.Room(min(decodedAtOnce, (len(data)-at)/like.Size))
		n := like.Decode(data[at:], run.last, pokes)
		run.addShort(pokes[:n])
		for i := range pokes[:n] {
			run.kinds[patching.KindOfShort(c.s.arch.machine, pokes[i].Old, pokes[i].New, like.OldLen, like.NewLen)]++
		}
		if c.s.keepPlaced {
			for i := range pokes[:n] {
				raw := data[at+i*like.Size:][pokeBytes:]
				run.places.add(pokes[i].Addr, raw[:like.OldLen], raw[like.OldLen:][:like.NewLen])
			}
		}
		at += n * like.Size
		x.pokes.PutShort(n, like.OldLen, like.NewLen, int(run.cpu))
		if n < len(pokes) {
			break
		}
	}
	if run.records > before {
		run.pokesEnd = x.pokes.Len()
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
func (r *item) addShort(pokes []timeline.ShortPoke) {
	last, before, longest, shortest := r.last, r.before, r.step, uint64(1)
	for i := range pokes {
		t := pokes[i].Time
		longest, shortest = max(longest, t-last), min(shortest, t-last)
		before, last = last, t
	}
	r.records += len(pokes)
	r.before, r.last, r.step, r.sameTime = before, last, longest, r.sameTime || shortest == 0
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
		run = x.item(item{at: at, typ: perfdata.RecordTextPoke, records: 1, id: p.ID, cpu: p.CPU, tid: p.TID, first: p.Time, last: p.Time, pokes: x.pokes.Len()})
	}
	x.pokes.Put(p.Addr, p.Time, p.Old, p.New, int(p.CPU))
	run.pokesEnd = x.pokes.Len()
	run.kinds[patching.KindOfPoke(c.s.arch.machine, binary.LittleEndian, p.Old, p.New)]++
	if c.s.keepPlaced {
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
	c := newChunks(s, rest)
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
	added, entered := 0, 0 // of the pokes; those between are of runs that were entered
	add := func() {
		if added < entered {
			s.b.Add(x.pokes, added, entered)
			added = entered
		}
	}
	defer add()
	for i := range x.items {
		r := &x.items[i]
		isPoke := r.typ == perfdata.RecordTextPoke
		if isPoke || r.typ == perfdata.RecordSample {
			if s.enterRun(r, x, c.rest[x.at:], file) {
				if isPoke {
					entered = r.pokesEnd
				}
				sc.Pass(r.end-r.at, r.lastLen)
				account(r.end - r.at)
				records += r.records
				s.inRuns += r.records
				continue
			}
		}
		if isPoke {
			add()
			added, entered = r.pokesEnd, r.pokesEnd
		}
		for want := len(c.rest) - x.at - r.end; len(sc.Rest()) > want; {
			if !sc.Next() {
				return records, false
			}
			rec := sc.Record() // where the file is damaged, it may be one far behind
			if mayPoke(rec.Type) {
				add() // before the record adds its own
			}
			s.step(rec)
			account(len(rec.Raw))
		}
		if len(sc.Rest()) != len(c.rest)-x.at-r.end || sc.Record().File != file {
			return records, false
		}
	}
	return records, records >= s.chunking.run*(len(x.items)-1)
}

// mayPoke reports whether a record of a type may add a poke to the image.
func mayPoke(typ perfdata.RecordType) bool {
	return typ == perfdata.RecordTextPoke || typ == perfdata.RecordSample
}

// mayEnterRuns reports whether enterRun can succeed for any run.
func (s *scan) mayEnterRuns() bool {
	return s.located && s.machine == 0 && !s.guests.ids && s.rec.HasPlain() && s.codeReads == nil
}

// enterRun does what passPoke or passSample does for each record of a run, but for the
// pokes, which the caller adds. If the run is not plain it does nothing and returns false.
func (s *scan) enterRun(r *item, x *chunk, data []byte, file int) bool {
	if !s.mayEnterRuns() || file >= len(s.files) {
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
	if !isSample && (r.first < buf.side || r.first < buf.tasks.newest) {
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
	for kind, n := range r.kinds {
		s.report.Pokes.count(timeline.PokeKind(kind), uint64(n))
	}
	buf.tasks.wait(timesInFile{pokes: pokeRecords{s.rec, data[r.at:r.end]}, n: r.records}, r.last)
	if s.keepPlaced {
		s.placed.keep(s, r, data[r.at:r.end])
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
