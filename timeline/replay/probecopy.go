// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"debug/elf"
	"slices"
	"sort"
	"strings"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/timeline"
)

// On arm64, __text_poke(func, addr, opcodes, len) writes BPF programs and trampolines, page by
// page (internal/patching). A sample of its beginning has the first bytes of opcodes, and each
// page has a BEFORE and an AFTER:
//
//	samples   __text_poke   BEFORE AFTER   BEFORE AFTER
//	written                 ├────┤ page 1  ├────┤ page 2

// A probeCall is a call of __text_poke on a CPU that is not over yet.
type probeCall struct {
	tid      uint32
	began    uint64
	lo, hi   uint64
	function uint64 // that it calls for each page; 0 if the event does not say
	bytes    []byte // the first ones
	next     uint64 // up to where pages were written
	ended    uint64 // the last of them
	to       uint64 // the end of the page that is being written
	unmap    uint64 // what the call returns to that ends this
}

// A probeCopied is a call of __text_poke that is over: it copied these bytes to lo in
// [began, ended], and others behind them up to hi.
type probeCopied struct {
	timeline.Range
	began, ended uint64
	bytes        []byte
	patch        bool // another writer made it, and it is a change of the image
}

// textPoke notes what a call of arm64's __text_poke is about to write.
func (p *probeLog) textPoke(c *probeCPU, x *probeSample) {
	p.leaveCopy(c)
	lo, n := x.u64(x.addr), x.u64(x.length)
	if lo+n < lo {
		n = 0
	}
	c.copyOf = probeCall{tid: x.id.TID, began: x.id.Time, lo: lo, hi: lo + n, next: lo}
	if x.function != 0 {
		c.copyOf.function = x.u64(x.function)
	}
	c.copyOf.bytes = bytes.Clone(x.raw[x.bytes:][:min(uint64(x.bytesLen), n)])
}

// leaveCopy ends a call of __text_poke. What it wrote and does not add up to the whole is a
// write of unknown bytes.
func (p *probeLog) leaveCopy(c *probeCPU) {
	if k := &c.copyOf; k.lo < k.next {
		p.copies = append(p.copies, probeCopied{Range: timeline.Range{Lo: k.lo, Hi: k.next}, began: k.began, ended: k.ended})
	}
	c.copyOf = probeCall{}
}

// beginPart handles the BEFORE of a page that __text_poke writes.
func (p *probeLog) beginPart(c *probeCPU, x *probeSample) {
	k, w := &c.copyOf, &c.write
	if c.copyOf.tid != x.id.TID || k.lo >= k.hi {
		return
	}
	w.hasCopy, w.copyLo, w.copyHi = true, k.lo, k.hi
	d := p.writer.copier(w.mapLR, w.caller)
	if !d.ok || d.size+8 > x.stackLen {
		return
	}
	place, size := uint64(0), x.u64(x.stack+d.size)
	for _, word := range w.words {
		if word.reg == "x19" && (word.addr^w.phys)&0xfff == 0 {
			place = word.addr
		}
	}
	if place == k.next && size <= min(k.hi-place, probePage) {
		k.to, k.unmap = place+size, d.unmap
	}
}

// endPart handles the AFTER of such a page.
func (p *probeLog) endPart(c *probeCPU, x *probeSample) {
	k, w := &c.copyOf, &c.write
	if !w.hasCopy {
		return
	}
	if k.to <= k.next || w.lr != k.unmap {
		p.leaveCopy(c)
		return
	}
	if k.function == 0 {
		k.function = p.writer.passed(w.lr, withoutPAC(x.u64(x.stack+8)))
	}
	w.exact, w.copied = true, p.writer.copiesBytes(k.function)
	k.next, k.ended = k.to, x.id.Time
	if k.next == k.hi {
		if !w.copied {
			k.bytes = nil
		}
		p.copies = append(p.copies, probeCopied{timeline.Range{Lo: k.lo, Hi: k.hi}, k.began, k.ended, k.bytes, false})
		c.copyOf = probeCall{}
	}
}

