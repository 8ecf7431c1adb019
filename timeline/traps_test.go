// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTrapPieces: places where a copy may have a trap are the same in whatever pieces it is looked through.
// Half of the text is INT3, NOPs and branches to functions, so places and padding lie side by side.
func TestTrapPieces(t *testing.T) {
	defer func(size int) { trapPieceSize = size }(trapPieceSize)
	rng := rand.New(rand.NewPCG(1, 2))
	places, pieces := 0, 0
	for range 200 {
		const lo = 0x1000
		text := make([]byte, 600)
		for at := 0; at < len(text); {
			rest := text[at:]
			switch rng.IntN(6) {
			case 0:
				at += copy(rest, []byte{int3, 0x1f, 0x44, 0, 0})
			case 1:
				at += copy(rest, slices.Repeat([]byte{int3}, 1+rng.IntN(7)))
			case 2:
				target := lo + uint64(rng.IntN(len(text)))&^(functionAlign-1)
				rel := binary.LittleEndian.AppendUint32([]byte{int3}, uint32(target-(lo+uint64(at)+trapSize)))
				at += copy(rest, rel)
			case 3:
				at += copy(rest, []byte{int3, 0x1f})
			default:
				rest[0] = byte(rng.IntN(256))
				at++
			}
		}
		b := NewBuilder()
		b.Text(lo, lo+uint64(len(text)))
		d := newBuild(b, siteIndex{})
		segments := []Segment{{lo, text}}
		trapPieceSize = len(text)
		want := d.findTraps(segments, nil)
		for _, size := range []int{1, 7, 64} {
			trapPieceSize = size
			cut := cutForTraps(nil, segments[0])
			at := 0
			for _, p := range cut {
				if p.from != at || p.to <= at {
					t.Fatalf("a piece [%d, %d) behind %d", p.from, p.to, at)
				}
				at = p.to
			}
			if at != len(text) {
				t.Fatalf("the pieces end at %d of %d", at, len(text))
			}
			if got := d.findTraps(segments, nil); !slices.Equal(got, want) {
				t.Fatalf("in pieces of %d: %x, in one %x: % x", size, got, want, text)
			}
			pieces += len(cut)
		}
		places += len(want)
	}
	if places < 1000 || pieces < 10000 {
		t.Errorf("only %d places, in %d pieces", places, pieces)
	}
}
