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
	// It serves so at every time t with From <= t < To, and is not known to at
	// other times.
	From, To uint64
	// Places are what a slot or a BPF trampoline serves, ascending: the probed
	// instruction, or the instructions that call or jump into the trampoline.
	Places []uint64
	// Func is the function that an ftrace trampoline calls, Ops the struct
	// ftrace_ops that it hands over; 0 where the code does not show it.
	Func, Ops uint64
}

// TrampolineAt returns what the code at addr serves at time t. It returns
// only what the recording proves: by the bytes of the code itself, by those of
// the places that branch to it, and by the order in which the kernel makes
// slots; and only where no record that says otherwise can have been lost. It
// knows x86-64's code, as other architectures record none.
//
// The first call that meets such code reads the recording once more.
func (r *Replay) TrampolineAt(addr, t uint64) (Trampoline, bool) {
	alive, _ := r.Image.At(t).LifetimeAt(addr)
	if alive == nil || alive.Kind != timeline.OutOfLine && alive.Kind != timeline.BPFImage || !r.arch.readsTrampolines() {
		return Trampoline{}, false
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
		return s, ok
	}
	return r.trampolines.piece(addr, t)
}

// trampolines are those of all code that the recording has records of.
type trampolines struct {
	once   sync.Once
	pieces []Trampoline // of out-of-line code, by address and time
	reach  []uint64     // greatest end of pieces[:i+1]
	uses   map[*timeline.Lifetime][]use
	saved  []byte // of an index
}

// A use is a branch into a BPF image that was at site during [from, to).
type use struct{ site, from, to uint64 }

// piece returns the service of the out-of-line code at addr.
func (x *trampolines) piece(addr, t uint64) (Trampoline, bool) {
	i := sort.Search(len(x.pieces), func(i int) bool { return x.pieces[i].Addr > addr })
	for i--; i >= 0 && x.reach[i] > addr; i-- {
		if s := &x.pieces[i]; addr < s.Addr+s.Len && s.From <= t && t < s.To {
			return *s, true
		}
	}
	return Trampoline{}, false
}

// trampoline returns the service of a BPF image.
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

// A codeWrite is a poke that makes, changes or removes out-of-line code, or one of
// a place that at some time branches to such code.
type codeWrite struct {
	time     uint64
	addr     uint64
	tid      uint32
	old, new []byte
}

// find reads the recording for what makes and what uses out-of-line code.
func (x *trampolines) find(r *Replay) {
	im := r.Image
	var made []codeWrite // no old bytes, or no new ones, or changed in place
	var armed []codeWrite
	sites := make(map[uint64]bool)
	filter := branches{im: im}
	for p := range r.pokes(filter.matters) {
		if len(p.Old) == 0 || len(p.New) == 0 || im.EverDynamic(p.Addr, timeline.OutOfLine) {
			made = append(made, codeWrite{p.Time, p.Addr, p.TID, bytes.Clone(p.Old), bytes.Clone(p.New)})
			continue
		}
		if len(p.Old) == 1 && len(p.New) == 1 && p.New[0] == patching.INT3 {
			armed = append(armed, codeWrite{time: p.Time, addr: p.Addr})
		}
		op, target, ok := branch(p.Addr, p.New)
		if ok && (im.EverDynamic(target, timeline.BPFImage) || op == opJMP && im.EverDynamic(target, timeline.OutOfLine)) {
			sites[p.Addr] = true
		}
	}
	var used []codeWrite // all pokes of sites
	if len(sites) > 0 {
		hits := func(raw []byte) bool { return len(raw) < pokeBytes || sites[binary.LittleEndian.Uint64(raw[8:])] }
		for p := range r.pokes(hits) {
			if sites[p.Addr] {
				used = append(used, codeWrite{p.Time, p.Addr, p.TID, nil, bytes.Clone(p.New)})
			}
		}
	}
	inTime := func(list []codeWrite) {
		slices.SortStableFunc(list, func(a, b codeWrite) int { return cmp.Compare(a.time, b.time) })
	}
	inTime(made)
	inTime(used)
	inTime(armed)

	sure := r.unchangedUntil()
	slots := slotsOf(im, made)
	findProbes(slots, used, sure)
	findOnly(im, slots, armed, sure)
	for _, s := range slots {
		if s.To = min(s.To, sure(s.From)); s.To > s.From && (len(s.Places) > 0 || s.Func != 0) {
			x.pieces = append(x.pieces, s.Trampoline)
		}
	}
	slices.SortStableFunc(x.pieces, func(a, b Trampoline) int {
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.From, b.From))
	})
	x.indexPieces()
	x.findUses(im, used, sure)
}

