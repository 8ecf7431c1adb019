// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// SequenceKind says what a [Sequence] does to its site.
type SequenceKind uint8

const (
	SequenceEnable   SequenceKind = iota + 1 // the site begins to branch
	SequenceDisable                          // it no longer branches
	SequenceRetarget                         // it branches to another target
)

var sequenceKinds = [...]string{"", "enable", "disable", "retarget"}

// String returns the name of the kind: "enable", "disable" or "retarget".
func (k SequenceKind) String() string { return sequenceKinds[k] }

// A Step is one poke of a sequence: a word that is replaced.
type Step struct {
	Time     uint64
	Addr     uint64
	Old, New uint32 // in the byte order of the kernel's instructions
}

// A Sequence is a change of several steps. Each leaves a state that is
// harmless to run. A powerpc function that was compiled with -mprofile-kernel
// begins with
//
//	mflr r0
//	bl   _mcount
//
// and a kernel may replace both words by nops while the function is not traced
// (proposed in 2019: "[PATCH v2 4/7] powerpc/ftrace: Additionally nop out the
// preceding mflr with -mprofile-kernel"). It then changes them in two steps with
// all CPUs synchronised between: the mflr of all sites first and their branches
// last to enable, the branch first and the mflr last to disable. So no CPU runs a
// branch without its mflr. A new target of the call takes one step, which changes the
// branch alone.
type Sequence struct {
	Kind SequenceKind
	Site uint64 // address of the first word
	// Steps are the recorded steps in the order of time, one or two.
	Steps []Step
	// Complete is false if a step is missing: the change was undone, or the recording
	// begins or ends in the middle.
	Complete bool
	// Legal is false if a step left words that no CPU must run, see SiteState.
	Legal bool
	// Before and After are the site's words before the first and after the last step.
	// The second word is 0 if the site has only one.
	Before, After [2]uint32
}

// Begin returns the time of the first step.
func (s *Sequence) Begin() uint64 { return s.Steps[0].Time }

// End returns the time of the last step.
func (s *Sequence) End() uint64 { return s.Steps[len(s.Steps)-1].Time }

// Single reports whether the sequence is complete and has one step, as that of a new
// target.
func (s *Sequence) Single() bool { return len(s.Steps) == 1 && s.Complete }

// SiteState is the pair of words at a site during an interval of time.
type SiteState struct {
	Site   uint64
	Words  [2]uint32         // in the byte order of the kernel's instructions
	During timeline.Interval // the state holds at every time t with During.From <= t < During.To
	// Legal is false if a CPU must not run the words: a branch without its mflr makes
	// the profiling code return to the wrong place.
	Legal bool
	// Standing is the least standing of the words at the beginning of During. Reason
	// is its reason.
	Standing timeline.Standing
	Reason   timeline.Reason
	// UnderWay is the kind of the sequence that is under way during the state, 0 if
	// there is none.
	UnderWay SequenceKind
}

// String names the words as the kernel's comments do: "(mflr, nop)".
func (s *SiteState) String() string {
	name := func(word uint32) string {
		switch {
		case word == patching.PowerpcNOP:
			return "nop"
		case word == patching.PowerpcMFLR:
			return "mflr"
		case patching.IsPowerpcBL(word):
			return "bl"
		}
		return "other"
	}
	return "(" + name(s.Words[0]) + ", " + name(s.Words[1]) + ")"
}

// legal reports whether a CPU may run the two words of a site.
func legal(words [2]uint32) bool {
	return words[0] != patching.PowerpcNOP || !patching.IsPowerpcBL(words[1])
}

// Sequences are the sequences of a recording. It is immutable and safe for
// concurrent use.
type Sequences struct {
	all    []Sequence  // by begin
	states []SiteState // by site and time
	steps  map[stepKey]int32
}

// Sequences finds the sequences of a recording by reading it twice more, on the
// first call. Only powerpc has any; of others nothing is read.
func (r *Replay) Sequences() *Sequences {
	r.sequencesOnce.Do(func() { r.sequences = r.findSequences() })
	return r.sequences
}

// All yields all sequences by the time of their first step.
func (s *Sequences) All() iter.Seq[*Sequence] {
	return func(yield func(*Sequence) bool) {
		for i := range s.all {
			if !yield(&s.all[i]) {
				return
			}
		}
	}
}

// At returns the state at time t of the site that has addr in one of its two words. ok
// is false if there is none.
func (s *Sequences) At(addr, t uint64) (st SiteState, ok bool) {
	for _, site := range [...]uint64{addr &^ 3, addr&^3 - 4} {
		i := sort.Search(len(s.states), func(i int) bool {
			x := &s.states[i]
			return x.Site > site || x.Site == site && x.During.From > t
		})
		if i > 0 && s.states[i-1].Site == site && (t < s.states[i-1].During.To || s.states[i-1].During.To == timeline.MaxTime) {
			return s.states[i-1], true
		}
	}
	return SiteState{}, false
}

