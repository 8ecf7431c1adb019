// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"sort"
)

// wordWindows finds windows on architectures whose instructions are words. Each word is
// replaced alone. A task makes one poke at a time, so its pokes before and after
// bound the trap. Pokes of other tasks do not, since the writers share no mutex.
type wordWindows struct {
	byAddr  []int32    // indices of pokes in the order of time, sorted by address
	task    []Interval // of each poke: the times of the same task's pokes before and after
	longest uint64     // length of a poke, in bytes
}

func newWordWindows(w *Windows) *wordWindows {
	x := &wordWindows{byAddr: make([]int32, w.len()), task: make([]Interval, w.len())}
	last := make(map[uint32]int)
	for k := range x.task {
		p := w.at(k)
		x.byAddr[k] = int32(k)
		x.longest = max(x.longest, uint64(p.Len))
		x.task[k].To = MaxTime
		if i, ok := last[p.TID]; ok {
			x.task[k].From, x.task[i].To = w.at(i).Time, p.Time
		}
		last[p.TID] = k
	}
	slices.SortStableFunc(x.byAddr, func(a, b int32) int { return cmp.Compare(w.at(int(a)).Addr, w.at(int(b)).Addr) })
	return x
}

// at is [Windows.At].
func (x *wordWindows) at(w *Windows, addr, n, t uint64) []Window {
	var out []Window
	lo := addr - min(addr, x.longest)
	for i := sort.Search(len(x.byAddr), func(i int) bool { return w.at(int(x.byAddr[i])).Addr >= lo }); i < len(x.byAddr); i++ {
		k := int(x.byAddr[i])
		p := w.at(k)
		if p.Addr >= addr && p.Addr-addr >= n {
			break
		}
		if p.Len == 0 || p.Addr+uint64(p.Len) <= addr {
			continue
		}
		win := Window{Addr: p.Addr, Len: int(p.Len), Switch: p.Time, Kind: p.Kind,
			Proven: w.betweenIdle(w.firstIdle(p), p, x.task[k]), Estimate: Interval{p.Time, p.Time}}
		win.bound(w.skew)
		if win.Proven.From <= t && t < win.Proven.To {
			out = append(out, win)
		}
	}
	slices.SortStableFunc(out, func(a, b Window) int { return cmp.Compare(a.Switch, b.Switch) })
	return out
}
