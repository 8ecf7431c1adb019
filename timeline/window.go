// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"sort"
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
//	Estimate                        ├───────────┼─────┤
//	                                          Switch
//
// The trap is set after b, the last poke before that cannot be of the same batch, and is
// removed before n, the first poke after that cannot be. Where instructions are words, as
// on arm64, each is replaced by itself: b and n are the same task's pokes before and after.
type Window struct {
	Addr   uint64
	Len    int    // of the poke, in bytes
	Switch uint64 // time of the poke, in nanoseconds of the recording's clock
	Kind   PokeKind
	// Proven has every time at which a CPU may meet the trap. Its ends are 0 and MaxTime
	// if there is no poke that bounds it.
	Proven Interval
	// Estimate is a narrower guess, which proves nothing: a pause that is much longer than
	// others in the batch ends it.
	Estimate Interval
}

// BatchMax is the greatest number of pokes that text_poke_bp_batch() makes at once
// (TP_VEC_MAX in arch/x86/kernel/alternative.c: a page of struct text_poke_loc).
const BatchMax = 256

// InPlacePoke is a text poke that replaced code with a trap in its place meanwhile.
type InPlacePoke struct {
	Time uint64 // in nanoseconds of the recording's clock
	Addr uint64
	TID  uint32 // of the task that made it
	Len  uint16 // in bytes; 0 if it needs no trap, and only bounds the windows of others
	Kind PokeKind
}

// Windows finds the windows of the in-place pokes of a recording. After [Windows.Widen]
// it is immutable and safe for concurrent use.
type Windows struct {
	pokes   []InPlacePoke // as recorded
	runs    []sortedRun
	skew    uint64          // by how much the CPUs' clocks differ
	words   *wordWindows    // if instructions are words, and no batches are made; nil on x86
	indexed *indexedWindows // if pokes are in the file of an index
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

// NewWindows returns the windows of in-place pokes, which it keeps. pokes must have the
// pokes of each CPU in the order of time, as a recording has. words is set for
// architectures whose instructions are words, each replaced by itself.
func NewWindows(pokes []InPlacePoke, words bool) *Windows {
	w := &Windows{pokes: withoutDuplicates(pokes)}
	from := 0
	InTimeOrder(w.pokes, func(p *InPlacePoke) uint64 { return p.Time }, func(lo, hi int) {
		w.runs = append(w.runs, sortedRun{lo, hi, from})
		from += hi - lo
	})
	if words {
		w.words = newWordWindows(w)
	}
	return w
}

// withoutDuplicates leaves out the pokes that perf wrote twice (rule duplicates), which
// would count as further sites of their batch.
func withoutDuplicates(pokes []InPlacePoke) []InPlacePoke {
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

// Widen makes all windows longer at both ends by skew nanoseconds, by which the clocks of
// the CPUs differ. It must be called before w is used.
func (w *Windows) Widen(skew uint64) { w.skew = skew }

// At returns the windows that are open at time t over any byte of [addr, addr+n), by
// the time of their pokes.
func (w *Windows) At(addr, n, t uint64) []Window {
	if w.words != nil {
		return w.words.at(w, addr, n, t)
	}
	out := w.find(addr, n, t)
	if w.indexed != nil && w.indexed.damaged.Load() {
		return w.indexed.again().At(addr, n, t)
	}
	return out
}

// find is At for x86.
func (w *Windows) find(addr, n, t uint64) []Window {
	var out []Window
	// A window reaches over at most a batch on either side of its poke, and then to the
	// next poke.
	i := sort.Search(w.len(), func(i int) bool { return w.at(i).Time > t })
	for k := max(0, i-BatchMax-1); k < min(w.len(), i+BatchMax+1); k++ {
		p := w.at(k)
		if p.Addr >= addr+n || p.Addr+uint64(p.Len) <= addr {
			continue
		}
		if win := w.window(k); win.Proven.From <= t && t < win.Proven.To {
			out = append(out, win)
		}
	}
	return out
}

// window derives the bounds of the window of poke k.
func (w *Windows) window(k int) Window {
	p := w.at(k)
	lo, hi := w.batch(k)
	win := Window{Addr: p.Addr, Len: int(p.Len), Switch: p.Time, Kind: p.Kind,
		Proven: Interval{0, MaxTime}}
	if lo > 0 {
		win.Proven.From = w.at(lo - 1).Time
	}
	if hi < w.len() {
		win.Proven.To = w.at(hi).Time
	}
	from, to := w.close(lo, k, hi)
	win.Estimate = Interval{w.at(from).Time, w.at(to - 1).Time}
	win.bound(w.skew)
	return win
}

// bound narrows a window by what each kind of writer has done when it makes the record,
// and widens it by how much the CPUs' clocks differ.
func (w *Window) bound(skew uint64) {
	switch w.Kind {
	case PokeArmed, PokeUnoptimised: // written and synchronised: from Switch on the trap is the new bytes
		w.Proven.To, w.Estimate.To = w.Switch, w.Switch
	case PokeDisarmed: // not yet written: until Switch the trap is the old bytes
		w.Proven.From, w.Estimate.From = w.Switch, w.Switch
	}
	for _, i := range []*Interval{&w.Proven, &w.Estimate} {
		i.From, i.To = earlier(i.From, skew), later(i.To, skew)
	}
}

// batch returns the range of pokes that could be of the same batch as poke k: of the same
// task, with ascending addresses, and no more than a batch has on either side. It does
// not separate batches from each other: single pokes that happen to ascend would shift
// every cut.
func (w *Windows) batch(k int) (lo, hi int) {
	lo, hi = k, k+1
	together := func(a, b *InPlacePoke) bool {
		return a.TID == b.TID && a.Addr <= b.Addr && a.Kind == PokeBatch && b.Kind == PokeBatch
	}
	for lo > 0 && k-lo < BatchMax-1 && together(w.at(lo-1), w.at(lo)) {
		lo--
	}
	for hi < w.len() && hi-k < BatchMax && together(w.at(hi-1), w.at(hi)) {
		hi++
	}
	return lo, hi
}

// close narrows [lo, hi) to the pokes around k that have no pause between them which is
// much longer than the usual one.
func (w *Windows) close(lo, k, hi int) (int, int) {
	var steps []uint64
	for i := lo + 1; i < hi; i++ {
		steps = append(steps, w.at(i).Time-w.at(i-1).Time)
	}
	if len(steps) == 0 {
		return lo, hi
	}
	slices.Sort(steps)
	const leastPause = 50_000 // ns; longer than any round of IPIs on real hardware
	pause := max(leastPause, 16*steps[len(steps)/2])
	from, to := k, k+1
	for from > lo && w.at(from).Time-w.at(from-1).Time <= pause {
		from--
	}
	for to < hi && w.at(to).Time-w.at(to-1).Time <= pause {
		to++
	}
	return from, to
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
