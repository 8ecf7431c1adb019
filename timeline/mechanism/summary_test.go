// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"math"
	"reflect"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestSummaryOfModules: loads and unloads of modules count as changes.
func TestSummaryOfModules(t *testing.T) {
	b := timeline.NewBuilder()
	b.Extent(1, 9e9)
	b.Module(timeline.Module{Name: "m", Addr: 0x8000, TextEnd: 0x9000, End: 0xa000, Loaded: 2e9, Freed: 25e8})
	b.Module(timeline.Module{Name: "n", Addr: 0xc000, TextEnd: 0xd000, End: 0xe000, Loaded: 4e9})
	im, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	s := NewSummary(0, 9e9, 9)
	s.AddModules(im, 0, 9e9)
	if m := s.Mechanisms(); len(m) != 1 || m[0].Counts != (Counts{3, 2e9, 4e9}) || m[0].Sites != 2 || m[0].Busiest != 2 {
		t.Errorf("%+v", m)
	}
}

// TestBins: the bins follow one another, and have all of the time, up to the last that there is.
func TestBins(t *testing.T) {
	for _, tt := range []struct {
		from, to uint64
		n        int
	}{{0, 9, 9}, {5, 25, 3}, {0, math.MaxUint64, 12}, {1e9, math.MaxUint64, 12}, {math.MaxUint64 - 5, math.MaxUint64, 12}, {7, 7, 4}, {9, 3, 0}} {
		s := NewSummary(tt.from, tt.to, tt.n)
		at := tt.from
		for _, b := range s.bins {
			if b.From != at || b.To < b.From {
				t.Errorf("%v: a bin from %d to %d, behind %d", tt, b.From, b.To, at)
			}
			at = b.To
		}
		if len(s.bins) != max(tt.n, 1) || at < tt.to {
			t.Errorf("%v: %d bins up to %d", tt, len(s.bins), at)
		}
		if tt.from < tt.to {
			if b := s.bin(tt.to - 1); b == nil || tt.to-1 < b.From || tt.to-1 >= b.To {
				t.Errorf("%v: the last time is in the bin %+v", tt, b)
			}
		}
	}
}

// TestSummary counts a few changes by hand.
func TestSummary(t *testing.T) {
	const ms = 1e6
	s := NewSummary(0, 4e9, 4)
	batch := &replay.Batch{Number: 7, Sites: 2}
	add := func(time uint64, m Mechanism, comm string, pid uint32, addr uint64, b *replay.Batch) {
		p := &perfdata.TextPoke{Addr: addr}
		p.SampleID = perfdata.SampleID{Has: perfdata.SampleTID, PID: pid, TID: pid, Time: time}
		s.Add(&replay.Change{Time: time, Poke: p, Comm: comm, Batch: b}, m)
	}
	add(500*ms, StaticKey, "a", 1, 0x10, batch)
	add(510*ms, StaticKey, "a", 1, 0x20, batch)
	add(520*ms, Ftrace, "a", 1, 0x30, nil)
	add(605*ms, StaticKey, "a", 1, 0x10, nil) // the same run: less than 0.1 s after the last
	add(2000*ms, StaticKey, "a", 1, 0x10, nil)
	add(2001*ms, StaticKey, "b", 1, 0x10, nil) // another name, another writer
	add(0, Kprobe, "", 0, 0x40, nil)           // from before the recording
	s.Add(&replay.Change{Time: 3500 * ms, Loss: &replay.Loss{Records: 5}}, Other)

	if want := (Counts{7, 500 * ms, 2001 * ms}); s.Counts != want || s.Losses != 1 || s.Lost != 5 || s.Batches != 1 {
		t.Errorf("%+v, %d losses, %d lost, %d batches", s.Counts, s.Losses, s.Lost, s.Batches)
	}
	ms0 := s.Mechanisms()
	if len(ms0) != 3 || ms0[0].Mechanism != StaticKey || ms0[0].Counts != (Counts{5, 500 * ms, 2001 * ms}) ||
		ms0[0].Batches != 1 || ms0[0].Sites != 2 || ms0[0].Busiest != 3 {
		t.Errorf("mechanisms %+v", ms0)
	}
	w := s.Writers()
	if len(w) != 2 || w[0].Comm != "a" || w[0].Changes != 5 || w[0].By[StaticKey] != 4 || w[0].By[Ftrace] != 1 || w[1].Comm != "b" {
		t.Errorf("writers %+v", w)
	}
	if sites, want := s.Sites(2), []SiteCount{{0x10, StaticKey, 4}, {0x20, StaticKey, 1}}; !reflect.DeepEqual(sites, want) {
		t.Errorf("sites %+v, want %+v", sites, want)
	}
	var runs []Counts
	for _, r := range s.Runs() {
		runs = append(runs, r.Counts)
	}
	if want := []Counts{{3, 500 * ms, 605 * ms}, {1, 520 * ms, 520 * ms}, {1, 2000 * ms, 2000 * ms}, {1, 2001 * ms, 2001 * ms}}; !reflect.DeepEqual(runs, want) {
		t.Errorf("runs %+v, want %+v", runs, want)
	}
	var bins []uint64
	for _, b := range s.Bins() {
		bins = append(bins, b.Changes, b.Losses)
	}
	// What has no time is in the bin of time 0 only if that is asked for.
	if want := []uint64{5, 0, 0, 0, 2, 0, 0, 1}; !reflect.DeepEqual(bins, want) {
		t.Errorf("bins %v, want %v", bins, want)
	}
}
