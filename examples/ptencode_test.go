// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"encoding/binary"
	"slices"
)

// A traceForm says how a trace is written.
type traceForm struct {
	tnt int    // most outcomes of conditional branches in one packet, 1 to 6
	tsc uint64 // a TSC packet only if the last one is that many ticks old; 0: before each packet
	psb int    // bytes between PSBs, at least
}

// A traceEncoder writes Intel PT packets (SDM volume 3, "Trace Packets").
type traceEncoder struct {
	traceForm
	out      []byte
	bits     byte
	pending  int
	last     uint64 // the last TSC packet
	lastSync int
}

func (e *traceEncoder) writeTSC(t uint64) {
	if e.last == 0 || t-e.last >= e.tsc {
		e.out = append(e.out, 0x19)
		for i := range 7 {
			e.out = append(e.out, byte(t>>(8*i)))
		}
		e.last = t
	}
}

func (e *traceEncoder) flush(t uint64) {
	if e.pending > 0 {
		e.writeTSC(t)
		// A stop bit, then the outcomes from the oldest on; bit 0 is 0.
		e.out = append(e.out, (1<<e.pending|e.bits)<<1)
		e.bits, e.pending = 0, 0
	}
}

func (e *traceEncoder) branch(t uint64, taken bool) {
	e.bits <<= 1
	if taken {
		e.bits |= 1
	}
	if e.pending++; e.pending >= e.tnt {
		e.flush(t)
	}
}

// The low five bits of packets with an address.
const (
	packetTIP = 0x0d
	packetPGE = 0x11
	packetPGD = 0x01
	packetFUP = 0x1d
)

func (e *traceEncoder) address(t uint64, packet byte, ip uint64) {
	e.flush(t)
	e.writeTSC(t)
	e.addressOnly(packet, ip)
}

func (e *traceEncoder) addressOnly(packet byte, ip uint64) {
	if ip == 0 {
		e.out = append(e.out, packet)
		return
	}
	e.out = append(e.out, packet|3<<5) // 48 bits, sign-extended
	e.out = append(e.out, binary.LittleEndian.AppendUint64(nil, ip)[:6]...)
}

func (e *traceEncoder) sync(t, ip uint64) {
	for range 8 {
		e.out = append(e.out, 0x02, 0x82)
	}
	e.last = 0
	e.writeTSC(t)
	e.out = append(e.out, 0x99, 0x01) // MODE.Exec: 64-bit code
	e.addressOnly(packetFUP, ip)
	e.out = append(e.out, 0x02, 0x23) // PSBEND
	e.lastSync = len(e.out)
}

// kind says how an instruction goes on.
func kind(b []byte) string {
	i := 0
	for i < len(b)-1 && (slices.Contains([]byte{0x66, 0xf2, 0xf3, 0x2e, 0x3e, 0x65, 0x64, 0xf0, 0x36, 0x26}, b[i])) {
		i++
	}
	if b[i]&0xf0 == 0x40 && i < len(b)-1 {
		i++
	}
	second := byte(0)
	if i+1 < len(b) {
		second = b[i+1]
	}
	switch o := b[i]; {
	case o&0xf0 == 0x70, o >= 0xe0 && o <= 0xe3, o == 0x0f && second&0xf0 == 0x80:
		return "conditional"
	case o == 0xeb, o == 0xe9, o == 0xe8:
		return "direct"
	case o == 0xc3, o == 0xc2, o == 0xff && (second>>3&7 == 2 || second>>3&7 == 4),
		o == 0xcf, o == 0x0f && (second == 0x07 || second == 0x35), o == 0xcc:
		return "indirect"
	}
	return "plain"
}

// encodeTrace writes the trace of what a CPU executed.
func encodeTrace(insns []instruction, steps []step, form traceForm) []byte {
	e := &traceEncoder{traceForm: form}
	e.sync(steps[0].tsc, insns[steps[0].id].ip)
	for k := 0; k+1 < len(steps); k++ {
		st, to := &steps[k], &steps[k+1]
		a := &insns[st.id]
		t, next := st.tsc, insns[to.id].ip
		if st.event == userMode {
			e.address(t, packetPGD, 0)
			e.address(to.tsc, packetPGE, next)
			continue
		}
		if st.event == interrupt {
			next = st.from
		}
		tip := false
		switch kind(a.bytes) {
		case "conditional":
			e.branch(t, next != a.ip+uint64(len(a.bytes)))
		case "indirect":
			e.address(t, packetTIP, next)
			tip = true
		case "plain":
			if end := a.ip + uint64(len(a.bytes)); next != end {
				e.address(t, packetFUP, end)
				e.address(t, packetTIP, next)
			}
		}
		if st.event == interrupt {
			e.address(to.tsc, packetFUP, st.from)
			e.address(to.tsc, packetTIP, insns[to.id].ip)
			tip = true
		}
		if tip && len(e.out)-e.lastSync > e.psb {
			e.sync(to.tsc, insns[to.id].ip)
		}
	}
	e.flush(steps[len(steps)-1].tsc)
	return e.out
}
