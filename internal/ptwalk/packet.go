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
// 33.4). An error names the offset of the packet that it could not read.
func Events(trace []byte) (events []Event, err error) {
	at := bytes.Index(trace, psb)
	if at < 0 {
		return nil, fmt.Errorf("ptwalk: the trace has no PSB")
	}
	var now, last uint64 // the time, and the last IP
	timed := false       // the time is of the packet that follows it
	open := 0            // events[open:] wait for the next time
	inSync := false      // between PSB and PSBEND
	add := func(e Event) {
		e.First, e.Last, e.Offset = now, now, at
		events = append(events, e)
		if timed {
			open = len(events)
		}
		timed = false
	}
	ip := func(header byte, payload []byte) (uint64, int, bool) {
		n := [8]int{0, 2, 4, 6, 6, 0, 8, 0}[header>>5]
		if n > len(payload) {
			return 0, 0, false
		}
		var word [8]byte
		copy(word[:], payload[:n])
		v := binary.LittleEndian.Uint64(word[:])
		switch header >> 5 {
		case 0:
			return 0, 0, true
		case 1:
			last = last&^0xffff | v
		case 2:
			last = last&^0xffffffff | v
		case 3:
			last = uint64(int64(v<<16) >> 16)
		case 4:
			last = last&^0xffffffffffff | v
		case 6:
			last = v
		default:
			return 0, 0, false
		}
		return last, n, true
	}
	tnt := func(v uint64) { // the highest bit ends the outcomes, the oldest is next to it
		exact, before := timed, now
		if n := len(events); n > 0 {
			before = events[n-1].First
		}
		for i := bits.Len64(v) - 2; i >= 0; i-- {
			timed = exact
			add(Event{Kind: Branch, Taken: v>>i&1 != 0})
			if i > 0 && exact { // the time is that of the newest outcome
				events[len(events)-1].First = before
			}
		}
	}
	for at < len(trace) {
		b, rest := trace[at], trace[at+1:]
		n := 1
		bad := false
		switch {
		case b == 0x00: // PAD
		case b == 0x02:
			if len(rest) == 0 {
				return events, nil // the trace is cut within a packet
			}
			size, ok := extended[rest[0]]
			if n = size; !ok {
				bad = true
				break
			}
			if at+n > len(trace) {
				return events, nil
			}
			switch rest[0] {
			case 0x82:
				if bad = !bytes.Equal(trace[at:at+16], psb); !bad {
					inSync, last = true, 0
				}
			case 0x23:
				inSync = false
			case 0xf3:
				add(Event{Kind: Lost})
			case 0xa3:
				tnt(binary.LittleEndian.Uint64(trace[at:]) >> 16)
			}
		case b == 0x19: // TSC
			if n = 8; at+n > len(trace) {
				return events, nil
			}
			now = binary.LittleEndian.Uint64(trace[at:]) >> 8
			for i := open; i < len(events); i++ {
				events[i].Last = now
			}
			open, timed = len(events), true
		case b == 0x59, b == 0x99: // MTC, MODE
			n = 2
		case b&3 == 3: // CYC
			if b&4 != 0 {
				for n < len(trace)-at && trace[at+n]&1 != 0 {
					n++
				}
				n++
			}
		case b&0x1f == 0x0d, b&0x1f == 0x11, b&0x1f == 0x01, b&0x1f == 0x1d:
			addr, size, ok := ip(b, rest)
			if !ok {
				bad = true
				break
			}
			n += size
			kind := map[byte]EventKind{0x0d: Target, 0x11: Enable, 0x01: Disable, 0x1d: Async}[b&0x1f]
			if kind == Async && inSync {
				kind = Sync
			}
			add(Event{Kind: kind, IP: addr})
		case b&1 == 0: // TNT
			tnt(uint64(b) >> 1)
		default:
			bad = true
		}
		if bad {
			return events, fmt.Errorf("ptwalk: packet %#x at offset %d is not one of those that are known", b, at)
		}
		at += n
	}
	for i := open; i < len(events); i++ {
		events[i].Last = 1<<64 - 1
	}
	return events, nil
}
