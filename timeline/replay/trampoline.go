// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"sync"

	"golang.org/x/arch/x86/x86asm"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/timeline"
)

// TrampolineKind says what kind of code the kernel made.
type TrampolineKind uint8

const (
	// KprobeSlot holds a copy of a probed instruction, to be run in its place
	// (arch_copy_kprobe, arch/x86/kernel/kprobes/core.c).
	KprobeSlot TrampolineKind = iota
	// OptprobeSlot is what an optimised probe jumps to: it calls the handler, and then runs
	// copies of the instructions that the jump lies over
	// (arch_prepare_optimized_kprobe, arch/x86/kernel/kprobes/opt.c).
	OptprobeSlot
	// FtraceTrampoline calls one tracer's function (create_trampoline,
	// arch/x86/kernel/ftrace.c).
	FtraceTrampoline
	// BPFTrampoline runs the BPF programs that are attached to a function
	// (kernel/bpf/trampoline.c).
	BPFTrampoline
)

var trampolineKinds = [...]string{"kprobe-slot", "optprobe-slot", "ftrace-trampoline", "bpf-trampoline"}

// String returns the name of the kind, for example "kprobe-slot".
func (k TrampolineKind) String() string { return trampolineKinds[k] }

// A Trampoline says what a piece of code that the kernel made at run time, a slot or a
// trampoline, is for.
type Trampoline struct {
	Kind TrampolineKind
	Addr uint64 // of the piece
	Len  uint64 // bytes; of a BPF trampoline an upper bound
	// The use is known for every time t with From <= t < To, and for no other.
	From, To uint64
	// Places are what a slot or a BPF trampoline serves, ascending: the probed
	// instruction, or the instructions that call or jump into the trampoline.
	Places []uint64
	// Func is the function that an ftrace trampoline calls, Ops the struct
	// ftrace_ops that it hands over; 0 where the code does not show it.
	Func, Ops uint64
}

// TrampolineAt returns what the code at addr is for at time t. It returns only what
// the recording proves: by the bytes of the code, by the bytes of the places that
// branch to it, and by the order in which the kernel makes slots. It returns nothing
// if a record that says otherwise may have been lost. It reads the code of x86-64;
// other architectures record none.
//
// Where it returns nothing, From and To of the result are a time around t in which it returns nothing
// for this address; both are 0 if no such time is known.
//
// The first call for such code reads the recording once more.
func (r *Replay) TrampolineAt(addr, t uint64) (Trampoline, bool) {
	alive, _ := r.Image.At(t).LifetimeAt(addr)
	if alive == nil {
		return Trampoline{}, false
	}
	if alive.Kind != timeline.OutOfLine && alive.Kind != timeline.BPFImage || !r.arch.readsTrampolines() {
		return Trampoline{From: alive.From, To: alive.To}, false
	}
	r.trampolines.once.Do(func() {
		if !r.trampolines.take(r) {
			r.trampolines.find(r)
		}
	})
	if alive.Kind == timeline.BPFImage {
		s, ok := r.trampolines.trampoline(alive, t)
		if !ok {
			if to := r.attachedTo(alive.Name, t); to != nil {
				s.Places, ok = []uint64{to.Lo}, true
				s.From, s.To = max(s.From, to.From), min(s.To, to.To)
			}
		}
		if !ok {
			return Trampoline{}, false // the program that it is attached to may come or go
		}
		return s, true
	}
	s, ok := r.trampolines.piece(addr, t)
	if !ok {
		s.From, s.To = max(s.From, alive.From), min(s.To, alive.To)
	}
	return s, ok
}

// trampolines are all trampolines and slots of the recording.
type trampolines struct {
	once   sync.Once
	pieces []Trampoline // of out-of-line code, by address and time
	reach  []uint64     // greatest end of pieces[:i+1]
	uses   map[*timeline.Lifetime][]use
	saved  []byte // of an index
}

// A use is a branch into a BPF image that was at site during [from, to).
type use struct{ site, from, to uint64 }

