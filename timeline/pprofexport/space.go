// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A mapping becomes a Mapping of the profile: a part of a file in some process,
// the kernel, a module, a BPF program.
type mapping struct {
	start, limit uint64
	offset       uint64 // in the file; of a kernel map the address of its reference symbol; of [bpf] and [out-of-line] its own
	file         string
	buildID      string // hexadecimal
	named        bool   // the profile has names for it; pprof looks for names otherwise
	id           uint64 // in the profile, from 1 on; 0: not used yet
}

// module returns the name of the module that the mapping of an MMAP record is of, "" if it is of
// the kernel itself.
func (m *mapping) module() string {
	if strings.HasPrefix(m.file, kernelFile) {
		return ""
	}
	return replay.ModuleOfMap(m.file)
}

// A mapped is one MMAP record in an address space. perf does not record munmap,
// so the last mapping at an address counts.
type mapped struct {
	time uint64
	*mapping
}

// A space is what a process had mapped, from a fork or exec to the next exec.
type space struct {
	born uint64
	maps []mapped // in order of time while records are read, then of address
	// reach[i] is the greatest limit of maps[:i+1].
	reach []uint64
	// parent is the space that it is a copy of, as it was at the time forked.
	parent *space
	forked uint64
}

// A process is all spaces that a pid had, in order of time.
type process struct{ spaces []*space }

// fork starts the copy of a parent's space.
func (p *process) fork(parent *space, t uint64) {
	s := &space{born: t, parent: parent, forked: t}
	// Parents without mappings are skipped: shells fork in chains.
	for s.parent != nil && len(s.parent.maps) == 0 {
		s.parent, s.forked = s.parent.parent, s.parent.forked
	}
	p.spaces = append(p.spaces, s)
}

// exec starts an empty space.
func (p *process) exec(t uint64) { p.spaces = append(p.spaces, &space{born: t}) }

// current returns the newest space. A process whose first record is an MMAP existed
// before; its space has no start.
func (p *process) current() *space {
	if len(p.spaces) == 0 {
		p.spaces = append(p.spaces, &space{})
	}
	return p.spaces[len(p.spaces)-1]
}

// seal prepares the spaces for find and always. No mappings may be added afterwards.
func (p *process) seal() {
	for _, s := range p.spaces {
		slices.SortStableFunc(s.maps, func(a, b mapped) int { return cmp.Compare(a.start, b.start) })
		s.reach = make([]uint64, len(s.maps))
		reach := uint64(0)
		for i, m := range s.maps {
			reach = max(reach, m.limit)
			s.reach[i] = reach
		}
	}
}

// own returns the last mapping at addr up to the time t, its time, and the time
// of the next mapping there.
func (s *space) own(addr, t uint64) (m *mapping, from, to uint64) {
	to = timeline.MaxTime
	i := sort.Search(len(s.maps), func(i int) bool { return s.maps[i].start > addr })
	for i--; i >= 0 && s.reach[i] > addr; i-- {
		switch x := &s.maps[i]; {
		case x.limit <= addr:
		case x.time > t:
			to = min(to, x.time)
		case m == nil || x.time > from:
			m, from = x.mapping, x.time
		}
	}
	return m, from, to
}

// find returns the mapping at addr at time t, nil if none is known, and the interval
// [from, to) in which that is so.
func (p *process) find(addr, t uint64) (m *mapping, from, to uint64) {
	i := sort.Search(len(p.spaces), func(i int) bool { return p.spaces[i].born > t }) - 1
	to = timeline.MaxTime
	if i+1 < len(p.spaces) {
		to = p.spaces[i+1].born
	}
	if i < 0 {
		return nil, 0, to
	}
	s := p.spaces[i]
	m, from, next := s.own(addr, t)
	from, to = max(from, s.born), min(to, next)
	for ; m == nil && s.parent != nil; s = s.parent {
		m, _, _ = s.parent.own(addr, s.forked)
	}
	return m, from, to
}

// always returns the only mapping that the process ever had at addr, nil if there was none
// or more than one. A sample without a time is in that mapping.
func (p *process) always(addr uint64) *mapping {
	var only *mapping
	for _, s := range p.spaces {
		for s := s; s != nil; s = s.parent {
			i := sort.Search(len(s.maps), func(i int) bool { return s.maps[i].start > addr })
			for i--; i >= 0 && s.reach[i] > addr; i-- {
				if m := s.maps[i].mapping; m.limit > addr {
					if only != nil && only != m {
						return nil
					}
					only = m
				}
			}
		}
	}
	return only
}
