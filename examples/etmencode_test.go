// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

// An etmForm says how a trace is written.
type etmForm struct {
	atoms     int    // most outcomes of branches in one packet, 1 to 3
	timestamp uint64 // a timestamp after a branch if the last one is that many ticks old
	sync      int    // bytes between points of synchronisation, at least; 0: only one
}

// An etmEncoder writes packets of ETMv4 (Arm IHI 0064, "Trace packet formats"), as a trace unit
// without speculation and return stack does.
type etmEncoder struct {
	etmForm
	out      []byte
	bits     byte
	pending  int
	last     uint64 // the last timestamp
	lastSync int
}

// flush writes the outcomes that wait.
func (e *etmEncoder) flush() {
	if e.pending > 0 {
		e.out = append(e.out, [4]byte{0, 0xf6, 0xd8, 0xf8}[e.pending]|e.bits) // the oldest in bit 0
		e.bits, e.pending = 0, 0
	}
}

// sync writes a point of synchronisation. on reports whether tracing begins there.
func (e *etmEncoder) sync(t, addr uint64, on bool) {
	e.flush()
	e.out = append(e.out, make([]byte, 11)...)
	e.out = append(e.out, 0x80)       // A-Sync
	e.out = append(e.out, 0x01, 1, 0) // Trace Info
	e.timestampPacket(t)
	if on {
		e.out = append(e.out, 0x04) // Trace On
	}
	// Address with context: 64 bits, IS0; context: EL1, AArch64, not secure.
	e.out = append(e.out, 0x85)
	e.addressBytes(addr)
	e.out = append(e.out, 0x31)
	e.lastSync = len(e.out)
}

// resume writes that tracing goes on at an address.
func (e *etmEncoder) resume(t, addr uint64) {
	e.flush()
	e.timestampPacket(t)
	e.out = append(e.out, 0x04)
	e.address(addr)
}

func (e *etmEncoder) addressBytes(addr uint64) {
	e.out = append(e.out, byte(addr>>2)&0x7f, byte(addr>>9)&0x7f)
	for shift := 16; shift < 64; shift += 8 {
		e.out = append(e.out, byte(addr>>shift))
	}
}

func (e *etmEncoder) address(addr uint64) {
	e.flush()
	e.out = append(e.out, 0x9d) // 64 bits, IS0
	e.addressBytes(addr)
}

// exception writes an exception of a type. addr is where it returns to; target reports whether
// that is where the last branch led, so that it had no address of its own.
func (e *etmEncoder) exception(kind byte, addr uint64, target bool) {
	e.flush()
	form := byte(0x01)
	if target {
		form = 0x40
	}
	e.out = append(e.out, 0x06, form|kind<<1)
	e.address(addr)
}

// timestamp writes a timestamp if the last one is old enough.
func (e *etmEncoder) timestamp(t uint64) {
	if t-e.last >= e.etmForm.timestamp {
		e.flush()
		e.timestampPacket(t)
	}
}

func (e *etmEncoder) timestampPacket(t uint64) {
	e.last = t
	e.out = append(e.out, 0x02)
	for range 8 {
		if t < 0x80 {
			e.out = append(e.out, byte(t))
			return
		}
		e.out = append(e.out, byte(t)|0x80)
		t >>= 7
	}
	e.out = append(e.out, byte(t))
}

// atom writes the outcome of a branch.
func (e *etmEncoder) atom(taken bool) {
	if taken {
		e.bits |= 1 << e.pending
	}
	if e.pending++; e.pending >= e.atoms {
		e.flush()
	}
}

// Types of exceptions in a trace.
const (
	etmSystemError = 4
	etmInstDebug   = 6 // BRK
	etmDataFault   = 12
	etmIRQ         = 14
	etmFIQ         = 15
)

// armKind says how an instruction goes on.
func armKind(w uint32) string {
	switch {
	case w&0x7c000000 == 0x14000000:
		return "direct"
	case w&0xff000000 == 0x54000000, w&0x7e000000 == 0x34000000, w&0x7e000000 == 0x36000000:
		return "conditional"
	case w&0xfe000000 == 0xd6000000:
		return "indirect"
	case w&0xfffff0ff == 0xd50330df:
		return "barrier"
	}
	return "plain"
}

// encodeETM writes the trace of what a CPU executed. It returns how many of the instructions the
// trace has: those after the last branch are in no packet.
func encodeETM(insns []instruction, steps []armStep, form etmForm) (trace []byte, covered int) {
	e := &etmEncoder{etmForm: form}
	e.sync(steps[0].time, insns[steps[0].id].ip, true)
	for k := 0; k+1 < len(steps); k++ {
		st, to := &steps[k], &steps[k+1]
		x := &insns[st.id]
		next := insns[to.id].ip
		if st.event == interrupt {
			next = st.from
		}
		target := false
		kind := armKind(word(x.bytes))
		switch kind {
		case "conditional":
			e.atom(next != x.ip+4)
		case "direct", "barrier":
			e.atom(true)
		case "indirect":
			e.atom(true)
			switch st.event {
			case none:
				e.address(next)
			case interrupt:
				target = true
			}
		}
		switch st.event {
		case userMode:
			e.resume(to.time, insns[to.id].ip)
		case interrupt:
			e.exception(st.kind, st.from, target)
			e.timestamp(to.time)
			e.address(insns[to.id].ip)
		case none:
			if kind == "plain" {
				continue
			}
			e.timestamp(st.time)
			if form.sync > 0 && len(e.out)-e.lastSync > form.sync {
				e.sync(st.time, next, false)
			}
		}
		covered = k + 1
	}
	e.flush()
	e.timestampPacket(steps[len(steps)-1].time)
	return e.out, covered
}
