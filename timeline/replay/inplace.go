// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"iter"

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
	for p := range r.pokes(nil) {
		pokes = r.scanned().appendPlaced(pokes, &timeline.Poke{Addr: p.Addr, Time: p.Time, Old: p.Old, New: p.New}, p.TID, r.kindOf(p))
	}
	return r.scanned().newWindows(pokes)
}

// pokes yields the text pokes that the image is made of, as the file has them:
// of several events that recorded one, the record that was chosen. matters, if
// it is not nil, looks at the raw record first, which is cheaper. The poke is
// valid until the next.
func (r *Replay) pokes(matters func(raw []byte) bool) iter.Seq[*perfdata.TextPoke] {
	return func(yield func(*perfdata.TextPoke) bool) {
		known := r.scanned()
		sc := r.Recording.Scan(perfdata.Only(perfdata.RecordTextPoke))
		var p perfdata.TextPoke
		for sc.Next() {
			rec := sc.Record()
			if matters != nil && !matters(rec.Raw) {
				continue
			}
			if r.Recording.TextPoke(rec, &p) != nil || !known.isChosen(&p.SampleID, takesPokes) || known.foreign(rec, &p.SampleID) {
				continue
			}
			if !yield(&p) {
				return
			}
		}
	}
}

// newWindows returns the windows of in-place pokes on the recorded architecture.
func (s *scan) newWindows(pokes []timeline.InPlacePoke) *timeline.Windows {
	return timeline.NewWindows(pokes, s.arch.hasWords())
}

// appendPlaced appends a poke that was made in place.
func (s *scan) appendPlaced(pokes []timeline.InPlacePoke, p *timeline.Poke, tid uint32, kind timeline.PokeKind) []timeline.InPlacePoke {
	if !kind.InPlace() {
		return pokes
	}
	n := uint16(max(len(p.Old), len(p.New)))
	if !patching.CanTrap(s.arch.machine, kind, p.Old, p.New) {
		n = 0
	}
	return append(pokes, timeline.InPlacePoke{Time: p.Time, Addr: p.Addr, TID: tid, Len: n, Kind: kind})
}
