// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

// Copy names one more copy of the kernel. It is not the copy that perf made when it
// began to record.
type Copy struct {
	// KCore is a directory with kcore, kallsyms and modules, or a single kcore file. They
	// were copied from /proc while the recorded kernel ran.
	KCore string
	// Made is the time in which the copy was read, at some moment.
	Made Times
	// When, if set, returns the time instead of Made. Load calls it after it has read the
	// recording, so When may call [Replay.ParseTime].
	When func(*Replay) (Times, error)
}

// An openCopy is one more copy, opened.
type openCopy struct {
	*kcore.Snapshot
	Copy
	name   string
	unused bool // it is only checked, not used
	own    bool // it is the recording's own copy
	// journaled is set if the journal of the recording has the copy, or lacks kcore_dir,
	// because the recorder was killed while it made that.
	journaled bool
	dir       string // in the recording's directory, if it is journaled
	// read has the ranges that the recorder read. With sameElsewhere set, pages of them
	// that the copy lacks are as in the first copy.
	read          []timeline.Range
	sameElsewhere bool
}

// CopyReport describes one of Options.Copies.
type CopyReport struct {
	KCore    string
	Made     Times // the copy was read at some moment of it
	Segments []timeline.Range
	Bytes    uint64 // in all segments
}

// openCopies opens the copies of Options.Copies.
func (r *Replay) openCopies(copies []Copy) error {
	for _, c := range copies {
		snap, err := openKCore(c.KCore)
		if err != nil {
			return err
		}
		r.copies = append(r.copies, openCopy{Snapshot: snap, Copy: c, name: c.KCore})
	}
	return nil
}

// addCopies adds the open copies to the builder. delimited is false if neither kallsyms nor
// the first copy shows where text ends. Then a copy that continues after perf's map, or one that
// may have some of the data in that map, may hold more than text, and its bytes are not confirmed.
func (s *scan) addCopies(r *Replay, delimited bool) error {
	var lists []moduleList
	for i := range r.copies {
		c := &r.copies[i]
		if c.unused {
			continue
		}
		made, snap := c.Made, c.Snapshot
		for _, w := range snap.Warnings() {
			s.warn(w)
		}
		rep := CopyReport{KCore: c.KCore, Made: made}
		text := timeline.Snapshot{From: made.From, To: made.To}
		for _, seg := range c.segments(r.Snapshot) {
			text.Segments = append(text.Segments, timeline.Segment(seg))
			rep.Segments = append(rep.Segments, timeline.Range{Lo: seg.Addr, Hi: seg.Addr + uint64(len(seg.Data))})
			rep.Bytes += uint64(len(seg.Data))
		}
		if _, beyond := s.copiedText(snap.Core.Segments); !delimited && (beyond || s.mapHasData()) {
			text.From, text.To = 0, timeline.MaxTime
			s.warn(errNoTextEnd)
		}
		s.b.AddSnapshot(text)
		s.report.Copies = append(s.report.Copies, rep)
		lists = append(lists, moduleList{modules: snap.Modules, made: made, kallsyms: snap.Kallsyms})
	}
	s.addLaterModules(lists)
	return nil
}

// openKCore opens a kcore_dir or a single kcore file.
func openKCore(path string) (*kcore.Snapshot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		core, err := kcore.OpenCore(path)
		if err != nil {
			return nil, err
		}
		return &kcore.Snapshot{Core: core}, nil
	}
	snap, err := kcore.Open(path)
	if err == nil && snap.Core == nil {
		err = fmt.Errorf("%s has no kcore", path)
	}
	return snap, err
}

// A moduleList is the content of /proc/modules at the time of a copy.
type moduleList struct {
	modules  []kcore.Module // nil if the copy has no list
	made     Times
	kallsyms *kcore.Kallsyms
	at       map[modulePlace]bool // where it has modules, see has
}

// A modulePlace is where a module is.
type modulePlace struct {
	name string
	addr uint64
}

// has reports whether the list has a module. It compares name and address, or only the
// name if the list has no addresses (kptr_restrict).
func (l *moduleList) has(m *timeline.Module) bool {
	if l.at == nil {
		l.at = make(map[modulePlace]bool, len(l.modules))
		for _, o := range l.modules {
			l.at[modulePlace{o.Name, o.Addr}] = true
		}
	}
	return l.at[modulePlace{m.Name, m.Addr}] || l.at[modulePlace{m.Name, 0}]
}

// addLaterModules adds modules that are in later copies but were not loaded when the
// first copy was made. It also ends the modules that a later list lacks, if their unload
// may not have been recorded.
func (s *scan) addLaterModules(lists []moduleList) {
	slices.SortStableFunc(lists, func(a, b moduleList) int { return cmp.Compare(a.made.From, b.made.From) })
	for _, list := range lists {
		if list.modules == nil {
			continue
		}
		if s.report.Coverage.Modules.Verdict != Complete {
			s.b.ModulesListed(list.made.From, list.made.To, list.has)
		}
		ends, lives := newModuleEnds(list.kallsyms), s.moduleLives(list.made)
		for _, m := range list.modules {
			s.addLaterModule(&m, &list, ends, lives)
		}
	}
}

// addLaterModule adds a module of a later list, unless its text or the time of its load is
// not certain.
func (s *scan) addLaterModule(m *kcore.Module, list *moduleList, ends *moduleEnds, lives *moduleLives) {
	if m.Addr == 0 || m.Addr+m.Size < m.Addr || m.State != "Live" {
		return
	}
	end := ends.textEnd(m)
	if end == m.Addr {
		return
	}
	life := lives.of(m.Name)
	if !life.certain {
		return
	}
	if life.loaded == 0 {
		life.loaded = list.made.From // the load time is unknown
	}
	s.b.LaterModule(timeline.Module{Name: m.Name, Addr: m.Addr, TextEnd: end, End: m.Addr + m.Size,
		Loaded: life.loaded, Freed: life.freed, Names: names{list.kallsyms, true}, Seen: list.made.To, Listed: []timeline.Interval{list.made.halfOpen()}, Later: true})
}
