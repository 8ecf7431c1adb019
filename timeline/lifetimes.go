// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"container/heap"
	"slices"
	"sort"
)

// LifetimeKind is the kind of code that has a [Lifetime].
type LifetimeKind uint8

const (
	KernelText LifetimeKind = iota // core kernel text
	ModuleText                     // a module's text
	ModuleData                     // what follows a module's text
	BPFProgram                     // a BPF program's function
	BPFImage                       // a BPF trampoline, dispatcher, struct_ops image
	OutOfLine                      // a page of kprobe slots, an ftrace trampoline
	Nothing                        // no code: from its time on, what was here before is gone
)

// Lifetime is the time [From, To) during which one piece of code is at the addresses
// [Lo, Hi). Other code is at the same addresses before and after (rule lifetimes). Times
// are nanoseconds of the recording's clock. A Lifetime of an image is read-only.
type Lifetime struct {
	Lo, Hi   uint64
	From, To uint64 // 0: there before the recording; MaxTime: its end is not recorded
	order    int    // its place in the order of the records that brought the lifetimes
	Name     string
	code     *code  // of a BPF program's function; nil: the recording does not have it
	Program  uint32 // id of the BPF program whose info the code is from; 0: none
	cpu      uint16 // that recorded its birth; unknownCPU: no record shows that
	recorded uint64 // the time of that record; less than From if it was exchanged with a death
	Kind     LifetimeKind
	Ended    Reason // why it ended
	later    bool   // of a module that was not there when the snapshot was taken
	stayed   bool   // of a module that is certain to have been there until To
	undated  bool   // of a module in a list that may be of any time
	missed   bool   // its end went unrecorded, in a gap that To is in or behind
	doubted  uint64 // of a module's text: the time from which a contradiction spoils it; MaxTime: none
	names    Names  // of a module that the image's table does not name
	// seen are intervals of time. It is certain that the code was there at some moment of
	// each: that of a birth, the last one before a death, that of a list.
	seen []Interval
	// unsure is the time in which an unrecorded birth or death may have changed whether
	// it is there: a gap for all facts about it.
	unsure gaps
	// early is a gap for it if a death may be recorded before the birth that it belongs to, by
	// a CPU whose clock differs; nil otherwise. If this is that birth, it may have died meanwhile. If
	// this was believed to end with that death, it may not have been there at all.
	early *gap
}

// A liveSet is the set of lifetimes at one moment.
type liveSet struct {
	alive   liveList
	all     []*Lifetime
	pages   lifetimeIndex // of all
	leaving leavingHeap   // modules, also some that are not alive any more
	// When births and deaths may have gone unrecorded: of dynamic symbols, and of
	// modules.
	symbols, modules gaps
	// starting is modules with the time until the events of modules were enabled, later is that with the time before
	// the recording.
	starting, later gaps
	lost            gaps   // symbols, as they are recorded, whatever the clocks
	first           uint64 // the time of the first record
	maxSkew         uint64
	// unborn are the newest deaths that may have no birth before them, by address.
	unborn map[uint64][]unbornDeath
	// ended are the newest deaths of code that had a birth, by address.
	ended map[uint64]*SymbolEvent
	room  []Lifetime // for the next ones: they are allocated many at once
}

// An unbornDeath is a death without a birth, and the lifetime that it is believed to end; nil
// if there is none. A death behind a birth counts too, if another death may be of that birth: then
// it may itself be of a birth that is recorded later.
type unbornDeath struct {
	event    *SymbolEvent
	lifetime *Lifetime
}

// gapsOf returns when the birth or the death of what l is may have gone unrecorded.
func (p *liveSet) gapsOf(l *Lifetime) gaps {
	if l.IsModule() {
		switch {
		case l.stayed:
			return p.modules
		case l.later: // its list may be of before the recording
			return p.later
		}
		return p.starting
	}
	if l.early != nil {
		return flatten(append(slices.Clone(p.symbols), *l.early))
	}
	return p.symbols
}

// register makes l alive, ending what it overlaps.
func (p *liveSet) register(l *Lifetime) {
	if l.lenIsBound() {
		p.bearImage(l)
		return
	}
	for _, o := range p.alive.overlapping(l.Lo, l.Hi) {
		if o.lenIsBound() && o.Lo < l.Lo {
			// An image announced a page; that something else begins inside
			// shows that it is shorter, and was so all the time.
			o.Hi = l.Lo
			continue
		}
		p.supersede(o, l.From)
		p.alive.remove(o)
	}
	p.alive.insert(l)
	p.all = append(p.all, l)
}

