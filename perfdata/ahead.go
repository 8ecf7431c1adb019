// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// An AheadScanner returns the same records as the [Scanner] that it runs in another goroutine.
// That goroutine finds, checks and decompresses the next records while the caller uses these.
// It is faster if there is a second CPU and the caller does some work for each record.
//
//	s := rec.Scan().Ahead()
//	for s.Next() {
//		use(s.Record())
//	}
//	if err := s.Err(); err != nil { ... }
//
// The other goroutine runs only while few records wait for the caller, and does not wait
// for anything, so none is left behind if the caller stops early. But the recording must
// not be closed until Stop has returned. An AheadScanner serves one goroutine.
type AheadScanner struct {
	s   *Scanner
	rec Record

	batch *aheadBatch // the batch that the caller reads
	next  int         // index in batch.records of the next record

	onFault bool // the caller's debug.SetPanicOnFault, which the other goroutine copies
	lock    sync.Mutex
	changed sync.Cond // signals that one of the following has changed
	full    []*aheadBatch
	empty   []*aheadBatch
	running bool // the other goroutine runs
	stopped bool // no further batch will be filled
	failed  any  // what the other goroutine panicked with

	unload atomic.Bool // the other goroutine is to call Scanner.Unload
}

// An aheadBatch is successive records.
type aheadBatch struct {
	records []aheadRecord
	copies  []byte // the bytes of records that were decompressed or read from a stream
	err     error  // Scanner.Err at the end of these records
	damage  error  // Scanner.Damage at the end of these records
	last    bool   // there are no more
}

// An aheadRecord is a Record whose bytes are elsewhere.
type aheadRecord struct {
	offset int64 // Record.Offset
	size   uint32
	typ    RecordType
	misc   uint16
	file   int32
	copied int32 // offset of the bytes in copies; below 0: they are at offset in the file
}

const (
	aheadRecords = 2048      // the most records of a batch
	aheadBytes   = 256 << 10 // a batch ends when its copies have this many bytes
	aheadBatches = 3         // the most batches that wait for the caller
)

// Ahead returns an [AheadScanner] that continues after the current record. s must not be
// used any more.
func (s *Scanner) Ahead() *AheadScanner {
	a := &AheadScanner{s: s, batch: new(aheadBatch)}
	a.changed.L = &a.lock
	a.onFault = debug.SetPanicOnFault(false)
	debug.SetPanicOnFault(a.onFault)
	return a
}

// Next goes to the next record and reports whether there is one.
func (a *AheadScanner) Next() bool {
	for a.next == len(a.batch.records) {
		if a.batch.last {
			return false
		}
		a.take()
	}
	x := &a.batch.records[a.next]
	a.next++
	a.rec.Type, a.rec.Misc, a.rec.File, a.rec.Offset = x.typ, x.misc, int(x.file), x.offset
	if x.copied < 0 {
		end := x.offset + int64(x.size)
		a.rec.Raw = a.s.r.files[x.file].data[x.offset:end:end]
	} else {
		end := int(x.copied) + int(x.size)
		a.rec.Raw = a.batch.copies[x.copied:end:end]
	}
	return true
}

// Record returns the record that the last call of [AheadScanner.Next] came to. The next
// call fills the same Record again, and may overwrite Raw of a record that was compressed.
func (a *AheadScanner) Record() *Record { return &a.rec }

// Err returns what [Scanner.Err] does, at the end of the records.
func (a *AheadScanner) Err() error { return a.batch.err }

// Damage returns what [Scanner.Damage] does. It may know of damage that is a few
// thousand records ahead.
func (a *AheadScanner) Damage() error { return a.batch.damage }

// Unload does what [Scanner.Unload] does, soon.
func (a *AheadScanner) Unload() { a.unload.Store(true) }

// Stop ends the reading ahead. It need not be called after Next has returned false.
func (a *AheadScanner) Stop() {
	a.lock.Lock()
	defer a.lock.Unlock()
	a.stopped = true
	for a.running {
		a.changed.Wait()
	}
}

// take takes the next batch, and lets the other goroutine go on.
func (a *AheadScanner) take() {
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.batch.records != nil {
		a.empty = append(a.empty, a.batch)
	}
	for {
		if !a.running && !a.stopped && len(a.full) < aheadBatches {
			a.running = true
			go a.read()
		}
		switch {
		case len(a.full) > 0:
			a.batch, a.next = a.full[0], 0
			a.full = append(a.full[:0], a.full[1:]...)
			return
		case a.failed != nil:
			panic(a.failed)
		case a.stopped && !a.running:
			a.batch, a.next = &aheadBatch{last: true, err: a.batch.err, damage: a.batch.damage}, 0
			return
		}
		a.changed.Wait()
	}
}

// read fills batches, as long as there is room for them.
func (a *AheadScanner) read() {
	debug.SetPanicOnFault(a.onFault)
	a.lock.Lock()
	defer func() {
		if r := recover(); r != nil {
			a.lock.Lock()
			a.failed, a.stopped = r, true
		}
		a.running = false
		a.changed.Broadcast()
		a.lock.Unlock()
	}()
	for !a.stopped && len(a.full) < aheadBatches {
		b := new(aheadBatch)
		if n := len(a.empty); n > 0 {
			b, a.empty = a.empty[n-1], a.empty[:n-1]
		}
		a.lock.Unlock()
		if a.unload.CompareAndSwap(true, false) {
			a.s.Unload()
		}
		b.fill(a.s)
		a.lock.Lock()
		a.full = append(a.full, b)
		a.stopped = a.stopped || b.last
		a.changed.Broadcast()
	}
}

// fill fills a batch with the next records.
func (b *aheadBatch) fill(s *Scanner) {
	b.copies, b.last = b.copies[:0], false
	records := b.records[:0]
	for len(records) < aheadRecords && len(b.copies) < aheadBytes {
		if b.last = !s.Next(); b.last {
			break
		}
		rec := &s.rec
		records = append(records, aheadRecord{rec.Offset, uint32(len(rec.Raw)), rec.Type, rec.Misc, int32(rec.File), -1})
		data := s.r.files[rec.File].data
		if end := rec.Offset + int64(len(rec.Raw)); end > int64(len(data)) || &data[rec.Offset] != &rec.Raw[0] {
			records[len(records)-1].copied = int32(len(b.copies))
			b.copies = append(b.copies, rec.Raw...)
		}
	}
	b.records, b.err, b.damage = records, s.Err(), s.damage
}
