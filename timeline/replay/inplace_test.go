// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// TestWindowRows: each shape of record, made by another task than the batches around it.
// The table has what bounds its window and which windows it bounds.
func TestWindowRows(t *testing.T) {
	for _, tt := range []struct {
		name     string
		old, new string
		own      *timeline.Interval // the proven window of the poke at 500; nil if it has none
		before   uint64             // the last time at which the site poked at 400 may have a trap
	}{
		{"batch", "9090909090", "e911223344", &timeline.Interval{From: 400, To: 600}, 500},
		{"kprobe armed: the trap was there already", "90", "cc", &timeline.Interval{From: 400, To: 500}, 500},
		{"kprobe disarmed: the trap is still there", "cc", "90", &timeline.Interval{From: 500, To: 600}, 500},
		{"kprobe unoptimised: both stores are done", "e911223344", "cc90909090", &timeline.Interval{From: 400, To: 500}, 500},
		{"created: outside of text_mutex, so it bounds no window", "", "9090909090", nil, 600},
		{"removed: bounds no window", "9090909090", "", nil, 600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.ticks(100, 300)
			w.poke(10, 400, 0x1100, "0f1f440000", "e811223344")
			w.poke(10, 500, 0x1080, tt.old, tt.new) // a lower address: in no batch with the others
			w.poke(10, 600, 0x1000, "0f1f440000", "e811223344")
			w.ticks(700, 1000)
			windows := w.replay().Windows()
			for _, at := range []uint64{399, 400, 499, 500, 599, 600} {
				got := windows.At(0x1080, 1, at)
				if open := tt.own != nil && tt.own.From <= at && at < tt.own.To; open != (len(got) == 1) {
					t.Errorf("at %d: %+v, want a window that is open in %v", at, got, tt.own)
				} else if open && got[0].Proven != *tt.own {
					t.Errorf("proven %v, want %v", got[0].Proven, *tt.own)
				}
			}
			if got := windows.At(0x1100, 1, 400); len(got) != 1 || got[0].Proven.To != tt.before {
				t.Errorf("the site poked before: %+v, want it open until %d", got, tt.before)
			}
		})
	}
}

// TestIdleWriter: other records of the writing task bound its windows: the last one before
// the poke, and the first one after it.
func TestIdleWriter(t *testing.T) {
	for _, tt := range []struct {
		name string
		more func(w *tape)
		want timeline.Interval
	}{
		{"nothing", func(w *tape) { w.poke(10, 500, 0x1080, "0f1f440000", "e811223344") }, timeline.Interval{From: 300, To: 700}},
		{"it forks", func(w *tape) {
			w.fork(10, 410, 71, 70)
			w.fork(10, 420, 72, 70)
			w.poke(10, 500, 0x1080, "0f1f440000", "e811223344")
			w.fork(10, 580, 73, 70)
			w.fork(10, 590, 74, 70)
		}, timeline.Interval{From: 420, To: 580}},
		{"it gets a name", func(w *tape) {
			w.comm(10, 430, 0, 70, "one")
			w.poke(10, 500, 0x1080, "0f1f440000", "e811223344")
			w.comm(10, 570, 0, 70, "two")
		}, timeline.Interval{From: 430, To: 570}},
		{"it maps a file", func(w *tape) {
			mmap := append(make([]byte, 32), "/bin/true\x00\x00\x00\x00\x00\x00\x00"...)
			w.other(10, 440, perfdata.RecordMMAP, mmap)
			w.poke(10, 500, 0x1080, "0f1f440000", "e811223344")
			w.other(10, 560, perfdata.RecordMMAP, mmap)
		}, timeline.Interval{From: 440, To: 560}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.ticks(100, 300)
			w.poke(10, 300, 0x1100, "0f1f440000", "e811223344")
			tt.more(w)
			w.poke(10, 700, 0x1000, "0f1f440000", "e811223344")
			w.ticks(800, 1000)
			r := w.replay()
			for range 2 {
				got := r.Windows().At(0x1080, 1, 500)
				if len(got) != 1 || got[0].Proven != tt.want {
					t.Errorf("%+v, want %v", got, tt.want)
				}
				r.windows = r.findWindows() // find them again, without the scan of the load
			}
		})
	}
}

// TestStaticCalls: a call to a kernel function was written alone.
func TestStaticCalls(t *testing.T) {
	k, err := kcore.ParseKallsyms([]byte(`0000000000001000 T _stext
0000000000001100 T schedule
0000000000001200 T ftrace_caller
0000000000001300 T ftrace_stub_direct_tramp
0000000000001400 T __fentry__
0000000000001500 T arch_ftrace_ops_list_func
0000000000002000 T _etext
0000000000008100 t m_work	[m]
`))
	if err != nil {
		t.Fatal(err)
	}
	c := callees{k: k}
	for addr, want := range map[uint64]bool{
		0x1100: true,
		0x1500: true,  // called by ftrace_caller, not by a site
		0x1104: false, // not the start of a function
		0x1200: false,
		0x1300: false,
		0x1400: false,
		0x8100: false, // in a module: it may be a trampoline for direct calls
		0x9000: false,
	} {
		for range 2 {
			if got := c.ofStaticCall(addr); got != want {
				t.Errorf("%#x: %v, want %v", addr, got, want)
			}
		}
	}
	if (&callees{}).ofStaticCall(0x1100) {
		t.Error("without kallsyms nothing is found out")
	}
}