// indexPieces makes what piece looks into.
func (x *trampolines) indexPieces() {
	reach := uint64(0)
	for _, s := range x.pieces {
		reach = max(reach, s.Addr+s.Len)
		x.reach = append(x.reach, reach)
	}
}

// pokeBytes is where the bytes of a TEXT_POKE record begin.
const pokeBytes = 8 + 8 + 2 + 2

// branches finds pokes of core text that have nothing to do with dynamic code or
// kprobes, which are nearly all, before they are decoded. x86-64's recordings are
// little-endian.
type branches struct {
	im *timeline.Image
	// The branch that was looked at last: tracers' branches all lead to one place.
	op     byte
	target uint64
	leads  bool // to dynamic code
}

// matters reports whether a record has to be looked at.
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
		return old == 1 && new == 1 && code[0] == patching.INT3 // a kprobe
	}
	if op != b.op || target != b.target {
		b.op, b.target = op, target
		b.leads = b.im.EverDynamic(target, timeline.BPFImage) || op == opJMP && b.im.EverDynamic(target, timeline.OutOfLine)
	}
	return b.leads
}

// unchangedUntil returns a function. It returns until when nothing can have changed
// unrecorded since a time.
func (r *Replay) unchangedUntil() func(t uint64) uint64 {
	rep := r.Report
	// Disjoint and ascending: half-open intervals of time, as ranges are of addresses.
	open := []timeline.Range{{Lo: 0, Hi: rep.First}, {Lo: rep.Horizon + 1, Hi: timeline.MaxTime}}
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

// branch returns the opcode and the target of an instruction that is a near
// call or jump.
func branch(addr uint64, code []byte) (op byte, target uint64, ok bool) {
	if len(code) != opLen || code[0] != opCALL && code[0] != opJMP {
		return 0, 0, false
	}
	return code[0], addr + opLen + uint64(int64(int32(binary.LittleEndian.Uint32(code[1:])))), true
}

// A slot is a piece of out-of-line code with what its makers wrote there.
type slot struct {
	Trampoline
	code  []byte
	copy  []byte // of a kprobe's slot: the instruction
	maker uint32
	mate  *slot // of an optimised probe's slot: that which the same task made just before
}

// slotsOf follows the pieces of out-of-line code through their lives.
func slotsOf(im *timeline.Image, made []codeWrite) []*slot {
	var all []*slot
	alive := make(map[uint64]*slot)  // by address
	latest := make(map[uint32]*slot) // that each task made
	end := func(s *slot, t uint64) {
		s.To = min(s.To, t)
		delete(alive, s.Addr)
	}
	for _, m := range made {
		switch {
		case len(m.new) == 0:
			if s := alive[m.addr]; s != nil {
				end(s, m.time)
			}
		case len(m.old) == 0:
			if s := alive[m.addr]; s != nil {
				end(s, m.time)
			}
			// A trampoline's symbol comes after its code.
			l := im.LifetimeOf(m.addr, m.time, timeline.OutOfLine)
			if l == nil {
				continue
			}
			s := &slot{Trampoline: Trampoline{Addr: m.addr, Len: uint64(len(m.new)), From: m.time, To: l.To}, code: m.new, maker: m.tid}
			switch l.Name {
			case "kprobe_insn_page":
				s.Kind = KprobeSlot
				s.kprobe()
			case "kprobe_optinsn_page":
				s.Kind, s.mate = OptprobeSlot, latest[m.tid]
			case "ftrace_trampoline":
				s.Kind = FtraceTrampoline
				s.ftrace()
			default:
				continue
			}
			alive[m.addr], latest[m.tid] = s, s
			all = append(all, s)
		default:
			// ftrace gives a trampoline another function to call.
			l := im.LifetimeOf(m.addr, m.time, timeline.OutOfLine)
			if l == nil {
				continue
			}
			was := alive[l.Lo]
			if was == nil || was.Kind != FtraceTrampoline || m.addr-was.Addr >= was.Len || m.time >= was.To {
				continue
			}
			now := &slot{Trampoline: was.Trampoline, code: bytes.Clone(was.code)}
			now.From, was.To = m.time, m.time
			copy(now.code[m.addr-now.Addr:], m.new)
			now.ftrace()
			alive[now.Addr] = now
			all = append(all, now)
		}
	}
	return all
}

// kprobe reads a slot with a copy of a probed instruction, which a jump back
// to the one behind the original follows, or an INT3.
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

// ftrace reads a trampoline: the first function that it calls, and the pointer
// behind its last instruction.
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

// findProbes finds which probes the slots serve. A slot of an optimised probe ends with a jump back
// behind the instructions that it has copies of. They come after a template
// whose length is the kernel's own; the jump that an optimised probe has in the
// place of its instructions shows that length.
func findProbes(slots []*slot, used []codeWrite, sure func(uint64) uint64) {
	at := make(map[uint64][]*slot) // slots of optimised probes by address, in order of time
	for _, s := range slots {
		if s.Kind == OptprobeSlot {
			at[s.Addr] = append(at[s.Addr], s)
		}
	}
	template := -1
	for _, u := range used {
		op, target, ok := branch(u.addr, u.new)
		if !ok || op != opJMP {
			continue
		}
		for _, s := range at[target] {
			back, ok := s.back()
			if n := back - u.addr; ok && s.From <= u.time && u.time < s.To && n >= opLen && n < opLen+maxInst {
				t := len(s.code) - opLen - int(n)
				if template >= 0 && template != t {
					return // not what is assumed here
				}
				template = t
			}
		}
	}
	if template < 0 {
		return
	}
	for _, list := range at {
		for _, s := range list {
			back, ok := s.back()
			n := len(s.code) - opLen - template
			if !ok || n < opLen || n >= opLen+maxInst {
				continue
			}
			place := back - uint64(n)
			s.Places = []uint64{place}
			// The probe's own slot is made just before, under kprobe_mutex.
			m := s.mate
			if m != nil && m.Kind == KprobeSlot && m.Places == nil && s.From < min(m.To, sure(m.From)) && sameInst(m.copy, s.code[template:]) {
				m.Places = s.Places
			}
		}
	}
}

// findOnly finds the probes of the slots that are left: a probe that is armed has a
// slot with a copy of its instruction. Where all slots there are were made in the
// recording and only one of them has that copy, it is the one.
func findOnly(im *timeline.Image, slots []*slot, armed []codeWrite, sure func(uint64) uint64) {
	first, _ := im.Extent()
	whole := sure(first) // until when every slot that was made is known
	for l := range im.Lifetimes {
		if l.Kind == timeline.OutOfLine && l.Name == "kprobe_insn_page" && l.From <= first {
			return // it may hold any
		}
	}
	type event struct {
		time uint64
		s    *slot // is made, or with end removed
		end  bool
		addr uint64 // is armed, where s is nil
	}
	var events []event
	for _, s := range slots {
		if s.Kind == KprobeSlot {
			events = append(events, event{time: s.From, s: s}, event{time: s.To, s: s, end: true})
		}
	}
	for _, a := range armed {
		events = append(events, event{time: a.time, addr: a.addr})
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.time, b.time) })
	free := make(map[string]map[*slot]bool) // alive and not known to serve anything, by their copies
	served := make(map[uint64]int)          // how many alive slots serve a place
	for _, e := range events {
		if e.time >= whole {
			return
		}
		switch s := e.s; {
		case s == nil:
			var code [maxInst]byte
			given := im.At(max(e.time, 1)-1).Read(e.addr, code[:])
			key := instKey(code[:given.Given])
			if given.Standing != timeline.Known || key == "" || served[e.addr] > 0 || len(free[key]) != 1 {
				continue
			}
			for only := range free[key] {
				only.Places = []uint64{e.addr}
				served[e.addr]++
			}
			delete(free, key)
		case e.end:
			if delete(free[instKey(s.copy)], s); len(s.Places) > 0 {
				served[s.Places[0]]--
			}
		case len(s.Places) > 0:
			served[s.Places[0]]++
		default:
			key := instKey(s.copy)
			if free[key] == nil {
				free[key] = make(map[*slot]bool)
			}
			free[key][s] = true
		}
	}
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

// findUses finds the branches into BPF images.
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
		// What a trampoline jumps over inside itself says nothing.
		l := im.LifetimeOf(target, u.time, timeline.BPFImage)
		if l != nil && l.From <= u.time && (u.addr < l.Lo || u.addr >= l.Hi) {
			x.uses[l] = append(x.uses[l], use{u.addr, u.time, min(l.To, sure(u.time))})
			last[u.addr] = open{l, len(x.uses[l]) - 1}
		}
	}
}
