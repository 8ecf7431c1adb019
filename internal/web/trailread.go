// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"runtime/debug"
	"slices"
	"time"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
)

// A comm is a record that gives a thread its name.
type comm struct {
	time     uint64
	before   uint32 // how many pokes are before it in the recording
	tid, old uint32 // a FORK: the thread has old's name
	name     string // a COMM
	fork     bool
}

// A thread is the pid and tid of a record.
type thread struct {
	pid, tid uint32
	known    bool
}

// A trailLimits is how many of each a trail has at most.
type trailLimits struct {
	pokes, events int
	probed        int // bytes
	writers       int
}

// unloading calls unload each millisecond until stop is called. So the pages of files that a
// request reads meanwhile do not stay in the process's memory. stop must be called once.
func unloading(unload func()) (stop func()) {
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				unload()
				return
			case <-tick.C:
				unload()
			}
		}
	}()
	return func() { close(done); <-ended }
}

// A trailReader makes the columns.
type trailReader struct {
	*trail
	limits  trailLimits
	thread  []uint16 // a column: index in all
	sum     []uint32 // a column: hash of the old and new bytes
	comms   []comm
	events  []pendingEvent
	place   map[uint64]uint32 // address: index in sites
	all     []thread
	numbers map[thread]uint16 // index in all
	seed    maphash.Seed
	by      *mechanism.Classifier

	id   perfdata.SampleID
	poke perfdata.TextPoke
}

// A pendingEvent is an event whose writer has no name yet.
type pendingEvent struct {
	event
	thread thread
	before uint32
}

func newTrailReader(t *trail, limits trailLimits) *trailReader {
	n := min(t.r.Report.Records[perfdata.RecordTextPoke], uint64(limits.pokes), uint64(t.r.Recording.Size())/32)
	t.time, t.site, t.at = make([]uint64, 0, n), make([]uint32, 0, n), make([]uint32, 0, n)
	t.cpu, t.kind, t.class = make([]uint16, 0, n), make([]uint8, 0, n), make([]uint8, 0, n)
	return &trailReader{trail: t, limits: limits, thread: make([]uint16, 0, n), sum: make([]uint32, 0, n), place: make(map[uint64]uint32), numbers: make(map[thread]uint16), seed: maphash.MakeSeed(), by: mechanism.NewClassifier(t.r, nil)}
}

func (p *trailReader) read(rec *perfdata.Record) {
	r := p.r
	if r.Recording.SampleID(rec, &p.id) != nil {
		return
	}
	switch rec.Type {
	case perfdata.RecordComm, perfdata.RecordFork:
		if r.MachineOf(rec, &p.id) == r.Report.Guest {
			p.readName(rec)
		}
		return
	}
	if !r.IsChange(rec, &p.id) {
		return
	}
	switch rec.Type {
	case perfdata.RecordTextPoke:
		p.readPoke(rec)
	case perfdata.RecordKSymbol:
		var k perfdata.KSymbol
		if r.Recording.KSymbol(rec, &k) == nil {
			p.addEvent(event{time: p.id.Time, kind: eventSymbol, addr: k.Addr, n: uint64(k.Len), name: string(k.Name),
				number: uint64(k.Kind), up: k.Flags&perfdata.KSymbolUnregister == 0})
		}
	case perfdata.RecordBPFEvent:
		var b perfdata.BPFEvent
		if r.Recording.BPFEvent(rec, &b) == nil {
			p.addEvent(event{time: p.id.Time, kind: eventBPF, number: uint64(b.ID), up: b.Kind == perfdata.BPFLoad, tag: b.Tag})
		}
	}
}

func (p *trailReader) readName(rec *perfdata.Record) {
	c := comm{time: p.id.Time, before: uint32(len(p.time))}
	var name perfdata.Comm
	var task perfdata.Task
	switch {
	case rec.Type == perfdata.RecordComm && p.r.Recording.Comm(rec, &name) == nil:
		c.tid, c.name = name.TID, string(name.Comm)
	case rec.Type == perfdata.RecordFork && p.r.Recording.Task(rec, &task) == nil:
		c.tid, c.old, c.fork = task.TID, task.PTID, true
	default:
		return
	}
	p.comms = append(p.comms, c)
}

func (p *trailReader) readPoke(rec *perfdata.Record) {
	if p.r.Recording.TextPoke(rec, &p.poke) == nil {
		p.addPoke(&p.poke, p.recordAt(rec))
	}
}

