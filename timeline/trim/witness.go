// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"maps"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A recording is known up to the newest records of its CPUs (rule horizon of docs/truth.md). In a
// quiet time these are samples, or records from [Options.To] on, and neither are kept. So what is
// kept would end long before the time that was asked for. A witness stands in for them: it shows
// that an event still recorded on a CPU.
//
//	CPU 0   P . . P . . . . . . . | . P      P: a poke, .: a sample, |: Options.To
//	CPU 1   . P . . . . . . . . . | . .
//	kept    P P   P             W |          W: the witnesses of both CPUs
//
// It is a COMM record that gives the idle task the name that it always has, so it tells a reader
// nothing else.

// A witness is an event of one ring buffer.
type witness struct {
	perfdata.SampleID
	side uint64 // time of its newest record that is kept so far, not counting samples
}

// witnesses are those of a recording.
type witnesses struct {
	r *replay.Replay
	// time is what they are for: when both the whole recording and what is kept of it end.
	time uint64
	of   map[int64][]*witness // by ring buffer
	byID map[uint64]*witness
}

// findWitnesses finds the events that recorded until the end of what is kept.
func (c *cut) findWitnesses() *witnesses {
	w := &witnesses{r: c.r, time: c.witnessed(), of: make(map[int64][]*witness), byID: make(map[uint64]*witness)}
	if c.r.Report.Damaged {
		return w // nothing is known anyway
	}
	for _, l := range c.r.ListenersAt(w.time) {
		x := &witness{SampleID: l.SampleID}
		w.of[l.Buffer], w.byID[x.ID] = append(w.of[l.Buffer], x), x
	}
	return w
}

// witnessed returns the time of the witnesses. Where the clock counts ticks, or no clean end follows, a recording is
// complete only up to the time before its newest records.
func (c *cut) witnessed() uint64 {
	horizon := c.r.Report.Horizon
	end := c.r.NextTick(timeline.Later(horizon, 1))
	if !c.open && !c.r.CountsTicks() || end > horizon+1 {
		return min(c.opts.To-min(c.opts.To, 1), horizon)
	}
	return min(c.r.NextTick(c.opts.To), end)
}

// before writes the witnesses of a ring buffer before its first later record, so that the times do
// not go back. Samples do not count: a record that is older than a sample may come after it.
func (w *witnesses) before(id *perfdata.SampleID, out *perfdata.Writer) error {
	if id.Time <= w.time || len(w.of) == 0 {
		return nil
	}
	buffer, ok := w.r.BufferOf(id)
	if !ok {
		return nil
	}
	return w.write(buffer, out)
}

// keep notes that a record is kept, which is no sample.
func (w *witnesses) keep(id *perfdata.SampleID) {
	if x := w.byID[id.ID]; x != nil {
		x.side = max(x.side, id.Time)
	}
}

// rest writes the witnesses of the ring buffers of which nothing later came.
func (w *witnesses) rest(out *perfdata.Writer) error {
	for _, buffer := range slices.Sorted(maps.Keys(w.of)) {
		if err := w.write(buffer, out); err != nil {
			return err
		}
	}
	return nil
}

// write writes the witnesses of a ring buffer that are needed.
func (w *witnesses) write(buffer int64, out *perfdata.Writer) error {
	of := w.of[buffer]
	delete(w.of, buffer)
	for _, x := range of {
		if x.side >= w.time {
			continue // a record shows as much
		}
		id := x.SampleID
		id.Time = w.time
		if err := writeWitness(out, &id); err != nil {
			return err
		}
	}
	return nil
}

// writeWitness writes a witness with the time, the CPU and the event of a trailer.
func writeWitness(out *perfdata.Writer, id *perfdata.SampleID) error {
	of := perfdata.SampleID{Time: id.Time, ID: id.ID, StreamID: id.StreamID, CPU: id.CPU, Event: id.Event}
	return out.Comm(0, &perfdata.Comm{Comm: []byte("swapper"), SampleID: of})
}

// A lossStart is the last record before a loss in a ring buffer.
type lossStart struct {
	buffer int64
	time   uint64
}

// findLosses finds the records after which records were lost. If such a record is dropped, a witness stands for it:
// otherwise the loss would seem to have begun earlier.
func (c *cut) findLosses() {
	c.losses = make(map[lossStart]bool)
	for _, l := range c.r.Report.Losses {
		c.losses[lossStart{l.CPU, l.From}] = true
	}
}

// beginsLoss reports whether records were lost after the one with this trailer, which is no sample.
func (c *cut) beginsLoss(id *perfdata.SampleID) bool {
	if len(c.losses) == 0 || id.Time == 0 || id.Time >= c.opts.To || len(c.r.Report.Guests) > 0 {
		return false
	}
	buffer, ok := c.r.BufferOf(id)
	return ok && c.losses[lossStart{buffer, id.Time}]
}
