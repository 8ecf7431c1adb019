// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A measuredPoke is a poke of a batch, with the true time of its trap.
type measuredPoke struct {
	timeline.InPlacePoke
	window timeline.Window
	shown  int               // the batch that replay gives it
	trap   timeline.Interval // from the store of INT3 to that of the new first byte
}

// measuredPokes returns the pokes in batches whose stores the execution has, in order
// of time.
func measuredPokes(tb testing.TB, r *replay.Replay, e *execution) []measuredPoke {
	const int3 = 0xcc
	first := make(map[uint64][]textStore)
	for _, s := range e.stores {
		first[s.addr] = append(first[s.addr], s)
	}
	var out []measuredPoke
	shown := 0
	for p, begins := range r.Windows().Batches() {
		if begins {
			shown++
		}
		stores := first[p.Addr]
		after := sort.Search(len(stores), func(i int) bool { return stores[i].time > p.Time })
		if p.Kind != timeline.PokeBatch || after == 0 || after == len(stores) ||
			stores[after-1].bytes[0] != int3 || stores[after].bytes[0] == int3 {
			continue
		}
		m := measuredPoke{*p, timeline.Window{}, shown, timeline.Interval{From: stores[after-1].time, To: stores[after].time}}
		open := r.Windows().At(p.Addr, 1, p.Time)
		i := slices.IndexFunc(open, func(w timeline.Window) bool { return w.Switch == p.Time })
		if i < 0 {
			tb.Errorf("no window is open over %#x at %d, when it is poked", p.Addr, p.Time)
			continue
		}
		m.window = open[i]
		out = append(out, m)
	}
	return out
}

// wholeBatches returns how many batches the kernel made, and how many of them replay shows
// correctly. text_mutex lets one task write at a time, so places with traps at the same time
// are of one batch.
func wholeBatches(pokes []measuredPoke) (made, right int) {
	real := make(map[int]map[int]bool)  // the shown batches of each real one
	shown := make(map[int]map[int]bool) // the real batches of each shown one
	note := func(m map[int]map[int]bool, of, has int) {
		if m[of] == nil {
			m[of] = make(map[int]bool)
		}
		m[of][has] = true
	}
	end := uint64(0)
	for i := range pokes {
		p := &pokes[i]
		if p.trap.From >= end {
			made++
		}
		end = max(end, p.trap.To)
		note(real, made, p.shown)
		note(shown, p.shown, made)
	}
	for _, of := range real {
		for one := range of {
			if len(of) == 1 && len(shown[one]) == 1 {
				right++
			}
		}
	}
	return made, right
}

// A windowScore compares the windows of a recording with the kernel's stores and with the
// traps that CPUs met.
type windowScore struct {
	pokes        int     // whose stores are known
	trap         float64 // median time that a trap was there, in ms
	proven, est  float64 // median widths of windows, as multiples of that time
	ends, ran    trapShare
	right, made  int // batches shown as they were, and all
	provenMissed int // windows that the trap outlived
}

// scoreWindows fails the test if a trap was there outside of its proven window.
func scoreWindows(tb testing.TB, r *replay.Replay, e *execution) (s windowScore) {
	tb.Helper()
	pokes := measuredPokes(tb, r, e)
	var proven, est, trap []float64
	for i := range pokes {
		p := &pokes[i]
		if w := p.window.Proven; w.From > p.trap.From || w.To < p.trap.To {
			if s.provenMissed++; s.provenMissed <= 5 {
				tb.Errorf("%#x poked at %d: the trap was there in %v, the proven window is %v", p.Addr, p.Time, p.trap, w)
			}
		}
		there := float64(p.trap.To - p.trap.From)
		width := func(w timeline.Interval) float64 { return float64(w.To-w.From) / there }
		proven, est, trap = append(proven, width(p.window.Proven)), append(est, width(p.window.Estimate)), append(trap, there/1e6)
	}
	s.pokes = len(pokes)
	if s.pokes > 0 {
		s.proven, s.est, s.trap = median(proven), median(est), median(trap)
	}
	s.ends, s.ran = estimatedTraps(r, e)
	s.made, s.right = wholeBatches(pokes)
	tb.Logf("%+v", s)
	return s
}