// A copierDecoded is what the code of __text_poke and of what it maps pages with says; ok is
// false if it is not of the form that is known.
type copierDecoded struct {
	size  int    // where the page's part of the length is, in bytes from the stack pointer at BEFORE
	unmap uint64 // what the call returns to that is AFTER
	ok    bool
}

// copier decodes __text_poke, whose call of the function that maps pages returns to caller. The
// call of __set_fixmap in that function returns to lr.
func (c *probeCode) copier(lr, caller uint64) copierDecoded {
	key := [2]uint64{lr, caller}
	d, ok := c.copiers[key]
	if ok {
		return d
	}
	defer func() {
		if len(c.copiers) < maxOthers {
			c.copiers[key] = d
		}
	}()
	at, mapper := c.function(lr)
	f := c.arm64Function(caller)
	if mapper == nil || f.Code == nil || c.core.Machine != elf.EM_AARCH64 || f.Addr != c.one("__text_poke") {
		return d
	}
	w, ok := f.Copier(caller)
	if !ok || patching.ARM64Target(f.Addr, f.Code, caller-4) != at || !patching.ARM64Keeps(at, mapper, lr, 19) {
		return d
	}
	_, framed := patching.ARM64Frame(at, mapper, lr, 30)
	d.size, d.ok = patching.ARM64Frame(at, mapper, lr, w.Size)
	d.unmap, d.ok = w.Unmap, d.ok && framed
	return d
}

// arm64Function returns the function that has the instruction before lr, without a kprobe at its
// entry. Its code is nil if it is not known.
func (c *probeCode) arm64Function(lr uint64) patching.ARM64Function {
	addr, code := c.function(lr)
	return patching.ARM64Function{Addr: addr, Code: patching.ARM64WithoutProbe(code), Map: c.one("__set_fixmap"), CopyNoFault: c.one("copy_to_kernel_nofault")}
}

// passed returns the function that __text_poke was told to call, which its caller passes as a
// constant; 0 if the code does not show it. __text_poke's frame says that it returns to
// caller, when its own call of __set_fixmap returns to lr.
func (c *probeCode) passed(lr, caller uint64) uint64 {
	key := [2]uint64{lr, caller}
	value, ok := c.passes[key]
	if ok {
		return value
	}
	if f, from := c.arm64Function(lr), c.arm64Function(caller); f.Code != nil && from.Code != nil && f.Addr == c.one("__text_poke") {
		if at, ok := patching.ARM64Frame(f.Addr, f.Code, lr, 30); ok && at == 8 {
			value, _ = patching.ARM64Constant(from.Addr, from.Code, caller, f.Addr)
		}
	}
	if len(c.passes) < maxOthers {
		c.passes[key] = value
	}
	return value
}

// copiesBytes reports whether a function that __text_poke calls copies bytes:
// text_poke_memcpy does.
func (c *probeCode) copiesBytes(function uint64) bool {
	copies, ok := c.copying[function]
	if !ok && function != 0 && function == c.one("text_poke_memcpy") {
		f := c.arm64Function(function + 4)
		copies = f.Code != nil && f.CopyNoFault != 0 && patching.ARM64CopiesBytes(f.Addr, f.Code, f.CopyNoFault)
	}
	if len(c.copying) < maxOthers {
		c.copying[function] = copies
	}
	return copies
}

// A codeBirth is the birth or the death of a BPF image, as a record has it.
type codeBirth struct {
	timeline.Range
	time  uint64
	name  string
	death bool
	tid   uint32 // of the task that made it
}

