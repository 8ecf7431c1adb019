// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// What a scan found becomes facts and gaps of the image. The pokes and the symbols of records
// were added when they were read.

// facts adds to the builder what the scan found, except for pokes and symbols.
func (s *scan) facts(r *Replay, opts Options) error {
	b, rep := s.b, s.report
	without := r.undated
	if r.Snapshot != nil && !without.snapshot && s.copyMoved() {
		without = undated{snapshot: true, kallsyms: true, modules: true}
		s.warn(errCopyMoved)
	}
	s.ownCopy = r.Snapshot != nil && r.Snapshot.Core != nil && !without.snapshot
	horizon := s.horizon()
	rep.Horizon, rep.Begin = horizon, s.begin()
	if err := s.checkCopies(r, &opts); err != nil {
		return err
	}
	b.Extent(rep.Begin, horizon)
	by, twice := s.setBack()
	rep.ClockUncertainty = by
	b.ClockSetBack(by, twice)
	if most, ok := clocksWithin(s.rec.Events()); ok && s.machine == 0 { // perf inject moves a guest's times
		b.ClocksWithin(most)
	}
	b.SkewAtLeast(s.leastSkew())
	if rep.ClocksMayDiffer = s.clocksMayDiffer(); s.cpusMayDiffer() {
		b.ClocksMayDiffer()
	}
	if s.beginsLater() {
		b.Continues()
	}
	if len(twice) > 0 {
		changes := s.changesOfModules()
		for _, v := range twice {
			if i, _ := slices.BinarySearch(changes, v.From); i < len(changes) && changes[i] < v.To {
				b.Gap(timeline.GapModules, v.From, v.To, timeline.ClockUncertainty)
			}
		}
	}
	if s.newest == 0 {
		b.Extent(1, 0) // no record has a time: nothing is inside the recording
	}

	s.coverage()
	s.addGaps()
	for _, buf := range s.buffers {
		rep.Losses = append(rep.Losses, buf.losses...)
	}

	copied := max(s.copied(horizon), rep.Begin)
	b.Announced(s.announcedBy(copied))
	if slices.ContainsFunc(rep.Coverage.Pokes.Limits, Limit.isStart) || slices.ContainsFunc(rep.Coverage.KSymbols.Limits, Limit.isStart) {
		b.AnnouncedEarly()
	}
	k := r.kallsyms
	lo, hi, ok := uint64(0), uint64(0), false
	if k != nil {
		lo, hi, ok = k.Text()
		b.Names(Names(k))
	}
	delimited, shown := true, ok
	if !ok {
		lo = s.textLo
		hi, delimited, shown = s.mappedTextEnd(r.Snapshot)
	}
	b.Text(lo, hi)

	rep.Undated = without.snapshot
	if r.misfit != nil {
		rep.Misfit = r.misfit.Error()
		s.warn(fmt.Errorf("the recording's copy of kernel text is left out: %w", r.misfit))
	}
	if r.Snapshot != nil && r.Snapshot.Core != nil {
		s.addSnapshot(r, copied, delimited)
	}
	for _, w := range r.explicit {
		if err := b.Window(w); err != nil {
			s.warn(fmt.Errorf("explicit window at %#x: %w", w.Addr, err))
		}
	}
	s.addModules(k, copied, without)
	if !without.kallsyms {
		s.addListed(k)
	}
	bare := s.addPrograms(s.announcedBy(copied), s.mayBeLater())
	s.addWritten(bare) // first: it knows the code from an earlier time on
	s.addCodeReads(k, r.Snapshot)
	if opts.Vmlinux != "" {
		if err := s.addVmlinux(opts.Vmlinux, lo); err != nil {
			return err
		}
	}
	return s.addCopies(r, shown)
}

// addGaps makes a gap of each time in which, as the coverage says, a change of text, a birth
// or death of code, or a load or unload of a module may have gone unrecorded.
func (s *scan) addGaps() {
	b, c := s.b, &s.report.Coverage
	for _, l := range merged(c.Pokes.Limits) {
		b.Gap(timeline.GapPokes, l.From, l.To, l.Reason)
	}
	for _, l := range merged(c.KSymbols.Limits) {
		b.Gap(timeline.GapSymbols, l.From, l.To, l.Reason)
	}
	for _, l := range merged(c.Modules.Limits) {
		kind, reason := timeline.GapModules, l.Reason
		if l.isStart() {
			kind = timeline.GapModuleStart
		}
		if reason == timeline.NotListening {
			reason = timeline.ModuleMayHaveGone
		}
		b.Gap(kind, l.From, l.To, reason)
	}
}

