// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"iter"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// What a part of a recording needs to keep what its probes prove.

// IsProbe reports whether an event is a probe on a text writer whose samples the image is
// made of. e may be nil.
func (r *Replay) IsProbe(e *perfdata.Event) bool {
	return r.Report.Probes != nil && e != nil && r.scanned().probeOf(e) != nil
}

// ProbedCode returns the ranges of the copy of the kernel that the answers depend on if
// probes recorded the changes of text: the code of the writers, and the addresses of
// symbols that are looked up by name. It returns nil otherwise.
func (r *Replay) ProbedCode() (code []timeline.Range, symbols []uint64) {
	if r.Report.Probes == nil {
		return nil, nil
	}
	c := &r.scanned().probes.writer
	return timeline.JoinRanges(slices.Clone(c.used)), slices.Clone(c.named)
}

// ProbedChanges yields the changes whose place and bytes probes recorded, in the form of
// TEXT_POKE records, in no order. Their times are those of the samples after the store. A
// change is valid until the next one.
func (r *Replay) ProbedChanges() iter.Seq[*perfdata.TextPoke] {
	return func(yield func(*perfdata.TextPoke) bool) {
		if r.Report.Probes == nil {
			return
		}
		for w := range r.scanned().probedWrites() {
			if p := w.record(); !yield(&p) {
				return
			}
		}
	}
}

// ProbeCounters yields the readings of the probes' hit counters, each with a name for its
// file and its content, in the form that [Options.ProbeCounters] takes.
func (r *Replay) ProbeCounters() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := range r.counters {
			c := &r.counters[i]
			var text []byte
			if c.pid != 0 {
				text = fmt.Appendf(text, "pid %d\n", c.pid)
			} else {
				text = fmt.Appendf(text, "%d\n", c.from)
			}
			for _, name := range sortedKeys(c.hits) {
				text = fmt.Appendf(text, "  %s %d %d\n", name, c.hits[name].hits, c.hits[name].missed)
			}
			if c.pid == 0 {
				text = fmt.Appendf(text, "%d\n", c.to)
			}
			if !yield(fmt.Sprintf("kprobe_profile.%d", i+1), text) {
				return
			}
		}
	}
}
