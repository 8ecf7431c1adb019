// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A Listener is an event that records changes of text into a ring buffer.
type Listener struct {
	SampleID perfdata.SampleID // its event, id and CPU, for a [perfdata.Writer]
	Buffer   int64             // see [Replay.BufferOf]
}

// ListenersAt returns the events of the host that recorded at time t, in nanoseconds of the
// recording's clock: their ring buffer has a record of that time or of a later one, and was not
// losing records then. Listeners whose ring buffer is not known, or overwrites its oldest records,
// are left out.
func (r *Replay) ListenersAt(t uint64) (out []Listener) {
	s := r.scanned()
	pokes := false // without events that take pokes, any that takes other changes counts
	for _, ch := range s.channels.all {
		pokes = pokes || ch.kinds&takesPokes != 0
	}
	losing := make(map[*ringBuffer]bool)
	for _, b := range s.buffers {
		losing[b] = lossTimesOf(b).between(t, timeline.Later(t, 1))
	}
	for id, ch := range s.channels.all {
		b := ch.buffer
		switch {
		case ch.machine != s.listens || ch.event == nil || !hasTimes(ch.event):
		case ch.kinds == 0 || pokes && ch.kinds&takesPokes == 0:
		case b == nil || b.mixed || b.unplaced || b.backward || b.last < t:
		case losing[b]:
		default:
			out = append(out, Listener{perfdata.SampleID{ID: id, StreamID: id, CPU: uint32(max(b.cpu, 0)), Event: ch.event}, b.cpu})
		}
	}
	return out
}

// BufferOf returns the ring buffer that a record of the kernel came through, by the record's
// trailer: the number of the CPU that has it, or one below 0 if it is a thread's. ok is false
// if it is not known.
func (r *Replay) BufferOf(id *perfdata.SampleID) (buffer int64, ok bool) {
	ch := r.scanned().channelOf(id)
	if ch == nil || ch.buffer == nil || ch.buffer.mixed {
		return 0, false
	}
	return ch.buffer.cpu, true
}