// lenIsBound reports whether the length of l is only an upper bound: that of an image is a page, and
// newer kernels give the sum of a module's separate areas (struct module_memory, Linux 6.4).
func (l *Lifetime) lenIsBound() bool { return l.Kind == BPFImage || l.Kind == ModuleData }

// supersede ends l: a record of time t shows that it is not there any more. If
// its end went unrecorded in a gap, that was by the end of the last gap before t:
//
//	gaps          ├─┤   ├─┤
//	l      ├──────··········┤        │
//	     birth    unsure   l.To      t
func (p *liveSet) supersede(l *Lifetime, t uint64) {
	l.To, l.Ended = t, Unregistered
	switch l.Kind {
	case ModuleText:
		l.Ended = ModuleContradicted
	case ModuleData: // it need not have reached as far: its length is a bound
		l.Ended = NotText
	}
	if g := p.lostSince(l, t); len(g) > 0 {
		l.To, l.missed = min(t, g[len(g)-1].to), true
	} else if !l.IsModule() && l.seenAfter(t) {
		// Its death would have been recorded: it came later, and its birth was not recorded.
		why := ClockUncertainty
		if g := p.gapsOf(l).between(t, MaxTime); len(g) > 0 {
			why = g[0].reason
		}
		l.uncertain(why)
	}
}

// uncertain says that nothing shows that l was there, at any time.
func (l *Lifetime) uncertain(why Reason) { l.early, l.seen = &gap{l.From, l.To, why}, nil }

// seenAfter reports whether the moment at which l was seen may be after t.
func (l *Lifetime) seenAfter(t uint64) bool {
	return slices.ContainsFunc(l.seen, func(s Interval) bool { return s.From < t && t < s.To })
}

// lostSince returns the gaps before t in which the end of l may have gone unrecorded:
// those since it was seen last.
func (p *liveSet) lostSince(l *Lifetime, t uint64) gaps {
	from := l.From
	for _, s := range l.seen {
		from = max(from, s.From)
	}
	if from >= t {
		return nil
	}
	return p.gapsOf(l).between(from, t)
}

// bearModule makes a module's text and what follows it alive. all are the modules of the
// recording by address: m ends where the next one that is loaded at the same time begins.
func (p *liveSet) bearModule(m Module, all []Module) {
	i := sort.Search(len(all), func(i int) bool { return all[i].Addr > m.Addr })
	for ; i < len(all) && all[i].Addr < m.End; i++ {
		// /proc/modules gives the sum of separate areas on newer kernels.
		if all[i].during(&m) {
			m.End = all[i].Addr
		}
	}
	m.TextEnd = min(m.TextEnd, m.End)
	to := m.Freed
	if to == 0 {
		to = MaxTime
	}
	text := &Lifetime{Lo: m.Addr, Hi: m.TextEnd, From: m.Loaded, To: to, Kind: ModuleText, Name: m.Name, Ended: Unregistered,
		names: m.Names, later: m.Later, stayed: m.Stayed, undated: m.Undated, seen: append(slices.Clip(m.Listed), m.again...)}
	data := *text
	data.Lo, data.Hi, data.Kind = max(m.Addr, m.TextEnd), m.End, ModuleData
	var here []*Lifetime
	if text.Lo < text.Hi {
		here = p.alive.overlapping(text.Lo, text.Hi)
	}
	if m.goneBefore(p.first) && len(here) > 0 || text.isGuess() && slices.ContainsFunc(here, text.wouldEnd) {
		return // what is alive came before the recording too, or is certain
	}
	bear := func(l *Lifetime) {
		p.register(l)
		if m.Freed != 0 {
			heap.Push(&p.leaving, leaving{m.Freed, l})
		}
	}
	if text.Lo < text.Hi {
		bear(text)
	}
	if there := p.alive.overlapping(data.Lo, data.Lo+1); text.Lo < text.Hi && len(there) > 0 || text.isGuess() && slices.ContainsFunc(there, data.wouldEnd) {
		data.Hi = data.Lo // its data are elsewhere
	}
	if data.Lo < data.Hi {
		bear(&data)
	}
}