// addSnapshot adds the copy of kernel text, which was made at copied at the latest. delimited
// is false if nothing says where text ends in it.
func (s *scan) addSnapshot(r *Replay, copied uint64, delimited bool) {
	rep := s.report
	snap := timeline.Snapshot{From: rep.Begin, To: copied}
	switch {
	case rep.Undated:
		snap.From, snap.To = 0, timeline.MaxTime
	case !delimited:
		snap.From, snap.To = 0, timeline.MaxTime
		s.warn(errNoTextEnd)
	case slices.ContainsFunc(rep.Coverage.Pokes.Limits, Limit.isStart):
		snap.From = 0
	default:
		for _, l := range rep.Coverage.Pokes.Limits {
			if l.To <= rep.Begin { // it may be of before the loss: its CPUs recorded then
				snap.From = min(snap.From, l.From)
			}
		}
	}
	for _, seg := range r.Snapshot.Core.Segments {
		snap.Segments = append(snap.Segments, timeline.Segment(seg))
		rep.Segments = append(rep.Segments, timeline.Range{Lo: seg.Addr, Hi: seg.Addr + uint64(len(seg.Data))})
		rep.SnapshotBytes += uint64(len(seg.Data))
	}
	rep.Copied = &Times{To: snap.To}
	if s.journal != nil && s.journal.own != nil {
		rep.Copied.From = s.journal.own.From
	}
	s.b.SetSnapshot(snap)
}

// errNoTextEnd is the warning about a copy that holds more than text.
var errNoTextEnd = errors.New("there is no kallsyms, and nothing else says where kernel text ends: what was not patched is not confirmed")

// mappedTextEnd returns the end of kernel text if there is no kallsyms: the end of
// perf's map of the kernel, or of its copy of kernel text if that is shorter. Since
// perf 7.2 the map ends at _edata. If the copy continues after the map, the copy
// holds more than text. Then delimited is false. shown is set if the copy shows the end.
func (s *scan) mappedTextEnd(snap *kcore.Snapshot) (end uint64, delimited, shown bool) {
	if snap == nil || snap.Core == nil {
		return s.textHi, true, false
	}
	copied, beyond := s.copiedText(snap.Core.Segments)
	switch {
	case copied == 0:
		return s.textHi, true, false
	case beyond:
		return s.textHi, false, false
	}
	return min(s.textHi, copied), true, true
}

// mapHasData reports whether perf's map of the kernel may end at _edata, as it does since perf 6.12
// (tools/perf/util/machine.c). A recorder of ours ends it at _etext.
func (s *scan) mapHasData() bool {
	if s.journal != nil {
		return false
	}
	var major, minor int
	v, err := s.rec.Version()
	if err == nil {
		_, err = fmt.Sscanf(v, "%d.%d", &major, &minor)
	}
	return err != nil || major > 6 || major == 6 && minor >= 12
}

// copiedText returns where a copy of the kernel that perf mapped ends, 0 if there is none in
// segments. beyond is set if the copy continues after the map.
func (s *scan) copiedText(segments []kcore.Segment) (end uint64, beyond bool) {
	for _, seg := range segments {
		if seg.Addr < s.textHi && seg.Addr+uint64(len(seg.Data)) > s.textLo {
			end = max(end, seg.Addr+uint64(len(seg.Data)))
		}
	}
	return end, end > (s.textHi+textPage-1)&^(textPage-1)
}

// copied returns the upper end of the time in which perf copied kernel text (rule
// snapshot). After the copy, perf enables the events that it opened disabled, starts its
// workload and drains the ring buffers for the first time. Without a workload, the first
// rounds may hold only records older than the copy; the round after them does not. If there
// is none, the copy may be of any time before perf ended.
func (s *scan) copied(horizon uint64) uint64 {
	if s.journal != nil && s.journal.own != nil {
		return s.journal.own.To
	}
	t := s.readyBy()
	switch {
	case t != timeline.MaxTime:
		return t
	case s.clean && s.lostBehind() < timeline.MaxTime:
		return timeline.Later(s.newest, 1) // the copy may have what was lost behind the last record
	case s.clean:
		return s.newest
	case s.listens != 0 || len(s.files) != 1:
		return horizon
	}
	return timeline.MaxTime
}

