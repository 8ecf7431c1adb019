// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// describeTrampoline prints a trampoline with names as of time t.
func describeTrampoline(v timeline.View, s replay.Trampoline) string {
	name := func(addr uint64) string {
		sym, ok := v.Symbol(addr)
		if !ok {
			return fmt.Sprintf("%#x", addr)
		}
		return fmt.Sprintf("%s+%#x", sym.Name, addr-sym.Addr)
	}
	text := fmt.Sprintf("%v %#x+%d", s.Kind, s.Addr, s.Len)
	for _, p := range s.Places {
		text += " " + name(p)
	}
	if s.Func != 0 {
		text += fmt.Sprintf(" calls %s for %#x", name(s.Func), s.Ops)
	}
	text += " from " + replay.Seconds(s.From)
	if s.To != timeline.MaxTime {
		text += " until " + replay.Seconds(s.To)
	}
	return text
}

func TestTrampolineAt(t *testing.T) {
	small, rich, bpf := load(t, "small"), load(t, "rich"), loadBPF(t)
	// A guest that ran the small recording, ten seconds later.
	merged := filepath.Join(corpus.Root(), "testdata", "guest", "merged.data")
	guest, err := replay.Load(merged, replay.Options{Guest: 7001})
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	host := loadPath(t, merged)
	tests := []struct {
		r    *replay.Replay
		addr uint64
		t    uint64
		want string // "" for nothing
	}{
		{guest, 0xffffffffc0291002, 23_107_095_295, "kprobe-slot 0xffffffffc0291000+3 do_sys_openat2+0x5 from 23.107095295 until 23.848452625"},
		{host, 0xffffffffc0291002, 23_107_095_295, ""},
		// The first probe of a page of slots, and the same slot of the next page.
		{small, 0xffffffffc0291000, 13_107_095_294, ""},
		{small, 0xffffffffc0291002, 13_107_095_295, "kprobe-slot 0xffffffffc0291000+3 do_sys_openat2+0x5 from 13.107095295 until 13.848452625"},
		{small, 0xffffffffc0293000, 13_848_320_504, "optprobe-slot 0xffffffffc0293000+110 do_sys_openat2+0x5 from 13.113527425 until 13.848320505"},
		{small, 0xffffffffc0293000, 13_848_320_505, ""},
		{small, 0xffffffffc029106e, 13_700_000_000, ""}, // after a slot's last byte
		{small, 0xffffffffaecdbcb1, 13_700_000_000, ""}, // kernel text
		{small, 0, 0, ""},
		// Trampolines of tracers, one after the other at the same place.
		{rich, 0xffffffffc035b010, 18_600_000_000,
			"ftrace-trampoline 0xffffffffc035b000+207 calls function_trace_call+0x0 for 0xffffffffa4b3bba0 from 18.546571990 until 31.306083560"},
		{bpf, genperf.BPFTrampoline, genperf.BPFAttached - 1, ""},
		{bpf, genperf.BPFTrampoline + 100, genperf.BPFAttached,
			"bpf-trampoline 0xffffffffc0200000+4096 bpf_prog_1112131415161718_add+0x0 from 3.000000000 until 4.000000000"},
		{bpf, genperf.BPFTrampoline, genperf.BPFUnloaded, ""},
		{bpf, genperf.BPFMain, genperf.BPFAttached, ""}, // a program is not a trampoline
	}
	for _, tt := range tests {
		s, ok := tt.r.TrampolineAt(tt.addr, tt.t)
		got := ""
		if ok {
			got = describeTrampoline(tt.r.Image.At(tt.t), s)
		}
		if got != tt.want {
			t.Errorf("%#x at %s:\ngot  %q\nwant %q", tt.addr, replay.Seconds(tt.t), got, tt.want)
		}
	}
}

// TestNoTrampoline: where code has no known purpose, it has none for all of the time that the result says.
func TestNoTrampoline(t *testing.T) {
	small, rich := load(t, "small"), load(t, "rich")
	rnd := rand.New(rand.NewPCG(9, 10))
	with, within := 0, 0
	for range 20_000 {
		r, lo, n := small, uint64(0xffffffffc0291000), uint64(0x3000)
		if rnd.IntN(2) == 0 {
			r, lo, n = rich, 0xffffffffc0350000, 0x10000
		}
		addr := lo + rnd.Uint64N(n)
		at := r.Report.First + rnd.Uint64N(r.Report.Horizon-r.Report.First)
		s, ok := r.TrampolineAt(addr, at)
		if ok {
			with++
			continue
		}
		if s.To == 0 {
			continue
		}
		if at < s.From || at >= s.To {
			t.Fatalf("%#x at %d: nothing from %d to %d", addr, at, s.From, s.To)
		}
		within++
		for _, x := range []uint64{s.From, s.To - 1, s.From + rnd.Uint64N(s.To-s.From)} {
			if s, ok := r.TrampolineAt(addr, x); ok {
				t.Fatalf("%#x has no trampoline at %d, but at %d: %+v", addr, at, x, s)
			}
		}
	}
	if with < 100 || within < 1000 {
		t.Errorf("%d trampolines, %d times without one", with, within)
	}
}