// isGuess reports whether l is of a module that only a list of unknown time has: nothing shows that it was there in the
// time of the recording.
func (l *Lifetime) isGuess() bool { return l.undated && len(l.seen) == 0 }

// wouldEnd reports whether register would end o if l came.
func (l *Lifetime) wouldEnd(o *Lifetime) bool { return !o.lenIsBound() || o.Lo >= l.Lo }

// expire removes the modules that were freed at time t or before.
func (p *liveSet) expire(t uint64) {
	for len(p.leaving) > 0 && p.leaving[0].at <= t {
		p.alive.remove(heap.Pop(&p.leaving).(leaving).module)
	}
}

// A leaving is the time at which a module was freed. The end of its lifetime may be set to an earlier one.
type leaving struct {
	at     uint64
	module *Lifetime
}

// A leavingHeap is a heap (container/heap) by time.
type leavingHeap []leaving

func (h leavingHeap) Len() int           { return len(h) }
func (h leavingHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h leavingHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *leavingHeap) Push(x any)        { *h = append(*h, x.(leaving)) }
func (h *leavingHeap) Pop() any {
	n := len(*h) - 1
	x := (*h)[n]
	*h = (*h)[:n]
	return x
}

// bearImage makes an image or the data of a module alive, whose length is only an upper bound: it
// ends before the next live range and kills nothing but what covers its very first byte.
func (p *liveSet) bearImage(l *Lifetime) {
	here := p.alive.overlapping(l.Lo, l.Hi)
	if len(here) > 0 && here[0].Lo <= l.Lo {
		if o := here[0]; o.lenIsBound() && o.Lo < l.Lo {
			o.Hi = l.Lo
		} else {
			p.supersede(o, l.From)
			p.alive.remove(o)
		}
		here = here[1:]
	}
	if len(here) > 0 {
		l.Hi = here[0].Lo
	}
	p.alive.insert(l)
	p.all = append(p.all, l)
}

// unregister ends the code that e unregisters. If no record shows its birth, the code was
// there since the beginning, or since the gap in which it came. ofNext says that perf may have announced
// the next code here, and that the death is of that.
func (p *liveSet) unregister(e *SymbolEvent, ofNext bool) {
	l := lifetimeOf(e, nil)
	l.From, l.To, l.Ended = 0, e.Time, Unregistered
	if p.endAlive(&l, e, ofNext) {
		return
	}
	var ends *Lifetime
	if l.Kind == Nothing {
		p.keep(&l)
	} else if from, ok := p.cameBefore(&l); ok && from < l.To && l.Lo < l.Hi {
		l.From, l.seen = from, []Interval{lastMoment(&l)}
		p.dropGuesses(&l)
		ends = p.keep(&l)
	}
	if o := p.ended[e.Addr]; ends == nil && o != nil && p.sameDeath(o, e) {
		p.diedUnborn(o, nil) // either may have ended what was there
	}
	p.diedUnborn(e, ends)
}

// keep adds a copy of l to all, and returns it.
func (p *liveSet) keep(l *Lifetime) *Lifetime {
	c := p.clone(l)
	p.all = append(p.all, c)
	return c
}

// clone returns a copy of l that stays.
func (p *liveSet) clone(l *Lifetime) *Lifetime {
	if len(p.room) == 0 {
		p.room = make([]Lifetime, 64)
	}
	c := &p.room[0]
	p.room = p.room[1:]
	*c = *l
	return c
}

// clone returns a copy of l in memory of its own.
func (l *Lifetime) clone() *Lifetime {
	c := *l
	return &c
}

// lastMoment returns the last moment before the death of l.
func lastMoment(l *Lifetime) Interval { return Interval{earlier(l.To, 1), l.To} }

