// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWindows: a batch of three by task 1, a single poke by the same task at a
// lower address, then one by another task.
func TestWindows(t *testing.T) {
	const batch = PokeBatch
	w := NewWindows([]InPlacePoke{
		{1000, 0x500, 9, 5, batch},
		{2000, 0x100, 1, 5, batch},
		{2010, 0x200, 1, 5, batch},
		{2020, 0x300, 1, 5, batch},
		{900_000, 0x400, 1, 5, batch}, // could be of the same batch, but comes late
		{900_100, 0x080, 1, 5, batch}, // cannot: lower address
		{900_200, 0x600, 2, 5, batch},
		{900_300, 0x700, 2, 1, PokeArmed},
		{900_400, 0x700, 2, 1, PokeDisarmed},
		{900_500, 0x700, 2, 5, PokeUnoptimised},
		{900_600, 0x800, 2, 5, batch},
	}, false)
	for _, tt := range []struct {
		name    string
		addr, t uint64
		want    []Window
	}{
		{"inside a batch", 0x200, 2010, []Window{{
			Addr: 0x200, Len: 5, Switch: 2010, Kind: batch,
			Proven: Interval{1000, 900_100}, Estimate: Interval{2000, 2020}}}},
		{"its last bytes, long before", 0x204, 1000, []Window{{
			Addr: 0x200, Len: 5, Switch: 2010, Kind: batch,
			Proven: Interval{1000, 900_100}, Estimate: Interval{2000, 2020}}}},
		{"before the proven window", 0x200, 999, nil},
		{"behind it", 0x200, 900_100, nil},
		{"the first poke: nothing bounds its start", 0x500, 0, []Window{{
			Addr: 0x500, Len: 5, Switch: 1000, Kind: batch,
			Proven: Interval{0, 2000}, Estimate: Interval{1000, 1000}}}},
		{"a kprobe armed: the trap is the new bytes from its time on", 0x700, 900_250, []Window{{
			Addr: 0x700, Len: 1, Switch: 900_300, Kind: PokeArmed,
			Proven: Interval{900_200, 900_300}, Estimate: Interval{900_300, 900_300}}}},
		{"a kprobe disarmed: the trap was the old bytes until its time; its undoing comes next", 0x700, 900_450, []Window{
			{Addr: 0x700, Len: 1, Switch: 900_400, Kind: PokeDisarmed,
				Proven: Interval{900_400, 900_500}, Estimate: Interval{900_400, 900_400}},
			{Addr: 0x700, Len: 5, Switch: 900_500, Kind: PokeUnoptimised,
				Proven: Interval{900_400, 900_500}, Estimate: Interval{900_500, 900_500}}}},
		{"never poked", 0x208, 2010, nil},
	} {
		if d := cmp.Diff(tt.want, w.At(tt.addr, 1, tt.t)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func TestBatchOf256(t *testing.T) {
	var pokes []InPlacePoke
	for i := range uint64(1000) {
		pokes = append(pokes, InPlacePoke{1000 + i, 0x1000 + 16*i, 1, 5, PokeBatch})
	}
	w := NewWindows(pokes, false)
	got := w.At(0x1000+16*500, 5, 1500)
	if len(got) != 1 || got[0].Proven != (Interval{1000 + 500 - BatchMax, 1000 + 500 + BatchMax}) {
		t.Errorf("a batch of %d reaches no further than that to either side: %+v", BatchMax, got)
	}
}

// TestWindowsUncertain: by how much clocks may differ, windows are longer at
// both ends.
func TestWindowsUncertain(t *testing.T) {
	w := NewWindows([]InPlacePoke{{400, 0x300, 1, 5, PokeBatch}, {500, 0x200, 1, 5, PokeBatch}, {600, 0x100, 1, 5, PokeBatch}}, false)
	w.skew = 7
	for _, at := range []uint64{392, 393, 606, 607} {
		got := w.At(0x200, 1, at)
		if open := 393 <= at && at < 607; open != (len(got) == 1) || open && got[0].Proven != (Interval{393, 607}) {
			t.Errorf("at %d: %+v", at, got)
		}
	}
}

// TestBatchOfOneTask: who could have been in a batch with the poke at 500.
func TestBatchOfOneTask(t *testing.T) {
	const batch = PokeBatch
	for _, tt := range []struct {
		name          string
		before, after InPlacePoke
		want          Interval
	}{
		{"both neighbours", InPlacePoke{400, 0x100, 1, 5, batch}, InPlacePoke{600, 0x300, 1, 5, batch}, Interval{300, 700}},
		{"another task before", InPlacePoke{400, 0x100, 2, 5, batch}, InPlacePoke{600, 0x300, 1, 5, batch}, Interval{400, 700}},
		{"another task after", InPlacePoke{400, 0x100, 1, 5, batch}, InPlacePoke{600, 0x300, 2, 5, batch}, Interval{300, 600}},
		{"a higher address before", InPlacePoke{400, 0x201, 1, 5, batch}, InPlacePoke{600, 0x300, 1, 5, batch}, Interval{400, 700}},
		{"a lower address after", InPlacePoke{400, 0x100, 1, 5, batch}, InPlacePoke{600, 0x1ff, 1, 5, batch}, Interval{300, 600}},
		{"the same address is not descending", InPlacePoke{400, 0x200, 1, 5, batch}, InPlacePoke{600, 0x200, 1, 5, batch}, Interval{300, 700}},
		{"a kprobe is no batch", InPlacePoke{400, 0x100, 1, 1, PokeArmed}, InPlacePoke{600, 0x300, 1, 1, PokeDisarmed}, Interval{400, 600}},
	} {
		w := NewWindows([]InPlacePoke{{300, 0x400, 9, 5, batch}, tt.before, {500, 0x200, 1, 5, batch}, tt.after, {700, 0x050, 9, 5, batch}}, false)
		var got []Interval
		for _, win := range w.At(0x200, 1, 500) {
			if win.Switch == 500 {
				got = append(got, win.Proven)
			}
		}
		if d := cmp.Diff([]Interval{tt.want}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

// TestWordWindows: two tasks change words of an arm64 kernel at the same time.
func TestWordWindows(t *testing.T) {
	w := NewWindows([]InPlacePoke{
		{1000, 0x100, 1, 4, PokeBatch},
		{1010, 0x200, 2, 4, PokeBatch},
		{1020, 0x0f8, 1, 0, PokeBatch}, // a literal
		{1030, 0x200, 2, 4, PokeArmed},
		{1040, 0x100, 1, 4, PokeBatch},
		{1050, 0x200, 1, 4, PokeDisarmed},
	}, true)
	for _, tt := range []struct {
		name    string
		addr, t uint64
		want    []Window
	}{
		{"bounded by the task's next", 0x100, 1019, []Window{{
			Addr: 0x100, Len: 4, Switch: 1000, Kind: PokeBatch,
			Proven: Interval{0, 1020}, Estimate: Interval{1000, 1000}}}},
		{"behind it", 0x100, 1020, []Window{{
			Addr: 0x100, Len: 4, Switch: 1040, Kind: PokeBatch,
			Proven: Interval{1020, 1050}, Estimate: Interval{1040, 1040}}}},
		{"no trap stands at a literal", 0x0f8, 1020, nil},
		{"between two of one task", 0x203, 1015, []Window{
			{Addr: 0x200, Len: 4, Switch: 1010, Kind: PokeBatch,
				Proven: Interval{0, 1030}, Estimate: Interval{1010, 1010}},
			{Addr: 0x200, Len: 4, Switch: 1030, Kind: PokeArmed,
				Proven: Interval{1010, 1030}, Estimate: Interval{1030, 1030}}}},
		{"armed: the trap is the bytes", 0x200, 1035, nil},
		{"disarmed: the trap was the bytes until then", 0x200, 2000, []Window{{
			Addr: 0x200, Len: 4, Switch: 1050, Kind: PokeDisarmed,
			Proven: Interval{1050, MaxTime}, Estimate: Interval{1050, 1050}}}},
	} {
		if d := cmp.Diff(tt.want, w.At(tt.addr, 1, tt.t)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
	if got := w.At(0x0f0, 16, 1020); got != nil {
		t.Errorf("a literal among other words: %+v", got)
	}
}

// TestWindowsOfDuplicates: perf wrote all but the first of a batch of 200 twice. The
// second copies fill no room in the batch: its first site has the trap until the next
// poke that cannot be of it.
func TestWindowsOfDuplicates(t *testing.T) {
	const sites = 200
	var pokes []InPlacePoke
	for i := range uint64(sites) {
		pokes = append(pokes, InPlacePoke{1000 + i/2, 0x1000 + 16*i, 7, 5, PokeBatch})
	}
	pokes = append(pokes, pokes[1:]...)
	pokes = append(pokes, InPlacePoke{5000, 0x100, 8, 5, PokeBatch})
	w := NewWindows(pokes, false)
	for _, at := range []uint64{1000, 2000, 4999} {
		if got := w.At(0x1000, 5, at); len(got) != 1 {
			t.Errorf("%d windows of the first site at %d, want 1", len(got), at)
		}
	}
	if got := w.At(0x1000, 5, 5000); got != nil {
		t.Errorf("the trap is gone by the next task's poke, got %v", got)
	}
}