// addWritten adds to the image the code of BPF programs and trampolines that __text_poke wrote.
// A program is written before its symbol is registered, a trampoline after that, or before
// it on newer kernels. Then it changes with recorded changes only (rule probes).
//
//	__text_poke  ├──┤                   ├──┤
//	symbol               ├─ program       ├──── trampoline
//	code                 known               known
//
// If more than one write is possible, or if one may be missing, the code is not known. bare are the loads
// of programs whose code nothing else has.
func (s *scan) addWritten(bare []bpfEvent) {
	p := s.probes
	if p == nil || len(p.copies) == 0 || !p.resolved {
		return
	}
	// A write of unknown bytes has none here.
	writes := slices.Clone(p.copies)
	for i := range p.writes {
		if w := &p.writes[i]; w.addr != 0 && !w.exact && w.index != notText {
			hi := w.addr + uint64(w.len)
			if w.len == 0 {
				hi = w.addr&^(probePage-1) + probePage
			}
			writes = append(writes, probeCopied{timeline.Range{Lo: w.addr, Hi: hi}, w.began, w.ended, nil, w.known()})
		}
	}
	a := writtenCode{pages: make(map[uint64]*pageWrites), steps: maxWrittenSteps,
		pokes: intervalsOf(s.report.Coverage.Pokes.Limits), births: intervalsOf(s.report.Coverage.KSymbols.Limits)}
	slices.SortFunc(writes, func(a, b probeCopied) int { return cmp.Compare(a.ended, b.ended) })
	for i := range writes {
		a.add(&writes[i])
	}
	slices.SortStableFunc(s.bpfBirths, func(a, b codeBirth) int { return cmp.Compare(a.time, b.time) })
	var functions []writtenFunction
	died := make(map[uint64]uint64) // the next death of an address
	for _, b := range slices.Backward(s.bpfBirths) {
		if b.death {
			died[b.Lo] = b.time
			continue
		}
		until, ok := died[b.Lo]
		if !ok {
			until = timeline.MaxTime
		}
		delete(died, b.Lo)
		program := strings.HasPrefix(b.name, "bpf_prog_")
		if b.time == 0 || !program && !strings.HasPrefix(b.name, "bpf_trampoline_") {
			continue
		}
		has := s.addWrittenAt(&b, until, &a)
		switch {
		case program:
			functions = append(functions, writtenFunction{b.time, b.tid, has})
		case has:
			s.report.BPF.ImagesWithBytes++
		}
	}
	slices.Reverse(functions)
	s.countWritten(functions, bare)
}

// A writtenFunction is a function of a BPF program, whose code was found or not.
type writtenFunction struct {
	time  uint64
	tid   uint32
	found bool
}

// countWritten counts the loads of programs without an info whose functions, in the order of time, have all
// been found. The kernel registers them just before it records the load, in the same task
// (perf_event_bpf_event() in kernel/events/core.c).
func (s *scan) countWritten(functions []writtenFunction, bare []bpfEvent) {
	isBare := make(map[bpfEvent]bool, len(bare))
	for _, l := range bare {
		isBare[l] = true
	}
	loads := slices.Clone(s.loads)
	slices.SortStableFunc(loads, func(a, b bpfEvent) int { return cmp.Compare(a.time, b.time) })
	type pending struct{ functions, found int }
	by := make(map[uint32]pending) // by task
	for _, l := range loads {
		for ; len(functions) > 0 && functions[0].time <= l.time; functions = functions[1:] {
			p := by[functions[0].tid]
			p.functions++
			if functions[0].found {
				p.found++
			}
			by[functions[0].tid] = p
		}
		if p := by[l.tid]; isBare[l] && p.functions > 0 && p.found == p.functions {
			s.report.BPF.WithBytes++
		}
		delete(by, l.tid)
	}
}

// A writtenCode finds the writes of an image.
type writtenCode struct {
	pages         map[uint64]*pageWrites
	steps         int       // how many writes may still be looked at
	pokes, births intervals // times in which a change or a birth may have gone unrecorded
}

// maxWrittenSteps is far more than the writes that kernels make at other places of a page while an
// image is there. Of what forged recordings have beyond it, no code is known.
const maxWrittenSteps = 1 << 28

// pageWrites are the writes of a page and of the next one, in the order in which they ended. The bytes of
// a sample that begin in a page may reach into the next one, not further.
type pageWrites struct {
	writes []*probeCopied
	began  []uint64 // of each, the least time at which it or one behind it began
}

