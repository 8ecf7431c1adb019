// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"iter"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/memory"
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Windows returns the windows of all in-place pokes. If Options.Windows did not ask
// for them, the first call reads the recording once more.
func (r *Replay) Windows() *timeline.Windows { return r.windowsOf(nil) }

// InPlace returns what windows need of a change that [Replay.ChangesAlone] has yielded. ok is false
// if it is no poke, or none that is made in place; then p has no more than the kind. InPlace is for one
// goroutine.
func (r *Replay) InPlace(c *Change) (p timeline.InPlacePoke, ok bool) {
	if c.Poke == nil || !c.Kind.InPlace() {
		return timeline.InPlacePoke{Kind: c.Kind}, false
	}
	poke := timeline.Poke{Addr: c.Poke.Addr, Time: c.Poke.Time, Old: c.Poke.Old, New: c.Poke.New}
	return r.scanned().inPlace(&poke, c.Poke.TID, c.Kind), true
}

// ProvenOf returns a function that sets windows to those of as many pokes, [timeline.Window.Proven]: the
// first ones, and those that follow with each further call. Of a poke without a window it is empty.
// ProvenOf is for a program that has read all changes, so that nothing is read again. p has all text pokes
// among [Replay.ChangesAlone], in its order, even if several are of one time, and its Forms are what
// [Replay.InPlace] returns.
func (r *Replay) ProvenOf(p *timeline.PlainPokes) (next func(windows []timeline.Interval)) {
	probed := false
	for range r.scanned().probedWrites() {
		probed = true // what probes recorded is among the changes, and has no window
		break
	}
	if r.unmade != nil && !probed && !r.arch.hasWords() && ascend(p.Times) {
		return p.Proven(r.scan.writers.idle, r.Report.ClockUncertainty)
	}
	pokes, at := memory.Uncleared[timeline.InPlacePoke](len(p.Times)), memory.Uncleared[uint32](len(p.Times))
	tid, end := uint32(0), 0
	for k, t := range p.Times {
		if k >= end {
			tid, end = p.Task(k)
		}
		if form := &p.Forms[p.Form[k]]; form.Kind.InPlace() {
			pokes, at = append(pokes, *form), append(at, uint32(k))
			own := &pokes[len(pokes)-1]
			own.Time, own.TID = t, tid
		}
	}
	w := r.windowsOf(func(s *scan) *timeline.Windows {
		if probed {
			return r.unmade()
		}
		return s.windowsOf(slices.Clone(pokes))
	})
	done, found := make([]bool, len(pokes)), memory.Zeroed[timeline.Interval](len(pokes))
	first := 0 // the first poke that may not have its window, or is of the time of the window
	for in, proven := range w.Proven() {
		for first < len(pokes) && (done[first] || pokes[first].Time < in.Time) {
			first++
		}
		for k := first; k < len(pokes) && pokes[k].Time == in.Time; k++ {
			if q := &pokes[k]; !done[k] && q.Addr == in.Addr && q.Kind == in.Kind {
				done[k], found[k] = true, proven
				break
			}
		}
	}
	given, k := 0, 0 // how many pokes have got their windows, in Times and in pokes
	return func(windows []timeline.Interval) {
		clear(windows)
		for ; k < len(at) && int(at[k]) < given+len(windows); k++ {
			windows[int(at[k])-given] = found[k]
		}
		given += len(windows)
	}
}

// ascend reports whether each time is later than the one before it.
func ascend(times []uint64) bool {
	for i := 1; i < len(times); i++ {
		if times[i] <= times[i-1] {
			return false
		}
	}
	return true
}

// windowsOf returns the windows. unread makes them without reading the recording, and may be nil.
func (r *Replay) windowsOf(unread func(s *scan) *timeline.Windows) *timeline.Windows {
	r.windowsOnce.Do(func() {
		switch {
		case r.unmade == nil:
		case unread != nil:
			r.windows = unread(r.scan)
		default:
			r.windows = r.unmade()
		}
		if r.windows == nil {
			r.windows = r.windowsOfIndex()
		}
		if r.windows == nil {
			r.windows = r.findWindows()
		}
		r.windows.Widen(r.Report.ClockUncertainty)
	})
	return r.windows
}

// WindowsAt returns the windows that are open at time t over any byte of [addr, addr+n),
// as [timeline.Windows.At] of [Replay.Windows] does. If Options.Windows was set, it does not
// need all windows for a few questions, which saves time.
func (r *Replay) WindowsAt(addr, n, t uint64) []timeline.Window {
	const few = 4
	if r.unmade != nil && r.fewWindows.Add(1) <= few && !r.scan.mayHaveWindow(addr, n, t) {
		return nil
	}
	return r.Windows().At(addr, n, t)
}

// findWindows reads the recording once more for the windows.
func (r *Replay) findWindows() *timeline.Windows {
	return r.rescan(func(s *scan) { s.keepPlaced = true }).newWindows()
}

