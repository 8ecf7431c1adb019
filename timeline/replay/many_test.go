// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/textreplay/textreplay/internal/cputime"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
)

// TestManyLosses: losses of as many records of one CPU have one description, however many
// they are.
func TestManyLosses(t *testing.T) {
	w := newTape(t)
	w.ticks(100, 300)
	const n = 5000
	for i := range uint64(n) {
		w.tick(10, 1000+100*i)
		w.lost(10, 1050+100*i, 3)
	}
	w.ticks(10_000_000, 10_000_100)
	r := w.replay()
	texts := make(map[*byte]bool)
	limits := 0
	for _, c := range []*Coverage{&r.Report.Coverage.Pokes, &r.Report.Coverage.KSymbols, &r.Report.Coverage.BPF} {
		for _, l := range c.Limits {
			texts[unsafe.StringData(l.Text)] = true
			limits++
		}
	}
	if limits < 3*n {
		t.Errorf("%d limits, want %d or more", limits, 3*n)
	}
	if len(texts) > 20 {
		t.Errorf("%d strings describe the limits", len(texts))
	}
}

// TestIntervals: what is spoiled at a time is found without a look at each limit.
func TestIntervals(t *testing.T) {
	x := intervalsOf([]Limit{{From: 30, To: 40}, {From: 10, To: 20}, {From: 15, To: 18}, {From: 20, To: 22}, {From: 50, To: timeline.MaxTime}})
	if len(x) != 3 {
		t.Errorf("%v: want 3 intervals", x)
	}
	for _, tt := range []struct {
		from, to uint64
		want     bool
	}{{0, 10, false}, {0, 11, true}, {19, 20, true}, {21, 22, true}, {22, 30, false}, {22, 31, true}, {40, 50, false}, {45, 51, true}, {60, 61, true}} {
		if got := x.meet(tt.from, tt.to); got != tt.want {
			t.Errorf("[%d, %d): %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

// TestManyImages: a poke shows that the images are written which its thread made before, without a look at
// those that it made since.
func TestManyImages(t *testing.T) {
	const n = 200_000
	began := cputime.Start()
	c := newCodeReads(&recorderJournal{bytes: []journal.Bytes{{Addr: 0x9000}}})
	for i := range uint64(n) {
		c.symbol(&timeline.SymbolEvent{Time: 2*n - i, Addr: 0x9000}, 5)
		c.poke(&timeline.Poke{Time: n, Addr: 0x1000}, 5)
	}
	born := c.of[0x9000].born
	for i, x := range born {
		if x.written != 0 {
			t.Fatalf("image %d of %d, of %d: written by %d", i, len(born), x.time, x.written)
		}
	}
	c.poke(&timeline.Poke{Time: n + 10, Addr: 0x1000}, 5)
	written := 0
	for _, x := range born {
		if (x.written == n+10) != (x.time <= n+10) {
			t.Errorf("of %d: written by %d", x.time, x.written)
		}
		if x.written != 0 {
			written++
		}
	}
	if written != 10 {
		t.Errorf("%d images are written", written)
	}
	began.AtMost(t, 10*time.Second)
}

// TestManyModules: lists of very many modules, which no kernel has, do not take the square of their number.
func TestManyModules(t *testing.T) {
	const n = 30_000
	for _, kind := range []string{"init text", "losses", "one place", "one name", "unloads", "loads and losses"} {
		t.Run(kind, func(t *testing.T) {
			w := newTape(t)
			w.copied = true
			w.events = append(w.events, tracepointEvent("module_load"), tracepointEvent("module_free"))
			w.tracing = moduleFormats
			var symbols strings.Builder
			symbols.WriteString("0000000000001000 T _stext\n0000000000002000 T _etext\n")
			for i := range n {
				name, at := fmt.Sprintf("m%d", i), uint64(0x100000+i*0x10000)
				switch kind {
				case "one name":
					name = "m"
				case "one place":
					at = 0x100000
				}
				fmt.Fprintf(&symbols, "%016x t f%d\t[%s]\n", at+0x10, i, name)
				if kind == "init text" {
					fmt.Fprintf(&symbols, "%016x d data\t[%s]\n%016x t init_module\t[%s]\n", at+0x2000, name, at+0x3010, name)
				}
				w.modules = append(w.modules, kcore.Module{Name: name, Addr: at, Size: 0x8000, State: "Live"})
			}
			w.kallsyms = symbols.String()
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			for i := range uint64(n) {
				switch kind {
				case "one name":
					w.module(20+10*(i%2), 300+10*i, "m")
				case "unloads":
					w.module(30, 300+10*i, fmt.Sprintf("m%d", i))
				case "loads and losses":
					w.module(20, 300+10*i, fmt.Sprintf("m%d", i))
					w.lost(10, 305+10*i, 1)
				case "losses":
					w.tick(10, 300+10*i)
					w.lost(10, 305+10*i, 1)
				}
			}
			w.ticks(10*n+400, 10*n+500)
			start := cputime.Start()
			r := w.replay()
			for range r.Findings() {
			}
			there := len(r.ModulesAt(250))
			start.AtMost(t, 10*time.Second)
			if got := r.Report.Modules; got != n || there == 0 {
				t.Errorf("%d modules, %d of them at 250", got, there)
			}
		})
	}
}
