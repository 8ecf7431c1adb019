// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "iter"

// Answers yields all answers that the image can give, by address and then by time: a span
// for each version of each range of addresses over which every fact is uniform. Since of
// the first version of a range is 0, Until of the last one is [MaxTime]. A Span is valid
// until the next one. Answers is for programs that copy an image.
func (im *Image) Answers() iter.Seq[*Span] {
	return func(yield func(*Span) bool) {
		var s Span
		for i := range im.fragments {
			f := &im.fragments[i]
			for k := range f.count {
				s = im.span(f, im.version(&f.versions, k), 0, uint64(f.size))
				if k == 0 {
					s.Since = 0 // the version holds before, too: see tables.at
				}
				if !yield(&s) {
					return
				}
			}
		}
	}
}

// Unpatched yields the answers for core kernel text that was never changed, by time. The
// spans have no addresses and no bytes. There are none if the image has no such text.
func (im *Image) Unpatched() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		for k := range im.unpatched.count {
			v := im.version(&im.unpatched, k)
			if k == 0 {
				v.since = 0
			}
			if !yield(Span{Standing: v.standing, Reason: v.reason, Source: v.source, Since: v.since, Until: v.until}) {
				return
			}
		}
	}
}

// Proven yields the in-place pokes in the order of time, each with the interval in which a
// CPU may meet its trap: Window.Proven of [Windows.At]. It takes linear time.
//
// A *InPlacePoke is valid until the windows are closed, and must not be changed.
func (w *Windows) Proven() iter.Seq2[*InPlacePoke, Interval] {
	return func(yield func(*InPlacePoke, Interval) bool) {
		all := w
		if w.indexed != nil && !w.indexed.whole() {
			all = w.indexed.again()
		}
		for i, proven := range all.allProven() {
			if !yield(&all.pokes[i], proven) {
				return
			}
		}
	}
}
