// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim_test

import (
	"bytes"
	"cmp"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
	"github.com/textreplay/textreplay/timeline/trim"
)

// A trap is a poke with the time at which its trap may be met.
type trap struct {
	timeline.InPlacePoke
	timeline.Interval
}

// trapsOf returns the traps that may be met before a time, of pokes in ranges if there are any.
func trapsOf(r *replay.Replay, before uint64, ranges []timeline.Range) (out []trap) {
	for p, proven := range r.Windows().Proven() {
		inRange := func(g timeline.Range) bool { return g.Lo <= p.Addr && p.Addr < g.Hi }
		if proven.To = min(proven.To, before); p.Len == 0 || proven.From >= proven.To || len(ranges) > 0 && !slices.ContainsFunc(ranges, inRange) {
			continue
		}
		in := *p
		in.Flags = 0 // which pokes begin batches is a guess
		out = append(out, trap{in, proven})
	}
	slices.SortFunc(out, func(a, b trap) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.TID, b.TID), cmp.Compare(a.From, b.From))
	})
	return out
}

// endOf returns up to when a recording is kept that is cut at a time: up to the last change whose trap may be met before.
func endOf(r *replay.Replay, to uint64) uint64 {
	end := to
	for p, proven := range r.Windows().Proven() {
		if p.Len > 0 && p.Time >= to && proven.From < to {
			end = max(end, p.Time+1)
		}
	}
	return end
}

// TestTraps: up to the time at which it is cut, a recording has the traps of the whole one, for as long. A few
// may be longer: where ranges leave out so many pokes that those of a full batch bound a trap, and where a task moved
// from CPU to CPU, as which of its other records count depends on the order of the file.
func TestTraps(t *testing.T) {
	for _, dir := range append(corpus.Small(t), corpus.All()...) {
		name := filepath.Join(dir, "rec.data")
		if _, err := os.Stat(name); err != nil {
			continue // a pipe's, from which nothing is cut here
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			whole := open(t, name)
			var times, addrs []uint64
			for p := range whole.Windows().Proven() {
				times, addrs = append(times, p.Time), append(addrs, p.Addr)
			}
			if len(times) == 0 {
				return
			}
			rng := rand.New(rand.NewPCG(3, 4))
			longer, compared, rounds := 0, 0, 12
			if len(times) > 10_000 {
				rounds = 4
			}
			for n := range rounds {
				opts := trim.Options{To: times[rng.IntN(len(times))] + rng.Uint64N(3) - 1}
				if n%3 == 1 {
					opts.To = 0
				}
				if n >= rounds/2 {
					for range 1 + rng.IntN(3) {
						addr := addrs[rng.IntN(len(addrs))]
						opts.Ranges = append(opts.Ranges, timeline.Range{Lo: addr, Hi: addr + 64})
					}
				}
				if _, err := trim.Write(filepath.Join(t.TempDir(), "cut.data"), whole, opts); errors.Is(err, trim.ErrHides) {
					continue // what is beyond the end would show a loss
				}
				part, _ := cut(t, whole, opts)
				if opts.To == 0 {
					claims(t, part, whole, whole.Report.Horizon)
				}
				before := cmp.Or(opts.To, whole.Report.Horizon+1)
				want, got := trapsOf(whole, before, opts.Ranges), trapsOf(part, before, opts.Ranges)
				if len(got) != len(want) {
					t.Fatalf("%+v: %d traps, want %d", opts, len(got), len(want))
				}
				for i := range want {
					compared++
					w, g := want[i], got[i]
					if g.InPlacePoke != w.InPlacePoke || g.From > w.From || g.To < w.To {
						t.Fatalf("%+v: %+v, want %+v", opts, g, w)
					}
					if g != w {
						longer++
					}
				}
				// Bytes that are known elsewhere, in pages that are kept as bounds, may trap as in the whole.
				all := trapsOf(whole, before, nil)
				c := part.Cursor()
				for range 2_000 {
					trap := all[rng.IntN(len(all))]
					at := trap.From + rng.Uint64N(min(trap.To, before)-trap.From)
					if b := c.Read(trap.Addr, at, make([]byte, 1)); b.Standing == timeline.Known && b.NoTrap.At(at) {
						t.Fatalf("%+v: %#x is known at %d and does not trap; want %+v", opts, trap.Addr, at, trap)
					}
				}
			}
			t.Logf("%d of %d traps are longer", longer, compared)
			if longer*50 > compared || compared == 0 {
				t.Errorf("%d of %d traps are longer", longer, compared)
			}
		})
	}
}