// TestExecutedWindows compares windows with the kernel's stores and the traps that CPUs met.
// No trap is outside its proven window. Nearly all traps are inside the estimate. The
// estimate is not much wider than needed.
func TestExecutedWindows(t *testing.T) {
	type limits struct {
		name        string
		pokes       int     // with known stores; 0: any number
		proven, est float64 // median widths, as multiples of the true window, at most
		ends, ran   float64 // fraction of the traps inside the estimate, at least
		batches     float64 // fraction of the batches shown correctly, at least
	}
	check := func(t *testing.T, dir string, tt limits) {
		path := filepath.Join(dir, "rec.data")
		if _, err := os.Stat(path); err != nil {
			path = filepath.Join(dir, "cut.data")
		}
		r, err := replay.Load(path, replay.Options{Windows: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if r.Machine() != elf.EM_X86_64 {
			t.Skip("this architecture changes text in one store")
		}
		s := scoreWindows(t, r, executionOf(t, dir))
		if tt.pokes != 0 && s.pokes != tt.pokes {
			t.Errorf("the stores of %d pokes are known, want %d", s.pokes, tt.pokes)
		}
		if s.proven > tt.proven {
			t.Errorf("the median of proven windows is %.2f times the true one, want at most %.2f", s.proven, tt.proven)
		}
		if s.est > tt.est {
			t.Errorf("the median of estimates is %.2f times the true window, want at most %.2f", s.est, tt.est)
		}
		if !s.ends.least(tt.ends) || !s.ran.least(tt.ran) {
			t.Errorf("of the traps inside proven windows, %+v are inside the estimate, and %+v of the first and last ones; want %v and %v", s.ran, s.ends, tt.ran, tt.ends)
		}
		if float64(s.right) < tt.batches*float64(s.made) || s.made == 0 {
			t.Errorf("%d of %d batches are shown as they were, want %.1f %%", s.right, s.made, 100*tt.batches)
		}
	}
	for _, tt := range []limits{
		{name: "pt", pokes: 9495, proven: 3.4, est: 3, ends: 0.99, ran: 0.98, batches: 1},
		{name: "dense", pokes: 22512, proven: 3.3, est: 3, ends: 0.998, ran: 0.999, batches: 1},
		{name: "lossy", pokes: 74321, proven: 2.8, est: 2, ends: 0.995, ran: 0.995, batches: 0.99},
		{name: "gone", pokes: 783, proven: 2, est: 2, ends: 1, ran: 1, batches: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check(t, filepath.Join(corpus.Large(t, "x86_64/exec"), tt.name), tt)
		})
	}
	// Recordings that nothing was fitted on: TEXTREPLAY_OTHER names their directory. Those of
	// testdata lack most pokes, which bound windows.
	for _, dir := range executedElsewhere() {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			check(t, dir, limits{proven: 4, est: 3, ends: 0.99, ran: 0.99, batches: 0.95})
		})
	}
}

// A trapShare counts traps inside proven windows, and those of them inside the estimate.
type trapShare struct{ in, all uint64 }

func (s trapShare) least(share float64) bool {
	return s.all > 0 && float64(s.in) >= share*float64(s.all)
}

// estimatedTraps counts the traps that ran inside proven windows where the code has no trap
// of its own. A run has the times of its first and its last trap. ends counts these, and
// ran all traps, as if they were evenly between.
func estimatedTraps(r *replay.Replay, e *execution) (ends, ran trapShare) {
	const int3 = 0xcc
	for _, run := range e.runs {
		if len(run.bytes) != 1 || run.bytes[0] != int3 || run.first < r.Image.First() || run.last >= r.Image.Horizon() {
			continue
		}
		add := func(s *trapShare, at, n uint64) (estimated bool) {
			var code [1]byte
			if r.Image.At(at).Read(run.addr, code[:]); code[0] == int3 {
				return false // a kprobe's trap, from its window on
			}
			open := r.Windows().At(run.addr, 1, at)
			if len(open) == 0 {
				return false
			}
			s.all += n
			estimated = slices.ContainsFunc(open, func(w timeline.Window) bool { return w.Estimate.From <= at && at < w.Estimate.To })
			if estimated {
				s.in += n
			}
			return estimated
		}
		first := add(&ends, run.first, 1)
		if last := add(&ends, run.last, 1); first && last {
			ran.in, ran.all = ran.in+run.count, ran.all+run.count
			continue
		}
		for k := range run.count {
			add(&ran, run.first+(run.last-run.first)*k/max(run.count-1, 1), 1)
		}
	}
	return ends, ran
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