// announcedBy returns the latest time at which perf can have announced what was
// already loaded. perf announces it between its copy of kernel text and the start
// of the workload. With --tail-synthesize, perf announces it at the end, after it has
// disabled its events; the place of those records shows this.
func (s *scan) announcedBy(copied uint64) uint64 {
	if s.journal != nil && s.journal.ready != 0 {
		return s.journal.ready
	}
	if !s.announcedLate {
		return copied
	}
	return timeline.MaxTime
}

// addModules adds the modules that were loaded when the snapshot was taken. A
// snapshot proves only text. A module's text ends at the latest with the page in
// which its last function begins (rule modules). copied is the latest time of the
// list, unless its time is unknown.
func (s *scan) addModules(k *kcore.Kallsyms, copied uint64, without undated) {
	undated, seen := without.modules, copied
	if undated {
		copied, seen = timeline.MaxTime, 0
	}
	listed := copied
	if !undated && slices.ContainsFunc(s.report.Coverage.Modules.Limits, Limit.isStart) {
		listed = 0 // perf enables the events after it made the copy
	}
	ends, lives := newModuleEnds(k), s.moduleLives(Times{0, listed})
	for _, m := range s.modules {
		if m.Addr == 0 || m.Addr+m.Size < m.Addr {
			continue
		}
		end := m.Addr
		if !without.kallsyms || undated || isAt(k, &m) {
			end = ends.textEnd(&m)
		}
		life := lives.of(m.Name)
		if !life.certain {
			end = m.Addr
		}
		mod := timeline.Module{Name: m.Name, Addr: m.Addr, TextEnd: end, End: m.Addr + m.Size, Loaded: life.loaded, Freed: life.freed, Seen: seen, Undated: undated}
		if !undated {
			mod.Stayed, mod.Listed = lives.stayed(m.Name), []timeline.Interval{Times{s.report.First, copied}.halfOpen()}
		}
		s.b.Module(mod)
		s.report.Modules++
	}
}

// addListed adds the code in kallsyms that is neither in the kernel nor in a module.
func (s *scan) addListed(k *kcore.Kallsyms) {
	for e := range listedSymbols(k) {
		s.b.Symbol(e)
	}
}

// listedSymbols yields the out-of-line pages and BPF images in kallsyms. They existed when
// the snapshot was taken. k may be nil.
func listedSymbols(k *kcore.Kallsyms) iter.Seq[timeline.SymbolEvent] {
	return func(yield func(timeline.SymbolEvent) bool) {
		if k == nil {
			return
		}
		for _, sym := range k.All() {
			var kind timeline.SymbolKind
			switch sym.Module {
			case "__builtin__kprobes", "__builtin__ftrace":
				kind = timeline.SymbolOutOfLine
			case "bpf":
				if timeline.IsProgramName(sym.Name) {
					continue // its length is unknown; perf announces programs in records
				}
				kind = timeline.SymbolBPF
			default:
				continue
			}
			if !yield(timeline.SymbolEvent{Addr: sym.Addr, Len: textPage, Kind: kind, Name: sym.Name, Listed: true}) {
				return
			}
		}
	}
}

// lateInfo is the longest time, in nanoseconds, from a program's load to the moment at which perf
// has read its info. A thread of perf reads it once it gets the record of the load.
const lateInfo = 10e9

// InfosAfter returns the ids of the BPF programs that were loaded before t, and whose infos perf may have read
// later (rule lifetimes). It leaves out those infos that the image takes for what the code was.
func (r *Replay) InfosAfter(t uint64) map[uint32]bool {
	late := make(map[uint32]uint64) // when it was loaded, by id
	for _, l := range r.scanned().loads {
		if l.time != 0 && l.time < t && timeline.Later(l.time, lateInfo) >= t {
			late[l.id] = l.time
		}
	}
	out := make(map[uint32]bool)
	if len(late) == 0 {
		return out
	}
	for p, err := range r.Recording.BPFProgs() {
		if err != nil {
			continue
		}
		if at, ok := late[p.ID]; ok && !r.trusts(p, at) {
			out[p.ID] = true
		}
	}
	return out
}