// readProbed reads the changes that probes recorded, of a kernel that emits no TEXT_POKE
// records.
func (p *trailReader) readProbed() {
	p.probed = []byte{}
	for c := range p.r.Changes() {
		if c.Poke == nil || c.Began == 0 {
			continue
		}
		if len(p.probed) >= p.limits.probed {
			p.dropped++
			continue
		}
		at := uint32(len(p.probed))
		p.probed = binary.LittleEndian.AppendUint16(p.probed, uint16(len(c.Poke.Old)))
		p.probed = binary.LittleEndian.AppendUint16(p.probed, uint16(len(c.Poke.New)))
		p.probed = append(append(p.probed, c.Poke.Old...), c.Poke.New...)
		p.addPoke(c.Poke, at)
	}
}

func (p *trailReader) addPoke(x *perfdata.TextPoke, at uint32) {
	if len(p.time) == p.limits.pokes {
		p.dropped++
		return
	}
	k, ok := p.place[x.Addr]
	if !ok {
		k = uint32(len(p.sites))
		p.place[x.Addr] = k
		p.sites = append(p.sites, site{addr: x.Addr})
	}
	p.sites[k].size = max(p.sites[k].size, uint32(max(len(x.Old), len(x.New))))
	cpu := uint16(noCPU)
	if x.Has&perfdata.SampleCPU != 0 && x.CPU < noCPU {
		cpu = uint16(x.CPU)
	}
	p.time = append(p.time, x.Time)
	p.site = append(p.site, k)
	p.at = append(p.at, at)
	p.cpu = append(p.cpu, cpu)
	kind := p.r.KindOf(x)
	p.kind = append(p.kind, uint8(kind))
	p.class = append(p.class, uint8(p.by.Poke(x, kind)))
	p.thread = append(p.thread, p.numberOf(&x.SampleID))
	p.sum = append(p.sum, uint32(maphash.Bytes(p.seed, x.Old))*31+uint32(maphash.Bytes(p.seed, x.New)))
}

// numberOf returns the number of the thread that wrote a record.
func (p *trailReader) numberOf(id *perfdata.SampleID) uint16 {
	x := thread{}
	if id.Has&perfdata.SampleTID != 0 {
		x = thread{id.PID, id.TID, true}
	}
	i, ok := p.numbers[x]
	if !ok {
		if len(p.all) == p.limits.writers {
			return someone
		}
		i = uint16(len(p.all))
		p.numbers[x] = i
		p.all = append(p.all, x)
	}
	return i
}

// threadOf returns the thread of this number.
func (p *trailReader) threadOf(i uint16) thread {
	if int(i) < len(p.all) {
		return p.all[i]
	}
	return thread{}
}

func (p *trailReader) addEvent(e event) {
	if len(p.events) == p.limits.events {
		p.droppedEvents++
		return
	}
	e.cpu, e.writer = noCPU, someone
	p.events = append(p.events, p.pending(e))
}

// pending adds the CPU and the thread that the record's trailer has.
func (p *trailReader) pending(e event) pendingEvent {
	x := pendingEvent{event: e, before: uint32(len(p.time))}
	if e.kind == eventLoss || e.time == 0 {
		return x
	}
	if p.id.Has&perfdata.SampleCPU != 0 && p.id.CPU < noCPU {
		x.cpu = uint16(p.id.CPU)
	}
	if p.id.Has&perfdata.SampleTID != 0 {
		x.thread = thread{p.id.PID, p.id.TID, true}
	}
	return x
}

