// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/timeline"
)

var (
	laterSeed  = flag.Uint64("later.first", 0, "the first seed of TestTruthOfLaterFiles")
	laterCount = flag.Uint64("later.seeds", 1000, "how many seeds TestTruthOfLaterFiles takes")
)

// A laterFile is what a later file of perf record --switch-output has of a few places of text, and what was there.
// Times are true ones, from 0 on, unless they are said to be of a clock.
type laterFile struct {
	*rand.Rand
	offsets []uint64 // of each CPU's clock
	drained []uint64 // when perf had read what each CPU recorded for the file before
	records []laterRecord
}

type laterRecord struct {
	at       uint64
	cpu      int
	addr     uint64 // of the poke; 0: it is another record
	old, new byte
}

const (
	laterBoot   = 1_000_000_000 // what a clock without an offset shows at time 0
	laterLo     = 0x1100        // the first place
	laterStep   = 0x40
	laterPlaces = 4
)

func newLaterFile(seed uint64) *laterFile {
	f := &laterFile{Rand: rand.New(rand.NewPCG(seed, 97))}
	most := [...]uint64{0, 40e3, 5e6, 50e6}[f.IntN(4)]
	at := uint64(200e6)
	for range 2 + f.IntN(2) {
		f.offsets = append(f.offsets, f.Uint64N(most+1))
		at += 1e3 + f.Uint64N(1+[...]uint64{1e5, 30e6}[f.IntN(2)])
		f.drained = append(f.drained, at)
	}
	bytes := make(map[uint64]byte) // less one
	calm := at + f.Uint64N(60e6)   // when the kernel hardly changes anything any more
	for at = 190e6; at < 500e6; {
		pause := [...]uint64{2e6, 50e6}[f.IntN(2)]
		if at < calm {
			pause = 4e6
		}
		at += 1e3 + f.Uint64N(pause)
		r := laterRecord{at: at, cpu: f.IntN(len(f.offsets))}
		if f.IntN(2) == 0 && (at < calm || f.IntN(16) == 0) {
			r.addr = laterLo + laterStep*f.Uint64N(laterPlaces)
			old := bytes[r.addr]
			bytes[r.addr] = (old + 1 + byte(f.IntN(2))) % 3
			r.old, r.new = old+1, bytes[r.addr]+1
		}
		f.records = append(f.records, r)
	}
	for cpu := range f.offsets {
		at += 1e3
		f.records = append(f.records, laterRecord{at: at, cpu: cpu})
	}
	return f
}

// load reads the file.
func (f *laterFile) load(t *testing.T) *Replay {
	w := newTape(t)
	w.cmdline = "perf record -a --kcore --switch-output=1s -- true"
	w.events[0].cpus = nil
	for cpu := range f.offsets {
		w.events[0].cpus = append(w.events[0].cpus, int64(cpu))
	}
	w.available, w.online = uint32(len(f.offsets)), uint32(len(f.offsets))
	own := slices.Clone(f.records)
	slices.SortStableFunc(own, func(a, b laterRecord) int { return cmp.Compare(a.cpu, b.cpu) })
	for _, r := range own {
		id, time := uint64(10+r.cpu), laterBoot+r.at+f.offsets[r.cpu]
		switch {
		case r.at < f.drained[r.cpu]: // the file before has it
		case r.addr != 0:
			w.poke(id, time, r.addr, fmt.Sprintf("90%02x", r.old), fmt.Sprintf("90%02x", r.new))
		default:
			w.tick(id, time)
		}
	}
	return w.replay()
}

// check compares what is known with what was there: the first fault, and for how long something is known.
func (f *laterFile) check(t *testing.T) (fault string, known uint64) {
	r := f.load(t)
	lo, hi := slices.Min(f.offsets), slices.Max(f.offsets)
	for addr := uint64(laterLo); addr < laterLo+laterStep*laterPlaces; addr += laterStep {
		var b [1]byte
		for v := range r.Image.Versions(addr+1, b[:], 0, timeline.MaxTime) {
			if v.Standing != timeline.Known || v.Until < laterBoot+hi {
				continue
			}
			// When all clocks show a time of its validity.
			from, to := v.Since-min(v.Since, laterBoot+lo), v.Until-hi-laterBoot
			known += v.Until - v.Since
			was, since := byte(1), uint64(0)
			tell := func(end uint64) {
				if was != b[0] && max(from, since) < min(to, end) && fault == "" {
					fault = fmt.Sprintf("at %#x: known %02x from %d until %d, but %02x at %d", addr, b[0], v.Since, v.Until, was, laterBoot+max(from, since))
				}
			}
			for _, x := range f.records {
				if x.addr == addr {
					tell(x.at)
					was, since = x.new, x.at
				}
			}
			tell(timeline.MaxTime)
		}
	}
	return fault, known
}

// TestTruthOfLaterFiles makes small histories of a later file: perf reads the ring buffers one after the other before
// it begins, while CPUs whose clocks differ change text. What is known must be what was there. It knows nothing of the
// rules.
func TestTruthOfLaterFiles(t *testing.T) {
	bad, known := 0, uint64(0)
	// Each of the first ones is of a file that lacks a change which its changes would need to be in another order.
	seeds := []uint64{507800, 511827, 513073, 517308, 600946, 611376, 614078, 695766}
	for k := range *laterCount {
		seeds = append(seeds, *laterSeed+k)
	}
	for _, seed := range seeds {
		f := newLaterFile(seed)
		fault, k := f.check(t)
		if known += k; fault == "" {
			continue
		}
		if bad++; bad <= 3 {
			t.Errorf("seed %d: %s\nclocks %d, read at %d\n%+v", seed, fault, f.offsets, f.drained, f.records)
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d seeds have faults", bad, len(seeds))
	}
	t.Logf("%d ms are known", known/1e6)
}
