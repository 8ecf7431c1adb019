// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"sort"
)

// wordWindows finds windows where instructions are words, each of which is
// replaced by itself. A task has one in hand at a time, so its pokes before and
// after bound the trap; those of other tasks do not, for no mutex is common to
// all that patch there.
type wordWindows struct {
	byAddr  []int32    // pokes in the order of time, sorted by address
	task    []Interval // by poke: the times of the same task's pokes before and after
	longest uint64
}

func newWordWindows(w *Windows) *wordWindows {
	x := &wordWindows{byAddr: make([]int32, w.len()), task: make([]Interval, w.len())}
	last := make(map[uint32]int)
	for k := range x.task {
		p := w.at(k)
		x.byAddr[k] = int32(k)
		x.longest = max(x.longest, uint64(p.len))
		x.task[k].To = MaxTime
		if i, ok := last[p.tid]; ok {
			x.task[k].From, x.task[i].To = w.at(i).time, p.time
		}
		last[p.tid] = k
	}
	slices.SortStableFunc(x.byAddr, func(a, b int32) int { return cmp.Compare(w.at(int(a)).addr, w.at(int(b)).addr) })
	return x
}

// at is Windows.At.
func (x *wordWindows) at(w *Windows, addr, n, t uint64) []Window {
	var out []Window
	lo := addr - min(addr, x.longest)
	for i := sort.Search(len(x.byAddr), func(i int) bool { return w.at(int(x.byAddr[i])).addr >= lo }); i < len(x.byAddr); i++ {
		k := int(x.byAddr[i])
		p := w.at(k)
		if p.addr >= addr && p.addr-addr >= n {
			break
		}
		if p.len == 0 || p.addr+uint64(p.len) <= addr {
			continue
		}
		win := Window{Addr: p.addr, Len: int(p.len), Switch: p.time, Kind: p.kind,
			Proven: x.task[k], Estimate: Interval{p.time, p.time}}
		win.bound(w.skew)
		if win.Proven.From <= t && t < win.Proven.To {
			out = append(out, win)
		}
	}
	slices.SortStableFunc(out, func(a, b Window) int { return cmp.Compare(a.Switch, b.Switch) })
	return out
}