// Illegal yields the states that are not legal, in the order of sites and times.
func (s *Sequences) Illegal() iter.Seq[SiteState] {
	return func(yield func(SiteState) bool) {
		for _, x := range s.states {
			if !x.Legal && !yield(x) {
				return
			}
		}
	}
}

// A wordPoke is what a poke does to one word.
type wordPoke struct {
	time     uint64
	addr     uint64
	old, new uint32
}

// words yields the change of each whole word that p replaces.
func (r *Replay) words(p *perfdata.TextPoke) iter.Seq[wordPoke] {
	order := r.Recording.ByteOrder()
	return func(yield func(wordPoke) bool) {
		for i := 0; i+4 <= len(p.Old) && i+4 <= len(p.New) && p.Addr&3 == 0; i += 4 {
			w := wordPoke{p.Time, p.Addr + uint64(i), order.Uint32(p.Old[i:]), order.Uint32(p.New[i:])}
			if w.old != w.new && !yield(w) {
				return
			}
		}
	}
}

// isFirst reports whether w is a site's first step, or undoes it.
func (w *wordPoke) isFirst() bool {
	return w.old == patching.PowerpcNOP && w.new == patching.PowerpcMFLR || w.old == patching.PowerpcMFLR && w.new == patching.PowerpcNOP
}

// overTOC replaces the branch to the profiling code in code that was compiled with -pg
// alone, while the function is not traced. It is b +8, which jumps over the load that
// restores r2 after the call. A task that was preempted in the call has not run that
// load yet, so the load must not become a nop.
const overTOC = patching.PowerpcB | 8

// findSequences reads the recording twice for the sequences: for their sites, and then for
// all pokes of these.
func (r *Replay) findSequences() *Sequences {
	s := &Sequences{steps: make(map[stepKey]int32)}
	if !r.arch.hasSequences() {
		return s
	}
	pokes := func(visit func(w wordPoke)) {
		for p := range r.pokes(nil, nil) {
			for w := range r.words(p) {
				visit(w)
			}
		}
	}
	// A place is a site if its first word was changed, or was a nop when the second
	// word became a branch.
	sites := make(map[uint64]bool)
	pokes(func(w wordPoke) {
		switch {
		case w.isFirst():
			sites[w.addr] = true
		case w.old == patching.PowerpcNOP && patching.IsPowerpcBL(w.new) && r.wordAt(w.addr-4, w.time) == patching.PowerpcNOP:
			sites[w.addr-4] = true
		}
	})
	var all []wordPoke
	pokes(func(w wordPoke) {
		toc := w.old == overTOC && patching.IsPowerpcBL(w.new) || patching.IsPowerpcBL(w.old) && w.new == overTOC
		if toc || sites[w.addr] || sites[w.addr-4] {
			all = append(all, w)
		}
	})
	bySite := make(map[uint64][]wordPoke)
	timeline.InTimeOrder(all, func(w *wordPoke) uint64 { return w.time }, func(lo, hi int) {
		for _, w := range all[lo:hi] {
			site := w.addr
			if !sites[site] && sites[site-4] {
				site -= 4
			}
			if x := bySite[site]; len(x) == 0 || x[len(x)-1] != w { // perf writes some twice
				bySite[site] = append(x, w)
			}
		}
	})
	for site, pokes := range bySite {
		x := siteHistory{Sequences: s, r: r, site: site}
		if sites[site] {
			x.pair(pokes)
		} else {
			x.branch(pokes)
		}
	}
	s.index()
	return s
}

// wordAt returns the word at addr just before time t, 0 if the image has none.
func (r *Replay) wordAt(addr, t uint64) uint32 {
	var code [4]byte
	if r.Image.At(max(t, 1)-1).Read(addr, code[:]).Given < len(code) {
		return 0
	}
	return r.Recording.ByteOrder().Uint32(code[:])
}

// A stepKey identifies a step: the poke of a word.
type stepKey struct{ addr, time uint64 }

// index sorts sequences and states, and indexes the steps.
func (s *Sequences) index() {
	slices.SortFunc(s.all, func(a, b Sequence) int {
		return cmp.Or(cmp.Compare(a.Begin(), b.Begin()), cmp.Compare(a.Site, b.Site))
	})
	slices.SortStableFunc(s.states, func(a, b SiteState) int { return cmp.Compare(a.Site, b.Site) })
	for i := range s.all {
		for _, x := range s.all[i].Steps {
			s.steps[stepKey{x.Addr, x.Time}] = int32(i)
		}
	}
}

// Of returns the sequence that has the poke of the word at addr at this time as a step,
// nil if none has.
func (s *Sequences) Of(addr, time uint64) *Sequence {
	if i, ok := s.steps[stepKey{addr, time}]; ok {
		return &s.all[i]
	}
	return nil
}

// stepwise reports whether a poke is a step of a sequence that takes several.
func (s *Sequences) stepwise(addr, time uint64) bool {
	x := s.Of(addr, time)
	return x != nil && !x.Single()
}

