// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"sort"
	"sync"
)

// Window is the time around a poke in which a CPU that runs the poked instruction may
// meet a trap (INT3 on x86) instead of the old or the new bytes
// (text_poke_bp_batch() in arch/x86/kernel/alternative.c). The bytes are known all the
// same: the old ones before Switch, the new ones from it on.
//
// On x86 a batch of pokes is made with the traps of all its sites in place:
//
//	pokes of other batches   b                                     n
//	pokes of the batch              p1    p2    p3    p4
//	trap at the site of p3          ├┄┄┄┄┄┄┄┄┄┄┄●┄┄┄┄┄┄┄┤
//	Proven                   ├──────────────────┼──────────────────┤
//	Estimate                   ├────────────────┼───────────────┤
//	                                          Switch
//
// The trap is set after b, the last poke before that cannot be of the same batch, and is
// removed before n, the first poke after that cannot be; records of other things that the
// writing task makes are such bounds too. Where instructions are words, as
// on arm64, each is replaced by itself: b and n are the same task's pokes before and after.
type Window struct {
	Addr   uint64
	Len    int    // of the poke, in bytes
	Switch uint64 // time of the poke, in nanoseconds of the recording's clock
	Kind   PokeKind
	// Proven has every time at which a CPU may meet the trap. Its ends are 0 and MaxTime
	// if nothing bounds it.
	Proven Interval
	// Estimate is a narrower guess, inside Proven: nearly all CPUs that met a trap in the
	// recordings that it was fitted on did so then, see batch.go. It proves nothing. Where
	// instructions are words, there is no guess: it is Switch alone.
	Estimate Interval
}

// InPlacePoke is a text poke that replaced code with a trap in its place meanwhile.
type InPlacePoke struct {
	Time  uint64 // in nanoseconds of the recording's clock
	Addr  uint64
	TID   uint32 // of the task that made it
	Len   uint16 // in bytes; 0 if it needs no trap, and only bounds the windows of others
	Kind  PokeKind
	Flags PokeFlags
}

// PokeFlags are what the kind of a poke does not say.
type PokeFlags uint8

const (
	// PokeAlone: the kernel never writes such a place in one batch with another
	// (text_poke_bp, arch/x86/kernel/alternative.c).
	PokeAlone PokeFlags = 1 << iota
	// beginsBatch: the first of a batch, see [Windows.Batches].
	beginsBatch
)

// An IdleMoment is a time at which a task does not write text, whatever it did
// before and does next: it makes a record of something else in process context.
type IdleMoment struct {
	Time uint64
	TID  uint32
	_    uint32
}

func (m IdleMoment) compare(o IdleMoment) int {
	return cmp.Or(cmp.Compare(m.TID, o.TID), cmp.Compare(m.Time, o.Time))
}

// firstIdle returns the index of the first idle moment that is not before the poke p.
func (w *Windows) firstIdle(p *InPlacePoke) int {
	k, _ := slices.BinarySearchFunc(w.idle, IdleMoment{Time: p.Time, TID: p.TID}, IdleMoment.compare)
	return k
}

// An idleGap is a time in which a task makes no idle moment, from one of its moments to the next;
// 0 and MaxTime where there is none.
type idleGap struct {
	tid uint32
	Interval
}

// has reports whether the poke p was made in the gap, not at its ends.
func (g *idleGap) has(p *InPlacePoke) bool {
	return p.TID == g.tid && g.From < p.Time && p.Time < g.To
}

// gapAround returns the idle moments around the poke p. If p was made at one, the gap is empty.
func (w *Windows) gapAround(p *InPlacePoke) (between Interval, gap idleGap) {
	k := w.firstIdle(p)
	between = w.betweenIdle(k, p, Interval{0, MaxTime})
	if k == len(w.idle) || w.idle[k].TID != p.TID || w.idle[k].Time != p.Time {
		gap = idleGap{p.TID, between}
	}
	return between, gap
}

// betweenIdle narrows i to between the idle moments of the task that made the
// poke p: the one before and the one after. k is firstIdle of p.
func (w *Windows) betweenIdle(k int, p *InPlacePoke, i Interval) Interval {
	if k > 0 && w.idle[k-1].TID == p.TID {
		i.From = max(i.From, w.idle[k-1].Time)
	}
	for k < len(w.idle) && w.idle[k].TID == p.TID && w.idle[k].Time == p.Time {
		k++ // of the same time: before or after
	}
	if k < len(w.idle) && w.idle[k].TID == p.TID {
		i.To = min(i.To, w.idle[k].Time)
	}
	return i
}

// Windows finds the windows of the in-place pokes of a recording. After [Windows.Widen]
// it is immutable and safe for concurrent use.
type Windows struct {
	pokes   []InPlacePoke // as recorded
	runs    []sortedRun
	skew    uint64          // by how much the CPUs' clocks differ
	idle    []IdleMoment    // by task, then by time
	slow    uint64          // how long a batch takes that is slower than nearly all others
	words   *wordWindows    // if instructions are words, and no batches are made; nil on x86
	indexed *indexedWindows // if pokes are in the file of an index

	indexOnce sync.Once
	byAddr    *windowIndex // see [Windows.index]
	indexOf   *Windows     // whose pokes the index refers to: w, unless the file of the index is damaged
}

