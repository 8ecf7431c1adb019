// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "iter"

// Against compares the view with another copy of the same memory, for example one that
// was read from /proc/kcore at v's time. It yields every span of the view in segs, with
// the copy's bytes of that span. The spans are not joined. The caller decides whether the
// bytes of a span that is not [Known] may differ.
func (v View) Against(segs []Segment) iter.Seq2[Span, []byte] {
	return func(yield func(Span, []byte) bool) {
		for _, s := range segs {
			for p := range v.pieces(s.Addr, uint64(len(s.Data))) {
				if !yield(p, s.Data[p.Addr-s.Addr:][:p.Len]) {
					return
				}
			}
		}
	}
}
