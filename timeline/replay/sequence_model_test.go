// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"testing"

	"github.com/textreplay/textreplay/internal/patching"
	"pgregory.net/rapid"
)

// TestSequencesModel compares the states of two sites over random histories with the
// words that the pokes left, and the sequences with the pokes.
func TestSequencesModel(t *testing.T) {
	const (
		toOne = patching.PowerpcB | patching.PowerpcLink | 0x100
		toTwo = patching.PowerpcB | patching.PowerpcLink | 0x200
	)
	first := []uint32{patching.PowerpcNOP, patching.PowerpcMFLR, patching.PowerpcTrap}
	second := []uint32{patching.PowerpcNOP, toOne, toTwo, patching.PowerpcTrap}
	rapid.Check(t, func(rt *rapid.T) {
		w := newTape(t)
		w.arch = "ppc64le"
		w.ticks(100, 200)
		hex := func(word uint32) string {
			return fmt.Sprintf("%02x%02x%02x%02x", byte(word), byte(word>>8), byte(word>>16), byte(word>>24))
		}
		type done struct {
			time, addr uint64
			old, new   uint32
		}
		var pokes []done
		now := map[uint64]uint32{}
		for time := uint64(300); time < 300+10*rapid.Uint64Range(1, 30).Draw(rt, "pokes"); time += 10 {
			addr := rapid.SampledFrom([]uint64{0x1100, 0x1104, 0x1200, 0x1204}).Draw(rt, "addr")
			words := first
			if addr&4 != 0 {
				words = second
			}
			old, ok := now[addr]
			if !ok {
				old = patching.PowerpcNOP
			}
			new := rapid.SampledFrom(words).Draw(rt, "new")
			if new == old {
				continue
			}
			now[addr] = new
			pokes = append(pokes, done{time, addr, old, new})
			w.poke(10, time, addr, hex(old), hex(new))
		}
		w.ticks(1000, 1100)
		s := w.replay().Sequences()

		for _, site := range []uint64{0x1100, 0x1200} {
			// A place that is poked was a nop before. Other places are unknown.
			var words [2]uint32
			tracked := false
			for _, p := range pokes {
				if p.addr&^4 == site {
					words[p.addr>>2&1] = patching.PowerpcNOP
					tracked = tracked || p.addr == site && p.old != patching.PowerpcTrap && p.new != patching.PowerpcTrap
				}
			}
			// Without a poke, whether the first word is a site depends on its other bytes.
			if !tracked {
				continue
			}
			at := func(time uint64) {
				for _, addr := range []uint64{site, site + 7} {
					st, ok := s.At(addr, time)
					if !ok || st.Site != site || st.Words != words || time < st.During.From || time >= st.During.To {
						rt.Fatalf("%#x at %d: %+v %v, want the words %#x", addr, time, st, ok, words)
					}
					if st.Legal == (words[0] == patching.PowerpcNOP && patching.IsPowerpcBL(words[1])) {
						rt.Fatalf("%#x at %d: %v legal: %v", addr, time, &st, st.Legal)
					}
				}
			}
			at(0)
			for _, p := range pokes {
				if p.addr&^4 != site {
					continue
				}
				at(p.time - 1)
				words[p.addr>>2&1] = p.new
				at(p.time)
				q := s.Of(p.addr, p.time)
				steps := p.old != patching.PowerpcTrap && p.new != patching.PowerpcTrap
				if (q != nil) != steps && p.addr == site {
					rt.Fatalf("the poke of %#x at %d is of %+v", p.addr, p.time, q)
				}
			}
		}
		last := uint64(0)
		for q := range s.All() {
			if q.Begin() < last || q.End() < q.Begin() || len(q.Steps) > 2 {
				rt.Fatalf("%+v", q)
			}
			last = q.Begin()
			if !q.Complete || len(q.Steps) < 2 {
				continue
			}
			from, to := q.Steps[0], q.Steps[1]
			if q.Kind == SequenceDisable {
				from, to = to, from
			}
			// The first word's step is the earlier one when enabling, the later one when disabling.
			if from.Addr != q.Site || to.Addr != q.Site+4 || !q.Legal {
				rt.Fatalf("%+v", q)
			}
		}
	})
}

// TestSequenceProbed: a probe leaves another word than it found, which ends the current
// sequence. Its branch is then at a site without the mflr.
func TestSequenceProbed(t *testing.T) {
	w := newTape(t)
	w.arch = "ppc64le"
	w.ticks(100, 200)
	const nop, mflr, trap, bl = "00000060", "a602087c", "0800e07f", "01010048"
	w.poke(10, 300, 0x1200, nop, mflr)
	w.poke(10, 310, 0x1200, mflr, trap)
	w.poke(10, 320, 0x1200, trap, nop)
	w.poke(10, 330, 0x1204, nop, bl)
	w.ticks(1000, 1100)
	s := w.replay().Sequences()
	q := s.Of(0x1204, 330)
	if q == nil || q.Complete || q.Legal {
		t.Errorf("%+v, want one that is neither complete nor legal", q)
	}
	if st, ok := s.At(0x1200, 400); !ok || st.Legal {
		t.Errorf("%+v, want a state that is not legal", st)
	}
}

// TestSequenceUnrecorded: after an unrecorded change of each of the two words, no state is left
// from before both of them were seen again.
func TestSequenceUnrecorded(t *testing.T) {
	w := newTape(t)
	w.arch = "ppc64le"
	w.ticks(100, 200)
	const nop, mflr, bl, other = "00000060", "a602087c", "01010048", "01020048"
	w.poke(10, 300, 0x1200, nop, mflr)
	w.poke(10, 310, 0x1204, nop, bl)
	w.poke(10, 500, 0x1200, nop, mflr) // the word was mflr
	w.poke(10, 600, 0x1204, nop, other)
	w.ticks(1000, 1100)
	s := w.replay().Sequences()
	for _, at := range []uint64{400, 550} {
		if st, ok := s.At(0x1200, at); ok {
			t.Errorf("at %d: %+v, want none", at, st)
		}
	}
	if st, ok := s.At(0x1200, 700); !ok || st.String() != "(mflr, bl)" {
		t.Errorf("at 700: %+v", st)
	}
}
