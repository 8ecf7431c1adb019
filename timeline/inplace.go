// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"debug/elf"

	"github.com/textreplay/textreplay/perfdata"
)

// Windows returns the windows of all in-place pokes. Unless Options.Windows
// asked for them they are found by reading the recording once more, on the
// first call.
func (r *Replay) Windows() *Windows {
	r.windowsOnce.Do(func() {
		if r.windows == nil {
			r.windows = r.windowsOfIndex()
		}
		if r.windows == nil {
			r.windows = r.findWindows()
		}
		r.windows.skew = r.Report.ClockUncertainty
	})
	return r.windows
}

func (r *Replay) findWindows() *Windows {
	var pokes []placed
	sc := r.Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
	var p perfdata.TextPoke
	for sc.Next() {
		if r.Recording.TextPoke(sc.Record(), &p) != nil || !r.scanned().reads(&p.SampleID, takesPokes) || r.scanned().foreign(sc.Record(), &p.SampleID) {
			continue
		}
		pokes = r.scanned().appendPlaced(pokes, &Poke{Addr: p.Addr, Time: p.Time, Old: p.Old, New: p.New}, p.TID, r.kindOf(&p))
	}
	return r.scanned().newWindows(pokes)
}

// newWindows is the function of this name for the architecture of the recording.
func (s *scan) newWindows(pokes []placed) *Windows {
	w := newWindows(pokes)
	switch s.isa {
	case elf.EM_AARCH64, elf.EM_PPC64, elf.EM_S390:
		w.words = newWordWindows(w)
	}
	return w
}

// appendPlaced appends a poke that was made in place.
func (s *scan) appendPlaced(pokes []placed, p *Poke, tid uint32, kind PokeKind) []placed {
	if !kind.inPlace() {
		return pokes
	}
	n := uint16(max(len(p.Old), len(p.New)))
	if !canTrap(s.isa, kind, p.Old, p.New) {
		n = 0
	}
	return append(pokes, placed{p.Time, p.Addr, tid, n, kind})
}
