// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"testing"
)

// TestDense: leaves are dense if all times fit, up to the last nanosecond. Either way the versions are the
// same, from those before a chain to those behind it, one by one and line by line.
func TestDense(t *testing.T) {
	const far = 1 << 50 // the time of the first change
	steps := func(n int, step uint64) (out []uint64) {
		for i := range n {
			out = append(out, far+uint64(i)*step)
		}
		return out
	}
	last := func(times []uint64, by uint64) []uint64 { return append(times, times[len(times)-1]+by) }
	for name, tt := range map[string]struct {
		times []uint64 // of all versions but the first, which is from 0 on
		dense bool
	}{
		"a line":                          {steps(6, 1), false},
		"one more":                        {steps(7, 1), true},
		"a dense line":                    {steps(9, 1), true},
		"one more than that":              {steps(10, 1), true},
		"the longest first line":          {last(steps(8, 0x10), mostLater-2-7*0x10), true},
		"longer":                          {last(steps(8, 0x10), mostLater-1-7*0x10), false},
		"any pause between two lines":     {last(steps(9, 1), 1<<55), true},
		"and within a line":               {append(last(steps(9, 1), 1<<45), 1<<55), false},
		"the longest second line":         {last(last(steps(9, 1), 1<<45), mostLater-2), true},
		"longer, and it is the last line": {last(last(steps(9, 1), 1<<45), mostLater-1), false},
		"up to the end of time":           {append(steps(12, 1), MaxTime), false},
		"many":                            {steps(500, 1<<36), true},
	} {
		all := append([]uint64{0}, tt.times...)
		for _, cut := range [][2]int{{len(all), len(all)}, {1, len(all)}, {2, len(all) - 2}} {
			im := &Image{}
			im.arena = make([]byte, 16)
			edits := []edit{{old: 8, new: 0}, {old: 0, new: 8}}
			var list fragmentHistory
			for i, since := range all {
				v := version{since, ofChain(&edits[i%2])}
				switch {
				case i < cut[0]:
					list.before = append(list.before, v)
				case i < cut[1]:
					list.chain = append(list.chain, poke{time: since, edit: uint32(i % 2)})
				default:
					list.after = append(list.after, v)
				}
			}
			im.leaves = make([]leaf, 3) // of another fragment
			f := fragment{addr: 0x1000, size: 4, versions: im.store(list, edits, 4)}
			if f.areDense() != tt.dense {
				t.Errorf("%s: dense %v, want %v", name, f.areDense(), tt.dense)
			}
			if got := len(im.leaves) - 3; got != int(f.leafCount()) {
				t.Errorf("%s: %d leaves, want %d", name, got, f.leafCount())
			}
			if !im.goodVersions(&f.versions) {
				t.Errorf("%s: the versions are not good", name)
			}
			r := RangeAnswers{im, &f}
			var lines []uint64
			for k := 1; k < r.Len(); {
				since, until, states := r.Line(k, nil)
				for i, s := range since {
					if _, state := r.Version(k + i); state != int(states[i]) {
						t.Errorf("%s: version %d has state %d, and %d in its line", name, k+i, state, states[i])
					}
					lines = append(lines, s)
				}
				k += len(since)
				if v, _ := r.Version(k - 1); v.Until != until {
					t.Errorf("%s: a line ends at %d, its last version at %d", name, until, v.Until)
				}
			}
			if !slices.Equal(lines, tt.times) {
				t.Errorf("%s: line by line %d, want %d", name, lines, tt.times)
			}
			for k, since := range all {
				until := MaxTime
				if k+1 < len(all) {
					until = all[k+1]
				}
				if v, _ := r.Version(k); v != (Validity{since, until}) {
					t.Errorf("%s: version %d is from %d until %d, want %d and %d", name, k, v.Since, v.Until, since, until)
				}
				for _, at := range []uint64{since, until - 1} {
					if got := im.indexAt(&f.versions, at); at >= since && got != uint32(k) {
						t.Errorf("%s: at %d version %d, want %d", name, at, got, k)
					}
				}
			}
		}
	}
}
