// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package ptwalk decodes Intel PT traces of a kernel over the text that was there when the
// code ran. It shows how a decode loop uses package timeline/replay, and it tests the
// answers: docs/decoders.md explains it step by step. It knows what such a test needs of
// Intel PT, and is no replacement for libipt: it takes no compressed returns, no
// PEBS records and no event tracing.
package ptwalk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
)

// An EventKind is the kind of an [Event].
type EventKind uint8

const (
	Sync    EventKind = iota // the IP at a PSB
	Branch                   // one bit of a TNT packet: the outcome of a conditional branch
	Target                   // TIP: where an indirect or far branch, or an event, led to
	Async                    // FUP: where an interrupt or exception came
	Enable                   // TIP.PGE: tracing begins
	Disable                  // TIP.PGD: tracing ends
	Lost                     // OVF: packets were lost
)

// An Event is something in a trace that decides where execution went.
type Event struct {
	Kind  EventKind
	Taken bool   // of a Branch
	IP    uint64 // 0 if it is suppressed
	// First and Last are the earliest and the latest time of the event, in the unit of the
	// TSC. Both are the same if the packet has a time of its own.
	First, Last uint64
	Offset      int // of the packet, in bytes
}

var psb = bytes.Repeat([]byte{0x02, 0x82}, 8)

// Sizes of packets of a fixed size, by their second byte; the first is 0x02.
var extended = map[byte]int{
	0x82: 16, // PSB
	0x23: 2,  // PSBEND
	0xf3: 2,  // OVF
	0x03: 4,  // CBR
	0xa3: 8,  // long TNT
	0x43: 8,  // PIP
	0x83: 2,  // TraceStop
	0x73: 7,  // TMA
	0xc8: 7,  // VMCS
	0xc3: 11, // MNT
	0x62: 2,  // EXSTOP
	0xe2: 2,
	0xc2: 10, // MWAIT
	0x22: 4,  // PWRE
	0xa2: 7,  // PWRX
	0x12: 6,  // PTW
	0x32: 10,
	0x92: 6,
	0xb2: 10,
}

// Events returns the events of a trace, from its first PSB on (Intel SDM, volume 3, chapter
// 33.4). An error names the offset of the packet that it could not read. A packet that the
// end of the trace cuts is left out.
func Events(trace []byte) (events []Event, err error) {
	d := decoder{trace: trace, at: bytes.Index(trace, psb)}
	if d.at < 0 {
		return nil, fmt.Errorf("ptwalk: the trace has no PSB")
	}
	for d.at < len(trace) {
		n, err := d.packet()
		if err != nil {
			return d.events, err
		}
		if n == 0 {
			return d.events, nil
		}
		d.at += n
	}
	d.timeOpen(1<<64 - 1)
	return d.events, nil
}

// A decoder reads the packets of a trace one after the other.
type decoder struct {
	trace  []byte
	at     int // offset of the packet
	events []Event
	now    uint64 // the time of the last TSC packet
	timed  bool   // now is the time of the next event
	open   int    // events[open:] wait for the next time
	last   uint64 // the last IP; a packet may have only its lower bytes
	inSync bool   // between PSB and PSBEND
}

// packet reads a packet and returns its size, or 0 if the end of the trace cuts it.
func (d *decoder) packet() (n int, err error) {
	b := d.trace[d.at]
	switch {
	case b == 0x00: // PAD
		return 1, nil
	case b == 0x02:
		return d.extended()
	case b == 0x19: // TSC
		return d.tsc(), nil
	case b == 0x59, b == 0x99: // MTC, MODE
		return 2, nil
	case b&3 == 3:
		return d.cycles(), nil
	case b&0x1f == 0x0d:
		return d.ip(Target)
	case b&0x1f == 0x11:
		return d.ip(Enable)
	case b&0x1f == 0x01:
		return d.ip(Disable)
	case b&0x1f == 0x1d && d.inSync:
		return d.ip(Sync)
	case b&0x1f == 0x1d:
		return d.ip(Async)
	case b&1 == 0: // TNT
		d.outcomes(uint64(b) >> 1)
		return 1, nil
	}
	return 0, d.unknown()
}