// siteHistory follows one site through time.
type siteHistory struct {
	*Sequences
	r     *Replay
	site  uint64
	words [2]uint32
	open  bool   // the newest sequence is under way
	since [2]int // by word: the first state since the newest poke of the word
}

// branch follows the branch of a site in code that was compiled with -pg alone.
func (x *siteHistory) branch(pokes []wordPoke) {
	for _, w := range pokes {
		kind := SequenceEnable
		if w.new == overTOC {
			kind = SequenceDisable
		}
		x.begin(kind, w)
		x.finish(true)
		s := &x.all[len(x.all)-1]
		s.Before, s.After = [2]uint32{w.old}, [2]uint32{w.new}
	}
}

// pair follows the two words of a site.
func (x *siteHistory) pair(pokes []wordPoke) {
	// The words before the first poke, which has only one of them.
	for i := range x.words {
		x.words[i] = x.r.wordAt(x.site+uint64(4*i), pokes[0].time)
	}
	x.words[(pokes[0].addr-x.site)/4] = pokes[0].old
	x.state(0)
	x.since = [2]int{len(x.states) - 1, len(x.states) - 1}
	for _, w := range pokes {
		i := (w.addr - x.site) / 4
		if x.words[i] != w.old {
			// There was an unrecorded change. The states since the newest poke of this
			// word are not known.
			x.states = x.states[:min(len(x.states), x.since[i])]
			x.since[1-i] = min(x.since[1-i], len(x.states))
			x.open = false
			x.words[i] = w.old
		}
		before := x.words
		x.words[i] = w.new
		x.step(w, before)
		x.state(w.time)
		x.since[i] = len(x.states) - 1
	}
}

// step adds a poke, which changes the site's words from before to x.words.
func (x *siteHistory) step(w wordPoke, before [2]uint32) {
	underWay := SequenceKind(0)
	if x.open {
		underWay = x.all[len(x.all)-1].Kind
	}
	branches, branched := patching.IsPowerpcBL(x.words[1]), patching.IsPowerpcBL(before[1])
	switch {
	case w.addr == x.site && w.isFirst():
		switch mflr := w.new == patching.PowerpcMFLR; {
		case mflr:
			if x.begin(SequenceEnable, w); branches {
				x.finish(false) // the branch was there before
			}
		case underWay == SequenceDisable:
			x.goOn(w, true)
		case underWay == SequenceEnable: // undone
			x.goOn(w, false)
		default: // its first step was not recorded
			x.begin(SequenceDisable, w)
			x.finish(false)
		}
	case w.addr == x.site:
		return // a probe, for example
	case branches && branched:
		// The branch alone. No sequence is under way where a site branches.
		x.begin(SequenceRetarget, w)
		x.finish(true)
	case branches && underWay == SequenceEnable:
		x.goOn(w, x.words[0] == patching.PowerpcMFLR) // a probe may have left another word
	case branches:
		x.begin(SequenceEnable, w)
		x.finish(x.words[0] == patching.PowerpcMFLR)
	case branched && x.words[1] == patching.PowerpcNOP:
		x.begin(SequenceDisable, w)
	default:
		return
	}
	s := &x.all[len(x.all)-1]
	if len(s.Steps) == 1 {
		s.Before = before
	}
	s.After = x.words
	s.Legal = s.Legal && legal(x.words)
}

// begin begins a sequence. It interrupts the one that is under way.
func (x *siteHistory) begin(kind SequenceKind, w wordPoke) {
	x.open = true
	x.all = append(x.all, Sequence{Kind: kind, Site: x.site, Legal: true, Steps: []Step{{w.time, w.addr, w.old, w.new}}})
}

// goOn adds the last step of the sequence that is under way.
func (x *siteHistory) goOn(w wordPoke, complete bool) {
	s := &x.all[len(x.all)-1]
	s.Steps = append(s.Steps, Step{w.time, w.addr, w.old, w.new})
	x.finish(complete)
}

// finish ends the sequence that is under way.
func (x *siteHistory) finish(complete bool) {
	x.all[len(x.all)-1].Complete = complete
	x.open = false
}

// state adds the state that begins at time t, with the words of x.
func (x *siteHistory) state(t uint64) {
	if n := len(x.states); n > 0 && x.states[n-1].Site == x.site && x.states[n-1].During.To == timeline.MaxTime {
		if x.states[n-1].During.To = t; x.states[n-1].During.From == t {
			x.states = x.states[:n-1] // two steps at one time
		}
	}
	st := SiteState{Site: x.site, Words: x.words, During: timeline.Interval{From: t, To: timeline.MaxTime},
		Legal: legal(x.words)}
	if x.open {
		st.UnderWay = x.all[len(x.all)-1].Kind
	}
	var code [8]byte
	b := x.r.Image.At(max(t, x.r.Image.First())).Read(x.site, code[:])
	st.Standing, st.Reason = b.Standing, b.Reason
	x.states = append(x.states, st)
}
