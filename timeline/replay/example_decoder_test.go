// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"fmt"
	"log"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A decode loop keeps each instruction that it decoded for as long as a CPU can execute
// nothing else there. Where code is being changed it asks for the alternatives, and takes
// the one that agrees with the trace.
func ExampleCursor() {
	r, err := replay.Load("../../testdata/small/rec.data", replay.Options{Windows: true})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	d, err := disasm.New(r.Machine(), r.Recording.ByteOrder())
	if err != nil {
		log.Fatal(err)
	}
	c := r.Cursor() // one for each goroutine

	type cached struct {
		inst  disasm.Inst
		valid timeline.Validity
	}
	blocks := make(map[uint64]cached)

	// decode returns what the CPU executed at ip between two packets of the trace, which
	// have the times first and last.
	decode := func(ip, first, last uint64, seen replay.Observation) (disasm.Inst, string) {
		if b, ok := blocks[ip]; ok && b.valid.At(first) && b.valid.At(last) {
			return b.inst, "from the cache"
		}
		var code [15]byte
		b := c.Read(ip, first, code[:])
		inst := d.Decode(code[:b.Given], ip)
		b = c.Read(ip, first, code[:len(inst.Bytes)]) // what follows does not matter
		if v := b.Settled(); b.Standing == timeline.Known && v.At(first) && v.At(last) {
			inst.Bytes = append([]byte(nil), inst.Bytes...)
			blocks[ip] = cached{inst, v}
			return inst, "the only one, until " + replay.Seconds(v.Until)
		}
		for _, a := range c.Alternatives(ip, first, last) {
			if !a.Possible || !a.Agrees(seen) {
				continue
			}
			if a.Trap {
				return a.Inst, fmt.Sprintf("a trap, which acts as %v", a.Effect.Kind)
			}
			return a.Inst, fmt.Sprintf("%v, the trace agrees", a.Standing)
		}
		return disasm.Inst{}, fmt.Sprintf("%v: a gap in the decoded path", b.Standing)
	}

	const site, jump = 0xffffffffaecdbcb1, 0xffffffffaecdbd5e // a static key in sysctl_schedstats
	for _, q := range []struct {
		first, last uint64
		seen        replay.Observation
	}{
		{20_000_000_000, 20_000_001_000, replay.Observation{}},
		{20_100_000_000, 20_100_001_000, replay.Observation{}},
		{9_000_000_000, 9_000_001_000, replay.Observation{Next: site + 5}},
		{9_000_000_000, 9_000_001_000, replay.Observation{Trapped: true, Resumed: site + 5}},
		{9_137_000_000, 9_138_000_000, replay.Observation{Next: jump}}, // the poke is at 9.137028325
		{26_000_000_000, 26_000_001_000, replay.Observation{}},         // after the recording
	} {
		inst, how := decode(site, q.first, q.last, q.seen)
		fmt.Printf("% x  %v: %s\n", inst.Bytes, inst.Class, how)
	}
	// Output:
	// e9 a8 00 00 00  jump: the only one, until 25.299470956
	// e9 a8 00 00 00  jump: from the cache
	// 0f 1f 44 00 00  other: known, the trace agrees
	// cc  trap: a trap, which acts as nop
	// e9 a8 00 00 00  jump: known, the trace agrees
	// e9 a8 00 00 00  jump: unconfirmed, the trace agrees
}

// A decoder that does not look at the time of each cached block drops what changed
// since it looked last.
func ExampleImage_Invalidations() {
	r, err := replay.Load("../../testdata/small/rec.data", replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	const function, end = 0xffffffffaecdbc70, 0xffffffffaecdbd80 // sysctl_schedstats
	for v := range r.Image.Invalidations(function, end, 8_000_000_000, 9_000_000_000) {
		fmt.Printf("[%#x, %#x) changes at %s: %v until %s\n", v.Lo, v.Hi, replay.Seconds(v.Since), v.Standing, replay.Seconds(v.Until))
	}
	fmt.Println("nothing changes after", replay.Seconds(r.Image.LastChange(function, end-function)))
	// Output:
	// [0xffffffffaecdbcb1, 0xffffffffaecdbcb6) changes at 8.450516155: known until 8.690949435
	// [0xffffffffaecdbcb1, 0xffffffffaecdbcb6) changes at 8.690949435: known until 8.913926695
	// [0xffffffffaecdbcb1, 0xffffffffaecdbcb6) changes at 8.913926695: known until 9.137028325
	// nothing changes after 12.798417205
}