// piece returns what the out-of-line code at addr is for.
func (x *trampolines) piece(addr, t uint64) (Trampoline, bool) {
	none := Trampoline{To: timeline.MaxTime}
	i := sort.Search(len(x.pieces), func(i int) bool { return x.pieces[i].Addr > addr })
	for i--; i >= 0 && x.reach[i] > addr; i-- {
		switch s := &x.pieces[i]; {
		case addr >= s.Addr+s.Len:
		case t < s.From:
			none.To = min(none.To, s.From)
		case t >= s.To:
			none.From = max(none.From, s.To)
		default:
			return *s, true
		}
	}
	return none, false
}

// trampoline returns what a BPF image is for.
func (x *trampolines) trampoline(l *timeline.Lifetime, t uint64) (Trampoline, bool) {
	s := Trampoline{Kind: BPFTrampoline, Addr: l.Lo, Len: l.Hi - l.Lo, From: l.From, To: l.To}
	for _, k := range x.uses[l] {
		switch {
		case k.from > t:
			s.To = min(s.To, k.from)
		case k.to <= t:
			s.From = max(s.From, k.to)
		default:
			s.Places = append(s.Places, k.site)
			s.From, s.To = max(s.From, k.from), min(s.To, k.to)
		}
	}
	slices.Sort(s.Places)
	return s, len(s.Places) > 0
}

// A codeWrite is a poke that makes, changes or removes out-of-line code, or one at a
// site that branches to such code at some time.
type codeWrite struct {
	time     uint64
	addr     uint64
	tid      uint32
	old, new []byte
}

// codeWrites are the pokes of a recording that matter for trampolines, each list by
// time.
type codeWrites struct {
	made  []codeWrite // of out-of-line code: made, changed or removed
	armed []codeWrite // an INT3 that a kprobe may have written; without bytes
	used  []codeWrite // at sites that branch to dynamic code; without old bytes
}

// find reads the recording for the pokes that make and that use out-of-line code.
func (x *trampolines) find(r *Replay) {
	w := r.codeWrites()
	sure := r.unchangedUntil()
	slots := slotsOf(r.Image, w.made)
	findProbes(slots, w.used, sure)
	findOnly(r.Image, slots, w.armed, sure)
	x.keepPieces(slots, sure)
	x.findUses(r.Image, w.used, sure)
}

// codeWrites reads the recording once, and again if a site branches to dynamic code:
// all pokes of such a site are needed, also those before its first branch.
func (r *Replay) codeWrites() *codeWrites {
	w := &codeWrites{}
	if sites := w.readMade(r); len(sites) > 0 {
		w.readUsed(r, sites)
	}
	for _, list := range [][]codeWrite{w.made, w.armed, w.used} {
		slices.SortStableFunc(list, func(a, b codeWrite) int { return cmp.Compare(a.time, b.time) })
	}
	return w
}

// readMade reads made and armed. It returns the sites that branch to dynamic code.
func (w *codeWrites) readMade(r *Replay) (sites map[uint64]bool) {
	sites = make(map[uint64]bool)
	filter := branches{im: r.Image}
	for p := range r.pokes(filter.matters, filter.skips) {
		switch op, target, ok := branch(p.Addr, p.New); {
		case len(p.Old) == 0, len(p.New) == 0, r.Image.EverDynamic(p.Addr, timeline.OutOfLine):
			w.made = append(w.made, codeWrite{p.Time, p.Addr, p.TID, bytes.Clone(p.Old), bytes.Clone(p.New)})
		case isTrap(p.Old, p.New):
			w.armed = append(w.armed, codeWrite{time: p.Time, addr: p.Addr})
		case ok && leadsToDynamic(r.Image, op, target):
			sites[p.Addr] = true
		}
	}
	return sites
}

// readUsed reads all pokes of the sites.
func (w *codeWrites) readUsed(r *Replay, sites map[uint64]bool) {
	hits := func(raw []byte) bool { return len(raw) < pokeBytes || sites[binary.LittleEndian.Uint64(raw[8:])] }
	for p := range r.pokes(hits, nil) {
		if sites[p.Addr] {
			w.used = append(w.used, codeWrite{p.Time, p.Addr, p.TID, nil, bytes.Clone(p.New)})
		}
	}
}

