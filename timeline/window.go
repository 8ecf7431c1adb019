// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"sort"
)

// Window is the time around a poke during which a CPU that comes to the poked
// instruction may meet a trap (INT3) instead of the old or the new bytes. The
// bytes are known on both sides of Switch all the same: the old ones before it,
// the new ones from it on.
//
// Where instructions are words, as on arm64, each is replaced by itself: the
// trap can be there no longer than from the same task's poke before to its next.
type Window struct {
	Addr   uint64
	Len    int
	Switch uint64 // the poke's time
	Kind   PokeKind
	// A CPU may meet the trap at any time t with Proven.From <= t < Proven.To, and at
	// no other: it was set after the last poke before that cannot be of the same batch, and is gone by the
	// first one after. 0 and MaxTime where there is no such poke.
	Proven Interval
	// Estimate is a guess, and narrower: pokes of one batch follow one another
	// closely, so a longer pause ends it. It proves nothing.
	Estimate Interval
}

// batchMax is how many pokes text_poke_bp_batch makes at once at most
// (TP_VEC_MAX: a page of struct text_poke_loc).
const BatchMax = 256

// placed is an in-place poke, in the order of time.
type InPlacePoke struct {
	Time uint64
	Addr uint64
	TID  uint32
	Len  uint16 // 0 where no trap stands there meanwhile: it only bounds others
	Kind PokeKind
}

// Windows are the windows of all in-place pokes of a recording. It is
// immutable and safe for concurrent use.
type Windows struct {
	pokes   []InPlacePoke // as recorded
	runs    []sortedRun
	skew    uint64          // by how much the CPUs' clocks differ
	words   *wordWindows    // where instructions are words and no batches are made; nil on x86
	indexed *indexedWindows // where pokes are in the file of an index
}

// A sortedRun is a run of pokes, [lo, hi) as recorded, that follow one another in
// time; from is the place of the first of them in the order of time.
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

// newWindows makes windows of in-place pokes as recorded: of each CPU in the
// order of time. words says that instructions are words, each replaced by itself.
func NewWindows(pokes []InPlacePoke, words bool) *Windows {
	w := &Windows{pokes: withoutDoubles(pokes)}
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

// withoutDoubles leaves out the pokes that perf wrote twice (rule duplicates): they
// would count as further sites of their batch, which has room for no more.
func withoutDoubles(pokes []InPlacePoke) []InPlacePoke {
	var doubles []int
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
					doubles = append(doubles, i)
				}
			}
			last = p
		}
	})
	if len(doubles) == 0 {
		return pokes
	}
	slices.Sort(doubles)
	single := make([]InPlacePoke, 0, len(pokes)-len(doubles))
	from := 0
	for _, i := range doubles {
		single = append(single, pokes[from:i]...)
		from = i + 1
	}
	return append(single, pokes[from:]...)
}

// Widen makes all windows longer at both ends by how far the clocks of the CPUs
// differ, in nanoseconds. It must be called before w is used.
func (w *Windows) Widen(skew uint64) { w.skew = skew }

// At returns the windows that are open at time t over any byte of
// [addr, addr+n), by the time of their poke.
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
	// A window reaches from its poke over at most a batch on either side, and
	// from there to the next poke.
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

// bound narrows a window by what the writer of each shape has done when it
// makes the record, and widens it by how much the CPUs' clocks differ.
func (w *Window) bound(skew uint64) {
	switch w.Kind {
	case PokeArmed, PokeUnoptimised: // written and synchronised: from now on the trap is the new bytes
		w.Proven.To, w.Estimate.To = w.Switch, w.Switch
	case PokeDisarmed: // not yet written: so far the trap was the old bytes
		w.Proven.From, w.Estimate.From = w.Switch, w.Switch
	}
	for _, i := range []*Interval{&w.Proven, &w.Estimate} {
		i.From, i.To = earlier(i.From, skew), later(i.To, skew)
	}
}

// batch returns the range of pokes that could be of the same batch as poke k:
// of the same task, addresses not descending, not more than a batch holds on
// either side. Batches are not separated: that would shift every cut where
// single pokes happen to ascend.
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

// close narrows [lo, hi) to the pokes around k without a pause that is much
// longer than is usual among them.
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

// PokeKind says who wrote a poke, as far as the shape of its record shows.
type PokeKind uint8

const (
	// PokeBatch: text_poke_bp_batch and its users: static keys, static calls,
	// ftrace sites, BPF attach points, kprobes being optimised.
	PokeBatch       PokeKind = iota
	PokeArmed                // a kprobe's INT3 was set
	PokeDisarmed             // and taken away
	PokeUnoptimised          // an optimised kprobe's JMP became INT3 again
	PokeCreated              // out-of-line code came into being
	PokeRemoved              // and went
)

var pokeKinds = [...]string{"batch", "kprobe-armed", "kprobe-disarmed", "kprobe-unoptimised", "created", "removed"}

// String returns the name of the kind, for example "kprobe-armed".
func (k PokeKind) String() string { return pokeKinds[k] }

// inPlace reports whether the poke was made under text_mutex, in the place of
// other code.
func (k PokeKind) InPlace() bool { return k < PokeCreated }