// pokes yields the text pokes that the image is made of, in the order of the file, see
// [scan.isChosen]. If matters is not nil, records for which it returns false are
// skipped before they are decoded. If skips is not nil, runs for which it returns true
// are skipped as a whole, where they were kept. A poke is valid until the next one.
func (r *Replay) pokes(matters func(raw []byte) bool, skips func(*pokePlaces) bool) iter.Seq[*perfdata.TextPoke] {
	return func(yield func(*perfdata.TextPoke) bool) {
		known := r.scanned()
		var p perfdata.TextPoke
		ended := false
		pass := secondPass{s: known, types: []perfdata.RecordType{perfdata.RecordTextPoke}, places: true}
		if skips != nil {
			pass.run = func(run *pokeRun) bool { return skips(&run.places) }
		}
		pass.record = func(rec *perfdata.Record) bool {
			if matters != nil && !matters(rec.Raw) {
				return true
			}
			if r.Recording.TextPoke(rec, &p) == nil && known.isChosen(rec, &p.SampleID, takesPokes) {
				ended = !yield(&p)
			}
			return !ended
		}
		if pass.read(); ended || matters != nil { // matters is asked for records of TEXT_POKE
			return
		}
		for w := range known.probedWrites() {
			if p = w.record(); !yield(&p) {
				return
			}
		}
	}
}

// newWindows returns the windows of the in-place pokes that were read.
func (s *scan) newWindows() *timeline.Windows { return s.windowsOf(s.placed.all(s)) }

// windowsOf returns the windows of these pokes. It keeps and changes pokes and s.writers.idle.
func (s *scan) windowsOf(pokes []timeline.InPlacePoke) *timeline.Windows {
	return timeline.NewWindows(pokes, s.writers.idle, s.arch.hasWords())
}

// inPlace returns the part of a poke that windows need.
func (s *scan) inPlace(p *timeline.Poke, tid uint32, kind timeline.PokeKind) timeline.InPlacePoke {
	in := timeline.InPlacePoke{Time: p.Time, Addr: p.Addr, TID: tid, Kind: kind}
	if patching.CanTrap(s.arch.machine, kind, p.Old, p.New) {
		in.Len = uint16(max(len(p.Old), len(p.New)))
	}
	if kind == timeline.PokeBatch && s.alone(p) {
		in.Flags = timeline.PokeAlone
	}
	return in
}

// writers collects the moments at which tasks that write text did something else.
type writers struct {
	idle []timeline.IdleMoment
	of   map[uint32]writer // by thread
	last uint32            // the thread that wrote last, 0 if it did something else after that
}

// writer is a thread.
type writer struct {
	idle  uint64 // its newest moment that is not in writers.idle, 0 if there is none
	pokes bool   // it wrote text after its newest moment
}

// pokes notes that a thread writes text.
func (w *writers) pokes(tid uint32) {
	if tid == w.last {
		return
	}
	w.last = tid
	if idle := w.of[tid].idle; idle != 0 {
		w.idle = append(w.idle, timeline.IdleMoment{Time: idle, TID: tid})
	}
	w.put(tid, writer{pokes: true})
}

// put sets what is known of a thread.
func (w *writers) put(tid uint32, is writer) {
	if w.of == nil {
		w.of = make(map[uint32]writer)
	}
	w.of[tid] = is
}

// writesNone notes a COMM, MMAP, FORK or EXIT record. Its thread is in another system
// call, or exits, so it is not in the middle of a poke. Of each thread's moments only
// those next to its pokes are kept.
func (s *scan) writesNone(rec *perfdata.Record, id *perfdata.SampleID) {
	const needed = perfdata.SampleTime | perfdata.SampleTID
	if !s.keepPlaced || id.Time == 0 || id.Has&needed != needed {
		return
	}
	w := &s.writers
	if w.last == id.TID {
		w.last = 0
	}
	switch is := w.of[id.TID]; {
	case is.pokes:
		w.idle = append(w.idle, timeline.IdleMoment{Time: id.Time, TID: id.TID})
		w.put(id.TID, writer{idle: id.Time})
	case rec.Type == perfdata.RecordExit:
		delete(w.of, id.TID)
	default:
		w.put(id.TID, writer{idle: id.Time})
	}
}

// alone reports whether the kernel never writes the place of p in a batch with others.
func (s *scan) alone(p *timeline.Poke) bool {
	alone, callees := patching.Alone(s.arch.machine, p.Addr, p.Old, p.New)
	for _, to := range callees {
		alone = alone || to != 0 && s.callees.ofStaticCall(to)
	}
	return alone
}

// callees finds out by the target whether a call that the kernel writes is a static
// call. A static call leads to a function. A call site of ftrace leads to ftrace's
// code, to a trampoline outside of the kernel's text, or, for a direct call, to a
// trampoline of a module.
type callees struct {
	k      *kcore.Kallsyms // nil if there is none: no call is known to be static
	static map[uint64]bool // the answers so far, by address
	last   uint64          // the address that was asked for last
	lastIs bool            // and the answer
}

// ofStaticCall reports whether a call to this address is certainly a static call.
func (c *callees) ofStaticCall(addr uint64) bool {
	if c.k == nil || addr == c.last {
		return c.lastIs
	}
	is, ok := c.static[addr]
	if !ok {
		lo, hi, known := c.k.Text()
		is = known && lo <= addr && addr < hi && isPlainFunction(c.k.NamesOf(addr))
		if c.static == nil {
			c.static = make(map[uint64]bool)
		}
		c.static[addr] = is
	}
	c.last, c.lastIs = addr, is
	return is
}

// isPlainFunction reports whether these are the names of a function that no site
// of ftrace calls. Those call ftrace_caller, ftrace_regs_caller or, before 5.18,
// ftrace_graph_caller (arch/x86/kernel/ftrace_64.S), __fentry__ before they are
// patched, and ftrace_stub_direct_tramp in ftrace's self-test.
func isPlainFunction(names []kcore.Symbol) bool {
	for _, s := range names {
		if strings.HasSuffix(s.Name, "_caller") || strings.Contains(s.Name, "tramp") || strings.Contains(s.Name, "fentry") {
			return false
		}
	}
	return len(names) > 0
}
