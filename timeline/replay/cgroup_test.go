// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
)

// TestCgroup: with perf record -G, the events of the command line record in a cgroup only. A page
// of code goes, which a task outside of it frees.
func TestCgroup(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cmdline string
		flags   perfdata.AttrFlags // of the second event, which is perf's own
		want    string
	}{
		{"perf's own event records it", "perf record -a --kcore -e cycles -G a -- true", perfdata.FlagTextPoke | perfdata.FlagKSymbol, textLines(
			"0..300 unmapped",
			"300..310 unknown out-of-line-gap",
			"310..500 known cccc",
			"500.. retired unregistered cccc")},
		{"no event of all tasks records it", "perf record -a --kcore -e cycles -G a -- true", perfdata.FlagTextPoke, textLines(
			"0..300 unmapped",
			"300..310 unknown out-of-line-gap",
			"310..1001 unconfirmed partial-coverage cccc",
			"1001.. unconfirmed beyond-horizon cccc")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.cmdline = tt.cmdline
			w.events = []tapeEvent{onBoth(perfdata.FlagKSymbol), onBoth(tt.flags)}
			w.events[1].attr.Type, w.events[1].attr.Config = 1, 9 // a dummy
			page := func(id, time uint64, flags uint16, addr uint64) {
				if w.events[id/10-1].attr.Flags&perfdata.FlagKSymbol != 0 {
					w.ksymbol(id, time, addr, 0x1000, perfdata.KSymbolOOL, flags, "page")
				}
			}
			w.tick(20, 100, 200)
			w.tick(21, 100, 200)
			page(20, 300, 0, 0x9000)
			page(10, 300, 0, 0x9000)
			w.poke(20, 310, 0x9000, "", "cccc")
			w.tick(10, 320)
			w.tick(11, 320)
			page(20, 500, perfdata.KSymbolUnregister, 0x9000)
			page(20, 600, 0, 0xa000)
			page(10, 600, 0, 0xa000)
			w.tick(20, 700, 1000)
			w.tick(21, 700, 1000)
			r := w.replay()
			if d := cmp.Diff(tt.want, r.Image.Dump(0x9000, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Warnings)
			}
		})
	}
}