func (d *decoder) unknown() error {
	return fmt.Errorf("ptwalk: packet %#x at offset %d is not one of those that are known", d.trace[d.at], d.at)
}

// extended reads a packet of two bytes or more. The first is 0x02.
func (d *decoder) extended() (n int, err error) {
	rest := d.trace[d.at:]
	if len(rest) == 1 {
		return 0, nil
	}
	n, ok := extended[rest[1]]
	switch {
	case !ok:
		return 0, d.unknown()
	case n > len(rest):
		return 0, nil
	}
	switch rest[1] {
	case 0x82:
		if !bytes.Equal(rest[:n], psb) {
			return 0, d.unknown()
		}
		d.inSync, d.last = true, 0
	case 0x23:
		d.inSync = false
	case 0xf3:
		d.add(Event{Kind: Lost})
	case 0xa3:
		d.outcomes(binary.LittleEndian.Uint64(rest) >> 16)
	}
	return n, nil
}

// tsc reads a TSC packet: the time of the events since the last one, at most, and of the
// next one.
func (d *decoder) tsc() (n int) {
	const size = 8
	if d.at+size > len(d.trace) {
		return 0
	}
	d.now = binary.LittleEndian.Uint64(d.trace[d.at:]) >> 8
	d.timeOpen(d.now)
	d.open, d.timed = len(d.events), true
	return size
}

// timeOpen sets the latest time of the events that have none yet.
func (d *decoder) timeOpen(t uint64) {
	for i := d.open; i < len(d.events); i++ {
		d.events[i].Last = t
	}
}

// cycles returns the size of a CYC packet. Each byte says whether another one follows.
func (d *decoder) cycles() int {
	n := 1
	if d.trace[d.at]&4 != 0 {
		for n < len(d.trace)-d.at && d.trace[d.at+n]&1 != 0 {
			n++
		}
		n++
	}
	return n
}

// ip reads a packet with an IP. Its first three bits say which bytes of it are there.
func (d *decoder) ip(kind EventKind) (n int, err error) {
	form, payload := d.trace[d.at]>>5, d.trace[d.at+1:]
	n = [8]int{0, 2, 4, 6, 6, 0, 8, 0}[form]
	switch {
	case form == 5 || form == 7:
		return 0, d.unknown()
	case n > len(payload):
		return 0, nil
	}
	var word [8]byte
	copy(word[:], payload[:n])
	v := binary.LittleEndian.Uint64(word[:])
	switch form {
	case 0: // suppressed
		d.add(Event{Kind: kind})
		return 1, nil
	case 1:
		d.last = d.last&^0xffff | v
	case 2:
		d.last = d.last&^0xffffffff | v
	case 3:
		d.last = uint64(int64(v<<16) >> 16)
	case 4:
		d.last = d.last&^0xffffffffffff | v
	case 6:
		d.last = v
	}
	d.add(Event{Kind: kind, IP: d.last})
	return 1 + n, nil
}

// outcomes adds the outcomes of a TNT packet. The highest bit of v ends them; the oldest is
// next to it. The time of the packet is that of the newest.
func (d *decoder) outcomes(v uint64) {
	exact, before := d.timed, d.now
	if n := len(d.events); n > 0 {
		before = d.events[n-1].First
	}
	for i := bits.Len64(v) - 2; i >= 0; i-- {
		d.timed = exact
		d.add(Event{Kind: Branch, Taken: v>>i&1 != 0})
		if i > 0 && exact {
			d.events[len(d.events)-1].First = before
		}
	}
}

// add appends an event of the packet.
func (d *decoder) add(e Event) {
	e.First, e.Last, e.Offset = d.now, d.now, d.at
	d.events = append(d.events, e)
	if d.timed {
		d.open = len(d.events)
	}
	d.timed = false
}
