// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"

	"github.com/textreplay/textreplay/perfdata"
)

// Records that were compressed are in no file, so there are no regions for goroutines to begin at. One
// goroutine at a time decompresses them into batches, and others find the runs of the batches, as in
// chunks of a file:
//
//	file    │ COMPRESSED           │ ROUND │ COMPRESSED  │ ...
//	batch   │ whole records, one behind the other ... │
//	parts   │      │ poke poke poke│       │      │ poke │
//	        └ of the file           └ of the file  └ what was compressed in it
//	runs           │ run           │              │ run │
//
// The scan goes through the batches in the order of the file, as through chunks. What it keeps of a run
// it copies: the batch is used again. So does who reads the recording once more (secondpass.go).

// A batch is successive records, and the runs among those that were compressed.
type batch struct {
	chunk
	room  []byte // what was decompressed, and copies of records of the file
	parts []part
	plain bool // no runs are to be found

	decoded bool // the runs are found, or plain is set
	taken   bool // somebody finds them
	last    bool // there are no more records
}

// A part is one record of the file, or all records at [at, end) of batch.room that were compressed in one.
type part struct {
	rec             perfdata.Record // Raw is nil if they were compressed
	at, end         int
	trace           int // bytes of the trace that follows the record
	items, itemsEnd int
}

const (
	batchParts = 1 << 12 // the most parts of a batch
	// mostPlain is how many batches in a row are read record by record, where runs are too short to pay,
	// before it is tried again.
	mostPlain = 1 << 8
)

// A batchQueue has the batches of a Scanner, from its current record on.
type batchQueue struct {
	s       *scan
	sc      *perfdata.Scanner
	again   bool  // the image has the records already
	places  bool  // of each run of pokes it is summed up what they change
	singly  bool  // no runs are looked for
	unloads bool  // memory of the file is released
	unload  int64 // offset in the file from which that is done next

	crew
	// These are used with its lock.
	queue   []*batch // in the order of the file; those at the end may be not decoded
	reading bool     // somebody reads the next batch
	plain   int      // how many of the next ones are plain
	wait    int      // how many will be if the next one does not pay
	free    []*batch
}

func newBatchQueue(s *scan, sc *perfdata.Scanner) *batchQueue {
	c := &batchQueue{s: s, sc: sc, places: s.keepPlaced, unloads: sizeOfRecords(s.rec) > unloadAbove, wait: 1}
	c.crew.init()
	return c
}

// work reads and decodes batches until there are no more. The lock is held.
func (c *batchQueue) work() {
	for {
		switch x := c.undecoded(); {
		case c.mayRead():
			c.readNext()
		case x != nil:
			c.decode(x)
		case c.ended && !c.reading:
			return
		default:
			c.changed.Wait()
		}
	}
}

// mayRead reports whether the next batch should be read, and nobody reads it. The lock is held.
func (c *batchQueue) mayRead() bool { return !c.reading && !c.ended && !c.isFarAhead(len(c.queue)) }

// undecoded returns the first batch whose runs nobody looks for yet, nil if there is none. The lock is held.
func (c *batchQueue) undecoded() *batch {
	for _, x := range c.queue {
		if !x.taken {
			return x
		}
	}
	return nil
}

// take returns the next batch, nil if there is none. It is valid until it is given back. While another
// goroutine works on it, the caller works on later ones instead of waiting.
func (c *batchQueue) take() *batch {
	c.lock.Lock()
	defer c.lock.Unlock()
	for {
		if len(c.queue) > 0 && c.queue[0].decoded {
			x := c.queue[0]
			c.queue = append(c.queue[:0], c.queue[1:]...)
			if c.width == 0 && !c.ended {
				c.start(c.work) // not before: where one batch is the last, nothing was in vain
			}
			c.changed.Broadcast()
			return x
		}
		switch x := c.undecoded(); {
		case x != nil:
			c.decode(x)
		case c.mayRead():
			c.readNext()
		case c.ended && !c.reading && len(c.queue) == 0:
			return nil
		default:
			c.changed.Wait()
		}
	}
}

// giveBack lets a batch be used again. records is how many of its records were entered as runs.
func (c *batchQueue) giveBack(x *batch, records int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	switch {
	case x.plain:
	case records >= c.s.chunking.run*(len(x.items)-1):
		c.wait = 1
	default:
		c.plain, c.wait = c.wait, min(2*c.wait, mostPlain)
	}
	c.free = append(c.free, x)
}

// readNext reads the next batch. The lock is held when it is called and when it returns.
func (c *batchQueue) readNext() {
	var x *batch
	if n := len(c.free); n > 0 {
		x, c.free = c.free[n-1], c.free[:n-1]
	} else if x = new(batch); !c.again {
		x.pokes = c.s.b.NewPokes()
	}
	x.plain = c.singly || c.plain > 0
	c.plain = max(c.plain-1, 0)
	c.reading = true
	c.lock.Unlock()
	x.read(c.sc, c.s.chunking.batch)
	c.release()
	c.lock.Lock()
	c.reading = false
	c.ended = c.ended || x.last
	x.taken = x.plain || x.failed != nil
	x.decoded = x.taken
	c.queue = append(c.queue, x)
	c.changed.Broadcast()
}

