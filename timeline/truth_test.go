// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

var (
	truthSeed  = flag.Uint64("truth.first", 0, "the first seed of TestTruth")
	truthCount = flag.Int("truth.seeds", 15_000, "how many seeds TestTruth takes")
)

// TestTruth makes small histories of a few bytes that code comes to, changes and leaves, on CPUs
// whose clocks differ, or count ticks only, or lose records. What is known must be what was there. It
// knows nothing of the rules, only what was there when.
func TestTruth(t *testing.T) {
	checkTiny(t, foundSeeds, func(seed uint64) tinyHistory {
		w := newTinyWorld(seed)
		w.run()
		return w
	})
}

// TestTruthOfSkewedText is TestTruth for kernel text that CPUs change whose clocks differ: nothing comes or goes there.
func TestTruthOfSkewedText(t *testing.T) {
	checkTiny(t, []uint64{204488, 1086, 1579, 2673, 1061063, 1062004, 9013574}, func(seed uint64) tinyHistory {
		w := newTinyWorld(seed)
		w.runText()
		return w
	})
}

// TestTruthOfCountedText is TestTruthOfSkewedText where all orders of the changes are hardly ever looked at.
func TestTruthOfCountedText(t *testing.T) {
	checkTiny(t, []uint64{1673}, func(seed uint64) tinyHistory {
		w := newTinyWorld(seed)
		w.more = []string{"limit orders=1"}
		w.runText()
		return w
	})
}

// TestTruthOnAnyClock is TestTruth and TestTruthOfSkewedText by the clock of each CPU: what is known at a time must have
// been there when any of them showed that time, if anything shows that they differ.
func TestTruthOnAnyClock(t *testing.T) {
	checkTiny(t, []uint64{1083103, 2179049, 3008185, 4050565, 5104639}, func(seed uint64) tinyHistory {
		w := newTinyWorld(seed)
		w.more, w.anyClock = []string{"skew-at-least 50000000"}, true
		w.losesText, w.long = seed%8 == 1, seed%16 == 9
		if seed%2 == 0 {
			w.run()
		} else {
			w.runText()
		}
		return w
	})
}

// TestTruthOfSlots is TestTruth for slots that are made and removed again and again in pages that stay, as those
// of kprobes are. All orders are hardly ever looked at: a page has too many records.
func TestTruthOfSlots(t *testing.T) {
	checkTiny(t, nil, func(seed uint64) tinyHistory {
		w := newTinyWorld(seed)
		if w.losesText = seed%4 == 1; seed%8 > 1 {
			w.more = []string{"limit orders=1"}
		}
		if w.anyClock = seed%3 == 0; w.anyClock {
			w.more = append(w.more, "skew-at-least 50000000")
		}
		w.runSlots()
		return w
	})
}

// TestTruthBehindLosses is TestTruth of code that comes and goes before a loss, meanwhile, and behind it, by CPUs whose
// clocks differ. Nothing happens shortly before the loss begins or ends: what clocks mean for these is not looked at.
func TestTruthBehindLosses(t *testing.T) {
	checkTiny(t, nil, func(seed uint64) tinyHistory {
		w := newTinyWorld(seed)
		if w.losesCode = true; seed%2 == 0 {
			w.more = []string{"limit orders=1"}
		}
		if w.anyClock = seed%3 == 0; w.anyClock {
			w.more = append(w.more, "skew-at-least 50000000")
		}
		w.run()
		return w
	})
}

// foundSeeds are of histories that many records together explain in a way that no two of them show (orders.go).
var foundSeeds = []uint64{
	16499, 33470, 43619, 52083, 62114, 62828, 71571, 71736, 79577, 82671, 85007, 93872, 98529,
	102890, 109701, 113403, 114792, 129612, 138017, 146597, 154717, 165654, 169912, 172977,
	184104, 214967, 224980, 240505, 241096, 241994, 244085, 245429, 246626, 248873, 250248,
	256526, 265514, 272928, 275984, 277323, 280779, 285298, 287898, 292488, 1027928, 1121657,
	1121852, 1453344, 1618405, 1792062, 1894398, 1906033, 1943851, 2039420, 2217534, 3328641,
	4070646, 5557130, 7041941, 9192109,
}