// A sortedRun is a run of pokes, [lo, hi) as recorded, that are neighbours in the order
// of time as well; from is the index of the first of them in that order.
type sortedRun struct{ lo, hi, from int }

func (w *Windows) len() int { return len(w.pokes) }

// at returns the k-th poke in the order of time.
func (w *Windows) at(k int) *InPlacePoke {
	i := sort.Search(len(w.runs), func(i int) bool { return w.runs[i].from > k }) - 1
	s := &w.runs[i]
	i = s.lo + k - s.from
	if w.indexed != nil {
		w.indexed.check(i)
	}
	return &w.pokes[i]
}

// NewWindows returns the windows of in-place pokes. It keeps pokes and idle, and changes
// them. pokes must have the pokes of each CPU in the order of time, as a recording has;
// idle may be in any order. words is set for architectures whose instructions are words,
// each replaced by itself.
func NewWindows(pokes []InPlacePoke, idle []IdleMoment, words bool) *Windows {
	slices.SortFunc(idle, IdleMoment.compare)
	w := &Windows{pokes: withoutDuplicates(pokes), idle: slices.Compact(idle)}
	w.sort()
	if words {
		w.words = newWordWindows(w)
	} else {
		w.findBatches()
	}
	return w
}

// shortRun is how many pokes a run has on average, at least, if runs are kept.
const shortRun = 8

// sort finds the runs. If they are short, since pokes of several CPUs are interleaved, the
// runs would take more memory than the pokes. The pokes are then copied in the order of
// time, which is a single run.
func (w *Windows) sort() {
	from := 0
	var sorted []InPlacePoke
	InTimeOrder(w.pokes, func(p *InPlacePoke) uint64 { return p.Time }, func(lo, hi int) {
		switch {
		case sorted != nil:
			sorted = append(sorted, w.pokes[lo:hi]...)
			return
		case len(w.runs) > len(w.pokes)/shortRun+shortRun:
			sorted = make([]InPlacePoke, 0, len(w.pokes))
			for _, r := range w.runs {
				sorted = append(sorted, w.pokes[r.lo:r.hi]...)
			}
			sorted = append(sorted, w.pokes[lo:hi]...)
			return
		}
		w.runs = append(w.runs, sortedRun{lo, hi, from})
		from += hi - lo
	})
	if sorted != nil {
		w.pokes, w.runs = sorted, []sortedRun{{0, len(sorted), 0}}
	}
}

// withoutDuplicates leaves out the pokes that perf wrote twice (rule duplicates), which
// would count as further sites of their batch.
func withoutDuplicates(pokes []InPlacePoke) []InPlacePoke {
	ascend := true // each has a time of its own
	for i := 1; i < len(pokes) && ascend; i++ {
		ascend = pokes[i-1].Time < pokes[i].Time
	}
	if ascend {
		return pokes
	}
	var duplicates []int
	var last *InPlacePoke
	seen := make(map[InPlacePoke]bool) // of last's time, if there are several
	InTimeOrder(pokes, func(p *InPlacePoke) uint64 { return p.Time }, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			p := &pokes[i]
			switch {
			case last == nil || p.Time != last.Time:
				if len(seen) > 0 {
					clear(seen)
				}
			default:
				seen[*last] = true
				if seen[*p] {
					duplicates = append(duplicates, i)
				}
			}
			last = p
		}
	})
	if len(duplicates) == 0 {
		return pokes
	}
	slices.Sort(duplicates)
	single := make([]InPlacePoke, 0, len(pokes)-len(duplicates))
	from := 0
	for _, i := range duplicates {
		single = append(single, pokes[from:i]...)
		from = i + 1
	}
	return append(single, pokes[from:]...)
}

// IdleMoments returns the moments that bound windows, by task, then by time: of each task those next to
// its pokes. They must not be changed, and are valid until the windows are closed.
func (w *Windows) IdleMoments() []IdleMoment { return w.idle }

// Widen makes all windows longer at both ends by skew nanoseconds, by which the clocks of
// the CPUs differ. It must be called before w is used.
func (w *Windows) Widen(skew uint64) { w.skew = skew }

// byPoke compares windows by the time of their pokes, then by address.
func byPoke(a, b Window) int {
	return cmp.Or(cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Len, b.Len), cmp.Compare(a.Kind, b.Kind))
}

// At returns the windows that are open at time t over any byte of [addr, addr+n), by
// the time of their pokes, then by address; none if n is 0. MaxTime is the time before it, as
// in [Image.At].
func (w *Windows) At(addr, n, t uint64) []Window {
	if n == 0 {
		return nil
	}
	t = min(t, MaxTime-1)
	if w.words != nil {
		return w.words.at(w, addr, n, t)
	}
	out := w.find(addr, n, t)
	if w.indexed != nil && w.indexed.damaged.Load() {
		return w.indexed.again().At(addr, n, t)
	}
	return out
}