// isTrap reports whether a poke replaces one byte by INT3, as arming a kprobe does.
func isTrap(old, new []byte) bool {
	return len(old) == 1 && len(new) == 1 && new[0] == patching.INT3
}

// leadsToDynamic reports whether the branch can lead to code that the kernel made:
// a call or a jump to a BPF image, or a jump to out-of-line code.
func leadsToDynamic(im *timeline.Image, op byte, target uint64) bool {
	return im.EverDynamic(target, timeline.BPFImage) || op == opJMP && im.EverDynamic(target, timeline.OutOfLine)
}

// keepPieces keeps the slots whose use is known.
func (x *trampolines) keepPieces(slots []*slot, sure func(uint64) uint64) {
	for _, s := range slots {
		if s.To = min(s.To, sure(s.From)); s.To > s.From && (len(s.Places) > 0 || s.Func != 0) {
			x.pieces = append(x.pieces, s.Trampoline)
		}
	}
	slices.SortStableFunc(x.pieces, func(a, b Trampoline) int {
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.From, b.From))
	})
	x.indexPieces()
}

// indexPieces makes the index that piece searches.
func (x *trampolines) indexPieces() {
	reach := uint64(0)
	for _, s := range x.pieces {
		reach = max(reach, s.Addr+s.Len)
		x.reach = append(x.reach, reach)
	}
}

// pokeBytes is where the bytes of a TEXT_POKE record begin.
const pokeBytes = 8 + 8 + 2 + 2

// branches is a filter of raw TEXT_POKE records. It skips pokes of core text that have
// nothing to do with dynamic code or kprobes, which are nearly all. Recordings of
// x86-64 are little-endian.
type branches struct {
	im *timeline.Image
	// The branch of the newest record. All branches of a tracer have one target.
	op     byte
	target uint64
	leads  bool // to dynamic code
}

// matters reports whether a record must be decoded.
func (b *branches) matters(raw []byte) bool {
	le := binary.LittleEndian
	if len(raw) < pokeBytes {
		return true
	}
	addr, old, new := le.Uint64(raw[8:]), int(le.Uint16(raw[16:])), int(le.Uint16(raw[18:]))
	if lo, hi := b.im.Text(); addr < lo || addr >= hi || old == 0 || new == 0 || len(raw) < pokeBytes+old+new {
		return true
	}
	code := raw[pokeBytes+old:][:new]
	op, target, ok := branch(addr, code)
	if !ok {
		return isTrap(raw[pokeBytes:][:old], code)
	}
	if op != b.op || target != b.target {
		b.op, b.target = op, target
		b.leads = leadsToDynamic(b.im, op, target)
	}
	return b.leads
}

// skips reports whether no record of these places matters.
func (b *branches) skips(p *pokePlaces) bool {
	lo, hi := b.im.Text()
	if p.other || p.lo < lo || p.hi >= hi {
		return false
	}
	for _, to := range p.branches[:p.n] {
		if leadsToDynamic(b.im, to.op, to.target) {
			return false
		}
	}
	return true
}

// unchangedUntil returns a function of a time. The function returns the first later
// time at which a change may be unrecorded.
func (r *Replay) unchangedUntil() func(t uint64) uint64 {
	rep := r.Report
	// Disjoint and ascending half-open intervals of time.
	open := []timeline.Range{{Lo: 0, Hi: rep.Begin}, {Lo: timeline.Later(rep.Horizon, 1), Hi: timeline.MaxTime}}
	for _, limits := range [][]Limit{rep.Coverage.Pokes.Limits, rep.Coverage.KSymbols.Limits} {
		for _, l := range limits {
			if l.From < l.To {
				open = append(open, timeline.Range{Lo: l.From, Hi: l.To})
			}
		}
	}
	open = timeline.JoinRanges(open)
	return func(t uint64) uint64 {
		if i := sort.Search(len(open), func(i int) bool { return open[i].Hi > t }); i < len(open) {
			return max(t, open[i].Lo)
		}
		return timeline.MaxTime
	}
}

// The opcodes of near branches with a displacement of 32 bits.
const (
	opCALL = 0xe8
	opJMP  = 0xe9
	opLen  = 5 // with the displacement
)