// TestTrampolineTargets compares the answers for slots and trampolines with the text of the
// probed places, and with the branches to them.
func TestTrampolineTargets(t *testing.T) {
	for _, tt := range []struct {
		name string
		want trampolineCounts
	}{
		{"small", trampolineCounts{copies: 15, jumps: 1}},
		{"rich", trampolineCounts{copies: 83, jumps: 49, calls: 4}},
	} {
		t.Run(tt.name, func(t *testing.T) { checkTrampolines(t, load(t, tt.name), tt.want) })
	}
	for _, tt := range []struct {
		name string
		want trampolineCounts
	}{
		{"x86_64/rich", trampolineCounts{copies: 83, jumps: 49, calls: 5}},
		{"x86_64/threads", trampolineCounts{copies: 42, jumps: 25, calls: 5}},
		{"x86_64/local", trampolineCounts{copies: 42, jumps: 25, calls: 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkTrampolines(t, loadPath(t, filepath.Join(corpus.Large(t, tt.name), "rec.data")), tt.want)
		})
	}
}

// trampolineCounts are how many were checked, or must be.
type trampolineCounts struct {
	copies int // of instructions, in kprobes' slots
	jumps  int // into slots of optimised kprobes
	calls  int // of BPF trampolines
}

func checkTrampolines(t *testing.T, r *replay.Replay, want trampolineCounts) {
	var got trampolineCounts
	for c := range r.Changes() {
		p := c.Poke
		if p == nil {
			continue
		}
		if len(p.Old) == 0 {
			s, ok := r.TrampolineAt(p.Addr, c.Time)
			if !ok || s.Kind != replay.KprobeSlot {
				continue
			}
			if len(s.Places) != 1 || s.From != c.Time {
				t.Fatalf("%#x at %s: %+v", p.Addr, replay.Seconds(c.Time), s)
			}
			text := make([]byte, len(p.New)-1)
			if b := r.Image.At(c.Time).Read(s.Places[0], text); b.Standing != timeline.Known || text[0] == 0xcc || text[0] == 0xe9 {
				continue // missing in the recording, or probed already
			}
			got.copies++
			if !bytes.Equal(text, p.New[:len(p.New)-1]) {
				t.Errorf("the slot at %#x has % x, the text that it serves at %#x % x", p.Addr, p.New, s.Places[0], text)
			}
			continue
		}
		if len(p.New) != 5 || p.New[0] != 0xe8 && p.New[0] != 0xe9 {
			continue
		}
		target := p.Addr + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(p.New[1:]))))
		sym, ok := r.Image.At(c.Time).Symbol(target)
		if !ok || !sym.Dynamic || sym.To <= c.Time || sym.Addr <= p.Addr && p.Addr < sym.Addr+sym.Size {
			continue
		}
		s, ok := r.TrampolineAt(target, c.Time)
		switch {
		case sym.Name == "kprobe_optinsn_page":
			got.jumps++
			if !ok || s.Addr != target || len(s.Places) != 1 || s.Places[0] != p.Addr {
				t.Errorf("%#x jumps to %#x at %s, which serves %#x", p.Addr, target, replay.Seconds(c.Time), s.Places)
			}
		case strings.HasPrefix(sym.Name, "bpf_trampoline_"):
			got.calls++
			if !ok || !slices.Contains(s.Places, p.Addr) {
				t.Errorf("%#x calls %#x at %s, which serves %#x", p.Addr, target, replay.Seconds(c.Time), s.Places)
			}
		}
	}
	if got.copies < want.copies || got.jumps < want.jumps || got.calls < want.calls {
		t.Errorf("%+v were checked, want %+v or more", got, want)
	}
	t.Logf("%+v", got)
}

