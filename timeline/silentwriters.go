// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
)

// Only kernels of x86 are known to record their changes of text. If a recording of
// another architecture has text pokes all the same, some writer in its kernel emits
// them, and nothing shows that all writers do. So all time is a gap, with the reason
// SilentWriters.
//
// But each word has one writer: kprobes refuse the places of static keys and of ftrace
// (check_kprobe_address_safe() in kernel/kprobes.c), and no place is of both. So if a poke
// finds the bytes that the poke before it left, their writer would have recorded every
// change between the two. Those bytes are known. Nothing is known of the time before the
// first poke of a place and after its last, or of places that have no poke. One
// contradiction in core text shows a silent writer; then nothing is known at all.

// pairing returns the gaps of core text that count between two pokes of the same bytes:
// all but those of the reason SilentWriters. It is nil if there are none of these.
func (b *Builder) pairing() *gaps {
	pokes := b.gaps[GapPokes]
	silent := func(g gap) bool { return g.reason == SilentWriters }
	if !slices.ContainsFunc(pokes, silent) {
		return nil
	}
	g := flatten(append(slices.DeleteFunc(slices.Clone(pokes), silent), b.bounds()...))
	return &g
}

// contradicted reports whether facts contradict each other in core text.
func (im *Image) contradicted() bool {
	for c := range im.Conflicts() {
		if im.textLo <= c.Addr && c.Addr < im.textHi {
			return true
		}
	}
	return false
}