// A tinyHistory is what happened, and what was recorded of it.
type tinyHistory interface {
	// check compares what is known with what was there: the first fault, how many versions are known, and
	// how many there are.
	check(t *testing.T) (fault string, known, all uint64)
	history() string
}

// checkTiny checks the histories of as many seeds as the flags say, and of others.
func checkTiny(t *testing.T, others []uint64, make func(seed uint64) tinyHistory) {
	n := *truthCount
	if testing.Short() {
		n /= 10
	}
	bad := 0
	var known, all uint64
	seeds := slices.Clone(others)
	for k := range uint64(n) {
		seeds = append(seeds, *truthSeed+k)
	}
	for _, seed := range seeds {
		w := make(seed)
		fault, k, a := w.check(t)
		known, all = known+k, all+a
		if fault == "" {
			continue
		}
		if bad++; bad <= 3 {
			t.Errorf("seed %d: %s\n%s", seed, fault, w.history())
		}
	}
	if bad > 3 {
		t.Errorf("%d seeds of %d have faults", bad, len(seeds))
	}
	t.Logf("%d of %d versions are known", known, all)
}

// imageOf makes an image of facts, lines as testdata/rules/README.md describes them.
// Of some addresses only, if there are ranges.
func imageOf(t *testing.T, facts []string, only ...Range) *Image {
	b := NewBuilder()
	b.Only(only)
	r := &factReader{b: b, names: new(nameTable)}
	for _, f := range facts {
		if err := r.add(f); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
	}
	im, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// A tinyWorld is a kernel of a few bytes with the records that it makes. Times are true ones, from
// 0 on, unless they are said to be of a clock.
type tinyWorld struct {
	*rand.Rand
	now        uint64
	offsets    []uint64 // of each CPU's clock
	resolution uint64
	differ     bool
	words      int      // that code is made of
	more       []string // facts
	anyClock   bool     // see TestTruthOnAnyClock
	losesText  bool     // records of text too, which is not looked at if nothing shows that clocks differ
	long       bool     // there are more changes, more time is between them, and more is lost
	copies     int      // further copies of text that are still to be made
	losesCode  bool     // see TestTruthBehindLosses
	losing     int
	lost       struct {
		cpu      int
		from, to uint64
	}

	// Of text: what perf copied of it, nil if nothing, and by when.
	text     bool
	copied   []byte
	executed *tinyRecord

	bytes   [tinySize]byte
	stores  []tinyStore
	objects []*tinyObject
	records []tinyRecord
	ids     int
}

const (
	tinyBase = 0x9000
	tinySize = 16
	tinyBoot = 1_000_000_000 // what a clock without an offset shows at time 0
)

// A tinyStore is one write of a few bytes.
type tinyStore struct {
	at, offset uint64
	data       []byte
}

// A tinyObject is code that is there.
type tinyObject struct {
	lo, n       uint64
	ool         bool
	name        string
	id          int
	dead, freed bool
	fetched     bool
	load        tinyRecord
	unload      *tinyRecord
	code        []byte // as perf fetched it
	born        bool
}

// A tinyRecord is one that the kernel made.
type tinyRecord struct {
	at   uint64
	cpu  int
	fact string // with %d for the time of the clock
}

func newTinyWorld(seed uint64) *tinyWorld {
	w := &tinyWorld{Rand: rand.New(rand.NewPCG(seed, 99))}
	most := [...]uint64{0, 0, 40e3, 5e6, 50e6}[w.IntN(5)]
	for range 2 + w.IntN(2) {
		w.offsets = append(w.offsets, w.Uint64N(most+1))
	}
	if w.IntN(4) == 0 { // the kernel counts the ticks of all CPUs
		w.resolution, most = 4e6, 0
		clear(w.offsets)
	}
	w.differ = most > 0 || w.resolution > 0 || w.IntN(2) == 0
	w.lost.cpu = -1
	w.words = 2 + w.IntN(3)
	return w
}

// clock returns what a CPU's clock shows.
func (w *tinyWorld) clock(cpu int, at uint64) uint64 {
	t := tinyBoot + at + w.offsets[cpu]
	if w.resolution > 1 {
		t -= t % w.resolution
	}
	return t
}

func (w *tinyWorld) pause(least, most uint64) {
	// Short pauses are as likely as long ones.
	span := least
	longer := 3
	if w.long {
		longer = 5
	}
	for span < most && w.IntN(longer) > 0 {
		span *= 4
	}
	w.now += least + w.Uint64N(min(span, most)+1)
}

func (w *tinyWorld) store(offset uint64, data []byte) {
	w.stores = append(w.stores, tinyStore{w.now, offset, slices.Clone(data)})
	copy(w.bytes[offset:], data)
}

func (w *tinyWorld) record(cpu int, format string, args ...any) {
	w.records = append(w.records, tinyRecord{at: w.now, cpu: cpu, fact: fmt.Sprintf(format, args...)})
}

func (w *tinyWorld) cpu() int { return w.IntN(len(w.offsets)) }

// word returns two bytes of which there are few.
func (w *tinyWorld) word() []byte {
	return [][]byte{{0x0f, 0x1f}, {0xe8, 0x11}, {0xe8, 0x22}, {0xeb, 0x02}}[w.IntN(w.words)]
}

func (w *tinyWorld) run() {
	for range 4 + w.IntN(16) {
		switch k := w.IntN(10); {
		case k < 3:
			w.bear()
		case k < 7:
			w.change(w.any(func(o *tinyObject) bool { return o.born && !o.freed && (!o.dead || w.IntN(4) == 0) }))
		case k < 9:
			w.kill(w.any(func(o *tinyObject) bool { return o.born && !o.dead }))
		default:
			w.free(w.any(func(o *tinyObject) bool { return o.dead && !o.freed }))
		}
		w.pause(1e3, 300e6)
		// Where clocks differ unseen, when a loss begins and ends is not certain either (docs/truth.md).
		switch {
		case !w.losesCode:
		case w.lost.cpu < 0 && w.IntN(3) == 0:
			w.apart()
			w.lost.cpu, w.lost.from, w.lost.to = w.cpu(), w.now, MaxTime
			w.losing = 1 + w.IntN(6)
			w.now += 1e3
		case w.losing > 0:
			if w.losing--; w.losing == 0 {
				w.lost.to = w.now
				w.apart()
			}
		}
		if !w.losesCode && w.lost.cpu < 0 && w.lost.to == 0 && slices.Max(w.offsets) == 0 && w.IntN(20) == 0 {
			w.lost.cpu, w.lost.from = w.cpu(), w.now
			w.lost.to = w.now + 1 + w.Uint64N(100e6)
		}
		if w.IntN(3) == 0 {
			w.fetch()
		}
		if w.copies > 0 && w.IntN(4) == 0 {
			w.copyText()
		}
	}
	w.pause(1e3, 1e9)
	for cpu := range w.offsets {
		w.now += 1e3
		w.record(cpu, "")
	}
}

// apart lets nothing but a record of each CPU come for longer than clocks differ, on either side.
func (w *tinyWorld) apart() {
	w.now += 200e6
	for cpu := range w.offsets {
		w.record(cpu, "")
	}
	w.now += 200e6
}

// runSlots makes slots, changes some, and removes them.
func (w *tinyWorld) runSlots() {
	for cpu := range w.offsets {
		w.now += 1e3
		w.record(cpu, "")
	}
	const n = 4 // a slot's bytes
	changed := w.IntN(8) == 0
	w.resolution = 0
	lives := make([]bool, tinySize/n)
	w.record(0, "birth %%d %#x+%d ool page cpu=0", tinyBase, tinySize)
	for range 6 + w.IntN(24) {
		slot := w.IntN(1 + w.IntN(len(lives)))
		cpu, at := w.cpu(), n*uint64(slot)
		w.now += 1e3
		switch {
		case !lives[slot]:
			code := slices.Concat(w.word(), w.word())
			w.record(cpu, "poke %%d %#x - -> %x cpu=%d", tinyBase+at, code, cpu)
			w.store(at, code)
			lives[slot] = true
		case changed && w.IntN(4) == 0: // as the code of ftrace's trampolines is
			w.poke(cpu, at+2*w.Uint64N(2))
		default:
			w.record(cpu, "poke %%d %#x %x -> - cpu=%d", tinyBase+at, w.bytes[at:at+n], cpu)
			w.store(at, slices.Repeat([]byte{0xdd}, n))
			lives[slot] = false
		}
		w.now += 1e3
		w.pause(1e3, 300e6)
		if w.losesText && w.lost.cpu < 0 && w.IntN(4) == 0 {
			w.lost.cpu, w.lost.from = w.cpu(), w.now
			w.lost.to = w.now + 1 + w.Uint64N(100e6)
		}
	}
	w.pause(1e3, 1e9)
	for cpu := range w.offsets {
		w.now += 1e3
		w.record(cpu, "")
	}
}

// runText changes kernel text. Some changes are of two words: a probe that is optimised.
func (w *tinyWorld) runText() {
	w.text = true
	for at := uint64(0); at < tinySize; at += 2 {
		w.store(at, w.word())
	}
	for cpu := range w.offsets {
		w.now += 1e3
		w.record(cpu, "")
	}
	copied, changes, few := w.IntN(3), 12, 4
	if w.long {
		changes, few = 30, 2
	}
	for k := range 3 + w.IntN(changes) {
		if copied > 0 && w.copied == nil && w.IntN(3) == 0 {
			w.copied = slices.Clone(w.bytes[:])
		}
		if w.copied != nil && w.executed == nil && w.IntN(2) == 0 {
			w.now += 1e3
			w.record(w.cpu(), "")
			r := w.records[len(w.records)-1]
			w.executed = &r
		}
		if w.copies > 0 && w.IntN(4) == 0 {
			w.copyText()
		}
		w.pokeText(4 * w.Uint64N(1+uint64(k%2)))
		w.pause(1e3, 300e6)
		if w.losesText && w.lost.cpu < 0 && w.IntN(few) == 0 {
			w.lost.cpu, w.lost.from = w.cpu(), w.now
			w.lost.to = w.now + 1 + w.Uint64N(100e6)
		}
	}
	w.pause(1e3, 1e9)
	for cpu := range w.offsets {
		w.now += 1e3
		w.record(cpu, "")
	}
	if w.executed == nil {
		w.executed = &w.records[len(w.records)-1]
	}
}

// copyText makes a further copy of text. Whoever makes it reads the clock of some CPU before, and of some CPU after that.
func (w *tinyWorld) copyText() {
	w.copies--
	calm := [...]uint64{1e3, 60e6}[w.IntN(2)] // or other changes are close to it
	w.pause(calm, 300e6)
	from := w.clock(w.cpu(), w.now)
	w.pause(1e3, 3e6)
	text := slices.Clone(w.bytes[:])
	w.pause(1e3, 3e6)
	to := w.clock(w.cpu(), w.now)
	w.more = append(w.more, fmt.Sprintf("copy %d..%d %#x=%x", from, max(from, to), tinyBase, text))
	w.pause(calm, 300e6)
}

// pokeText changes two bytes, or four.
func (w *tinyWorld) pokeText(at uint64) {
	if w.IntN(3) > 0 {
		w.poke(w.cpu(), at)
		return
	}
	old, new := slices.Clone(w.bytes[at:at+4]), slices.Concat(w.word(), w.word())
	if bytes.Equal(old, new) {
		return
	}
	w.now += 1e3
	cpu := w.cpu()
	w.record(cpu, "poke %%d %#x %x -> %x cpu=%d", tinyBase+at, old, new, cpu)
	w.store(at, new)
	w.now += 1e3
}

func (w *tinyWorld) any(of func(*tinyObject) bool) *tinyObject {
	var list []*tinyObject
	for _, o := range w.objects {
		if of(o) {
			list = append(list, o)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[w.IntN(len(list))]
}

// bear makes code where there is none.
func (w *tinyWorld) bear() {
	o := &tinyObject{lo: 4 * w.Uint64N(3), n: 4 + 2*w.Uint64N(2), ool: w.IntN(3) == 0, name: "bpf_prog_" + string(rune('a'+w.IntN(2)))}
	if o.ool {
		o.name = "slot"
	}
	for _, x := range w.objects {
		if !x.freed && x.lo < o.lo+o.n && o.lo < x.lo+x.n {
			return
		}
	}
	w.objects = append(w.objects, o)
	var code []byte
	for uint64(len(code)) < o.n {
		code = append(code, w.word()...)
	}
	w.store(o.lo, code)
	w.pause(1e3, 3e6)
	cpu := w.cpu()
	kind := "bpf"
	switch {
	case o.ool:
		kind = "ool"
	case w.IntN(3) == 0: // a tail call
		w.poke(cpu, o.lo+2*w.Uint64N(o.n/2))
		w.pause(1e3, 3e6)
	}
	w.migrate(&cpu)
	w.record(cpu, "birth %%d %#x+%d %s %s cpu=%d", tinyBase+o.lo, o.n, kind, o.name, cpu)
	o.born = true
	w.pause(1e3, 1e5)
	if o.ool {
		w.record(cpu, "poke %%d %#x - -> %x cpu=%d", tinyBase+o.lo, w.bytes[o.lo:o.lo+o.n], cpu)
		return
	}
	w.migrate(&cpu)
	w.ids++
	w.record(cpu, "")
	o.id, o.load = w.ids, w.records[len(w.records)-1]
}

// migrate lets a task go on on another CPU.
func (w *tinyWorld) migrate(cpu *int) {
	if w.IntN(8) == 0 {
		*cpu = w.cpu()
	}
}

func (w *tinyWorld) change(o *tinyObject) {
	if o != nil {
		w.poke(w.cpu(), o.lo+2*w.Uint64N(o.n/2))
	}
}

// poke changes two bytes.
func (w *tinyWorld) poke(cpu int, at uint64) {
	old := slices.Clone(w.bytes[at : at+2])
	new := w.word()
	for bytes.Equal(old, new) { // the kernel does not write what is there already
		new = w.word()
	}
	trap := slices.Clone(old)
	trap[0] = 0xcc
	if w.IntN(16) == 0 {
		w.fetchAs(at, trap)
	}
	w.now += 1e3
	w.record(cpu, "poke %%d %#x %x -> %x cpu=%d", tinyBase+at, old, new, cpu)
	w.store(at, new)
	w.now += 1e3
	if w.IntN(16) == 0 {
		w.fetchAs(at, []byte{0xcc, new[1]})
	}
}

// kill ends code. Its memory stays for a while.
func (w *tinyWorld) kill(o *tinyObject) {
	if o == nil {
		return
	}
	cpu, kind := w.cpu(), "bpf"
	if o.ool {
		kind = "ool"
		w.record(cpu, "poke %%d %#x %x -> - cpu=%d", tinyBase+o.lo, w.bytes[o.lo:o.lo+o.n], cpu)
		w.pause(1e3, 1e5)
	}
	w.record(cpu, "death %%d %#x+%d %s %s cpu=%d", tinyBase+o.lo, o.n, kind, o.name, cpu)
	o.dead = true
	if !o.ool {
		w.pause(1e3, 1e5)
		w.migrate(&cpu)
		w.record(cpu, "")
		r := w.records[len(w.records)-1]
		o.unload = &r
	}
	if w.IntN(2) == 0 {
		w.pause(1e3, 30e6)
		w.free(o)
	}
}

func (w *tinyWorld) free(o *tinyObject) {
	if o == nil || o.freed {
		return
	}
	w.store(o.lo, slices.Repeat([]byte{0xdd}, int(o.n)))
	o.freed = true
}

// fetch lets perf read a program that it has not read.
func (w *tinyWorld) fetch() { w.fetchAs(0, nil) }

// fetchAs is fetch while there are these bytes.
func (w *tinyWorld) fetchAs(at uint64, b []byte) {
	o := w.any(func(o *tinyObject) bool {
		return o.id > 0 && !o.dead && !o.fetched && o.lo <= at && at < o.lo+o.n || b == nil && o.id > 0 && !o.dead && !o.fetched
	})
	if o == nil || o.fetched {
		return
	}
	memory := w.bytes
	copy(memory[at:], b)
	o.fetched, o.code = true, slices.Clone(memory[o.lo:o.lo+o.n])
}

// facts returns what perf's recording has.
func (w *tinyWorld) facts() []string {
	out := []string{"text 0x1000..0x2000"}
	if w.text {
		out[0] = "text 0x1000..0xa000"
	}
	first, horizon := MaxTime, uint64(0)
	type timed struct {
		at   uint64
		fact string
	}
	var all []timed
	var before, after uint64
	for _, r := range w.records {
		t := w.clock(r.cpu, r.at)
		if r.cpu == w.lost.cpu {
			switch {
			case r.at < w.lost.from:
				before = t
			case r.at < w.lost.to:
				continue
			case after == 0:
				after = t
			}
		}
		first, horizon = min(first, t), max(horizon, t)
		if r.fact != "" {
			all = append(all, timed{t, fmt.Sprintf(r.fact, t)})
		}
	}
	out = append(out, fmt.Sprintf("extent %d..%d", first, horizon))
	if w.copied != nil {
		out = append(out, fmt.Sprintf("snapshot %d..%d %#x=%x", first, w.clock(w.executed.cpu, w.executed.at), tinyBase, w.copied))
	}
	if w.differ {
		out = append(out, "clocks-may-differ")
	}
	out = append(out, w.more...)
	if w.lost.cpu >= 0 {
		if after == 0 {
			after = MaxTime
		} else if w.resolution > 1 {
			after++
		}
		if w.resolution > 1 {
			before -= min(before, 1)
		}
		out = append(out, fmt.Sprintf("gap pokes %d..%d after-loss", before, after), fmt.Sprintf("gap symbols %d..%d after-loss", before, after))
	}
	slices.SortStableFunc(all, func(a, b timed) int { return cmp.Compare(a.at, b.at) })
	for _, f := range all {
		out = append(out, f.fact)
	}
	for _, o := range w.objects {
		if !o.fetched || w.isLost(&o.load) {
			continue
		}
		f := fmt.Sprintf("program %d id=%d %#x=%x", w.clock(o.load.cpu, o.load.at), o.id, tinyBase+o.lo, o.code)
		if o.unload != nil && !w.isLost(o.unload) {
			f += fmt.Sprintf(" unloaded=%d", w.clock(o.unload.cpu, o.unload.at))
		}
		out = append(out, f)
	}
	return out
}

// isLost reports whether the recording lacks a record.
func (w *tinyWorld) isLost(r *tinyRecord) bool {
	return r.cpu == w.lost.cpu && w.lost.from <= r.at && r.at < w.lost.to
}

// history returns the facts, and what was there when.
func (w *tinyWorld) history() string {
	var b strings.Builder
	fmt.Fprintf(&b, "clocks differ by %d, resolution %d\n", w.offsets, w.resolution)
	for _, f := range w.facts() {
		fmt.Fprintln(&b, f)
	}
	fmt.Fprintln(&b, "made, by a clock without an offset:")
	for _, r := range w.records {
		fmt.Fprintf(&b, "\t%d cpu %d: %s\n", tinyBoot+r.at, r.cpu, r.fact)
	}
	for _, s := range w.stores {
		fmt.Fprintf(&b, "\t%d store %#x %x\n", tinyBoot+s.at, tinyBase+s.offset, s.data)
	}
	return b.String()
}

// surely returns the true times at which the clocks of all CPUs show a time of [since, until).
func (w *tinyWorld) surely(since, until uint64) (from, to uint64, ok bool) {
	lo, hi := slices.Min(w.offsets), slices.Max(w.offsets)
	if since > 0 {
		since = max(since, tinyBoot+hi) // before, the recording has not begun
		from = since - lo - tinyBoot
		if w.resolution > 1 { // the first reading that is not less
			from = (since+w.resolution-1)/w.resolution*w.resolution - lo - tinyBoot
		}
	}
	to = MaxTime
	if until < MaxTime {
		if until < tinyBoot+hi {
			return 0, 0, false
		}
		to = until - hi - tinyBoot
		if w.resolution > 1 {
			last := (until + w.resolution - 1) / w.resolution * w.resolution // the first reading that is too late
			if last < tinyBoot+hi {
				return 0, 0, false
			}
			to = last - hi - tinyBoot
		}
	}
	return from, to, from < to
}

// perhaps returns the true times at which the clock of some CPU may show a time of [since, until), while it records.
func (w *tinyWorld) perhaps(since, until uint64) (from, to uint64, ok bool) {
	lo, hi := slices.Min(w.offsets), slices.Max(w.offsets)
	since = max(since, tinyBoot+hi)
	from, to = since-hi-tinyBoot, MaxTime
	if until < MaxTime {
		to = max(until, tinyBoot+lo) - lo - tinyBoot
	}
	return from, to, from < to
}

// tick returns the first and the last true time at which all clocks may show what one of them shows at a
// true time. What happens in that time happens at one moment of a clock of ticks.
func (w *tinyWorld) tick(at uint64) (from, to uint64) {
	from, to = at, at
	if w.resolution > 1 {
		for _, o := range w.offsets {
			in := (tinyBoot + at + o) % w.resolution
			from, to = min(from, at-min(at, in)), max(to, at+w.resolution-in)
		}
	}
	return from, to
}

// check compares what is known with what was there.
func (w *tinyWorld) check(t *testing.T) (fault string, known, all uint64) {
	im := imageOf(t, w.facts())
	if w.losesText && len(im.Skews()) == 0 {
		return "", 0, 0 // when a loss begins and ends is not certain then (docs/truth.md)
	}
	for a := range uint64(tinySize) {
		var buf [1]byte
		for v := range im.Versions(tinyBase+a, buf[:], 0, MaxTime) {
			all++
			if v.Standing != Known {
				continue
			}
			known++
			from, to, ok := w.surely(v.Since, v.Until)
			if w.anyClock && w.resolution == 0 && len(im.Skews()) > 0 {
				from, to, ok = w.perhaps(v.Since, v.Until)
			}
			if !ok {
				continue
			}
			was, since := byte(0), uint64(0)
			tell := func(end uint64) {
				if end < MaxTime {
					end, _ = w.tick(end)
				}
				if was != buf[0] && max(from, since) < min(to, end) && fault == "" {
					fault = fmt.Sprintf("at %#x: known %02x from %d until %d, but %02x at %d", tinyBase+a, buf[0], v.Since, v.Until, was, tinyBoot+max(from, since))
				}
			}
			for _, s := range w.stores {
				if s.offset <= a && a < s.offset+uint64(len(s.data)) && s.data[a-s.offset] != was {
					tell(s.at)
					was = s.data[a-s.offset]
					_, since = w.tick(s.at)
				}
			}
			tell(MaxTime)
		}
	}
	return fault, known, all
}