// TestIdleTask: what shows that a task was doing something else than to change text is kept, and no other map of a
// process.
func TestIdleTask(t *testing.T) {
	w, path := recordNOPs(t, &genperf.Kernel{CPUs: 1})
	for i := range uint64(3) {
		if err := w.Poke(i*1e9+2e9, genperf.TextAddr+16*i, []byte{0x90}, []byte{0x91}); err != nil {
			t.Fatal(err)
		}
		for tid := range uint32(2) { // 100, which changes text, and 101
			m := &perfdata.Mmap{PID: 100 + tid, TID: 100 + tid, Addr: 1 << 12, Len: 1 << 12, Filename: []byte("/bin/true"), SampleID: w.ID(i*1e9+2.5e9, 0, 100+tid)}
			if err := w.Mmap(perfdata.RecordMMAP2, perfdata.MiscUser, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	part, _ := cut(t, whole, trim.Options{})
	want := trapsOf(whole, 9e9, nil)
	if diff := gocmp.Diff(want, trapsOf(part, 9e9, nil)); diff != "" || len(want) != 3 || want[1].From != 2.5e9 {
		t.Errorf("traps (-want +got):\n%s", diff)
	}
	maps := 0
	sc := part.Recording.Scan(perfdata.Only(perfdata.RecordMMAP2))
	for sc.Next() {
		if maps++; sc.Record().CPUMode() != perfdata.MiscUser {
			t.Error("another map")
		}
	}
	if maps != 3 {
		t.Errorf("%d maps, want the 3 of the task", maps)
	}
}

// TestAcross: with a change that lies in two pages, all changes of both are kept.
func TestAcross(t *testing.T) {
	w, path := recordNOPs(t, &genperf.Kernel{CPUs: 1})
	site := uint64(genperf.TextAddr + 4096 - 2)
	jump, nop := []byte{0xe9, 1, 2, 3, 4}, bytes.Repeat([]byte{0x90}, 5)
	err := errors.Join(w.Poke(2e9, site, nop, jump),
		w.Poke(2.2e9, genperf.TextAddr+2*4096+8, nop, jump), // these bound the first trap, so that the next poke does not
		w.Poke(2.5e9, genperf.TextAddr+2*4096, nop, jump),
		w.Poke(3e9, site, jump[:1], []byte{0xcc}),
		w.End(9e9))
	if err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	part, _ := cut(t, whole, trim.Options{Ranges: []timeline.Range{{Lo: genperf.TextAddr + 4096, Hi: genperf.TextAddr + 4097}}})
	if got := part.Image.At(4e9).Read(site, make([]byte, 5)); got.Given != 5 {
		t.Errorf("%d bytes are given", got.Given)
	}
	claims(t, part, whole, whole.Report.Horizon)
}

// TestBoundContradicted: a change that is kept since it bounds a trap may contradict the copy of text. The cut recording
// has that copy too, so it does not take the change's word.
func TestBoundContradicted(t *testing.T) {
	w, path := recordNOPs(t, &genperf.Kernel{CPUs: 1})
	err := errors.Join(w.Poke(2e9, genperf.TextAddr+4096, []byte{0x90}, []byte{0x91}),
		w.Poke(3e9, genperf.TextAddr, []byte{0x93}, []byte{0x94}), // the copy has 90
		w.End(9e9))
	if err != nil {
		t.Fatal(err)
	}
	whole := open(t, path)
	part, _ := cut(t, whole, trim.Options{Ranges: []timeline.Range{{Lo: genperf.TextAddr + 4096, Hi: genperf.TextAddr + 4097}}})
	if got := part.Image.At(4e9).Read(genperf.TextAddr, make([]byte, 1)); got.Given != 1 {
		t.Error("the change that bounds the trap is not kept")
	}
	claims(t, part, whole, whole.Report.Horizon)
}
