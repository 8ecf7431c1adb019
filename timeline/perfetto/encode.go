// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfetto

import (
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of Perfetto's messages (protos/perfetto/trace).
const (
	tracePacket = 1 // Trace

	packetTimestamp  = 8 // TracePacket
	packetSequence   = 10
	packetTrackEvent = 11
	packetClocks     = 6
	packetFlags      = 13
	packetTrack      = 60

	clocksClock = 1 // ClockSnapshot
	clockID     = 1 // ClockSnapshot.Clock
	clockTime   = 2

	trackUUID    = 1 // TrackDescriptor
	trackName    = 2
	trackParent  = 5
	trackCounter = 8
	trackOrder   = 11
	trackRank    = 12

	counterUnit = 3 // CounterDescriptor

	eventNote    = 4 // TrackEvent
	eventType    = 9
	eventTrack   = 11
	eventName    = 23
	eventCounter = 30

	noteUint   = 3 // DebugAnnotation
	noteString = 6
	noteName   = 10
)

// Values of enums.
const (
	sliceBegin = 1 // TrackEvent.Type
	sliceEnd   = 2
	counter    = 4

	clockRealtime = 1 // BuiltinClock
	clockBoottime = 6 // the clock of packets that name none

	unitCount     = 2 // CounterDescriptor.Unit
	orderExplicit = 3 // TrackDescriptor.ChildTracksOrdering
	stateCleared  = 1 // TracePacket.SequenceFlags
)

// sequence is the id of the only sequence of packets. Any number but 0 will do.
const sequence = 1

// A writer writes packets. The first error is kept.
type writer struct {
	out   io.Writer
	err   error
	buf   []byte // of a packet
	msg   []byte // of a message in it
	bytes int64
	first bool // the first packet of the sequence has been written
}

// packet writes a TracePacket with this body, to which it adds the sequence.
func (w *writer) packet(body []byte) {
	body = appendUint(body, packetSequence, sequence)
	if !w.first {
		w.first = true
		body = appendUint(body, packetFlags, stateCleared)
	}
	if w.err != nil {
		return
	}
	w.buf = protowire.AppendTag(w.buf[:0], tracePacket, protowire.BytesType)
	w.buf = protowire.AppendBytes(w.buf, body)
	var n int
	n, w.err = w.out.Write(w.buf)
	w.bytes += int64(n)
}

func appendUint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), valid(s))
}

func appendMessage(b []byte, field protowire.Number, msg []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), msg)
}

// clocks writes a ClockSnapshot: the recording's time t is this wall-clock time.
func (w *writer) clocks(t, wall uint64) {
	one := func(id, at uint64) []byte { return appendUint(appendUint(nil, clockID, id), clockTime, at) }
	msg := appendMessage(nil, clocksClock, one(clockBoottime, t))
	msg = appendMessage(msg, clocksClock, one(clockRealtime, wall))
	w.packet(appendMessage(appendUint(nil, packetTimestamp, t), packetClocks, msg))
}

// track writes a TrackDescriptor. parent is 0 for none.
func (w *writer) track(uuid, parent uint64, name string, rank int, isCounter bool) {
	msg := appendUint(nil, trackUUID, uuid)
	msg = appendString(msg, trackName, name)
	if parent != 0 {
		msg = appendUint(msg, trackParent, parent)
	}
	if isCounter {
		msg = appendMessage(msg, trackCounter, appendUint(nil, counterUnit, unitCount))
	}
	msg = appendUint(msg, trackOrder, orderExplicit)
	msg = appendUint(msg, trackRank, uint64(rank))
	w.packet(appendMessage(nil, packetTrack, msg))
}

// A note is an argument that Perfetto shows with a slice: text, or a number if text is
// "".
type note struct {
	name, text string
	number     uint64
}

// begin writes the start of a slice.
func (w *writer) begin(t, track uint64, name string, notes []note) {
	msg := appendUint(w.msg[:0], eventType, sliceBegin)
	msg = appendUint(msg, eventTrack, track)
	msg = appendString(msg, eventName, name)
	for _, n := range notes {
		m := appendString(nil, noteName, n.name)
		if n.text != "" {
			m = appendString(m, noteString, n.text)
		} else {
			m = appendUint(m, noteUint, n.number)
		}
		msg = appendMessage(msg, eventNote, m)
	}
	w.event(t, msg)
}

// end writes the end of the newest slice of a track that has not ended.
func (w *writer) end(t, track uint64) {
	w.event(t, appendUint(appendUint(w.msg[:0], eventType, sliceEnd), eventTrack, track))
}

// count writes the value of a counter from time t on.
func (w *writer) count(t, track, value uint64) {
	msg := appendUint(w.msg[:0], eventType, counter)
	msg = appendUint(msg, eventTrack, track)
	w.event(t, appendUint(msg, eventCounter, value))
}

func (w *writer) event(t uint64, msg []byte) {
	w.msg = msg
	w.packet(appendMessage(appendUint(nil, packetTimestamp, t), packetTrackEvent, msg))
}