// endAlive ends what is alive in the range of l, which e unregisters. It reports
// whether l was among it.
func (p *liveSet) endAlive(l *Lifetime, e *SymbolEvent, ofNext bool) bool {
	for _, o := range p.alive.overlapping(l.Lo, l.Hi) {
		switch {
		case o.Lo == l.Lo && o.is(e) && o.recordedLike(l):
			o.To, o.Ended = e.Time, Unregistered
			if o.From == 0 {
				o.Hi = min(o.Hi, l.Hi) // kallsyms, which had it, says no length
			}
			p.ended[e.Addr] = e
			o.saw(lastMoment(l))
			p.alive.remove(o)
			if o.early != nil || o.From == 0 && ofNext {
				p.diedUnborn(e, o)
			}
			return true
		case o.Lo < l.Lo && o.lenIsBound():
			o.Hi = l.Lo
		case o.Lo > l.Lo && l.Kind == BPFImage:
			l.Hi = min(l.Hi, o.Lo) // as is this one's
		case o.Lo == l.Lo, o.IsModule(), len(p.lostSince(o, e.Time)) > 0:
			p.supersede(o, e.Time)
			p.alive.remove(o)
		default:
			// Nothing was lost, and yet it cannot be: all that is certain is that
			// nothing of this range is there any more.
			l.From, l.Kind = e.Time, Nothing
			return false
		}
	}
	return false
}

// saw notes that l was there at some moment of v.
func (l *Lifetime) saw(v Interval) {
	if l.IsModule() {
		l.seen = slices.Clip(l.seen) // that of its data is the same
	}
	l.seen = append(l.seen, v)
}

// cameBefore returns since when l may have been there, of whose birth there is no
// record: since the beginning, or since the first gap after all that was there before
// it. If one of those ended in a gap, that is the one. ok is false where nothing
// explains l.
func (p *liveSet) cameBefore(l *Lifetime) (from uint64, ok bool) {
	var before, since uint64
	here, ok := p.pages.around(p.all, l)
	if !ok {
		return 0, false
	}
	for _, o := range here {
		if o.Lo >= l.Hi || l.Lo >= o.Hi || o.From >= l.To || o.isGuess() {
			continue
		}
		before = max(before, o.To)
		if o.missed {
			since = max(since, earlier(o.To, 1))
		} else {
			since = max(since, o.To)
		}
	}
	if before == 0 {
		return 0, true
	}
	if since >= l.To {
		return 0, false
	}
	g := p.symbols.between(since, l.To)
	if len(g) == 0 {
		return 0, false
	}
	return max(before, g[0].from), true
}

// dropGuesses removes the modules of lists of unknown time in the place of l, while it is there.
func (p *liveSet) dropGuesses(l *Lifetime) {
	here, _ := p.pages.around(p.all, l)
	for _, o := range here {
		if o.isGuess() && o.Lo < l.Hi && l.Lo < o.Hi && o.From < l.To && l.From < o.To {
			o.From, o.To = 0, 0
		}
	}
}

// is reports whether l can be the one that e unregisters, at its address.
func (l *Lifetime) is(e *SymbolEvent) bool {
	return l.Name == e.Name && (l.Kind == OutOfLine) == (e.Kind == SymbolOutOfLine)
}

// recordedLike reports whether the birth of l can be of the code whose death o describes. The
// kernel records both with one length, which is unknown of what was there before the recording.
func (l *Lifetime) recordedLike(o *Lifetime) bool {
	return l.From == 0 || l.Kind == BPFImage || l.Hi-l.Lo == o.Hi-o.Lo
}

// lifetimeOf returns the lifetime of what e brings, if it has this code.
func lifetimeOf(e *SymbolEvent, has *code) Lifetime {
	l := Lifetime{Lo: e.Addr, Hi: e.Addr + uint64(e.Len), From: e.Time, To: MaxTime, Kind: e.kindOf(has != nil), Name: e.Name, code: has, cpu: unknownCPU}
	if has != nil {
		l.Program = has.program
	}
	return l
}

// kindOf returns the kind of what e names, which may have the code of a program.
func (e *SymbolEvent) kindOf(hasCode bool) LifetimeKind {
	switch {
	case e.Kind == SymbolOutOfLine:
		return OutOfLine
	case hasCode || IsProgramName(e.Name):
		return BPFProgram
	}
	return BPFImage
}

// names reports whether e and o can be of the same code, at one address.
func (e *SymbolEvent) names(o *SymbolEvent) bool {
	return e.Name == o.Name && (e.Kind == SymbolOutOfLine) == (o.Kind == SymbolOutOfLine)
}