// WindowReach is how many in-place pokes lie at most between a time and a poke whose window
// is open then, that poke included, not counting those of one time. A window of x86 reaches
// over at most a batch on either side of its poke, and then to the next poke. Windows that are
// longer, see [Windows.Widen], reach from a time further away.
const WindowReach = maxBatch + 1

// find is At for x86.
func (w *Windows) find(addr, n, t uint64) []Window {
	var out []Window
	first, end := w.during(earlier(t, w.skew), Later(t, w.skew))
	for k := max(0, first-WindowReach); k < min(w.len(), end+WindowReach); k++ {
		p := w.at(k)
		if p.Len == 0 || p.Addr >= addr && p.Addr-addr >= n || p.Addr+uint64(p.Len) <= addr {
			continue
		}
		if win := w.window(k); win.Proven.From <= t && t < win.Proven.To {
			out = append(out, win)
		}
	}
	slices.SortStableFunc(out, byPoke)
	return out
}

// during returns the pokes of the time [from, to], with those of the last time before and of the
// first one after: pokes of one time are no bounds of one another's windows.
func (w *Windows) during(from, to uint64) (first, end int) {
	i := sort.Search(w.len(), func(i int) bool { return w.at(i).Time > from })
	j := sort.Search(w.len(), func(i int) bool { return w.at(i).Time > to })
	for first = i; first > 0 && w.at(first-1).Time == w.at(i-1).Time; first-- {
	}
	for end = j; end < w.len() && w.at(end).Time == w.at(j).Time; end++ {
	}
	return first, end
}

// window derives the bounds of the window of poke k.
func (w *Windows) window(k int) Window {
	p := w.at(k)
	lo, hi := w.couldBeBatch(k)
	win := Window{Addr: p.Addr, Len: int(p.Len), Switch: p.Time, Kind: p.Kind,
		Proven: w.betweenIdle(w.firstIdle(p), p, around(lo, hi, w.len(), p.TID, w.at))}
	win.Estimate = w.estimate(k)
	win.bound(w.skew)
	return win
}

// around returns the time from the poke before [lo, hi) to the one behind it: of n pokes in
// the order of time, those that could be of one batch with a poke of task tid. Which of two
// tasks was the first at one time is not known, so another task's poke of that time is no
// bound.
func around(lo, hi, n int, tid uint32, at func(int) *InPlacePoke) Interval {
	before := func(i int) bool { return at(i).Time < at(lo).Time || at(i).TID == tid }
	behind := func(i int) bool { return at(i).Time > at(hi-1).Time || at(i).TID == tid }
	i, j := lo-1, hi
	for i >= 0 && !before(i) {
		if i--; lo-i > maxBatch { // so many of one time: the widest bound is never wrong
			i = sort.Search(i+1, func(k int) bool { return at(k).Time >= at(lo).Time }) - 1
		}
	}
	for j < n && !behind(j) {
		if j++; j-hi > maxBatch {
			j = sort.Search(n, func(k int) bool { return at(k).Time > at(hi-1).Time })
		}
	}
	v := Interval{0, MaxTime}
	if i >= 0 {
		v.From = at(i).Time
	}
	if j < n {
		v.To = at(j).Time
	}
	return v
}

// bound narrows a window by what each kind of writer has done when it makes the record,
// and widens it by how much the CPUs' clocks differ.
func (w *Window) bound(skew uint64) {
	w.Kind.bound(&w.Proven, w.Switch, skew)
	w.Kind.bound(&w.Estimate, w.Switch, skew)
	w.Estimate.From, w.Estimate.To = max(w.Estimate.From, w.Proven.From), min(w.Estimate.To, w.Proven.To)
}

// bound narrows and widens one interval of a window; t is the time of the poke.
func (k PokeKind) bound(i *Interval, t, skew uint64) {
	switch k {
	case PokeArmed, PokeUnoptimised: // written and synchronised: from t on the trap is the new bytes
		i.To = t
	case PokeDisarmed: // not yet written: until t the trap is the old bytes
		i.From = t
	}
	i.From, i.To = earlier(i.From, skew), Later(i.To, skew)
}

// PokeKind is the kind of writer of a poke, as far as its old and new bytes show.
type PokeKind uint8

const (
	// PokeBatch: text_poke_bp_batch and its users: static keys, static calls,
	// ftrace sites, BPF attach points, kprobes being optimised.
	PokeBatch       PokeKind = iota
	PokeArmed                // a kprobe's INT3 was set
	PokeDisarmed             // a kprobe's INT3 was removed
	PokeUnoptimised          // the JMP of an optimised kprobe became INT3 again
	PokeCreated              // out-of-line code was written
	PokeRemoved              // out-of-line code was removed
)

var pokeKinds = [...]string{"batch", "kprobe-armed", "kprobe-disarmed", "kprobe-unoptimised", "created", "removed"}

// String returns the name of the kind, for example "kprobe-armed".
func (k PokeKind) String() string { return pokeKinds[k] }

// InPlace reports whether the poke was made under text_mutex, over other code.
func (k PokeKind) InPlace() bool { return k < PokeCreated }
