// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWindows: a batch of three by task 1, a single poke by the same task at a
// lower address, then one by another task.
func TestWindows(t *testing.T) {
	const batch = PokeBatch
	w := NewWindows([]InPlacePoke{
		{1000, 0x500, 9, 5, batch, 0},
		{2000, 0x100, 1, 5, batch, 0},
		{2010, 0x200, 1, 5, batch, 0},
		{2020, 0x300, 1, 5, batch, 0},
		{900_000, 0x400, 1, 5, batch, 0}, // could be of the same batch, but comes late
		{900_100, 0x080, 1, 5, batch, 0}, // cannot: lower address
		{900_200, 0x600, 2, 5, batch, 0},
		{900_300, 0x700, 2, 1, PokeArmed, 0},
		{900_400, 0x700, 2, 1, PokeDisarmed, 0},
		{900_500, 0x700, 2, 5, PokeUnoptimised, 0},
		{900_600, 0x800, 2, 5, batch, 0},
	}, nil, false)
	for _, tt := range []struct {
		name    string
		addr, t uint64
		want    []Window
	}{
		{"inside a batch", 0x200, 2010, []Window{{
			Addr: 0x200, Len: 5, Switch: 2010, Kind: batch,
			Proven: Interval{1000, 900_100}, Estimate: Interval{1100, 900_080}}}},
		{"its last bytes, long before", 0x204, 1000, []Window{{
			Addr: 0x200, Len: 5, Switch: 2010, Kind: batch,
			Proven: Interval{1000, 900_100}, Estimate: Interval{1100, 900_080}}}},
		{"before the proven window", 0x200, 999, nil},
		{"behind it", 0x200, 900_100, nil},
		{"the first poke: nothing bounds its start", 0x500, 0, []Window{{
			Addr: 0x500, Len: 5, Switch: 1000, Kind: batch,
			Proven: Interval{0, 2000}, Estimate: Interval{0, 1800}}}},
		{"a kprobe armed: the trap is the new bytes from its time on", 0x700, 900_250, []Window{{
			Addr: 0x700, Len: 1, Switch: 900_300, Kind: PokeArmed,
			Proven: Interval{900_200, 900_300}, Estimate: Interval{900_210, 900_300}}}},
		{"a kprobe disarmed: the trap was the old bytes until its time; its undoing comes next", 0x700, 900_450, []Window{
			{Addr: 0x700, Len: 1, Switch: 900_400, Kind: PokeDisarmed,
				Proven: Interval{900_400, 900_500}, Estimate: Interval{900_400, 900_480}},
			{Addr: 0x700, Len: 5, Switch: 900_500, Kind: PokeUnoptimised,
				Proven: Interval{900_400, 900_500}, Estimate: Interval{900_410, 900_500}}}},
		{"never poked", 0x208, 2010, nil},
	} {
		if d := cmp.Diff(tt.want, w.At(tt.addr, 1, tt.t)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

// TestWindowsToTheEnd: a range of addresses may end where the address space does, or be cut there.
func TestWindowsToTheEnd(t *testing.T) {
	text := uint64(0xffffffff81000000)
	for _, words := range []bool{false, true} {
		w := NewWindows([]InPlacePoke{{1000, text + 0x500, 1, 4, PokeBatch, 0}}, nil, words)
		c := w.Cursor(&Image{})
		for _, n := range []uint64{0x500, 0x501, 1 << 32, -text - 1, -text, 1 << 63, MaxTime} {
			want := 1
			if n == 0x500 {
				want = 0
			}
			if got := len(w.At(text, n, 1000)); got != want {
				t.Errorf("words %v, %#x bytes: %d windows, want %d", words, n, got, want)
			}
			if got := len(c.AppendWindows(nil, text, n, 1000, 1000)); got != want {
				t.Errorf("words %v, %#x bytes: the cursor has %d windows, want %d", words, n, got, want)
			}
		}
	}
}

func TestBatchOf256(t *testing.T) {
	var pokes []InPlacePoke
	for i := range uint64(1000) {
		pokes = append(pokes, InPlacePoke{1000 + i, 0x1000 + 16*i, 1, 5, PokeBatch, 0})
	}
	w := NewWindows(pokes, nil, false)
	got := w.At(0x1000+16*500, 5, 1500)
	if len(got) != 1 || got[0].Proven != (Interval{1000 + 500 - maxBatch, 1000 + 500 + maxBatch}) {
		t.Errorf("a batch of %d reaches no further than that to either side: %+v", maxBatch, got)
	}
}

// TestWindowsUncertain: by how much clocks may differ, windows are longer at
// both ends.
func TestWindowsUncertain(t *testing.T) {
	w := NewWindows([]InPlacePoke{{400, 0x300, 1, 5, PokeBatch, 0}, {500, 0x200, 1, 5, PokeBatch, 0}, {600, 0x100, 1, 5, PokeBatch, 0}}, nil, false)
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
		{"both neighbours", InPlacePoke{400, 0x100, 1, 5, batch, 0}, InPlacePoke{600, 0x300, 1, 5, batch, 0}, Interval{300, 700}},
		{"another task before", InPlacePoke{400, 0x100, 2, 5, batch, 0}, InPlacePoke{600, 0x300, 1, 5, batch, 0}, Interval{400, 700}},
		{"another task after", InPlacePoke{400, 0x100, 1, 5, batch, 0}, InPlacePoke{600, 0x300, 2, 5, batch, 0}, Interval{300, 600}},
		{"a higher address before", InPlacePoke{400, 0x201, 1, 5, batch, 0}, InPlacePoke{600, 0x300, 1, 5, batch, 0}, Interval{400, 700}},
		{"a lower address after", InPlacePoke{400, 0x100, 1, 5, batch, 0}, InPlacePoke{600, 0x1ff, 1, 5, batch, 0}, Interval{300, 600}},
		{"the same address before", InPlacePoke{400, 0x200, 1, 5, batch, 0}, InPlacePoke{600, 0x300, 1, 5, batch, 0}, Interval{400, 700}},
		{"a place that is written alone before", InPlacePoke{400, 0x100, 1, 5, batch, PokeAlone}, InPlacePoke{600, 0x300, 1, 5, batch, 0}, Interval{400, 700}},
		{"and after", InPlacePoke{400, 0x100, 1, 5, batch, 0}, InPlacePoke{600, 0x300, 1, 5, batch, PokeAlone}, Interval{300, 600}},
		{"another task at the same time, which may have come after", InPlacePoke{500, 0x100, 2, 5, batch, 0}, InPlacePoke{600, 0x300, 2, 5, batch, 0}, Interval{300, 600}},
		{"another task at the same time, which may have come before", InPlacePoke{400, 0x100, 2, 5, batch, 0}, InPlacePoke{500, 0x300, 2, 5, batch, 0}, Interval{400, 700}},
		{"this task at the same time", InPlacePoke{500, 0x201, 1, 5, batch, 0}, InPlacePoke{600, 0x300, 2, 5, batch, 0}, Interval{500, 600}},
		{"a kprobe is no batch", InPlacePoke{400, 0x100, 1, 1, PokeArmed, 0}, InPlacePoke{600, 0x300, 1, 1, PokeDisarmed, 0}, Interval{400, 600}},
	} {
		w := NewWindows([]InPlacePoke{{300, 0x400, 9, 5, batch, 0}, tt.before, {500, 0x200, 1, 5, batch, 0}, tt.after, {700, 0x050, 9, 5, batch, 0}}, nil, false)
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

// TestManyOfOneTime: many tasks change more places at one time than a batch has.
func TestManyOfOneTime(t *testing.T) {
	pokes := []InPlacePoke{{400, 0x10, 1 << 20, 5, PokeBatch, 0}}
	for i := range uint32(3 * maxBatch) {
		pokes = append(pokes, InPlacePoke{500, 0x10000 - 16*uint64(i), 1 + i, 5, PokeBatch, 0})
	}
	pokes = append(pokes, InPlacePoke{600, 0x20, 1 << 20, 5, PokeBatch, 0})
	w := NewWindows(pokes, nil, false)
	for _, p := range []InPlacePoke{pokes[1], pokes[len(pokes)-2]} {
		for _, at := range []uint64{400, 599} {
			if got := w.At(p.Addr, 1, at); len(got) != 1 {
				t.Errorf("%#x at %d: %+v", p.Addr, at, got)
			}
		}
	}
}

// TestWindowsAtMaxTime: a window that nothing bounds is open at the end of time too.
func TestWindowsAtMaxTime(t *testing.T) {
	im, err := kernel().Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []bool{false, true} {
		w := NewWindows([]InPlacePoke{{1000, 0x1004, 1, 4, PokeBatch, 0}}, nil, words)
		if got := w.At(0x1004, 1, MaxTime); len(got) != 1 || got[0].Proven.To != MaxTime {
			t.Errorf("words %v: %+v", words, got)
		}
		c := w.Cursor(im)
		if got := c.AppendWindows(nil, 0x1004, 1, MaxTime, MaxTime); len(got) != 1 {
			t.Errorf("words %v: %+v", words, got)
		}
		for _, addr := range []uint64{0x1000, 0x1004} {
			var x, y [4]byte
			if got, want := c.Read(addr, MaxTime, x[:]), c.Read(addr, MaxTime-1, y[:]); got != want || x != y {
				t.Errorf("words %v: %+v %x, want %+v %x", words, got, x, want, y)
			}
			if got, want := c.SameWindows(addr, 4, MaxTime), c.SameWindows(addr, 4, MaxTime-1); got != want {
				t.Errorf("words %v: %+v, want %+v", words, got, want)
			}
		}
	}
}

// TestWindowsOfNothing: over a range of no bytes no window is open, not even inside of a poke that has one.
func TestWindowsOfNothing(t *testing.T) {
	im, err := kernel().Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []bool{false, true} {
		for _, n := range []uint16{4, maxWindow + 4} { // the index has long pokes elsewhere
			w := NewWindows([]InPlacePoke{{1000, 0x1004, 1, n, PokeBatch, 0}}, nil, words)
			c := w.Cursor(im)
			for _, addr := range []uint64{0x1003, 0x1004, 0x1006, 0x1004 + uint64(n)} {
				if got := w.At(addr, 0, 1000); len(got) != 0 {
					t.Errorf("words %v, %#x: %+v", words, addr, got)
				}
				if got := c.AppendWindows(nil, addr, 0, 1000, 1000); len(got) != 0 {
					t.Errorf("words %v, %#x: the cursor has %+v", words, addr, got)
				}
				if got, want := c.SameWindows(addr, 0, 1000), (Validity{0, MaxTime}); got != want {
					t.Errorf("words %v, %#x: the same windows during %+v, want %+v", words, addr, got, want)
				}
			}
			if len(w.At(0x1003, 2, 1000)) != 1 || len(c.AppendWindows(nil, 0x1003, 2, 1000, 1000)) != 1 {
				t.Errorf("words %v: no window at the poke", words)
			}
		}
	}
}

// TestWordWindows: two tasks change words of an arm64 kernel at the same time.
func TestWordWindows(t *testing.T) {
	w := NewWindows([]InPlacePoke{
		{1000, 0x100, 1, 4, PokeBatch, 0},
		{1010, 0x200, 2, 4, PokeBatch, 0},
		{1020, 0x0f8, 1, 0, PokeBatch, 0}, // a literal
		{1030, 0x200, 2, 4, PokeArmed, 0},
		{1040, 0x100, 1, 4, PokeBatch, 0},
		{1050, 0x200, 1, 4, PokeDisarmed, 0},
	}, nil, true)
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
		{"there is no trap at a literal", 0x0f8, 1020, nil},
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
		pokes = append(pokes, InPlacePoke{1000 + i/2, 0x1000 + 16*i, 7, 5, PokeBatch, 0})
	}
	pokes = append(pokes, pokes[1:]...)
	pokes = append(pokes, InPlacePoke{5000, 0x100, 8, 5, PokeBatch, 0})
	w := NewWindows(pokes, nil, false)
	for _, at := range []uint64{1000, 2000, 4999} {
		if got := w.At(0x1000, 5, at); len(got) != 1 {
			t.Errorf("%d windows of the first site at %d, want 1", len(got), at)
		}
	}
	if got := w.At(0x1000, 5, 5000); got != nil {
		t.Errorf("the trap is gone by the next task's poke, got %v", got)
	}
}

// TestIdleMoments: a task that forks, execs, maps or exits is not writing text then.
func TestIdleMoments(t *testing.T) {
	pokes := []InPlacePoke{{300, 0x400, 9, 5, PokeBatch, 0}, {500, 0x200, 1, 5, PokeBatch, 0}, {510, 0x300, 1, 5, PokeBatch, 0}, {700, 0x050, 9, 5, PokeBatch, 0}}
	for _, tt := range []struct {
		name string
		idle []IdleMoment
		want Interval
	}{
		{"none", nil, Interval{300, 700}},
		{"of the writer, on both sides", []IdleMoment{{Time: 650, TID: 1}, {Time: 400, TID: 1}, {Time: 350, TID: 1}, {Time: 600, TID: 1}}, Interval{400, 600}},
		{"of other tasks", []IdleMoment{{Time: 400, TID: 2}, {Time: 600, TID: 0}}, Interval{300, 700}},
		{"outside of what other pokes prove", []IdleMoment{{Time: 200, TID: 1}, {Time: 800, TID: 1}}, Interval{300, 700}},
		{"at the time of the poke: before or after", []IdleMoment{{Time: 500, TID: 1}}, Interval{300, 700}},
		{"between two pokes, which are of different batches then", []IdleMoment{{Time: 505, TID: 1}}, Interval{300, 505}},
	} {
		w := NewWindows(slices.Clone(pokes), tt.idle, false)
		got := w.At(0x200, 1, 500)
		if len(got) != 1 || got[0].Proven != tt.want {
			t.Errorf("%s: %+v, want %v", tt.name, got, tt.want)
		}
		for _, win := range got {
			if win.Estimate.From < win.Proven.From || win.Estimate.To > win.Proven.To {
				t.Errorf("%s: the estimate %v is not inside %v", tt.name, win.Estimate, win.Proven)
			}
		}
	}
}

// TestBatches: which pokes are shown as one batch. A number is a step of the address
// and of the time, in a run of pokes by one task.
func TestBatches(t *testing.T) {
	const pause = 1_000_000
	run := func(steps ...uint64) (pokes []InPlacePoke) {
		at := uint64(1000)
		for i, s := range steps {
			at += s
			pokes = append(pokes, InPlacePoke{at, 0x1000 + 16*uint64(i), 1, 5, PokeBatch, 0})
		}
		return pokes
	}
	full := func(n int) []uint64 { return slices.Repeat([]uint64{100}, n) }
	for _, tt := range []struct {
		name  string
		pokes []InPlacePoke
		want  []int
	}{
		{"up to 256 without regard to pauses", run(slices.Concat(full(100), []uint64{pause}, full(100))...), []int{201}},
		{"full batches, and the rest", run(slices.Concat(full(256), []uint64{pause}, full(255), []uint64{pause}, full(40))...), []int{256, 256, 41}},
		{"records are missing in the second", run(slices.Concat(full(256), []uint64{pause}, full(200), []uint64{pause}, full(255), []uint64{pause}, full(9))...), []int{256, 201, 256, 10}},
		{"full ones without a pause", run(full(600)...), []int{256, 256, 88}},
		{"alone", []InPlacePoke{{10, 1, 1, 5, PokeBatch, 0}, {20, 2, 1, 5, PokeBatch, PokeAlone}, {30, 3, 1, 5, PokeBatch, PokeAlone}, {40, 4, 1, 5, PokeBatch, 0}, {50, 5, 1, 5, PokeBatch, 0}}, []int{1, 1, 1, 2}},
		{"two tasks", []InPlacePoke{{10, 1, 1, 5, PokeBatch, 0}, {20, 2, 2, 5, PokeBatch, 0}, {30, 3, 2, 5, PokeBatch, 0}}, []int{1, 2}},
	} {
		var got []int
		for _, begins := range NewWindows(tt.pokes, nil, false).Batches() {
			if begins {
				got = append(got, 0)
			}
			got[len(got)-1]++
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: batches of %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestEstimate: how far the estimate of a window reaches from the records of its
// batch.
func TestEstimate(t *testing.T) {
	// A hundred lone pokes, 100 µs apart: that is a slow batch. Then pauses of 10 s.
	var pokes []InPlacePoke
	at := uint64(0)
	add := func(step, addr uint64) {
		at += step
		pokes = append(pokes, InPlacePoke{at, addr, 1, 5, PokeBatch, 0})
	}
	for i := range uint64(400) {
		add(100_000, 0x9000-16*i)
	}
	const second = 1_000_000_000
	add(10*second, 0x100)
	add(10*second, 0x050)
	lone := at
	add(10*second, 0x010)
	for i := range uint64(9) { // ten places
		add(10_000, 0x020+16*i)
	}
	last := at
	add(10*second, 0x005)
	w := NewWindows(pokes, nil, false)
	if w.slow < 100_000 || w.slow > 115_000 {
		t.Fatalf("a slow batch takes %d ns, want a little more than 100,000", w.slow)
	}
	for _, tt := range []struct {
		name     string
		addr, at uint64
		want     Interval
	}{
		{"lone pokes in a row: parts of the times between", 0x9000 - 16*5, 600_000, Interval{600_000 - 90_000, 600_000 + 80_000}},
		{"a lone poke: as long as eight slow ones", 0x050, lone, Interval{lone - 8*w.slow, lone + 8*w.slow}},
		{"a batch: half its length, and six slow ones", 0x020, last - 80_000, Interval{last - 90_000 - 50_000 - 6*w.slow, last + 50_000 + 6*w.slow}},
	} {
		got := w.At(tt.addr, 1, tt.at)
		if !slices.ContainsFunc(got, func(w Window) bool { return w.Estimate == tt.want }) {
			t.Errorf("%s: %+v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestManyShortRuns: pokes of several CPUs that are interleaved are kept as one run, with the
// windows that they have as runs of the file.
func TestManyShortRuns(t *testing.T) {
	const cpus, each = 4, 500
	var pokes, byTime []InPlacePoke
	for cpu := range uint64(cpus) {
		for i := range uint64(each) {
			pokes = append(pokes, InPlacePoke{Time: 1000 + i*cpus + cpu, Addr: 0x1000 + i%7*16, TID: 5, Len: 5, Kind: PokeBatch})
		}
	}
	for i := range pokes {
		byTime = append(byTime, pokes[i%cpus*each+i/cpus])
	}
	w := NewWindows(slices.Clone(pokes), nil, false)
	if len(w.runs) != 1 {
		t.Errorf("%d runs, want 1", len(w.runs))
	}
	for i := range byTime {
		if got := w.at(i); got.Time != byTime[i].Time || got.Addr != byTime[i].Addr {
			t.Fatalf("poke %d is %v, want %v", i, *got, byTime[i])
		}
	}
	// Two rounds of a few CPUs are kept as they are in the file.
	long := NewWindows(slices.Concat(byTime[1000:], byTime[:1000]), nil, false)
	if len(long.runs) != 2 {
		t.Errorf("%d runs, want 2", len(long.runs))
	}
	for i := range byTime {
		if got := long.at(i); got.Time != byTime[i].Time || got.Addr != byTime[i].Addr {
			t.Fatalf("poke %d of long runs is %v, want %v", i, *got, byTime[i])
		}
	}
}
