// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Windows returns the windows of all in-place pokes. Unless Options.Windows
// asked for them they are found by reading the recording once more, on the
// first call.
func (r *Replay) Windows() *timeline.Windows {
	r.windowsOnce.Do(func() {
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

func (r *Replay) findWindows() *timeline.Windows {
	var pokes []timeline.InPlacePoke
	sc := r.Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
	var p perfdata.TextPoke
	for sc.Next() {
		if r.Recording.TextPoke(sc.Record(), &p) != nil || !r.scanned().reads(&p.SampleID, takesPokes) || r.scanned().foreign(sc.Record(), &p.SampleID) {
			continue
		}
		pokes = r.scanned().appendPlaced(pokes, &timeline.Poke{Addr: p.Addr, Time: p.Time, Old: p.Old, New: p.New}, p.TID, r.kindOf(&p))
	}
	return r.scanned().newWindows(pokes)
}

// newWindows is the function of this name for the architecture of the recording.
func (s *scan) newWindows(pokes []timeline.InPlacePoke) *timeline.Windows {
	words := false
	switch s.isa {
	case elf.EM_AARCH64, elf.EM_PPC64, elf.EM_S390:
		words = true
	}
	return timeline.NewWindows(pokes, words)
}

// appendPlaced appends a poke that was made in place.
func (s *scan) appendPlaced(pokes []timeline.InPlacePoke, p *timeline.Poke, tid uint32, kind timeline.PokeKind) []timeline.InPlacePoke {
	if !kind.InPlace() {
		return pokes
	}
	n := uint16(max(len(p.Old), len(p.New)))
	if !patching.CanTrap(s.isa, kind, p.Old, p.New) {
		n = 0
	}
	return append(pokes, timeline.InPlacePoke{Time: p.Time, Addr: p.Addr, TID: tid, Len: n, Kind: kind})
}
