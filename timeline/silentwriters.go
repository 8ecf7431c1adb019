// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
)

// No kernel of an architecture other than x86 is known to record its changes of
// text in place. Where a recording of one has text pokes all the same, some
// writer in it emits them, and nothing says whether all do: all the time is a
// gap, for the reason SilentWriters. But a word has one writer: kprobes refuse
// places of static keys and of ftrace (check_kprobe_address_safe in
// kernel/kprobes.c), and those have their own. So where two pokes of the same
// bytes follow one another, and the later one found what the earlier one
// left, the writer that made both would have recorded a change between. Nothing
// else is known: not what a place held before its first poke or after its last,
// nor any place without. And one contradiction in core text shows a writer that
// is silent; then not even that is.

// pairing returns the gaps of core text that count between two pokes of the same bytes
// as well: all but those of the reason SilentWriters. It is nil where there is none
// of these.
func (b *Builder) pairing() *gaps {
	pokes := b.gaps[GapPokes]
	silent := func(g gap) bool { return g.reason == SilentWriters }
	if !slices.ContainsFunc(pokes, silent) {
		return nil
	}
	g := flatten(append(slices.DeleteFunc(slices.Clone(pokes), silent), b.bounds()...))
	return &g
}

// contradicted reports whether facts contradict one another in core text.
func (im *Image) contradicted() bool {
	for c := range im.Conflicts() {
		if im.textLo <= c.Addr && c.Addr < im.textHi {
			return true
		}
	}
	return false
}