// branch returns the opcode and the target of a near call or jump. ok is false for
// other instructions.
func branch(addr uint64, code []byte) (op byte, target uint64, ok bool) {
	if len(code) != opLen || code[0] != opCALL && code[0] != opJMP {
		return 0, 0, false
	}
	return code[0], addr + opLen + uint64(int64(int32(binary.LittleEndian.Uint32(code[1:])))), true
}

// A slot is a piece of out-of-line code with its bytes.
type slot struct {
	Trampoline
	code []byte
	copy []byte // of a kprobe's slot: the instruction
	mate *slot  // of an optimised probe's slot: the one that the same task made just before
}

// slotsOf follows the pieces of out-of-line code from when they are made until they
// are removed.
func slotsOf(im *timeline.Image, made []codeWrite) []*slot {
	x := slotReader{im: im, alive: make(map[uint64]*slot), latest: make(map[uint32]*slot)}
	for _, m := range made {
		switch {
		case len(m.new) == 0:
			x.end(m.addr, m.time)
		case len(m.old) == 0:
			x.end(m.addr, m.time)
			x.make(m)
		default:
			x.change(m)
		}
	}
	return x.all
}

// A slotReader is the state of slotsOf.
type slotReader struct {
	im     *timeline.Image
	all    []*slot
	alive  map[uint64]*slot // by address
	latest map[uint32]*slot // the one that each task made last
}

// end ends the slot at addr, if there is one.
func (x *slotReader) end(addr, t uint64) {
	if s := x.alive[addr]; s != nil {
		s.To = min(s.To, t)
		delete(x.alive, addr)
	}
}

// make makes a slot of a poke that has no old bytes.
func (x *slotReader) make(m codeWrite) {
	// A trampoline's symbol comes after its code.
	l := x.im.LifetimeOf(m.addr, m.time, timeline.OutOfLine)
	if l == nil {
		return
	}
	s := &slot{Trampoline: Trampoline{Addr: m.addr, Len: uint64(len(m.new)), From: m.time, To: l.To}, code: m.new}
	switch l.Name {
	case "kprobe_insn_page":
		s.Kind = KprobeSlot
		s.kprobe()
	case "kprobe_optinsn_page":
		s.Kind, s.mate = OptprobeSlot, x.latest[m.tid]
	case "ftrace_trampoline":
		s.Kind = FtraceTrampoline
		s.ftrace()
	default:
		return
	}
	x.alive[m.addr], x.latest[m.tid] = s, s
	x.all = append(x.all, s)
}

// change replaces the slot that a poke changes: ftrace makes a trampoline call
// another function.
func (x *slotReader) change(m codeWrite) {
	l := x.im.LifetimeOf(m.addr, m.time, timeline.OutOfLine)
	if l == nil {
		return
	}
	was := x.alive[l.Lo]
	if was == nil || was.Kind != FtraceTrampoline || m.addr-was.Addr >= was.Len || m.time >= was.To {
		return
	}
	now := &slot{Trampoline: was.Trampoline, code: bytes.Clone(was.code)}
	now.From, was.To = m.time, m.time
	copy(now.code[m.addr-now.Addr:], m.new)
	now.ftrace()
	x.alive[now.Addr] = now
	x.all = append(x.all, now)
}

// kprobe reads a kprobe's slot: a copy of the probed instruction, and then an INT3 or a
// jump to the instruction after the original.
func (s *slot) kprobe() {
	in, err := x86asm.Decode(s.code, 64)
	if err != nil || in.Len >= len(s.code) {
		return
	}
	s.copy = s.code[:in.Len]
	if op, target, ok := branch(s.Addr+uint64(in.Len), s.code[in.Len:]); ok && op == opJMP {
		s.Places = []uint64{target - uint64(in.Len)}
	}
}

