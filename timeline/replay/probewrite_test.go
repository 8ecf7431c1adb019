// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
)

// writeFormat is the format of the probe on __text_poke in TRACING_DATA.
const writeFormat = "name: poke\nID: 1300\nformat:\n" +
	"\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n" +
	"\tfield:u64 addr;\toffset:16;\tsize:8;\tsigned:0;\n" +
	"\tfield:u64 len;\toffset:24;\tsize:8;\tsigned:0;\n" +
	"\tfield:u8 b[];\toffset:32;\tsize:16;\tsigned:0;\n" +
	"\tfield:u8 now[];\toffset:48;\tsize:16;\tsigned:0;\n\nprint fmt: \"%lx\"\n"

// wrote writes the sample of a write.
func (t *tape) wrote(time, addr uint64, now, stored string) {
	raw := make([]byte, 64)
	le := binary.LittleEndian
	le.PutUint64(raw[8:], 0x1800)
	le.PutUint64(raw[16:], addr)
	le.PutUint64(raw[24:], uint64(len(stored)/2))
	copy(raw[32:], fromHex(stored))
	copy(raw[48:], fromHex(now))
	t.sample(21, time, raw)
}

// TestSampledWrites: text pokes of x86-64 are compared with what a probe on the writer saw.
func TestSampledWrites(t *testing.T) {
	const nop, jmp = "0f1f440000", "e901020304"
	first := func(w *tape) {
		w.wrote(300, 0x1100, nop, "cc")
		w.wrote(301, 0x1101, nop[2:], jmp[2:])
		w.poke(11, 302, 0x1100, nop, jmp)
	}
	whole := func(w *tape) {
		first(w)
		w.wrote(303, 0x1100, "cc01020304", "e9")
	}
	probe := func(w *tape) { // armed before its record, disarmed after it
		w.wrote(400, 0x1200, "55", "cc")
		w.poke(11, 401, 0x1200, "55", "cc")
		w.poke(11, 500, 0x1200, "cc", "55")
		w.wrote(501, 0x1200, "cc", "55")
	}
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		want string
	}{
		{"each poke has its writes", func(w *tape) { whole(w); probe(w) }, ""},
		{"writes of other memory are others' affair", func(w *tape) { whole(w); w.wrote(320, 0x9000, "", "9090"); probe(w) }, ""},
		{"a write without a poke", func(w *tape) { whole(w); w.wrote(320, 0x1300, "90", "c3"); probe(w) }, "320 write-not-recorded\n"},
		{"a write of other bytes than the poke's", func(w *tape) { first(w); w.wrote(303, 0x1100, "cc", "eb"); probe(w) },
			"302 poke-not-written\n303 write-not-recorded\n"},
		{"a poke without a write", func(w *tape) { whole(w); w.poke(11, 350, 0x1180, nop, jmp); probe(w) }, "350 poke-not-written\n"},
		{"bytes that stay need no write", func(w *tape) {
			whole(w)
			w.wrote(350, 0x1100, jmp, "cc")
			w.wrote(351, 0x1101, jmp[2:], "ffffffff")
			w.poke(11, 352, 0x1100, jmp, "e9ffffffff")
			w.wrote(353, 0x1100, "cc", "e9")
			probe(w)
		}, ""},
		{"a write finds what another one left", func(w *tape) { first(w); w.wrote(303, 0x1100, "90", "e9"); probe(w) }, "303 write-misfit\n"},
		{"what was lost explains it", func(w *tape) {
			whole(w)
			w.lost(11, 310, 1)
			w.wrote(320, 0x1300, "90", "c3")
			probe(w)
			w.lostSamples(11, 1)
		}, "320 write-not-recorded excused\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.copied, w.tracing, w.text = true, writeFormat, bytes.Repeat([]byte{0x90}, tapeTextHi-tapeTextLo)
			copy(w.text[0x100:], fromHex(nop))
			copy(w.text[0x180:], fromHex(nop))
			w.text[0x200] = 0x55
			e := onBoth(0)
			e.name = "tp:poke"
			e.attr.Type, e.attr.Config, e.attr.SamplePeriod, e.attr.SampleType = 2, 1300, 1, perfdata.SampleRaw
			w.events = append(w.events, e)
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 200)
			tt.tape(w)
			w.ticks(600, 700)
			r := w.replay()
			got := ""
			for f := range r.Findings() {
				if f.Kind != PokeOfNothing {
					got += fmt.Sprintf("%d %v%s\n", f.Time, f.Kind, map[bool]string{true: " excused"}[f.Excused])
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Coverage.Pokes)
			}
		})
	}
}