// trusts reports whether the image knows the code of a program that was loaded at t by its info, and nothing
// else there.
func (r *Replay) trusts(p *perfdata.BPFProg, t uint64) (known bool) {
	for f := range p.Funcs() {
		for s := range r.Image.At(t).Spans(f.Addr, uint64(len(f.Code))) {
			// Where no change of text is recorded, a byte that the kernel may patch is known at no time.
			never := s.Standing == timeline.Unconfirmed && s.Reason == timeline.NoCoverage && s.Source == timeline.SourceProgInfo
			if s.Standing != timeline.Known && !never || !bytes.Equal(s.Bytes, f.Code[s.Addr-f.Addr:][:s.Len]) {
				return false // it may have changed since, or have changed before perf read the info
			}
			known = known || s.Source == timeline.SourceProgInfo
		}
	}
	return known
}

// lostBehind returns the time behind the horizon from which on changes may be missing until the end of the
// recording, or MaxTime. Perf ran on meanwhile: what it read then may have these changes.
func (s *scan) lostBehind() uint64 {
	t := uint64(timeline.MaxTime)
	for _, l := range s.report.Coverage.Pokes.Limits {
		if l.To == timeline.MaxTime && l.From >= s.report.Horizon {
			t = min(t, l.From)
		}
	}
	return t
}

// addPrograms joins each program info with the BPF_EVENT LOAD of its id. If undated is set,
// the infos of programs that were loaded before the recording may be older than it. It returns the loads
// of programs without an info.
func (s *scan) addPrograms(announced uint64, undated bool) (bare []bpfEvent) {
	if s.machine != 0 {
		return nil // perf records the infos of the host's programs only
	}
	infos := make(map[uint32]timeline.Program)
	for p, err := range s.rec.BPFProgs() {
		if err != nil {
			if !errors.Is(err, perfdata.ErrNoFeature) {
				s.warn(err)
			}
			continue
		}
		var funcs []timeline.Segment
		var silent, unseen []timeline.Range
		for f := range p.Funcs() {
			if len(f.Code) > 0 {
				funcs = append(funcs, timeline.Segment{Addr: f.Addr, Data: f.Code})
				silent = append(silent, patching.SilentPlaces(s.arch.name, s.report.Kernel, f.Addr, f.Code)...)
				unseen = append(unseen, patching.UnseenPlaces(s.arch.name, f.Addr, f.Code)...)
			}
		}
		if _, twice := infos[p.ID]; twice {
			// Two infos have one id: which lifetime each belongs to is unknown.
			s.warn(fmt.Errorf("the recording has two infos of BPF program %d: neither is used", p.ID))
			funcs = nil
		}
		infos[p.ID] = timeline.Program{ID: p.ID, Funcs: funcs, Silent: silent, Unseen: unseen}
	}
	unloaded := make(map[uint32][]uint64)
	for _, u := range s.unloads {
		unloaded[u.id] = append(unloaded[u.id], u.time)
	}
	limit := s.lostBehind()
	if !s.clean {
		limit = s.report.Horizon
	}
	met := make(map[bpfEvent]bool, len(s.loads))
	for _, l := range s.loads {
		if l.time != 0 && met[l] {
			continue // perf wrote the record twice
		}
		met[l] = true
		s.report.BPF.Programs++
		p := infos[l.id]
		if len(p.Funcs) == 0 {
			bare = append(bare, l)
			continue
		}
		s.report.BPF.WithBytes++
		p.LoadTime, p.Undated = l.time, undated && l.time == 0
		// That perf announces a program beyond the horizon leaves it uncertain anyway.
		p.Late = l.time != 0 && timeline.Later(l.time, lateInfo) > limit
		if p.ReadBy = announced; l.time != 0 {
			p.ReadBy = timeline.Later(l.time, lateInfo)
		}
		for _, t := range unloaded[l.id] {
			if t >= l.time && (p.Unloaded == 0 || t < p.Unloaded) {
				p.Unloaded = t
			}
		}
		s.b.Program(p)
	}
	return bare
}
