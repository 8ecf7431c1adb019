// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "iter"

// A Words is an array of u64 as it is in a record: nothing is copied, and
// an element is decoded when it is asked for. It aliases Record.Raw and is
// valid as long as that is. The zero Words is empty.
type Words struct {
	b     []byte
	order endian
}

// Len returns the number of elements.
func (w Words) Len() int { return len(w.b) / 8 }

// At returns element i; like an index expression, it panics where there is none.
func (w Words) At(i int) uint64 { return w.order.u64(w.b[8*i:]) }

// All returns the elements with their indices.
func (w Words) All() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		for i := range w.Len() {
			if !yield(i, w.At(i)) {
				return
			}
		}
	}
}

// AppendTo appends the elements to dst.
func (w Words) AppendTo(dst []uint64) []uint64 {
	for i := range w.Len() {
		dst = append(dst, w.At(i))
	}
	return dst
}

// words returns the n words that begin b, which holds them.
func (e endian) words(b []byte, n int) Words { return Words{b[: 8*n : 8*n], e} }
