// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"container/heap"
	"slices"
	"sort"
	"strings"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
)

// codeReads are the BPF images whose bytes the journal of "textreplay record" has, with the
// records that show from when on they were complete (rule recorder). It is nil if the
// journal has none.
type codeReads struct {
	reads []journal.Bytes
	of    map[uint64]*imageLog // by address
	// waiting are the births by thread after which no poke of that thread was read yet.
	waiting map[uint32]*birthHeap
}

// A birthHeap is a heap (container/heap) of births by time.
type birthHeap []*imageBirth

func (h birthHeap) Len() int           { return len(h) }
func (h birthHeap) Less(i, j int) bool { return h[i].time < h[j].time }
func (h birthHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *birthHeap) Push(x any)        { *h = append(*h, x.(*imageBirth)) }
func (h *birthHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// An imageLog has the records of one address where an image is. They are in the order of
// the file.
type imageLog struct {
	born  []*imageBirth
	leads []uint64 // times of pokes that made a place branch to it
}

// An imageBirth is the record that registered an image, or perf's announcement of it.
type imageBirth struct {
	time    uint64 // 0: it was announced
	name    string
	tid     uint32 // the thread that made it; 0: unknown
	written uint64 // time of a later poke of that thread; 0: none
}

// An imageKey is an image: its address and its birth.
type imageKey struct{ addr, born uint64 }

// newCodeReads returns what is to be found out about the images that the journal has; nil if
// it has none.
func newCodeReads(j *recorderJournal) *codeReads {
	if j == nil || len(j.bytes) == 0 {
		return nil
	}
	c := &codeReads{reads: j.bytes, of: make(map[uint64]*imageLog), waiting: make(map[uint32]*birthHeap)}
	for _, b := range j.bytes {
		if c.of[uint64(b.Addr)] == nil {
			c.of[uint64(b.Addr)] = new(imageLog)
		}
	}
	return c
}

// poke notes a poke of the thread tid, which may make a place branch to an image, and which
// shows that the thread has written the images that it made before.
func (c *codeReads) poke(p *timeline.Poke, tid uint32) {
	for births := c.waiting[tid]; births != nil && len(*births) > 0 && (*births)[0].time <= p.Time; {
		heap.Pop(births).(*imageBirth).written = p.Time
	}
	if _, target, ok := branch(p.Addr, p.New); ok {
		if l := c.of[target]; l != nil {
			l.leads = append(l.leads, p.Time)
		}
	}
}

// symbol notes the birth of an image, which the thread tid made.
func (c *codeReads) symbol(e *timeline.SymbolEvent, tid uint32) {
	if l := c.of[e.Addr]; l != nil && !e.Unregister {
		x := &imageBirth{time: e.Time, name: e.Name, tid: tid}
		l.born = append(l.born, x)
		if tid != 0 && e.Time != 0 {
			if c.waiting[tid] == nil {
				c.waiting[tid] = new(birthHeap)
			}
			heap.Push(c.waiting[tid], x)
		}
	}
}

// addCodeReads adds to the image the code of BPF trampolines that the recorder read.
//
// The kernel registers the symbol of a trampoline, writes its code without a record, and
// then makes a place call it or jump to it (bpf_trampoline_update() of
// kernel/bpf/trampoline.c). So the code is complete when a poke leads to it. While ftrace also
// traces the function, no place leads there: ftrace's own code does. But the thread makes no
// other poke between the symbol and the end of the code, so any later poke of that thread
// shows it too. From then on the code changes with text pokes only, until it is unregistered:
// since Linux 5.12 each change of what is attached makes a new trampoline.
//
// Where probes record the changes, those of kernel text count: the thread writes the trampoline by the
// same functions.
func (s *scan) addCodeReads(k *kcore.Kallsyms, snap *kcore.Snapshot) {
	c := s.codeReads
	if c == nil || !s.arch.readsTrampolines() && !s.arch.probedARM64() || s.report.Kernel == "" || !patching.Since(s.report.Kernel, 5, 12) {
		return
	}
	listed := make(map[uint64]string)
	for e := range listedSymbols(k) {
		listed[e.Addr] = e.Name
	}
	of := make(map[uint64]imageLog, len(c.of)) // in the order of time
	for addr, l := range c.of {
		born := slices.SortedStableFunc(slices.Values(l.born), func(a, b *imageBirth) int { return cmp.Compare(a.time, b.time) })
		of[addr] = imageLog{born, slices.Sorted(slices.Values(l.leads))}
	}
	births := intervalsOf(s.report.Coverage.KSymbols.Limits)
	var inCopy map[uint64]bool // where branches of the copy lead
	read := make(map[imageKey]bool)
	for _, b := range c.reads {
		addr := uint64(b.Addr)
		l := of[addr]
		last := new(imageBirth)
		if name, ok := listed[addr]; ok {
			last.name = name
		}
		if n := sort.Search(len(l.born), func(i int) bool { return l.born[i].time > b.From }); n > 0 {
			last = l.born[n-1]
		}
		if !strings.HasPrefix(last.name, "bpf_trampoline_") {
			continue
		}
		from := timeline.MaxTime
		if t := cmp.Or(last.written, s.probes.textChange(last.tid, last.time)); t != 0 && t <= b.From {
			from = t
		}
		if i, _ := slices.BinarySearch(l.leads, last.time); i < len(l.leads) && l.leads[i] <= b.From {
			from = min(from, l.leads[i])
		}
		if own := s.journal.own; from == timeline.MaxTime && last.time == 0 && own != nil && own.To <= b.From {
			if inCopy == nil {
				inCopy = c.leadInCopy(k, snap)
			}
			if inCopy[addr] {
				from = own.To
			}
		}
		if from == timeline.MaxTime || births.meet(from, timeline.Later(b.To, 1)) {
			continue // it may have been half written, or another one's
		}
		if n, ok := patching.CodeEnd(s.arch.machine, b.Data); ok && !read[imageKey{addr, last.time}] {
			read[imageKey{addr, last.time}] = true // later reads of it say nothing new
			s.b.CodeRead(timeline.CodeRead{Addr: addr, Data: b.Data[:n], From: from, To: b.To})
			s.report.BPF.ImagesWithBytes++
		}
	}
}

// textChange returns when a thread ended the first change of kernel text that it began after t, 0 if
// it made none that is known, or if tid is 0.
func (p *probeLog) textChange(tid uint32, t uint64) uint64 {
	if p == nil || tid == 0 || t == 0 {
		return 0
	}
	changes := p.textChanges[tid]
	i, _ := slices.BinarySearchFunc(changes, timeline.Later(t, 1), func(x timeline.Interval, t uint64) int { return cmp.Compare(x.From, t) })
	if i == len(changes) {
		return 0
	}
	return changes[i].To
}

// leadInCopy returns the addresses of images to which a function of the kernel or of a module begins, in
// the copy of text, with a call or a jump.
func (c *codeReads) leadInCopy(k *kcore.Kallsyms, snap *kcore.Snapshot) map[uint64]bool {
	found := make(map[uint64]bool)
	if k == nil || snap == nil || snap.Core == nil {
		return found
	}
	for _, sym := range k.All() {
		if sym.Type != 't' && sym.Type != 'T' {
			continue
		}
		for _, seg := range timeline.Overlapping(asTimeline(snap.Core.Segments), sym.Addr, sym.Addr+uint64(len(endbr)+opLen)) {
			code := seg.Data
			for _, at := range []int{0, len(endbr)} {
				if seg.Addr == sym.Addr && len(code) >= at+opLen {
					if _, target, ok := branch(sym.Addr+uint64(at), code[at:at+opLen]); ok && c.of[target] != nil {
						found[target] = true
					}
				}
			}
		}
	}
	return found
}