// release releases what the mapped file takes of memory, now and then.
func (c *batchQueue) release() {
	at := c.sc.Record().Offset
	if !c.unloads || at < c.unload && at >= c.unload-unloadStep {
		return
	}
	c.sc.Unload()
	c.unload = at + unloadStep
}

// decode finds the runs of a batch. The lock is held when it is called and when it returns.
func (c *batchQueue) decode(x *batch) {
	x.taken = true
	c.lock.Unlock()
	x.findRuns(c.s, c.places)
	c.lock.Lock()
	x.decoded = true
	c.changed.Broadcast()
}

// read fills a batch with the next records, up to about n bytes.
func (x *batch) read(sc *perfdata.Scanner, n int) {
	defer func() {
		if r := recover(); r != nil {
			x.failed, x.last = r, true
		}
	}()
	x.failed, x.last = nil, false
	x.room, x.parts = x.room[:0], x.parts[:0]
	x.empty()
	for len(x.room) < n && len(x.parts) < batchParts {
		at := len(x.room)
		if x.room = sc.Inside(x.room); len(x.room) > at {
			rec := *sc.Record()
			rec.Raw = nil
			x.parts = append(x.parts, part{rec: rec, at: at, end: len(x.room)})
			continue
		}
		if x.last = !sc.Next(); x.last {
			break
		}
		p := part{rec: *sc.Record(), trace: len(sc.Payload())}
		if !isCompressed(p.rec.Type) { // only their size counts
			x.room = append(x.room, p.rec.Raw...)
			p.rec.Raw = x.room[at:len(x.room):len(x.room)]
		}
		x.parts = append(x.parts, p)
	}
}

// findRuns finds the runs of the parts that were compressed. places says that it sums up what their pokes
// change.
func (x *batch) findRuns(s *scan, places bool) {
	defer func() {
		if r := recover(); r != nil {
			x.failed = r
		}
	}()
	for i := range x.parts {
		p := &x.parts[i]
		p.items, p.itemsEnd = len(x.items), len(x.items)
		if p.rec.Raw == nil {
			data := x.room[p.at:p.end]
			c := chunks{s: s, rest: data, reused: true, places: places}
			c.decodeRegion(&x.chunk, &buffer{data: data}, len(data))
			p.itemsEnd = len(x.items)
		}
	}
}

// isCompressed reports whether records of a type have others in them.
func isCompressed(typ perfdata.RecordType) bool {
	return typ == perfdata.RecordCompressed || typ == perfdata.RecordCompressed2
}

// readBatches reads all further records.
func (s *scan) readBatches(sc *perfdata.Scanner, account func(bytes int)) {
	c := newBatchQueue(s, sc)
	defer c.stop() // before the recording can be closed
	for x := c.take(); x != nil; x = c.take() {
		if x.failed != nil {
			panic(x.failed)
		}
		c.giveBack(x, s.readBatch(x, account))
	}
}

// readBatch reads the records of a batch. It reports how many it has entered as runs.
func (s *scan) readBatch(x *batch, account func(bytes int)) (records int) {
	add := pokeAdder{s.b, x.pokes, 0, 0}
	defer add.flush()
	x.each(s.rec.ByteOrder(), func(r *item, data []byte, file int) bool {
		if !s.enterRun(r, &x.chunk, data, file) {
			add.pass(r)
			return false
		}
		add.enter(r)
		records += r.records
		return true
	}, func(rec *perfdata.Record, bytes int) bool {
		s.stepBetween(rec, &add)
		if bytes > 0 {
			account(bytes)
		}
		return true
	})
	s.inRuns += records
	return records
}

// each hands over what a batch has, in the order of the file. enter takes the records of an item as a whole,
// or returns false. They are in data, as the item says. step gets each other record, and how many bytes of
// the file it took: 0 if it was compressed. If step returns false, each ends, and returns false.
func (x *batch) each(order binary.ByteOrder, enter func(r *item, data []byte, file int) bool, step func(rec *perfdata.Record, bytes int) bool) bool {
	for i := range x.parts {
		p := &x.parts[i]
		if p.rec.Raw != nil {
			if !step(&p.rec, len(p.rec.Raw)+p.trace) {
				return false
			}
			continue
		}
		rec, data, at := p.rec, x.room[p.at:p.end], 0
		for j := p.items; j < p.itemsEnd; j++ {
			r := &x.items[j]
			if !enter(r, data, rec.File) && !eachInside(order, &rec, data[at:r.end], step) {
				return false
			}
			at = r.end
		}
		if !eachInside(order, &rec, data[at:], step) {
			return false
		}
	}
	return true
}

// eachInside calls step for each record in data, until it returns false. rec has their file and offset.
func eachInside(order binary.ByteOrder, rec *perfdata.Record, data []byte, step func(rec *perfdata.Record, bytes int) bool) bool {
	for len(data) > 0 {
		size := int(order.Uint16(data[6:]))
		rec.Type, rec.Misc, rec.Raw = perfdata.RecordType(order.Uint32(data)), order.Uint16(data[4:]), data[:size:size]
		if !step(rec, 0) {
			return false
		}
		data = data[size:]
	}
	return true
}