// endbr is endbr64, which x86asm does not know.
var endbr = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// ftrace reads an ftrace trampoline: the first function that it calls, and the pointer
// to its struct ftrace_ops after its last instruction.
func (s *slot) ftrace() {
	s.Func, s.Ops = 0, 0
	n := len(s.code) - 8
	if n < 0 {
		return // of a damaged record
	}
	for at := 0; at < n; {
		size := len(endbr)
		if !bytes.HasPrefix(s.code[at:n], endbr) {
			in, err := x86asm.Decode(s.code[at:n], 64)
			if err != nil {
				return
			}
			size = in.Len
		}
		if op, target, ok := branch(s.Addr+uint64(at), s.code[at:at+size]); ok && op == opCALL && target-s.Addr >= s.Len {
			s.Func = target
			break
		}
		at += size
	}
	if ops := binary.LittleEndian.Uint64(s.code[n:]); s.Func != 0 && ops>>47 == 1<<17-1 {
		s.Ops = ops
	}
}

// findProbes finds the probes of optimised probes' slots. Such a slot is
//
//	template | copied instructions | JMP back
//
// where JMP leads to what follows the original instructions. The template's length is the
// kernel's own. If it is known, so is the length of the copies, and the place of the
// original instructions.
func findProbes(slots []*slot, used []codeWrite, sure func(uint64) uint64) {
	optimised := make(map[uint64][]*slot) // by address, in order of time
	for _, s := range slots {
		if s.Kind == OptprobeSlot {
			optimised[s.Addr] = append(optimised[s.Addr], s)
		}
	}
	template, ok := templateLen(optimised, used)
	if !ok {
		return
	}
	for _, s := range slots {
		if s.Kind == OptprobeSlot {
			s.optprobe(template, sure)
		}
	}
}

// templateLen returns the length of the template in the slots of optimised probes. A
// jump to such a slot shows it: the jump is where the instructions were that the slot
// has copies of. ok is false if there is no such jump, or if two disagree.
func templateLen(optimised map[uint64][]*slot, used []codeWrite) (template int, ok bool) {
	for _, u := range used {
		op, target, branches := branch(u.addr, u.new)
		if !branches || op != opJMP {
			continue
		}
		for _, s := range optimised[target] {
			back, jumps := s.back()
			n := back - u.addr
			if !jumps || u.time < s.From || s.To <= u.time || n < opLen || n >= opLen+maxInst {
				continue
			}
			t := len(s.code) - opLen - int(n)
			if ok && template != t {
				return 0, false // this kernel's slots are made in another way
			}
			template, ok = t, true
		}
	}
	return template, ok
}

// optprobe finds the place that an optimised probe's slot serves. The probe's own slot
// serves the same: the same task made it just before, under kprobe_mutex.
func (s *slot) optprobe(template int, sure func(uint64) uint64) {
	back, ok := s.back()
	n := len(s.code) - opLen - template
	if !ok || n < opLen || n >= opLen+maxInst {
		return
	}
	place := back - uint64(n)
	s.Places = []uint64{place}
	m := s.mate
	if m != nil && m.Kind == KprobeSlot && m.Places == nil && s.From < min(m.To, sure(m.From)) && sameInst(m.copy, s.code[template:]) {
		m.Places = s.Places
	}
}

// findOnly finds the probes of the kprobe slots that are left. A probe that is armed
// has a slot with a copy of its instruction. If the recording has the making of every
// slot and only one of them has that copy, it is the probe's.
func findOnly(im *timeline.Image, slots []*slot, armed []codeWrite, sure func(uint64) uint64) {
	first, _ := im.Extent()
	if hasOlderSlots(im, first) {
		return
	}
	whole := sure(first) // until when every slot that was made is known
	x := freeSlots{im: im, byCopy: make(map[string]map[*slot]bool), served: make(map[uint64]int)}
	for _, e := range slotEvents(slots, armed) {
		switch {
		case e.time >= whole:
			return
		case e.s == nil:
			x.arm(e.addr, e.time)
		case e.end:
			x.remove(e.s)
		default:
			x.add(e.s)
		}
	}
}

// hasOlderSlots reports whether there was a page of kprobe slots before the recording.
// It may hold a copy of any instruction.
func hasOlderSlots(im *timeline.Image, first uint64) bool {
	for l := range im.Lifetimes {
		if l.Kind == timeline.OutOfLine && l.Name == "kprobe_insn_page" && l.From <= first {
			return true
		}
	}
	return false
}

// A slotEvent is the making or the end of a kprobe's slot, or that a probe is armed.
type slotEvent struct {
	time uint64
	s    *slot // nil: a probe is armed at addr
	end  bool
	addr uint64
}

