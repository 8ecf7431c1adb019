// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/timeline"
)

// TestGapList: neighbours of one time and kind become one row, with the bytes of all, in whatever order
// their ranges are added; no others do.
func TestGapList(t *testing.T) {
	memory := []byte{1, 2, 1, 1, 2, 1, 7} // of an image: what follows a content is of others
	contents := [][]byte{nil, memory[0:1], memory[1:2], memory[2:4], memory[4:6]}
	joined := 0
	for seed := range uint64(2_000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		type part struct {
			gap
			answer gapAnswer
		}
		var ranges [][]part
		for at := int64(0); len(ranges) < 30; at += int64(rng.IntN(8) / 7) {
			length := 1 + rng.Int64N(2)
			var parts []part
			for since := rng.Int64N(3); since < 6; {
				until := since + 1 + rng.Int64N(3)
				p := part{gap: gap{offset: at, length: length, since: since, until: until}}
				p.answer.standing, p.answer.reason = timeline.Unconfirmed, timeline.Reason(rng.IntN(5)/4)
				switch k := rng.IntN(8); {
				case k < 5 && length == 1:
					p.answer.bytes = contents[k/2]
				case k < 5:
					p.answer.bytes = contents[[...]int{0, 3, 4}[k/2]]
				case k == 5:
					p.answer.candidates, p.answer.hasCandidates = [][]byte{{1}, {2}}, true
				}
				p.answer.hasBytes = p.answer.bytes != nil
				parts = append(parts, p)
				since = until + int64(rng.IntN(4)/3)
			}
			ranges = append(ranges, parts)
			at += length
		}
		list := func(order []int) (rows []gapRow) {
			var l gapList
			for _, i := range order {
				for _, p := range ranges[i] {
					p.gap.answer = l.number(&p.answer)
					l.add(p.gap)
				}
				if len(ranges[i]) > 0 {
					l.endRange(ranges[i][0].offset, ranges[i][0].length)
				}
			}
			l.join()
			for i := range l.gaps {
				rows = append(rows, l.row(i, "r"))
			}
			return rows
		}
		got := list(rng.Perm(len(ranges)))
		inOrder := make([]int, len(ranges))
		for i := range inOrder {
			inOrder[i] = i
		}
		if again := list(inOrder); !reflect.DeepEqual(got, again) {
			t.Fatalf("seed %d: rows %+v, in another order %+v", seed, again, got)
		}
		// Each byte has the answers that were given, and no row could be joined with another one.
		type point struct{ at, time int64 }
		type said struct {
			reason     string
			b          byte
			has        bool
			candidates int
			from       int64 // of the range, if there are candidates: they are of all of it
		}
		want, have := make(map[point]said), make(map[point]said)
		for _, parts := range ranges {
			for _, p := range parts {
				for k := range p.length {
					for at := p.since; at < p.until; at++ {
						s := said{reason: p.answer.reason.String(), candidates: len(p.answer.candidates), has: p.answer.hasBytes}
						if s.has {
							s.b = p.answer.bytes[k]
						}
						if s.candidates > 0 {
							s.from = p.offset
						}
						want[point{p.offset + k, at}] = s
					}
				}
			}
		}
		for i, g := range got {
			for k := range g.Length {
				for at := g.Since; at < g.Until; at++ {
					s := said{reason: g.Reason, candidates: len(g.Candidates), has: g.Bytes != nil}
					if s.has {
						s.b = g.Bytes[k]
					}
					if s.candidates > 0 {
						s.from = g.Offset
					}
					have[point{g.Offset + k, at}] = s
				}
			}
			if g.Length > 2 {
				joined++
			}
			if slices.ContainsFunc(got[i+1:], func(o gapRow) bool {
				return o.Offset == g.Offset+g.Length && o.Since == g.Since && o.Until == g.Until && o.Reason == g.Reason &&
					o.Candidates == nil && g.Candidates == nil && (o.Bytes == nil) == (g.Bytes == nil)
			}) {
				t.Fatalf("seed %d: %+v is not joined with the next one", seed, g)
			}
		}
		if !reflect.DeepEqual(have, want) {
			t.Fatalf("seed %d: the rows say something else: %+v", seed, got)
		}
	}
	if !slices.Equal(memory, []byte{1, 2, 1, 1, 2, 1, 7}) {
		t.Errorf("the image has other bytes: %v", memory)
	}
	if joined < 1_000 {
		t.Errorf("only %d rows are of several ranges", joined)
	}
}