// add adds a write. All of them are added in the order in which they ended.
func (a *writtenCode) add(w *probeCopied) {
	for page := max(w.Lo/probePage, 1) - 1; page <= (w.Hi-1)/probePage; page++ {
		if a.pages[page] == nil {
			a.pages[page] = new(pageWrites)
		}
		a.pages[page].writes = append(a.pages[page].writes, w)
	}
}

// step reports whether one more write may be looked at.
func (a *writtenCode) step() bool {
	a.steps--
	return a.steps >= 0
}

// since returns the writes that end after t, up to the last one that begins before until.
func (p *pageWrites) since(t, until uint64) []*probeCopied {
	if n := len(p.writes); len(p.began) != n {
		p.began = make([]uint64, n+1)
		p.began[n] = timeline.MaxTime
		for i, x := range slices.Backward(p.writes) {
			p.began[i] = min(p.began[i+1], x.began)
		}
		p.began = p.began[:n]
	}
	from := sort.Search(len(p.writes), func(i int) bool { return p.writes[i].ended > t })
	to := sort.Search(len(p.writes), func(i int) bool { return p.began[i] >= until })
	return p.writes[min(from, to):to]
}

// mayMake reports whether a write may be the one that made the image b. The symbol of a trampoline has the
// length of a page, so it also covers what comes behind the trampoline. One call of __text_poke writes the
// whole trampoline, so that call has its beginning.
func (w *probeCopied) mayMake(b *codeBirth) bool {
	return !w.patch && w.Lo <= b.Lo && b.Lo < w.Hi
}

// of returns the write that made the image b, which dies at until: the last one before its birth, or the
// only one after it. It returns nil if there is none, if another one is possible, or if what it wrote is written
// again. at is from when on the image is whole.
func (a *writtenCode) of(b *codeBirth, until uint64) (w *probeCopied, at uint64) {
	p := a.pages[b.Lo/probePage]
	if p == nil {
		return nil, 0
	}
	born := sort.Search(len(p.writes), func(i int) bool { return p.writes[i].ended > b.time })
	for _, x := range slices.Backward(p.writes[:born]) {
		if !a.step() {
			return nil, 0
		}
		if x.mayMake(b) {
			w = x
			break
		}
	}
	later := false
	for _, x := range p.since(b.time, until) {
		if !a.step() {
			return nil, 0
		}
		if !x.mayMake(b) || x.began >= until {
			continue
		}
		if later {
			return nil, 0 // one of the two
		}
		w, later = x, true
	}
	if w == nil {
		return nil, 0
	}
	at = max(b.time, w.ended)
	for _, x := range p.since(w.ended, until) {
		isChange := x.patch && at <= x.began // the kernel patches a word of it, which is a change like any other
		if !a.step() || x.began < until && x.Lo < w.Hi && b.Lo < x.Hi && !isChange {
			return nil, 0
		}
	}
	return w, at
}

// addWrittenAt adds the code of the image b, which dies at until, and reports whether it was found.
func (s *scan) addWrittenAt(b *codeBirth, until uint64, a *writtenCode) bool {
	w, at := a.of(b, until)
	if w == nil || w.bytes == nil {
		return false
	}
	if a.pokes.meet(w.began, timeline.Later(at, 1)) || a.births.meet(min(w.began, b.time), timeline.Later(at, 1)) {
		return false
	}
	skip := b.Lo - w.Lo
	if skip >= uint64(len(w.bytes)) {
		return false
	}
	code := w.bytes[skip:]
	code = code[:min(uint64(len(code)), b.Hi-b.Lo)]
	if unseen := patching.UnseenPlaces(s.arch.name, b.Lo, code); len(unseen) > 0 {
		code = code[:unseen[0].Lo-b.Lo]
	}
	s.b.CodeRead(timeline.CodeRead{Addr: b.Lo, Data: code, From: at, To: at})
	return true
}