func loadPath(t *testing.T, path string) *replay.Replay {
	t.Helper()
	r, err := replay.Load(path, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// loadBPF loads the recording of a BPF program with line information.
func loadBPF(t *testing.T) *replay.Replay {
	t.Helper()
	path := filepath.Join(t.TempDir(), "perf.data")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := genperf.BPF(f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	return loadPath(t, path)
}

func TestSourceLine(t *testing.T) {
	r := loadBPF(t)
	for _, w := range r.Report.Warnings {
		t.Error(w)
	}
	const now = genperf.BPFAttached
	call := replay.SourceLine{Program: 42, Func: "count", File: "count.bpf.c", Line: 11, Column: 9, Text: "\treturn add(1);"}
	tests := []struct {
		addr, t uint64
		want    replay.SourceLine // zero: none
	}{
		{genperf.BPFMain, genperf.BPFLoaded - 1, replay.SourceLine{}},
		{genperf.BPFMain, genperf.BPFLoaded, replay.SourceLine{Program: 42, Func: "count"}}, // its first instructions
		{genperf.BPFMain + 8, now, call},
		{genperf.BPFMain + 17, now, call},
		{genperf.BPFMain + 18, now, replay.SourceLine{Program: 42, Func: "count", File: "count.bpf.c", Line: 12, Column: 1, Text: "}"}},
		{genperf.BPFMain + 20, now, replay.SourceLine{}},
		{genperf.BPFSub, now, replay.SourceLine{Program: 42, Func: "add", File: "count.bpf.c", Line: 5, Column: 9, Text: "\treturn x + 1;"}},
		{genperf.BPFTrampoline, now, replay.SourceLine{}},
		{genperf.BPFMain + 8, genperf.BPFUnloaded, replay.SourceLine{}},
		{0, now, replay.SourceLine{}},
	}
	for _, tt := range tests {
		got, ok := r.SourceLine(tt.addr, tt.t)
		if got != tt.want || ok != (tt.want != replay.SourceLine{}) {
			t.Errorf("%#x at %s: %+v, %v, want %+v", tt.addr, replay.Seconds(tt.t), got, ok, tt.want)
		}
	}
	add := replay.SourceLine{Program: 42, Func: "add", File: "count.bpf.c", Line: 5, Column: 9, Text: "\treturn x + 1;"}
	for _, tt := range []struct {
		addr, t uint64
		want    replay.SourceLine // zero: none
	}{
		{genperf.BPFMain, now, call},
		{genperf.BPFMain + 19, now, call}, // of the function around
		{genperf.BPFSub, now, add},
		{genperf.BPFSub + 3, now, add},
		{genperf.BPFMain + 20, now, replay.SourceLine{}},
		{genperf.BPFMain, genperf.BPFUnloaded, replay.SourceLine{}},
		{genperf.BPFTrampoline, now, replay.SourceLine{}},
	} {
		got, ok := r.FirstSourceLine(tt.addr, tt.t)
		if got != tt.want || ok != (tt.want != replay.SourceLine{}) {
			t.Errorf("the first of %#x at %s: %+v, %v, want %+v", tt.addr, replay.Seconds(tt.t), got, ok, tt.want)
		}
	}
}

// TestTrampolineAtConcurrent: any goroutine may ask first for trampolines and sources.
func TestTrampolineAtConcurrent(t *testing.T) {
	small, bpf := load(t, "small"), loadBPF(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, ok := small.TrampolineAt(0xffffffffc0291000, 13_500_000_000); !ok {
				t.Error("the slot serves nothing")
			}
			if _, ok := bpf.TrampolineAt(genperf.BPFTrampoline, genperf.BPFAttached); !ok {
				t.Error("the trampoline serves nothing")
			}
			if l, _ := bpf.SourceLine(genperf.BPFMain+8, genperf.BPFAttached); l.Line != 11 {
				t.Errorf("line %d, want 11", l.Line)
			}
		})
	}
	wg.Wait()
}

// What is this slot of an optimised kprobe for?
func ExampleReplay_TrampolineAt() {
	r, err := replay.Load("../../testdata/small/rec.data", replay.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	const now = 16_500_000_000
	s, _ := r.TrampolineAt(0xffffffffc02936d0, now)
	probed, _ := r.Image.At(now).Symbol(s.Places[0])
	fmt.Printf("%v of %d bytes for %s+%#x, until %s\n", s.Kind, s.Len, probed.Name, s.Places[0]-probed.Addr, replay.Seconds(s.To))
	// Output:
	// optprobe-slot of 111 bytes for do_sys_openat2+0x7, until 17.712455925
}
