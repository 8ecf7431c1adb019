// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"
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
}

// An imageLog has the records of one address where an image is. They are in the order of
// the file.
type imageLog struct {
	born  []imageBirth
	leads []uint64 // times of pokes that made a place branch to it
}

type imageBirth struct {
	time uint64 // 0: it was announced
	name string
}

func newCodeReads(j *recorderJournal) *codeReads {
	if j == nil || len(j.bytes) == 0 {
		return nil
	}
	c := &codeReads{reads: j.bytes, of: make(map[uint64]*imageLog)}
	for _, b := range j.bytes {
		if c.of[uint64(b.Addr)] == nil {
			c.of[uint64(b.Addr)] = new(imageLog)
		}
	}
	return c
}

// poke notes a poke that makes a place branch to an image.
func (c *codeReads) poke(p *timeline.Poke) {
	if _, target, ok := branch(p.Addr, p.New); ok {
		if l := c.of[target]; l != nil {
			l.leads = append(l.leads, p.Time)
		}
	}
}

// symbol notes the birth of an image.
func (c *codeReads) symbol(e *timeline.SymbolEvent) {
	if l := c.of[e.Addr]; l != nil && !e.Unregister {
		l.born = append(l.born, imageBirth{e.Time, e.Name})
	}
}

// addCodeReads adds to the image the code of BPF trampolines that the recorder read.
//
// The kernel registers the symbol of a trampoline, writes its code without a record, and
// then makes a place call it or jump to it (bpf_trampoline_update() of
// kernel/bpf/trampoline.c). So the code is complete when a poke leads to it. From then on
// it changes with text pokes only, until it is unregistered: since Linux 5.12 each change
// of what is attached makes a new trampoline.
func (s *scan) addCodeReads(k *kcore.Kallsyms, snap *kcore.Snapshot) {
	c := s.codeReads
	if c == nil || !s.arch.readsTrampolines() || s.report.Kernel == "" || !patching.Since(s.report.Kernel, 5, 12) {
		return
	}
	listed := make(map[uint64]string)
	for e := range listedSymbols(k) {
		listed[e.Addr] = e.Name
	}
	for _, b := range c.reads {
		addr := uint64(b.Addr)
		l := c.of[addr]
		var last imageBirth
		if name, ok := listed[addr]; ok {
			last.name = name
		}
		for _, x := range l.born {
			if x.time <= b.From && x.time >= last.time {
				last = x
			}
		}
		if !strings.HasPrefix(last.name, "bpf_trampoline_") {
			continue
		}
		from := timeline.MaxTime
		for _, t := range l.leads {
			if last.time <= t && t <= b.From {
				from = min(from, t)
			}
		}
		if own := s.journal.own; from == timeline.MaxTime && last.time == 0 && own != nil && own.To <= b.From && leadsInCopy(addr, k, snap) {
			from = own.To
		}
		if from == timeline.MaxTime || meets(s.report.Coverage.KSymbols.Limits, from, b.To) {
			continue // it may have been half written, or another one's
		}
		if n, ok := patching.CodeEnd(b.Data, addr); ok {
			s.b.CodeRead(timeline.CodeRead{Addr: addr, Data: b.Data[:n], From: from, To: b.To})
			s.report.BPF.ImagesWithBytes++
		}
	}
}

// meets reports whether one of the limits has a time of [from, to].
func meets(limits []Limit, from, to uint64) bool {
	return slices.ContainsFunc(limits, func(l Limit) bool { return l.From <= to && from < l.To })
}

// leadsInCopy reports whether a function of the kernel or of a module begins, in the copy
// of text, with a call of addr or a jump to it.
func leadsInCopy(addr uint64, k *kcore.Kallsyms, snap *kcore.Snapshot) bool {
	if k == nil || snap == nil || snap.Core == nil {
		return false
	}
	for _, sym := range k.All() {
		if sym.Type != 't' && sym.Type != 'T' {
			continue
		}
		for _, seg := range timeline.Overlapping(asTimeline(snap.Core.Segments), sym.Addr, sym.Addr+uint64(len(endbr)+opLen)) {
			code := seg.Data
			for _, at := range []int{0, len(endbr)} {
				if seg.Addr == sym.Addr && len(code) >= at+opLen {
					if _, target, ok := branch(sym.Addr+uint64(at), code[at:at+opLen]); ok && target == addr {
						return true
					}
				}
			}
		}
	}
	return false
}