// slotEvents returns the events in the order of time. At one time slots come before
// probes.
func slotEvents(slots []*slot, armed []codeWrite) []slotEvent {
	var events []slotEvent
	for _, s := range slots {
		if s.Kind == KprobeSlot {
			events = append(events, slotEvent{time: s.From, s: s}, slotEvent{time: s.To, s: s, end: true})
		}
	}
	for _, a := range armed {
		events = append(events, slotEvent{time: a.time, addr: a.addr})
	}
	slices.SortStableFunc(events, func(a, b slotEvent) int { return cmp.Compare(a.time, b.time) })
	return events
}

// freeSlots are the kprobe slots that are there at a time of findOnly.
type freeSlots struct {
	im     *timeline.Image
	byCopy map[string]map[*slot]bool // those whose probe is unknown, by their copies
	served map[uint64]int            // by place: how many slots serve it
}

// add adds a slot that was made.
func (x *freeSlots) add(s *slot) {
	if len(s.Places) > 0 {
		x.served[s.Places[0]]++
		return
	}
	key := instKey(s.copy)
	if x.byCopy[key] == nil {
		x.byCopy[key] = make(map[*slot]bool)
	}
	x.byCopy[key][s] = true
}

// remove removes a slot that has ended.
func (x *freeSlots) remove(s *slot) {
	delete(x.byCopy[instKey(s.copy)], s)
	if len(s.Places) > 0 {
		x.served[s.Places[0]]--
	}
}

// arm gives the probe that is armed at addr its slot, if there is only one for it.
func (x *freeSlots) arm(addr, t uint64) {
	var code [maxInst]byte
	was := x.im.At(max(t, 1)-1).Read(addr, code[:])
	key := instKey(code[:was.Given])
	if was.Standing != timeline.Known || key == "" || x.served[addr] > 0 || len(x.byCopy[key]) != 1 {
		return
	}
	for only := range x.byCopy[key] {
		only.Places = []uint64{addr}
	}
	x.served[addr]++
	delete(x.byCopy, key)
}

// instKey returns the instruction that code begins with, but for a
// displacement that depends on the place; "" if there is none.
func instKey(code []byte) string {
	in, err := x86asm.Decode(code, 64)
	if err != nil {
		return ""
	}
	inst := bytes.Clone(code[:in.Len])
	clear(inst[in.PCRelOff:][:in.PCRel])
	return string(inst)
}

// maxInst is the length of the longest instruction of x86.
const maxInst = 15

// back returns where the jump at the end of an optimised probe's slot goes.
func (s *slot) back() (uint64, bool) {
	n := len(s.code) - opLen
	if n < 0 {
		return 0, false
	}
	op, target, ok := branch(s.Addr+uint64(n), s.code[n:])
	return target, ok && op == opJMP
}

// sameInst reports whether code begins with the instruction inst, but for a
// displacement that depends on the place.
func sameInst(inst, code []byte) bool {
	key := instKey(inst)
	return key != "" && key == instKey(code)
}

// findUses finds the branches into BPF images, and from when until when each was there.
func (x *trampolines) findUses(im *timeline.Image, used []codeWrite, sure func(uint64) uint64) {
	x.uses = make(map[*timeline.Lifetime][]use)
	type open struct {
		l *timeline.Lifetime
		i int
	}
	last := make(map[uint64]open) // by site
	for _, u := range used {
		if o, ok := last[u.addr]; ok {
			k := &x.uses[o.l][o.i]
			k.to = min(k.to, u.time)
			delete(last, u.addr)
		}
		_, target, ok := branch(u.addr, u.new)
		if !ok {
			continue
		}
		// A branch of a trampoline within itself does not use it.
		l := im.LifetimeOf(target, u.time, timeline.BPFImage)
		if l != nil && l.From <= u.time && (u.addr < l.Lo || u.addr >= l.Hi) {
			x.uses[l] = append(x.uses[l], use{u.addr, u.time, min(l.To, sure(u.time))})
			last[u.addr] = open{l, len(x.uses[l]) - 1}
		}
	}
}
