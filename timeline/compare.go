// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "iter"

// Against compares the view with another copy of the same memory, for example
// one read from /proc/kcore at v's time: it yields every piece of the view
// that segs cover, with the copy's bytes in the piece's place. Whether a piece
// that is not [Known] may differ is for the caller to say.
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