// findLifetimes returns all lifetimes, by modules, symbol events and programs.
func (d *build) findLifetimes() []*Lifetime {
	if !d.needsFitting() {
		return d.deriveLifetimes(d.modules)
	}
	others := slices.DeleteFunc(slices.Clone(d.modules), func(m Module) bool { return m.isFitted() })
	return d.deriveLifetimes(d.fitModules(d.deriveLifetimes(others)))
}

// deriveLifetimes is findLifetimes with these modules.
func (d *build) deriveLifetimes(listed []Module) []*Lifetime {
	lost := flatten(d.Builder.gaps[GapSymbols])
	symbols := d.lost(GapSymbols)
	events := d.symbolEvents(listed, lost, symbols)

	start := d.Builder.gaps[GapModuleStart]
	p := &liveSet{
		symbols: symbols, modules: d.lost(GapModules), starting: d.lost(GapModules, start...),
		later: d.lost(GapModules, append(slices.Clip(start), gap{0, d.first, OutsideRecording})...),
		lost:  lost, first: d.first, maxSkew: d.maxSkew, unborn: make(map[uint64][]unbornDeath), ended: make(map[uint64]*SymbolEvent),
	}
	order := orderOf(events)
	recorded := make(map[int]uint64) // the times of births that were exchanged with deaths
	code := d.joinPrograms(events, order.at, p.symbols)
	modules := d.modulesByLoad(listed)
	byAddr := slices.SortedFunc(slices.Values(listed), func(a, b Module) int { return cmp.Compare(a.Addr, b.Addr) })
	upTo := func(t uint64) {
		for ; len(modules) > 0 && modules[0].Loaded <= t; modules = modules[1:] {
			p.expire(modules[0].Loaded)
			p.bearModule(modules[0], byAddr)
		}
		p.expire(t)
	}
	announced := Interval{d.first, d.seenBy(d.announcedBy(), 1)} // when perf announced what has no time
	for i := range events {
		e := &events[i]
		upTo(e.Time)
		if k := p.earlyBirth(events, &order, i); k > 0 {
			// What is recorded as a death behind it came first.
			d.skewed(Skew{Addr: e.Addr, First: events[k].Time, FirstCPU: events[k].CPU, Second: e.Time, SecondCPU: e.CPU})
			e.Time, events[k].Time = events[k].Time, e.Time
			*e, events[k] = events[k], *e
			exchangeCode(code, i, k)
			order.exchange(events, i, k)
			if recorded[k] = e.Time; recorded[i] > 0 {
				recorded[k] = recorded[i] // it was exchanged before
			}
		}
		if e.Unregister {
			p.unregister(e, !d.announcedEarly && p.mayBeNext(events, &order, i, Later(max(d.announcedBy(), d.listedBy()), d.apart())))
			continue
		}
		born := lifetimeOf(e, code[i])
		l := p.clone(&born)
		l.seen = d.seenAt(e, announced, lost)
		l.early, l.cpu, l.recorded = p.earlyDeath(e), cpuNumber(e.CPU), cmp.Or(recorded[i], e.Time)
		p.register(l)
	}
	upTo(MaxTime)
	d.liveSet, p.unborn, p.ended, p.room = p, nil, nil, nil // they keep the events
	all, brief := p.all[:0], []*Lifetime(nil)
	for _, l := range p.all {
		if l.From < l.To || l.Kind == Nothing {
			all = append(all, l)
		} else if l.From > 0 {
			brief = append(brief, l)
		}
	}
	d.brief = byPlace(brief)
	for i, l := range all {
		l.order, l.unsure = i, p.unsure(l, nil)
	}
	return all
}

// symbolEvents returns the births and deaths in the order of time, without those that are of no
// dynamic code, that perf wrote twice, or that were announced and not there. lost are the gaps in
// their records, symbols the times at which some may be missing, see lost.
func (d *build) symbolEvents(listed []Module, lost, symbols gaps) []SymbolEvent {
	events := slices.Clone(d.symbols)
	sortedByTime(events, func(e SymbolEvent) uint64 { return e.Time })
	events = slices.DeleteFunc(events, func(e SymbolEvent) bool {
		// Length 0 is an interpreted program; what lies in core text is core
		// text (powerpc copies optimised-probe slots there).
		return e.Len == 0 || e.Addr+uint64(e.Len) < e.Addr ||
			e.Addr < d.textHi && d.textLo < e.Addr+uint64(e.Len)
	})
	events = dropDoubles(events)
	deathsFirst(events, lost)
	return d.dropFalseStarts(events, listed, symbols)
}

