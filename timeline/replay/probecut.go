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
// made of, or which text pokes are compared with. e may be nil.
func (r *Replay) IsProbe(e *perfdata.Event) bool {
	if e == nil {
		return false
	}
	p := r.scanned().probeOf(e)
	return p != nil && (p.role == probeWrites) == (r.Report.Probes == nil)
}

// SampledWrite returns the place of a write that a probe recorded in addition to the text
// pokes. ok is false if the record is not a sample of such a probe.
func (r *Replay) SampledWrite(rec *perfdata.Record, id *perfdata.SampleID) (at timeline.Range, ok bool) {
	if id.Event == nil {
		return at, false
	}
	p := r.scanned().probeOf(id.Event)
	if p == nil || p.role != probeWrites {
		return at, false
	}
	var s perfdata.Sample
	if r.Recording.Sample(rec, &s) != nil {
		return at, false
	}
	raw, err := s.Raw()
	if err != nil || len(raw) < p.size {
		return at, false
	}
	order := r.Recording.ByteOrder()
	at.Lo = order.Uint64(raw[p.addr:])
	at.Hi = at.Lo + order.Uint64(raw[p.length:])
	return at, true
}

// SampledWrites returns how many writes a probe on the writer of text recorded, in addition
// to the text pokes of x86-64. [Replay.Findings] compares them.
func (r *Replay) SampledWrites() int {
	if s := r.scanned(); s.probes != nil {
		return len(s.probes.stores)
	}
	return 0
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

// Formats returns the formats of tracepoints that Load took from a file, since the recording
// has none itself, and the name of that file in a recording's directory. text is nil if the
// recording has its own formats, or if there is no such file. The caller must not change text.
func (r *Replay) Formats() (name string, text []byte) { return formatsName, r.formats }

// ProbeCounters yields the readings of the probes' hit counters, each with a name for its
// file and its content, in the form that [Options.ProbeCounters] takes. Those of the journal
// are left out ([Replay.Journal]).
func (r *Replay) ProbeCounters() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for i := range r.counters {
			c := &r.counters[i]
			if c.recorder {
				continue
			}
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
