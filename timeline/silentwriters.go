// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"slices"
)

// No kernel of an architecture other than x86 is known to record its changes of
// text in place. Where a recording of one has text pokes all the same, some
// writer in it emits them, and nothing tells whether all do: all the time is a
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

// silentArch reports whether the recording is of an architecture whose kernels
// are not known to record all their changes of text.
func (r *Report) silentArch() bool { return r.Arch != "" && r.Arch != "x86_64" }

// whatFollows tells a reader what the silence of the architecture means for the
// answers: what they still rest on.
func (r *Report) whatFollows() []string {
	if !r.silentArch() {
		return nil
	}
	var out []string
	switch {
	case r.SnapshotBytes == 0 && r.Pokes.inPlace() == 0:
		out = append(out, "without a copy beside the recording (kcore_dir) nothing is told of kernel text")
	case r.SnapshotBytes == 0:
		out = append(out, "without a copy beside the recording (kcore_dir) nothing is told of kernel text but what was poked")
	case r.Copied != nil:
		out = append(out, fmt.Sprintf("answers give it as perf copied it, by %s, as unconfirmed: what was patched since is not seen", Seconds(r.Copied.To)))
	}
	if r.Pokes.inPlace() > 0 {
		out = append(out, "only between two pokes of the same place, of which the later one found what the earlier one left, is that place known")
	}
	if r.BPF.WithBytes > 0 {
		out = append(out, fmt.Sprintf("BPF programs do not depend on it: %d of %d have bytes, known while they live, save what this kernel patches in them",
			r.BPF.WithBytes, r.BPF.Programs))
	}
	return out
}