// modulesByLoad returns the modules in the order in which they were loaded.
func (d *build) modulesByLoad(listed []Module) []Module {
	modules := slices.Clone(listed)
	for i := range modules {
		if m := &modules[i]; m.Listed == nil && !m.Undated {
			m.Listed = []Interval{{max(d.first, m.Loaded), max(d.seenBy(d.listedBy(), 1), Later(m.Loaded, 1))}}
		}
	}
	slices.SortStableFunc(modules, func(a, b Module) int { return cmp.Or(cmp.Compare(a.Loaded, b.Loaded), cmp.Compare(a.Addr, b.Addr)) })
	return modules
}

// seenAt returns the intervals in which what is born was there at some time. announced is when perf
// announced what has no time; lost are the gaps in the records of births and deaths.
func (d *build) seenAt(e *SymbolEvent, announced Interval, lost gaps) []Interval {
	seen := append(make([]Interval, 0, 2), Interval{e.Time, Later(e.Time, 1)}) // its death brings another one
	if e.Time == 0 {
		seen[0] = announced
		if d.announcedEarly {
			seen[0].From = 0
		}
	}
	if again, ok := d.foundAgain[e.Addr]; ok && again == *e && e.Time < d.first && !d.announcedEarly && len(lost.between(0, e.Time)) == 0 {
		// It was announced too, when all CPUs recorded. Had that been the code before it, its death
		// would be recorded.
		seen = append(seen, announced)
	}
	return seen
}

// dropDoubles drops the symbols that perf wrote twice: equal to the last one of the
// same address and time (rule duplicates). events are in the order of time.
func dropDoubles(events []SymbolEvent) []SymbolEvent {
	out := events[:0]
	last := make(map[uint64]SymbolEvent) // of the newest time, by address
	for tied := range ofOneTime(events) {
		if len(tied) == 1 {
			out = append(out, tied[0])
			continue
		}
		clear(last)
		tied = slices.Clone(tied) // out takes their place
		for _, e := range tied {
			if o, ok := last[e.Addr]; ok && o == e && e.Time != 0 && !slices.ContainsFunc(tied, e.undone) {
				continue
			}
			last[e.Addr] = e
			out = append(out, e)
		}
	}
	return out
}

// undone reports whether another CPU recorded at the time of e that it undid what e did: then
// an equal record may be of a second time.
func (e *SymbolEvent) undone(o SymbolEvent) bool {
	return o.CPU != e.CPU && o.Unregister != e.Unregister && o.overlaps(e)
}

// lost returns when changes of a kind may have gone unrecorded, from the beginning
// of the recording on; more are further gaps in their records.
func (d *build) lost(kind GapKind, more ...gap) gaps {
	g, early := slices.Clone(d.Builder.gaps[kind]), d.first
	if kind == GapSymbols {
		g = append(g, d.births()...)
		// Some CPUs record before all do. What they saw come may go on another one.
		for i := range d.symbols {
			if t := d.symbols[i].Time; 0 < t && t < early {
				early = t
			}
		}
		g = append(g, gap{early, d.first, OutsideRecording})
	}
	if d.horizon != MaxTime {
		g = append(g, gap{d.horizon + 1, MaxTime, BeyondHorizon})
	}
	return flatten(append(g, more...)).widen(d.skew)
}

// listedBy returns the latest time at which the list of modules can have been made:
// it is part of the snapshot.
func (d *build) listedBy() uint64 {
	if len(d.snapshot.Segments) > 0 {
		return d.snapshot.To
	}
	return d.announcedBy()
}

// announcedBy returns the latest time at which what has no time can have been
// announced.
func (d *build) announcedBy() uint64 {
	if d.announced != 0 {
		return d.announced
	}
	return d.horizon
}

// seenBy returns the end of the interval in which perf looked at something: t, the latest
// time at which it can have looked, moved by by. The interval ends before the time that
// counts as beyond the horizon only because clocks differ: perf looked before it ended.
func (d *build) seenBy(t, by uint64) uint64 {
	if t > d.horizon {
		return Later(t, by)
	}
	return min(Later(t, by), earlier(Later(d.horizon, 1), d.skew))
}
