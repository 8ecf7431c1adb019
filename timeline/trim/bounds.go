// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"cmp"
	"iter"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A CPU may meet a trap around the time of a poke, and other records bound that time (rule windows of
// docs/truth.md). So three kinds of records are kept besides those of the pokes that are wanted:
//
//	pokes of a kept page             p               │          q
//	their windows            ├───────┼─────┤         │├─────────┼───┤       without q, nothing would show
//	                                            ├────┼──────────┤           that it may trap before To
//	what bounds them         b             e         │
//	                                              Options.To
//
//   - changes that were being made at Options.To, up to the last one of them, with all records of text up
//     to there (q);
//   - records of other things that the tasks made which change text (e);
//   - other pokes (b). If only one poke of a place were kept, it would seem to be unchanged afterwards, so
//     all of its page is kept.

// lateRecord is the longest time, in nanoseconds, from a record's time to its writing (rule horizon of docs/truth.md).
const lateRecord = 10e9

// reachStart moves the end of what is kept to the record that shows when perf had begun, if it is later. Up to there perf
// may have copied kernel text, and announced code: if what happened there were left out, these would seem to be of
// before. A recording without a clean end need not have that record.
func (c *cut) reachStart() {
	c.asked, c.ready, c.starts, c.last = c.opts.To, c.r.ReadyBy(), c.r.StartsWith(), timeline.MaxTime-1
	if !c.r.Report.Clean && !c.open {
		c.last = c.r.Report.Horizon
	}
	if c.ready >= c.opts.To && c.ready <= c.last {
		c.opts.To = timeline.Later(c.ready, 1)
	}
}

// reachReading moves the end of what is kept to the next reading of probes' hit counters in the journal of "textreplay
// record", if there is one: it alone shows that no sample of before is missing. The recorder reads them every few seconds.
func (c *cut) reachReading() {
	entries, _ := c.r.Journal()
	next := timeline.MaxTime
	for _, e := range entries {
		if e.Counters != nil && e.Counters.From >= c.opts.To {
			next = min(next, e.Counters.To)
		}
	}
	if next <= c.last {
		c.opts.To = timeline.Later(next, 1)
	}
}

// staysOpen reports whether neither a recording nor what is cut out of it has a clean end.
func staysOpen(r *replay.Replay) bool {
	entries, bad := r.Journal()
	return r.StaysOpen() && entries == nil && bad == nil
}

// findBounds finds these records. It moves the end of what is kept.
func (c *cut) findBounds() {
	c.others = make(map[uint64]bool)
	c.wanted = c.opts.To
	w := c.r.Windows()
	c.idle = w.IdleMoments()
	some := len(c.opts.Ranges) > 0
	if !some && c.opts.To == timeline.MaxTime {
		return // all changes are kept
	}
	var across []timeline.Range
	if some {
		across = inSeveralPages(w)
		c.keepAcross(across)
	}
	skew := c.r.Report.ClockUncertainty
	var times []uint64 // of what bounds windows
	if some {
		for _, proven := range c.openWindows(w) {
			for _, t := range [...]uint64{timeline.Later(proven.From, skew), proven.To - min(proven.To, skew)} {
				if n := len(times); n < 2 || times[n-1] != t && times[n-2] != t {
					times = append(times, t)
				}
			}
		}
	}
	if slices.Sort(times); len(times) > 0 {
		for p := range w.Batches() {
			if _, bounds := slices.BinarySearch(times, p.Time); bounds {
				c.others[page(p.Addr)] = true
			}
		}
		c.keepAcross(across)
	}
	for p := range c.others {
		if c.inSnapshot(p) {
			c.pages[p] = true // what the copies have may contradict the pokes
		}
	}
	end := c.opts.To
	for p := range c.openWindows(w) { // those of pages that are kept as bounds, too
		if p.Time >= c.opts.To {
			end = max(end, timeline.Later(min(p.Time, c.last), 1))
		}
	}
	c.opts.To = end
}

// openWindows yields the pokes of what is kept by now whose windows are open at some time before Options.To,
// with these windows.
func (c *cut) openWindows(w *timeline.Windows) iter.Seq2[*timeline.InPlacePoke, timeline.Interval] {
	return func(yield func(*timeline.InPlacePoke, timeline.Interval) bool) {
		for p, proven := range w.Proven() {
			if p.Len > 0 && proven.From < min(c.opts.To, proven.To) && c.keepsAt(p.Addr, uint64(p.Len)) && !yield(p, proven) {
				return
			}
		}
	}
}

// keepsAt reports whether a poke of n bytes at addr is kept: all of them without ranges; with ranges those of
// kept pages and all of dynamic code.
func (c *cut) keepsAt(addr, n uint64) bool {
	if len(c.opts.Ranges) == 0 || !c.fixed(addr) {
		return true
	}
	for p := range pagesOf(addr, max(n, 1)) {
		if c.hasPokes(p) {
			return true
		}
	}
	return false
}

// hasPokes reports whether the pokes of a page are kept. No copy of text need have a page that is asked for.
func (c *cut) hasPokes(p uint64) bool { return c.pages[p] || c.others[p] || c.isAskedFor(p) }

// isAskedFor reports whether a page has a part of the ranges.
func (c *cut) isAskedFor(p uint64) bool {
	return slices.ContainsFunc(c.ranges, func(g timeline.Range) bool { return g.Lo < g.Hi && page(g.Lo) <= p && p < g.Hi })
}

// inSeveralPages returns where those pokes are that lie in several pages.
func inSeveralPages(w *timeline.Windows) (out []timeline.Range) {
	for p := range w.Batches() {
		if n := uint64(p.Len); n > 0 && page(p.Addr) != page(p.Addr+n-1) {
			out = append(out, timeline.Range{Lo: p.Addr, Hi: p.Addr + n})
		}
	}
	return out
}

// keepAcross keeps pages that only a part of a kept poke lies in: what else changes there would seem to be
// unchanged.
func (c *cut) keepAcross(across []timeline.Range) {
	for more := true; more; {
		more = false
		for _, a := range across {
			n := a.Hi - a.Lo
			if !c.keepsAt(a.Lo, n) {
				continue
			}
			for p := range pagesOf(a.Lo, n) {
				if !c.hasPokes(p) {
					c.others[p], more = true, true
				}
			}
		}
	}
}

// isBound reports whether a record, which is no poke, may bound the window of one: it is of a task that changes text,
// and of its records next to a poke.
func (c *cut) isBound(rec *perfdata.Record, id *perfdata.SampleID) bool {
	switch rec.Type {
	case perfdata.RecordComm, perfdata.RecordFork, perfdata.RecordExit, perfdata.RecordMMAP, perfdata.RecordMMAP2:
	default:
		return false
	}
	_, found := slices.BinarySearchFunc(c.idle, id, func(m timeline.IdleMoment, id *perfdata.SampleID) int {
		return cmp.Or(cmp.Compare(m.TID, id.TID), cmp.Compare(m.Time, id.Time))
	})
	return found && id.Time > 0
}