// finish sorts the columns by time, drops duplicates, and names the writers.
func (p *trailReader) finish() {
	t := p.trail
	p.by, p.place = nil, nil
	debug.FreeOSMemory()
	p.sortSites()
	slices.SortStableFunc(p.comms, func(a, b comm) int { return cmp.Compare(a.time, b.time) })
	slices.SortStableFunc(p.events, func(a, b pendingEvent) int { return cmp.Compare(a.time, b.time) })

	order := make([]uint32, 0, len(p.time)) // without duplicates
	t.writer = make([]uint16, 0, len(p.time))
	names := newNames(t, p.limits.writers)
	comms, events := p.comms, p.events
	timeline.InTimeOrder(p.time, func(t *uint64) uint64 { return *t }, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			now := p.time[i]
			for len(events) > 0 && (events[0].time < now || events[0].time == now && int(events[0].before) <= i) {
				comms = names.until(comms, events[0].time, events[0].before)
				names.event(&events[0])
				events = events[1:]
			}
			comms = names.until(comms, now, uint32(i))
			if !p.isDouble(order, i) {
				order = append(order, uint32(i))
				t.writer = append(t.writer, names.of(p.threadOf(p.thread[i])))
				if p.thread[i] == someone {
					t.nameless++
				}
			}
		}
	})
	for len(events) > 0 {
		comms = names.until(comms, events[0].time, events[0].before)
		names.event(&events[0])
		events = events[1:]
	}
	p.thread, p.sum = nil, nil
	// Duplicates go to the end, and are cut off.
	n := len(order)
	if n < len(p.time) {
		kept := make([]bool, len(p.time))
		for _, i := range order {
			kept[i] = true
		}
		for i, k := range kept {
			if !k {
				order = append(order, uint32(i))
			}
		}
	}
	seen := make([]uint64, (len(order)+63)/64)
	t.time, t.site, t.at = reorder(t.time, order, seen, n), reorder(t.site, order, seen, n), reorder(t.at, order, seen, n)
	t.cpu, t.kind, t.class = reorder(t.cpu, order, seen, n), reorder(t.kind, order, seen, n), reorder(t.class, order, seen, n)
	t.indexSites(order)
}

// reorder puts column[order[i]] at i, in place: a second column would be as large. It
// returns the first n elements. seen has a bit for each, and is cleared first.
func reorder[T any](column []T, order []uint32, seen []uint64, n int) []T {
	clear(seen)
	for start := range order {
		if seen[start/64]>>(start%64)&1 != 0 {
			continue
		}
		first := column[start]
		for i := start; ; {
			seen[i/64] |= 1 << (i % 64)
			from := int(order[i])
			if from == start {
				column[i] = first
				break
			}
			column[i] = column[from]
			i = from
		}
	}
	return column[:n]
}

// isDouble reports whether the i-th poke is one that perf wrote twice: the newest poke of
// the same place in order has the same time, CPU, thread and hash of the bytes.
func (p *trailReader) isDouble(order []uint32, i int) bool {
	const most = 256 // of one time, which no kernel reaches
	for k := len(order) - 1; k >= max(0, len(order)-most); k-- {
		x := order[k]
		if p.time[x] != p.time[i] {
			return false
		}
		if p.site[x] == p.site[i] {
			return p.sum[x] == p.sum[i] && p.cpu[x] == p.cpu[i] && p.thread[x] == p.thread[i]
		}
	}
	return false
}

// sortSites sorts the sites by address.
func (p *trailReader) sortSites() {
	order := make([]uint32, len(p.sites))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(p.sites[a].addr, p.sites[b].addr) })
	sorted, rank := make([]site, len(order)), make([]uint32, len(order))
	for i, k := range order {
		sorted[i], rank[k] = p.sites[k], uint32(i)
	}
	p.sites = sorted
	for i := range p.site {
		p.site[i] = rank[p.site[i]]
	}
}

// names follows the names of the threads through time.
type names struct {
	t     *trail
	most  int // writers
	comm  map[uint32]string
	index map[writer]uint16
}

func newNames(t *trail, most int) *names {
	return &names{t: t, most: most, comm: make(map[uint32]string), index: make(map[writer]uint16)}
}

// until applies the names of comms up to a time, and returns the rest. Of those at that time, it
// applies those before the poke with the number before.
func (n *names) until(comms []comm, time uint64, before uint32) []comm {
	for len(comms) > 0 && (comms[0].time < time || comms[0].time == time && comms[0].before <= before) {
		if c := &comms[0]; c.fork {
			n.comm[c.tid] = n.comm[c.old]
		} else {
			n.comm[c.tid] = c.name
		}
		comms = comms[1:]
	}
	return comms
}

// of returns the number of the writer that a thread is under its present name; someone if there
// are too many.
func (n *names) of(x thread) uint16 {
	w := writer{known: x.known}
	if x.known {
		w.pid, w.tid, w.comm = x.pid, x.tid, n.comm[x.tid]
	}
	i, ok := n.index[w]
	if !ok {
		if len(n.t.writers) == n.most {
			n.t.nameless++
			return someone
		}
		i = uint16(len(n.t.writers))
		n.index[w] = i
		n.t.writers = append(n.t.writers, w)
	}
	return i
}

func (n *names) event(e *pendingEvent) {
	if e.thread.known {
		e.writer = n.of(e.thread)
	}
	n.t.events = append(n.t.events, e.event)
}
